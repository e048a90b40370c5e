/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's space: a full filesystem, tables that grow and shrink, everything back at the end.
 */
#include "corefs.h"

#include <pthread.h>

static const struct pmemfs_cred cred = {0, 0};

/* Writes files of `size` bytes until there is no space; returns how many fitted whole. */
static unsigned fill(struct corefs *c, uint64_t dir, size_t size)
{
	char name[16], *buf = malloc(size + 1);
	struct pmemfs_attr a;
	unsigned n = 0;
	ssize_t rc = 0;

	unit_fill(buf, size, 1);
	while (rc >= 0) {
		snprintf(name, sizeof(name), "%u", n);
		rc = pmemfs_make(c->fs, dir, name, S_IFREG | 0644, 0, 0, NULL, &cred, &a);
		if (rc)
			break;
		if (size)
			rc = pmemfs_write(c->fs, a.ino, 0, buf, size, 0);
		/* all or nothing */
		assert_int_equal(attr_of(c, a.ino).size, rc < 0 ? 0 : size);
		pmemfs_forget(c->fs, a.ino, 1);
		n += rc >= 0;
	}
	assert_int_equal(rc, -ENOSPC);
	free(buf);
	return n;
}

static void full_with(struct corefs *c, size_t size)
{
	uint64_t d, before;
	struct pmemfs_statfs st;
	unsigned n, n2;
	char name[16];

	d = mk_dir(c, ROOT, "d");
	before = free_blocks_of(c);
	hold(c, ROOT, "d");
	n = fill(c, d, size);
	assert_true(n > 0);
	pmemfs_statfs(c->fs, &st);
	assert_true(st.bavail <= st.bfree);
	/* what bavail promises to users is used up but for what a file's log takes besides */
	assert_true(st.bavail <= size / 4096 + 200);
	corefs_remount(c, n % 2);
	hold(c, ROOT, "d");
	for (unsigned k = 0; k < n && size; k += 7) {
		snprintf(name, sizeof(name), "%u", k);
		expect_seed(c, find(c, d, name), 0, size, 1);
	}
	/* removing works on a full filesystem, and gives everything back */
	empty_dir(c, d);
	/* a few empty table blocks are kept while it is mounted */
	assert_true(free_blocks_of(c) + 100 >= before);
	corefs_remount(c, true);
	expect_space_back(c, before);
	hold(c, ROOT, "d");
	n2 = fill(c, d, size);
	assert_in_range(n2, n - n / 50 - 2, n + n / 50 + 2);
	empty_dir(c, d);
	corefs_remount(c, true);
	expect_space_back(c, before);
}

static void full_of_big_files(void **state)
{
	full_with(*state, 1 << 20);
}

static void full_of_blocks(void **state)
{
	full_with(*state, 4096);
}

static void full_of_empty_files(void **state)
{
	full_with(*state, 0);
}

/* Makes the filesystem as full as 4 KiB appends can; every block that there is. */
static uint64_t brim(struct corefs *c)
{
	uint64_t f = mk_held(c, ROOT, "brim");
	char buf[65536] = "x";
	size_t size = sizeof(buf);

	for (; size >= 4096; size /= 2)
		while (pmemfs_write(c->fs, f, 0, buf, size, PMEMFS_WRITE_APPEND) ==
		       (ssize_t)size)
			;
	return f;
}

