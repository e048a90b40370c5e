/* SPDX-License-Identifier: BSD-3-Clause */
/* A directory of a million entries: made, found, read, kept over a kill and an unmount,
 * removed. */
#include "corefs.h"

#define N 1000000u

static const char *name_of(unsigned k)
{
	static char name[32];

	snprintf(name, sizeof(name), "entry-%u", k);
	return name;
}

/* Every name was seen once: bits. */
struct seen {
	uint8_t *bits;
	size_t n, room;
	uint64_t cookie;
};

static int see(void *arg, const char *name, const struct pmemfs_attr *a, uint64_t cookie)
{
	struct seen *s = arg;
	unsigned k;

	if (!s->room)
		return 1;
	s->room--;
	s->cookie = cookie;
	if (sscanf(name, "entry-%u", &k) != 1)
		return 0;
	assert_true(k < N);
	assert_false(s->bits[k / 8] & 1u << k % 8);
	s->bits[k / 8] |= (uint8_t)(1u << k % 8);
	s->n++;
	return 0;
}

/* In pieces of 1,000, as the kernel reads. */
static void read_all(struct corefs *c, uint64_t d)
{
	struct seen s = {.bits = calloc(1, N / 8 + 1)};

	do {
		s.room = 1000;
		assert_int_equal(pmemfs_readdir(c->fs, d, s.cookie, 0, see, &s), 0);
	} while (!s.room);
	assert_int_equal(s.n, N);
	free(s.bits);
}

static void a_million_entries(void **state)
{
	struct corefs c;
	uint64_t d, before, *ino = malloc(N * sizeof(*ino));

	corefs_new(&c, 1 << 30, 0);
	d = mk_dir(&c, ROOT, "d");
	before = free_blocks_of(&c);
	hold(&c, ROOT, "d");
	for (unsigned k = 0; k < N; k++)
		ino[k] = mk_file(&c, d, name_of(k));
	for (int clean = 0; clean < 3; clean++) {
		for (unsigned k = 0; k < N; k += 7)
			assert_int_equal(find(&c, d, name_of(k)), ino[k]);
		assert_int_equal(exists(&c, d, name_of(N)), -ENOENT);
		read_all(&c, d);
		if (clean < 2)
			corefs_remount(&c, clean);
		hold(&c, ROOT, "d");
	}
	for (unsigned k = 0; k < N; k++)
		assert_int_equal(pmemfs_unlink(c.fs, d, name_of(k * 7919ull % N)), 0);
	assert_int_equal(count_entries(&c, d), 0);
	corefs_remount(&c, true);
	expect_space_back(&c, before);
	assert_int_equal(pmemfs_rmdir(c.fs, ROOT, "d"), 0);
	corefs_done(&c);
	free(ino);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_million_entries)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
