/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File writes as in the table that NOVA's numbers come from: one big file written from its
 * beginning in pieces of 1 MiB, and many small files, each made, written and closed. The
 * fastest stretch counts, since whatever interrupts one makes it slower. With flush= movnti,
 * the cached kernel, the starting rule and auto, in turns.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "target.h"
#include "util.h"

#define MEDIUM (512ull << 20)
#define BIG    (128ull << 20)
#define PIECE  (1u << 20)

static const struct kind {
	const char *name;
	size_t size; /* of small files; 0: the big one */
} kinds[] = {
    {"big file", 0}, {"4 KiB files", 4096}, {"16 KiB files", 16384}, {"64 KiB files", 65536}};

/* MB/s of the fastest stretch of 4 MiB. */
static double write_big(struct target *t, const char *buf, uint64_t len)
{
	struct target_file f = target_make(t, "big", false);
	double best = 0;

	for (uint64_t off = 0; off < len;) {
		double start = bench_now(), speed;

		for (unsigned i = 0; i < 4 && off < len; i++, off += PIECE)
			target_write(t, &f, off, buf, PIECE);
		speed = 4.0 * PIECE / (bench_now() - start) / 1e6;
		best = MAX(best, speed);
	}
	target_done(t, &f);
	return best;
}

/* MB/s of the fastest stretch of 20 files. */
static double write_small(struct target *t, const char *buf, size_t size)
{
	unsigned n = t->b->quick ? 20 : 1000;
	double best = 0;
	char name[24];

	for (unsigned i = 0; i < n;) {
		double start = bench_now(), speed;

		for (unsigned end = i + 20; i < end; i++) {
			struct target_file f;

			snprintf(name, sizeof(name), "f%u", i);
			f = target_make(t, name, false);
			target_write(t, &f, 0, buf, size);
			target_done(t, &f);
		}
		speed = 20.0 * (double)size / (bench_now() - start) / 1e6;
		best = MAX(best, speed);
	}
	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		target_unlink(t, name);
	}
	return best;
}

/* The size of a medium is asked before a mount has it. */
static double measure(struct bench *b, const struct kind *k, unsigned v, bool mounted,
		      const char *buf)
{
	uint64_t big = b->quick
			   ? 4u << 20
			   : MIN(BIG, media_size(b->media) / 4) / (4 * PIECE) * (4 * PIECE);
	struct target t;
	double speed;

	target_begin(&t, b, mounted, variants[v].flush);
	speed = k->size ? write_small(&t, buf, k->size) : write_big(&t, buf, big);
	if (!k->size)
		target_unlink(&t, "big");
	target_end(&t);
	return speed;
}

int main(int argc, char **argv)
{
	struct table *table[2] = {NULL, NULL};
	char *buf = aligned_alloc(4096, PIECE);
	struct bench b;

	bench_begin(&b, argc, argv, BENCH_MOUNT, "Writing one big file and many small ones.");
	bench_open(&b, MEDIUM);
	variants_find(&b);
	if (!buf)
		bench_die("memory", -ENOMEM);
	memset(buf, 0x5a, PIECE);
	for (int mounted = 0; mounted <= b.mounted; mounted++) {
		table[mounted] =
		    table_new(&b, mounted ? "files on a mount" : "files in this process",
			      "MB/s", "", ARRAY_LEN(kinds), VARIANTS);
		for (unsigned k = 0; k < ARRAY_LEN(kinds); k++)
			table_row(table[mounted], k, kinds[k].name);
		for (unsigned v = 0; v < VARIANTS; v++)
			table_col(table[mounted], v, variants[v].name);
	}
	for (unsigned r = 0; r < b.rounds; r++)
		for (int mounted = 0; mounted <= b.mounted; mounted++)
			for (unsigned k = 0; k < ARRAY_LEN(kinds); k++)
				for (unsigned i = 0; i < VARIANTS; i++) {
					unsigned v = (i + r) % VARIANTS;

					table_add(table[mounted], k, v,
						  measure(&b, &kinds[k], v, mounted, buf));
				}
	free(buf);
	return bench_end(&b);
}