/* On a brimful filesystem what needs space fails and changes nothing; what frees it works. */
static void nothing_half_done(void **state)
{
	struct corefs *c = *state;
	uint64_t d = mk_dir(c, ROOT, "d"), f = mk_file(c, d, "f"), e, big;
	struct pmemfs_attr a, b;
	char *buf = calloc(1, 1 << 20);

	put_seed(c, f, 0, 40960, 4);
	big = brim(c);
	a = attr_of(c, f);
	assert_int_equal(pmemfs_write(c->fs, f, 0, buf, 1 << 20, 0), -ENOSPC);
	assert_int_equal(pmemfs_write(c->fs, f, 40000, buf, 1 << 20, 0), -ENOSPC);
	assert_int_equal(pmemfs_fallocate(c->fs, f, 0, 0, 1 << 20), -ENOSPC);
	assert_int_equal(pmemfs_setxattr(c->fs, f, "user.big", buf, 65536, 0), -ENOSPC);
	b = attr_of(c, f);
	assert_memory_equal(&a, &b, sizeof(a));
	expect_seed(c, f, 0, 40960, 4);
	corefs_remount(c, false);
	b = attr_of(c, f);
	assert_memory_equal(&a, &b, sizeof(a));
	expect_seed(c, f, 0, 40960, 4);
	/* shrinking, renaming to free, removing */
	set_size(c, f, 5000);
	assert_int_equal(pmemfs_rename(c->fs, d, "f", ROOT, "brim", 0), 0);
	assert_int_equal(exists(c, d, "f"), -ENOENT);
	assert_int_equal(find(c, ROOT, "brim"), f);
	assert_int_equal(pmemfs_getattr(c->fs, big, &b), -ESTALE);
	expect_seed(c, f, 0, 5000, 4);
	e = mk_file(c, d, "e");
	put_seed(c, e, 0, 1 << 20, 5);
	expect_seed(c, e, 0, 1 << 20, 5);
	free(buf);
}

/* Thousands of names on a brimful filesystem: each can be removed, one by one. */
static void rm_always_works(void **state)
{
	const unsigned n = 5000;
	struct corefs *c = *state;
	uint64_t d = mk_dir(c, ROOT, "d"), before = free_blocks_of(c), big;
	char name[200], buf[4096] = "x";

	hold(c, ROOT, "d");
	memset(name, 'n', sizeof(name));
	for (unsigned k = 0; k < n; k++) {
		snprintf(name + 180, 16, "%06u", k);
		mk_file(c, d, name);
	}
	big = brim(c);
	for (unsigned k = 0; k < n; k++) {
		snprintf(name + 180, 16, "%06u", k);
		assert_int_equal(pmemfs_unlink(c->fs, d, name), 0);
		if (k % 1000 == 500) {
			corefs_remount(c, k > 2500);
			hold(c, ROOT, "d");
		}
		/* what was freed is taken again, so that it stays brimful */
		while (pmemfs_write(c->fs, big, 0, buf, sizeof(buf), PMEMFS_WRITE_APPEND) > 0)
			;
	}
	pmemfs_forget(c->fs, d, 1);
	assert_int_equal(pmemfs_rmdir(c->fs, ROOT, "d"), 0);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "brim"), 0);
	corefs_remount(c, true);
	expect_space_back(c, before);
}

/* ---- inode tables ---- */

static void many_files(void **state)
{
	const unsigned n = 100000, dirs = 50;
	struct corefs *c = *state;
	uint64_t before = free_blocks_of(c), ino = 0;
	struct pmemfs_statfs st0, st;
	char name[16];

	pmemfs_statfs(c->fs, &st0);
	for (unsigned d = 0; d < dirs; d++) {
		snprintf(name, sizeof(name), "d%u", d);
		ino = mk_dir(c, ROOT, name);
		hold(c, ROOT, name);
		for (unsigned k = 0; k < n / dirs; k++) {
			snprintf(name, sizeof(name), "%u", k);
			mk_file(c, ino, name);
		}
		pmemfs_forget(c->fs, ino, 1);
	}
	pmemfs_statfs(c->fs, &st);
	assert_int_equal(st.files - st.ffree, st0.files - st0.ffree + n + dirs);
	/* an empty file takes its slot of 512 bytes, and its name twice at worst */
	assert_true(before - st.bfree < corefs_copies() * (n / 8 + n * 100 / 4096 + 1000));
	for (int clean = 0; clean < 2; clean++) {
		struct pmemfs_statfs again;

		corefs_remount(c, clean);
		pmemfs_statfs(c->fs, &again);
		assert_int_equal(again.files - again.ffree, st.files - st.ffree);
		/* mounting gives back what tables kept */
		assert_in_range(again.bfree, st.bfree, st.bfree + 100);
	}
	empty_dir(c, ROOT);
	corefs_remount(c, true);
	pmemfs_statfs(c->fs, &st);
	assert_int_equal(st.files - st.ffree, st0.files - st0.ffree);
	expect_space_back(c, before);
}

