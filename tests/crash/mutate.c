/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mutations. The library is not changed: the tracer leaves out the events of one call site, or
 * lets them come one event later, so that the model of persistence sees a program without that
 * flush or fence, or with neighbours swapped. A site is the place in the library that called
 * the media layer. First the suite runs unjudged, to learn the sites and which workloads reach
 * them; then each mutant is tried with workloads that reach its site until one fails. What no
 * workload notices survives: a flush or fence that is useless, or untested.
 */
#include "mutate.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "sym.h"

#define REACH_MAX 2000u /* workloads remembered for a site */
#define TRIES	  150u	/* workloads tried on a mutant */
#define KINDS	  2u
#define PROCESSES 2u

/* Mutants that survive and are right to: so many in a function, and why. */
static const struct {
	const char *function;
	enum media_event type;
	enum mutation_kind kind;
	unsigned sites;
	const char *why;
} explained[] = {
    {"commit_many", MEDIA_EV_FENCE, MUT_DELAY, 1,
     "the journal record has several pieces: with the first one alone nothing is committed"},
    {"pmemfs_format", MEDIA_EV_FENCE, MUT_DELAY, 1,
     "the superblock has several pieces: with the first one alone nothing mounts"},
    {"txn_commit", MEDIA_EV_FENCE, MUT_DELAY, 2,
     "the last fence; the next store of the operation is of a compaction, unreferenced yet"},
    {"txn_commit", MEDIA_EV_FLUSH, MUT_DELAY, 1,
     "behind the record in a new segment may be anything: recovery clears it"},
    {"log_rewrite", MEDIA_EV_FLUSH, MUT_DELAY, 1,
     "behind the last record of a new log may be anything: recovery clears it"},
    {"replay_slot", MEDIA_EV_FLUSH, MUT_DELAY, 1, "the same, behind a log that was replayed"},
    {"replay_slot", MEDIA_EV_FLUSH, MUT_DROP, 3,
     "of a second copy, which the next recovery makes like the first"},
    {"write_slot", MEDIA_EV_FLUSH, MUT_DELAY, 1,
     "of a second copy: durable with the next fence, which comes before the superblock"},
};
#define EXPLAINED (sizeof(explained) / sizeof(explained[0]))

struct site {
	enum media_event type;
	uintptr_t caller, callers_caller; /* return addresses above the media layer */
	uint64_t hits;
	bool mounting; /* it is reached in mounts only */
	uint64_t rules[RULES];
	uint64_t *reach; /* numbers of workloads in the suite that reach it */
	unsigned n_reach;
};

struct suite {
	struct {
		enum family family;
		uint64_t index;
	} * v;
	size_t n;
};

struct mutator {
	struct trial t;
	struct starts st;
	struct syms *syms;
	struct stacks stacks;
	struct suite suite;
	struct site *sites;
	size_t n;
	const struct run_options *o;
};

/* What the processes found; shared. */
struct verdict {
	volatile unsigned tried, killed[KINDS], explained, survived, idle[KINDS];
	volatile unsigned by[EXPLAINED]; /* survivors that this explains */
};

/* ---- the suite ---- */

static void suite_add(struct suite *s, enum family f, uint64_t from, uint64_t to,
		      uint64_t stride)
{
	for (uint64_t i = from; i < to; i += stride) {
		s->v = realloc(s->v, (s->n + 1) * sizeof(*s->v));
		if (!s->v)
			abort();
		s->v[s->n].family = f;
		s->v[s->n++].index = i;
	}
}

static void suite_add_all(struct suite *s, enum family f, uint64_t stride)
{
	suite_add(s, f, 0, family_size(f, 0), stride);
}

/*
 * Each word after a clean remount and after a crash: what unmount and recovery left to them.
 * And before a remount: what a clean filesystem must not have left of them.
 */
static void suite_add_remounted(struct suite *s)
{
	for (unsigned i = 0; i < n_words; i++) {
		if (strcmp(words[i].name, "remount") && strcmp(words[i].name, "crash"))
			continue;
		for (enum start_kind k = START_FRESH; k < STARTS; k += START_AGED) {
			uint64_t first = ((uint64_t)k * n_words + i) * n_words;
			suite_add(s, FAMILY_SEQ2, first, first + n_words, 1);
			first = (uint64_t)k * n_words * n_words + i;
			suite_add(s, FAMILY_SEQ2, first, first + n_words * n_words, n_words);
		}
	}
}

static void suite_make(struct suite *s)
{
	suite_add_all(s, FAMILY_CORPUS, 1);
	suite_add_all(s, FAMILY_SEQ1, 1);
	suite_add_all(s, FAMILY_FORMAT, 1);
	suite_add_all(s, FAMILY_UNMOUNT, 3);
	suite_add_remounted(s);
	suite_add_all(s, FAMILY_COMPACT, 1);
	suite_add_all(s, FAMILY_ROLL, 3);
}

