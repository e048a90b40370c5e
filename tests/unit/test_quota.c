/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Quotas: what is counted is always the sum over the inodes, whatever was done, by whom, and
 * after clean remounts and crashes; limits are kept to the block and stop nothing that they
 * need not.
 */
#include "corefs.h"

#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs.h"

#define BLOCK 4096u
#define USERS 6u /* ids 0 to 5 in what is random */

static const struct pmemfs_cred alice = {1000, 100, 0}, bob = {1001, 100, 0};

/* ---- the naive sum ---- */

struct sum {
	uint64_t blocks, inodes;
};

static struct sum sum_of(struct corefs *c, unsigned kind, uint32_t id)
{
	struct sum s = {0};

	for (uint64_t ino = 1; (ino = itable_next_used(c->fs, ino)); ino++) {
		struct inode *i;

		assert_int_equal(inode_open(c->fs, ino, false, &i), 0);
		if ((kind == PMEMFS_QUOTA_USER ? i->attr.uid : i->attr.gid) == id) {
			s.inodes++;
			s.blocks += i->extents.total;
			for (unsigned k = 0; k < i->log.nseg; k++)
				s.blocks += i->log.seg[k].blocks;
		}
		inode_close(c->fs, i);
	}
	return s;
}

static struct pmemfs_quota quota_of(struct corefs *c, unsigned kind, uint32_t id)
{
	struct pmemfs_quota q = {0};
	ssize_t n = pmemfs_quota_list(c->fs, kind, id, &q, 1);

	assert_true(n >= 0);
	if (!n || q.id != id)
		q = (struct pmemfs_quota){.kind = kind, .id = id};
	return q;
}

static struct pmemfs_quota user(struct corefs *c, uint32_t id)
{
	return quota_of(c, PMEMFS_QUOTA_USER, id);
}

static void expect_sum(struct corefs *c, unsigned kind, uint32_t id)
{
	struct pmemfs_quota q = quota_of(c, kind, id);
	struct sum s = sum_of(c, kind, id);

	if (q.blocks != s.blocks || q.inodes != s.inodes)
		print_error("kind %u, id %u: %llu blocks, %llu inodes; the sums: %llu, %llu\n",
			    kind, id, (unsigned long long)q.blocks,
			    (unsigned long long)q.inodes, (unsigned long long)s.blocks,
			    (unsigned long long)s.inodes);
	assert_int_equal(q.blocks, s.blocks);
	assert_int_equal(q.inodes, s.inodes);
}

static void expect_sums(struct corefs *c)
{
	static const uint32_t ids[] = {0, 1, 2, 3, 4, 5, 100, 1000, 1001, 1002};

	for (unsigned kind = PMEMFS_QUOTA_USER; kind <= PMEMFS_QUOTA_GROUP; kind++)
		for (unsigned k = 0; k < ARRAY_LEN(ids); k++)
			expect_sum(c, kind, ids[k]);
}

/* Right now, and after a clean remount and a crash. */
static void expect_lasting(struct corefs *c)
{
	expect_sums(c);
	corefs_remount(c, true);
	expect_sums(c);
	corefs_remount(c, false);
	expect_sums(c);
}

/* ---- short names ---- */

static void on(struct corefs *c)
{
	assert_int_equal(pmemfs_quota_on(c->fs), 0);
}

static void limit(struct corefs *c, unsigned kind, uint32_t id, uint64_t blocks,
		  uint64_t inodes)
{
	const struct pmemfs_quota q = {
	    .kind = kind, .id = id, .block_limit = blocks, .inode_limit = inodes};

	assert_int_equal(pmemfs_quota_set(c->fs, &q, PMEMFS_QUOTA_BLOCKS | PMEMFS_QUOTA_INODES),
			 0);
}

static void limit_user(struct corefs *c, uint32_t id, uint64_t blocks, uint64_t inodes)
{
	limit(c, PMEMFS_QUOTA_USER, id, blocks, inodes);
}

static int try_make(struct corefs *c, const char *name, uint32_t mode,
		    const struct pmemfs_cred *by, uint64_t *ret)
{
	struct pmemfs_attr a;
	int err =
	    pmemfs_make(c->fs, ROOT, name, mode, 0, 0, S_ISLNK(mode) ? "target" : NULL, by, &a);

	if (!err) {
		pmemfs_forget(c->fs, a.ino, 1);
		*ret = a.ino;
	}
	return err;
}

