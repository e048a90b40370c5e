/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing without a fuzzer: inputs from files, or random ones.
 *
 *	fuzz [-s SEED] [-n COUNT] [-t SECONDS] TARGET|all [FILE...]
 *
 * Each input runs in a child of its own, or a row of them does; what one dies of or hangs in is
 * written to a file.
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

#define LARGEST 400 /* bytes of a random input */
#define ROW	500 /* inputs of one child */
#define HANG	20  /* seconds for one input */

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

static bool read_input(const char *path)
{
	FILE *f = fopen(path, "re");

	if (!f) {
		perror(path);
		return false;
	}
	shared->size = fread(shared->data, 1, sizeof(shared->data), f);
	fclose(f);
	return true;
}

static void keep(const struct fuzz_target *t, int status)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "crash-%s-%d", t->name, (int)getpid());
	f = fopen(path, "we");
	if (f) {
		fwrite(shared->data, 1, shared->size, f);
		fclose(f);
	}
	printf("FAIL %s: %s %d: the input is in %s\n", t->name,
	       WIFSIGNALED(status) ? "signal" : "exit code",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), path);
}

/* Runs inputs from `from` on, in a child. file: that one instead. */
static bool run_row(const struct fuzz_target *t, uint64_t seed, uint64_t from, uint64_t to,
		    const char *file)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		for (uint64_t k = from; k < to; k++) {
			alarm(HANG);
			if (!file)
				random_input(seed * 1000003 + k);
			fuzz_one(t, shared->data, shared->size);
			shared->done++;
		}
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		abort();
	if (!status)
		return true;
	keep(t, status);
	return false;
}

static bool run_target(const struct fuzz_target *t, uint64_t seed, uint64_t count,
		       double seconds, char **files)
{
	struct timespec a, b;
	double took = 0;
	bool ok = true;

	fuzz_seeds();
	shared->done = 0;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (; *files; files++)
		ok &= read_input(*files) && run_row(t, 0, 0, 1, *files);
	for (uint64_t k = 0; ok && k < count && (!seconds || took < seconds); k += ROW) {
		ok = run_row(t, seed, k, k + ROW < count ? k + ROW : count, NULL);
		clock_gettime(CLOCK_MONOTONIC, &b);
		took = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
	}
	printf("%s %s: %llu inputs, %.0f a second\n", ok ? "ok" : "FAIL", t->name,
	       (unsigned long long)shared->done, took > 0 ? (double)shared->done / took : 0);
	return ok;
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, count = 0;
	double seconds = 0;
	bool ok = true, any = false;
	int c;

	while ((c = getopt(argc, argv, "s:n:t:")) != -1) {
		if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (c == 'n')
			count = strtoull(optarg, NULL, 0);
		else if (c == 't')
			seconds = atof(optarg);
		else
			return 2;
	}
	if (seconds && !count)
		count = UINT64_MAX;
	if (optind >= argc) {
		fprintf(stderr,
			"usage: fuzz [-s SEED] [-n COUNT] [-t SECONDS] TARGET|all [FILE...]\n");
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED)
		abort();
	for (const struct fuzz_target *t = fuzz_targets; t->name; t++) {
		if (strcmp(argv[optind], "all") && strcmp(argv[optind], t->name))
			continue;
		any = true;
		ok &= run_target(t, seed, count, seconds, argv + optind + 1);
	}
	if (!any)
		fprintf(stderr, "fuzz: there is no target %s\n", argv[optind]);
	return ok && any ? 0 : 1;
}
