/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's file contents: holes, growing and shrinking, fallocate, seeking, limits. */
#include "corefs.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#define B     4096ull
#define TIB   (1ull << 40)
#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define KEEP  FALLOC_FL_KEEP_SIZE
#define ZERO  FALLOC_FL_ZERO_RANGE

static int falloc(struct corefs *c, uint64_t ino, int mode, uint64_t off, uint64_t len)
{
	return pmemfs_fallocate(c->fs, ino, mode, off, len);
}

static int64_t seek(struct corefs *c, uint64_t ino, uint64_t off, int whence)
{
	return pmemfs_seek(c->fs, ino, off, whence);
}

static uint64_t blocks(struct corefs *c, uint64_t ino)
{
	return attr_of(c, ino).blocks / 8;
}

/* ---- writing and reading ---- */

static void overwrites(void **state)
{
	static const size_t offs[] = {0, 1, 100, 4095, 4096, 4097, 8191, 12288, 20000};
	static const size_t lens[] = {1, 2, 8, 63, 64, 65, 100, 4095, 4096, 4097, 9000};
	const size_t size = 32768;
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	unsigned char *want = calloc(1, size), *got = malloc(size);
	unsigned n = 0;

	unit_fill(want, size, 1);
	put_bytes(c, f, 0, want, size);
	for (size_t o = 0; o < sizeof(offs) / sizeof(offs[0]); o++) {
		for (size_t l = 0; l < sizeof(lens) / sizeof(lens[0]); l++) {
			unit_fill(want + offs[o], lens[l], 100 + n++);
			put_bytes(c, f, offs[o], want + offs[o], lens[l]);
			assert_int_equal(pmemfs_read(c->fs, f, 0, got, size), size);
			assert_memory_equal(got, want, size);
		}
		corefs_remount(c, o % 2);
		assert_int_equal(pmemfs_read(c->fs, f, 0, got, size), size);
		assert_memory_equal(got, want, size);
	}
	assert_int_equal(blocks(c, f), size / B);
	free(want);
	free(got);
}

static void appends(void **state)
{
	const size_t step = 777, n = 400;
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	char *buf = malloc(step * n), *got = malloc(step * n);

	unit_fill(buf, step * n, 5);
	for (size_t k = 0; k < n; k++) {
		assert_int_equal(
		    pmemfs_write(c->fs, f, 12345678, buf + k * step, step, PMEMFS_WRITE_APPEND),
		    step);
		assert_int_equal(attr_of(c, f).size, (k + 1) * step);
		if (k % 97 == 50)
			corefs_remount(c, k % 2);
	}
	assert_int_equal(pmemfs_read(c->fs, f, 0, got, step * n), step * n);
	assert_memory_equal(got, buf, step * n);
	free(buf);
	free(got);
}

static void short_and_empty(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	struct pmemfs_attr before = attr_of(c, f), after;
	char buf[100];

	assert_int_equal(pmemfs_write(c->fs, f, 500, buf, 0, 0), 0);
	after = attr_of(c, f);
	assert_int_equal(after.size, 0);
	assert_memory_equal(&after.mtime, &before.mtime, sizeof(after.mtime));
	assert_int_equal(pmemfs_read(c->fs, f, 0, buf, 100), 0);
	put_bytes(c, f, 0, "hello", 5);
	assert_int_equal(pmemfs_read(c->fs, f, 0, buf, 100), 5);
	assert_int_equal(pmemfs_read(c->fs, f, 4, buf, 100), 1);
	assert_int_equal(buf[0], 'o');
	assert_int_equal(pmemfs_read(c->fs, f, 5, buf, 100), 0);
	assert_int_equal(pmemfs_read(c->fs, f, UINT64_MAX, buf, 100), 0);
	assert_int_equal(pmemfs_read(c->fs, f, 0, buf, 0), 0);
	assert_int_equal(pmemfs_write(c->fs, ROOT, 0, "x", 1, 0), -EISDIR);
	assert_int_equal(pmemfs_read(c->fs, ROOT, 0, buf, 1), -EISDIR);
	assert_int_equal(pmemfs_write(c->fs, 4711, 0, "x", 1, 0), -ESTALE);
}

