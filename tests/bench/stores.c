/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every store kernel by size and number of threads, with a fence after each store, at random
 * places; aligned, and with source and target off their lines. Beside them libpmem in its three
 * modes, memcpy without any flush (the limit), and the policy as calibrated on this medium.
 *
 * Kernels and policy run through media_copy, as in the filesystem. All are measured in turns,
 * in bursts of which each thread's fastest counts, since whatever interrupts one makes it
 * slower.
 */
#include <errno.h>
#include <libpmem.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "copy.h"
#include "pmemfs.h"
#include "util.h"

#define LARGEST (4u << 20)
#define SIZES	17
#define BURSTS	7
#define MEDIUM	(1ull << 30)
#define AREA	(32ull << 20) /* of each way and thread, at most */

enum kind { KERNEL, POLICY, PMEM, MEMCPY };

static struct way {
	const char *name;
	enum kind kind;
	unsigned flags; /* of libpmem */
} ways[COPY_NUMBERS + 6];
static unsigned nways;

struct worker {
	struct media *m;
	const struct way *way;
	char *base; /* of the mapping */
	const char *src;
	uint64_t off, len, random;
	size_t size;
	unsigned shift; /* of target and source, off their lines */
	uint64_t stores;
	pthread_barrier_t *ready;
	double best; /* seconds of the fastest burst */
};

static void add_way(const char *name, enum kind kind, unsigned flags)
{
	ways[nways++] = (struct way){name, kind, flags};
}

static void find_ways(const struct media *m)
{
	for (unsigned n = 1; n < COPY_NUMBERS; n++) {
		const struct copy_kernel *k = copy_by_number(n);

		if (k && (!k->eadr_only || media_eadr(m)))
			add_way(k->name, KERNEL, 0);
	}
	add_way("policy", POLICY, 0);
	add_way("pmem auto", PMEM, 0);
	add_way("pmem nt", PMEM, PMEM_F_MEM_NONTEMPORAL);
	add_way("pmem wb", PMEM, PMEM_F_MEM_TEMPORAL);
	add_way("memcpy", MEMCPY, 0);
}

static void store_one(struct worker *w, uint64_t off)
{
	switch (w->way->kind) {
	case KERNEL:
	case POLICY:
		media_copy(w->m, off, w->src, w->size);
		media_fence(w->m);
		break;
	case PMEM:
		pmem_memcpy(w->base + off, w->src, w->size, w->way->flags);
		break;
	case MEMCPY:
		memcpy(w->base + off, w->src, w->size);
		__asm__ volatile("" ::: "memory");
		break;
	}
}

static uint64_t somewhere(struct worker *w, uint64_t places)
{
	return w->off + w->shift +
	       (bench_random(&w->random) >> 32) * places / (1ull << 32) * 64;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t places = (w->len - w->size - 64) / 64;

	/* what ran before has left its lines in the cache */
	for (uint64_t i = 0; i <= w->stores / 8; i++)
		store_one(w, somewhere(w, places));
	pthread_barrier_wait(w->ready);
	for (unsigned burst = 0; burst < BURSTS; burst++) {
		double start = bench_now(), took;

		for (uint64_t i = 0; i < w->stores; i++)
			store_one(w, somewhere(w, places));
		took = bench_now() - start;
		w->best = MIN(w->best, took);
	}
	return NULL;
}

/*
 * Each way has an area of its own for each thread, in the upper half of the medium: lines that
 * another way has left in the cache are no business of it.
 */
static uint64_t area(const struct bench *b, unsigned threads)
{
	return MIN(media_size(b->media) / 2 / nways / threads, AREA) / 4096 * 4096;
}

/* GB/s of all threads together. */
static double run(struct bench *b, const struct way *way, size_t size, unsigned threads,
		  bool aligned, char *const *src)
{
	static uint64_t seed = 88172645463325252ull; /* no two runs at the same places */
	const uint64_t half = media_size(b->media) / 2;
	uint64_t len = area(b, threads), first = half + (way - ways) * threads * len;
	double budget = b->quick ? 0.00002 : 0.0004, speed = 0;
	uint64_t stores = MAX((uint64_t)(budget * 4e9 / (size + 500)), 2u);
	struct worker w[64];
	pthread_t thread[64];
	pthread_barrier_t ready;

	if (way->kind == KERNEL)
		MUST(way->name, media_set_flush(b->media, way->name, &(const char *){0}));
	pthread_barrier_init(&ready, NULL, threads);
	for (unsigned i = 0; i < threads; i++) {
		w[i] = (struct worker){.m = b->media,
				       .way = way,
				       .src = src[i] + (aligned ? 0 : 5),
				       .off = first + i * len,
				       .len = len,
				       .random = seed += 0x9e3779b97f4a7c15ull,
				       .size = size,
				       .shift = aligned ? 0 : 24,
				       .stores = stores,
				       .ready = &ready,
				       .best = 1e300};
		w[i].base = (char *)(uintptr_t)media_ptr(b->media, 0, 1);
		if (i)
			pthread_create(&thread[i], NULL, work, &w[i]);
	}
	work(&w[0]);
	for (unsigned i = 0; i < threads; i++) {
		if (i)
			pthread_join(thread[i], NULL);
		speed += (double)(stores * size) / w[i].best / 1e9;
	}
	pthread_barrier_destroy(&ready);
	return speed;
}

