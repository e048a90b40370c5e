/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing without a fuzzer: inputs from files, or random ones.
 *
 *	fuzz [-c CORPUS] [-s SEED] [-n COUNT] [-t SECONDS] TARGET|all [FILE...]
 *
 * A row of inputs runs in a child; what one dies of or hangs in is written to a file, and the
 * next row begins behind it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"
#include "util.h"

#define LARGEST 400  /* bytes of a random input */
#define ROW	5000 /* inputs of one child */
#define HANG	20   /* seconds for one input */
#define FINDS	20   /* that are enough */

static struct shared {
	volatile uint64_t done;
	uint8_t data[65536];
	volatile size_t size;
} * shared;

static uint64_t next(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* One to 30 edits; small values as often as large ones. */
static void random_input(uint64_t seed)
{
	size_t edits = 1 + next(&seed) % (next(&seed) % 30 + 1), n = 1;

	shared->data[0] = (uint8_t)next(&seed);
	for (size_t k = 0; k < edits; k++, n += 12) {
		uint64_t a = next(&seed), v = next(&seed) >> next(&seed) % 64;

		memcpy(shared->data + n, &a, 4);
		memcpy(shared->data + n + 4, &v, 8);
	}
	shared->size = n;
}

/* Inputs that were given. */
static struct input {
	char *name;
	uint8_t *data;
	size_t size;
} * given;
static size_t ngiven;

static void add_input(const char *name, const uint8_t *data, size_t size)
{
	struct input *i;

	given = realloc(given, (ngiven + 1) * sizeof(given[0]));
	i = &given[ngiven++];
	*i = (struct input){strdup(name), malloc(size + 1), MIN(size, sizeof(shared->data))};
	memcpy(i->data, data, i->size);
}

static bool read_file(const char *path)
{
	static uint8_t data[sizeof(shared->data)];
	FILE *f = fopen(path, "re");

	if (!f) {
		perror(path);
		return false;
	}
	add_input(path, data, fread(data, 1, sizeof(data), f));
	fclose(f);
	return true;
}

/* A corpus: each line has a name, and bytes in hexadecimal. */
static bool read_corpus(const char *path)
{
	static uint8_t data[4096];
	static char line[2 * sizeof(data) + 100];
	FILE *f = fopen(path, "re");
	char name[64];
	unsigned byte;
	int at;

	if (!f) {
		perror(path);
		return false;
	}
	while (fgets(line, sizeof(line), f)) {
		size_t n = 0;

		if (line[0] == '#' || sscanf(line, "%63s %n", name, &at) != 1)
			continue;
		for (; n < sizeof(data) && sscanf(line + at, "%2x", &byte) == 1; at += 2)
			data[n++] = (uint8_t)byte;
		add_input(name, data, n);
	}
	fclose(f);
	return true;
}

static void get_input(uint64_t seed, uint64_t k)
{
	if (!ngiven) {
		random_input(seed * 1000003 + k);
		return;
	}
	shared->size = given[k].size;
	memcpy(shared->data, given[k].data, given[k].size);
}

static void keep(const struct fuzz_target *t, uint64_t k, int status)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "crash-%s-%llu", t->name, (unsigned long long)k);
	f = fopen(path, "we");
	if (f) {
		fwrite(shared->data, 1, shared->size, f);
		fclose(f);
	}
	printf("FAIL %s: %s %d: the input%s%s is in %s\n", t->name,
	       WIFSIGNALED(status) ? "signal" : "exit code",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), ngiven ? " " : "",
	       ngiven ? given[k].name : "", path);
}

/* Runs the inputs [from, to) in a child. Returns how many it took; *found: it died of the last.
 */
static uint64_t run_row(const struct fuzz_target *t, uint64_t seed, uint64_t from, uint64_t to,
			bool *found)
{
	int status;
	pid_t pid;

	fflush(NULL);
	shared->done = 0;
	pid = fork();
	if (pid == 0) {
		for (uint64_t k = from; k < to; k++) {
			alarm(HANG);
			get_input(seed, k);
			fuzz_one(t, shared->data, shared->size);
			shared->done++;
		}
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		abort();
	*found = status != 0;
	if (*found)
		keep(t, from + shared->done, status);
	return shared->done + *found;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool run_target(const struct fuzz_target *t, uint64_t seed, uint64_t count,
		       double seconds)
{
	uint64_t done = 0, row = seconds ? 500 : ROW;
	double start = now(), took = 0;
	unsigned finds = 0;

	while (done < count && (!seconds || took < seconds) && finds < FINDS) {
		bool found;

		done += run_row(t, seed, done, MIN(done + row, count), &found);
		finds += found;
		took = now() - start;
		row = ROW;
	}
	printf("%s %s: %llu inputs, %.0f a second, %u finds\n", finds ? "FAIL" : "ok", t->name,
	       (unsigned long long)done, (double)done / took, finds);
	fflush(stdout);
	return !finds;
}

static int usage(void)
{
	fprintf(stderr, "usage: fuzz [-c CORPUS] [-s SEED] [-n COUNT] [-t SECONDS] "
			"TARGET|all [FILE...]\n");
	return 2;
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, count = 0;
	double seconds = 0;
	bool ok = true, any = false;
	int c;

	while ((c = getopt(argc, argv, "c:s:n:t:")) != -1) {
		if (c == 'c' && !read_corpus(optarg))
			return 2;
		if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (c == 'n')
			count = strtoull(optarg, NULL, 0);
		else if (c == 't')
			seconds = atof(optarg);
		else if (c != 'c')
			return usage();
	}
	if (optind >= argc)
		return usage();
	for (int k = optind + 1; k < argc; k++)
		if (!read_file(argv[k]))
			return 2;
	if (ngiven)
		count = ngiven;
	else if (seconds && !count)
		count = UINT64_MAX;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED)
		abort();
	fuzz_seeds();
	for (const struct fuzz_target *t = fuzz_targets; t->name; t++) {
		if (strcmp(argv[optind], "all") && strcmp(argv[optind], t->name))
			continue;
		any = true;
		ok &= run_target(t, seed, count, seconds);
	}
	if (!any)
		fprintf(stderr, "fuzz: there is no target %s\n", argv[optind]);
	return ok && any ? 0 : 1;
}
