/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Direct writes by block size over a file that exists, one thread, as in the table of
 * dm-writecache: flush= movnti, the cached kernel, the starting rule and auto, in turns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "target.h"
#include "util.h"

#define MEDIUM (512ull << 20)
#define AREA   (64ull << 20)

static const size_t sizes[] = {512, 1024, 2048, 4096, 8192, 16384, 65536, 262144, 1 << 20};

static uint64_t area(const struct bench *b)
{
	return b->quick ? 4u << 20 : MIN(AREA, media_size(b->media) / 4 / 4096 * 4096);
}

/*
 * MB/s of writes one behind the other, again from the start at the file's end: the fastest
 * burst of them, since whatever interrupts one makes it slower.
 */
static double run(struct target *t, const struct target_file *f, const char *buf, size_t size,
		  uint64_t len)
{
	double until = bench_now() + (t->b->quick ? 0.005 : 0.2), best = 0;
	unsigned n = size < 65536 ? 8 : 2;
	uint64_t off = 0;

	do {
		double start = bench_now(), speed;

		for (unsigned i = 0; i < n; i++) {
			target_write(t, f, off, buf, size);
			off = off + 2 * size <= len ? off + size : 0;
		}
		speed = (double)(n * size) / (bench_now() - start) / 1e6;
		best = MAX(best, speed);
	} while (bench_now() < until);
	return best;
}

static void measure(struct bench *b, struct table *t, unsigned v, bool mounted, const char *buf)
{
	uint64_t len = area(b);
	struct target target;
	struct target_file f;

	target_begin(&target, b, mounted, variants[v].flush);
	f = target_make(&target, "blocksize", true);
	for (uint64_t off = 0; off < len; off += 1 << 20)
		target_write(&target, &f, off, buf, MIN(len - off, 1u << 20));
	for (unsigned s = 0; s < ARRAY_LEN(sizes); s++)
		table_add(t, s, v, run(&target, &f, buf, sizes[s], len));
	target_done(&target, &f);
	target_unlink(&target, "blocksize");
	target_end(&target);
}

int main(int argc, char **argv)
{
	struct table *table[2] = {NULL, NULL};
	char name[24], *buf = aligned_alloc(4096, 1 << 20);
	struct bench b;

	bench_begin(&b, argc, argv, BENCH_MOUNT, "Direct writes by block size.");
	bench_open(&b, MEDIUM);
	variants_find(&b);
	if (!buf)
		bench_die("memory", -ENOMEM);
	memset(buf, 0x5a, 1 << 20);
	for (int mounted = 0; mounted <= b.mounted; mounted++) {
		table[mounted] = table_new(
		    &b, mounted ? "direct writes on a mount" : "writes in this process", "MB/s",
		    "block", ARRAY_LEN(sizes), VARIANTS);
		for (unsigned s = 0; s < ARRAY_LEN(sizes); s++)
			table_row(table[mounted], s, bench_size(sizes[s], name));
		for (unsigned v = 0; v < VARIANTS; v++)
			table_col(table[mounted], v, variants[v].name);
	}
	for (unsigned r = 0; r < b.rounds; r++)
		for (int mounted = 0; mounted <= b.mounted; mounted++)
			for (unsigned v = 0; v < VARIANTS; v++)
				measure(&b, table[mounted], (v + r) % VARIANTS, mounted, buf);
	free(buf);
	return bench_end(&b);
}
