/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool. Workers take chunks of workloads from a shared counter; what they find stands in
 * shared memory, so that a worker that dies or hangs is seen and its workload known. The part
 * of the plan that every run does comes first; then random sequences until the budget is used.
 */
#include "pool.h"

#include <errno.h>
#include <regex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#define CHUNK	    4u
#define WORKERS_MAX 16u
#define HANG	    120.0 /* seconds without a state */

const char *const tier_names[TIERS] = {
    [TIER_SHORT] = "short", [TIER_COMMIT] = "commit", [TIER_LONG] = "long"};

/*
 * What a tier always does: of each part every stride-th workload, which of them the seed says.
 * The last part, random sequences, goes on until the budget is used.
 */
#define PARTS	10u
#define ENDLESS (1u << 30)
#define SHUFFLE 2654435761u /* a prime */
static const struct {
	double budget;
	uint64_t limit, nested;
	unsigned pairs, random;
	struct {
		enum family family;
		unsigned stride;
		uint64_t sample;
		bool first; /* always the same ones: those from number 0 */
	} part[PARTS];
} tiers[TIERS] = {
    [TIER_SHORT] = {.budget = 60,
		    .limit = 256,
		    .nested = 64,
		    .pairs = 64,
		    .random = 8,
		    .part = {{FAMILY_CORPUS, 1},
			     {FAMILY_SEQ1, 2 * STARTS, .first = true},
			     {FAMILY_FORMAT, 4},
			     {FAMILY_UNMOUNT, 31},
			     {FAMILY_ROLL, 61},
			     {FAMILY_PAIR, 1, 16},
			     {FAMILY_RANDOM, 1, ENDLESS}}},
    [TIER_COMMIT] = {.budget = 200,
		     .limit = 512,
		     .nested = 128,
		     .pairs = 128,
		     .random = 32,
		     .part = {{FAMILY_CORPUS, 1},
			      {FAMILY_SEQ1, STARTS, .first = true},
			      {FAMILY_SEQ1, 5},
			      {FAMILY_FORMAT, 1},
			      {FAMILY_UNMOUNT, 7},
			      {FAMILY_ROLL, 9},
			      {FAMILY_COMPACT, 6},
			      {FAMILY_SEQ2, 1999},
			      {FAMILY_PAIR, 1, 60},
			      {FAMILY_RANDOM, 1, ENDLESS}}},
    [TIER_LONG] = {.limit = ENUM_LIMIT,
		   .nested = 512,
		   .pairs = ENUM_PAIRS,
		   .random = ENUM_RANDOM,
		   .part = {{FAMILY_CORPUS, 1},
			    {FAMILY_SEQ1, 1},
			    {FAMILY_FORMAT, 1},
			    {FAMILY_UNMOUNT, 1},
			    {FAMILY_ROLL, 1},
			    {FAMILY_COMPACT, 1},
			    {FAMILY_PAIR, 1, 20000},
			    {FAMILY_SEQ2, 1},
			    {FAMILY_SEQ3, 1, 250000},
			    {FAMILY_RANDOM, 1, ENDLESS}}},
};

struct worker {
	pid_t pid;
	volatile uint64_t beat;
	uint64_t last_beat;
	double last_seen;
	enum family family;
	volatile uint64_t index;
	volatile bool busy, failed;
	uint64_t workloads, fills;
	double cpu; /* seconds */
	struct explore_stats stats;
	char why[EXPLORE_WHY];
	struct work_op steps[WORKLOAD_STEPS]; /* of a random workload */
};

struct shared {
	_Atomic uint64_t next;
	volatile bool stop;
	struct worker w[WORKERS_MAX];
};

struct pool {
	const struct pool_options *o;
	struct shared *sh;
	struct trial trial;
	struct starts starts;
	double began, deadline; /* deadline: of what goes on until the budget is used */
	struct run_options run;
	uint64_t part_size[PARTS], total;
	regex_t only;
};

/* ---- the plan -------------------------------------------------------------------------------
 */

