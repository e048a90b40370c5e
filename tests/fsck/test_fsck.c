/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For each kind of damage: fsck -n finds exactly it and changes no byte; fsck -p repairs
 * exactly what is safe; fsck -y repairs it, a second run finds nothing, and the filesystem can
 * be mounted, read whole and written. The same when fsck is killed at any fence of a repair.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>

#include "check.h"
#include "damage.h"

#define CODES 16

struct found {
	unsigned code[CODES];
	unsigned n;
	bool echo;
	int answer; /* of FIX_ASK: 0 no, 1 yes */
};

static bool note(void *arg, unsigned code, const char *message, bool fixable)
{
	struct found *f = arg;

	if (f->n < CODES)
		f->code[f->n++] = code;
	if (f->echo)
		print_message("    %u %s\n", code, message);
	assert_non_null(message);
	return f->answer;
}

static int run(struct media *m, enum pmemfs_fix fix, struct found *f,
	       struct pmemfs_check_result *res)
{
	struct pmemfs_check_options o = {.fix = fix, .force = true, .problem = note, .arg = f};

	f->n = 0;
	return pmemfs_check(m, &o, res);
}

static unsigned count(const unsigned *codes)
{
	unsigned n = 0;

	while (n < 6 && codes[n])
		n++;
	return n;
}

/* Takes the last code away where it has to be this one. */
static void expect_left(const struct damage *d, bool all, struct found *f)
{
	if (!d->left || (all && d->repaired != NEVER))
		return;
	assert_true(f->n);
	assert_int_equal(f->code[--f->n], CHECK_REPAIRS_LEFT);
}

static void expect(const struct damage *d, const char *what, const struct found *f,
		   const unsigned *codes)
{
	bool same = f->n == count(codes);

	for (unsigned k = 0; same && k < f->n; k++)
		same = f->code[k] == codes[k];
	if (same)
		return;
	print_error("%s, %s: found", d->name, what);
	for (unsigned k = 0; k < f->n; k++)
		print_error(" %u", f->code[k]);
	print_error(", not");
	for (unsigned k = 0; k < count(codes); k++)
		print_error(" %u", codes[k]);
	print_error("\n");
	fail();
}

static const unsigned nothing[6];

/* What a second run of fsck -y may find. */
static const unsigned *second_of(const struct damage *d)
{
	if (d->repaired != NEVER)
		return nothing;
	return d->second[0] ? d->second : d->first;
}

/* fsck -n on private copies of what is in memory. */
static void look(struct image *img, struct found *f)
{
	struct pmemfs_check_result res;
	struct media *m;

	assert_int_equal(media_open_memory(img->mem, img->size, MEDIA_SHADOW, &m), 0);
	assert_int_equal(run(m, PMEMFS_FIX_NONE, f, &res), 0);
	assert_int_equal(res.problems, f->n);
	assert_int_equal(res.fixed, 0);
	assert_true(res.checked);
	media_close(m);
}

/* ---- using what was repaired ---------------------------------------------------------- */

struct walk {
	struct pmemfs *fs;
	uint64_t list[512];
	unsigned n;
};

static int collect(void *arg, const char *name, const struct pmemfs_attr *attr, uint64_t cookie)
{
	struct walk *w = arg;

	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return 0;
	assert_true(w->n < ARRAY_LEN(w->list));
	w->list[w->n++] = attr->ino;
	return 0;
}

static void read_object(struct walk *w, uint64_t ino)
{
	char buf[65536];
	struct pmemfs_attr attr;
	ssize_t n = 1;

	assert_int_equal(pmemfs_getattr(w->fs, ino, &attr), 0);
	if (S_ISDIR(attr.mode))
		assert_int_equal(pmemfs_readdir(w->fs, ino, 0, 0, collect, w), 0);
	else if (S_ISLNK(attr.mode))
		assert_true(pmemfs_readlink(w->fs, ino, buf, sizeof(buf)) > 0);
	for (uint64_t off = 0; S_ISREG(attr.mode) && n; off += n) {
		n = pmemfs_read(w->fs, ino, off, buf, sizeof(buf));
		assert_true(n >= 0);
	}
}

