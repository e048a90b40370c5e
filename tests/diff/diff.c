/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The differential test: the same random operations on the reference model, on pmemfs in this
 * process and, where asked for, on a directory of a pmemfs mount and of tmpfs. After each
 * operation results and errno, and what the operation named, must agree; every so often, and
 * after each remount or kill, whole trees with contents and attributes.
 *
 * Exit codes: 0 no difference, 1 a difference, 2 trouble with the test itself.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diff.h"

enum {
	O_SEED = 256,
	O_SEEDS,
	O_STEPS,
	O_FULL,
	O_REMOUNT,
	O_KILL,
	O_IMAGE,
	O_FILE,
	O_SHARDS,
	O_REPLICA,
	O_PARITY,
	O_MOUNT,
	O_TMPFS,
	O_REPLAY,
	O_NOCORE,
	O_SHRINK,
	O_HELP
};

static const struct option options[] = {
    {"seed", required_argument, NULL, O_SEED},
    {"seeds", required_argument, NULL, O_SEEDS},
    {"steps", required_argument, NULL, O_STEPS},
    {"full-every", required_argument, NULL, O_FULL},
    {"remount-every", required_argument, NULL, O_REMOUNT},
    {"kill-every", required_argument, NULL, O_KILL},
    {"image", required_argument, NULL, O_IMAGE},
    {"file-size", required_argument, NULL, O_FILE},
    {"shards", required_argument, NULL, O_SHARDS},
    {"replica", no_argument, NULL, O_REPLICA},
    {"parity", no_argument, NULL, O_PARITY},
    {"mount", required_argument, NULL, O_MOUNT},
    {"tmpfs", required_argument, NULL, O_TMPFS},
    {"replay", required_argument, NULL, O_REPLAY},
    {"no-core", no_argument, NULL, O_NOCORE},
    {"shrink", no_argument, NULL, O_SHRINK},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, O_HELP},
    {0},
};

static const char usage[] =
    "usage: diff [options]\n"
    "  --seed N           first seed (1)\n"
    "  --seeds N          how many seeds, one after another (1)\n"
    "  --steps N          operations for each seed (2000)\n"
    "  --full-every N     compare whole trees every N operations (50)\n"
    "  --remount-every N  unmount and mount, on average every N operations (200)\n"
    "  --kill-every N     abandon and mount, on average every N operations (200); 0: never\n"
    "  --image BYTES[KMG] size of the in-process image (64M)\n"
    "  --file-size BYTES  ordinary files stay about as small (256K); writes a quarter of it\n"
    "  --shards N         shards of the in-process image\n"
    "  --replica          with two copies of its metadata\n"
    "  --parity           with parity of the data\n"
    "  --mount DIR        also in a new directory below DIR, on pmemfs\n"
    "  --tmpfs DIR        also in a new directory below DIR, on another filesystem\n"
    "  --no-core          not in-process\n"
    "  --replay FILE      the operations of FILE (one a line) instead of random ones\n"
    "  --shrink           on a difference, print a short sequence that shows one\n"
    "  -v, --verbose      print each operation before it is done\n";

static uint64_t size_arg(const char *s)
{
	char *end;
	uint64_t n = strtoull(s, &end, 0);

	switch (*end) {
	case 'G':
		n <<= 10; /* fall through */
	case 'M':
		n <<= 10; /* fall through */
	case 'K':
		n <<= 10;
		end++;
	}
	if (end == s || *end) {
		fprintf(stderr, "diff: not a size: %s\n", s);
		exit(2);
	}
	return n;
}

struct args {
	struct config c;
	uint64_t seeds;
	bool shrink;
};

