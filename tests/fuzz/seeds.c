/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seed images: empty, or used a little or more; unmounted, left by a crash, or left by a crash
 * between a journal's commit and what it describes; without and with replicas, one with parity.
 * Which lines hold metadata the media's hook says: those that were stored to in pieces of less
 * than a block; and the superblocks, the heads of all slots, the saved free list. With parity,
 * lines of file data too.
 */
#include <errno.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl.h"
#include "cpu.h"
#include "fs.h"
#include "fuzz.h"

static struct {
	struct media *m;
	struct pmemfs *fs;
	uint8_t *image;
	bool seen[FUZZ_LINES];
	uint64_t twin[FUZZ_LINES]; /* byte offset of the line in the other copy */
	bool committed;
	bool freeze; /* as soon as a journal record is durable */
	int frozen;
} made;

/* A file with what is not zero. */
static int copy_image(void)
{
	static const uint8_t zero[PMEMFS_BLOCK_SIZE];
	int fd = memfd_create("pmemfs-fuzz", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, FUZZ_SIZE))
		abort();
	for (off_t at = 0; at < (off_t)FUZZ_SIZE; at += PMEMFS_BLOCK_SIZE)
		if (memcmp(made.image + at, zero, sizeof(zero)) &&
		    pwrite(fd, made.image + at, sizeof(zero), at) != (ssize_t)sizeof(zero))
			abort();
	return fd;
}

/* Whether this is a record of the journal. */
static bool is_journal(uint64_t off, size_t len)
{
	const struct pmemfs_journal *j = (const void *)(made.image + off);

	return off % PMEMFS_BLOCK_SIZE == 0 && len >= sizeof(*j) &&
	       get32(j->magic) == PMEMFS_JOURNAL_MAGIC;
}

static void hook(void *arg, enum media_event ev, uint64_t off, const void *bytes, size_t len)
{
	if (ev == MEDIA_EV_FENCE && made.freeze && made.committed) {
		made.frozen = copy_image();
		made.freeze = false;
	}
	if (ev == MEDIA_EV_FENCE || ev == MEDIA_EV_FLUSH || len >= PMEMFS_BLOCK_SIZE)
		return;
	made.committed |= made.freeze && is_journal(off, len);
	for (uint64_t line = off / 64; line <= (off + len - 1) / 64; line++)
		made.seen[line] = true;
}

