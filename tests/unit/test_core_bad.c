/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of bad blocks: what cannot be read, and does not take what is stored, is not given
 * to anybody again; what is known of its content moves.
 */
#include "corefs.h"

#include "fs.h"
#include "poison.h"

#define BLOCK PMEMFS_BLOCK_SIZE
#define SIZE  (3 * BLOCK + 100)

/* The device's block that is bad. */
static uint64_t bad;

static uint64_t block_of(struct corefs *c, uint64_t ino, uint64_t b)
{
	struct range_cursor cur;
	const struct range *r;
	struct inode *i;
	uint64_t block;

	assert_int_equal(inode_open(c->fs, ino, false, &i), 0);
	r = rangemap_find(&i->extents, b, &cur);
	assert_true(r && r->start <= b);
	block = range_block(r) + (b - r->start);
	inode_close(c->fs, i);
	return block;
}

static void poison_block(uint64_t block)
{
	bad = block;
	poison_add(block * BLOCK, BLOCK);
	poison_stays = true;
}

static bool is_listed(struct corefs *c, uint64_t block)
{
	uint64_t list[PMEMFS_BAD_BLOCKS];
	int n = pmemfs_bad_blocks(c->media, list);
	bool found = false;

	assert_true(n >= 0);
	for (int k = 0; k < n; k++) {
		assert_true(!k || list[k - 1] < list[k]);
		found |= list[k] == block;
	}
	return found;
}

/* Writes until nothing more fits; the bad block must not be among what is written. */
static void fill(struct corefs *c)
{
	uint64_t ino = mk_held(c, ROOT, "fill"), n = 0;
	static const char buf[64 * BLOCK];

	for (size_t len = sizeof(buf); len >= BLOCK; len /= 2)
		while (pmemfs_write(c->fs, ino, n * BLOCK, buf, len, 0) > 0)
			for (uint64_t end = n + len / BLOCK; n < end; n++)
				assert_int_not_equal(block_of(c, ino, n), bad);
	assert_true(n > 1000);
}

/* A file whose block b is bad. */
static uint64_t mk_bad(struct corefs *c, uint64_t b)
{
	uint64_t ino = mk_held(c, ROOT, "f");

	put_seed(c, ino, 0, SIZE, 1);
	poison_block(block_of(c, ino, b));
	return ino;
}

static struct pmemfs_scrub scrub(struct corefs *c)
{
	struct pmemfs_scrub s = {0};

	while (pmemfs_scrub(c->fs, &s, 1 << 20))
		;
	return s;
}

static int read_all(struct corefs *c, uint64_t ino)
{
	char buf[SIZE];
	ssize_t r = pmemfs_read(c->fs, ino, 0, buf, SIZE);

	return r < 0 ? (int)r : 0;
}

/* fsck -c finds what is to be found, with the poison there or without. */
static struct pmemfs_check_result fsck(struct corefs *c)
{
	const struct pmemfs_check_options o = {
	    .fix = PMEMFS_FIX_ALL, .force = true, .bad_blocks = true, .no_data = true};
	struct pmemfs_check_result r;

	assert_int_equal(pmemfs_check(c->media, &o, &r), 0);
	return r;
}

static void unmount(struct corefs *c)
{
	assert_int_equal(pmemfs_unmount(c->fs), 0);
}

static void mount(struct corefs *c)
{
	const char *why;

	assert_int_equal(pmemfs_mount(c->media, NULL, &c->fs, &why), 0);
}

/* Without parity it stays with its file, unreadable, until that gives it up. */
static void met_and_freed(struct corefs *c, bool scrubbed, bool clean)
{
	uint64_t ino = mk_bad(c, 1), before;

	if (corefs_parity())
		return poison_end(); /* see `moves` */
	if (scrubbed)
		assert_int_equal(scrub(c).damaged, 1);
	else
		assert_int_equal(read_all(c, ino), -EIO);
	assert_true(is_listed(c, bad));
	assert_int_equal(block_of(c, ino, 1), bad);
	before = free_blocks_of(c);
	set_size(c, ino, 0);
	assert_int_equal(free_blocks_of(c), before + 3); /* of four */
	corefs_remount(c, clean);			 /* and checks */
	assert_true(is_listed(c, bad));
	fill(c);
	empty_dir(c, ROOT);
	corefs_remount(c, clean);
	fill(c);
	poison_end();
}

