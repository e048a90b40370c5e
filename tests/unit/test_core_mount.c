/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's mounting: what survives, read-only, shards and CPUs, what a superblock tells. */
#include "corefs.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sched.h>
#include <sys/mman.h>

static const struct pmemfs_cred cred = {1, 2};

/* ---- one of everything ---- */

struct zoo {
	uint64_t dir, file, sparse, link, fifo, device, empty, removed;
	struct pmemfs_attr attr[7];
};

static uint64_t make(struct corefs *c, uint64_t dir, const char *name, uint32_t mode,
		     const char *target)
{
	struct pmemfs_attr a;

	assert_int_equal(pmemfs_make(c->fs, dir, name, mode, 8, 300, target, &cred, &a), 0);
	pmemfs_forget(c->fs, a.ino, 1);
	return a.ino;
}

static void zoo_attrs(struct corefs *c, const struct zoo *z, struct pmemfs_attr ret[7])
{
	const uint64_t ino[7] = {z->dir,  z->file,   z->sparse, z->link,
				 z->fifo, z->device, z->empty};

	for (int k = 0; k < 7; k++)
		ret[k] = attr_of(c, ino[k]);
}

static void zoo_make(struct corefs *c, struct zoo *z)
{
	struct pmemfs_attr a = {.mode = 02750, .uid = 9, .mtime = {-5, 7}};

	z->dir = make(c, ROOT, "dir", S_IFDIR | 0755, NULL);
	z->file = make(c, z->dir, "file", S_IFREG | 0644, NULL);
	z->sparse = make(c, z->dir, "sparse", S_IFREG | 0600, NULL);
	z->link = make(c, z->dir, "link", S_IFLNK | 0777, "some/where");
	z->fifo = make(c, ROOT, "fifo", S_IFIFO | 0622, NULL);
	z->device = make(c, ROOT, "device", S_IFBLK | 0660, NULL);
	z->empty = make(c, z->dir, "empty", S_IFDIR | 01777, NULL);
	put_seed(c, z->file, 0, 123456, 1);
	put_seed(c, z->file, 5000, 3000, 2);
	put_seed(c, z->sparse, 1ull << 41, 5, 3);
	pmemfs_fallocate(c->fs, z->sparse, FALLOC_FL_KEEP_SIZE, 0, 100000);
	assert_int_equal(pmemfs_setxattr(c->fs, z->file, "user.x", "value", 5, 0), 0);
	assert_int_equal(pmemfs_link(c->fs, z->file, ROOT, "hard", &a), 0);
	pmemfs_forget(c->fs, z->file, 1);
	a = (struct pmemfs_attr){.mode = 02750, .uid = 9, .mtime = {-5, 7}};
	assert_int_equal(pmemfs_setattr(c->fs, z->dir,
					PMEMFS_SET_MODE | PMEMFS_SET_UID | PMEMFS_SET_MTIME, &a,
					NULL),
			 0);
	z->removed = mk_held(c, ROOT, "removed");
	put_seed(c, z->removed, 0, 50000, 4);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "removed"), 0);
	zoo_attrs(c, z, z->attr);
}

static void zoo_expect(struct corefs *c, const struct zoo *z)
{
	struct pmemfs_attr now[7], gone;
	unsigned char part[5000];
	char buf[32];

	zoo_attrs(c, z, now);
	for (int k = 0; k < 7; k++)
		assert_memory_equal(&now[k], &z->attr[k], sizeof(now[k]));
	assert_int_equal(count_entries(c, ROOT), 4);
	assert_int_equal(count_entries(c, z->dir), 4);
	assert_int_equal(find(c, ROOT, "hard"), z->file);
	assert_int_equal(find(c, z->dir, "file"), z->file);
	assert_int_equal(find(c, z->empty, ".."), z->dir);
	unit_fill(part, sizeof(part), 1);
	assert_int_equal(pmemfs_read(c->fs, z->file, 0, part, 5000), 5000);
	expect_seed(c, z->file, 5000, 3000, 2);
	expect_zeros(c, z->sparse, 0, 100000);
	expect_seed(c, z->sparse, 1ull << 41, 5, 3);
	assert_int_equal(pmemfs_readlink(c->fs, z->link, buf, sizeof(buf)), 10);
	assert_memory_equal(buf, "some/where", 10);
	assert_int_equal(pmemfs_getxattr(c->fs, z->file, "user.x", buf, sizeof(buf)), 5);
	assert_int_equal(pmemfs_getattr(c->fs, z->removed, &gone), -ESTALE);
}