static void use(struct image *img)
{
	static const struct pmemfs_cred cred;
	struct pmemfs_attr attr;
	struct walk w = {.fs = image_mount(img), .list = {PMEMFS_ROOT_INO}, .n = 1};

	for (unsigned k = 0; k < w.n; k++)
		read_object(&w, w.list[k]);
	assert_false(pmemfs_is_readonly(w.fs));
	assert_int_equal(
	    pmemfs_make(w.fs, PMEMFS_ROOT_INO, "new", S_IFREG | 0600, 0, 0, NULL, &cred, &attr),
	    0);
	assert_int_equal(pmemfs_write(w.fs, attr.ino, 0, "hello", 5, 0), 5);
	pmemfs_forget(w.fs, attr.ino, 1);
	assert_int_equal(pmemfs_unlink(w.fs, PMEMFS_ROOT_INO, "new"), 0);
	image_unmount(w.fs);
}

/* ---- one kind of damage --------------------------------------------------------------- */

static void make_damaged(const struct damage *d, struct image *img)
{
	if (d->parity)
		image_make_parity(img);
	else
		image_make(img);
	if (d->make)
		d->make(img);
}

static void try_none(const struct damage *d)
{
	struct found f = {.echo = true};
	struct image img;
	uint8_t *before;

	make_damaged(d, &img);
	before = malloc(img.size);
	if (!d->poison)
		memcpy(before, img.mem, img.size);
	look(&img, &f);
	expect(d, "-n", &f, d->first);
	if (!d->poison)
		assert_memory_equal(img.mem, before, img.size);
	free(before);
	image_free(&img);
}

/* Answering no to everything is like -n, but what a crash left is put right. */
static void try_no(const struct damage *d)
{
	struct pmemfs_check_result res;
	struct found f = {.answer = 0};
	struct image img;

	make_damaged(d, &img);
	assert_int_equal(run(img.m, PMEMFS_FIX_ASK, &f, &res), 0);
	expect(d, "no", &f, d->first);
	assert_int_equal(res.fixed, 0);
	if (!d->first[0]) {
		use(&img);
	} else if (d->repaired != NEVER) { /* it is still there */
		look(&img, &f);
		expect(d, "-n after no", &f, d->first);
	}
	image_free(&img);
}

static void try_preen(const struct damage *d)
{
	struct pmemfs_check_result res;
	struct found f = {0};
	struct image img;

	make_damaged(d, &img);
	assert_int_equal(run(img.m, PMEMFS_FIX_SAFE, &f, &res), 0);
	expect_left(d, false, &f);
	expect(d, "-p", &f, d->first);
	if (d->repaired == SAFE) {
		assert_int_equal(res.fixed, res.problems);
		look(&img, &f);
		expect(d, "-n after -p", &f, nothing);
		use(&img);
	} else {
		assert_true(res.fixed < res.problems);
	}
	image_free(&img);
}

/* A directory that was cut loses any number of names. */
static void merge_repeated(struct found *f)
{
	unsigned n = 0;

	for (unsigned k = 0; k < f->n; k++)
		if (!n || f->code[n - 1] != f->code[k])
			f->code[n++] = f->code[k];
	f->n = n;
}

static void try_all(const struct damage *d)
{
	struct pmemfs_check_result res;
	struct found f = {0};
	struct image img;

	make_damaged(d, &img);
	assert_int_equal(run(img.m, PMEMFS_FIX_ALL, &f, &res), 0);
	expect_left(d, true, &f);
	if (d->yes[0])
		merge_repeated(&f);
	expect(d, "-y", &f, d->yes[0] ? d->yes : d->first);
	if (d->repaired != NEVER)
		assert_int_equal(res.fixed, res.problems);
	look(&img, &f);
	expect(d, "-n after -y", &f, second_of(d));
	assert_int_equal(run(img.m, PMEMFS_FIX_ALL, &f, &res), 0);
	expect_left(d, true, &f);
	expect(d, "-y again", &f, second_of(d));
	if (d->repaired != NEVER) {
		struct pmemfs_info info;
		const char *why;

		assert_int_equal(pmemfs_probe(img.m, &info, &why), 0);
		assert_true(info.clean && !info.error && info.checked);
		use(&img);
		look(&img, &f);
		expect(d, "-n after use", &f, nothing);
	}
	image_free(&img);
}

