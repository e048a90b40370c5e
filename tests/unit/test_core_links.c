/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's links: hard and symbolic, renaming, files without a name, numbers used again. */
#include "corefs.h"

static const struct pmemfs_cred cred = {0, 0};

static int do_rename(struct corefs *c, uint64_t from, const char *a, uint64_t to, const char *b,
		     unsigned flags)
{
	return pmemfs_rename(c->fs, from, a, to, b, flags);
}

static int do_link(struct corefs *c, uint64_t ino, uint64_t dir, const char *name)
{
	struct pmemfs_attr a;
	int rc = pmemfs_link(c->fs, ino, dir, name, &a);

	if (!rc) {
		assert_int_equal(a.ino, ino);
		pmemfs_forget(c->fs, ino, 1);
	}
	return rc;
}

/* ---- hard links ---- */

static void many_links(void **state)
{
	const unsigned n = 70000;
	struct corefs *c = *state;
	uint64_t d = mk_dir(c, ROOT, "d"), f = mk_file(c, ROOT, "f");
	char name[16];

	hold(c, ROOT, "d");
	hold(c, ROOT, "f");
	put_seed(c, f, 0, 100, 7);
	for (unsigned k = 1; k < n; k++) {
		snprintf(name, sizeof(name), "%u", k);
		assert_int_equal(do_link(c, f, d, name), 0);
	}
	assert_int_equal(attr_of(c, f).nlink, n);
	corefs_remount(c, false);
	assert_int_equal(attr_of(c, f).nlink, n);
	corefs_remount(c, true);
	assert_int_equal(attr_of(c, f).nlink, n);
	hold(c, ROOT, "d");
	hold(c, ROOT, "f");
	assert_int_equal(count_entries(c, d), n - 1);
	assert_int_equal(find(c, d, "65536"), f);
	empty_dir(c, d);
	assert_int_equal(attr_of(c, f).nlink, 1);
	expect_seed(c, f, 0, 100, 7);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "f"), 0);
	assert_int_equal(exists(c, ROOT, "f"), -ENOENT);
}

static void link_rules(void **state)
{
	struct corefs *c = *state;
	uint64_t d = mk_dir(c, ROOT, "d"), f = mk_file(c, ROOT, "f");

	assert_int_equal(do_link(c, f, ROOT, "f"), -EEXIST);
	assert_int_equal(do_link(c, f, ROOT, "d"), -EEXIST);
	assert_int_equal(do_link(c, d, ROOT, "e"), -EPERM);
	assert_int_equal(do_link(c, ROOT, d, "e"), -EPERM);
	assert_int_equal(do_link(c, f, f, "e"), -ENOTDIR);
	assert_int_equal(do_link(c, 4242, d, "e"), -ESTALE);
	assert_int_equal(attr_of(c, f).nlink, 1);
	assert_int_equal(do_link(c, f, d, "f"), 0);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "f"), 0);
	assert_int_equal(attr_of(c, f).nlink, 1);
	assert_int_equal(find(c, d, "f"), f);
}

/* ---- symlinks ---- */

static void symlinks(void **state)
{
	static const size_t lengths[] = {1, 2, 100, 200, 210, 247, 248, 512, 4000, 4094, 4095};
	struct corefs *c = *state;
	char target[4098], got[4200], name[16];
	struct pmemfs_attr a;

	for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
		memset(target, 'a' + (int)k, lengths[k]);
		target[lengths[k]] = 0;
		snprintf(name, sizeof(name), "%zu", lengths[k]);
		assert_int_equal(
		    pmemfs_make(c->fs, ROOT, name, S_IFLNK | 0777, 0, 0, target, &cred, &a), 0);
		assert_int_equal(a.size, lengths[k]);
		assert_true(S_ISLNK(a.mode));
		pmemfs_forget(c->fs, a.ino, 1);
	}
	for (int clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
			uint64_t ino;

			snprintf(name, sizeof(name), "%zu", lengths[k]);
			ino = find(c, ROOT, name);
			memset(target, 'a' + (int)k, lengths[k]);
			memset(got, '#', sizeof(got));
			assert_int_equal(pmemfs_readlink(c->fs, ino, got, sizeof(got)),
					 lengths[k]);
			assert_memory_equal(got, target, lengths[k]);
			assert_int_equal(got[lengths[k]], '#');
			assert_int_equal(attr_of(c, ino).size, lengths[k]);
		}
	}
	assert_int_equal(pmemfs_readlink(c->fs, find(c, ROOT, "4095"), got, 10), 10);
}

