/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The crash explorer's command: shares the workloads of a tier out to worker processes, watches
 * them, prints progress and the result; on failure a shrunk trace and how to replay it.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "mutate.h"
#include "pool.h"
#include "run.h"

struct options {
	struct run_options run;
	enum tier tier, plan;
	double budget;
	unsigned workers;
	const char *replay, *failures, *only;
	bool mutate, list, golden;
};

static void usage(FILE *out)
{
	fprintf(
	    out,
	    "usage: crash [--tier short|commit|long] [--plan short|commit|long]\n"
	    "             [--budget SECONDS] [--seed N]\n"
	    "             [--model strict|line|adversarial] [--depth 1|2] [--limit N]\n"
	    "             [--checks tree|fsck|use] [--fsck-every N] [--workers N] [--only "
	    "REGEX]\n"
	    "             [--parity] [--failures DIR] [--replay FILE] [--mutate]\n"
	    "             [--golden] [--list]\n"
	    "\n"
	    "Explores crash states of pmemfs. A tier is a set of workloads that is always\n"
	    "run whole; random sequences follow until the budget is used. With --parity all\n"
	    "images have parity of file data.\n");
}

static int choice(const char *value, const char *const *names, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (!strcmp(value, names[i]))
			return (int)i;
	}
	fprintf(stderr, "crash: unknown value %s\n", value);
	exit(2);
}

static void set_option(struct options *o, int c, const char *v)
{
	static const char *const models[] = {"strict", "line", "adversarial"};
	static const char *const checks[] = {"tree", "fsck", "use"};
	switch (c) {
	case 't':
		o->tier = (enum tier)choice(v, tier_names, TIERS);
		break;
	case 'P':
		o->plan = (enum tier)choice(v, tier_names, TIERS);
		break;
	case 'Y':
		trial_parity = true;
		break;
	case 'b':
		o->budget = atof(v);
		break;
	case 's':
		o->run.seed = strtoull(v, NULL, 0);
		break;
	case 'm':
		o->run.model = (enum persist_model)choice(v, models, 3);
		break;
	case 'd':
		o->run.depth = atoi(v) > 1 ? EXPLORE_DEPTH : 1;
		break;
	case 'l':
		o->run.limit = strtoull(v, NULL, 0);
		break;
	case 'c':
		o->run.checks = (enum trial_checks)choice(v, checks, 3);
		break;
	case 'w':
		o->workers = (unsigned)atoi(v);
		break;
	case 'o':
		o->only = v;
		break;
	case 'f':
		o->failures = v;
		break;
	case 'F':
		o->run.fsck_every = strtoull(v, NULL, 0);
		break;
	case 'r':
		o->replay = v;
		break;
	case 'M':
		o->mutate = true;
		break;
	case 'G':
		o->golden = true;
		break;
	case 'L':
		o->list = true;
		break;
	case 'h':
		usage(stdout);
		exit(0);
	default:
		usage(stderr);
		exit(2);
	}
}

static void parse(struct options *o, int argc, char **argv)
{
	static const struct option long_options[] = {
	    {"tier", 1, NULL, 't'},   {"budget", 1, NULL, 'b'},	  {"seed", 1, NULL, 's'},
	    {"model", 1, NULL, 'm'},  {"depth", 1, NULL, 'd'},	  {"limit", 1, NULL, 'l'},
	    {"checks", 1, NULL, 'c'}, {"workers", 1, NULL, 'w'},  {"only", 1, NULL, 'o'},
	    {"plan", 1, NULL, 'P'},   {"failures", 1, NULL, 'f'}, {"fsck-every", 1, NULL, 'F'},
	    {"replay", 1, NULL, 'r'}, {"mutate", 0, NULL, 'M'},	  {"golden", 0, NULL, 'G'},
	    {"parity", 0, NULL, 'Y'}, {"list", 0, NULL, 'L'},	  {"help", 0, NULL, 'h'},
	    {NULL, 0, NULL, 0}};
	int c;
	*o = (struct options){.run = run_defaults,
			      .tier = TIER_COMMIT,
			      .plan = TIERS,
			      .workers = 2,
			      .failures = "."};
	o->run.limit = 0; /* the tier's */
	o->run.reads = true;
	while ((c = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
		set_option(o, c, optarg);
	if (optind < argc) {
		usage(stderr);
		exit(2);
	}
}

static int replay(const struct options *opt)
{
	static struct trial t;
	static struct starts st;
	struct run_options o = run_defaults;
	struct workload w = {0};
	unsigned op = 0;
	FILE *f = fopen(opt->replay, "r");
	if (!f || replay_read(f, &w, &o, &op)) {
		fprintf(stderr, "crash: %s: %s\n", opt->replay,
			f ? "not a replay file" : strerror(errno));
		return 2;
	}
	fclose(f);
	if (trial_open(&t) || starts_make(&st, &t)) {
		fprintf(stderr, "crash: no start images: %s\n", t.why);
		return 1;
	}
	run_configure(&t, &o);
	run_explain(&t);
	int r = run_workload(&t, &st, &w, &o, &op);
	char line[OP_LINE_MAX] = "the end";
	if (op < w.n)
		op_print(&w.ops[op].op, line, sizeof(line));
	if (r)
		printf("FAILED at operation %u (%s):\n%s\n", op, line, t.why);
	else
		printf("passed: %llu states, %llu judged\n",
		       (unsigned long long)t.x.stats.states,
		       (unsigned long long)t.x.stats.distinct);
	workload_free(&w);
	starts_free(&st);
	trial_close(&t);
	return r ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct options o;
	parse(&o, argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (o.replay)
		return replay(&o);
	if (o.mutate)
		return mutate_run(&o.run, o.budget, o.only);
	if (o.golden)
		return mutate_golden(&o.run);
	struct pool_options p = {
	    .run = o.run,
	    .tier = o.tier,
	    .plan = o.plan,
	    .budget = o.budget,
	    .workers = o.workers ? o.workers : 1,
	    .failures = o.failures,
	    .only = o.only,
	};
	if (o.list)
		return pool_list(&p);
	return pool_run(&p);
}
