/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parity: what is lost of a file's data is read all the same, and stored back. "Lost" is poison
 * (reading fails; a store that is made for mending ends it, unless it is to stay) or other
 * bytes.
 */
#include "corefs.h"

#include <limits.h>
#include <pthread.h>

#include "fs.h"
#include "poison.h"

#define BLOCK PMEMFS_BLOCK_SIZE

/* ---- files ---- */

/* Byte offset of a block of the file; 0: it has none, or is not written. */
static uint64_t place_of(struct corefs *c, uint64_t ino, uint64_t b)
{
	struct range_cursor cur;
	const struct range *r;
	struct inode *i;
	uint64_t off = 0;

	assert_int_equal(inode_open(c->fs, ino, false, &i), 0);
	r = rangemap_find(&i->extents, b, &cur);
	if (r && r->start <= b && !range_flags(r))
		off = (range_block(r) + b - r->start) * BLOCK;
	inode_close(c->fs, i);
	return off;
}

static uint8_t *at(struct corefs *c, uint64_t off)
{
	return (uint8_t *)c->mem + off;
}

struct content {
	uint8_t *bytes;
	size_t len;
};

static struct content content_of(struct corefs *c, uint64_t ino)
{
	struct content x = {.len = attr_of(c, ino).size};

	x.bytes = malloc(x.len + 1);
	assert_int_equal(pmemfs_read(c->fs, ino, 0, x.bytes, x.len), x.len);
	return x;
}

static void expect_content(struct corefs *c, uint64_t ino, const struct content *want)
{
	struct content now = content_of(c, ino);

	assert_int_equal(now.len, want->len);
	assert_memory_equal(now.bytes, want->bytes, want->len);
	free(now.bytes);
}

static int gather(void *arg, const struct iovec *v, int n, size_t len)
{
	struct content *x = arg;

	x->bytes = malloc(len + 1);
	for (int k = 0; k < n; k++) {
		memcpy(x->bytes + x->len, v[k].iov_base, v[k].iov_len);
		x->len += v[k].iov_len;
	}
	return 0;
}

static void expect_mapped(struct corefs *c, uint64_t ino, const struct content *want)
{
	struct content now = {0};

	assert_int_equal(pmemfs_read_iov(c->fs, ino, 0, want->len, gather, &now), 0);
	assert_int_equal(now.len, want->len);
	assert_memory_equal(now.bytes, want->bytes, want->len);
	free(now.bytes);
}

/* Other bytes in [off, off + len); the file is read, and the medium holds again what it did. */
static void lose_bytes(struct corefs *c, uint64_t ino, const struct content *want, uint64_t off,
		       size_t len, bool mapped)
{
	uint8_t was[BLOCK];

	memcpy(was, at(c, off), len);
	for (size_t k = 0; k < len; k++)
		*at(c, off + k) ^= 0x5a;
	if (mapped)
		expect_mapped(c, ino, want);
	else
		expect_content(c, ino, want);
	assert_memory_equal(at(c, off), was, len);
}

static void lose_to_poison(struct corefs *c, uint64_t ino, const struct content *want,
			   uint64_t off, size_t len, bool stays)
{
	poison_add(off, len);
	poison_stays = stays;
	expect_mapped(c, ino, want);
	expect_content(c, ino, want);
	if (!stays)
		assert_false(poison_hits(off, len));
	poison_end();
}

/* Each written block of the file, lost in turn. */
static void lose_each(struct corefs *c, uint64_t ino)
{
	struct content want = content_of(c, ino);

	for (uint64_t b = 0; b * BLOCK < want.len; b++) {
		uint64_t off = place_of(c, ino, b);
		uint32_t valid = data_valid(want.len, b);

		if (!off)
			continue;
		lose_bytes(c, ino, &want, off, valid, b % 2);
		lose_to_poison(c, ino, &want, off, BLOCK, b % 2);
	}
	free(want.bytes);
}

static struct pmemfs_scrub scrub(struct corefs *c)
{
	struct pmemfs_scrub s = {0};

	while (pmemfs_scrub(c->fs, &s, 3 << 20))
		;
	return s;
}