static uint64_t make_by(struct corefs *c, const char *name, const struct pmemfs_cred *by)
{
	uint64_t ino = 0;

	assert_int_equal(try_make(c, name, S_IFREG | 0644, by, &ino), 0);
	return ino;
}

static int chown_to(struct corefs *c, uint64_t ino, uint32_t uid, uint32_t gid, unsigned mask)
{
	const struct pmemfs_attr a = {.uid = uid, .gid = gid};

	return pmemfs_setattr(c->fs, ino, PMEMFS_SET_UID | PMEMFS_SET_GID | mask, &a, NULL);
}

/* Appends blocks until it is refused; how many fitted. */
static unsigned append_all(struct corefs *c, uint64_t ino)
{
	char buf[BLOCK] = "x";
	unsigned n = 0;
	ssize_t rc;

	while ((rc = pmemfs_write(c->fs, ino, 0, buf, BLOCK, PMEMFS_WRITE_APPEND)) == BLOCK)
		n++;
	assert_int_equal(rc, -EDQUOT);
	return n;
}

/* ---- counting ---- */

static void off_by_default(void **state)
{
	const struct pmemfs_quota set = {.kind = PMEMFS_QUOTA_USER, .id = 1, .block_limit = 1};
	struct corefs *c = *state;
	struct pmemfs_quota q;

	assert_int_equal(pmemfs_quota_list(c->fs, PMEMFS_QUOTA_USER, 0, &q, 1), -ESRCH);
	assert_int_equal(pmemfs_quota_set(c->fs, &set, PMEMFS_QUOTA_BLOCKS), -ESRCH);
	assert_int_equal(pmemfs_quota_off(c->fs), 0);
	corefs_remount(c, true);
	assert_int_equal(pmemfs_quota_list(c->fs, PMEMFS_QUOTA_USER, 0, &q, 1), -ESRCH);
}

static void what_is_there_counts(void **state)
{
	struct corefs *c = *state;
	uint64_t f = make_by(c, "f", &alice), d = mk_dir(c, ROOT, "d");
	char name[200], value[3000] = "v";

	put_seed(c, f, 0, 100 * BLOCK + 1, 1);
	put_seed(c, f, 500 * BLOCK, BLOCK, 1); /* a hole counts nothing */
	memset(name, 'n', sizeof(name));
	for (unsigned k = 0; k < 300; k++) {
		snprintf(name + 180, 16, "%06u", k);
		mk_file(c, d, name);
	}
	for (unsigned k = 0; k < 20; k++) {
		snprintf(name, sizeof(name), "user.%u", k);
		assert_int_equal(pmemfs_setxattr(c->fs, f, name, value, sizeof(value), 0), 0);
	}
	on(c);
	expect_sums(c);
	assert_true(user(c, 1000).blocks > 102); /* and the log with the attributes */
	assert_true(user(c, 0).blocks > 10);	 /* names */
	assert_int_equal(user(c, 1000).inodes, 1);
	expect_lasting(c);
	on(c); /* it is */
	assert_int_equal(chown_to(c, d, 1001, 100, 0), 0);
	expect_lasting(c);
	assert_int_equal(pmemfs_quota_off(c->fs), 0);
	empty_dir(c, d);
	on(c);
	expect_lasting(c);
}

static void held_without_a_name(void **state)
{
	struct corefs *c = *state;
	struct pmemfs_attr a, t;

	on(c);
	assert_int_equal(pmemfs_make(c->fs, ROOT, "f", S_IFREG | 0644, 0, 0, NULL, &alice, &a),
			 0);
	put_seed(c, a.ino, 0, 5 * BLOCK, 1);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "f"), 0);
	assert_int_equal(pmemfs_tmpfile(c->fs, ROOT, 0600, &alice, &t), 0);
	put_seed(c, t.ino, 0, 4 * BLOCK, 1);
	assert_int_equal(user(c, 1000).blocks, 9);
	assert_int_equal(user(c, 1000).inodes, 2);
	expect_sums(c);
	pmemfs_forget(c->fs, a.ino, 1);
	assert_int_equal(user(c, 1000).blocks, 4);
	assert_int_equal(user(c, 1000).inodes, 1);
	corefs_remount(c, false); /* an orphan is none's */
	assert_int_equal(user(c, 1000).blocks, 0);
	assert_int_equal(user(c, 1000).inodes, 0);
	expect_sums(c);
}

