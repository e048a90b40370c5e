/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every single bit of an image's metadata, flipped, or (-w) each of its words made zero,
 * ones, one more, one less, or random: fsck -n must name it or it must be one that nothing
 * reads, and a mount must show the same tree, or errors, but never another tree. What fsck
 * -y mends must be clean afterwards, or said to be beyond repair.
 *
 * With replicas the same is done to one copy and to the other: the tree must be the same
 * without errors, and after fsck -y every byte of metadata what it was. With -w also to
 * both copies.
 *
 *	flips [-w] [-l LINES] [-s START] SEED|all
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fs.h"
#include "fuzz.h"
#include "view.h"

/* Lines that a repair stored to. */
static struct {
	uint64_t list[FUZZ_SIZE / 64];
	size_t n;
	bool seen[FUZZ_SIZE / 64];
} touched;

static void touch(void *arg, enum media_event ev, uint64_t off, const void *bytes, size_t len)
{
	if (ev == MEDIA_EV_FENCE || ev == MEDIA_EV_FLUSH || !len)
		return;
	for (uint64_t line = off / 64; line <= (off + len - 1) / 64; line++) {
		if (!touched.seen[line])
			touched.list[touched.n++] = line;
		touched.seen[line] = true;
	}
}

/* Makes the image what it was before the repair. */
static void restore(uint8_t *image, const uint8_t *clean)
{
	while (touched.n) {
		uint64_t line = touched.list[--touched.n];

		touched.seen[line] = false;
		memcpy(image + line * 64, clean + line * 64, 64);
	}
}

static struct counts {
	uint64_t changes, found, refused, errors, unread, mended, lost, wrong;
} sum;

/* A change of metadata: of one place, or of it in both copies. */
struct change {
	uint64_t off[2];
	unsigned places;
	uint64_t change; /* of the 8 bytes there */
	bool twin;	 /* there is a copy that is good */
};

static void flip(uint8_t *image, const struct change *c)
{
	for (unsigned k = 0; k < c->places; k++)
		for (unsigned b = 0; b < 8; b++)
			image[c->off[k] + b] ^= (uint8_t)(c->change >> (8 * b));
}

static void wrong(const struct change *c, const char *what)
{
	sum.wrong++;
	printf("WRONG: byte %" PRIu64 " (block %" PRIu64 ")%s, changed by %#" PRIx64 ": %s\n",
	       c->off[0], c->off[0] / PMEMFS_BLOCK_SIZE, c->places == 2 ? " and its copy" : "",
	       c->change, what);
}

/* Metadata that has copies is what it was. */
static bool is_exact(const struct fuzz_seed *s, const uint8_t *image, const uint8_t *clean)
{
	for (size_t k = 0; k < s->lines; k++)
		if (s->twin[k] && memcmp(image + s->line[k], clean + s->line[k], 64))
			return false;
	return true;
}

static void repair(const struct fuzz_seed *s, uint8_t *image, const uint8_t *clean,
		   const struct change *c)
{
	bool whole = view_fsck_repairs(image, touch);

	if (whole && view_fsck_finds(image))
		wrong(c, "fsck -y says that it mended all, and fsck -n finds more");
	if (c->twin && !whole)
		wrong(c, "the other copy is good, and fsck -y cannot mend it");
	if (c->twin && whole && !is_exact(s, image, clean))
		wrong(c, "the other copy is good, and fsck -y makes something else of it");
	sum.mended += whole;
	sum.lost += !whole;
	restore(image, clean);
}

static void try_change(const struct fuzz_seed *s, uint8_t *image, const uint8_t *clean,
		       const struct change *c, const struct view *before)
{
	struct view v;
	bool found, mounts;

	flip(image, c);
	found = view_fsck_finds(image);
	mounts = view_image(image, &v);
	sum.changes++;
	sum.found += found;
	sum.refused += !mounts;
	sum.errors += mounts && v.errors;
	if (mounts && !v.errors && v.digest != before->digest)
		wrong(c, "another tree, and no error");
	else if (c->twin && (!mounts || v.errors))
		wrong(c, "the other copy is good, and there are errors");
	else if (!found && mounts && !v.errors)
		sum.unread++;
	else if (!found)
		wrong(c, "errors, and fsck -n finds nothing");
	if (found)
		repair(s, image, clean, c);
	for (unsigned k = 0; k < c->places; k++)
		memcpy(image + c->off[k], clean + c->off[k], 8);
}