static void the_largest_write(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	char *buf = calloc(1, PMEMFS_WRITE_MAX + 1);

	unit_fill(buf, PMEMFS_WRITE_MAX + 1, 3);
	assert_int_equal(pmemfs_write(c->fs, f, 5, buf, PMEMFS_WRITE_MAX + 1, 0),
			 PMEMFS_WRITE_MAX);
	assert_int_equal(attr_of(c, f).size, 5 + PMEMFS_WRITE_MAX);
	corefs_remount(c, false);
	expect_seed(c, f, 5, PMEMFS_WRITE_MAX, 3);
	free(buf);
}

static void the_largest_file(void **state)
{
	const uint64_t max = 1ull << 56;
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	const struct pmemfs_attr too_big = {.size = max + 1};

	assert_int_equal(pmemfs_write(c->fs, f, max, "x", 1, 0), -EFBIG);
	assert_int_equal(pmemfs_write(c->fs, f, max - 1, "xy", 2, 0), -EFBIG);
	assert_int_equal(pmemfs_write(c->fs, f, UINT64_MAX, "xy", 2, 0), -EFBIG);
	assert_int_equal(falloc(c, f, 0, max, 1), -EFBIG);
	assert_int_equal(falloc(c, f, 0, 1, UINT64_MAX), -EFBIG);
	assert_int_equal(pmemfs_setattr(c->fs, f, PMEMFS_SET_SIZE, &too_big, NULL), -EFBIG);
	assert_int_equal(attr_of(c, f).size, 0);
	put_bytes(c, f, max - 1, "z", 1);
	assert_int_equal(attr_of(c, f).size, max);
	assert_int_equal(pmemfs_write(c->fs, f, 0, "x", 1, PMEMFS_WRITE_APPEND), -EFBIG);
	for (int clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		assert_int_equal(attr_of(c, f).size, max);
		assert_int_equal(seek(c, f, 0, SEEK_DATA), max - B);
		expect_zeros(c, f, max - B, B - 1);
	}
	set_size(c, f, 0);
	assert_int_equal(blocks(c, f), 0);
}

/* ---- sparse files ---- */

static void beyond_a_tebibyte(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f"), free_before = free_blocks_of(c);

	put_seed(c, f, 3 * TIB + 100, 10000, 1);
	put_seed(c, f, TIB, 4096, 2);
	put_seed(c, f, 0, 1, 3);
	assert_int_equal(attr_of(c, f).size, 3 * TIB + 10100);
	for (int clean = 0; clean < 3; clean++) {
		assert_int_equal(blocks(c, f), 3 + 1 + 1);
		expect_seed(c, f, 3 * TIB + 100, 10000, 1);
		expect_seed(c, f, TIB, 4096, 2);
		expect_zeros(c, f, 1, 100000);
		expect_zeros(c, f, TIB - 5000, 5000);
		expect_zeros(c, f, 3 * TIB - 1000, 1100);
		assert_int_equal(seek(c, f, 0, SEEK_HOLE), B);
		assert_int_equal(seek(c, f, B, SEEK_DATA), TIB);
		assert_int_equal(seek(c, f, TIB, SEEK_HOLE), TIB + B);
		assert_int_equal(seek(c, f, TIB + B, SEEK_DATA), 3 * TIB);
		assert_int_equal(seek(c, f, 3 * TIB + 5, SEEK_HOLE), 3 * TIB + 10100);
		if (clean < 2)
			corefs_remount(c, clean);
	}
	set_size(c, f, TIB);
	assert_int_equal(blocks(c, f), 1);
	set_size(c, f, 0);
	assert_int_equal(free_blocks_of(c), free_before);
}