static void read_then_freed(void **state)
{
	met_and_freed(*state, false, true);
}

static void read_then_crashed(void **state)
{
	met_and_freed(*state, false, false);
}

static void scrubbed_then_freed(void **state)
{
	met_and_freed(*state, true, true);
}

static void overwritten(void **state)
{
	struct corefs *c = *state;
	uint64_t ino = mk_bad(c, 2);

	read_all(c, ino);
	assert_true(is_listed(c, bad));
	put_seed(c, ino, 0, SIZE, 3);
	expect_seed(c, ino, 0, SIZE, 3); /* it lies elsewhere */
	fill(c);
	expect_seed(c, ino, 0, SIZE, 3);
	poison_end();
}

/* Content that parity has leaves the block; of a whole block, and of the end of the file. */
static void moves(void **state)
{
	struct corefs *c = *state;
	uint64_t ino = mk_held(c, ROOT, "f");
	struct pmemfs_attr was, is;

	put_seed(c, ino, 0, SIZE, 1);
	for (uint64_t b = 1; b <= 3 && corefs_parity(); b += 2) {
		poison_block(block_of(c, ino, b));
		was = attr_of(c, ino);
		expect_seed(c, ino, 0, SIZE, 1); /* read all the same */
		assert_true(is_listed(c, bad));
		assert_int_equal(block_of(c, ino, b), bad);
		assert_int_equal(scrub(c).damaged, 0);
		assert_int_not_equal(block_of(c, ino, b), bad);
		expect_seed(c, ino, 0, SIZE, 1);
		is = attr_of(c, ino);
		assert_memory_equal(&was, &is, sizeof(was));
		assert_true(is_listed(c, bad));
		corefs_remount(c, b == 1);
		hold(c, ROOT, "f");
		expect_seed(c, ino, 0, SIZE, 1);
		fill(c);
		empty_dir(c, ROOT);
		poison_end();
		corefs_remount(c, true);
		ino = mk_held(c, ROOT, "f");
		put_seed(c, ino, 0, SIZE, 1);
	}
}

/* A block that was left is no member of its stripe: the others can still be rebuilt. */
static void left_stripe(void **state)
{
	struct corefs *c = *state;
	uint64_t ino = mk_held(c, ROOT, "f"), other;

	if (!corefs_parity())
		return;
	put_seed(c, ino, 0, SIZE, 1);
	other = block_of(c, ino, 2);
	poison_block(block_of(c, ino, 1));
	assert_int_equal(bad / PMEMFS_STRIPE, other / PMEMFS_STRIPE);
	assert_int_equal(scrub(c).damaged, 0);
	assert_int_not_equal(block_of(c, ino, 1), bad);
	poison_add(other * BLOCK + 64, 64);
	expect_seed(c, ino, 0, SIZE, 1);
	unmount(c);
	mount(c);
	hold(c, ROOT, "f");
	expect_seed(c, ino, 0, SIZE, 1);
	assert_int_equal(scrub(c).damaged, 0);
	poison_end();
}

/* What takes its content back is bad no more. */
static void heals(void **state)
{
	struct corefs *c = *state;
	uint64_t ino = mk_bad(c, 1);

	read_all(c, ino);
	assert_true(is_listed(c, bad));
	poison_stays = false;
	read_all(c, ino);
	assert_int_equal(is_listed(c, bad), !corefs_parity());
	poison_end();
	expect_seed(c, ino, 0, SIZE, 1);
}

/* fsck -c lists free blocks, and those of files; and takes good ones off. */
static void fsck_lists(void **state)
{
	struct corefs *c = *state;
	uint64_t ino = mk_bad(c, 1), of_file = bad, before;
	struct pmemfs_check_result r;

	unmount(c);
	poison_block(c->size / BLOCK - 2);
	r = fsck(c);
	assert_int_equal(r.problems, 2);
	assert_int_equal(r.fixed, 2);
	assert_int_equal(fsck(c).problems, 0);
	assert_true(is_listed(c, bad));
	assert_true(is_listed(c, of_file));
	mount(c);
	before = free_blocks_of(c);
	fill(c);
	poison_end();
	empty_dir(c, ROOT);
	unmount(c);
	r = fsck(c);
	assert_int_equal(r.problems, 2);
	assert_int_equal(r.fixed, 2);
	assert_int_equal(fsck(c).problems, 0);
	assert_false(is_listed(c, bad));
	mount(c);
	assert_true(free_blocks_of(c) > before);
	(void)ino;
}