/* ---- fsck killed ---------------------------------------------------------------------- */

/* Under ASan, where it takes ten times as long, at every fourth fence. */
#ifdef __SANITIZE_ADDRESS__
#define KILL_STEP 4u
#else
#define KILL_STEP 1u
#endif

struct killer {
	struct image *img;
	const struct damage *d;
	uint8_t *copy;
	unsigned at, fences;
};

static void on_event(void *arg, enum media_event ev, uint64_t off, const void *bytes,
		     size_t len)
{
	struct killer *k = arg;

	if (ev == MEDIA_EV_FENCE && k->fences++ == k->at)
		memcpy(k->copy, k->img->mem, k->img->size);
}

/* The memory as it was at a fence of the repair is repaired by a new run. */
static bool try_killed_at(const struct damage *d, struct image *img, unsigned at)
{
	struct pmemfs_check_result res;
	struct found f = {0};
	struct killer k = {.img = img, .d = d, .at = at, .copy = malloc(img->size)};

	media_set_hook(img->m, on_event, &k);
	assert_int_equal(run(img->m, PMEMFS_FIX_ALL, &f, &res), 0);
	media_set_hook(img->m, NULL, NULL);
	if (k.fences > at) {
		memcpy(img->mem, k.copy, img->size);
		assert_int_equal(run(img->m, PMEMFS_FIX_ALL, &f, &res), 0);
		assert_int_equal(res.fixed, res.problems);
		look(img, &f);
		expect(d, "-n after a kill", &f, nothing);
		use(img);
	}
	free(k.copy);
	return k.fences > at;
}

static void test_damage(void **state)
{
	const struct damage *d = *state;

	try_none(d);
	try_no(d);
	try_preen(d);
	try_all(d);
}

static void test_killed(void **state)
{
	const struct damage *d = *state;
	struct image img;
	uint8_t *start;
	unsigned at = 0;

	make_damaged(d, &img);
	start = malloc(img.size);
	memcpy(start, img.mem, img.size);
	while (try_killed_at(d, &img, at)) {
		memcpy(img.mem, start, img.size);
		at += KILL_STEP;
	}
	assert_true(at > 1);
	free(start);
	image_free(&img);
}

/* ---- the rest ------------------------------------------------------------------------- */

static void test_quick(void **state)
{
	struct pmemfs_check_options o = {.fix = PMEMFS_FIX_SAFE};
	struct pmemfs_check_result res;
	struct image img;
	uint8_t *before;

	image_make(&img);
	before = malloc(img.size);
	memcpy(before, img.mem, img.size);
	assert_int_equal(pmemfs_check(img.m, &o, &res), 0);
	assert_true(res.was_clean && !res.checked);
	assert_int_equal(res.used_blocks + res.free_blocks, img.size / PMEMFS_BLOCK_SIZE);
	assert_memory_equal(img.mem, before, img.size);
	free(before);
	image_free(&img);
}

/* Looking without private copies would replay the journal in place. */
static void test_none_needs_shadow(void **state)
{
	struct pmemfs_check_options o = {.fix = PMEMFS_FIX_NONE};
	struct pmemfs_check_result res;
	struct image img;

	image_make(&img);
	assert_int_equal(pmemfs_check(img.m, &o, &res), -EROFS);
	image_free(&img);
}