static int suite_run(struct mutator *m, uint64_t number, const struct run_options *o)
{
	static struct workload w;
	unsigned op;
	workload_make(&w, m->suite.v[number].family, m->suite.v[number].index, o->seed);
	return run_workload(&m->t, &m->st, &w, o, &op);
}

/* ---- sites ---- */

static bool is_mounting(const struct mutator *m, const struct stack *k)
{
	for (uint32_t i = 0; i < k->n; i++) {
		if (!strcmp(sym_name(m->syms, k->ret[i] - 1, NULL, NULL), "pmemfs_mount"))
			return true;
	}
	return false;
}

static struct site *site_of(struct mutator *m, const struct stack *k)
{
	uint32_t i = 0;
	while (i + 1 < k->n && sym_in_media(m->syms, k->ret[i]))
		i++;
	for (size_t s = 0; s < m->n; s++) {
		if (m->sites[s].type == k->type && m->sites[s].caller == k->ret[i])
			return &m->sites[s];
	}
	m->sites = realloc(m->sites, (m->n + 1) * sizeof(*m->sites));
	if (!m->sites)
		abort();
	m->sites[m->n] = (struct site){.type = k->type,
				       .caller = k->ret[i],
				       .mounting = true,
				       .callers_caller = i + 1 < k->n ? k->ret[i + 1] : 0};
	return &m->sites[m->n++];
}

static void site_reached(struct site *s, uint64_t workload)
{
	if (s->n_reach == REACH_MAX || (s->n_reach && s->reach[s->n_reach - 1] == workload))
		return;
	s->reach = realloc(s->reach, (s->n_reach + 1) * sizeof(*s->reach));
	if (!s->reach)
		abort();
	s->reach[s->n_reach++] = workload;
}

static bool barrier(enum media_event type)
{
	return type == MEDIA_EV_FLUSH || type == MEDIA_EV_FENCE;
}

/* Notes the sites whose stacks were seen more often than hits says. */
static void learn_one(struct mutator *m, uint64_t workload, uint64_t *hits)
{
	for (uint32_t i = 1; i < m->stacks.n && i < EXPLORE_STACKS; i++) {
		const struct stack *k = &m->stacks.list[i];
		uint64_t more = k->hits - hits[i];
		hits[i] = k->hits;
		if (more == 0 || !barrier(k->type))
			continue;
		struct site *s = site_of(m, k);
		s->hits += more;
		s->mounting &= is_mounting(m, k);
		site_reached(s, workload);
	}
}

/* Runs every workload once, unjudged, and notes which sites it reaches and what rules it
 * breaks. */
static int learn(struct mutator *m)
{
	static uint64_t hits[EXPLORE_STACKS], offenders[EXPLORE_STACKS][RULES];
	struct run_options quiet = *m->o;
	quiet.dry = true;
	run_configure(&m->t, &quiet);
	explore_stacks(&m->t.x, &m->stacks);
	m->t.x.offenders = offenders;
	for (uint64_t w = 0; w < m->suite.n; w++) {
		if (suite_run(m, w, &quiet))
			return -1;
		learn_one(m, w, hits);
	}
	m->t.x.offenders = NULL;
	for (uint32_t i = 1; i < m->stacks.n && i < EXPLORE_STACKS; i++) {
		for (unsigned r = 0; r < RULES && barrier(m->stacks.list[i].type); r++)
			site_of(m, &m->stacks.list[i])->rules[r] += offenders[i][r];
	}
	return 0;
}

/* ---- mutants ---- */

static const char *site_function(const struct mutator *m, const struct site *s)
{
	return sym_name(m->syms, s->caller - 1, NULL, NULL);
}

static const char *site_name(const struct mutator *m, const struct site *s, char *buf,
			     size_t size)
{
	char line[128] = "";
	unsigned off = 0;
	const char *file = "?", *fn = sym_name(m->syms, s->caller - 1, &file, &off);
	const char *up = sym_name(m->syms, s->callers_caller - 1, NULL, NULL);
	if (m->syms && sym_line(m->syms, s->caller, line, sizeof(line)))
		snprintf(buf, size, "%s of %s, %s (for %s)",
			 s->type == MEDIA_EV_FENCE ? "fence" : "flush", fn, line, up);
	else
		snprintf(buf, size, "%s of %s+%u, %s (for %s)",
			 s->type == MEDIA_EV_FENCE ? "fence" : "flush", fn, off, file, up);
	return buf;
}

