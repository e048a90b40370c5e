/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tiny log: at 0 the tail (number of records), at 64 a journal word, at 128 a counter, at
 * 4096 records of 128 bytes: number, value, checksum, then copies of the value. Operation k
 * appends a record of value 1000 + k. What is legal after k operations: the first k records.
 */
#include "tiny.h"

#include <stdio.h>
#include <string.h>

const char *const tiny_names[TINY_FAULTS] = {
    [TINY_RIGHT] = "right",
    [TINY_CHECKED] = "right, one fence and a checksum",
    [TINY_NO_FLUSH] = "missing flush",
    [TINY_NO_DATA_FENCE] = "missing fence between record and tail",
    [TINY_NO_LAST_FENCE] = "missing fence at the end",
    [TINY_SWAPPED] = "tail before record",
    [TINY_IN_PLACE] = "edit in place",
    [TINY_STRAY] = "store round the media layer",
    [TINY_UNCHECKED] = "checksum not looked at",
    [TINY_WRONG_TAIL] = "wrong tail",
    [TINY_EARLY_REUSE] = "early reuse",
    [TINY_HALF_FLUSH] = "second line not flushed",
    [TINY_UNDO_TWICE] = "recovery that is not idempotent",
    [TINY_RECOVERY_ORDER] = "recovery erases its journal too early",
    [TINY_RECOVERS_RIGHT] = "right, with a recovery that writes",
};

#define TAIL	0u
#define JOURNAL 64u
#define COUNTER 128u /* and a copy of it 64 bytes further */
#define RECORDS 4096u
#define WORDS	16u

static uint64_t load(const struct media *m, uint64_t off)
{
	uint64_t v = 0;
	media_read(m, off, &v, sizeof(v));
	return v;
}

static void make(uint64_t rec[WORDS], unsigned k)
{
	rec[0] = k + 1;
	for (unsigned i = 3; i < WORDS; i++)
		rec[i] = 1000 + k;
	rec[1] = 1000 + k;
	rec[2] = word_hash(k, rec[1]);
}

static bool whole(const struct media *m, unsigned k, bool checked)
{
	uint64_t rec[WORDS], want[WORDS];
	media_read(m, RECORDS + k * sizeof(rec), rec, sizeof(rec));
	make(want, k);
	return checked ? memcmp(rec, want, sizeof(rec)) == 0 : rec[0] == k + 1;
}

static void tail_set(struct media *m, uint64_t n, bool flush)
{
	media_store8(m, TAIL, n);
	if (flush)
		media_flush(m, TAIL, 8);
}

/* Cached stores, each line flushed but for the last of a half flush. */
static void record_put(struct tiny *t, unsigned k)
{
	struct media *m = t->x->media;
	uint64_t rec[WORDS], at = RECORDS + k * sizeof(rec);
	make(rec, k);
	for (unsigned i = 0; i < WORDS; i++)
		media_store8(m, at + 8 * i, rec[i]);
	media_flush(m, at, t->fault == TINY_HALF_FLUSH ? LINE_SIZE : sizeof(rec));
}

static void counter_set(struct media *m, uint64_t n)
{
	media_store8(m, COUNTER, n);
	media_store8(m, COUNTER + 64, n);
	media_flush(m, COUNTER, 128);
}

static void journal_set(struct media *m, uint64_t n)
{
	media_store8(m, JOURNAL, n);
	media_flush(m, JOURNAL, 8);
	media_fence(m);
}

/* The journal word says what the counter shall be (or, wrongly, what to add). */
static void op_counter(struct tiny *t, unsigned k)
{
	struct media *m = t->x->media;
	journal_set(m, t->fault == TINY_UNDO_TWICE ? 1 : k + 1);
	counter_set(m, k + 1);
	media_fence(m);
	journal_set(m, 0);
}

static void op_log(struct tiny *t, unsigned k)
{
	struct media *m = t->x->media;
	if (t->fault == TINY_SWAPPED) {
		tail_set(m, k + 1, true);
		media_fence(m);
	}
	record_put(t, t->fault == TINY_EARLY_REUSE && k ? k - 1 : k);
	if (t->fault == TINY_STRAY)
		t->x->live.mem[RECORDS + 8192] ^= 1;
	if (t->fault != TINY_NO_DATA_FENCE && t->fault != TINY_CHECKED &&
	    t->fault != TINY_UNCHECKED)
		media_fence(m);
	if (t->fault == TINY_IN_PLACE && k) {
		media_store8(m, RECORDS + (k - 1) * 128 + 8, 7);
		media_flush(m, RECORDS + (k - 1) * 128, 64);
		media_fence(m);
		record_put(t, k - 1);
	}
	if (t->fault == TINY_CHECKED || t->fault == TINY_UNCHECKED) {
		media_fence(m);
		return;
	}
	tail_set(m, k + 1 + (t->fault == TINY_WRONG_TAIL), t->fault != TINY_NO_FLUSH);
	if (t->fault != TINY_NO_LAST_FENCE)
		media_fence(m);
}

static bool recovers(enum tiny_fault f)
{
	return f == TINY_UNDO_TWICE || f == TINY_RECOVERY_ORDER || f == TINY_RECOVERS_RIGHT;
}

void tiny_op(struct tiny *t)
{
	if (recovers(t->fault))
		op_counter(t, t->done);
	else
		op_log(t, t->done);
	t->done++;
}

/* ---- recovery and its judge
 * ------------------------------------------------------------------ */

/* An interrupted operation is finished from the journal. */
static uint64_t recover_counter(struct tiny *t, struct media *m)
{
	uint64_t j = load(m, JOURNAL);
	if (j) {
		counter_set(m, t->fault == TINY_UNDO_TWICE ? load(m, COUNTER) + 1 : j);
		if (t->fault != TINY_RECOVERY_ORDER)
			media_fence(m);
		journal_set(m, 0);
	}
	return load(m, COUNTER) == load(m, COUNTER + 64) ? load(m, COUNTER) : UINT64_MAX;
}

static uint64_t recover_log(struct tiny *t, struct media *m)
{
	unsigned n = 0, limit = 64;
	bool by_tail = t->fault != TINY_CHECKED && t->fault != TINY_UNCHECKED;
	if (by_tail)
		limit = (unsigned)load(m, TAIL);
	while (n < limit && n < 64 && whole(m, n, t->fault != TINY_UNCHECKED))
		n++;
	if (by_tail && n != limit)
		return UINT64_MAX;
	for (unsigned k = 0; k < n; k++) {
		if (!whole(m, k, true))
			return UINT64_MAX;
	}
	return n;
}

static bool legal(void *arg, uint64_t digest, bool inside)
{
	const struct tiny *t = arg;
	return digest == t->done || (inside && digest + 1 == t->done);
}

static int judge(void *arg, struct crash_state *s)
{
	struct tiny *t = arg;
	s->digest =
	    recovers(t->fault) ? recover_counter(t, s->media) : recover_log(t, s->media);
	explore_recovered(s);
	t->judged++;
	if (legal(t, s->digest, s->inside))
		return 0;
	snprintf(s->why, sizeof(s->why), "%lld records, but %u operations %s",
		 (long long)s->digest, t->done, s->inside ? "at most" : "returned");
	return -1;
}

void tiny_begin(struct tiny *t, struct explorer *x, enum tiny_fault fault, int *start)
{
	*t = (struct tiny){.fault = fault, .x = x};
	*start = image_start_create(x->size);
	x->subject = (struct subject){.arg = t, .legal = legal, .judge = judge};
	explore_begin(x, *start, image_start_hash(*start, x->size));
}