#define MUST(call)                                                                    \
	do {                                                                          \
		int64_t r_ = (call);                                                  \
		if (r_ < 0) {                                                         \
			fprintf(stderr, "fuzz: %s: %s\n", #call, strerror(-(int)r_)); \
			abort();                                                      \
		}                                                                     \
	} while (0)

static uint64_t make(uint64_t dir, const char *name, uint32_t mode, const char *target)
{
	const struct pmemfs_cred cred = {0, 0};
	struct pmemfs_attr a;

	MUST(pmemfs_make(made.fs, dir, name, mode, 1, 2, target, &cred, &a));
	return a.ino;
}

static void fill(uint64_t ino, uint64_t off, size_t len)
{
	char *buf = malloc(len);

	memset(buf, 'x', len);
	MUST(pmemfs_write(made.fs, ino, off, buf, len, 0));
	free(buf);
}

/* A little of everything that a log can say. */
static void use(void)
{
	uint64_t d = make(1, "dir", S_IFDIR | 0755, NULL), f, g;
	char name[32];

	f = make(1, "file", S_IFREG | 0644, NULL);
	fill(f, 0, 100);
	fill(f, 8192, 10000);
	fill(f, 40000, 50);
	MUST(pmemfs_setxattr(made.fs, f, "user.a", "value", 5, 0));
	MUST(pmemfs_fallocate(made.fs, f, FALLOC_FL_KEEP_SIZE, 100000, 20000));
	MUST(pmemfs_fallocate(made.fs, f, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 9000,
			      5000));
	g = make(d, "long", S_IFREG | 0600, NULL);
	for (unsigned k = 0; k < 40; k++)
		fill(g, (uint64_t)(k * 7 % 40) * 4096, 4096);
	for (unsigned k = 0; k < 30; k++) {
		snprintf(name, sizeof(name), "entry %u", k);
		pmemfs_forget(made.fs, make(d, name, S_IFREG | 0644, NULL), 1);
		if (k % 3 == 0)
			MUST(pmemfs_unlink(made.fs, d, name));
	}
	pmemfs_forget(made.fs, make(1, "link", S_IFLNK | 0777, "dir/long"), 1);
	pmemfs_forget(made.fs, make(1, "dev", S_IFCHR | 0600, NULL), 1);
	pmemfs_forget(made.fs, make(d, "sub", S_IFDIR | 0700, NULL), 1);
	MUST(pmemfs_link(made.fs, f, d, "other", &(struct pmemfs_attr){0}));
	pmemfs_forget(made.fs, f, 1);
	MUST(pmemfs_rename(made.fs, d, "entry 1", 1, "moved", 0));
	MUST(pmemfs_quota_on(made.fs));
	for (uint32_t k = 0; k < 150; k++)
		MUST(pmemfs_quota_set(
		    made.fs,
		    &(struct pmemfs_quota){.kind = 1 + k % 2, .id = 1 + k, .block_limit = 1000},
		    PMEMFS_QUOTA_BLOCKS));
	pmemfs_forget(made.fs, f, 1);
	pmemfs_forget(made.fs, g, 1);
	pmemfs_forget(made.fs, d, 1);
}

/* An access list: a named user, a mask, and what every list has. */
static const uint16_t acl[] = {2,      0,      1,  7, 0xffff, 0xffff, 2,  6,
			       5,      0,      4,  5, 0xffff, 0xffff, 16, 7,
			       0xffff, 0xffff, 32, 4, 0xffff, 0xffff};

static void use_attributes(void)
{
	uint64_t d = make(1, "inherits", S_IFDIR | 0755, NULL), f;
	char name[32], value[3000];

	memset(value, 'v', sizeof(value));
	MUST(pmemfs_setxattr(made.fs, d, ACL_DEFAULT, acl, sizeof(acl), 0));
	f = make(d, "inherited", S_IFREG | 0666, NULL);
	MUST(pmemfs_setxattr(made.fs, f, ACL_ACCESS, acl, sizeof(acl), 0));
	for (unsigned k = 0; k < 20; k++) {
		snprintf(name, sizeof(name), "user.%u", k);
		MUST(pmemfs_setxattr(made.fs, f, name, value, k == 7 ? sizeof(value) : 10 * k,
				     0));
	}
	MUST(pmemfs_removexattr(made.fs, f, "user.3"));
	pmemfs_forget(made.fs, f, 1);
	pmemfs_forget(made.fs, d, 1);
	memset(value, 't', 400);
	value[400] = 0;
	pmemfs_forget(made.fs, make(1, "long link", S_IFLNK | 0777, value), 1);
}

/* A long directory, most of whose entries are gone; inodes that went, others that stay. */
static void use_names(void)
{
	uint64_t d = make(1, "many", S_IFDIR | 0755, NULL), f;
	struct pmemfs_attr a;
	char name[100];

	f = make(d, "target", S_IFREG | 0644, NULL);
	for (unsigned k = 0; k < 300; k++) {
		snprintf(name, sizeof(name), "a name of more than a cache line's length: %030u",
			 k);
		if (k % 10)
			MUST(pmemfs_link(made.fs, f, d, name, &a));
		else
			make(d, name, S_IFREG | 0600, NULL);
		pmemfs_forget(made.fs, f, k % 10 != 0);
	}
	for (unsigned k = 0; k < 250; k++) {
		snprintf(name, sizeof(name), "a name of more than a cache line's length: %030u",
			 k);
		if (k != 100)
			MUST(pmemfs_unlink(made.fs, d, name));
	}
	pmemfs_forget(made.fs, f, 1);
	pmemfs_forget(made.fs, d, 1);
}

/* A table by which a medium is written to; that of another CPU would not count. */
static void calibrate(void)
{
	made.fs->sb.calibration = (struct pmemfs_calibration){.valid = put32(1),
							      .cpu_model = put32(cpu_model()),
							      .copy = {{1, 2}},
							      .clear = {{2}}};
}

/* More of it, without quotas. */
static void use_more(void)
{
	uint64_t f = make(1, "extents", S_IFREG | 0644, NULL);

	for (unsigned k = 0; k < 200; k++)
		MUST(pmemfs_fallocate(made.fs, f, 0, k * 8192ull, 4096));
	fill(f, 4096, 4096);
	pmemfs_forget(made.fs, f, 1);
	use_attributes();
	use_names();
	calibrate();
}

static void use_and_remove(void)
{
	use_more();
	make(1, "orphan", S_IFREG | 0644, NULL); /* and its reference stays */
	MUST(pmemfs_unlink(made.fs, 1, "orphan"));
}

/* ---- operations of which the journal has the record, and no more was done ---- */

static uint64_t find(uint64_t dir, const char *name)
{
	struct pmemfs_attr a;

	MUST(pmemfs_lookup(made.fs, dir, name, &a));
	return a.ino;
}

static void last_rename(void)
{
	MUST(pmemfs_rename(made.fs, 1, "moved", 1, "again", 0));
}

static void last_unlink(void)
{
	MUST(pmemfs_unlink(made.fs, find(1, "dir"), "entry 4"));
}

static void last_make(void)
{
	make(find(1, "dir"), "made", S_IFREG | 0644, NULL);
}

static void last_exchange(void)
{
	MUST(pmemfs_rename(made.fs, find(1, "dir"), "sub", 1, "link", RENAME_EXCHANGE));
}

/* ---- noting where what is ---- */

static void note_slot(struct fuzz_seed *s, uint64_t ino, uint64_t off)
{
	s->slot = realloc(s->slot, (s->slots + 1) * sizeof(s->slot[0]));
	s->slot[s->slots++] = (struct fuzz_slot){ino, off};
}

static void note_slots(struct fuzz_seed *s)
{
	uint64_t off;

	s->shards = made.fs->shards;
	s->copies = made.fs->copies;
	s->journal = calloc(s->shards * PMEMFS_JOURNAL_SLOTS, sizeof(s->journal[0]));
	for (unsigned k = 0; k < s->shards * PMEMFS_JOURNAL_SLOTS; k++)
		s->journal[k] = super_journal_slot(&made.fs->sb, k / PMEMFS_JOURNAL_SLOTS,
						   k % PMEMFS_JOURNAL_SLOTS);
	for (unsigned k = 0; k < made.fs->shards; k++)
		note_slot(s, PMEMFS_INO_TABLE | k, super_table_slot(&made.fs->sb, k));
	note_slot(s, PMEMFS_INO_QUOTA, super_quota_slot(&made.fs->sb));
	for (uint64_t ino = 1; ino < 200; ino++)
		if (!itable_find(made.fs, ino, &off))
			note_slot(s, ino, off);
}

/* [off, off + len) has a copy `mirror` bytes on. */
static void note_twin(uint64_t off, uint64_t len, uint64_t mirror)
{
	for (uint64_t at = off; mirror && at < off + len; at += 64) {
		made.twin[at / 64] = at + mirror;
		made.twin[(at + mirror) / 64] = at;
	}
}

/* Mounts what was made, changing nothing of it. */
static void mount_copy(struct media **m, struct pmemfs **fs)
{
	const struct pmemfs_options o = {.recovery_threads = 1, .readonly = true};
	const char *why;

	MUST(media_open_memory(made.image, FUZZ_SIZE, MEDIA_SHADOW, m));
	MUST(pmemfs_mount(*m, &o, fs, &why));
}

static void note_twins(const struct fuzz_seed *s)
{
	enum log_end end;
	struct media *m;
	struct pmemfs *fs;

	mount_copy(&m, &fs);
	for (size_t k = 0; k < s->slots; k++) {
		struct inode *i = inode_new(s->slot[k].ino, s->slot[k].off);

		note_twin(i->slot, PMEMFS_SLOT_SIZE, fs->mirror);
		if (!inode_read(fs, i, true, &end))
			for (uint32_t n = 0; n < i->log.nseg; n++)
				note_twin(i->log.seg[n].block * PMEMFS_BLOCK_SIZE,
					  seg_bytes(fs, i->log.seg[n].blocks),
					  seg_mirror(fs, i->log.seg[n].blocks));
		inode_delete(i);
	}
	pmemfs_abandon(fs);
	media_close(m);
}

static void note_last(struct fuzz_seed *s, uint64_t off, uint64_t len)
{
	s->last = realloc(s->last, (s->lasts + 1) * sizeof(s->last[0]));
	s->last[s->lasts++] = (struct fuzz_range){off, len};
}

struct last {
	struct fuzz_seed *s;
	const struct log *log;
	struct fuzz_range range;
	uint64_t link;	/* directly before range, 0: none */
	bool rewritten; /* the record in range, as its predecessor says */
};

static int see_record(void *arg, const struct pmemfs_rec *rec, uint64_t off)
{
	struct last *l = arg;

	l->link = 0;
	l->rewritten = l->log->more || !l->range.len;
	if (l->range.len && off != l->range.off + l->range.len && !l->rewritten) {
		l->link = l->range.off + l->range.len;
		note_last(l->s, l->link + offsetof(struct pmemfs_link, block), 8);
	}
	l->range = (struct fuzz_range){off, rec_len(rec)};
	return 0;
}

/* In the image as it is going to be used. */
static void note_lasts(struct fuzz_seed *s)
{
	static const struct pmemfs_options o;
	struct fuzz_image *image = fuzz_image_new(s);
	const char *why;
	struct pmemfs_super sb;
	struct media *m;
	struct pmemfs *fs;

	MUST(media_open_memory(image->at, FUZZ_SIZE, MEDIA_SHADOW, &m));
	MUST(super_read(m, &sb, NULL, &why));
	fs = fs_new(m, &sb, &o);
	for (size_t k = 0; k < s->slots; k++) {
		uint64_t head[2];
		enum log_end end;
		struct log l;
		struct last last = {.s = s, .log = &l};

		if (head_read(fs, s->slot[k].off, false, head, NULL) < 0 ||
		    head_where(head[0]) == HEAD_FREE)
			continue;
		MUST(log_walk(fs, s->slot[k].ino, s->slot[k].off, head[0], false, see_record,
			      &last, &l, &end));
		log_free(&l);
		if (!last.rewritten)
			note_last(s, last.range.off, last.range.len);
		if (last.link)
			note_last(s, last.link, LOG_LINK_SIZE);
	}
	for (unsigned k = 0; k < s->shards * PMEMFS_JOURNAL_SLOTS; k++)
		note_last(s, s->journal[k], PMEMFS_BLOCK_SIZE);
	fs_delete(fs);
	media_close(m);
	fuzz_image_delete(image);
}

/* The first and the last whole line of a block of data: what is lost of it can be rebuilt. */
static void note_data_block(uint64_t block, uint32_t valid)
{
	uint64_t line = block * (PMEMFS_BLOCK_SIZE / 64), last = line + valid / 64 - 1;

	if (valid < 64)
		return;
	made.seen[line] = made.seen[last] = true;
	made.twin[line] = line * 64;
	made.twin[last] = last * 64;
}

static void note_data(const struct fuzz_seed *s)
{
	struct range_cursor c;
	enum log_end end;
	struct media *m;
	struct pmemfs *fs;

	mount_copy(&m, &fs);
	for (size_t k = 0; k < s->slots; k++) {
		struct inode *i = inode_new(s->slot[k].ino, s->slot[k].off);
		const struct range *r;

		if (!inode_read(fs, i, true, &end) && !inode_is_internal(i))
			for (r = rangemap_find(&i->extents, 0, &c); r;
			     r = rangemap_next(&i->extents, &c))
				for (uint64_t n = 0; n < r->len && !range_flags(r); n++)
					note_data_block(range_block(r) + n,
							data_valid(i->attr.size, r->start + n));
		inode_delete(i);
	}
	pmemfs_abandon(fs);
	media_close(m);
}

static void see_block(uint64_t block)
{
	const uint8_t *p = made.image + block * PMEMFS_BLOCK_SIZE;

	for (unsigned at = 0; at < PMEMFS_BLOCK_SIZE; at += 64)
		if (p[at] || memcmp(p + at, p + at + 1, 63))
			made.seen[block * (PMEMFS_BLOCK_SIZE / 64) + at / 64] = true;
}

static void note_lines(struct fuzz_seed *s)
{
	const struct pmemfs_super *sb = (const void *)made.image;

	see_block(PMEMFS_SB_BLOCK);
	see_block(PMEMFS_SB_REPLICA);
	if (get64(sb->saved_list))
		see_block(get64(sb->saved_list));
	/* beside its table's slot nothing is used; in the first it is the list of bad blocks */
	for (unsigned k = 0; k < s->shards; k++)
		made.seen[(super_table_slot(sb, k) + 5 * PMEMFS_SLOT_SIZE) / 64] = true;
	for (size_t k = 0; k < s->slots; k++) /* those of free slots too */
		made.seen[s->slot[k].off / 64] = true;
	for (uint64_t line = 0; line < FUZZ_LINES; line++) {
		if (!made.seen[line])
			continue;
		s->line = realloc(s->line, (s->lines + 1) * sizeof(s->line[0]));
		s->twin = realloc(s->twin, (s->lines + 1) * sizeof(s->twin[0]));
		s->twin[s->lines] = made.twin[line];
		s->line[s->lines++] = line * 64;
	}
}

static void mount_it(void)
{
	const struct pmemfs_options o = {.recovery_threads = 1};
	const char *why = "";

	MUST(pmemfs_mount(made.m, &o, &made.fs, &why));
}

static const struct kind {
	const char *name;
	void (*use)(void);
	void (*last)(void); /* frozen when its journal record is durable */
	bool crash, replica, parity;
} kinds[FUZZ_SEEDS] = {
    {"empty"},
    {"unmounted", use},
    {"crashed", use, .crash = true},
    {"journal", use, last_rename, .crash = true},
    {"replica", use, .replica = true},
    {"replica-crashed", use, .crash = true, .replica = true},
    {"replica-journal", use, last_unlink, .crash = true, .replica = true},
    {"journal-make", use, last_make, .crash = true},
    {"journal-exchange", use, last_exchange, .crash = true},
    {"more", use_more},
    {"more-crashed", use_and_remove, .crash = true},
    {"parity", use, .parity = true},
};

static void make_seed(struct fuzz_seed *s, const struct kind *k)
{
	const struct pmemfs_format_options format = {
	    .shards = 2, .now = 1, .seed = 1, .replica = k->replica, .parity = k->parity};

	memset(&made, 0, sizeof(made));
	made.image =
	    mmap(NULL, FUZZ_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (made.image == MAP_FAILED)
		abort();
	MUST(media_open_memory(made.image, FUZZ_SIZE, 0, &made.m));
	media_set_hook(made.m, hook, NULL);
	MUST(pmemfs_format(made.m, &format));
	mount_it();
	if (k->use)
		k->use();
	note_slots(s);
	if (k->last) {
		made.freeze = true;
		k->last();
	}
	if (k->crash)
		pmemfs_abandon(made.fs);
	else
		MUST(pmemfs_unmount(made.fs));
	if (k->replica)
		note_twins(s);
	if (k->parity)
		note_data(s);
	note_lines(s);
	s->name = k->name;
	s->fd = k->last ? made.frozen : copy_image();
	if (k->crash)
		note_lasts(s);
	media_close(made.m);
	munmap(made.image, FUZZ_SIZE);
}

const struct fuzz_seed *fuzz_seeds(void)
{
	static struct fuzz_seed seeds[FUZZ_SEEDS];

	if (!seeds[0].lines)
		for (unsigned k = 0; k < FUZZ_SEEDS; k++)
			make_seed(&seeds[k], &kinds[k]);
	return seeds;
}