static uint64_t word_at(const uint8_t *image, uint64_t off)
{
	uint64_t w;

	memcpy(&w, image + off, 8);
	return w;
}

/* Where a change of the line's word is made: here, and with -w in both copies. */
static void try_places(const struct fuzz_seed *s, uint8_t *image, const uint8_t *clean,
		       size_t k, uint64_t byte, uint64_t change, bool both,
		       const struct view *before)
{
	struct change c = {.off = {s->line[k] + byte, s->twin[k] + byte},
			   .places = 1,
			   .change = change,
			   .twin = s->twin[k] != 0};

	if (!change)
		return;
	try_change(s, image, clean, &c, before);
	if (!both || s->twin[k] <= s->line[k])
		return;
	c.places = 2;
	c.twin = false;
	try_change(s, image, clean, &c, before);
}

static void try_line(const struct fuzz_seed *s, uint8_t *image, const uint8_t *clean, size_t k,
		     bool words, const struct view *before)
{
	static uint64_t random = 1;

	for (unsigned byte = 0; byte < 64; byte += 8) {
		uint64_t was = word_at(image, s->line[k] + byte);
		const uint64_t value[] = {0, ~0ull, was + 1, was - 1,
					  random *= 0xd1342543de82ef95};

		for (unsigned n = 0; words && n < sizeof(value) / sizeof(value[0]); n++)
			try_places(s, image, clean, k, byte, was ^ value[n], true, before);
		for (unsigned bit = 0; !words && bit < 64; bit++)
			try_places(s, image, clean, k, byte, 1ull << bit, false, before);
	}
}

static void try_seed(const struct fuzz_seed *s, size_t first, size_t lines, bool words)
{
	uint8_t *image = mmap(NULL, FUZZ_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, s->fd, 0);
	uint8_t *clean = mmap(NULL, FUZZ_SIZE, PROT_READ, MAP_PRIVATE, s->fd, 0);
	struct view before;

	sum = (struct counts){0};
	if (image == MAP_FAILED || clean == MAP_FAILED)
		abort();
	if (!view_image(image, &before) || before.errors) {
		printf("WRONG: %s as it is: it does not mount, or %" PRIu64 " errors\n",
		       s->name, before.errors);
		sum.wrong++;
		return;
	}
	for (size_t k = first; k < s->lines && k < first + lines; k++)
		try_line(s, image, clean, k, words, &before);
	munmap(image, FUZZ_SIZE);
	munmap(clean, FUZZ_SIZE);
	printf("%s: %" PRIu64 " %s; fsck -n names %" PRIu64 ", a mount is refused for %" PRIu64
	       ", shows errors for %" PRIu64 "; nothing reads %" PRIu64
	       "; fsck -y mends %" PRIu64 ", and says of %" PRIu64
	       " that it cannot; wrong: %" PRIu64 "\n",
	       s->name, sum.changes, words ? "changed words" : "flipped bits", sum.found,
	       sum.refused, sum.errors, sum.unread, sum.mended, sum.lost, sum.wrong);
}

int main(int argc, char **argv)
{
	const struct fuzz_seed *seeds = fuzz_seeds();
	size_t first = 0, lines = SIZE_MAX / 2;
	uint64_t bad = 0;
	bool any = false, words = false;
	int c;

	while ((c = getopt(argc, argv, "l:s:w")) != -1) {
		if (c == 'l')
			lines = strtoull(optarg, NULL, 0);
		else if (c == 's')
			first = strtoull(optarg, NULL, 0);
		else if (c == 'w')
			words = true;
		else
			return 2;
	}
	if (optind != argc - 1) {
		fprintf(stderr, "usage: flips [-w] [-l LINES] [-s START] SEED|all\n");
		return 2;
	}
	for (unsigned k = 0; k < FUZZ_SEEDS; k++) {
		if (strcmp(argv[optind], "all") && strcmp(argv[optind], seeds[k].name))
			continue;
		any = true;
		try_seed(&seeds[k], first, lines, words);
		bad += sum.wrong;
	}
	return any && !bad ? 0 : 1;
}