/* Space that was reserved on a bad block is not what a write goes to. */
static void reserved(void **state)
{
	struct corefs *c = *state;
	uint64_t ino = mk_file(c, ROOT, "f");

	assert_int_equal(pmemfs_fallocate(c->fs, ino, 0, 0, 8 * BLOCK), 0);
	poison_block(block_of(c, ino, 3));
	unmount(c);
	assert_int_equal(fsck(c).fixed, 1);
	mount(c);
	put_seed(c, ino, 0, 3 * BLOCK + 5, 1);
	put_seed(c, ino, 3 * BLOCK + 5, 4 * BLOCK, 2);
	expect_seed(c, ino, 0, 3 * BLOCK + 5, 1);
	expect_seed(c, ino, 3 * BLOCK + 5, 4 * BLOCK, 2);
	poison_end();
	corefs_remount(c, true);
	expect_seed(c, ino, 0, 3 * BLOCK + 5, 1);
}

/* The list is full: nothing is lost but that. */
static void full(void **state)
{
	struct corefs *c = *state;
	uint64_t list[PMEMFS_BAD_BLOCKS], first = c->size / BLOCK - 500;

	for (uint64_t k = 0; k < PMEMFS_BAD_BLOCKS; k++)
		assert_int_equal(bad_note(c->fs, first + k), 0);
	assert_int_equal(bad_note(c->fs, first + 1), 0); /* is there */
	assert_int_equal(bad_note(c->fs, first + 400), -ENOSPC);
	assert_int_equal(bad_note(c->fs, 0), -EROFS);
	assert_int_equal(pmemfs_bad_blocks(c->media, list), PMEMFS_BAD_BLOCKS);
	corefs_remount(c, false);
	assert_int_equal(pmemfs_bad_blocks(c->media, list), PMEMFS_BAD_BLOCKS);
	for (uint64_t k = 0; k < PMEMFS_BAD_BLOCKS; k++) {
		assert_int_equal(list[k], first + k);
		assert_int_equal(bad_forget(c->fs, first + k), 0);
	}
	assert_int_equal(pmemfs_bad_blocks(c->media, list), 0);
	corefs_remount(c, false);
}

/* With replicas: a log whose segment does not take its copy back leaves it. */
static void log_leaves(void **state)
{
	struct corefs *c = *state;
	uint64_t dir = mk_dir(c, ROOT, "d");
	struct inode *i;
	char name[32];

	if (corefs_copies() == 1)
		return;
	hold(c, ROOT, "d");
	for (int k = 0; k < 40; k++) {
		snprintf(name, sizeof(name), "some name of it %d", k);
		mk_file(c, dir, name);
	}
	assert_int_equal(inode_open(c->fs, dir, false, &i), 0);
	assert_true(i->log.nseg);
	poison_block(i->log.seg[0].block);
	inode_close(c->fs, i);
	assert_int_equal(scrub(c).damaged, 0);
	assert_true(is_listed(c, bad));
	assert_int_equal(inode_open(c->fs, dir, false, &i), 0);
	for (uint32_t k = 0; k < i->log.nseg; k++)
		assert_false(bad >= i->log.seg[k].block &&
			     bad < i->log.seg[k].block + i->log.seg[k].blocks);
	inode_close(c->fs, i);
	assert_int_equal(scrub(c).repaired, 0);
	corefs_remount(c, true);
	assert_int_equal(count_entries(c, dir), 40);
	fill(c);
	poison_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(read_then_freed),
	    CORE_TEST(read_then_crashed),
	    CORE_TEST(scrubbed_then_freed),
	    CORE_TEST(overwritten),
	    CORE_TEST(moves),
	    CORE_TEST(left_stripe),
	    CORE_TEST(heals),
	    CORE_TEST(fsck_lists),
	    CORE_TEST(reserved),
	    CORE_TEST(full),
	    CORE_TEST(log_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