static void reserved_counts(void **state)
{
	struct corefs *c = *state;
	uint64_t f = make_by(c, "f", &alice);

	on(c);
	assert_int_equal(pmemfs_fallocate(c->fs, f, FALLOC_FL_KEEP_SIZE, 0, 64 * BLOCK), 0);
	assert_int_equal(user(c, 1000).blocks, 64);
	put_seed(c, f, 0, 5 * BLOCK, 1); /* in its place */
	assert_int_equal(user(c, 1000).blocks, 64);
	assert_int_equal(pmemfs_fallocate(c->fs, f, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE,
					  BLOCK, 4 * BLOCK),
			 0);
	assert_int_equal(user(c, 1000).blocks, 60);
	set_size(c, f, 100);
	assert_int_equal(user(c, 1000).blocks, 1);
	expect_lasting(c);
}

/* ---- limits ---- */

static void exact_to_the_block(void **state)
{
	struct corefs *c = *state;
	uint64_t f = make_by(c, "f", &alice), g = make_by(c, "g", &alice);
	struct pmemfs_attr before;
	char buf[3 * BLOCK] = "x";

	on(c);
	limit_user(c, 1000, 50, 0);
	assert_in_range(append_all(c, f), 40, 50);
	assert_int_equal(user(c, 1000).blocks, 50);
	expect_sums(c);
	before = attr_of(c, f);
	assert_int_equal(pmemfs_write(c->fs, g, 0, buf, 1, 0), -EDQUOT);
	assert_int_equal(pmemfs_fallocate(c->fs, g, 0, 0, BLOCK), -EDQUOT);
	assert_int_equal(attr_of(c, g).size, 0);
	/* what does not grow goes on: an overwrite in new blocks, in part, of times and modes
	 */
	for (unsigned k = 0; k < 500; k++) {
		const struct pmemfs_attr a = {.mode = k % 2 ? 0600 : 0640};

		assert_int_equal(pmemfs_write(c->fs, f, k % 40 * BLOCK, buf, sizeof(buf), 0),
				 sizeof(buf));
		assert_int_equal(pmemfs_write(c->fs, f, 100, buf, 5000, 0), 5000);
		assert_int_equal(pmemfs_setattr(c->fs, f, PMEMFS_SET_MODE, &a, NULL), 0);
	}
	assert_in_range(user(c, 1000).blocks, 48, 53);
	assert_int_equal(attr_of(c, f).size, before.size);
	expect_lasting(c);
	/* as much as was freed can be written again */
	set_size(c, f, before.size - 10 * BLOCK);
	assert_in_range(append_all(c, g), 7, 12);
	assert_int_equal(user(c, 1000).blocks, 50);
	/* a limit below what is used: nothing more, but everything less */
	limit_user(c, 1000, 5, 0);
	assert_int_equal(append_all(c, f), 0);
	assert_int_equal(pmemfs_rename(c->fs, ROOT, "f", ROOT, "h", 0), 0);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "h"), 0);
	set_size(c, g, 2 * BLOCK);
	expect_lasting(c);
	limit_user(c, 1000, 0, 0);
	put_seed(c, g, 0, 1 << 20, 1);
	expect_lasting(c);
}

static void inodes(void **state)
{
	static const uint32_t kinds[] = {S_IFREG | 0644, S_IFDIR | 0755, S_IFLNK | 0777,
					 S_IFIFO | 0644, S_IFREG | 0644};
	struct corefs *c = *state;
	uint64_t before, ino;
	struct pmemfs_attr a;
	char name[16];

	on(c);
	limit_user(c, 1000, 0, 5);
	limit_user(c, 1001, 0, 1);
	for (unsigned k = 0; k < 5; k++) {
		snprintf(name, sizeof(name), "%u", k);
		assert_int_equal(try_make(c, name, kinds[k], &alice, &ino), 0);
	}
	before = free_blocks_of(c);
	for (unsigned k = 0; k < 4; k++)
		assert_int_equal(try_make(c, "more", kinds[k], &alice, &ino), -EDQUOT);
	assert_int_equal(pmemfs_tmpfile(c->fs, ROOT, 0600, &alice, &a), -EDQUOT);
	assert_int_equal(exists(c, ROOT, "more"), -ENOENT);
	assert_int_equal(user(c, 1000).inodes, 5);
	assert_int_equal(free_blocks_of(c), before);
	/* names are no inodes; somebody else's limit is his own */
	assert_int_equal(pmemfs_link(c->fs, find(c, ROOT, "0"), ROOT, "link", &a), 0);
	pmemfs_forget(c->fs, a.ino, 1);
	assert_int_equal(pmemfs_rename(c->fs, ROOT, "0", ROOT, "moved", 0), 0);
	assert_int_equal(try_make(c, "bobs", S_IFREG, &bob, &ino), 0);
	assert_int_equal(
	    pmemfs_rename_by(c->fs, ROOT, "moved", ROOT, "0", RENAME_WHITEOUT, &bob), -EDQUOT);
	assert_int_equal(exists(c, ROOT, "moved"), 0);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "link"), 0);
	assert_int_equal(try_make(c, "more", S_IFREG, &alice, &ino), -EDQUOT);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "moved"), 0);
	expect_lasting(c);
	assert_int_equal(try_make(c, "more", S_IFREG, &alice, &ino), 0);
	assert_int_equal(try_make(c, "again", S_IFREG, &alice, &ino), -EDQUOT);
	/* the group has a limit of its own */
	limit(c, PMEMFS_QUOTA_GROUP, 100, 0, 6);
	limit_user(c, 1000, 0, 0);
	assert_int_equal(try_make(c, "again", S_IFREG, &alice, &ino), -EDQUOT);
	expect_lasting(c);
}

