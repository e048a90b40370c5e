/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's attributes: extended ones, times, owners and modes, devices. */
#include "corefs.h"

#include <sys/xattr.h>

static const struct pmemfs_cred cred = {0, 0};

static int set_x(struct corefs *c, uint64_t ino, const char *name, const char *value, int flags)
{
	return pmemfs_setxattr(c->fs, ino, name, value, strlen(value), flags);
}

static void expect_x(struct corefs *c, uint64_t ino, const char *name, const char *value)
{
	char buf[256];
	ssize_t n = pmemfs_getxattr(c->fs, ino, name, buf, sizeof(buf));

	assert_int_equal(n, strlen(value));
	assert_memory_equal(buf, value, (size_t)n);
	assert_int_equal(pmemfs_getxattr(c->fs, ino, name, NULL, 0), n);
}

/* ---- extended attributes ---- */

static void xattr_spaces(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f"), d = mk_dir(c, ROOT, "d");
	struct pmemfs_attr l;

	assert_int_equal(pmemfs_make(c->fs, ROOT, "l", S_IFLNK | 0777, 0, 0, "t", &cred, &l),
			 0);
	pmemfs_forget(c->fs, l.ino, 1);
	assert_int_equal(set_x(c, f, "user.a", "1", 0), 0);
	assert_int_equal(set_x(c, f, "trusted.a", "2", 0), 0);
	assert_int_equal(set_x(c, f, "security.a", "3", 0), 0);
	assert_int_equal(set_x(c, d, "user.dir", "4", 0), 0);
	assert_int_equal(set_x(c, ROOT, "user.root", "5", 0), 0);
	assert_int_equal(set_x(c, l.ino, "trusted.l", "6", 0), 0);
	for (int clean = 0; clean < 3; clean++) {
		expect_x(c, f, "user.a", "1");
		expect_x(c, f, "trusted.a", "2");
		expect_x(c, f, "security.a", "3");
		expect_x(c, d, "user.dir", "4");
		expect_x(c, ROOT, "user.root", "5");
		expect_x(c, l.ino, "trusted.l", "6");
		if (clean < 2)
			corefs_remount(c, clean);
	}
}

static void xattr_errors(void **state)
{
	static const char *const unknown[] = {"foo.bar", "nonsense", "system.other", "usera",
					      "User.a"};
	static const char *const bare[] = {"user.", "trusted.", "security."};
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	char long_name[257], buf[16], *big = calloc(1, 65537);

	assert_int_equal(set_x(c, f, "user.a", "x", XATTR_REPLACE), -ENODATA);
	assert_int_equal(set_x(c, f, "user.a", "hello", XATTR_CREATE), 0);
	assert_int_equal(set_x(c, f, "user.a", "x", XATTR_CREATE), -EEXIST);
	assert_int_equal(pmemfs_getxattr(c->fs, f, "user.a", buf, 4), -ERANGE);
	assert_int_equal(pmemfs_getxattr(c->fs, f, "user.a", buf, 5), 5);
	assert_int_equal(pmemfs_getxattr(c->fs, f, "user.b", buf, 16), -ENODATA);
	assert_int_equal(pmemfs_removexattr(c->fs, f, "user.b"), -ENODATA);
	assert_int_equal(pmemfs_listxattr(c->fs, f, NULL, 0), 7);
	assert_int_equal(pmemfs_listxattr(c->fs, f, buf, 6), -ERANGE);
	assert_int_equal(pmemfs_listxattr(c->fs, f, buf, 16), 7);
	assert_string_equal(buf, "user.a");
	for (size_t k = 0; k < sizeof(unknown) / sizeof(unknown[0]); k++) {
		assert_int_equal(set_x(c, f, unknown[k], "x", 0), -EOPNOTSUPP);
		assert_int_equal(pmemfs_getxattr(c->fs, f, unknown[k], buf, 16), -EOPNOTSUPP);
		assert_int_equal(pmemfs_removexattr(c->fs, f, unknown[k]), -EOPNOTSUPP);
	}
	for (size_t k = 0; k < sizeof(bare) / sizeof(bare[0]); k++)
		assert_int_equal(set_x(c, f, bare[k], "x", 0), -EINVAL);
	memset(long_name, 'n', sizeof(long_name));
	memcpy(long_name, "user.", 5);
	long_name[256] = 0;
	assert_int_equal(set_x(c, f, long_name, "x", 0), -ERANGE);
	long_name[255] = 0;
	assert_int_equal(set_x(c, f, long_name, "long", 0), 0);
	assert_int_equal(pmemfs_setxattr(c->fs, f, "user.big", big, 65537, 0), -E2BIG);
	assert_int_equal(pmemfs_setxattr(c->fs, f, "user.big", big, 65536, 0), 0);
	corefs_remount(c, false);
	expect_x(c, f, long_name, "long");
	assert_int_equal(pmemfs_getxattr(c->fs, f, "user.big", NULL, 0), 65536);
	free(big);
}

