/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The core under several threads: different directories, one directory, one file, renames that
 * cross. What each thread did must be there, whole; the checker then looks for the rest.
 */
#include "corefs.h"

#include <pthread.h>

#define THREADS 4

static const struct pmemfs_cred cred = {0, 0};

struct worker {
	struct corefs *c;
	unsigned id, rounds;
	uint64_t dir, dir2, file;
	uint64_t off; /* of what is written */
	size_t len;
	const char *failed; /* cmocka's asserts belong to the main thread */
};

#define MUST(w, e)                        \
	do {                              \
		if (!(e) && !(w)->failed) \
			(w)->failed = #e; \
	} while (0)

static void run(struct corefs *c, void *(*fn)(void *), const struct worker *from)
{
	struct worker w[THREADS];
	pthread_t t[THREADS];

	for (unsigned k = 0; k < THREADS; k++) {
		w[k] = *from;
		w[k].c = c;
		w[k].id = k;
		assert_int_equal(pthread_create(&t[k], NULL, fn, &w[k]), 0);
	}
	for (unsigned k = 0; k < THREADS; k++) {
		pthread_join(t[k], NULL);
		if (w[k].failed)
			fail_msg("thread %u: %s", k, w[k].failed);
	}
}

static int make(struct worker *w, uint64_t dir, const char *name, uint32_t mode, uint64_t *ret)
{
	struct pmemfs_attr a;
	int rc = pmemfs_make(w->c->fs, dir, name, mode, 0, 0, NULL, &cred, &a);

	if (!rc) {
		pmemfs_forget(w->c->fs, a.ino, 1);
		*ret = a.ino;
	}
	return rc;
}

/* Files are made, written, read, renamed, linked and removed; every third one stays. */
static void life_of_files(struct worker *w, uint64_t dir)
{
	struct pmemfs *fs = w->c->fs;
	unsigned char buf[9000], got[9000];
	char name[32], other[32];
	struct pmemfs_attr a;
	uint64_t ino = 0;

	for (unsigned k = 0; k < w->rounds; k++) {
		size_t size = 1 + (k * 977 + w->id * 31) % sizeof(buf);

		snprintf(name, sizeof(name), "t%u-%u", w->id, k);
		snprintf(other, sizeof(other), "t%u-%u-renamed", w->id, k);
		unit_fill(buf, size, w->id * 100000 + k);
		MUST(w, !make(w, dir, name, S_IFREG | 0644, &ino));
		MUST(w, make(w, dir, name, S_IFREG | 0644, &ino) == -EEXIST);
		MUST(w, pmemfs_write(fs, ino, 0, buf, size, 0) == (ssize_t)size);
		MUST(w, !pmemfs_rename(fs, dir, name, dir, other, 0));
		MUST(w, !pmemfs_lookup(fs, dir, other, &a) && a.ino == ino && a.size == size);
		MUST(w, pmemfs_read(fs, ino, 0, got, size) == (ssize_t)size);
		MUST(w, !memcmp(got, buf, size));
		MUST(w, !pmemfs_link(fs, ino, dir, name, &a) && a.nlink == 2);
		MUST(w, !pmemfs_unlink(fs, dir, other));
		pmemfs_forget(fs, ino, 2);
		if (k % 3)
			MUST(w, !pmemfs_unlink(fs, dir, name));
	}
}

static void *own_directory(void *arg)
{
	struct worker *w = arg;
	uint64_t dir = 0;
	char name[16];

	snprintf(name, sizeof(name), "d%u", w->id);
	MUST(w, !make(w, ROOT, name, S_IFDIR | 0755, &dir));
	life_of_files(w, dir);
	return NULL;
}

static void *shared_directory(void *arg)
{
	struct worker *w = arg;

	life_of_files(w, w->dir);
	return NULL;
}

/* The files that stayed are there with the right bytes, and no others. */
static void expect_files(struct corefs *c, uint64_t dir, unsigned id, unsigned rounds)
{
	char name[32];

	for (unsigned k = 0; k < rounds; k++) {
		size_t size = 1 + (k * 977 + id * 31) % 9000;

		snprintf(name, sizeof(name), "t%u-%u", id, k);
		if (k % 3)
			assert_int_equal(exists(c, dir, name), -ENOENT);
		else
			expect_seed(c, find(c, dir, name), 0, size, id * 100000 + k);
	}
}

static void different_directories(void **state)
{
	struct corefs *c = *state;
	const struct worker w = {.rounds = 400};
	char name[16];

	run(c, own_directory, &w);
	for (int clean = 0; clean < 2; clean++) {
		for (unsigned k = 0; k < THREADS; k++) {
			snprintf(name, sizeof(name), "d%u", k);
			expect_files(c, find(c, ROOT, name), k, w.rounds);
			assert_int_equal(count_entries(c, find(c, ROOT, name)),
					 (w.rounds + 2) / 3);
		}
		corefs_remount(c, clean);
	}
}

