/* SPDX-License-Identifier: BSD-3-Clause */
/* A directory's index in DRAM: against an array, under random changes; names that collide. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>

#include "fs.h"

#define NAMES 300u

static struct {
	bool there;
	uint64_t ino, cookie;
} model[NAMES];

static unsigned name_of(unsigned k, char *buf, size_t size)
{
	return (unsigned)snprintf(buf, size, "name %u", k);
}

static void compare(const struct dir *d)
{
	size_t live = 0;
	char name[32];

	for (unsigned k = 0; k < NAMES; k++) {
		const struct dent *e = dir_find(d, name, name_of(k, name, sizeof(name)));

		assert_int_equal(e != NULL, model[k].there);
		live += model[k].there;
		if (!e)
			continue;
		assert_int_equal(e->ino, model[k].ino);
		assert_ptr_equal(dir_find_cookie(d, model[k].cookie), e);
	}
	assert_int_equal(d->live, live);
	assert_true(d->live * 4 <= d->places * 3);
}

static void add(struct dir *d, unsigned k, uint64_t cookie)
{
	char name[32];
	unsigned len = name_of(k, name, sizeof(name));

	model[k].there = true;
	model[k].ino = cookie * 3;
	model[k].cookie = cookie;
	assert_int_equal(dir_add(d, name, len, cookie * 3, DT_REG, cookie), 0);
	assert_int_equal(dir_add(d, name, len, 1, DT_REG, cookie + 1), -EUCLEAN);
}

static void drop(struct dir *d, unsigned k)
{
	char name[32];

	model[k].there = false;
	dir_remove(d, dir_find(d, name, name_of(k, name, sizeof(name))));
}

static void names_come_and_go(void **state)
{
	uint64_t seed = 1, cookie = PMEMFS_COOKIE_FIRST;
	struct dir d = {0};

	for (unsigned step = 0; step < 30000; step++) {
		/* mostly full, then mostly empty */
		bool fill = unit_random(&seed) % 10 < (step / 3000 % 2 ? 2 : 8);
		unsigned k = unit_random(&seed) % NAMES;

		if (fill && !model[k].there)
			add(&d, k, cookie++);
		else if (!fill && model[k].there)
			drop(&d, k);
		if (step % 50 == 0)
			compare(&d);
	}
	dir_clear(&d);
}

/* What comes and goes leaves nothing behind that a search has to pass. */
static void removal_leaves_nothing(void **state)
{
	uint64_t cookie = PMEMFS_COOKIE_FIRST;
	struct dir d = {0};
	size_t taken = 0;

	memset(model, 0, sizeof(model));
	for (unsigned k = 0; k < NAMES; k++)
		add(&d, k, cookie++);
	for (unsigned k = 2; k < NAMES; k++)
		drop(&d, k);
	for (unsigned k = 0; k < 10000; k++) {
		drop(&d, 1);
		add(&d, 1, cookie++);
	}
	for (size_t k = 0; k < d.places; k++)
		taken += d.hash[k] != NULL;
	assert_int_equal(taken, 2);
	assert_true(d.n < NAMES);
	compare(&d);
	dir_clear(&d);
}

/* Thousands of names that want the same place, some even of the same hash. */
static void one_place(void **state)
{
	enum { N = 3000, PLACES = 4096 };
	static unsigned word[N];
	static uint32_t hash[N];
	unsigned same = 0;
	struct dir d = {0};
	char name[16];

	for (unsigned k = 0, w = 0; k < N; w++) {
		hash[k] = dir_hash(name, (size_t)snprintf(name, sizeof(name), "%u", w));
		if (hash[k] % PLACES)
			continue;
		for (unsigned j = 0; j < k; j++)
			same += hash[j] == hash[k];
		word[k] = w;
		assert_int_equal(dir_add(&d, name, (unsigned)strlen(name), w + 1, DT_REG,
					 PMEMFS_COOKIE_FIRST + k),
				 0);
		k++;
	}
	assert_int_equal(d.places, PLACES);
	assert_true(same > 0);
	/* every third goes; then every third is there again */
	for (int gone = 1; gone >= 0; gone--) {
		for (unsigned k = 0; k < N; k++) {
			unsigned len = (unsigned)snprintf(name, sizeof(name), "%u", word[k]);
			struct dent *e = dir_find(&d, name, len);

			assert_int_equal(e != NULL, gone || k % 3);
			assert_true(!e || e->ino == word[k] + 1);
			if (gone && k % 3 == 0)
				dir_remove(&d, e);
		}
	}
	for (unsigned k = 0; k < N; k += 3) {
		unsigned len = (unsigned)snprintf(name, sizeof(name), "%u", word[k]);

		assert_int_equal(
		    dir_add(&d, name, len, word[k] + 1, DT_REG, PMEMFS_COOKIE_FIRST + N + k),
		    0);
		assert_int_equal(dir_find(&d, name, len)->ino, word[k] + 1);
	}
	assert_int_equal(d.live, N);
	dir_clear(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_come_and_go),
	    cmocka_unit_test(removal_leaves_nothing),
	    cmocka_unit_test(one_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
