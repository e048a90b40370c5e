/* SPDX-License-Identifier: BSD-3-Clause */
/* Scrubbing: sees all there is, finds each kind of damage, and disturbs nobody. */
#include "corefs.h"

#include <pthread.h>

#include "fs.h"

static struct pmemfs_scrub scrub(struct corefs *c, uint64_t step)
{
	struct pmemfs_scrub s = {0};

	while (pmemfs_scrub(c->fs, &s, step))
		;
	return s;
}

/* Where the first block of the file lies. */
static uint64_t data_of(struct corefs *c, uint64_t ino)
{
	struct range_cursor cur;
	struct inode *i;
	uint64_t off;

	assert_int_equal(inode_open(c->fs, ino, false, &i), 0);
	off = range_block(rangemap_find(&i->extents, 0, &cur)) * PMEMFS_BLOCK_SIZE;
	inode_close(c->fs, i);
	return off;
}

static void sees_all(void **state)
{
	struct corefs *c = *state;
	struct pmemfs_scrub s, t;
	char name[16];

	for (unsigned k = 0; k < 300; k++) {
		snprintf(name, sizeof(name), "%u", k);
		put_seed(c, mk_file(c, ROOT, name), 0, k * 100, k);
	}
	s = scrub(c, UINT64_MAX / 2);
	assert_int_equal(s.inodes, 301);
	assert_int_equal(s.damaged, 0);
	assert_true(s.bytes > 100ull * 300 * 299 / 2);
	t = scrub(c, 5000); /* in small steps */
	assert_int_equal(t.inodes, s.inodes);
	assert_int_equal(t.bytes, s.bytes);
	corefs_remount(c, true);
	t = scrub(c, 100000);
	assert_int_equal(t.inodes, s.inodes);
	assert_int_equal(t.damaged, 0);
}

/* Damage of metadata is counted as such, or, where there is a good copy, mended. */
static void expect_log_damage(struct corefs *c, uint8_t *byte)
{
	bool mends = corefs_copies() == 2;
	struct pmemfs_scrub s;
	uint8_t was = *byte;

	*byte ^= 1;
	s = scrub(c, 1000000);
	assert_int_equal(s.damaged, !mends);
	assert_in_range(s.repaired, 0, mends); /* not if opening it did */
	if (mends)
		assert_int_equal(*byte, was);
	*byte = was;
	assert_int_equal(scrub(c, 1000000).repaired, 0);
}

static void finds_damage(void **state)
{
	struct corefs *c = *state;
	uint64_t held = mk_held(c, ROOT, "held"), cold, slot;
	uint8_t *mem = c->mem;

	put_seed(c, held, 0, 3000000, 1);
	cold = mk_file(c, ROOT, "cold");
	put_seed(c, cold, 0, 100, 2);
	assert_int_equal(scrub(c, 1).damaged, 0);

	mem[data_of(c, held) + 2500000] ^= 1; /* far inside */
	assert_int_equal(scrub(c, 1000000).damaged, 1);
	mem[data_of(c, held) + 2500000] ^= 1;

	assert_int_equal(itable_find(c->fs, held, &slot), 0); /* the log of an open file */
	for (unsigned copy = 0; copy < corefs_copies(); copy++) {
		expect_log_damage(c, mem + slot + copy * PMEMFS_BLOCK_SIZE + 40);
		expect_log_damage(c, mem + slot + copy * PMEMFS_BLOCK_SIZE + 3); /* head word */
	}
	assert_int_equal(itable_find(c->fs, cold, &slot), 0); /* one that nobody has */
	for (unsigned copy = 0; copy < corefs_copies(); copy++)
		expect_log_damage(c, mem + slot + copy * PMEMFS_BLOCK_SIZE + 40);

	mem[PMEMFS_SB_REPLICA * PMEMFS_BLOCK_SIZE + 100] ^= 1;
	assert_int_equal(scrub(c, 1000000).damaged, 1);
	mem[PMEMFS_SB_REPLICA * PMEMFS_BLOCK_SIZE + 100] ^= 1;
	assert_int_equal(scrub(c, 1000000).damaged, 0);
}

static atomic_bool stop;

static void *busy(void *arg)
{
	struct corefs *c = arg;
	const struct pmemfs_cred cred = {0, 0};
	static const char buf[20000];
	struct pmemfs_attr a;

	for (unsigned k = 0; !atomic_load(&stop); k++) {
		if (pmemfs_make(c->fs, ROOT, "busy", S_IFREG | 0600, 0, 0, NULL, &cred, &a))
			break;
		for (unsigned n = 0; n < 20; n++)
			pmemfs_write(c->fs, a.ino, n * 1777 % 9000, buf, 20000 - n * 100, 0);
		pmemfs_unlink(c->fs, ROOT, "busy");
		pmemfs_forget(c->fs, a.ino, 1);
	}
	return NULL;
}

static void beside_writers(void **state)
{
	struct corefs *c = *state;
	pthread_t t;

	put_seed(c, mk_file(c, ROOT, "f"), 0, 500000, 1);
	assert_int_equal(pthread_create(&t, NULL, busy, c), 0);
	for (unsigned k = 0; k < 300; k++)
		assert_int_equal(scrub(c, 10000).damaged, 0);
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	corefs_remount(c, false);
	assert_int_equal(scrub(c, 10000).inodes, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(sees_all),
	    CORE_TEST(finds_damage),
	    CORE_TEST(beside_writers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