/* Every second file goes: their slots are used again before the tables grow. */
static void slots_are_reused(void **state)
{
	const unsigned n = 4000;
	struct corefs *c = *state;
	uint64_t d = mk_dir(c, ROOT, "d"), full;
	char name[16];

	hold(c, ROOT, "d");
	for (unsigned k = 0; k < n; k++) {
		snprintf(name, sizeof(name), "%u", k);
		mk_file(c, d, name);
	}
	full = free_blocks_of(c);
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned k = round % 2; k < n; k += 2) {
			snprintf(name, sizeof(name), "%u", k);
			assert_int_equal(pmemfs_unlink(c->fs, d, name), 0);
		}
		for (unsigned k = round % 2; k < n; k += 2) {
			snprintf(name, sizeof(name), "%u", k);
			mk_file(c, d, name);
		}
		/* the directory's log may be up to twice its state, and some */
		assert_true(free_blocks_of(c) + corefs_copies() * (n * 40 / 4096 + 64) >= full);
		corefs_remount(c, round % 2);
		hold(c, ROOT, "d");
	}
}

/* Overwriting goes on for long on a nearly full filesystem: logs and blocks are given back. */
static void overwriting_leaks_nothing(void **state)
{
	struct corefs *c = *state;
	uint64_t empty = free_blocks_of(c), f = mk_held(c, ROOT, "f"), before;

	put_seed(c, f, 0, 40 << 20, 1);
	before = free_blocks_of(c);
	for (unsigned k = 0; k < 20000; k++)
		put_seed(c, f, (uint64_t)(k * 7919 % 10000) * 4096, 100, k);
	/* the log of a file in pieces: its state in 24 bytes a block, twice, and some */
	assert_true(free_blocks_of(c) + corefs_copies() * (2 * 24 * 10240 / 4096 + 64) >=
		    before);
	corefs_remount(c, false);
	set_size(c, f, 0);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "f"), 0);
	expect_space_back(c, empty);
}

struct sizing {
	struct corefs *c;
	uint64_t file, size;
	ssize_t err;
};

static void *set_bytes(void *arg)
{
	static const char bytes[100 * 4096];
	struct pmemfs_attr a = {.size = 0};
	struct sizing *z = arg;

	if (z->size)
		z->err = pmemfs_write(z->c->fs, z->file, 0, bytes, z->size, 0);
	else
		z->err = pmemfs_setattr(z->c->fs, z->file, PMEMFS_SET_SIZE, &a, &a);
	return NULL;
}

/* Each file gets that size by a thread of its own, which has a shard of its own. */
static void size_files(struct sizing *z, unsigned n, uint64_t size)
{
	for (unsigned k = 0; k < n; k++) {
		pthread_t t;

		z[k].size = size;
		assert_int_equal(pthread_create(&t, NULL, set_bytes, &z[k]), 0);
		pthread_join(t, NULL);
		assert_int_equal(z[k].err, size);
	}
}

/* What other threads, of other shards, gave back on a full filesystem can be had at once. */
static void given_back_by_others(void **state)
{
	enum { SHARDS = 8, BLOCKS = 100 };
	struct sizing z[SHARDS];
	struct corefs c;
	uint64_t f, before, got = 0;
	char name[16], buf[4096] = "x";

	corefs_new(&c, 64 << 20, SHARDS);
	for (unsigned k = 0; k < SHARDS; k++) {
		snprintf(name, sizeof(name), "%u", k);
		z[k] = (struct sizing){&c, mk_held(&c, ROOT, name), 0, 0};
	}
	size_files(z, SHARDS, BLOCKS * 4096);
	f = brim(&c);
	before = free_blocks_of(&c);
	size_files(z, SHARDS, 0);
	assert_true(free_blocks_of(&c) >= before + SHARDS * BLOCKS);
	while (pmemfs_write(c.fs, f, 0, buf, sizeof(buf), PMEMFS_WRITE_APPEND) > 0)
		got++;
	assert_true(got >=
		    SHARDS * BLOCKS - 2 * corefs_copies()); /* the file's log grows too */
	corefs_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(full_of_big_files),
	    CORE_TEST(full_of_blocks),
	    CORE_TEST(full_of_empty_files),
	    CORE_TEST(nothing_half_done),
	    CORE_TEST(rm_always_works),
	    CORE_TEST_BIG(many_files),
	    CORE_TEST(slots_are_reused),
	    CORE_TEST(overwriting_leaks_nothing),
	    cmocka_unit_test(given_back_by_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
