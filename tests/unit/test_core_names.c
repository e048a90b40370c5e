/* SPDX-License-Identifier: BSD-3-Clause */
/* The core's names: lengths, bytes, collisions, reading directories while they change. */
#include "corefs.h"

static const struct pmemfs_cred cred = {0, 0};

static void name_of_255_bytes(void **state)
{
	struct corefs *c = *state;
	char name[257];
	struct pmemfs_attr a;
	uint64_t ino;

	memset(name, 'x', 256);
	name[256] = 0;
	assert_int_equal(exists(c, ROOT, name), -ENAMETOOLONG);
	assert_int_equal(pmemfs_make(c->fs, ROOT, name, S_IFREG, 0, 0, NULL, &cred, &a),
			 -ENAMETOOLONG);
	assert_int_equal(pmemfs_make(c->fs, ROOT, name, S_IFDIR, 0, 0, NULL, &cred, &a),
			 -ENAMETOOLONG);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, name), -ENAMETOOLONG);
	assert_int_equal(pmemfs_rmdir(c->fs, ROOT, name), -ENAMETOOLONG);
	ino = mk_file(c, ROOT, name + 1);
	assert_int_equal(pmemfs_link(c->fs, ino, ROOT, name, &a), -ENAMETOOLONG);
	assert_int_equal(pmemfs_rename(c->fs, ROOT, name + 1, ROOT, name, 0), -ENAMETOOLONG);
	assert_int_equal(find(c, ROOT, name + 1), ino);
	for (int clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		assert_int_equal(find(c, ROOT, name + 1), ino);
	}
	assert_int_equal(pmemfs_rename(c->fs, ROOT, name + 1, ROOT, "short", 0), 0);
	assert_int_equal(find(c, ROOT, "short"), ino);
}

static void bad_names(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	struct pmemfs_attr a;

	assert_int_equal(exists(c, ROOT, ""), -ENOENT);
	assert_int_equal(exists(c, f, "x"), -ENOTDIR);
	assert_int_equal(exists(c, 12345, "x"), -ESTALE);
	assert_int_equal(find(c, ROOT, "."), ROOT);
	assert_int_equal(find(c, ROOT, ".."), ROOT);
	assert_int_equal(pmemfs_make(c->fs, ROOT, ".", S_IFREG, 0, 0, NULL, &cred, &a),
			 -EEXIST);
	assert_int_equal(pmemfs_make(c->fs, ROOT, "..", S_IFDIR, 0, 0, NULL, &cred, &a),
			 -EEXIST);
	assert_int_equal(pmemfs_make(c->fs, f, "x", S_IFREG, 0, 0, NULL, &cred, &a), -ENOTDIR);
	assert_true(pmemfs_make(c->fs, ROOT, "a/b", S_IFREG, 0, 0, NULL, &cred, &a) < 0);
	assert_int_equal(count_entries(c, ROOT), 1);
}

/* Every byte but NUL and '/' may stand in a name, alone and among others. */
static void any_bytes(void **state)
{
	struct corefs *c = *state;
	uint64_t ino[256] = {0};
	char name[8];

	for (int b = 1; b < 256; b++) {
		if (b == '/' || b == '.')
			continue;
		name[0] = (char)b;
		name[1] = 0;
		ino[b] = mk_file(c, ROOT, name);
		snprintf(name, sizeof(name), "a%cz", b);
		mk_file(c, ROOT, name);
	}
	for (int clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		assert_int_equal(count_entries(c, ROOT), 2 * 253);
		for (int b = 1; b < 256; b++) {
			name[0] = (char)b;
			name[1] = 0;
			if (ino[b])
				assert_int_equal(find(c, ROOT, name), ino[b]);
		}
	}
}

/* Names that differ only late, or have the same hash (the pair has the same XXH3-64, seed 0).
 */
static void collisions(void **state)
{
	struct corefs *c = *state;
	const char *a = "nikmknhhjjjkljkh", *b = "gljhjglmkjjjikjl";
	uint64_t ia = mk_file(c, ROOT, a), ib;

	assert_int_equal(exists(c, ROOT, b), -ENOENT);
	ib = mk_file(c, ROOT, b);
	assert_true(ia != ib);
	for (int clean = 0; clean < 2; clean++) {
		corefs_remount(c, clean);
		assert_int_equal(find(c, ROOT, a), ia);
		assert_int_equal(find(c, ROOT, b), ib);
	}
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, a), 0);
	assert_int_equal(exists(c, ROOT, a), -ENOENT);
	assert_int_equal(find(c, ROOT, b), ib);
	corefs_remount(c, false);
	assert_int_equal(exists(c, ROOT, a), -ENOENT);
	assert_int_equal(find(c, ROOT, b), ib);
}

/*
 * So many names that 32-bit hashes collide for certain (birthday: 150,000 names make about 2.6
 * pairs); half of them go away again, by name.
 */
static void many_names(void **state)
{
	const unsigned n = 150000;
	struct corefs *c = *state;
	uint64_t d = mk_dir(c, ROOT, "d"), *ino = calloc(n, sizeof(*ino)), free_before;
	char name[32];

	free_before = free_blocks_of(c);
	hold(c, ROOT, "d");
	for (unsigned k = 0; k < n; k++) {
		snprintf(name, sizeof(name), "name-%u", k);
		ino[k] = mk_file(c, d, name);
	}
	for (unsigned k = 0; k < n; k += 2) {
		snprintf(name, sizeof(name), "name-%u", k);
		assert_int_equal(pmemfs_unlink(c->fs, d, name), 0);
	}
	for (int clean = 0; clean < 2; clean++) {
		for (unsigned k = 0; k < n; k++) {
			snprintf(name, sizeof(name), "name-%u", k);
			if (k % 2)
				assert_int_equal(find(c, d, name), ino[k]);
			else
				assert_int_equal(exists(c, d, name), -ENOENT);
		}
		assert_int_equal(count_entries(c, d), n / 2);
		corefs_remount(c, clean);
		hold(c, ROOT, "d");
	}
	pmemfs_forget(c->fs, d, 1);
	empty_dir(c, ROOT);
	assert_int_equal(count_entries(c, ROOT), 0);
	corefs_remount(c, true);
	expect_space_back(c, free_before);
	free(ino);
}