static void symlink_rules(void **state)
{
	struct corefs *c = *state;
	char target[4097], buf[8];
	struct pmemfs_attr a;
	uint64_t free_before = free_blocks_of(c), f;

	memset(target, 'x', 4096);
	target[4096] = 0;
	assert_int_equal(pmemfs_make(c->fs, ROOT, "l", S_IFLNK | 0777, 0, 0, target, &cred, &a),
			 -ENAMETOOLONG);
	assert_int_equal(pmemfs_make(c->fs, ROOT, "l", S_IFLNK | 0777, 0, 0, "", &cred, &a),
			 -ENOENT);
	assert_int_equal(exists(c, ROOT, "l"), -ENOENT);
	assert_int_equal(free_blocks_of(c), free_before);
	f = mk_file(c, ROOT, "f");
	assert_int_equal(pmemfs_readlink(c->fs, f, buf, sizeof(buf)), -EINVAL);
	assert_int_equal(pmemfs_readlink(c->fs, ROOT, buf, sizeof(buf)), -EINVAL);
	assert_int_equal(pmemfs_make(c->fs, ROOT, "l", S_IFLNK | 0777, 0, 0, "t", &cred, &a),
			 0);
	assert_int_equal(pmemfs_write(c->fs, a.ino, 0, "x", 1, 0), -EINVAL);
	assert_int_equal(pmemfs_read(c->fs, a.ino, 0, buf, 1), -EINVAL);
	pmemfs_forget(c->fs, a.ino, 1);
}

/* ---- renaming ---- */

static void rename_files(void **state)
{
	struct corefs *c = *state;
	uint64_t d = mk_dir(c, ROOT, "d"), a = mk_file(c, ROOT, "a"), b = mk_file(c, d, "b");

	put_seed(c, a, 0, 10000, 1);
	put_seed(c, b, 0, 20000, 2);
	assert_int_equal(do_rename(c, ROOT, "a", d, "a", 0), 0);
	assert_int_equal(exists(c, ROOT, "a"), -ENOENT);
	assert_int_equal(find(c, d, "a"), a);
	assert_int_equal(do_rename(c, d, "a", d, "b", RENAME_NOREPLACE), -EEXIST);
	assert_int_equal(do_rename(c, d, "a", d, "b", 0), 0);
	assert_int_equal(find(c, d, "b"), a);
	assert_int_equal(count_entries(c, d), 1);
	expect_seed(c, a, 0, 10000, 1);
	assert_int_equal(do_rename(c, d, "nothing", d, "b", 0), -ENOENT);
	assert_int_equal(do_rename(c, d, "b", mk_file(c, ROOT, "other"), "x", 0), -ENOTDIR);
	assert_int_equal(do_rename(c, d, "b", d, "c", RENAME_EXCHANGE), -ENOENT);
	assert_int_equal(do_rename(c, d, "b", d, "c", RENAME_NOREPLACE | RENAME_EXCHANGE),
			 -EINVAL);
	assert_int_equal(do_rename(c, d, "b", d, "c", 1u << 10), -EINVAL);
	assert_int_equal(do_rename(c, d, "b", d, "c", RENAME_NOREPLACE), 0);
	assert_int_equal(find(c, d, "c"), a);
}