static void everything_survives(void **state)
{
	struct corefs *c = *state;
	struct zoo z;

	zoo_make(c, &z);
	for (int round = 0; round < 6; round++) {
		corefs_remount(c, round % 3 == 1);
		zoo_expect(c, &z);
	}
}

/* What a killed daemon leaves, and what a clean unmount leaves, count the same. */
static void same_counts(void **state)
{
	struct corefs *c = *state;
	struct pmemfs_statfs killed, clean;
	struct zoo z;

	zoo_make(c, &z);
	corefs_remount(c, false);
	pmemfs_statfs(c->fs, &killed);
	corefs_remount(c, true);
	pmemfs_statfs(c->fs, &clean);
	/* unmounting gives back what tables kept */
	assert_in_range(clean.bfree, killed.bfree, killed.bfree + 100);
	assert_int_equal(clean.files - clean.ffree, killed.files - killed.ffree);
	corefs_remount(c, false);
	pmemfs_statfs(c->fs, &killed);
	assert_memory_equal(&killed, &clean, sizeof(clean));
}

static void recovery_threads(void **state)
{
	static const unsigned threads[] = {1, 2, 3, 16, 1000};
	struct corefs *c = *state;
	struct pmemfs_statfs first, st;
	struct zoo z;
	char name[16];

	zoo_make(c, &z);
	uint64_t d = mk_dir(c, z.dir, "many");
	for (unsigned k = 0; k < 2000; k++) {
		snprintf(name, sizeof(name), "%u", k);
		mk_file(c, d, name);
	}
	assert_int_equal(pmemfs_rmdir(c->fs, z.dir, "many"), -ENOTEMPTY);
	for (size_t k = 0; k < sizeof(threads) / sizeof(threads[0]); k++) {
		const struct pmemfs_options o = {.recovery_threads = threads[k]};
		const char *why;

		pmemfs_abandon(c->fs);
		assert_int_equal(pmemfs_mount(c->media, &o, &c->fs, &why), 0);
		pmemfs_statfs(c->fs, &st);
		if (!k)
			first = st;
		assert_memory_equal(&st, &first, sizeof(st));
		assert_int_equal(count_entries(c, d), 2000);
	}
}

/* ---- read-only ---- */

static void expect_erofs(struct corefs *c, const struct zoo *z)
{
	struct pmemfs_attr a = {.mode = 0};

	assert_int_equal(pmemfs_make(c->fs, ROOT, "x", S_IFREG, 0, 0, NULL, &cred, &a), -EROFS);
	assert_int_equal(pmemfs_tmpfile(c->fs, ROOT, 0600, &cred, &a), -EROFS);
	assert_int_equal(pmemfs_link(c->fs, z->file, ROOT, "x", &a), -EROFS);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "hard"), -EROFS);
	assert_int_equal(pmemfs_rmdir(c->fs, z->dir, "empty"), -EROFS);
	assert_int_equal(pmemfs_rename(c->fs, ROOT, "hard", ROOT, "x", 0), -EROFS);
	assert_int_equal(pmemfs_write(c->fs, z->file, 0, "x", 1, 0), -EROFS);
	assert_int_equal(pmemfs_fallocate(c->fs, z->file, 0, 0, 1), -EROFS);
	assert_int_equal(pmemfs_setattr(c->fs, z->file, PMEMFS_SET_MODE, &a, NULL), -EROFS);
	assert_int_equal(pmemfs_setxattr(c->fs, z->file, "user.y", "", 0, 0), -EROFS);
	assert_int_equal(pmemfs_removexattr(c->fs, z->file, "user.x"), -EROFS);
	assert_int_equal(pmemfs_sync(c->fs), 0);
}