/* Tries the mutant; true if a workload fails, and which. */
static bool kill_mutant(struct mutator *m, const struct site *s, struct mutation *mut,
			uint64_t *ret_workload)
{
	uint64_t step = s->n_reach / TRIES + 1;
	/* The first ones are the corpus; then all over the others. */
	for (uint64_t i = 0; i < s->n_reach; i += i < 10 ? 1 : step) {
		seen_clear(&m->t.seen);
		seen_clear(&m->t.x.alike);
		m->t.x.trace.mutation = m->t.x.level[0].trace.mutation = mut;
		*ret_workload = s->reach[i];
		int r = suite_run(m, s->reach[i], m->o);
		m->t.x.trace.mutation = m->t.x.level[0].trace.mutation = NULL;
		if (r && mut->fired)
			return true;
	}
	return false;
}

/* Index of what explains the mutant's survival, or -1. */
static int explanation(const struct mutator *m, const struct site *s,
		       const struct mutation *mut)
{
	for (size_t i = 0; i < EXPLAINED; i++) {
		if (explained[i].type == s->type && explained[i].kind == mut->kind &&
		    !strcmp(explained[i].function, site_function(m, s)))
			return (int)i;
	}
	return -1;
}

static void row(const struct mutator *m, const struct site *s, const struct mutation *mut,
		bool killed, uint64_t by)
{
	static struct workload w;
	char name[300];
	const char *how = mut->kind == MUT_DROP ? "without" : "late";
	int e = explanation(m, s, mut);
	site_name(m, s, name, sizeof(name));
	if (killed) {
		workload_make(&w, m->suite.v[by].family, m->suite.v[by].index, m->o->seed);
		printf("killed: %s %s\n\tby %s: %.*s\n", how, name, w.name,
		       (int)strcspn(m->t.why, "\n"), m->t.why);
	} else if (mut->fired == 0) {
		printf("no change: %s %s: nothing comes after it\n", how, name);
	} else {
		printf("%s: %s %s, %llu times in %u workloads\n\t%s\n",
		       e < 0 ? "SURVIVES" : "explained", how, name,
		       (unsigned long long)mut->fired, s->n_reach,
		       e < 0 ? "" : explained[e].why);
	}
}

static void try_mutant(struct mutator *m, size_t number, struct verdict *v)
{
	const struct site *s = &m->sites[number / KINDS];
	struct mutation mut = {.kind = number % KINDS ? MUT_DELAY : MUT_DROP,
			       .type = s->type,
			       .caller = s->caller};
	uint64_t by = 0;
	m->t.x.o.depth =
	    s->mounting ? 2 : 1; /* what recovery does is tried in recoveries too */
	bool killed = kill_mutant(m, s, &mut, &by);
	int e = explanation(m, s, &mut);
	row(m, s, &mut, killed, by);
	fflush(stdout);
	v->tried++;
	if (killed)
		v->killed[number % KINDS]++;
	else if (mut.fired == 0)
		v->idle[number % KINDS]++;
	else if (e < 0)
		v->survived++;
	else
		v->by[e]++;
}

/* ---- the run ---- */

static int mutator_open(struct mutator *m, const struct run_options *o)
{
	memset(m, 0, sizeof(*m));
	m->o = o;
	m->syms = sym_open();
	if (trial_open(&m->t))
		abort();
	if (!m->syms) {
		printf("skipped: the program has no symbols\n");
		return 77;
	}
	if (starts_make(&m->st, &m->t)) {
		printf("FAILED: the start images cannot be made: %s\n", m->t.why);
		return 1;
	}
	return 0;
}

static void mutator_close(struct mutator *m)
{
	starts_free(&m->st);
	trial_close(&m->t);
	sym_close(m->syms);
	stacks_close(&m->stacks);
	for (size_t i = 0; i < m->n; i++)
		free(m->sites[i].reach);
	free(m->sites);
	free(m->suite.v);
}

static void rules_print(const struct mutator *m)
{
	char name[300];
	for (size_t i = 0; i < m->n; i++) {
		for (unsigned r = 0; r < RULES; r++) {
			if (m->sites[i].rules[r])
				printf("note: %s: %s: %llu of %llu times\n",
				       persist_rule_names[r],
				       site_name(m, &m->sites[i], name, sizeof(name)),
				       (unsigned long long)m->sites[i].rules[r],
				       (unsigned long long)m->sites[i].hits);
		}
	}
}

static void mutants_run(struct mutator *m, struct verdict *v, double until)
{
	pid_t pid[PROCESSES];
	for (unsigned p = 0; p < PROCESSES; p++) {
		fflush(NULL);
		pid[p] = fork();
		if (pid[p] < 0)
			abort();
		if (pid[p])
			continue;
		for (size_t i = p; i < m->n * KINDS && crash_clock_real() < until;
		     i += PROCESSES)
			try_mutant(m, i, &v[p]);
		_exit(0);
	}
	for (unsigned p = 0; p < PROCESSES; p++) {
		int status;
		waitpid(pid[p], &status, 0);
		if (status)
			v[p].survived++;
	}
}