/* Two names of one object: nothing happens, both stay (POSIX). */
static void rename_same_inode(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "a"), d = mk_dir(c, ROOT, "d");

	assert_int_equal(do_link(c, f, ROOT, "b"), 0);
	assert_int_equal(do_link(c, f, d, "c"), 0);
	assert_int_equal(do_rename(c, ROOT, "a", ROOT, "a", 0), 0);
	assert_int_equal(do_rename(c, ROOT, "a", ROOT, "b", 0), 0);
	assert_int_equal(do_rename(c, ROOT, "a", d, "c", 0), 0);
	assert_int_equal(do_rename(c, ROOT, "a", d, "c", RENAME_EXCHANGE), 0);
	assert_int_equal(do_rename(c, ROOT, "d", ROOT, "d", 0), 0);
	assert_int_equal(attr_of(c, f).nlink, 3);
	assert_int_equal(count_entries(c, ROOT), 3);
	assert_int_equal(find(c, d, "c"), f);
}

static void rename_dirs(void **state)
{
	struct corefs *c = *state;
	uint64_t a = mk_dir(c, ROOT, "a"), b = mk_dir(c, a, "b"), e = mk_dir(c, ROOT, "e");
	uint64_t f = mk_file(c, ROOT, "f");

	assert_int_equal(attr_of(c, ROOT).nlink, 4);
	assert_int_equal(attr_of(c, a).nlink, 3);
	/* into itself */
	assert_int_equal(do_rename(c, ROOT, "a", a, "x", 0), -EINVAL);
	assert_int_equal(do_rename(c, ROOT, "a", b, "x", 0), -EINVAL);
	assert_int_equal(do_rename(c, ROOT, "a", a, "b", RENAME_EXCHANGE), -EINVAL);
	/* over what it must not replace */
	assert_int_equal(do_rename(c, ROOT, "e", ROOT, "a", 0), -ENOTEMPTY);
	assert_int_equal(do_rename(c, ROOT, "e", ROOT, "f", 0), -ENOTDIR);
	assert_int_equal(do_rename(c, ROOT, "f", ROOT, "e", 0), -EISDIR);
	/* over an empty one */
	assert_int_equal(do_rename(c, ROOT, "e", a, "b", 0), 0);
	assert_int_equal(find(c, a, "b"), e);
	assert_int_equal(find(c, e, ".."), a);
	assert_int_equal(attr_of(c, ROOT).nlink, 3);
	assert_int_equal(attr_of(c, a).nlink, 3);
	/* up again */
	assert_int_equal(do_rename(c, a, "b", ROOT, "b", 0), 0);
	assert_int_equal(find(c, e, ".."), ROOT);
	assert_int_equal(attr_of(c, ROOT).nlink, 4);
	assert_int_equal(attr_of(c, a).nlink, 2);
	for (int clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		assert_int_equal(find(c, ROOT, "b"), e);
		assert_int_equal(find(c, e, ".."), ROOT);
		assert_int_equal(attr_of(c, ROOT).nlink, 4);
		assert_int_equal(attr_of(c, f).nlink, 1);
	}
}

static void exchange(void **state)
{
	struct corefs *c = *state;
	uint64_t a = mk_dir(c, ROOT, "a"), b = mk_dir(c, ROOT, "b"), f = mk_file(c, a, "f");
	uint64_t sub = mk_dir(c, b, "sub"), deep = mk_file(c, sub, "deep");

	assert_int_equal(do_rename(c, a, "f", b, "sub", RENAME_EXCHANGE), 0);
	for (int clean = 0; clean < 3; clean++) {
		assert_int_equal(find(c, a, "f"), sub);
		assert_int_equal(find(c, b, "sub"), f);
		assert_int_equal(find(c, sub, ".."), a);
		assert_int_equal(find(c, sub, "deep"), deep);
		assert_int_equal(attr_of(c, a).nlink, 3);
		assert_int_equal(attr_of(c, b).nlink, 2);
		assert_int_equal(count_entries(c, a), 1);
		if (clean < 2)
			corefs_remount(c, clean);
	}
	/* two directories with entries */
	assert_int_equal(do_rename(c, ROOT, "a", ROOT, "b", RENAME_EXCHANGE), 0);
	assert_int_equal(find(c, ROOT, "a"), b);
	assert_int_equal(find(c, ROOT, "b"), a);
	/* a directory with what is in it */
	assert_int_equal(do_rename(c, ROOT, "b", a, "f", RENAME_EXCHANGE), -EINVAL);
	assert_int_equal(do_rename(c, a, "f", ROOT, "b", RENAME_EXCHANGE), -EINVAL);
}