static void change_of_owner(void **state)
{
	struct corefs *c = *state;
	uint64_t f = make_by(c, "f", &alice);

	put_seed(c, f, 0, 20 * BLOCK, 1);
	on(c);
	limit_user(c, 1001, 10, 0);
	limit(c, PMEMFS_QUOTA_GROUP, 5, 0, 1);
	assert_int_equal(chown_to(c, f, 1001, 100, 0), -EDQUOT);
	assert_int_equal(attr_of(c, f).uid, 1000);
	expect_sums(c);
	assert_int_equal(chown_to(c, f, 1001, 100, PMEMFS_SET_UNLIMITED), 0);
	assert_in_range(user(c, 1001).blocks, 20, 23);
	assert_int_equal(user(c, 1001).inodes, 1);
	assert_int_equal(user(c, 1000).blocks, 0);
	expect_lasting(c);
	assert_int_equal(chown_to(c, f, 1000, 5, 0), 0);
	assert_int_equal(chown_to(c, make_by(c, "g", &alice), 1000, 5, 0), -EDQUOT);
	expect_lasting(c);
}

static void root_is_not_limited(void **state)
{
	const struct pmemfs_quota q = {.kind = PMEMFS_QUOTA_USER, .id = 0, .inode_limit = 1};
	const struct pmemfs_quota k = {.kind = 3, .id = 1, .inode_limit = 1};
	struct corefs *c = *state;

	on(c);
	assert_int_equal(pmemfs_quota_set(c->fs, &q, PMEMFS_QUOTA_INODES), -EINVAL);
	assert_int_equal(pmemfs_quota_set(c->fs, &k, PMEMFS_QUOTA_INODES), -EINVAL);
	put_seed(c, mk_file(c, ROOT, "f"), 0, 1 << 20, 1);
	assert_true(user(c, 0).blocks >= 256);
	assert_true(user(c, 0).inodes == 2);
}

/* Names and attributes take blocks too. */
static void directories_and_attributes(void **state)
{
	struct corefs *c = *state;
	char name[200], value[60000] = "v";
	uint64_t d = 0, f = 0;
	struct pmemfs_attr a;
	unsigned n = 0;
	int err = 0;

	on(c);
	limit_user(c, 1000, 20, 0);
	assert_int_equal(try_make(c, "d", S_IFDIR | 0755, &alice, &d), 0);
	memset(name, 'n', sizeof(name));
	while (!err) {
		snprintf(name + 180, 16, "%06u", n++);
		err = pmemfs_make(c->fs, d, name, S_IFREG | 0644, 0, 0, NULL, &bob, &a);
		if (!err)
			pmemfs_forget(c->fs, a.ino, 1);
	}
	assert_int_equal(err, -EDQUOT);
	assert_in_range(n, 150, 420);
	assert_true(user(c, 1000).blocks <= 20);
	expect_sums(c);
	assert_int_equal(exists(c, d, name), -ENOENT);
	/* removing and renaming inside it need nobody's leave */
	for (unsigned k = 0; k < n - 1; k++) {
		snprintf(name + 180, 16, "%06u", k);
		if (k % 3) {
			assert_int_equal(pmemfs_rename(c->fs, d, name, d, "x", 0), 0);
			strcpy(name, "x");
		}
		assert_int_equal(pmemfs_unlink(c->fs, d, name), 0);
		memset(name, 'n', 180);
	}
	expect_lasting(c);
	assert_int_equal(try_make(c, "f", S_IFREG, &alice, &f), 0);
	assert_int_equal(pmemfs_setxattr(c->fs, f, "user.a", value, 30000, 0), 0);
	assert_int_equal(pmemfs_setxattr(c->fs, f, "user.b", value, 60000, 0), -EDQUOT);
	assert_int_equal(pmemfs_getxattr(c->fs, f, "user.b", NULL, 0), -ENODATA);
	assert_int_equal(pmemfs_removexattr(c->fs, f, "user.a"), 0);
	expect_lasting(c);
}