static void seeking(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");

	assert_int_equal(seek(c, f, 0, SEEK_DATA), -ENXIO);
	assert_int_equal(seek(c, f, 0, SEEK_HOLE), -ENXIO);
	set_size(c, f, 5 * B + 10);
	assert_int_equal(seek(c, f, 0, SEEK_DATA), -ENXIO);
	assert_int_equal(seek(c, f, 3, SEEK_HOLE), 3);
	put_seed(c, f, 2 * B, B, 1);
	assert_int_equal(seek(c, f, 0, SEEK_DATA), 2 * B);
	assert_int_equal(seek(c, f, 2 * B + 7, SEEK_DATA), 2 * B + 7);
	assert_int_equal(seek(c, f, 3 * B, SEEK_DATA), -ENXIO);
	assert_int_equal(seek(c, f, 0, SEEK_HOLE), 0);
	assert_int_equal(seek(c, f, 2 * B, SEEK_HOLE), 3 * B);
	put_seed(c, f, 5 * B, 10, 2);
	assert_int_equal(seek(c, f, 3 * B, SEEK_DATA), 5 * B);
	assert_int_equal(seek(c, f, 5 * B + 9, SEEK_HOLE), 5 * B + 10);
	assert_int_equal(seek(c, f, 5 * B + 10, SEEK_HOLE), -ENXIO);
	assert_int_equal(seek(c, f, 5 * B + 10, SEEK_DATA), -ENXIO);
	assert_int_equal(seek(c, f, UINT64_MAX, SEEK_DATA), -ENXIO);
	assert_int_equal(seek(c, f, 0, SEEK_SET), -EINVAL);
	/* neighbours that were written apart are one stretch of data */
	put_seed(c, f, 3 * B, B, 3);
	put_seed(c, f, B, B, 4);
	assert_int_equal(seek(c, f, B, SEEK_HOLE), 4 * B);
}

/* ---- shrinking and growing ---- */

/* Whatever stood past the new end never shows again, however the file grows. */
static void no_old_bytes(void **state)
{
	static const uint64_t cut[] = {0, 1, 100, 4095, 4096, 4097, 10000, 16383};
	struct corefs *c = *state;

	for (unsigned how = 0; how < 5; how++) {
		for (size_t k = 0; k < sizeof(cut) / sizeof(cut[0]); k++) {
			uint64_t f = mk_file(c, ROOT, "f");

			put_seed(c, f, 0, 16384, 9);
			set_size(c, f, cut[k]);
			if (how > 2)
				corefs_remount(c, how == 3);
			if (how == 0 || how > 2)
				set_size(c, f, 30000);
			else if (how == 1)
				put_seed(c, f, 29999, 1, 1);
			else
				assert_int_equal(falloc(c, f, 0, 0, 30000), 0);
			if (cut[k])
				expect_seed(c, f, 0, cut[k], 9);
			expect_zeros(c, f, cut[k], 29999 - cut[k]);
			corefs_remount(c, k % 2);
			if (cut[k])
				expect_seed(c, f, 0, cut[k], 9);
			expect_zeros(c, f, cut[k], 29999 - cut[k]);
			assert_int_equal(pmemfs_unlink(c->fs, ROOT, "f"), 0);
		}
	}
}

/* An append begins in a block whose rest was cut off before. */
static void append_after_cut(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");

	put_seed(c, f, 0, 4096, 1);
	set_size(c, f, 1000);
	put_seed(c, f, 2000, 100, 2);
	expect_seed(c, f, 0, 1000, 1);
	expect_zeros(c, f, 1000, 1000);
	expect_seed(c, f, 2000, 100, 2);
	assert_int_equal(pmemfs_write(c->fs, f, 0, "tail", 4, PMEMFS_WRITE_APPEND), 4);
	corefs_remount(c, false);
	expect_zeros(c, f, 1000, 1000);
	expect_seed(c, f, 2000, 100, 2);
	assert_int_equal(attr_of(c, f).size, 2104);
}

static void truncating_frees(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f"), before = free_blocks_of(c);

	put_seed(c, f, 0, 100 * B, 1);
	assert_int_equal(blocks(c, f), 100);
	set_size(c, f, 10 * B + 1);
	assert_int_equal(blocks(c, f), 11);
	assert_true(free_blocks_of(c) + 11 + 2 >= before);
	set_size(c, f, 0);
	assert_int_equal(blocks(c, f), 0);
	set_size(c, f, 100 * B);
	assert_int_equal(blocks(c, f), 0);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "f"), 0);
	expect_space_back(c, before);
}

/* ---- fallocate ---- */