/* A deep chain; the root's grandchild is moved below its sibling and back many times. */
static void rename_often(void **state)
{
	struct corefs *c = *state;
	uint64_t a = mk_dir(c, ROOT, "a"), b = mk_dir(c, ROOT, "b"), x = mk_dir(c, a, "x");
	uint64_t free_before = free_blocks_of(c);

	for (unsigned k = 0; k < 2000; k++) {
		assert_int_equal(do_rename(c, k % 2 ? b : a, "x", k % 2 ? a : b, "x", 0), 0);
		if (k % 500 == 250)
			corefs_remount(c, k > 1000);
	}
	assert_int_equal(find(c, a, "x"), x);
	assert_int_equal(attr_of(c, a).nlink, 3);
	assert_int_equal(attr_of(c, b).nlink, 2);
	/* logs are compacted: 2,000 records must not take more than a few blocks */
	assert_true(free_blocks_of(c) + 16 >= free_before);
}

/* ---- files without a name ---- */

static void open_unlinked(void **state)
{
	struct corefs *c = *state;
	uint64_t free_before = free_blocks_of(c), f = mk_held(c, ROOT, "f");
	struct pmemfs_statfs st, st2;
	struct pmemfs_attr a;

	pmemfs_statfs(c->fs, &st);
	put_seed(c, f, 0, 100000, 1);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "f"), 0);
	assert_int_equal(attr_of(c, f).nlink, 0);
	expect_seed(c, f, 0, 100000, 1);
	put_seed(c, f, 100000, 50000, 2);
	expect_seed(c, f, 100000, 50000, 2);
	set_size(c, f, 1000);
	/* it must not come back */
	assert_int_equal(pmemfs_link(c->fs, f, ROOT, "again", &a), -ENOENT);
	pmemfs_forget(c->fs, f, 1);
	assert_int_equal(pmemfs_getattr(c->fs, f, &a), -ESTALE);
	expect_space_back(c, free_before);
	pmemfs_statfs(c->fs, &st2);
	assert_int_equal(st2.files - st2.ffree + 1, st.files - st.ffree);
}

/* A file that only a reference kept is gone after a kill, and after an unmount. */
static void orphans_are_freed(void **state)
{
	struct corefs *c = *state;
	uint64_t free_before = free_blocks_of(c), f;
	struct pmemfs_attr a;

	for (int clean = 0; clean < 2; clean++) {
		f = mk_held(c, ROOT, "f");
		put_seed(c, f, 0, 300000, 1);
		assert_int_equal(pmemfs_unlink(c->fs, ROOT, "f"), 0);
		corefs_remount(c, clean);
		assert_int_equal(pmemfs_getattr(c->fs, f, &a), -ESTALE);
		assert_int_equal(exists(c, ROOT, "f"), -ENOENT);
		expect_space_back(c, free_before);
	}
}

static void replaced_while_open(void **state)
{
	struct corefs *c = *state;
	uint64_t old = mk_held(c, ROOT, "f"), new = mk_file(c, ROOT, "g");
	struct pmemfs_attr a;

	put_seed(c, old, 0, 9000, 1);
	assert_int_equal(do_rename(c, ROOT, "g", ROOT, "f", 0), 0);
	assert_int_equal(find(c, ROOT, "f"), new);
	assert_int_equal(attr_of(c, old).nlink, 0);
	expect_seed(c, old, 0, 9000, 1);
	pmemfs_forget(c->fs, old, 1);
	assert_int_equal(pmemfs_getattr(c->fs, old, &a), -ESTALE);
}