static void plan(struct pool *p)
{
	for (unsigned i = 0; i < PARTS; i++) {
		unsigned stride = tiers[p->o->tier].part[i].stride;
		uint64_t n = 0;
		if (stride)
			n = family_size(tiers[p->o->tier].part[i].family,
					tiers[p->o->tier].part[i].sample);
		p->part_size[i] = stride ? (n + stride - 1) / stride : 0;
		p->total += p->part_size[i];
	}
}

/* Number n of the plan. Different seeds take different members of what is only sampled. */
static void plan_find(const struct pool *p, uint64_t n, enum family *ret_family,
		      uint64_t *ret_index)
{
	unsigned i = 0;
	while (n >= p->part_size[i])
		n -= p->part_size[i++];
	enum family f = tiers[p->o->tier].part[i].family;
	uint64_t stride = tiers[p->o->tier].part[i].stride;
	uint64_t size = family_size(f, tiers[p->o->tier].part[i].sample);
	uint64_t at = n * stride;
	if (f == FAMILY_SEQ2 && stride == 1) /* all of them, in an order that mixes them */
		at = n * SHUFFLE % size;
	if (!tiers[p->o->tier].part[i].first)
		at = (at + p->run.seed % stride) % size;
	*ret_family = f;
	*ret_index = at;
}

/* May it be left out when the budget is used? */
static bool is_endless(const struct pool *p, uint64_t n)
{
	enum family f;
	uint64_t index;
	plan_find(p, n, &f, &index);
	return f == FAMILY_RANDOM || (p->o->tier == TIER_LONG && f >= FAMILY_PAIR);
}

/* ---- a worker
 * -------------------------------------------------------------------------------- */

static void work_one(struct pool *p, struct worker *me, struct workload *w)
{
	unsigned op;
	memset(me->steps, 0, sizeof(me->steps));
	w->mirror = me->steps;
	workload_make(w, me->family, me->index, p->run.seed);
	if (p->o->only && regexec(&p->only, w->name, 0, NULL, 0)) {
		me->beat++; /* it does not hang: nothing fits */
		return;
	}
	int r = run_workload(&p->trial, &p->starts, w, &p->run, &op);
	me->workloads++;
	me->stats = p->trial.x.stats;
	me->fills = p->trial.fills;
	me->cpu = crash_clock_cpu();
	if (r == 0)
		return;
	char line[OP_LINE_MAX] = "the end";
	if (op < w->n)
		op_print(&w->ops[op].op, line, sizeof(line));
	snprintf(me->why, sizeof(me->why), "at operation %u, %.300s:\n%.3000s", op, line,
		 p->trial.why);
	me->failed = true;
	p->sh->stop = true;
}

static void work(struct pool *p, unsigned number)
{
	struct worker *me = &p->sh->w[number];
	struct workload w = {0};
	p->trial.x.heartbeat = &me->beat;
	run_configure(&p->trial, &p->run);
	while (!p->sh->stop) {
		uint64_t n = atomic_fetch_add(&p->sh->next, CHUNK);
		for (uint64_t i = n; i < n + CHUNK && i < p->total && !p->sh->stop; i++) {
			enum family f;
			uint64_t index;
			if (is_endless(p, i) && crash_clock_real() > p->deadline)
				_exit(0);
			plan_find(p, i, &f, &index);
			me->family = f;
			me->index = index;
			me->busy = true;
			work_one(p, me, &w);
			me->busy = false;
			if (me->failed)
				_exit(1);
		}
		if (n >= p->total)
			break;
	}
	_exit(0);
}

static void start_worker(struct pool *p, unsigned number)
{
	struct worker *me = &p->sh->w[number];
	me->last_seen = crash_clock_real();
	fflush(NULL);
	pid_t pid = fork(); /* the child must not write the shared field */
	if (pid < 0)
		abort();
	if (pid == 0)
		work(p, number);
	me->pid = pid;
}

/* ---- progress ---- */

struct totals {
	struct explore_stats s;
	uint64_t workloads, fills, judged, states;
	double cpu, seconds;
};