/* ---- the file of limits ---- */

static void many_limits(void **state)
{
	const unsigned n = 1000;
	struct corefs *c = *state;
	struct pmemfs_quota *v = calloc(n, sizeof(*v));
	uint64_t size;

	on(c);
	for (unsigned k = 0; k < n; k++)
		limit(c, 1 + k % 2, 10000 + k / 2, 1 + k, k % 3);
	for (unsigned k = 0; k < n; k += 4)
		limit(c, 1 + k % 2, 10000 + k / 2, 0, 0);
	size = c->fs->quota.inode->attr.size;
	for (unsigned clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		assert_int_equal(pmemfs_quota_list(c->fs, PMEMFS_QUOTA_USER, 10000, v, n),
				 n / 4);
		for (unsigned k = 0; k < n / 4; k++) {
			assert_int_equal(v[k].id, 10001 + 2 * k);
			assert_int_equal(v[k].block_limit, 3 + 4 * k);
		}
		assert_int_equal(pmemfs_quota_list(c->fs, PMEMFS_QUOTA_GROUP, 10100, v, 3), 3);
		assert_int_equal(v[2].id, 10102);
		assert_int_equal(v[2].block_limit, 206);
	}
	/* free entries are used again */
	for (unsigned k = 0; k < n / 4; k++)
		limit(c, PMEMFS_QUOTA_USER, 20000 + k, 7, 7);
	assert_int_equal(c->fs->quota.inode->attr.size, size);
	corefs_remount(c, true);
	assert_int_equal(pmemfs_quota_list(c->fs, PMEMFS_QUOTA_USER, 20000, v, n), n / 4);
	assert_int_equal(pmemfs_quota_off(c->fs), 0);
	on(c);
	assert_int_equal(pmemfs_quota_list(c->fs, PMEMFS_QUOTA_USER, 1, v, n), 0);
	free(v);
	expect_lasting(c);
}

/* ---- crashes ---- */

/* What was in memory at every store, flush and fence. */
struct moments {
	struct corefs *c;
	uint8_t *copy[64];
	unsigned n;
};

static void keep_moment(void *arg, enum media_event ev, uint64_t off, const void *bytes,
			size_t len)
{
	struct moments *m = arg;

	assert_true(m->n < ARRAY_LEN(m->copy));
	m->copy[m->n] = aligned_alloc(BLOCK, m->c->size);
	memcpy(m->copy[m->n++], m->c->mem, m->c->size);
}

/* The limit of 1000 as such a moment leaves it; -1: no quotas. What is used is right. */
static int64_t look_at(struct moments *m, unsigned k)
{
	struct corefs c = {.mem = m->copy[k], .size = m->c->size};
	int64_t limit = -1;
	const char *why;

	assert_int_equal(media_open_memory(c.mem, c.size, 0, &c.media), 0);
	assert_int_equal(pmemfs_mount(c.media, NULL, &c.fs, &why), 0);
	assert_false(pmemfs_is_readonly(c.fs));
	if (c.fs->quota.inode) {
		limit = (int64_t)user(&c, 1000).block_limit;
		expect_sums(&c);
	}
	corefs_remount(&c, true);
	assert_true(!c.fs->quota.inode == (limit < 0));
	assert_int_equal(pmemfs_unmount(c.fs), 0);
	media_close(c.media);
	return limit;
}

static void on_off_set(struct corefs *c, unsigned what)
{
	switch (what) {
	case 0:
		on(c);
		break;
	case 1:
		limit_user(c, 1000, 5, 0);
		break;
	case 2:
		limit_user(c, 1000, 6, 0);
		break;
	case 3:
		limit_user(c, 1000, 0, 0);
		break;
	default:
		assert_int_equal(pmemfs_quota_off(c->fs), 0);
	}
}