static void test_no_superblock(void **state)
{
	struct pmemfs_check_options o = {.fix = PMEMFS_FIX_ALL};
	struct pmemfs_check_result res;
	struct image img;

	image_make(&img);
	img.mem[100] ^= 1;
	img.mem[PMEMFS_SB_REPLICA * PMEMFS_BLOCK_SIZE + 100] ^= 1;
	assert_int_equal(pmemfs_check(img.m, &o, &res), -EUCLEAN);
	image_free(&img);
}

static uint64_t lookup(struct pmemfs *fs, uint64_t dir, const char *name)
{
	struct pmemfs_attr attr;

	assert_int_equal(pmemfs_lookup(fs, dir, name, &attr), 0);
	pmemfs_forget(fs, attr.ino, 1);
	return attr.ino;
}

/* What was unreachable is found in lost+found, under its number, with what is in it. */
static void test_lost_found(void **state)
{
	struct pmemfs_check_result res;
	struct found f = {0};
	struct image img;
	struct pmemfs *fs;
	char name[32];
	uint64_t lost;

	image_make(&img);
	fs = image_mount(&img);
	image_del_entry(fs, img.dir, "sub");
	image_unmount(fs);
	assert_int_equal(run(img.m, PMEMFS_FIX_ALL, &f, &res), 0);
	fs = image_mount(&img);
	snprintf(name, sizeof(name), "#%llu", (unsigned long long)img.sub);
	lost = lookup(fs, PMEMFS_ROOT_INO, "lost+found");
	assert_int_equal(lookup(fs, lost, name), img.sub);
	assert_int_equal(lookup(fs, img.sub, "file"), img.file);
	assert_int_equal(lookup(fs, img.sub, ".."), lost);
	image_unmount(fs);
	image_free(&img);
}

/* Of two files on one block who has the wrong checksum stays without, and nothing else is lost.
 */
static void test_shared_lost(void **state)
{
	static const unsigned want[] = {CHECK_SHARED_DATA, CHECK_SHARED_DATA, CHECK_DATA, 0};
	struct pmemfs_check_result res;
	struct found f = {0};
	struct image img;
	struct pmemfs *fs;
	uint64_t block;
	char before[4096], after[4096];

	image_make(&img);
	block = image_block_of(&img, img.file, 5);
	memcpy(before, img.mem + block * 4096, sizeof(before));
	fs = image_mount(&img);
	image_map_written(fs, img.lone, 0, block, false);
	image_unmount(fs);
	assert_int_equal(run(img.m, PMEMFS_FIX_ALL, &f, &res), 0);
	assert_int_equal(f.n, count(want));
	assert_memory_equal(f.code, want, f.n * sizeof(want[0]));
	assert_int_equal(res.problems, 3);
	assert_int_equal(res.fixed, 2);
	look(&img, &f);
	assert_int_equal(f.n, 1);
	assert_int_equal(f.code[0], CHECK_DATA);
	fs = image_mount(&img);
	assert_int_equal(pmemfs_read(fs, img.lone, 0, after, sizeof(after)), -EIO);
	assert_int_equal(pmemfs_read(fs, img.file, 5 * 4096, after, sizeof(after)), 4096);
	assert_memory_equal(before, after, sizeof(after));
	image_unmount(fs);
	image_free(&img);
}

int main(void)
{
	static struct CMUnitTest tests[256];
	static char names[256][64];
	size_t n = 0;

	for (const struct damage *d = damages; d->name; d++)
		for (unsigned killed = 0; killed < (d->repaired == NEVER ? 1 : 2); killed++) {
			snprintf(names[n], sizeof(names[n]), "%s%s", d->name,
				 killed ? " (killed)" : "");
			tests[n] =
			    (struct CMUnitTest){.name = names[n],
						.test_func = killed ? test_killed : test_damage,
						.initial_state = (void *)(uintptr_t)d};
			n++;
		}
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_quick);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_none_needs_shadow);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_no_superblock);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_lost_found);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_shared_lost);
	return _cmocka_run_group_tests("fsck", tests, n, NULL, NULL);
}
