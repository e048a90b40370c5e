/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of the library's logic, seeded from outside by wrapping its functions when linking:
 * the explorer must find each of them, and nothing without. (Missing flushes and fences are the
 * mutation run's; faults of a small log of its own are in test_explore.c.)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "run.h"

enum fault {
	FAULT_NONE,
	FAULT_CHECKSUM,	     /* all checksums are the same: none is looked at */
	FAULT_NO_REPLAY,     /* recovery drops what the journal holds */
	FAULT_TAIL_LEFT,     /* a torn append is not cleared */
	FAULT_NO_CLEAR,	     /* blocks for logs are not cleared before use */
	FAULT_LEAK,	     /* freed blocks are lost until the next recovery */
	FAULT_FALSE_CLEAN,   /* the superblock says clean while mounted */
	FAULT_SLOT_REUSE,    /* recovery takes all inode slots for free */
	FAULT_SPACE_LOST,    /* recovery does not find single free blocks */
	FAULT_SPACE_USED,    /* recovery takes a used block for free */
	FAULT_REC_SHORT,     /* a record's checksum leaves out its last word */
	FAULT_JOURNAL_SHORT, /* the last line of a journal record stays in the cache */
	FAULT_SEQUENCE,	     /* records of a log are not numbered */
	FAULT_NO_FLUSH,	     /* words are stored and not flushed */
	FAULT_NO_FENCE,	     /* every other fence is left out */
	FAULT_DATA_LATE,     /* blocks of data are stored behind the record that names them */
	FAULT_AREA_LATE,     /* a slot's area is stored behind the head word that names it */
	FAULT_RECORD_LATE,   /* records are stored behind their fence */
	FAULT_HALF,	     /* the second half of what is copied is lost in the cache */
	FAULTS
};

static const char *const names[FAULTS] = {
    [FAULT_NONE] = "none",
    [FAULT_CHECKSUM] = "checksums are not looked at",
    [FAULT_NO_REPLAY] = "the journal is not replayed",
    [FAULT_TAIL_LEFT] = "torn appends are not cleared",
    [FAULT_NO_CLEAR] = "log blocks are not cleared",
    [FAULT_LEAK] = "freed blocks are lost",
    [FAULT_FALSE_CLEAN] = "clean is said while mounted",
    [FAULT_SLOT_REUSE] = "inode slots are taken for free",
    [FAULT_SPACE_LOST] = "free blocks are not found",
    [FAULT_SPACE_USED] = "a used block is taken for free",
    [FAULT_REC_SHORT] = "a record's last word is not covered",
    [FAULT_JOURNAL_SHORT] = "the journal record is cut short",
    [FAULT_SEQUENCE] = "records are not numbered",
    [FAULT_NO_FLUSH] = "words are not flushed",
    [FAULT_NO_FENCE] = "every other fence is left out",
    [FAULT_DATA_LATE] = "data is stored after its record",
    [FAULT_AREA_LATE] = "an area is stored after its head word",
    [FAULT_RECORD_LATE] = "records are stored after their fence",
    [FAULT_HALF] = "half of a copy stays in the cache",
};

static enum fault fault;

/* ---- the wrapped functions ---- */

uint64_t __real_hash64(const void *p, size_t len, uint64_t seed);
uint64_t __wrap_hash64(const void *p, size_t len, uint64_t seed);
uint64_t __wrap_hash64(const void *p, size_t len, uint64_t seed)
{
	if (fault == FAULT_CHECKSUM)
		return 0x1234;
	if (fault == FAULT_REC_SHORT && len > 16 && len < 600)
		len -= 8;
	return __real_hash64(p, len, seed);
}

int __real_journal_replay(struct pmemfs *fs, uint64_t *ret);
int __wrap_journal_replay(struct pmemfs *fs, uint64_t *ret);
int __wrap_journal_replay(struct pmemfs *fs, uint64_t *ret)
{
	if (fault != FAULT_NO_REPLAY)
		return __real_journal_replay(fs, ret);
	*ret = 0;
	return 0;
}

int __real_log_note_tail(struct pmemfs *fs, struct log *l);
int __wrap_log_note_tail(struct pmemfs *fs, struct log *l);
int __wrap_log_note_tail(struct pmemfs *fs, struct log *l)
{
	return fault == FAULT_TAIL_LEFT ? 0 : __real_log_note_tail(fs, l);
}

void __real_media_clear(struct media *m, uint64_t off, size_t len);
void __wrap_media_clear(struct media *m, uint64_t off, size_t len);
void __wrap_media_clear(struct media *m, uint64_t off, size_t len)
{
	if (fault != FAULT_NO_CLEAR)
		__real_media_clear(m, off, len);
}

void __real_free_runs(struct pmemfs *fs, const struct extvec *x);
void __wrap_free_runs(struct pmemfs *fs, const struct extvec *x);
void __wrap_free_runs(struct pmemfs *fs, const struct extvec *x)
{
	if (fault != FAULT_LEAK)
		__real_free_runs(fs, x);
}

int __real_super_write(struct media *m, struct pmemfs_super *sb);
int __wrap_super_write(struct media *m, struct pmemfs_super *sb);
int __wrap_super_write(struct media *m, struct pmemfs_super *sb)
{
	if (fault == FAULT_FALSE_CLEAN)
		sb->state = put32(get32(sb->state) | PMEMFS_STATE_CLEAN);
	return __real_super_write(m, sb);
}

void __real_itable_set_used(struct pmemfs *fs, uint64_t ino);
void __wrap_itable_set_used(struct pmemfs *fs, uint64_t ino);
void __wrap_itable_set_used(struct pmemfs *fs, uint64_t ino)
{
	if (fault != FAULT_SLOT_REUSE)
		__real_itable_set_used(fs, ino);
}

void __real_alloc_add(struct pmemfs *fs, uint64_t block, uint64_t n);
void __wrap_alloc_add(struct pmemfs *fs, uint64_t block, uint64_t n);
void __wrap_alloc_add(struct pmemfs *fs, uint64_t block, uint64_t n)
{
	if (fault == FAULT_SPACE_LOST && n == 1)
		return;
	if (fault == FAULT_SPACE_USED && n > 4)
		__real_alloc_add(fs, block - 1, n + 1);
	else
		__real_alloc_add(fs, block, n);
}

int __real_journal_commit(struct pmemfs *fs, struct journal_buf *b, void **ret_slot);
int __wrap_journal_commit(struct pmemfs *fs, struct journal_buf *b, void **ret_slot);
static bool in_journal;
int __wrap_journal_commit(struct pmemfs *fs, struct journal_buf *b, void **ret_slot)
{
	in_journal = true;
	int r = __real_journal_commit(fs, b, ret_slot);
	in_journal = false;
	return r;
}

void __real_media_copy(struct media *m, uint64_t off, const void *src, size_t len);
void __wrap_media_copy(struct media *m, uint64_t off, const void *src, size_t len);

/* Copies that come behind the next fence. */
static struct late {
	struct media *m;
	uint64_t off;
	size_t len;
	char *bytes;
} late[64];
static unsigned lates;

static bool hold_back(struct media *m, uint64_t off, const void *src, size_t len)
{
	bool data = len % PMEMFS_BLOCK_SIZE == 0, area = len == PMEMFS_AREA_SIZE;
	if (in_journal || lates == 64 ||
	    !((fault == FAULT_DATA_LATE && data) || (fault == FAULT_AREA_LATE && area) ||
	      (fault == FAULT_RECORD_LATE && !data && !area)))
		return false;
	late[lates] = (struct late){m, off, len, malloc(len)};
	if (!late[lates].bytes)
		abort();
	memcpy(late[lates++].bytes, src, len);
	return true;
}

int __real_media_fence(struct media *m);
int __wrap_media_fence(struct media *m);
int __wrap_media_fence(struct media *m)
{
	static unsigned count;
	int r = 0;
	if (fault != FAULT_NO_FENCE || count++ % 2)
		r = __real_media_fence(m);
	for (unsigned i = 0; i < lates; i++) {
		__real_media_copy(late[i].m, late[i].off, late[i].bytes, late[i].len);
		free(late[i].bytes);
	}
	lates = 0;
	return r;
}

void __real_media_flush(struct media *m, uint64_t off, size_t len);
void __wrap_media_flush(struct media *m, uint64_t off, size_t len);
void __wrap_media_flush(struct media *m, uint64_t off, size_t len)
{
	if (fault != FAULT_NO_FLUSH)
		__real_media_flush(m, off, len);
}

void __wrap_media_copy(struct media *m, uint64_t off, const void *src, size_t len)
{
	size_t cut = 0;
	if (hold_back(m, off, src, len))
		return;
	if (fault == FAULT_JOURNAL_SHORT && in_journal && len > 128)
		cut = 64;
	if (fault == FAULT_HALF && !in_journal && len >= 64 && len < PMEMFS_BLOCK_SIZE)
		cut = len / 16 * 8;
	__real_media_copy(m, off, src, len - cut);
	for (size_t i = 0; i + 8 <= cut; i += 8) {
		uint64_t v;
		memcpy(&v, (const char *)src + len - cut + i, 8);
		media_store8(m, off + len - cut + i, v);
	}
}

void __real_rec_seal(struct pmemfs_rec *rec, uint64_t seed, uint32_t seq, uint64_t more);
void __wrap_rec_seal(struct pmemfs_rec *rec, uint64_t seed, uint32_t seq, uint64_t more);
void __wrap_rec_seal(struct pmemfs_rec *rec, uint64_t seed, uint32_t seq, uint64_t more)
{
	__real_rec_seal(rec, seed, fault == FAULT_SEQUENCE ? 1 : seq, more);
}

/* ---- the run ---- */

static struct trial trial;
static struct starts starts;
static struct workload w;

static const struct {
	enum family family;
	unsigned from, stride;
} suite[] = {
    {FAMILY_CORPUS, 0, 1}, {FAMILY_SEQ1, 0, STARTS}, {FAMILY_SEQ1, START_AGED, STARTS}};

/* The number of workloads until one fails; 0: none does. */
static unsigned explore(const struct run_options *o, char *why, size_t len)
{
	unsigned n = 0, op;
	for (size_t s = 0; s < sizeof(suite) / sizeof(suite[0]); s++) {
		uint64_t size = family_size(suite[s].family, 0);
		for (uint64_t i = suite[s].from; i < size; i += suite[s].stride) {
			workload_make(&w, suite[s].family, i, o->seed);
			seen_clear(&trial.seen);
			n++;
			if (run_workload(&trial, &starts, &w, o, &op) == 0)
				continue;
			snprintf(why, len, "%s: %.*s", w.name, (int)strcspn(trial.why, "\n"),
				 trial.why);
			return n;
		}
		if (fault == FAULT_NONE && s == 0)
			break; /* that the rest passes, other tests show */
	}
	return 0;
}

int main(void)
{
	struct run_options o = run_defaults;
	char why[1024] = "";
	int failed = 0;
	o.limit = 128;
	o.pairs = 32;
	o.random = 8;
	o.depth = 1;
	o.fsck_every = 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (trial_open(&trial) || starts_make(&starts, &trial)) {
		printf("FAILED: no start images: %s\n", trial.why);
		return 1;
	}
	run_configure(&trial, &o);
	for (fault = FAULT_NONE; fault < FAULTS; fault++) {
		unsigned n = explore(&o, why, sizeof(why));
		bool right = (n > 0) == (fault != FAULT_NONE);
		printf("%s %-36s %s%s\n", right ? "ok  " : "FAIL", names[fault],
		       n ? why : "nothing is found", "");
		failed += !right;
	}
	fault = FAULT_NONE;
	workload_free(&w);
	starts_free(&starts);
	trial_close(&trial);
	return failed ? 1 : 0;
}