/* Each change is whole or not there. */
static void killed_while_setting(void **state)
{
	static const int64_t after[] = {0, 5, 6, 0, -1};
	struct corefs c;
	int64_t before = -1, was;

	corefs_new(&c, 16 << 20, 1);
	put_seed(&c, make_by(&c, "f", &alice), 0, 30000, 1);
	for (unsigned what = 0; what < ARRAY_LEN(after); what++) {
		struct moments m = {.c = &c};
		bool changed = false;

		media_set_hook(c.media, keep_moment, &m);
		on_off_set(&c, what);
		media_set_hook(c.media, NULL, NULL);
		assert_true(m.n >= 3);
		for (unsigned k = 0; k < m.n; k++) {
			was = look_at(&m, k);
			assert_true(was == before || was == after[what]);
			assert_false(changed && was == before);
			changed = was == after[what];
			free(m.copy[k]);
		}
		before = after[what];
	}
	corefs_done(&c);
}

/* Where the free space has no block for the usage, the next mount sums it up. */
static void no_room_to_save(void **state)
{
	struct corefs *c = *state;
	char buf[65536] = "x";
	uint64_t f;

	on(c);
	for (unsigned k = 0; k < 500; k++) {
		snprintf(buf, 16, "%u", k);
		f = mk_file(c, ROOT, buf);
		assert_int_equal(chown_to(c, f, 5000 + k, 6000 + k, 0), 0);
	}
	c->fs->dentry_bytes = 0; /* no reserve but the smallest */
	f = make_by(c, "f", &alice);
	for (size_t size = sizeof(buf); size >= BLOCK; size /= 2)
		while (pmemfs_write(c->fs, f, 0, buf, size, PMEMFS_WRITE_APPEND) > 0)
			;
	corefs_remount(c, false);
	expect_sums(c);
	expect_sum(c, PMEMFS_QUOTA_USER, 5499);
	corefs_remount(c, true);
	expect_sums(c);
	expect_sum(c, PMEMFS_QUOTA_GROUP, 6123);
}

/* ---- at random, and side by side ---- */

struct random_fs {
	struct corefs *c;
	uint64_t seed, file[24], held[24];
	bool limited;
};

static uint64_t pick(struct random_fs *r, uint64_t n)
{
	r->seed = r->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (r->seed >> 33) % n;
}

static int random_make(struct random_fs *r, unsigned k)
{
	static const uint32_t kinds[] = {S_IFREG, S_IFREG, S_IFREG, S_IFDIR, S_IFLNK};
	const struct pmemfs_cred by = {pick(r, USERS), pick(r, USERS), 0};
	struct pmemfs_attr a;
	char name[16];
	int err;

	snprintf(name, sizeof(name), "f%u", k);
	err = pick(r, 8) ? pmemfs_make(r->c->fs, ROOT, name, kinds[pick(r, 5)] | 0755, 0, 0,
				       "x", &by, &a)
			 : pmemfs_tmpfile(r->c->fs, ROOT, 0644, &by, &a);
	if (!err) {
		if (r->held[k])
			pmemfs_forget(r->c->fs, r->held[k], 1);
		r->file[k] = r->held[k] = a.ino;
	}
	return err;
}

static int random_name(struct random_fs *r, unsigned k)
{
	static const unsigned flags[] = {0, 0, RENAME_EXCHANGE, RENAME_WHITEOUT};
	struct pmemfs_attr a;
	char name[16], other[16];
	int err = 0;

	snprintf(name, sizeof(name), "f%u", k);
	snprintf(other, sizeof(other), "f%u", (unsigned)pick(r, ARRAY_LEN(r->file)));
	switch (pick(r, 4)) {
	case 0:
		err = pmemfs_unlink(r->c->fs, ROOT, name);
		break;
	case 1:
		err = pmemfs_rmdir(r->c->fs, ROOT, name);
		break;
	case 2:
		err = pmemfs_link(r->c->fs, r->file[k], ROOT, other, &a);
		if (!err)
			pmemfs_forget(r->c->fs, a.ino, 1);
		break;
	case 3:
		err = pmemfs_rename(r->c->fs, ROOT, name, ROOT, other, flags[pick(r, 4)]);
		break;
	}
	return err;
}