static void read_only(void **state)
{
	const struct pmemfs_options ro = {.readonly = true};
	struct corefs *c = *state;
	struct pmemfs *rw = NULL;
	struct media *m;
	const char *why = NULL;
	struct zoo z;
	void *copy = malloc(c->size);

	zoo_make(c, &z);
	for (int clean = 0; clean < 2; clean++) {
		if (clean)
			assert_int_equal(pmemfs_unmount(c->fs), 0);
		else
			pmemfs_abandon(c->fs);
		c->fs = NULL;
		memcpy(copy, c->mem, c->size);
		assert_int_equal(media_open_memory(c->mem, c->size, MEDIA_READONLY, &m), 0);
		assert_int_equal(pmemfs_mount(m, &(struct pmemfs_options){0}, &rw, &why),
				 -EROFS);
		assert_null(rw);
		if (!clean) {
			/* recovery must write somewhere: into private copies, if nowhere else
			 */
			why = NULL;
			assert_int_equal(pmemfs_mount(m, &ro, &rw, &why), -EROFS);
			assert_non_null(why);
			media_close(m);
			assert_int_equal(media_open_memory(c->mem, c->size,
							   MEDIA_READONLY | MEDIA_SHADOW, &m),
					 0);
		}
		assert_int_equal(pmemfs_mount(m, &ro, &c->fs, &why), 0);
		assert_true(pmemfs_is_readonly(c->fs));
		zoo_expect(c, &z);
		expect_erofs(c, &z);
		assert_int_equal(pmemfs_set_readonly(c->fs, false), -EROFS);
		assert_int_equal(pmemfs_unmount(c->fs), 0);
		c->fs = NULL;
		media_close(m);
		assert_int_equal(memcmp(copy, c->mem, c->size), 0);
		assert_int_equal(
		    pmemfs_mount(c->media, &(struct pmemfs_options){0}, &c->fs, &why), 0);
	}
	free(copy);
	zoo_expect(c, &z);
}

/* On private copies everything works, and the medium does not change. */
static void on_private_copies(void **state)
{
	struct corefs *c = *state, private = {.mem = c->mem, .size = c->size};
	const char *why = NULL;
	struct zoo z;
	void *copy = malloc(c->size);

	zoo_make(c, &z);
	pmemfs_abandon(c->fs);
	c->fs = NULL;
	memcpy(copy, c->mem, c->size);
	assert_int_equal(media_open_memory(c->mem, c->size, MEDIA_SHADOW, &private.media), 0);
	assert_int_equal(
	    pmemfs_mount(private.media, &(struct pmemfs_options){0}, &private.fs, &why), 0);
	zoo_expect(&private, &z);
	put_seed(&private, mk_file(&private, z.dir, "new"), 0, 1 << 20, 5);
	assert_int_equal(pmemfs_unlink(private.fs, ROOT, "hard"), 0);
	expect_seed(&private, find(&private, z.dir, "new"), 0, 1 << 20, 5);
	assert_int_equal(pmemfs_unmount(private.fs), 0);
	assert_int_equal(pmemfs_mount(private.media, NULL, &private.fs, &why), 0);
	expect_seed(&private, find(&private, z.dir, "new"), 0, 1 << 20, 5);
	assert_int_equal(pmemfs_unmount(private.fs), 0);
	media_close(private.media);
	assert_int_equal(memcmp(copy, c->mem, c->size), 0);
	assert_int_equal(pmemfs_mount(c->media, NULL, &c->fs, &why), 0);
	zoo_expect(c, &z);
	free(copy);
}

static void switching(void **state)
{
	struct corefs *c = *state;
	struct zoo z;

	zoo_make(c, &z);
	corefs_remount(c, true);
	assert_int_equal(pmemfs_set_readonly(c->fs, true), 0);
	assert_true(pmemfs_is_readonly(c->fs));
	zoo_expect(c, &z);
	expect_erofs(c, &z);
	assert_int_equal(pmemfs_set_readonly(c->fs, false), 0);
	assert_false(pmemfs_is_readonly(c->fs));
	zoo_expect(c, &z);
	mk_file(c, z.empty, "written");
	corefs_remount(c, false);
	assert_int_equal(exists(c, z.empty, "written"), 0);
}

/* ---- shards and CPUs ---- */

static void any_shards(void **state)
{
	static const unsigned shards[] = {1, 2, 3, 7, 13};

	for (size_t k = 0; k < sizeof(shards) / sizeof(shards[0]); k++) {
		struct corefs c;
		struct zoo z;
		struct pmemfs_info info;
		const char *why;

		corefs_new(&c, 256 << 20, shards[k]);
		assert_int_equal(pmemfs_probe(c.media, &info, &why), 0);
		assert_int_equal(info.shards, shards[k]);
		zoo_make(&c, &z);
		corefs_remount(&c, false);
		zoo_expect(&c, &z);
		corefs_remount(&c, true);
		zoo_expect(&c, &z);
		corefs_done(&c);
	}
}

