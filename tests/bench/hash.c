/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What checksums cost: XXH3-64 of 4 KiB by each variant, beside the copy of 4 KiB; and in which
 * order to copy and hash a write of many blocks: all copied then all hashed, the other way, or
 * in turns by so many bytes. All in turns, from memory that is in the cache.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cpu.h"
#include "hash.h"
#include "pmemfs.h"
#include "util.h"

#define MEDIUM	(256ull << 20)
#define BLOCK	4096u
#define BURSTS	9 /* the fastest counts: what interrupts one makes it slower */
#define LARGEST (1u << 20)

static volatile uint64_t sink;

struct place {
	struct media *m;
	uint64_t off, len, random;
	const char *src;
};

static uint64_t somewhere(struct place *p, size_t size)
{
	uint64_t places = (p->len - size) / BLOCK;

	return p->off + (bench_random(&p->random) >> 32) * places / (1ull << 32) * BLOCK;
}

static void hash_blocks(const struct place *p, size_t from, size_t to)
{
	uint64_t sum = 0;

	for (size_t at = from; at < to; at += BLOCK)
		sum += hash64(p->src + at, BLOCK, at);
	sink = sum;
}

/* One write: pieces of `step` bytes are copied, then hashed (before: the other way round). */
static void write_one(struct place *p, size_t size, size_t step, bool before)
{
	uint64_t off = somewhere(p, size);

	for (size_t at = 0; at < size; at += step) {
		size_t n = MIN(step, size - at);

		if (before)
			hash_blocks(p, at, at + n);
		media_copy(p->m, off + at, p->src + at, n);
		if (!before)
			hash_blocks(p, at, at + n);
	}
	media_fence(p->m);
}

static double time_write(struct bench *b, struct place *p, size_t size, size_t step,
			 bool before)
{
	uint64_t n = MAX((b->quick ? 1u << 16 : 1u << 21) / size, 2u);
	double best = 1e300;

	for (unsigned burst = 0; burst < BURSTS; burst++) {
		double start = bench_now(), took;

		for (uint64_t i = 0; i < n; i++)
			write_one(p, size, step, before);
		took = bench_now() - start;
		best = MIN(best, took);
	}
	return (double)(n * size) / best / 1e9;
}

static double time_hash(struct bench *b, const struct place *p, hash_function hash)
{
	unsigned n = b->quick ? 100 : 2000;
	double best = 1e300;

	for (unsigned burst = 0; burst < BURSTS; burst++) {
		double start = bench_now(), took;

		for (unsigned i = 0; i < n; i++)
			sink = hash(p->src, BLOCK, i);
		took = bench_now() - start;
		best = MIN(best, took);
	}
	return best / n * 1e9;
}

static double time_copy(struct bench *b, struct place *p)
{
	unsigned n = b->quick ? 100 : 1000;
	double best = 1e300;

	for (unsigned burst = 0; burst < BURSTS; burst++) {
		double start = bench_now(), took;

		for (unsigned i = 0; i < n; i++) {
			media_copy(p->m, somewhere(p, BLOCK), p->src, BLOCK);
			media_fence(p->m);
		}
		took = bench_now() - start;
		best = MIN(best, took);
	}
	return best / n * 1e9;
}

static const struct order {
	const char *name;
	size_t step; /* 0: the whole write */
	bool before;
} orders[] = {
    {"copy, hash", 0, false},	  {"hash, copy", 0, true},  {"by 4K", 4096, false},
    {"by 16K", 16384, false},	  {"by 64K", 65536, false}, {"by 4K, h c", 4096, true},
    {"by 64K, h c", 65536, true},
};

static const size_t sizes[] = {4096, 16384, 65536, 262144, LARGEST};

static void measure(struct bench *b, struct place *p, struct table *cost, struct table *order)
{
	unsigned row = 0;

	for (const struct hash_variant *v = hash_variants;; v++) {
		if (!(v->needs & ~cpu_features()))
			table_add(cost, row++, 0, time_hash(b, p, v->hash));
		if (!v->needs)
			break;
	}
	table_add(cost, row++, 0, time_hash(b, p, hash64));
	table_add(cost, row, 0, time_copy(b, p));
	for (unsigned s = 0; s < ARRAY_LEN(sizes); s++)
		for (unsigned o = 0; o < ARRAY_LEN(orders); o++)
			table_add(order, s, o,
				  time_write(b, p, sizes[s],
					     orders[o].step ? orders[o].step : sizes[s],
					     orders[o].before));
}

static struct table *cost_table(struct bench *b)
{
	struct table *t = table_new(b, "4 KiB: XXH3-64 by variant, and the copy with its fence",
				    "ns", "", 5, 1);
	unsigned row = 0;

	for (const struct hash_variant *v = hash_variants;; v++) {
		char name[24];

		snprintf(name, sizeof(name), "XXH3 %s", v->name);
		if (!(v->needs & ~cpu_features()))
			table_row(t, row++, name);
		if (!v->needs)
			break;
	}
	table_row(t, row++, "hash64");
	table_row(t, row, "copy + fence");
	table_col(t, 0, "ns");
	return t;
}

int main(int argc, char **argv)
{
	struct table *cost, *order;
	struct place p = {.random = 88172645463325252ull};
	struct bench b;
	char size[24], *src;

	bench_begin(&b, argc, argv, 0,
		    "The cost of checksums beside the copy, and their order.");
	bench_open(&b, MEDIUM);
	src = aligned_alloc(4096, LARGEST);
	if (!src)
		bench_die("memory", -ENOMEM);
	for (size_t i = 0; i < LARGEST; i++)
		src[i] = (char)(i * 31 + (i >> 12));
	p.m = b.media;
	p.off = media_size(b.media) / 2;
	p.len = MIN(media_size(b.media) / 2, 64ull << 20);
	p.src = src;
	media_clear(b.media, p.off, p.len);
	cost = cost_table(&b);
	order = table_new(&b, "a write with its checksums, by order of work", "GB/s", "write",
			  ARRAY_LEN(sizes), ARRAY_LEN(orders));
	for (unsigned s = 0; s < ARRAY_LEN(sizes); s++)
		table_row(order, s, bench_size(sizes[s], size));
	for (unsigned o = 0; o < ARRAY_LEN(orders); o++)
		table_col(order, o, orders[o].name);
	for (unsigned r = 0; r < b.rounds; r++)
		measure(&b, &p, cost, order);
	free(src);
	return bench_end(&b);
}
