/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What writing to the filesystem does to the cache of the program that writes: a pointer chase
 * through an array that fills the second-level cache is walked between writes. The latency of a
 * step without writes in between (before, and again after all of it), with them, and how long
 * writes and walks took together; by flush= movnti, the cached kernel, rule and auto.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "target.h"
#include "util.h"

#define MEDIUM	   (512ull << 20)
#define FILE_BYTES (64ull << 20)
#define WRITES	   16 /* between two walks */
#define LINE	   64

enum row { BEFORE, BETWEEN, AFTER, TOTAL, ROWS };

struct node {
	struct node *next;
	char rest[LINE - sizeof(struct node *)];
};

static struct node *nodes;
static size_t count;
static struct node *volatile here;

/* One cycle through all nodes in random order (Sattolo), so that no prefetcher guesses it. */
static void make_chase(void)
{
	long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
	uint64_t random = 88172645463325252ull;
	size_t *order;

	count = (cache > 0 ? (size_t)cache : 1u << 20) / 4 * 3 / LINE;
	nodes = aligned_alloc(4096, ROUND_UP(count * sizeof(*nodes), 4096));
	order = malloc(count * sizeof(*order));
	if (!nodes || !order)
		bench_die("memory", -ENOMEM);
	for (size_t i = 0; i < count; i++)
		order[i] = i;
	for (size_t i = count - 1; i > 0; i--) {
		size_t j = (bench_random(&random) >> 32) * i >> 32, x = order[i];

		order[i] = order[j];
		order[j] = x;
	}
	for (size_t i = 0; i < count; i++)
		nodes[order[i]].next = &nodes[order[(i + 1) % count]];
	free(order);
	here = nodes;
}

/* Nanoseconds a step. */
static double walk(void)
{
	struct node *n = here;
	double start = bench_now();

	for (size_t i = 0; i < count; i++)
		n = n->next;
	here = n;
	return (bench_now() - start) / (double)count * 1e9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of some walks, with writes of that size before each, or none. */
static double walks(struct target *t, const struct target_file *f, const char *buf, size_t size,
		    unsigned n)
{
	double v[512];
	uint64_t off = 0;

	for (unsigned i = 0; i < n; i++) {
		for (unsigned w = 0; w < WRITES && size; w++) {
			target_write(t, f, off, buf, size);
			off = (off + size) % FILE_BYTES;
		}
		v[i] = walk();
	}
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}

static void measure(struct bench *b, struct table *t, unsigned v, bool mounted, const char *buf,
		    size_t size)
{
	unsigned n = b->quick ? 5 : 300;
	struct target target;
	struct target_file f;
	double start;

	target_begin(&target, b, mounted, variants[v].flush);
	f = target_make(&target, "pollution", true);
	for (uint64_t off = 0; off < FILE_BYTES; off += size)
		target_write(&target, &f, off, buf, size);
	walk();
	table_add(t, BEFORE, v, walks(&target, &f, buf, 0, n));
	start = bench_now();
	table_add(t, BETWEEN, v, walks(&target, &f, buf, size, n));
	table_add(t, TOTAL, v, (bench_now() - start) * 1e3);
	walk();
	table_add(t, AFTER, v, walks(&target, &f, buf, 0, n));
	target_done(&target, &f);
	target_unlink(&target, "pollution");
	target_end(&target);
}

static struct table *make_table(struct bench *b, bool mounted, const char *size)
{
	static const char *const rows[ROWS] = {"before", "between", "after", "total ms"};
	struct table *t;
	char title[96];

	snprintf(title, sizeof(title), "pointer chase with writes of %s %s", size,
		 mounted ? "on a mount" : "in this process");
	t = table_new(b, title, "ns a step", "walks", ROWS, VARIANTS);
	for (unsigned r = 0; r < ROWS; r++)
		table_row(t, r, rows[r]);
	for (unsigned v = 0; v < VARIANTS; v++)
		table_col(t, v, variants[v].name);
	return t;
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {4096, 65536};
	struct table *table[2][ARRAY_LEN(sizes)];
	char name[24], *buf = aligned_alloc(4096, 65536);
	struct bench b;

	bench_begin(&b, argc, argv, BENCH_MOUNT, "What writes do to the writer's cache.");
	bench_open(&b, MEDIUM);
	if (media_size(b.media) < 3 * FILE_BYTES)
		bench_die("the device is too small: 192 MiB", -ENOSPC);
	variants_find(&b);
	if (!buf)
		bench_die("memory", -ENOMEM);
	memset(buf, 0x5a, 65536);
	make_chase();
	for (int mounted = 0; mounted <= b.mounted; mounted++)
		for (unsigned s = 0; s < ARRAY_LEN(sizes); s++)
			table[mounted][s] = make_table(&b, mounted, bench_size(sizes[s], name));
	for (unsigned r = 0; r < b.rounds; r++)
		for (int mounted = 0; mounted <= b.mounted; mounted++)
			for (unsigned s = 0; s < ARRAY_LEN(sizes); s++)
				for (unsigned v = 0; v < VARIANTS; v++)
					measure(&b, table[mounted][s], (v + r) % VARIANTS,
						mounted, buf, sizes[s]);
	free(nodes);
	free(buf);
	return bench_end(&b);
}