static void take(struct args *a, int o, const char *arg)
{
	struct config *c = &a->c;

	switch (o) {
	case O_SEED:
		c->seed = size_arg(arg);
		break;
	case O_SEEDS:
		a->seeds = size_arg(arg);
		break;
	case O_STEPS:
		c->steps = (unsigned)size_arg(arg);
		break;
	case O_FULL:
		c->full_every = (unsigned)size_arg(arg);
		break;
	case O_REMOUNT:
		c->remount_every = (unsigned)size_arg(arg);
		break;
	case O_KILL:
		c->kill_every = (unsigned)size_arg(arg);
		break;
	case O_IMAGE:
		c->image = size_arg(arg);
		break;
	case O_FILE:
		c->file_size = size_arg(arg);
		if (c->file_size < 32768)
			c->file_size = 32768;
		break;
	case O_SHARDS:
		c->shards = (unsigned)size_arg(arg);
		break;
	case O_REPLICA:
		c->replica = true;
		break;
	case O_PARITY:
		c->parity = true;
		break;
	case O_MOUNT:
		c->mount = arg;
		break;
	case O_TMPFS:
		c->tmpfs = arg;
		break;
	case O_REPLAY:
		c->sequence = arg;
		break;
	case O_NOCORE:
		c->no_core = true;
		break;
	case O_SHRINK:
		a->shrink = true;
		break;
	case 'v':
		c->verbose = true;
		break;
	default:
		fputs(usage, o == O_HELP ? stdout : stderr);
		exit(o == O_HELP ? 0 : 2);
	}
}

static void print_command(const struct args *a, size_t steps)
{
	const struct config *c = &a->c;

	printf("again, and shrunk: tests/diff/diff --seed %llu --steps %zu --full-every %u "
	       "--remount-every %u --kill-every %u --image %llu --file-size %llu",
	       (unsigned long long)c->seed, steps, c->full_every, c->remount_every,
	       c->kill_every, (unsigned long long)c->image, (unsigned long long)c->file_size);
	if (c->shards)
		printf(" --shards %u", c->shards);
	if (c->replica)
		printf(" --replica");
	if (c->parity)
		printf(" --parity");
	if (c->mount)
		printf(" --mount %s", c->mount);
	if (c->tmpfs)
		printf(" --tmpfs %s", c->tmpfs);
	printf("%s --shrink\n", c->no_core ? " --no-core" : "");
}

static void failed(const struct args *a, struct sequence *q, char *why)
{
	size_t n = q->n;
	struct outcome outcome;

	printf("seed %llu, step %zu of %u: %s\n", (unsigned long long)a->c.seed, n, a->c.steps,
	       why);
	if (!a->shrink) {
		printf("the steps so far:\n");
		sequence_print(q, 0, stdout);
		printf("seed %llu, step %zu of %u: %s\n", (unsigned long long)a->c.seed, n,
		       a->c.steps, why);
		print_command(a, n);
		return;
	}
	if (run_sequence(&a->c, q, false, why, &outcome) != 1) {
		printf("does not fail when it is run again\n");
		return;
	}
	shrink(&a->c, q, why);
	printf("# %s\n", why);
	sequence_print(q, 0, stdout);
}

static int run_seed(const struct args *a)
{
	struct sequence q = {0};
	struct outcome outcome;
	char why[WHY_MAX] = "";
	int rc;

	if (a->c.sequence) {
		rc = sequence_load(&q, a->c.sequence);
		if (rc) {
			fprintf(stderr, "diff: %s: %s\n", a->c.sequence, strerror(-rc));
			return 2;
		}
	}
	rc = run_sequence(&a->c, &q, !a->c.sequence, why, &outcome);
	if (rc == 1)
		failed(a, &q, why);
	else if (rc)
		fprintf(stderr, "diff: %s\n", why);
	else
		printf(
		    "seed %llu: %zu steps, %zu succeeded, %zu without space, no difference\n",
		    (unsigned long long)a->c.seed, q.n, outcome.succeeded, outcome.no_space);
	fflush(stdout);
	free(q.ops);
	return rc;
}

int main(int argc, char **argv)
{
	struct args a = {.c = {.seed = 1,
			       .steps = 2000,
			       .full_every = 50,
			       .remount_every = 200,
			       .kill_every = 200,
			       .image = 64 << 20,
			       .file_size = 256 << 10,
			       .hang = 300},
			 .seeds = 1};
	int o, rc = 0;

	while ((o = getopt_long(argc, argv, "v", options, NULL)) != -1)
		take(&a, o, optarg);
	if (optind < argc || !a.c.full_every || (a.c.no_core && !a.c.mount && !a.c.tmpfs))
		take(&a, '?', NULL);
	for (; a.seeds && rc != 2; a.seeds--, a.c.seed++) {
		int one = run_seed(&a);

		if (one)
			rc = one;
	}
	return rc;
}