/* Everything is as it should be. */
static void expect_sound(struct corefs *c)
{
	struct pmemfs_scrub s = scrub(c);

	assert_int_equal(s.damaged, 0);
	assert_int_equal(s.repaired, 0);
}

/* ---- tests ---- */

static void each_block(void **state)
{
	struct corefs *c = *state;
	uint64_t ino = mk_file(c, ROOT, "f"), small = mk_file(c, ROOT, "small");

	put_seed(c, ino, 0, 70 * BLOCK + 100, 1);
	put_seed(c, small, 0, 10, 2);
	lose_each(c, ino); /* parity in DRAM */
	lose_each(c, small);
	assert_int_equal(parity_flush(c->fs), 0);
	lose_each(c, ino); /* on the medium */
	for (unsigned clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		expect_sound(c);
		lose_each(c, ino);
		lose_each(c, small);
	}
}

static void each_range(void **state)
{
	static const size_t len[] = {64, 512, 4096};
	struct corefs *c = *state;
	uint64_t ino = mk_file(c, ROOT, "f"), off;
	struct content want;

	put_seed(c, ino, 0, 40 * BLOCK, 1);
	want = content_of(c, ino);
	for (unsigned k = 0; k < ARRAY_LEN(len); k++)
		for (uint32_t from = 0; from < BLOCK; from += MAX(len[k], 960u / 64 * 64)) {
			off = place_of(c, ino, (from / 64 + k) % 40) + from;
			if (from + len[k] > BLOCK)
				continue;
			lose_bytes(c, ino, &want, off, len[k], k % 2);
			lose_to_poison(c, ino, &want, off, len[k], false);
			lose_to_poison(c, ino, &want, off, len[k], true);
		}
	/* two blocks of a stripe, but not in the same lines */
	off = place_of(c, ino, 1);
	poison_add(off + 512, 512);
	poison_add(off + BLOCK, 512);
	expect_mapped(c, ino, &want);
	assert_false(poison_hits(off, 2 * BLOCK));
	free(want.bytes);
}

/* Every way of storing to a block, and a block that holds the end. */
static void edits(void **state)
{
	struct corefs *c = *state;
	uint64_t ino = mk_file(c, ROOT, "f");

	for (unsigned k = 0; k < 100; k++)
		put_seed(c, ino, k * 333, 333, k);
	lose_each(c, ino);
	set_size(c, ino, 20000);
	put_seed(c, ino, 25000, 100, 1);
	set_size(c, ino, 30000);
	put_seed(c, ino, 3, 9000, 2);
	lose_each(c, ino);
	assert_int_equal(pmemfs_fallocate(c->fs, ino, 0, 30000, 200000), 0);
	put_seed(c, ino, 100100, 5000, 3);
	put_seed(c, ino, 130000, 100, 4);
	lose_each(c, ino);
	corefs_remount(c, true);
	expect_sound(c);
	lose_each(c, ino);
}

/* Blocks that held data of other files, and logs, and are stored to again. */
static void recycled(void **state)
{
	struct corefs *c = *state;
	char name[32];
	uint64_t dir, keep = mk_file(c, ROOT, "keep"), ino;

	for (unsigned round = 0; round < 6; round++) {
		put_seed(c, keep, round * 50000, 100000, round);
		dir = mk_dir(c, ROOT, "d");
		for (unsigned k = 0; k < 300; k++) {
			snprintf(name, sizeof(name), "a file with a long name %u", k);
			ino = mk_file(c, dir, name);
			for (unsigned n = 0; n < 1 + k % 7; n++)
				put_seed(c, ino, n * 4000, 5000, k + n);
			if (k % 3 == 0)
				assert_int_equal(pmemfs_unlink(c->fs, dir, name), 0);
		}
		lose_each(c, keep);
		hold(c, ROOT, "d");
		empty_dir(c, dir);
		pmemfs_forget(c->fs, dir, 1);
		assert_int_equal(pmemfs_rmdir(c->fs, ROOT, "d"), 0);
		corefs_remount(c, round % 2);
		expect_sound(c);
	}
	lose_each(c, keep);
}