static void allocating(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");

	assert_int_equal(falloc(c, f, 0, 100, 10 * B), 0);
	assert_int_equal(attr_of(c, f).size, 10 * B + 100);
	assert_int_equal(blocks(c, f), 11);
	expect_zeros(c, f, 0, 10 * B + 100);
	assert_int_equal(falloc(c, f, KEEP, 20 * B, 5 * B), 0);
	assert_int_equal(attr_of(c, f).size, 10 * B + 100);
	assert_int_equal(blocks(c, f), 16);
	/* what is there stays */
	put_seed(c, f, 3 * B, 2 * B, 1);
	assert_int_equal(falloc(c, f, 0, 0, 12 * B), 0);
	assert_int_equal(blocks(c, f), 17);
	expect_seed(c, f, 3 * B, 2 * B, 1);
	for (int clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		assert_int_equal(blocks(c, f), 17);
		expect_zeros(c, f, 0, 3 * B);
		expect_seed(c, f, 3 * B, 2 * B, 1);
		expect_zeros(c, f, 5 * B, 7 * B);
		assert_int_equal(seek(c, f, 0, SEEK_DATA), 3 * B);
		assert_int_equal(seek(c, f, 3 * B, SEEK_HOLE), 5 * B);
	}
	/* writing uses what was allocated */
	put_seed(c, f, 20 * B, 5 * B, 2);
	assert_int_equal(blocks(c, f), 17);
	expect_seed(c, f, 20 * B, 5 * B, 2);
	expect_zeros(c, f, 12 * B, 8 * B);
}

static void punching(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");

	put_seed(c, f, 0, 10 * B, 1);
	assert_int_equal(falloc(c, f, PUNCH, 2 * B, 3 * B), 0);
	assert_int_equal(blocks(c, f), 7);
	expect_zeros(c, f, 2 * B, 3 * B);
	/* inside of blocks */
	assert_int_equal(falloc(c, f, PUNCH, 100, 50), 0);
	assert_int_equal(falloc(c, f, PUNCH, 6 * B - 10, 20), 0);
	assert_int_equal(blocks(c, f), 7);
	assert_int_equal(attr_of(c, f).size, 10 * B);
	/* far past the end: nothing to do */
	assert_int_equal(falloc(c, f, PUNCH, 100 * B, TIB), 0);
	assert_int_equal(falloc(c, f, PUNCH, 1000 * B, 1), 0);
	for (int clean = 0; clean < 3; clean++) {
		unsigned char want[10 * B], got[10 * B];

		unit_fill(want, sizeof(want), 1);
		memset(want + 2 * B, 0, 3 * B);
		memset(want + 100, 0, 50);
		memset(want + 6 * B - 10, 0, 20);
		assert_int_equal(pmemfs_read(c->fs, f, 0, got, sizeof(got)), sizeof(got));
		assert_memory_equal(got, want, sizeof(got));
		assert_int_equal(blocks(c, f), 7);
		assert_int_equal(seek(c, f, 0, SEEK_HOLE), 2 * B);
		assert_int_equal(seek(c, f, 2 * B, SEEK_DATA), 5 * B);
		if (clean < 2)
			corefs_remount(c, clean);
	}
	assert_int_equal(falloc(c, f, PUNCH, 0, 1ull << 55), 0);
	assert_int_equal(blocks(c, f), 0);
	expect_zeros(c, f, 0, 10 * B);
}

static void zeroing(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");

	put_seed(c, f, 0, 6 * B, 1);
	assert_int_equal(falloc(c, f, ZERO, B - 100, 2 * B), 0);
	assert_int_equal(blocks(c, f), 6);
	expect_seed(c, f, 0, B - 100, 1);
	expect_zeros(c, f, B - 100, 2 * B);
	assert_int_equal(falloc(c, f, ZERO | KEEP, 5 * B, 3 * B), 0);
	assert_int_equal(attr_of(c, f).size, 6 * B);
	assert_int_equal(blocks(c, f), 8);
	assert_int_equal(falloc(c, f, ZERO, 5 * B, 3 * B), 0);
	assert_int_equal(attr_of(c, f).size, 8 * B);
	for (int clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		expect_seed(c, f, 0, B - 100, 1);
		expect_zeros(c, f, B - 100, 2 * B);
		expect_zeros(c, f, 5 * B, 3 * B);
		assert_int_equal(blocks(c, f), 8);
	}
}

static void fallocate_rules(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f"), before = free_blocks_of(c);

	assert_int_equal(falloc(c, f, 0, 0, 0), -EINVAL);
	assert_int_equal(falloc(c, f, FALLOC_FL_PUNCH_HOLE, 0, B), -EOPNOTSUPP);
	assert_int_equal(falloc(c, f, PUNCH | ZERO, 0, B), -EOPNOTSUPP);
	assert_int_equal(falloc(c, f, FALLOC_FL_COLLAPSE_RANGE, 0, B), -EOPNOTSUPP);
	assert_int_equal(falloc(c, f, 0x4000, 0, B), -EOPNOTSUPP);
	assert_int_equal(falloc(c, ROOT, 0, 0, B), -EISDIR);
	/* more than there is: nothing is left behind */
	assert_int_equal(falloc(c, f, 0, 0, 1 << 30), -ENOSPC);
	assert_int_equal(falloc(c, f, KEEP, TIB, 1 << 30), -ENOSPC);
	assert_int_equal(falloc(c, f, ZERO, 0, 1 << 30), -ENOSPC);
	assert_int_equal(attr_of(c, f).size, 0);
	assert_int_equal(free_blocks_of(c), before);
}

