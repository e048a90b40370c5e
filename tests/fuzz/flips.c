/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every single bit of an image's metadata, flipped, or (-w) each of its words made zero,
 * ones, one more, one less, or random: fsck -n must name it or it must be one that nothing
 * reads, and a mount must show the same tree, or errors, but never another tree. What fsck
 * -y mends must be clean afterwards, or said to be beyond repair.
 * After a crash a change in a log's last record, if it was appended, or in the journal, cannot
 * be told from an append that was cut short, nor can some appended links, unless there is a
 * good copy: the tree may be the one without it.
 *
 * With replicas the same is done to one copy and to the other: the tree must be the same
 * without errors, and after fsck -y every byte of metadata what it was. With -w also to
 * both copies. With parity it is done to lines of file data too, and must be mended in the same
 *way.
 *
 *	flips [-w] [-l LINES] [-s START] SEED|all
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs.h"
#include "fuzz.h"
#include "view.h"

static struct counts {
	uint64_t changes, found, refused, errors, unread, torn, mended, lost, wrong;
} sum;

/* A change of metadata: of one place, or of it in both copies. */
struct change {
	uint64_t off[2];
	unsigned places;
	uint64_t change; /* of the 8 bytes there */
	bool twin;	 /* there is a copy that is good */
};

static void flip(struct fuzz_image *i, const struct change *c)
{
	for (unsigned k = 0; k < c->places; k++) {
		fuzz_image_touch(i, c->off[k], 8);
		for (unsigned b = 0; b < 8; b++)
			i->at[c->off[k] + b] ^= (uint8_t)(c->change >> (8 * b));
	}
}

static void wrong(const struct change *c, const char *what)
{
	sum.wrong++;
	printf("WRONG: byte %" PRIu64 " (block %" PRIu64 ")%s, changed by %#" PRIx64 ": %s\n",
	       c->off[0], c->off[0] / PMEMFS_BLOCK_SIZE, c->places == 2 ? " and its copy" : "",
	       c->change, what);
}

/* Lines that fsck -y stores to though nothing was changed: a crash left work for it. */
static bool moot[FUZZ_LINES];

static void note_moot(const struct fuzz_seed *s, struct fuzz_image *i)
{
	memset(moot, 0, sizeof(moot));
	if (!s->lasts)
		return;
	view_fsck_repairs(i->at, fuzz_image_hook, i);
	for (size_t k = 0; k < i->touched; k++)
		moot[i->line[k]] = true;
	fuzz_image_restore(i);
}

/* Metadata that has copies is what it was. */
static bool is_exact(const struct fuzz_seed *s, const struct fuzz_image *i)
{
	for (size_t k = 0; k < s->lines; k++)
		if (s->twin[k] && !moot[s->line[k] / 64] &&
		    memcmp(i->at + s->line[k], i->clean + s->line[k], 64))
			return false;
	return true;
}

static void repair(const struct fuzz_seed *s, struct fuzz_image *i, const struct change *c)
{
	bool whole = view_fsck_repairs(i->at, fuzz_image_hook, i);

	if (whole && view_fsck_finds(i->at))
		wrong(c, "fsck -y says that it mended all, and fsck -n finds more");
	if (c->twin && !whole)
		wrong(c, "the other copy is good, and fsck -y cannot mend it");
	if (c->twin && whole && !is_exact(s, i))
		wrong(c, "the other copy is good, and fsck -y makes something else of it");
	sum.mended += whole;
	sum.lost += !whole;
}

/* Is it in what a crash may have cut short, without a good copy? */
static bool is_last(const struct fuzz_seed *s, const struct change *c)
{
	if (c->twin)
		return false;
	for (size_t k = 0; k < s->lasts; k++)
		if (c->off[0] - s->last[k].off < s->last[k].len)
			return true;
	return false;
}