static void full_device(void **state)
{
	struct corefs *c = *state;
	uint64_t ino = mk_file(c, ROOT, "f"), size = 0;
	char *buf = malloc(PMEMFS_WRITE_MAX);

	unit_fill(buf, PMEMFS_WRITE_MAX, 1);
	for (size_t len = PMEMFS_WRITE_MAX; len >= BLOCK;) {
		if (pmemfs_write(c->fs, ino, size, buf, len, 0) < 0)
			len /= 2;
		else
			size += len;
	}
	free(buf);
	assert_true(size > c->size / 10 * 8);
	set_size(c, ino, size - 100 * BLOCK);
	for (unsigned k = 0; k < 500; k++)
		put_seed(c, ino, k * 7 % 500 * 3 * BLOCK, 3 * BLOCK, k);
	corefs_remount(c, false);
	expect_sound(c);
	corefs_remount(c, true);
	expect_sound(c);
}

static void *write_on(void *arg)
{
	struct corefs *c = arg;
	const struct pmemfs_cred cred = {0, 0};
	struct pmemfs_attr a;
	char buf[70000], name[32];

	unit_fill(buf, sizeof(buf), (uintptr_t)&a);
	snprintf(name, sizeof(name), "%p", (void *)&a);
	assert_int_equal(pmemfs_make(c->fs, ROOT, name, S_IFREG | 0600, 0, 0, NULL, &cred, &a),
			 0);
	for (unsigned k = 0; k < 2000; k++)
		assert_true(pmemfs_write(c->fs, a.ino, k * 7919 % 300000, buf + k,
					 1 + k * 31 % 60000, 0) > 0);
	pmemfs_forget(c->fs, a.ino, 1);
	return NULL;
}

static void threads(void **state)
{
	struct corefs *c = *state;
	uint64_t ino = mk_file(c, ROOT, "f");
	struct content want;
	pthread_t t[4];

	put_seed(c, ino, 0, 50 * BLOCK, 1);
	want = content_of(c, ino);
	for (unsigned k = 0; k < ARRAY_LEN(t); k++)
		assert_int_equal(pthread_create(&t[k], NULL, write_on, c), 0);
	for (unsigned k = 0; k < 300; k++) { /* while its neighbours are stored to */
		lose_bytes(c, ino, &want, place_of(c, ino, k % 50), BLOCK, k % 2);
		if (k % 50 == 0) {
			assert_int_equal(parity_flush(c->fs), 0);
			expect_sound(c);
		}
	}
	for (unsigned k = 0; k < ARRAY_LEN(t); k++)
		pthread_join(t[k], NULL);
	expect_sound(c);
	corefs_remount(c, false);
	expect_sound(c);
	corefs_remount(c, true);
	lose_each(c, ino);
	free(want.bytes);
}

/* What the stripe cannot give is an error, as without parity, and never other bytes. */
static void too_much(void **state)
{
	struct corefs *c = *state;
	uint64_t ino = mk_file(c, ROOT, "f"), off;
	struct content want;
	char byte;

	put_seed(c, ino, 0, 40 * BLOCK, 1);
	want = content_of(c, ino);
	off = place_of(c, ino, 1);
	*at(c, off) ^= 1;
	*at(c, off + BLOCK + 1) ^= 1;
	assert_int_equal(pmemfs_read(c->fs, ino, BLOCK, &byte, 1), -EIO);
	assert_int_equal(scrub(c).damaged, 1);
	*at(c, off + BLOCK + 1) ^= 1;
	/* the scrub made parity of what it found */
	assert_int_equal(pmemfs_read(c->fs, ino, BLOCK, &byte, 1), -EIO);
	*at(c, off) ^= 1;
	expect_content(c, ino, &want);
	assert_true(scrub(c).repaired > 0);
	expect_sound(c);
	lose_each(c, ino);
	free(want.bytes);
}