/* ---- readdir ---- */

struct reader {
	char names[64][16];
	uint64_t cookies[64];
	unsigned n, stop_after;
};

static int read_some(void *arg, const char *name, const struct pmemfs_attr *a, uint64_t cookie)
{
	struct reader *r = arg;

	if (r->n == r->stop_after)
		return 1;
	strcpy(r->names[r->n], name);
	r->cookies[r->n++] = cookie;
	return 0;
}

/* Reading goes on at a cookie although what it names, and others, went away. */
static void cookies_survive_deletion(void **state)
{
	struct corefs *c = *state;
	uint64_t d = mk_dir(c, ROOT, "d");
	struct reader all = {.stop_after = 64}, rest = {.stop_after = 64};
	char name[16];

	for (unsigned k = 0; k < 20; k++) {
		snprintf(name, sizeof(name), "f%02u", k);
		mk_file(c, d, name);
	}
	assert_int_equal(pmemfs_readdir(c->fs, d, 0, 0, read_some, &all), 0);
	assert_int_equal(all.n, 22);
	assert_string_equal(all.names[0], ".");
	assert_string_equal(all.names[1], "..");
	for (unsigned k = 1; k < all.n; k++)
		assert_true(all.cookies[k] > all.cookies[k - 1]);
	/* entries 5 to 10 of the listing go, the tenth's cookie is where reading goes on */
	for (unsigned k = 5; k <= 10; k++)
		assert_int_equal(pmemfs_unlink(c->fs, d, all.names[k]), 0);
	mk_file(c, d, "new");
	corefs_remount(c, true);
	assert_int_equal(pmemfs_readdir(c->fs, d, all.cookies[10], 0, read_some, &rest), 0);
	assert_int_equal(rest.n, 12);
	for (unsigned k = 0; k < 11; k++) {
		assert_string_equal(rest.names[k], all.names[11 + k]);
		assert_int_equal(rest.cookies[k], all.cookies[11 + k]);
	}
	assert_string_equal(rest.names[11], "new");
	assert_true(rest.cookies[11] > all.cookies[21]);
}

/* A name that comes back gets a new cookie: nobody reads it twice or misses others. */
static void cookies_are_not_reused(void **state)
{
	struct corefs *c = *state;
	uint64_t d = mk_dir(c, ROOT, "d"), last = 0;

	for (unsigned k = 0; k < 300; k++) {
		struct reader r = {.stop_after = 3};

		mk_file(c, d, "again");
		assert_int_equal(pmemfs_readdir(c->fs, d, 0, 0, read_some, &r), 0);
		assert_int_equal(r.n, 3);
		assert_true(r.cookies[2] > last);
		last = r.cookies[2];
		assert_int_equal(pmemfs_unlink(c->fs, d, "again"), 0);
		if (k % 100 == 50)
			corefs_remount(c, k > 100);
	}
}

static int stop_at_once(void *arg, const char *name, const struct pmemfs_attr *a,
			uint64_t cookie)
{
	++*(unsigned *)arg;
	return 1;
}

static void readdir_errors(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	unsigned calls = 0;

	assert_int_equal(pmemfs_readdir(c->fs, f, 0, 0, stop_at_once, &calls), -ENOTDIR);
	assert_int_equal(calls, 0);
	assert_int_equal(pmemfs_readdir(c->fs, ROOT, 0, 0, stop_at_once, &calls), 0);
	assert_int_equal(calls, 1);
	assert_int_equal(pmemfs_readdir(c->fs, ROOT, UINT64_MAX, 0, stop_at_once, &calls), 0);
	assert_int_equal(calls, 1);
}

static int plus_entry(void *arg, const char *name, const struct pmemfs_attr *a, uint64_t cookie)
{
	struct pmemfs_attr *got = arg;

	if (strcmp(name, "f"))
		return 0;
	*got = *a;
	return 0;
}

/* READDIR_PLUS hands out attributes and a reference, which keeps an unlinked file alive. */
static void readdir_plus_refers(void **state)
{
	struct corefs *c = *state;
	uint64_t f = mk_file(c, ROOT, "f");
	struct pmemfs_attr a = {0};

	put_seed(c, f, 0, 5000, 1);
	assert_int_equal(pmemfs_readdir(c->fs, ROOT, 0, PMEMFS_READDIR_PLUS, plus_entry, &a),
			 0);
	assert_int_equal(a.ino, f);
	assert_int_equal(a.size, 5000);
	assert_int_equal(a.nlink, 1);
	assert_int_equal(pmemfs_unlink(c->fs, ROOT, "f"), 0);
	expect_seed(c, f, 0, 5000, 1);
	pmemfs_forget(c->fs, f, 1);
	assert_int_equal(pmemfs_getattr(c->fs, f, &a), -ESTALE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(name_of_255_bytes),
	    CORE_TEST(bad_names),
	    CORE_TEST(any_bytes),
	    CORE_TEST(collisions),
	    CORE_TEST_BIG(many_names),
	    CORE_TEST(cookies_survive_deletion),
	    CORE_TEST(cookies_are_not_reused),
	    CORE_TEST(readdir_errors),
	    CORE_TEST(readdir_plus_refers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
