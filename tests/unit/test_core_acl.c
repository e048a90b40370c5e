/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's access control lists: which are none, what they do to the mode, who inherits. */
#include "corefs.h"

#include "format.h"

#define ACCESS	"system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"

struct entry {
	uint16_t tag, perm;
	uint32_t id;
};

/* Builds a list from entries that end with tag 0; returns its size. */
static size_t build(char *to, const struct entry *e)
{
	le32 word = put32(2);
	char *p = memcpy(to, &word, 4);

	for (p += 4; e->tag; e++, p += 8) {
		le16 half[2] = {put16(e->tag), put16(e->perm)};

		word = put32(e->id);
		memcpy(p, half, 4);
		memcpy(p + 4, &word, 4);
	}
	return p - to;
}

static int set(struct corefs *c, uint64_t ino, const char *name, const struct entry *e)
{
	char buf[256];

	return pmemfs_setxattr(c->fs, ino, name, buf, build(buf, e), 0);
}

static void expect_acl(struct corefs *c, uint64_t ino, const char *name, const struct entry *e)
{
	char want[256], got[256];
	size_t n = build(want, e);

	assert_int_equal(pmemfs_getxattr(c->fs, ino, name, got, sizeof(got)), n);
	assert_memory_equal(got, want, n);
}

static void malformed(void **state)
{
	static const struct entry bad[][8] = {
	    {{0}},
	    {{1, 6, 0}, {4, 4, 0}},
	    {{4, 4, 0}, {1, 6, 0}, {32, 0, 0}},
	    {{1, 6, 0}, {2, 4, 7}, {4, 4, 0}, {32, 0, 0}},
	    {{1, 6, 0}, {2, 4, 7}, {2, 4, 7}, {4, 4, 0}, {16, 7, 0}, {32, 0, 0}},
	    {{1, 6, 0}, {2, 4, 7}, {2, 4, 6}, {4, 4, 0}, {16, 7, 0}, {32, 0, 0}},
	    {{1, 6, 0}, {1, 6, 0}, {4, 4, 0}, {32, 0, 0}},
	    {{1, 8, 0}, {4, 4, 0}, {32, 0, 0}},
	    {{1, 6, 0}, {4, 4, 0}, {32, 0, 0}, {64, 0, 0}},
	    {{1, 6, 0}, {3, 4, 0}, {4, 4, 0}, {32, 0, 0}},
	};
	static const struct entry good[] = {{1, 6, 0}, {4, 4, 0}, {32, 0, 0}, {0}};
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f"), d = mk_dir(c, ROOT, "d");
	uint32_t mode = attr_of(c, f).mode;
	char buf[64];
	size_t n = build(buf, good);

	for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++)
		assert_int_equal(set(c, f, ACCESS, bad[k]), -EINVAL);
	assert_int_equal(pmemfs_setxattr(c->fs, f, ACCESS, buf, n - 1, 0), -EINVAL);
	assert_int_equal(pmemfs_setxattr(c->fs, f, ACCESS, buf, 2, 0), -EINVAL);
	assert_int_equal(pmemfs_setxattr(c->fs, f, ACCESS, buf, 0, 0), -EINVAL);
	buf[0] = 1;
	assert_int_equal(pmemfs_setxattr(c->fs, f, ACCESS, buf, n, 0), -EOPNOTSUPP);
	assert_int_equal(set(c, f, DEFAULT, good), -EACCES);
	assert_int_equal(set(c, d, DEFAULT, good), 0);
	assert_int_equal(attr_of(c, f).mode, mode);
	assert_int_equal(pmemfs_listxattr(c->fs, f, NULL, 0), 0);
	assert_int_equal(pmemfs_removexattr(c->fs, f, ACCESS), 0);
	assert_int_equal(pmemfs_getxattr(c->fs, f, ACCESS, buf, 64), -ENODATA);
}

static void mode_and_list(void **state)
{
	static const struct entry list[] = {{1, 6, 0},	{2, 7, 1000}, {4, 5, 0},
					    {16, 3, 0}, {32, 1, 0},   {0}};
	static const struct entry later[] = {{1, 7, 0},	 {2, 7, 1000}, {4, 5, 0},
					     {16, 5, 0}, {32, 4, 0},   {0}};
	static const struct entry plain[] = {{1, 4, 0}, {4, 2, 0}, {32, 1, 0}, {0}};
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	struct pmemfs_attr a = {.mode = 02754};
	char buf[256];

	assert_int_equal(set(c, f, ACCESS, list), 0);
	corefs_remount(c, false);
	assert_int_equal(attr_of(c, f).mode, S_IFREG | 0631);
	expect_acl(c, f, ACCESS, list);
	assert_int_equal(pmemfs_setattr(c->fs, f, PMEMFS_SET_MODE, &a, NULL), 0);
	expect_acl(c, f, ACCESS, later);
	corefs_remount(c, true);
	expect_acl(c, f, ACCESS, later);
	assert_int_equal(
	    pmemfs_setxattr(c->fs, f, ACCESS, buf, build(buf, list), PMEMFS_XATTR_KILL_SGID),
	    0);
	assert_int_equal(attr_of(c, f).mode, S_IFREG | 0631);
	assert_int_equal(set(c, f, ACCESS, plain), 0);
	corefs_remount(c, false);
	assert_int_equal(attr_of(c, f).mode, S_IFREG | 0421);
	assert_int_equal(pmemfs_listxattr(c->fs, f, NULL, 0), 0);
}

static void inheriting(void **state)
{
	static const struct entry list[] = {{1, 7, 0},	{2, 7, 1000}, {4, 5, 0},
					    {16, 6, 0}, {32, 1, 0},   {0}};
	static const struct entry file[] = {{1, 6, 0},	{2, 7, 1000}, {4, 5, 0},
					    {16, 4, 0}, {32, 0, 0},   {0}};
	static const struct pmemfs_cred cred = {.umask = 0777};
	struct corefs *c = *state;
	uint64_t d = mk_dir(c, ROOT, "d"), f, s;
	struct pmemfs_attr a;

	assert_int_equal(set(c, d, DEFAULT, list), 0);
	assert_int_equal(pmemfs_make(c->fs, d, "f", S_IFREG | 0640, 0, 0, NULL, &cred, &a), 0);
	pmemfs_forget(c->fs, a.ino, 1);
	assert_int_equal(pmemfs_make(c->fs, d, "s", S_IFDIR | 0777, 0, 0, NULL, &cred, &a), 0);
	pmemfs_forget(c->fs, a.ino, 1);
	assert_int_equal(pmemfs_make(c->fs, ROOT, "n", S_IFREG | 0777, 0, 0, NULL, &cred, &a),
			 0);
	pmemfs_forget(c->fs, a.ino, 1);
	for (int clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		f = find(c, find(c, ROOT, "d"), "f");
		s = find(c, find(c, ROOT, "d"), "s");
		assert_int_equal(attr_of(c, f).mode, S_IFREG | 0640);
		expect_acl(c, f, ACCESS, file);
		assert_int_equal(pmemfs_getxattr(c->fs, f, DEFAULT, NULL, 0), -ENODATA);
		assert_int_equal(attr_of(c, s).mode, S_IFDIR | 0761);
		expect_acl(c, s, ACCESS, list);
		expect_acl(c, s, DEFAULT, list);
		assert_int_equal(attr_of(c, find(c, ROOT, "n")).mode, S_IFREG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(malformed),
	    CORE_TEST(mode_and_list),
	    CORE_TEST(inheriting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
