/* SPDX-License-Identifier: BSD-3-Clause */
/* The range map against an array with one entry a block, under random changes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "rangemap.h"

#define BLOCKS 5000u

static uint64_t mapped[BLOCKS]; /* block + 1; 0: nothing */

static unsigned below(unsigned n)
{
	return (unsigned)random() % n;
}

static void piece_gone(void *arg, const struct range *piece)
{
	for (uint64_t k = 0; k < piece->len; k++) {
		assert_int_equal(mapped[piece->start + k], range_block(piece) + k + 1);
		mapped[piece->start + k] = 0;
	}
}

/* Some ranges continue their neighbours, others do not. */
static void put(struct rangemap *m, uint64_t start, uint64_t len)
{
	uint64_t block = below(2) ? start + 7 : 1000 + below(100000);
	struct range r = {start, len,
			  (uint64_t)PMEMFS_EXT_UNWRITTEN << RANGE_FLAG_SHIFT | block, 0};
	struct range old;

	if (rangemap_replace(m, &r, &old)) {
		piece_gone(NULL, &old);
	} else {
		rangemap_cut(m, start, start + len, piece_gone, NULL);
		rangemap_insert(m, r);
	}
	for (uint64_t k = 0; k < len; k++)
		mapped[start + k] = block + k + 1;
}

static void take(struct rangemap *m, uint64_t len)
{
	struct range best;
	uint64_t start;

	if (!rangemap_take(m, len, below(BLOCKS), &start, &best)) {
		assert_true(best.len < len);
		return;
	}
	for (uint64_t k = 0; k < len; k++) {
		assert_int_not_equal(mapped[start + k], 0);
		mapped[start + k] = 0;
	}
}

static void compare(const struct rangemap *m)
{
	uint64_t total = 0, count = 0, end = 0, want = 0;
	struct range_cursor c;

	for (const struct range *r = rangemap_find(m, 0, &c); r; r = rangemap_next(m, &c)) {
		assert_true(r->start >= end);
		end = range_end(r);
		count++;
		total += r->len;
		for (uint64_t k = 0; k < r->len; k++)
			assert_int_equal(mapped[r->start + k], range_block(r) + k + 1);
	}
	for (unsigned k = 0; k < BLOCKS; k++)
		want += mapped[k] != 0;
	assert_int_equal(total, want);
	assert_int_equal(m->total, total);
	assert_int_equal(m->count, count);
	assert_int_equal(rangemap_last(m) ? range_end(rangemap_last(m)) : 0, end);
}

static void find_each(const struct rangemap *m)
{
	for (unsigned k = 0; k < 200; k++) {
		uint64_t key = below(BLOCKS), at = key;
		struct range_cursor c;
		const struct range *r = rangemap_find(m, key, &c);

		while (at < BLOCKS && !mapped[at])
			at++;
		assert_int_equal(r != NULL, at < BLOCKS);
		if (r)
			assert_true(r->start <= at && range_end(r) > at);
	}
}

static void random_changes(void **state)
{
	for (unsigned seed = 1; seed <= 20; seed++) {
		struct rangemap m = {0};

		srandom(seed);
		memset(mapped, 0, sizeof(mapped));
		for (unsigned i = 0; i < 20000; i++) {
			uint64_t start = below(BLOCKS), len = 1 + below(below(5) ? 3 : 60);

			len = len < BLOCKS - start ? len : BLOCKS - start;
			if (below(3))
				put(&m, start, len);
			else if (below(4))
				rangemap_cut(&m, start, start + len, piece_gone, NULL);
			else
				take(&m, len);
			if (i % 500 == 0) {
				compare(&m);
				find_each(&m);
			}
		}
		rangemap_free(&m);
		assert_null(rangemap_last(&m));
	}
}

/* Ranges merge only where blocks, flags and the places of checksums all go on. */
static void merging(void **state)
{
	struct rangemap m = {0};

	rangemap_insert(&m, (struct range){10, 5, 100, 8000});
	rangemap_insert(&m, (struct range){15, 5, 105, 8040});
	assert_int_equal(m.count, 1);
	rangemap_insert(&m, (struct range){20, 1, 110, 9000}); /* checksums elsewhere */
	assert_int_equal(m.count, 2);
	rangemap_insert(&m, (struct range){9, 1, 98, 7992}); /* block elsewhere */
	assert_int_equal(m.count, 3);
	rangemap_insert(
	    &m,
	    (struct range){21, 1, (uint64_t)PMEMFS_EXT_UNWRITTEN << RANGE_FLAG_SHIFT | 111, 0});
	assert_int_equal(m.count, 4);
	rangemap_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(random_changes),
	    cmocka_unit_test(merging),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