static void try_change(const struct fuzz_seed *s, struct fuzz_image *i, const struct change *c,
		       const struct view *before)
{
	struct view v;
	bool found, mounts;

	flip(i, c);
	found = view_fsck_finds(i->at);
	mounts = view_image(i->at, &v);
	sum.changes++;
	sum.found += found;
	sum.refused += !mounts;
	sum.errors += mounts && v.errors;
	if (mounts && !v.errors && v.digest != before->digest && is_last(s, c))
		sum.torn++;
	else if (mounts && !v.errors && v.digest != before->digest)
		wrong(c, "another tree, and no error");
	else if (c->twin && (!mounts || v.errors))
		wrong(c, "the other copy is good, and there are errors");
	else if (!found && mounts && !v.errors)
		sum.unread++;
	else if (!found)
		wrong(c, "errors, and fsck -n finds nothing");
	if (found)
		repair(s, i, c);
	fuzz_image_restore(i);
}

static uint64_t word_at(const uint8_t *image, uint64_t off)
{
	uint64_t w;

	memcpy(&w, image + off, 8);
	return w;
}

/* Where a change of the line's word is made: here, and with -w in both copies. */
static void try_places(const struct fuzz_seed *s, struct fuzz_image *i, size_t k, uint64_t byte,
		       uint64_t change, bool both, const struct view *before)
{
	struct change c = {.off = {s->line[k] + byte, s->twin[k] + byte},
			   .places = 1,
			   .change = change,
			   .twin = s->twin[k] != 0};

	if (!change)
		return;
	try_change(s, i, &c, before);
	if (!both || s->twin[k] <= s->line[k]) /* it is the second, or parity's */
		return;
	c.places = 2;
	c.twin = false;
	try_change(s, i, &c, before);
}

static void try_line(const struct fuzz_seed *s, struct fuzz_image *i, size_t k, bool words,
		     const struct view *before)
{
	static uint64_t random = 1;

	for (unsigned byte = 0; byte < 64; byte += 8) {
		uint64_t was = word_at(i->at, s->line[k] + byte);
		const uint64_t value[] = {0, ~0ull, was + 1, was - 1,
					  random *= 0xd1342543de82ef95};

		for (unsigned n = 0; words && n < sizeof(value) / sizeof(value[0]); n++)
			try_places(s, i, k, byte, was ^ value[n], true, before);
		for (unsigned bit = 0; !words && bit < 64; bit++)
			try_places(s, i, k, byte, 1ull << bit, false, before);
	}
}

static void try_seed(const struct fuzz_seed *s, size_t first, size_t lines, bool words)
{
	struct fuzz_image *i = fuzz_image_new(s);
	struct view before;

	sum = (struct counts){0};
	if (!view_image(i->at, &before) || before.errors) {
		printf("WRONG: %s as it is: it does not mount, or %" PRIu64 " errors\n",
		       s->name, before.errors);
		sum.wrong++;
		return;
	}
	note_moot(s, i);
	for (size_t k = first; k < s->lines && k < first + lines; k++)
		try_line(s, i, k, words, &before);
	fuzz_image_delete(i);
	printf("%s: %" PRIu64 " %s; fsck -n names %" PRIu64 ", a mount is refused for %" PRIu64
	       ", shows errors for %" PRIu64 "; nothing reads %" PRIu64
	       "; as if torn by the crash %" PRIu64 "; fsck -y mends %" PRIu64
	       ", and says of %" PRIu64 " that it cannot; wrong: %" PRIu64 "\n",
	       s->name, sum.changes, words ? "changed words" : "flipped bits", sum.found,
	       sum.refused, sum.errors, sum.unread, sum.torn, sum.mended, sum.lost, sum.wrong);
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
		if (strcmp(argv[optind], k < FUZZ_ALL ? "all" : "") &&
		    strcmp(argv[optind], seeds[k].name))
			continue;
		any = true;
		try_seed(&seeds[k], first, lines, words);
		bad += sum.wrong;
	}
	return any && !bad ? 0 : 1;
}