static void removed_directory(void **state)
{
	struct corefs *c = *state;
	struct pmemfs_attr a, b;

	assert_int_equal(pmemfs_make(c->fs, ROOT, "d", S_IFDIR | 0755, 0, 0, NULL, &cred, &a),
			 0);
	mk_file(c, a.ino, "f");
	assert_int_equal(pmemfs_rmdir(c->fs, ROOT, "d"), -ENOTEMPTY);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "d"), -EISDIR);
	assert_int_equal(pmemfs_rmdir(c->fs, a.ino, "f"), -ENOTDIR);
	assert_int_equal(pmemfs_unlink(c->fs, a.ino, "f"), 0);
	assert_int_equal(pmemfs_rmdir(c->fs, ROOT, "d"), 0);
	/* somebody still stands in it: nothing can be made there, it lists nothing */
	assert_int_equal(attr_of(c, a.ino).nlink, 0);
	assert_int_equal(pmemfs_make(c->fs, a.ino, "x", S_IFREG, 0, 0, NULL, &cred, &b),
			 -ENOENT);
	assert_int_equal(pmemfs_tmpfile(c->fs, a.ino, 0600, &cred, &b), -ENOENT);
	assert_int_equal(count_entries(c, a.ino), 0);
	assert_int_equal(exists(c, a.ino, "f"), -ENOENT);
	pmemfs_forget(c->fs, a.ino, 1);
	assert_int_equal(pmemfs_getattr(c->fs, a.ino, &b), -ESTALE);
}

static void tmpfile_gets_a_name(void **state)
{
	struct corefs *c = *state;
	struct pmemfs_attr a, b;

	assert_int_equal(pmemfs_tmpfile(c->fs, ROOT, 0640, &cred, &a), 0);
	assert_int_equal(a.nlink, 0);
	assert_int_equal(a.mode, S_IFREG | 0640);
	assert_int_equal(count_entries(c, ROOT), 0);
	put_seed(c, a.ino, 0, 5000, 3);
	assert_int_equal(pmemfs_link(c->fs, a.ino, ROOT, "f", &b), 0);
	assert_int_equal(b.ino, a.ino);
	assert_int_equal(b.nlink, 1);
	pmemfs_forget(c->fs, a.ino, 2);
	for (int clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		assert_int_equal(find(c, ROOT, "f"), a.ino);
		expect_seed(c, a.ino, 0, 5000, 3);
	}
	/* one that nobody names is gone with its last user */
	assert_int_equal(pmemfs_tmpfile(c->fs, ROOT, 0640, &cred, &a), 0);
	pmemfs_forget(c->fs, a.ino, 1);
	assert_int_equal(pmemfs_getattr(c->fs, a.ino, &b), -ESTALE);
}

/* ---- numbers ---- */

/* A number that is used again has another generation, across remounts too. */
static void generations(void **state)
{
	struct corefs *c = *state;
	struct {
		uint64_t ino;
		uint32_t generation;
	} seen[60];
	unsigned reused = 0;

	for (unsigned k = 0; k < 60; k++) {
		uint64_t ino = mk_file(c, ROOT, "f");
		struct pmemfs_attr a = attr_of(c, ino);

		for (unsigned j = 0; j < k; j++) {
			if (seen[j].ino != ino)
				continue;
			reused++;
			assert_int_not_equal(seen[j].generation, a.generation);
		}
		seen[k].ino = ino;
		seen[k].generation = a.generation;
		assert_int_equal(pmemfs_unlink(c->fs, ROOT, "f"), 0);
		if (k % 10 == 5)
			corefs_remount(c, k % 20 > 10);
	}
	assert_true(reused > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(many_links),	  CORE_TEST(link_rules),
	    CORE_TEST(symlinks),	  CORE_TEST(symlink_rules),
	    CORE_TEST(rename_files),	  CORE_TEST(rename_same_inode),
	    CORE_TEST(rename_dirs),	  CORE_TEST(exchange),
	    CORE_TEST(rename_often),	  CORE_TEST(open_unlinked),
	    CORE_TEST(orphans_are_freed), CORE_TEST(replaced_while_open),
	    CORE_TEST(removed_directory), CORE_TEST(tmpfile_gets_a_name),
	    CORE_TEST(generations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