static void one_directory(void **state)
{
	struct corefs *c = *state;
	const struct worker w = {.rounds = 400, .dir = mk_dir(c, ROOT, "d")};

	hold(c, ROOT, "d");
	run(c, shared_directory, &w);
	for (int clean = 0; clean < 2; clean++) {
		hold(c, ROOT, "d");
		for (unsigned k = 0; k < THREADS; k++)
			expect_files(c, w.dir, k, w.rounds);
		assert_int_equal(count_entries(c, w.dir), THREADS * ((w.rounds + 2) / 3));
		corefs_remount(c, clean);
	}
}

/* ---- one name ---- */

/* All want the same names: each creation and each removal succeeds in exactly one thread. */
static unsigned made[THREADS], gone[THREADS];

static void *fight(void *arg)
{
	struct worker *w = arg;
	char name[16];
	uint64_t ino;
	int rc;

	for (unsigned k = 0; k < w->rounds; k++) {
		snprintf(name, sizeof(name), "%u", k % 8);
		if ((k + w->id) % 2) {
			rc = make(w, w->dir, name, S_IFREG | 0600, &ino);
			MUST(w, !rc || rc == -EEXIST);
			made[w->id] += !rc;
		} else {
			rc = pmemfs_unlink(w->c->fs, w->dir, name);
			MUST(w, !rc || rc == -ENOENT);
			gone[w->id] += !rc;
		}
	}
	return NULL;
}

static void same_names(void **state)
{
	struct corefs *c = *state;
	const struct worker w = {.rounds = 2000, .dir = mk_dir(c, ROOT, "d")};
	unsigned all = 0;

	memset(made, 0, sizeof(made));
	memset(gone, 0, sizeof(gone));
	hold(c, ROOT, "d");
	run(c, fight, &w);
	for (unsigned k = 0; k < THREADS; k++)
		all += made[k] - gone[k];
	assert_int_equal(count_entries(c, w.dir), all);
	corefs_remount(c, false);
	assert_int_equal(count_entries(c, w.dir), all);
}

/* ---- one file ---- */

#define RECORD 96

/* Each append is one piece: records never mix, none is lost. */
static void *append(void *arg)
{
	struct worker *w = arg;
	char rec[RECORD];

	for (unsigned k = 0; k < w->rounds; k++) {
		memset(rec, 'a' + (int)w->id, sizeof(rec));
		memcpy(rec, &k, sizeof(k));
		MUST(w, pmemfs_write(w->c->fs, w->file, 0, rec, RECORD, PMEMFS_WRITE_APPEND) ==
			    RECORD);
	}
	return NULL;
}

static void appends_to_one_file(void **state)
{
	struct corefs *c = *state;
	const struct worker w = {.rounds = 500, .file = mk_held(c, ROOT, "log")};
	unsigned next[THREADS] = {0}, k;
	char rec[RECORD];

	run(c, append, &w);
	corefs_remount(c, false);
	assert_int_equal(attr_of(c, w.file).size, THREADS * w.rounds * RECORD);
	for (unsigned n = 0; n < THREADS * w.rounds; n++) {
		unsigned id;

		assert_int_equal(pmemfs_read(c->fs, w.file, (uint64_t)n * RECORD, rec, RECORD),
				 RECORD);
		id = (unsigned)(rec[RECORD - 1] - 'a');
		assert_true(id < THREADS);
		for (size_t b = sizeof(k); b < RECORD; b++)
			assert_int_equal(rec[b], 'a' + (int)id);
		memcpy(&k, rec, sizeof(k));
		assert_int_equal(k, next[id]++);
	}
}

#define PIECE 12288

/* Writers put one letter over a range and, behind the end, over another; readers see one. */
static void *overwrite(void *arg)
{
	struct worker *w = arg;
	ssize_t len = (ssize_t)w->len;
	unsigned char buf[PIECE];

	for (unsigned k = 0; k < w->rounds; k++) {
		if (w->id % 2) {
			memset(buf, 'a' + (int)((k + w->id) % 26), sizeof(buf));
			MUST(w, pmemfs_write(w->c->fs, w->file, w->off, buf, w->len, 0) == len);
			MUST(w,
			     pmemfs_write(w->c->fs, w->file, w->off + (2 * k + w->id) * PIECE,
					  buf, w->len, 0) == len);
			continue;
		}
		MUST(w, pmemfs_read(w->c->fs, w->file, w->off, buf, w->len) == len);
		for (size_t b = 1; b < w->len; b++)
			MUST(w, buf[b] == buf[0]);
	}
	return NULL;
}

