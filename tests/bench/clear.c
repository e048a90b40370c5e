/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zero fill by kernel and by number of threads, in pieces of 2 MiB and of 4 KiB: each thread's
 * fastest burst of 4 MiB, since whatever interrupts one makes it slower.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "copy.h"
#include "pmemfs.h"
#include "util.h"

#define MEDIUM (512ull << 20)
#define BURST  (4u << 20)

static const char *ways[COPY_NUMBERS + 1];
static unsigned nways;

struct worker {
	struct media *m;
	uint64_t off, len, piece;
	pthread_barrier_t *ready;
	double best; /* seconds of the fastest burst */
};

static void *work(void *arg)
{
	struct worker *w = arg;

	pthread_barrier_wait(w->ready);
	for (uint64_t at = 0; at + BURST <= w->len; at += BURST) {
		double start = bench_now(), took;

		for (uint64_t done = 0; done < BURST; done += w->piece) {
			media_clear(w->m, w->off + at + done, w->piece);
			media_fence(w->m);
		}
		took = bench_now() - start;
		w->best = MIN(w->best, took);
	}
	return NULL;
}

/* GB/s of all threads together over the upper half of the medium. */
static double run(struct bench *b, unsigned threads, uint64_t piece)
{
	uint64_t half = media_size(b->media) / 2, len;
	double speed = 0;
	struct worker w[64];
	pthread_t thread[64];
	pthread_barrier_t ready;

	len = MIN(half - BURST, b->quick ? 16ull << 20 : 1ull << 30) / threads / BURST * BURST;
	pthread_barrier_init(&ready, NULL, threads);
	for (unsigned i = 0; i < threads; i++) {
		w[i] = (struct worker){.m = b->media,
				       .off = ROUND_UP(half, BURST) + i * len,
				       .len = len,
				       .piece = piece,
				       .ready = &ready,
				       .best = 1e300};
		if (i)
			pthread_create(&thread[i], NULL, work, &w[i]);
	}
	work(&w[0]);
	for (unsigned i = 0; i < threads; i++) {
		if (i)
			pthread_join(thread[i], NULL);
		speed += (double)BURST / w[i].best / 1e9;
	}
	pthread_barrier_destroy(&ready);
	return speed;
}

static void use(struct bench *b, const char *way)
{
	const char *why;

	MUST(way, media_set_flush(b->media, strcmp(way, "policy") ? way : "auto", &why));
	pmemfs_use_calibration(b->media);
}

static struct table *make_table(struct bench *b, const char *title)
{
	struct table *t = table_new(b, title, "GB/s", "threads", b->threads, nways);
	char name[24];

	for (unsigned n = 0; n < nways; n++)
		table_col(t, n, ways[n]);
	for (unsigned i = 0; i < b->threads; i++) {
		snprintf(name, sizeof(name), "%u", i + 1);
		table_row(t, i, name);
	}
	return t;
}

int main(int argc, char **argv)
{
	struct table *large, *small;
	struct bench b;

	bench_begin(&b, argc, argv, BENCH_THREADS,
		    "Zero fill by kernel and number of threads.");
	bench_open(&b, MEDIUM);
	if (media_size(b.media) < b.threads * (32ull << 20))
		bench_die("the device is too small: 32 MiB for each thread", -ENOSPC);
	for (unsigned n = 1; n < COPY_NUMBERS; n++) {
		const struct copy_kernel *k = copy_by_number(n);

		if (k && (!k->eadr_only || media_eadr(b.media)))
			ways[nways++] = k->name;
	}
	ways[nways++] = "policy";
	large = make_table(&b, "zero fill in pieces of 2 MiB");
	small = make_table(&b, "zero fill in pieces of 4 KiB");
	run(&b, 1, 2u << 20); /* every page once */
	for (unsigned r = 0; r < b.rounds; r++)
		for (unsigned i = 0; i < b.threads; i++)
			for (unsigned n = 0; n < nways; n++) {
				use(&b, ways[n]);
				table_add(large, i, n, run(&b, i + 1, 2u << 20));
				table_add(small, i, n, run(&b, i + 1, 4096));
			}
	return bench_end(&b);
}