static int random_attr(struct random_fs *r, uint64_t ino)
{
	const struct pmemfs_attr a = {.uid = pick(r, USERS),
				      .gid = pick(r, USERS),
				      .mode = pick(r, 0777),
				      .size = pick(r, 200000)};
	static const char value[9000] = "v";

	switch (pick(r, 6)) {
	case 0:
		return pmemfs_setattr(r->c->fs, ino, PMEMFS_SET_UID, &a, NULL);
	case 1:
		return pmemfs_setattr(r->c->fs, ino,
				      PMEMFS_SET_UID | PMEMFS_SET_GID | PMEMFS_SET_UNLIMITED,
				      &a, NULL);
	case 2:
		return pmemfs_setattr(r->c->fs, ino, PMEMFS_SET_MODE, &a, NULL);
	case 3:
		return pmemfs_setattr(r->c->fs, ino, PMEMFS_SET_SIZE, &a, NULL);
	case 4:
		return pmemfs_setxattr(r->c->fs, ino, "user.x", value, pick(r, sizeof(value)),
				       0);
	default:
		return pmemfs_removexattr(r->c->fs, ino, "user.x");
	}
}

static int random_data(struct random_fs *r, uint64_t ino)
{
	static const char buf[60000] = "d";
	static const int modes[] = {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
				    FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE};
	uint64_t off = pick(r, 300000), len = 1 + pick(r, sizeof(buf));
	ssize_t n;

	if (!pick(r, 4))
		return pmemfs_fallocate(r->c->fs, ino, modes[pick(r, 4)], off, len);
	if (!pick(r, 2)) {
		off = off / BLOCK * BLOCK;
		len = ROUND_UP(len, BLOCK) - BLOCK;
	}
	n = pmemfs_write(r->c->fs, ino, off, buf, len, 0);
	return n < 0 ? (int)n : 0;
}

static void forget_all(struct random_fs *r)
{
	for (unsigned k = 0; k < ARRAY_LEN(r->held); k++) {
		if (r->held[k])
			pmemfs_forget(r->c->fs, r->held[k], 1);
		r->held[k] = 0;
	}
}

static int random_step(struct random_fs *r)
{
	unsigned k = pick(r, ARRAY_LEN(r->file));

	switch (pick(r, 16)) {
	case 0:
	case 1:
		return random_make(r, k);
	case 2:
	case 3:
	case 4:
		return random_name(r, k);
	case 5:
	case 6:
	case 7:
		return random_attr(r, r->file[k]);
	case 8:
		if (pick(r, 60))
			return 0;
		forget_all(r);
		corefs_remount(r->c, pick(r, 2));
		memset(r->held, 0, sizeof(r->held));
		return 0;
	case 9:
		if (pick(r, 80))
			return 0;
		assert_int_equal(pmemfs_quota_off(r->c->fs), 0);
		r->limited = false;
		return random_data(r, r->file[k]);
	default:
		return random_data(r, r->file[k]);
	}
}

static void expect_all(struct corefs *c)
{
	for (unsigned kind = 1; kind <= QUOTA_KINDS; kind++)
		for (uint32_t id = 0; id < USERS; id++)
			expect_sum(c, kind, id);
}

static void set_random_limits(struct random_fs *r)
{
	for (unsigned kind = 1; kind <= QUOTA_KINDS; kind++)
		for (uint32_t id = 1; id < USERS; id++)
			limit(r->c, kind, id, pick(r, 3) * pick(r, 300),
			      pick(r, 2) * pick(r, 9));
	r->limited = true;
}

static void at_random(void **state)
{
	struct corefs *c = *state;
	struct random_fs r = {.c = c, .seed = 20};
	unsigned refused = 0;

	for (unsigned k = 0; k < ARRAY_LEN(r.file); k++)
		r.file[k] = ROOT;
	for (unsigned step = 0; step < 12000; step++) {
		struct pmemfs_quota before[QUOTA_KINDS][USERS];
		int err;

		on(c);
		if (!r.limited || !pick(&r, 300))
			set_random_limits(&r);
		for (unsigned kind = 0; kind < QUOTA_KINDS; kind++)
			for (uint32_t id = 0; id < USERS; id++)
				before[kind][id] = quota_of(c, kind + 1, id);
		err = random_step(&r);
		if (!c->fs->quota.inode)
			continue;
		if (err == -EDQUOT || step % 16 == 0)
			expect_all(c);
		if (err != -EDQUOT)
			continue;
		refused++;
		for (unsigned kind = 0; kind < QUOTA_KINDS; kind++)
			for (uint32_t id = 0; id < USERS; id++) {
				struct pmemfs_quota q = quota_of(c, kind + 1, id);

				assert_memory_equal(&q, &before[kind][id], sizeof(q));
			}
	}
	assert_true(refused > 100);
	forget_all(&r);
	on(c);
	corefs_remount(c, true);
	expect_all(c);
}