/* A member whose bytes cannot be read is stored over, or becomes metadata. */
static void poisoned_member(void **state)
{
	struct corefs *c = *state;
	uint64_t keep = mk_file(c, ROOT, "keep"), gone = mk_file(c, ROOT, "gone"), off, ino,
		 size = 0;
	static char buf[PMEMFS_WRITE_MAX];
	bool hit = false;

	unit_fill(buf, sizeof(buf), 3);
	put_seed(c, keep, 0, 8 * BLOCK, 1);
	put_seed(c, gone, 0, 8 * BLOCK, 2);
	off = place_of(c, gone, 1);
	poison_add(off, 512);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "gone"), 0);
	ino = mk_file(c, ROOT, "f");
	while (pmemfs_write(c->fs, ino, size, buf, PMEMFS_WRITE_MAX, 0) > 0)
		size += PMEMFS_WRITE_MAX;
	for (uint64_t b = 0; b * BLOCK < size; b++)
		hit |= place_of(c, ino, b) == off;
	assert_true(hit);
	poison_end();
	lose_each(c, keep);
	corefs_remount(c, true);
	lose_each(c, keep);
}

/* Parity and its words are lost themselves. */
static void lost_parity(void **state)
{
	struct corefs *c = *state;
	uint64_t ino = mk_file(c, ROOT, "f"), stripe, words, n;

	put_seed(c, ino, 0, 100 * BLOCK, 1);
	corefs_remount(c, true);
	stripe = place_of(c, ino, 50) / BLOCK / PMEMFS_STRIPE;
	words = super_parity_start(&c->fs->sb) * BLOCK;
	n = super_parity_blocks(&c->fs->sb) - parity_stripes(c->fs);
	*at(c, words + (n + stripe) * BLOCK + 77) ^= 1;
	assert_int_equal(scrub(c).repaired, 1);
	expect_sound(c);
	for (unsigned byte = 0; byte < 8; byte++) { /* as if nothing had been stored */
		*at(c, words + stripe * 8 + byte) ^= 1;
		assert_true(scrub(c).repaired > 0);
		expect_sound(c);
		lose_each(c, ino);
		assert_int_equal(parity_flush(c->fs), 0);
	}
	poison_add(words + (n + stripe) * BLOCK, 64);
	put_seed(c, ino, 0, 100 * BLOCK, 2);
	scrub(c);
	expect_sound(c);
	poison_end();
	assert_int_equal(parity_flush(c->fs), 0);
	memset(at(c, words), 0xff, n * BLOCK);
	assert_true(scrub(c).repaired > 0);
	expect_sound(c);
	corefs_remount(c, false);
	lose_each(c, ino);
}

/* A scrub in steps, before one of which a bit of the medium flips. Returns their number. */
static unsigned scrub_with_rot(struct corefs *c, uint64_t off, unsigned step)
{
	struct pmemfs_scrub s = {0};
	unsigned n = 0;
	int more;

	do {
		if (n++ == step)
			*at(c, off) ^= 1;
		more = pmemfs_scrub(c->fs, &s, 1);
		assert_true(more >= 0);
	} while (more);
	return n;
}

/* Rot that comes while a scrub is under way, at any point of it, is not made part of parity. */
static void rot_during_scrub(void **state)
{
	struct corefs *c = *state;
	uint64_t ino = mk_file(c, ROOT, "f"), off;
	struct content want;
	unsigned n;

	put_seed(c, ino, 0, 40 * BLOCK, 1);
	want = content_of(c, ino);
	off = place_of(c, ino, 5);
	corefs_remount(c, true);
	n = scrub_with_rot(c, off, UINT_MAX);
	assert_true(n > 10);
	for (unsigned step = 0; step < n; step++) {
		scrub_with_rot(c, off, step);
		expect_content(c, ino, &want);
		expect_sound(c);
	}
	free(want.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(each_block),	 CORE_TEST(each_range),	 CORE_TEST(edits),
	    CORE_TEST(recycled),	 CORE_TEST(full_device), CORE_TEST(threads),
	    CORE_TEST(too_much),	 CORE_TEST(lost_parity), CORE_TEST(poisoned_member),
	    CORE_TEST(rot_during_scrub),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