/* A file in many pieces: its log is compacted, and nothing changes by that. */
static void fragments(void **state)
{
	const unsigned n = 3000;
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");

	for (unsigned k = 0; k < n; k++)
		put_seed(c, f, 2 * B * k, 64, k + 1);
	for (unsigned k = 0; k < n; k += 3)
		put_seed(c, f, 2 * B * k, 64, k + 5);
	for (int clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		assert_int_equal(blocks(c, f), n);
		for (unsigned k = 0; k < n; k++)
			expect_seed(c, f, 2 * B * k, 64, k % 3 ? k + 1 : k + 5);
		expect_zeros(c, f, B, B);
	}
	set_size(c, f, 0);
	assert_int_equal(blocks(c, f), 0);
}

/* ---- reading without a copy ---- */

static int count_bytes(void *arg, const struct iovec *iov, int n, size_t total)
{
	size_t *sum = arg;

	*sum = 0;
	for (int k = 0; k < n; k++)
		*sum += iov[k].iov_len;
	assert_int_equal(*sum, total);
	return 17;
}

static void reading_in_place(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	size_t sum = 0;

	put_seed(c, f, 10 * B, 5 * B + 3, 1);
	assert_int_equal(pmemfs_read_iov(c->fs, f, 0, 100 * B, count_bytes, &sum), 17);
	assert_int_equal(sum, 15 * B + 3);
	assert_int_equal(pmemfs_read_iov(c->fs, f, 15 * B, B, count_bytes, &sum), 17);
	assert_int_equal(sum, 3);
	assert_int_equal(pmemfs_read_iov(c->fs, f, 16 * B, B, count_bytes, &sum), 17);
	assert_int_equal(sum, 0);
	assert_int_equal(pmemfs_read_iov(c->fs, ROOT, 0, B, count_bytes, &sum), -EISDIR);
}

/* A flipped bit of a block's content: EIO for that block, its neighbours stay readable. */
static void damaged_data(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	unsigned char want[64], buf[4 * B], *at;

	put_seed(c, f, 0, 4 * B, 77);
	unit_fill(buf, sizeof(buf), 77);
	memcpy(want, buf + 2 * B, 64);
	at = memmem(c->mem, c->size, want, 64);
	assert_non_null(at);
	at[5] ^= 0x10;
	if (corefs_parity()) { /* nothing is lost */
		expect_seed(c, f, 0, 4 * B, 77);
		return;
	}
	assert_int_equal(pmemfs_read(c->fs, f, 2 * B, buf, B), -EIO);
	assert_int_equal(pmemfs_read(c->fs, f, 2 * B + 100, buf, 1), -EIO);
	assert_int_equal(pmemfs_read(c->fs, f, 0, buf, 2 * B), 2 * B);
	assert_int_equal(pmemfs_read(c->fs, f, 3 * B, buf, B), B);
	/* a part of it cannot be changed, for the rest is lost; all of it can */
	assert_int_equal(pmemfs_write(c->fs, f, 2 * B + 10, "x", 1, 0), -EIO);
	put_seed(c, f, 2 * B, B, 78);
	expect_seed(c, f, 2 * B, B, 78);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(overwrites),	 CORE_TEST(appends),
	    CORE_TEST(short_and_empty),	 CORE_TEST(the_largest_write),
	    CORE_TEST(the_largest_file), CORE_TEST(beyond_a_tebibyte),
	    CORE_TEST(seeking),		 CORE_TEST(no_old_bytes),
	    CORE_TEST(append_after_cut), CORE_TEST(truncating_frees),
	    CORE_TEST(allocating),	 CORE_TEST(punching),
	    CORE_TEST(zeroing),		 CORE_TEST(fallocate_rules),
	    CORE_TEST(fragments),	 CORE_TEST(reading_in_place),
	    CORE_TEST(damaged_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