static int mutants_sum(const struct mutator *m, const struct verdict *v)
{
	struct verdict s = {0};
	for (unsigned p = 0; p < PROCESSES; p++) {
		s.tried += v[p].tried;
		for (size_t i = 0; i < EXPLAINED; i++)
			s.by[i] += v[p].by[i];
		s.survived += v[p].survived;
		for (unsigned k = 0; k < KINDS; k++) {
			s.killed[k] += v[p].killed[k];
			s.idle[k] += v[p].idle[k];
		}
	}
	/* More of a function's than are explained: one of them is new. */
	for (size_t i = 0; i < EXPLAINED; i++) {
		bool more = s.by[i] > explained[i].sites;
		s.explained += more ? explained[i].sites : s.by[i];
		s.survived += more ? s.by[i] - explained[i].sites : 0;
	}
	unsigned all = (unsigned)(m->n * KINDS);
	printf("%zu call sites. Left out: %u killed, %u change nothing. Late: %u killed, %u "
	       "change "
	       "nothing. %u survive explained, %u survive, %u not tried\n",
	       m->n, s.killed[0], s.idle[0], s.killed[1], s.idle[1], s.explained, s.survived,
	       all - s.tried);
	return s.survived || s.tried < all ? 1 : 0;
}

/* Leaves the sites whose names fit. */
static int sites_choose(struct mutator *m, const char *only)
{
	char name[300];
	regex_t re;
	size_t kept = 0;
	if (!only)
		return 0;
	if (regcomp(&re, only, REG_EXTENDED | REG_NOSUB))
		return -1;
	for (size_t i = 0; i < m->n; i++) {
		if (!regexec(&re, site_name(m, &m->sites[i], name, sizeof(name)), 0, NULL, 0))
			m->sites[kept++] = m->sites[i];
	}
	m->n = kept;
	regfree(&re);
	return 0;
}

int mutate_run(const struct run_options *o, double budget, const char *only)
{
	static struct mutator m;
	struct run_options run = *o;
	run.depth = 1;
	run.limit = run.limit ? run.limit : 256;
	run.pairs = 64;
	run.nested_limit = 64;
	run.fsck_every = 0;
	int r = mutator_open(&m, &run);
	if (r)
		return r == 77 ? r : 1;
	struct verdict *v = mmap(NULL, sizeof(*v) * PROCESSES, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (v == MAP_FAILED)
		abort();
	suite_make(&m.suite);
	if (learn(&m)) {
		printf("FAILED without a mutation: %s\n", m.t.why);
		return 1;
	}
	printf("%zu workloads reach %zu call sites\n", m.suite.n, m.n);
	rules_print(&m);
	if (sites_choose(&m, only)) {
		printf("crash: bad regular expression %s\n", only);
		return 2;
	}
	run_configure(&m.t, &run);
	mutants_run(&m, v, budget > 0 ? crash_clock_real() + budget : 1e300);
	r = mutants_sum(&m, v);
	mutator_close(&m);
	return r;
}

/* ---- the golden table ---- */

static void golden_row(const char *name, const struct media_counts *a,
		       const struct media_counts *b)
{
	printf("%-24s %6llu %7llu %8llu %7llu %8llu\n", name,
	       (unsigned long long)(b->fences - a->fences),
	       (unsigned long long)(b->flushes - a->flushes),
	       (unsigned long long)(b->nt_lines - a->nt_lines),
	       (unsigned long long)(b->stores8 - a->stores8),
	       (unsigned long long)(b->bytes - a->bytes));
}

static int golden_word(struct mutator *m, struct workload *w, const struct word *word)
{
	workload_clear(w);
	if (workload_parse(w, word->script) || trial_begin(&m->t, &m->st.s[START_FRESH], false))
		return -1;
	for (unsigned k = 0; k < w->n; k++) {
		struct media_counts a, b;
		media_count(m->t.x.media, &a);
		if (trial_op(&m->t, &w->ops[k].op, false, NULL))
			return -1;
		media_count(m->t.x.media, &b);
		if (!w->ops[k].setup)
			golden_row(word->name, &a, &b);
	}
	return trial_end(&m->t, false, false);
}

int mutate_golden(const struct run_options *o)
{
	static struct mutator m;
	struct run_options quiet = *o;
	struct workload w = {0};
	int r = mutator_open(&m, &quiet);
	if (r)
		return 1;
	run_configure(&m.t, &quiet);
	printf("%-24s %6s %7s %8s %7s %8s\n", "operation", "fences", "flushes", "nt lines",
	       "stores8", "bytes");
	for (unsigned i = 0; i < n_words && r == 0; i++)
		r = golden_word(&m, &w, &words[i]);
	if (r)
		printf("FAILED: %s\n", m.t.why);
	workload_free(&w);
	mutator_close(&m);
	return r ? 1 : 0;
}