/* Back to the calibrated table. */
static void use_policy(struct bench *b)
{
	const char *why;

	MUST("policy", media_set_flush(b->media, "auto", &why));
	pmemfs_use_calibration(b->media);
}

static struct table *make_table(struct bench *b, unsigned threads, bool aligned)
{
	char title[96], size[24];
	struct table *t;

	snprintf(title, sizeof(title), "stores, %u thread%s, %s", threads,
		 threads == 1 ? "" : "s", aligned ? "aligned" : "unaligned");
	t = table_new(b, title, "GB/s", "size", SIZES, nways + 3);
	for (unsigned s = 0; s < SIZES; s++)
		table_row(t, s, bench_size(64ull << s, size));
	for (unsigned n = 0; n < nways; n++)
		table_col(t, n, ways[n].name);
	table_col(t, nways, "best fixed");
	table_col(t, nways + 1, "policy %");
	table_col(t, nways + 2, "% pmem");
	for (unsigned n = nways; n < nways + 3; n++)
		table_hide(t, n);
	return t;
}

/* What the policy reaches of the best fixed kernel, and of libpmem's default. */
static void compare(struct table *t, struct bench *b)
{
	unsigned policy = 0, pmem = 0;

	for (unsigned n = 0; n < nways; n++) {
		if (ways[n].kind == POLICY)
			policy = n;
		if (ways[n].kind == PMEM && !ways[n].flags)
			pmem = n;
	}
	for (unsigned s = 0; s < SIZES; s++) {
		unsigned best = 0;

		for (unsigned n = 0; n < policy; n++)
			if (table_get(t, s, n) > table_get(t, s, best))
				best = n;
		table_add(t, s, nways, table_get(t, s, best));
		table_add(t, s, nways + 1, 100 * table_ratio(t, s, policy, best));
		table_add(t, s, nways + 2, 100 * table_ratio(t, s, policy, pmem));
	}
}

static void add_iops(struct bench *b, struct table *const *t, unsigned n)
{
	struct table *iops =
	    table_new(b, "4 KiB stores, aligned", "million a second", "threads", n, nways);
	char name[24];

	for (unsigned w = 0; w < nways; w++)
		table_col(iops, w, ways[w].name);
	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%u", i + 1);
		table_row(iops, i, name);
		for (unsigned w = 0; w < nways; w++)
			table_add(iops, i, w, table_get(t[i], 6, w) * 1e9 / 4096 / 1e6);
	}
}

static char *make_source(void)
{
	char *p = aligned_alloc(4096, LARGEST + 4096);

	if (!p)
		bench_die("memory", -ENOMEM);
	memset(p, 0x5a, LARGEST + 4096);
	return p;
}

static void measure(struct bench *b, struct table *t, unsigned threads, bool aligned,
		    char *const *src, unsigned round)
{
	for (unsigned s = 0; s < SIZES; s++)
		for (unsigned i = 0; i < nways; i++) {
			unsigned n = (i + round) % nways;

			if (ways[n].kind == POLICY)
				use_policy(b);
			table_add(t, s, n,
				  run(b, &ways[n], (size_t)64 << s, threads, aligned, src));
		}
}

int main(int argc, char **argv)
{
	struct table *aligned[64], *unaligned[64];
	char *src[64];
	struct bench b;
	unsigned n;

	bench_begin(&b, argc, argv, BENCH_THREADS,
		    "Store kernels by size and threads, beside libpmem and memcpy.");
	bench_open(&b, MEDIUM);
	find_ways(b.media);
	if (area(&b, b.threads) < LARGEST + 8192)
		bench_die("the device is too small: 128 MiB for each thread", -ENOSPC);
	n = b.threads;
	for (unsigned i = 0; i < n; i++) {
		src[i] = make_source();
		aligned[i] = make_table(&b, i + 1, true);
		unaligned[i] = make_table(&b, i + 1, false);
	}
	/* every page once, so that no fault is measured */
	media_clear(b.media, media_size(b.media) / 2, media_size(b.media) / 2 / 4096 * 4096);
	MUST("clearing", media_fence(b.media));
	for (unsigned r = 0; r < b.rounds; r++)
		for (unsigned i = 0; i < n; i++) {
			measure(&b, aligned[i], i + 1, true, src, r);
			measure(&b, unaligned[i], i + 1, false, src, r);
		}
	for (unsigned i = 0; i < n; i++) {
		compare(aligned[i], &b);
		compare(unaligned[i], &b);
	}
	add_iops(&b, aligned, n);
	for (unsigned i = 0; i < n; i++)
		free(src[i]);
	return bench_end(&b);
}