static void xattr_values(void **state)
{
	static const size_t lens[] = {0, 1, 7, 8, 9, 100, 200, 255, 1000, 4096, 30000, 65536};
	const size_t n = sizeof(lens) / sizeof(lens[0]);
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f"), before = free_blocks_of(c);
	char *want = malloc(65536), *got = malloc(65536), name[16];

	for (unsigned round = 0; round < 3; round++) {
		for (size_t k = 0; k < n; k++) {
			size_t len = lens[(k + round) % n];

			unit_fill(want, len, 10 * round + k);
			snprintf(name, sizeof(name), "user.%zu", k);
			assert_int_equal(pmemfs_setxattr(c->fs, f, name, want, len,
							 round ? XATTR_REPLACE : XATTR_CREATE),
					 0);
		}
		corefs_remount(c, round % 2);
		for (size_t k = 0; k < n; k++) {
			size_t len = lens[(k + round) % n];

			unit_fill(want, len, 10 * round + k);
			snprintf(name, sizeof(name), "user.%zu", k);
			assert_int_equal(pmemfs_getxattr(c->fs, f, name, got, 65536), len);
			assert_memory_equal(got, want, len);
		}
	}
	for (size_t k = 0; k < n; k++) {
		snprintf(name, sizeof(name), "user.%zu", k);
		assert_int_equal(pmemfs_removexattr(c->fs, f, name), 0);
	}
	assert_int_equal(pmemfs_listxattr(c->fs, f, NULL, 0), 0);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "f"), 0);
	expect_space_back(c, before);
	free(want);
	free(got);
}

/* As many as can be listed in the kernel's 64 KiB; then no more, and nothing breaks. */
static void many_xattrs(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_held(c, ROOT, "f");
	char name[256], *list = malloc(65536);
	unsigned n, k;
	int rc = 0;

	memset(name, 'x', sizeof(name));
	name[255] = 0;
	for (n = 0; n < 1000 && !rc; n++) {
		memcpy(name, "user.", 5);
		snprintf(name + 5, 7, "%06u", n);
		name[11] = '.';
		rc = pmemfs_setxattr(c->fs, f, name, "v", 1, 0);
	}
	assert_int_equal(rc, -ENOSPC);
	n--;
	assert_int_equal(n, 256);
	corefs_remount(c, false);
	assert_int_equal(pmemfs_listxattr(c->fs, f, list, 65536), 65536);
	for (k = 0; k < n; k++) {
		snprintf(name + 5, 7, "%06u", k);
		name[11] = '.';
		expect_x(c, f, name, "v");
		assert_int_equal(pmemfs_removexattr(c->fs, f, name), 0);
	}
	free(list);
}

/* ---- times ---- */

static void dates(void **state)
{
	static const struct timespec times[] = {
	    {0, 0},
	    {-1, 999999999},
	    {-2177452800, 1},
	    {2147483647, 999999999},
	    {2147483648, 0},
	    {4294967296, 123456789},
	    {16725225599, 999999999},
	    {1700000000, 5},
	};
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	struct pmemfs_attr a = {0}, ret;

	for (size_t k = 0; k < sizeof(times) / sizeof(times[0]); k++) {
		a.atime = times[k];
		a.mtime = times[(k + 1) % 8];
		assert_int_equal(
		    pmemfs_setattr(c->fs, f, PMEMFS_SET_ATIME | PMEMFS_SET_MTIME, &a, &ret), 0);
		corefs_remount(c, k % 2);
		ret = attr_of(c, f);
		assert_memory_equal(&ret.atime, &a.atime, sizeof(a.atime));
		assert_memory_equal(&ret.mtime, &a.mtime, sizeof(a.mtime));
	}
}

static bool later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

