/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random damage: bytes of metadata changed, in records with right checksums too. fsck -n must
 * answer and change nothing, fsck -y must converge: what a second run finds it cannot repair.
 * Whatever is left must mount or be refused, and reading it must not crash.
 *
 * Usage: test_random [ROUNDS [SEED]]
 */
#include <errno.h>
#include <sys/mman.h>

#include "check.h"
#include "image.h"

struct tally {
	uint64_t found, repaired, refused, mounted;
};

/* A failed assertion ends the program: say which round it was. */
static uint64_t seed_now;
static bool done;

static void say_seed(void)
{
	if (!done)
		printf("failed with: test_random 1 %llu\n", (unsigned long long)seed_now);
}

static bool yes(void *arg, unsigned code, const char *message, bool fixable)
{
	if (getenv("FSCK_SHOW"))
		printf("%u %s\n", code, message);
	return true;
}

static int check(struct media *m, enum pmemfs_fix fix, struct pmemfs_check_result *res)
{
	struct pmemfs_check_options o = {.fix = fix, .force = true, .problem = yes};

	memset(res, 0, sizeof(*res));
	return pmemfs_check(m, &o, res);
}

static int look(struct image *img, struct pmemfs_check_result *res)
{
	struct media *m;
	int r;

	assert_int_equal(media_open_memory(img->mem, img->size, MEDIA_SHADOW, &m), 0);
	r = check(m, PMEMFS_FIX_NONE, res);
	media_close(m);
	return r;
}

/* ---- damage --------------------------------------------------------------------------- */

/* What is used lies in the first blocks; a wrong place is as good as a right one. */
static uint64_t random_place(struct image *img, uint64_t *rnd)
{
	uint64_t used = 140 * PMEMFS_BLOCK_SIZE;

	switch (unit_random(rnd) % 8) {
	case 0:
		return unit_random(rnd) % PMEMFS_BLOCK_SIZE;
	case 1:
		return PMEMFS_SB_REPLICA * PMEMFS_BLOCK_SIZE +
		       unit_random(rnd) % PMEMFS_BLOCK_SIZE;
	case 2: /* tables' inodes */
		return super_table_slot(image_super(img), unit_random(rnd) % IMAGE_SHARDS) +
		       unit_random(rnd) % PMEMFS_SLOT_SIZE;
	default:
		return unit_random(rnd) % used;
	}
}

static void flip(struct image *img, uint64_t *rnd)
{
	uint64_t at = random_place(img, rnd);

	img->mem[at] ^= 1u << unit_random(rnd) % 8;
}

/* A random inode's random record gets a random byte and a right checksum. */
static void forge(struct image *img, uint64_t *rnd)
{
	uint64_t inos[] = {PMEMFS_ROOT_INO,
			   img->dir,
			   img->sub,
			   img->other,
			   img->file,
			   img->small,
			   img->hard,
			   img->link,
			   img->fifo,
			   img->lone,
			   PMEMFS_INO_TABLE | 0,
			   PMEMFS_INO_TABLE | 1};
	uint64_t ino = inos[unit_random(rnd) % ARRAY_LEN(inos)], off;
	uint32_t len, at;

	off = image_record(img, ino, ino == img->sub ? unit_random(rnd) % 30 : 0, &len);
	at = 10 + unit_random(rnd) % (len - 10);
	if (at >= 12 && at < 16) /* not the sequence: it would only end the log */
		at += 4;
	if (unit_random(rnd) % 2)
		img->mem[off + at] ^= 1u << unit_random(rnd) % 8;
	else
		img->mem[off + at] = unit_random(rnd) % 3 - 1;
	image_reseal(img, ino, off);
}

static void damage(struct image *img, uint64_t *rnd)
{
	if (unit_random(rnd) % 2) {
		forge(img, rnd); /* one: the next could not find its way */
		return;
	}
	for (uint64_t k = unit_random(rnd) % 3 + 1; k; k--)
		flip(img, rnd);
}

/* ---- using what is left --------------------------------------------------------------- */

struct walk {
	uint64_t list[512];
	unsigned n;
};

static int collect(void *arg, const char *name, const struct pmemfs_attr *attr, uint64_t cookie)
{
	struct walk *w = arg;

	if (strcmp(name, ".") && strcmp(name, "..") && w->n < ARRAY_LEN(w->list))
		w->list[w->n++] = attr->ino;
	return 0;
}

static void use(struct image *img, struct tally *t)
{
	static char buf[65536];
	struct walk w = {.list = {PMEMFS_ROOT_INO}, .n = 1};
	struct pmemfs_attr attr;
	struct pmemfs *fs;
	const char *why;

	if (pmemfs_mount(img->m, NULL, &fs, &why)) {
		t->refused++;
		return;
	}
	t->mounted++;
	for (unsigned k = 0; k < w.n; k++) {
		if (pmemfs_getattr(fs, w.list[k], &attr))
			continue;
		if (S_ISDIR(attr.mode))
			pmemfs_readdir(fs, w.list[k], 0, 0, collect, &w);
		else if (S_ISREG(attr.mode))
			pmemfs_read(fs, w.list[k], 0, buf, sizeof(buf));
	}
	pmemfs_unmount(fs);
}

/* ---- rounds --------------------------------------------------------------------------- */

static void one_round(struct image *img, const uint8_t *good, uint8_t *before, uint64_t seed,
		      struct tally *t)
{
	struct pmemfs_check_result first, res;
	uint64_t rnd = seed;
	int r;

	seed_now = seed;
	memcpy(img->mem, good, img->size);
	damage(img, &rnd);
	memcpy(before, img->mem, img->size);
	r = look(img, &first);
	assert_memory_equal(img->mem, before, img->size);
	assert_true(r == 0 || r == -EUCLEAN || r == -EINVAL || r == -EPROTONOSUPPORT);
	if (r)
		return;
	t->found += first.problems > 0;
	assert_int_equal(check(img->m, PMEMFS_FIX_ALL, &res), 0);
	t->repaired += res.problems && res.fixed == res.problems;
	first = res;
	assert_int_equal(check(img->m, PMEMFS_FIX_ALL, &res), 0);
	assert_int_equal(res.fixed, 0);
	use(img, t);
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 0) : 400;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	struct tally t = {0};
	struct image img;
	uint8_t *good, *before;

	atexit(say_seed);
	image_make(&img);
	good = malloc(img.size);
	before = malloc(img.size);
	memcpy(good, img.mem, img.size);
	for (uint64_t k = 0; k < rounds; k++)
		one_round(&img, good, before, seed + k, &t);
	printf(
	    "%llu rounds: damage found in %llu, repaired in %llu, %llu mount, %llu refused\n",
	    (unsigned long long)rounds, (unsigned long long)t.found,
	    (unsigned long long)t.repaired, (unsigned long long)t.mounted,
	    (unsigned long long)t.refused);
	done = true;
	free(good);
	free(before);
	image_free(&img);
	return 0;
}