/* Made with all CPUs, mounted with one, and the other way round. */
static void other_cpus(void **state)
{
	struct corefs *c = *state;
	cpu_set_t all, one;
	struct zoo z;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	for (int k = 0; k < CPU_SETSIZE && !CPU_COUNT(&one); k++)
		if (CPU_ISSET(k, &all))
			CPU_SET(k, &one);
	zoo_make(c, &z);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	for (int clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		zoo_expect(c, &z);
		mk_file(c, z.empty, clean ? "a" : "b");
		assert_int_equal(pmemfs_unlink(c->fs, z.empty, clean ? "a" : "b"), 0);
		z.attr[6] = attr_of(c, z.empty);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	corefs_remount(c, false);
	zoo_expect(c, &z);
}

/* ---- the superblock ---- */

static void format_options(void **state)
{
	const uint64_t size = 64 << 20;
	struct pmemfs_format_options o = {.uuid = {1, 2, 3, 16},
					  .label = "a label of exactly 32 bytes, ok!",
					  .size = 32 << 20,
					  .shards = 2,
					  .root_uid = 5,
					  .root_gid = 6,
					  .root_mode = 01777,
					  .now = 1234567890};
	struct corefs c = {.size = size};
	struct pmemfs_info info;
	struct pmemfs_attr a;
	const char *why;

	c.mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(media_open_memory(c.mem, size, 0, &c.media), 0);
	assert_int_equal(pmemfs_probe(c.media, &info, &why), -EINVAL);
	assert_int_equal(pmemfs_format(c.media, &o), 0);
	assert_int_equal(pmemfs_probe(c.media, &info, &why), 0);
	assert_memory_equal(info.uuid, o.uuid, 16);
	assert_string_equal(info.label, o.label);
	assert_int_equal(info.size, 32 << 20);
	assert_int_equal(info.shards, 2);
	assert_int_equal(info.created, 1234567890);
	assert_true(info.clean && !info.error && info.primary_ok && info.replica_ok);
	assert_int_equal(pmemfs_mount(c.media, &(struct pmemfs_options){0}, &c.fs, &why), 0);
	a = attr_of(&c, ROOT);
	assert_int_equal(a.mode, S_IFDIR | 01777);
	assert_int_equal(a.uid, 5);
	assert_int_equal(a.gid, 6);
	assert_int_equal(a.nlink, 2);
	assert_int_equal(pmemfs_probe(c.media, &info, &why), 0);
	assert_false(info.clean);
	corefs_remount(&c, false);
	assert_int_equal(pmemfs_unmount(c.fs), 0);
	assert_int_equal(pmemfs_probe(c.media, &info, &why), 0);
	assert_true(info.clean && info.counters_valid);
	assert_int_equal(info.used_inodes, 1);
	media_close(c.media);
	munmap(c.mem, size);
}

/* What does not fit or is no option changes nothing; a medium that became smaller is refused.
 */
static void format_errors(void **state)
{
	struct corefs *c = *state;
	struct pmemfs_format_options o = {.size = c->size + 4096};
	struct pmemfs_info info;
	struct pmemfs *fs = NULL;
	struct media *small;
	const char *why;

	assert_int_equal(pmemfs_unmount(c->fs), 0);
	c->fs = NULL;
	assert_int_equal(pmemfs_format(c->media, &o), -EFBIG);
	o.size = 1 << 20;
	assert_int_equal(pmemfs_format(c->media, &o), -EFBIG);
	o.size = 0;
	o.shards = 257;
	assert_int_equal(pmemfs_format(c->media, &o), -EINVAL);
	o.shards = 0;
	o.label = "a label of more than 32 bytes, no";
	assert_int_equal(pmemfs_format(c->media, &o), -EINVAL);
	assert_int_equal(pmemfs_probe(c->media, &info, &why), 0);
	assert_int_equal(info.mounts, 1);
	assert_int_equal(media_open_memory(c->mem, 20 << 20, 0, &small), 0);
	why = NULL;
	assert_int_equal(pmemfs_probe(small, &info, &why), -ENOSPC);
	assert_non_null(why);
	assert_int_equal(info.size, c->size);
	assert_int_equal(pmemfs_mount(small, NULL, &fs, &why), -ENOSPC);
	assert_null(fs);
	media_close(small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(everything_survives),   CORE_TEST(same_counts),
	    CORE_TEST(recovery_threads),      CORE_TEST(read_only),
	    CORE_TEST(on_private_copies),     CORE_TEST(switching),
	    cmocka_unit_test(any_shards),     CORE_TEST(other_cpus),
	    cmocka_unit_test(format_options), CORE_TEST(format_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