/* Sets all times of the inode to long ago; what an operation then sets to now shows. */
static void age(struct corefs *c, uint64_t ino)
{
	const struct pmemfs_attr a = {
	    .atime = {1000, 1}, .mtime = {1000, 2}, .ctime = {1000, 3}};

	assert_int_equal(pmemfs_setattr(c->fs, ino,
					PMEMFS_SET_ATIME | PMEMFS_SET_MTIME | PMEMFS_SET_CTIME,
					&a, NULL),
			 0);
	assert_int_equal(attr_of(c, ino).ctime.tv_sec, 1000);
}

/* Which of atime, mtime, ctime are no longer long ago. */
static const char *changed(struct corefs *c, uint64_t ino)
{
	static char s[4];
	struct pmemfs_attr a = attr_of(c, ino);
	char *p = s;

	if (a.atime.tv_sec != 1000)
		*p++ = 'a';
	if (a.mtime.tv_sec != 1000)
		*p++ = 'm';
	if (a.ctime.tv_sec != 1000)
		*p++ = 'c';
	*p = 0;
	return s;
}

static void times_of_operations(void **state)
{
	struct corefs *c = *state;
	uint64_t d = mk_dir(c, ROOT, "d"), f = mk_file(c, d, "f");
	struct pmemfs_attr a = {.mode = 0600};
	char buf[10];

#define EXPECT(ino, what, operation)                        \
	do {                                                \
		age(c, ino);                                \
		operation;                                  \
		assert_string_equal(changed(c, ino), what); \
	} while (0)
	EXPECT(f, "mc", put_seed(c, f, 0, 10, 1));
	EXPECT(f, "mc", set_size(c, f, 5));
	EXPECT(f, "", pmemfs_read(c->fs, f, 0, buf, 5));
	EXPECT(f, "c", pmemfs_setattr(c->fs, f, PMEMFS_SET_MODE, &a, NULL));
	EXPECT(f, "ac", pmemfs_setattr(c->fs, f, PMEMFS_SET_ATIME_NOW, &a, NULL));
	EXPECT(f, "mc", pmemfs_setattr(c->fs, f, PMEMFS_SET_MTIME_NOW, &a, NULL));
	EXPECT(f, "c", set_x(c, f, "user.a", "1", 0));
	EXPECT(f, "", set_x(c, f, "user.a", "1", XATTR_CREATE));
	EXPECT(f, "c", pmemfs_removexattr(c->fs, f, "user.a"));
	EXPECT(f, "c", {
		assert_int_equal(pmemfs_link(c->fs, f, d, "g", &a), 0);
		pmemfs_forget(c->fs, f, 1);
	});
	EXPECT(f, "c", pmemfs_unlink(c->fs, d, "g"));
	EXPECT(d, "mc", mk_file(c, d, "h"));
	EXPECT(d, "mc", pmemfs_unlink(c->fs, d, "h"));
	EXPECT(d, "mc", mk_dir(c, d, "s"));
	EXPECT(d, "mc", pmemfs_rmdir(c->fs, d, "s"));
	EXPECT(d, "", pmemfs_unlink(c->fs, d, "nothing"));
	EXPECT(d, "", count_entries(c, d));
	EXPECT(d, "mc", pmemfs_rename(c->fs, d, "f", ROOT, "f", 0));
	EXPECT(d, "mc", pmemfs_rename(c->fs, ROOT, "f", d, "f", 0));
	EXPECT(ROOT, "mc", pmemfs_rename(c->fs, d, "f", ROOT, "f", 0));
#undef EXPECT
}

static void birth_time(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	struct pmemfs_attr a = attr_of(c, f), b;

	assert_true(a.btime.tv_sec > 1600000000);
	age(c, f);
	put_seed(c, f, 0, 100000, 1);
	set_size(c, f, 1);
	corefs_remount(c, true);
	b = attr_of(c, f);
	assert_memory_equal(&a.btime, &b.btime, sizeof(a.btime));
	assert_true(later(&b.mtime, &a.mtime));
}

/* ---- owners, modes, devices ---- */

static void modes_and_owners(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	struct pmemfs_attr a = {.mode = S_IFDIR | 07777, .uid = 4000000000u, .gid = 70000}, ret;

	assert_int_equal(pmemfs_setattr(c->fs, f,
					PMEMFS_SET_MODE | PMEMFS_SET_UID | PMEMFS_SET_GID, &a,
					&ret),
			 0);
	assert_int_equal(ret.mode, S_IFREG | 07777);
	corefs_remount(c, false);
	ret = attr_of(c, f);
	assert_int_equal(ret.mode, S_IFREG | 07777);
	assert_int_equal(ret.uid, 4000000000u);
	assert_int_equal(ret.gid, 70000);
	assert_int_equal(pmemfs_setattr(c->fs, 99999, PMEMFS_SET_MODE, &a, &ret), -ESTALE);
}