static struct totals sum(const struct pool *p)
{
	struct totals t = {.seconds = crash_clock_real() - p->began};
	for (unsigned i = 0; i < p->o->workers; i++) {
		const struct worker *w = &p->sh->w[i];
		const uint64_t *from = (const uint64_t *)&w->stats;
		uint64_t *to = (uint64_t *)&t.s;
		for (size_t k = 0; k < sizeof(t.s) / sizeof(*to); k++)
			to[k] += from[k];
		t.workloads += w->workloads;
		t.fills += w->fills;
		t.cpu += w->cpu;
	}
	t.judged = t.s.distinct + t.s.distinct2;
	t.states = t.s.states + t.s.states2;
	return t;
}

typedef unsigned long long ull;

static void progress(const struct totals *t)
{
	printf("%5.0f s: %llu workloads, %llu states, %llu of them new and judged (%llu in "
	       "recovery), %.0f judged a minute\n",
	       t->seconds, (ull)t->workloads, (ull)t->states, (ull)t->judged,
	       (ull)t->s.distinct2, 60 * (double)t->judged / t->seconds);
}

static void cover(const char *what, uint64_t points, const uint64_t c[COVERS])
{
	double n = points ? (double)points : 1;
	uint64_t lines = c[COVER_ALL] + c[COVER_LINES];
	printf("%s: %llu; all states of %.1f%%, all subsets of lines of %.1f%%, all subsets of "
	       "stores of %.1f%%; capped %llu\n",
	       what, (ull)points, 100 * (double)c[COVER_ALL] / n, 100 * (double)lines / n,
	       100 * (double)(lines + c[COVER_STORES]) / n, (ull)(points - c[COVER_ALL]));
}

static void summary(const struct pool *p)
{
	struct totals t = sum(p);
	progress(&t);
	printf("processor time: %.0f s, %.0f judged a minute of it\n", t.cpu,
	       60 * (double)t.judged / (t.cpu > 0 ? t.cpu : 1));
	cover("crash points", t.s.points, t.s.cover);
	printf("crash points covered by what is read, not by visiting all states: %llu\n",
	       (ull)t.s.lazy);
	cover("in recovery", t.s.points2, t.s.cover2);
	printf("recoveries that stored something: %llu, of these %llu stored what others that "
	       "were explored had; recovered by fsck -y too: %llu; filled to the brim: %llu\n",
	       (ull)t.s.recoveries, (ull)t.s.alike, (ull)t.s.fscked, (ull)t.fills);
	for (unsigned i = 0; i < RULES; i++) {
		if (t.s.rules[i])
			printf("note: %s: %llu times\n", persist_rule_names[i],
			       (ull)t.s.rules[i]);
	}
}

/* ---- failures
 * -------------------------------------------------------------------------------- */

/* The failed worker's workload, with the operations that a random one made. */
static void rebuild(const struct pool *p, const struct worker *f, struct workload *w)
{
	workload_make(w, f->family, f->index, p->run.seed);
	if (!w->random)
		return;
	for (unsigned i = 0; i < WORKLOAD_STEPS && f->steps[i].op.kind != OP_NONE; i++)
		*workload_add(w, false) = f->steps[i];
	w->random = false;
}

static void failure(struct pool *p, const struct worker *f)
{
	struct workload w = {0};
	char why[EXPLORE_WHY], path[512];
	snprintf(why, sizeof(why), "%s", f->why);
	rebuild(p, f, &w);
	run_configure(&p->trial, &p->run);
	printf("FAILED: %s\n%s\nshrinking ...\n", w.name, why);
	run_shrink(&p->trial, &p->starts, &w, &p->run, 60, why, sizeof(why));
	snprintf(path, sizeof(path), "%s/crash-%s-%llu.replay", p->o->failures,
		 family_names[f->family], (unsigned long long)f->index);
	printf("the smallest sequence that fails:\n");
	workload_print(&w, stdout);
	printf("%s\n", why);
	FILE *out = fopen(path, "w");
	if (out) {
		replay_write(out, &w, &p->run, why);
		fclose(out);
		printf("replay it: tests/crash/run --replay %s\n", path);
	} else {
		printf("%s cannot be written: %s\n", path, strerror(errno));
	}
	workload_free(&w);
}