static void whole_writes(struct corefs *c, uint64_t off, size_t len)
{
	struct worker w = {.rounds = 300, .off = off, .len = len};
	char *buf = malloc(PIECE + off);

	w.file = mk_held(c, ROOT, off % 4096 ? "bytes" : "blocks");
	memset(buf, 'z', PIECE + off);
	put_bytes(c, w.file, 0, buf, len + off);
	run(c, overwrite, &w);
	for (int clean = 0; clean < 2; clean++) {
		assert_int_equal(pmemfs_read(c->fs, w.file, 0, buf, off), off);
		for (size_t b = 0; b < off; b++)
			assert_int_equal(buf[b], 'z');
		for (unsigned k = 0; k < 2 * w.rounds; k++) {
			assert_int_equal(pmemfs_read(c->fs, w.file, off + k * PIECE, buf, len),
					 len);
			for (size_t b = 1; b < len; b++)
				assert_int_equal(buf[b], buf[0]);
		}
		corefs_remount(c, clean);
	}
	free(buf);
}

static void reads_see_whole_writes(void **state)
{
	whole_writes(*state, 100, 12000);
	whole_writes(*state, 4096, PIECE);
}

/* ---- renames that cross ---- */

/* Directories are moved between two parents in both directions, and into one another. */
static void *cross(void *arg)
{
	struct worker *w = arg;
	struct pmemfs *fs = w->c->fs;
	char a[16], b[16];
	int rc;

	for (unsigned k = 0; k < w->rounds; k++) {
		uint64_t from = (k + w->id) % 2 ? w->dir : w->dir2;
		uint64_t to = (k / 2 + w->id) % 2 ? w->dir : w->dir2;

		snprintf(a, sizeof(a), "s%u", (k * 7 + w->id) % 6);
		snprintf(b, sizeof(b), "s%u", (k * 5 + w->id) % 6);
		rc = pmemfs_rename(fs, from, a, to, b, k % 5 ? 0 : RENAME_EXCHANGE);
		MUST(w, !rc || rc == -ENOENT || rc == -ENOTEMPTY || rc == -EINVAL);
		if (k % 4 == 0) {
			struct pmemfs_attr p, q;

			/* one of the subdirectories becomes the other's child, and comes back
			 */
			if (pmemfs_lookup(fs, w->dir, a, &p))
				continue;
			rc = pmemfs_rename(fs, w->dir2, b, p.ino, "in", 0);
			MUST(w, !rc || rc == -ENOENT || rc == -ENOTEMPTY || rc == -EINVAL ||
				    rc == -ENOTDIR);
			if (!pmemfs_lookup(fs, p.ino, "in", &q)) {
				rc = pmemfs_rename(fs, p.ino, "in", w->dir2, b, 0);
				MUST(w,
				     !rc || rc == -ENOENT || rc == -ENOTEMPTY || rc == -EINVAL);
				pmemfs_forget(fs, q.ino, 1);
			}
			pmemfs_forget(fs, p.ino, 1);
		}
	}
	return NULL;
}

static void crossing_renames(void **state)
{
	struct corefs *c = *state;
	struct worker w = {.rounds = 600};
	char name[16];

	w.dir = mk_dir(c, ROOT, "a");
	w.dir2 = mk_dir(c, w.dir, "b");
	for (unsigned k = 0; k < 6; k++) {
		snprintf(name, sizeof(name), "s%u", k);
		mk_dir(c, k % 2 ? w.dir : w.dir2, name);
	}
	run(c, cross, &w);
	/* the checker proves that it is a tree with right link counts */
	corefs_remount(c, false);
	corefs_remount(c, true);
	empty_dir(c, ROOT);
	assert_int_equal(attr_of(c, ROOT).nlink, 2);
}

/* ---- coming and going ---- */

/* Lookups, references and removal of the same files: a reference keeps what was looked up. */
static void *come_and_go(void *arg)
{
	struct worker *w = arg;
	struct pmemfs *fs = w->c->fs;
	struct pmemfs_attr a;
	char name[16], buf[64];
	uint64_t ino;

	for (unsigned k = 0; k < w->rounds; k++) {
		snprintf(name, sizeof(name), "%u", k % 4);
		if (w->id == 0) {
			make(w, w->dir, name, S_IFREG | 0600, &ino);
		} else if (w->id == 1) {
			pmemfs_unlink(fs, w->dir, name);
		} else if (!pmemfs_lookup(fs, w->dir, name, &a)) {
			MUST(w, pmemfs_write(fs, a.ino, 0, "0123456789", 10, 0) == 10);
			MUST(w, pmemfs_read(fs, a.ino, 0, buf, 64) == 10);
			MUST(w, !pmemfs_getattr(fs, a.ino, &a) && a.nlink < 2);
			pmemfs_forget(fs, a.ino, 1);
		}
	}
	return NULL;
}

static void references(void **state)
{
	struct corefs *c = *state;
	uint64_t before;
	const struct worker w = {.rounds = 3000, .dir = mk_dir(c, ROOT, "d")};

	before = free_blocks_of(c);
	run(c, come_and_go, &w);
	empty_dir(c, w.dir);
	corefs_remount(c, true);
	expect_space_back(c, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(different_directories),
	    CORE_TEST(one_directory),
	    CORE_TEST(same_names),
	    CORE_TEST(appends_to_one_file),
	    CORE_TEST(reads_see_whole_writes),
	    CORE_TEST(crossing_renames),
	    CORE_TEST(references),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