struct writer {
	struct corefs *c;
	uint64_t file;
	atomic_bool *stop;
	unsigned seed;
};

static void *write_a_lot(void *arg)
{
	struct writer *w = arg;
	struct random_fs r = {.c = w->c, .seed = w->seed};
	const struct pmemfs_cred by = {1000, 100, 0};
	char name[16];
	uint64_t ino;

	for (unsigned k = 0; !atomic_load(w->stop); k++) {
		struct pmemfs_attr a;

		random_data(&r, w->file);
		snprintf(name, sizeof(name), "%u.%u", w->seed, k % 20);
		if (!pmemfs_make(w->c->fs, ROOT, name, S_IFREG | 0644, 0, 0, NULL, &by, &a)) {
			ino = a.ino;
			random_data(&r, ino);
			pmemfs_forget(w->c->fs, ino, 1);
		}
		snprintf(name, sizeof(name), "%u.%u", w->seed, (k + 7) % 20);
		pmemfs_unlink(w->c->fs, ROOT, name);
	}
	return NULL;
}

/* Threads of one user meet a limit that none of them can pass; counting begins meanwhile. */
static void side_by_side(void **state)
{
	struct corefs *c = *state;
	atomic_bool stop = false;
	struct writer w[4];
	pthread_t thread[4];
	char name[16];

	for (unsigned k = 0; k < 4; k++) {
		snprintf(name, sizeof(name), "w%u", k);
		w[k] = (struct writer){c, make_by(c, name, &alice), &stop, 100 + k};
		assert_int_equal(pthread_create(&thread[k], NULL, write_a_lot, &w[k]), 0);
	}
	for (unsigned round = 0; round < 30; round++) {
		on(c);
		limit_user(c, 1000, round % 3 ? 300 : 100000, 0);
		for (unsigned k = 0; k < 200; k++) {
			struct pmemfs_quota q = user(c, 1000);

			assert_true(q.blocks < 1u << 20 && q.inodes < 1000);
			usleep(50);
		}
		if (round % 2)
			assert_int_equal(pmemfs_quota_off(c->fs), 0);
	}
	on(c);
	atomic_store(&stop, true);
	for (unsigned k = 0; k < 4; k++)
		pthread_join(thread[k], NULL);
	expect_lasting(c);
}

/* Many at the last block: as many get one as there are. */
static void *append_one(void *arg)
{
	struct writer *w = arg;
	char buf[BLOCK] = "x";
	uint64_t n = 0;

	for (unsigned k = 0; k < 400; k++)
		n += pmemfs_write(w->c->fs, w->file, k % 20 * BLOCK, buf, BLOCK, 0) == BLOCK;
	return (void *)(uintptr_t)n;
}

static void race_for_the_last(void **state)
{
	struct corefs *c = *state;
	struct writer w[4];
	pthread_t thread[4];
	char name[16];

	on(c);
	limit_user(c, 1000, 33, 0);
	for (unsigned k = 0; k < 4; k++) {
		snprintf(name, sizeof(name), "w%u", k);
		w[k] = (struct writer){c, make_by(c, name, &alice), NULL, 0};
	}
	for (unsigned k = 0; k < 4; k++)
		assert_int_equal(pthread_create(&thread[k], NULL, append_one, &w[k]), 0);
	for (unsigned k = 0; k < 4; k++)
		pthread_join(thread[k], NULL);
	/* four logs may have taken a block that was counted and not refused */
	assert_in_range(user(c, 1000).blocks, 30, 37);
	expect_lasting(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(off_by_default),
	    CORE_TEST(what_is_there_counts),
	    CORE_TEST(held_without_a_name),
	    CORE_TEST(reserved_counts),
	    CORE_TEST(exact_to_the_block),
	    CORE_TEST(inodes),
	    CORE_TEST(change_of_owner),
	    CORE_TEST(root_is_not_limited),
	    CORE_TEST(directories_and_attributes),
	    CORE_TEST(many_limits),
	    CORE_TEST(no_room_to_save),
	    cmocka_unit_test(killed_while_setting),
	    CORE_TEST(at_random),
	    CORE_TEST(side_by_side),
	    CORE_TEST(race_for_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