/* Looks after the workers; true once all have ended. */
static bool watch(struct pool *p, const struct worker **ret_failed)
{
	unsigned running = 0;
	for (unsigned i = 0; i < p->o->workers; i++) {
		struct worker *w = &p->sh->w[i];
		int status;
		if (w->pid == 0)
			continue;
		running++;
		if (waitpid(w->pid, &status, WNOHANG) == w->pid) {
			w->pid = 0;
			running--;
			if (WIFSIGNALED(status))
				snprintf(w->why, sizeof(w->why), "killed by signal %d (%s)",
					 WTERMSIG(status), strsignal(WTERMSIG(status)));
			else if (WEXITSTATUS(status) && !w->failed)
				snprintf(w->why, sizeof(w->why), "the process exits with %d",
					 WEXITSTATUS(status));
			if (w->why[0])
				*ret_failed = w;
		} else if (w->beat != w->last_beat) {
			w->last_beat = w->beat;
			w->last_seen = crash_clock_real();
		} else if (w->busy && crash_clock_real() - w->last_seen > HANG) {
			kill(w->pid, SIGKILL);
			snprintf(w->why, sizeof(w->why), "no state for %.0f s: it hangs", HANG);
		}
	}
	if (*ret_failed)
		p->sh->stop = true;
	return running == 0;
}

/* What the command line does not say, the tier does. */
static void pool_settle(struct pool *p, const struct pool_options *o)
{
	enum tier plan = o->plan == TIERS ? o->tier : o->plan;
	p->o = o;
	p->run = o->run;
	if (!p->run.limit)
		p->run.limit = tiers[plan].limit;
	p->run.nested_limit = tiers[plan].nested;
	p->run.pairs = tiers[plan].pairs;
	p->run.random = tiers[plan].random;
}

static int pool_open(struct pool *p, const struct pool_options *o)
{
	pool_settle(p, o);
	if (o->only && regcomp(&p->only, o->only, REG_EXTENDED | REG_NOSUB)) {
		fprintf(stderr, "crash: bad regular expression %s\n", o->only);
		return -1;
	}
	p->sh = mmap(NULL, sizeof(*p->sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	if (p->sh == MAP_FAILED || trial_open(&p->trial))
		abort();
	if (starts_make(&p->starts, &p->trial)) {
		printf("FAILED: the start images cannot be made: %s\n", p->trial.why);
		return -1;
	}
	plan(p);
	return 0;
}

int pool_list(const struct pool_options *o)
{
	static struct pool p;
	struct workload w = {0};
	pool_settle(&p, o);
	plan(&p);
	for (uint64_t i = 0; i < p.total; i++) {
		enum family f;
		uint64_t index;
		plan_find(&p, i, &f, &index);
		if (f >= FAMILY_RANDOM)
			break;
		workload_make(&w, f, index, o->run.seed);
		printf("%s\n", w.name);
	}
	workload_free(&w);
	return 0;
}

/* Ended early: the workers finish what they are at, and the sums are printed. */
static struct shared *interrupted;

static void on_signal(int sig)
{
	interrupted->stop = true;
}

static void catch_signals(struct shared *sh)
{
	const struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	interrupted = sh;
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
}

int pool_run(const struct pool_options *o)
{
	static struct pool p;
	const struct worker *failed = NULL;
	unsigned ticks = 0;
	if (pool_open(&p, o))
		return 1;
	p.began = crash_clock_real();
	double budget = o->budget > 0 ? o->budget : tiers[o->tier].budget;
	p.deadline = budget > 0 ? p.began + budget : 1e300;
	printf("tier %s, seed %llu, %u workers\n", tier_names[o->tier],
	       (unsigned long long)o->run.seed, o->workers);
	catch_signals(p.sh);
	for (unsigned i = 0; i < o->workers; i++)
		start_worker(&p, i);
	while (!watch(&p, &failed)) {
		usleep(100000);
		struct totals t;
		if (++ticks % 100)
			continue;
		t = sum(&p);
		progress(&t);
	}
	summary(&p);
	if (failed)
		failure(&p, failed);
	starts_free(&p.starts);
	trial_close(&p.trial);
	return failed ? 1 : 0;
}