static void set_gid_directory(void **state)
{
	const struct pmemfs_cred other = {1000, 1000};
	struct corefs *c = *state;
	uint64_t d = mk_dir(c, ROOT, "d");
	struct pmemfs_attr a = {.mode = 02775, .gid = 50}, ret;

	pmemfs_setattr(c->fs, d, PMEMFS_SET_MODE | PMEMFS_SET_GID, &a, NULL);
	assert_int_equal(pmemfs_make(c->fs, d, "f", S_IFREG | 0644, 0, 0, NULL, &other, &ret),
			 0);
	assert_int_equal(ret.uid, 1000);
	assert_int_equal(ret.gid, 50);
	assert_int_equal(ret.mode, S_IFREG | 0644);
	assert_int_equal(pmemfs_make(c->fs, d, "s", S_IFDIR | 0755, 0, 0, NULL, &other, &ret),
			 0);
	assert_int_equal(ret.gid, 50);
	assert_int_equal(ret.mode, S_IFDIR | 02755);
	assert_int_equal(pmemfs_tmpfile(c->fs, d, 0600, &other, &ret), 0);
	assert_int_equal(ret.gid, 50);
	assert_int_equal(
	    pmemfs_make(c->fs, ROOT, "g", S_IFREG | 0644, 0, 0, NULL, &other, &ret), 0);
	assert_int_equal(ret.gid, 1000);
}

static void kill_privileges(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	struct pmemfs_attr a = {.mode = 06777, .uid = 5}, ret;

	pmemfs_setattr(c->fs, f, PMEMFS_SET_MODE, &a, NULL);
	put_seed(c, f, 0, 10, 1);
	assert_int_equal(attr_of(c, f).mode & 07777, 06777);
	assert_int_equal(pmemfs_write(c->fs, f, 0, "x", 1, PMEMFS_WRITE_KILL_PRIV), 1);
	assert_int_equal(attr_of(c, f).mode & 07777, 0777);
	pmemfs_setattr(c->fs, f, PMEMFS_SET_MODE, &a, NULL);
	assert_int_equal(
	    pmemfs_setattr(c->fs, f, PMEMFS_SET_UID | PMEMFS_SET_KILL_PRIV, &a, &ret), 0);
	assert_int_equal(ret.mode & 07777, 0777);
	assert_int_equal(ret.uid, 5);
}

static void devices(void **state)
{
	static const struct {
		uint32_t mode, major, minor;
	} nodes[] = {{S_IFIFO | 0600, 0, 0}, {S_IFSOCK | 0755, 0, 0},
		     {S_IFCHR | 0666, 1, 3}, {S_IFBLK | 0660, 259, 1000000},
		     {S_IFCHR | 0, 0, 0},    {S_IFBLK | 07777, 4095, (1 << 20) - 1}};
	struct corefs *c = *state;
	struct pmemfs_attr a;
	char name[8], buf[8];

	for (size_t k = 0; k < 6; k++) {
		snprintf(name, sizeof(name), "%zu", k);
		assert_int_equal(pmemfs_make(c->fs, ROOT, name, nodes[k].mode, nodes[k].major,
					     nodes[k].minor, NULL, &cred, &a),
				 0);
		pmemfs_forget(c->fs, a.ino, 1);
	}
	for (int clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		for (size_t k = 0; k < 6; k++) {
			snprintf(name, sizeof(name), "%zu", k);
			a = attr_of(c, find(c, ROOT, name));
			assert_int_equal(a.mode, nodes[k].mode);
			assert_int_equal(a.rdev_major, nodes[k].major);
			assert_int_equal(a.rdev_minor, nodes[k].minor);
			assert_int_equal(pmemfs_write(c->fs, a.ino, 0, "x", 1, 0), -EINVAL);
			assert_int_equal(pmemfs_read(c->fs, a.ino, 0, buf, 1), -EINVAL);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(xattr_spaces),
	    CORE_TEST(xattr_errors),
	    CORE_TEST(xattr_values),
	    CORE_TEST(many_xattrs),
	    CORE_TEST(dates),
	    CORE_TEST(times_of_operations),
	    CORE_TEST(birth_time),
	    CORE_TEST(modes_and_owners),
	    CORE_TEST(set_gid_directory),
	    CORE_TEST(kill_privileges),
	    CORE_TEST(devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
