/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mutations. The library is not changed: the tracer leaves out the events of one call site, so
 * that the model of persistence sees a program without that flush or fence. A site is the call
 * stack down to the first function above the media layer. Phase 1 runs the suite and learns the
 * sites and which workloads reach them; phase 2 leaves out each site in turn and runs workloads
 * that reach it until one fails. What no workload notices survives.
 */
#include "mutate.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "sym.h"

#define REACH_MAX 400 /* workloads tried on a site */

/* One call of media_flush, media_fence, or a copy that flushes, by the library. */
struct site {
	enum media_event type;
	uintptr_t caller; /* return address in the function above the media layer */
	uintptr_t callers_caller;
	uint64_t hits;
	uint64_t *reach; /* numbers of workloads in the suite that reach it */
	unsigned n_reach;
	bool killed;
	uint64_t killer;
	char why[200];
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

/* ---- the suite
 * ---------------------------------------------------------------------------------- */

static void suite_add(struct suite *s, enum family f, uint64_t from, uint64_t stride)
{
	for (uint64_t i = from; i < family_size(f, 0); i += stride) {
		s->v = realloc(s->v, (s->n + 1) * sizeof(*s->v));
		if (!s->v)
			abort();
		s->v[s->n].family = f;
		s->v[s->n++].index = i;
	}
}

static void suite_make(struct suite *s)
{
	suite_add(s, FAMILY_CORPUS, 0, 1);
	suite_add(s, FAMILY_SEQ1, 0, 1);
	suite_add(s, FAMILY_FORMAT, 0, 1);
	suite_add(s, FAMILY_UNMOUNT, 0, 3);
	suite_add(s, FAMILY_COMPACT, 0, 1);
	suite_add(s, FAMILY_ROLL, 0, 3);
}

static int suite_run(struct mutator *m, uint64_t number, const struct run_options *o)
{
	static struct workload w;
	unsigned op;
	workload_make(&w, m->suite.v[number].family, m->suite.v[number].index, o->seed);
	m->t.x.trace.frame_top = (uintptr_t)__builtin_frame_address(0);
	return run_workload(&m->t, &m->st, &w, o, &op);
}

/* ---- sites
 * ------------------------------------------------------------------------------------- */

static bool in_media(const struct mutator *m, uintptr_t addr)
{
	const char *file = "?";
	sym_name(m->syms, addr - 1, &file, NULL);
	return !strncmp(file, "media", 5) || !strncmp(file, "copy", 4);
}

static struct site *site_of(struct mutator *m, const struct stack *k)
{
	uint32_t i = 0;
	while (i + 1 < k->n && in_media(m, k->ret[i]))
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

/* Runs every workload once, unjudged, and notes which sites it reaches. */
static int learn(struct mutator *m)
{
	struct run_options quiet = *m->o;
	quiet.checks = CHECK_TREE;
	quiet.depth = 1;
	quiet.dry = true;
	run_configure(&m->t, &quiet);
	m->t.x.trace.stacks = &m->stacks;
	for (uint64_t w = 0; w < m->suite.n; w++) {
		uint64_t before[4096];
		uint32_t n = m->stacks.n < 4096 ? m->stacks.n : 4096;
		for (uint32_t i = 1; i < n; i++)
			before[i] = m->stacks.list[i].hits;
		if (suite_run(m, w, &quiet))
			return -1;
		for (uint32_t i = 1; i < m->stacks.n; i++) {
			const struct stack *k = &m->stacks.list[i];
			if (k->type != MEDIA_EV_FLUSH && k->type != MEDIA_EV_FENCE)
				continue;
			uint64_t hits = k->hits - (i < n ? before[i] : 0);
			if (hits == 0)
				continue;
			struct site *s = site_of(m, k);
			s->hits += hits;
			site_reached(s, w);
		}
	}
	return 0;
}

/* ---- killing
 * ------------------------------------------------------------------------------------ */

static void try_site(struct mutator *m, struct site *s)
{
	for (unsigned i = 0; i < s->n_reach && !s->killed; i++) {
		/* Spread over the workloads that reach it, short ones of the corpus first. */
		uint64_t w = s->reach[i];
		struct mutation mut = {
		    .kind = MUT_DROP_CALLER, .type = s->type, .addr = s->caller};
		m->t.x.trace.mutation = &mut;
		seen_clear(&m->t.seen);
		s->killed = suite_run(m, w, m->o) != 0 && mut.fired > 0;
		s->killer = w;
		m->t.x.trace.mutation = NULL;
	}
	if (s->killed)
		snprintf(s->why, sizeof(s->why), "%.*s", (int)strcspn(m->t.why, "\n"),
			 m->t.why);
}

static const char *site_name(const struct mutator *m, const struct site *s, char *buf,
			     size_t size)
{
	char line[128] = "";
	unsigned off = 0;
	const char *file = "?", *fn = sym_name(m->syms, s->caller - 1, &file, &off);
	const char *up = sym_name(m->syms, s->callers_caller - 1, NULL, NULL);
	if (m->syms && sym_line(m->syms, s->caller, line, sizeof(line)))
		snprintf(buf, size, "%s, %s (called by %s)", line, fn, up);
	else
		snprintf(buf, size, "%s, %s+%u (called by %s)", file, fn, off, up);
	return buf;
}

static void row(const struct mutator *m, const struct site *s)
{
	static struct workload w;
	char name[300];
	printf("%-8s %-5s %8llu  %s\n", s->killed ? "killed" : "SURVIVES",
	       s->type == MEDIA_EV_FENCE ? "fence" : "flush", (unsigned long long)s->hits,
	       site_name(m, s, name, sizeof(name)));
	if (!s->killed)
		return;
	workload_make(&w, m->suite.v[s->killer].family, m->suite.v[s->killer].index,
		      m->o->seed);
	printf("         by %s: %s\n", w.name, s->why);
}

static int mutator_open(struct mutator *m, const struct run_options *o)
{
	memset(m, 0, sizeof(*m));
	m->o = o;
	m->syms = sym_open();
	if (trial_open(&m->t))
		abort();
	if (starts_make(&m->st, &m->t)) {
		printf("FAILED: the start images cannot be made: %s\n", m->t.why);
		return -1;
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

int mutate_run(const struct run_options *o, double budget)
{
	static struct mutator m;
	unsigned killed = 0, tried = 0;
	struct run_options run = *o;
	run.depth = 1;
	if (mutator_open(&m, &run))
		return 1;
	suite_make(&m.suite);
	if (learn(&m)) {
		printf("FAILED without a mutation: %s\n", m.t.why);
		return 1;
	}
	printf("%zu workloads reach %zu sites\n", m.suite.n, m.n);
	run_configure(&m.t, &run);
	double until = budget > 0 ? crash_clock_real() + budget : 1e300;
	for (size_t i = 0; i < m.n && crash_clock_real() < until; i++) {
		try_site(&m, &m.sites[i]);
		row(&m, &m.sites[i]);
		killed += m.sites[i].killed;
		tried++;
	}
	printf("%u of %u mutants killed, %u survive, %zu not tried\n", killed, tried,
	       tried - killed, m.n - tried);
	mutator_close(&m);
	return killed == tried ? 0 : 1;
}

/* ---- the golden table
 * ---------------------------------------------------------------------------- */

static void golden_row(struct trial *t, const char *name, const struct media_counts *a,
		       const struct media_counts *b)
{
	printf("%-24s %6llu %7llu %8llu %7llu %8llu\n", name,
	       (unsigned long long)(b->fences - a->fences),
	       (unsigned long long)(b->flushes - a->flushes),
	       (unsigned long long)(b->nt_lines - a->nt_lines),
	       (unsigned long long)(b->stores8 - a->stores8),
	       (unsigned long long)(b->bytes - a->bytes));
	(void)t;
}

int mutate_golden(const struct run_options *o)
{
	static struct mutator m;
	struct run_options quiet = *o;
	struct workload w = {0};
	if (mutator_open(&m, &quiet))
		return 1;
	run_configure(&m.t, &quiet);
	printf("%-24s %6s %7s %8s %7s %8s\n", "operation", "fences", "flushes", "nt lines",
	       "stores8", "bytes");
	for (unsigned i = 0; i < n_words; i++) {
		workload_clear(&w);
		if (workload_parse(&w, words[i].script) ||
		    trial_begin(&m.t, &m.st.s[START_FRESH], false))
			return 1;
		for (unsigned k = 0; k < w.n; k++) {
			struct media_counts a, b;
			media_count(m.t.x.media, &a);
			if (trial_op(&m.t, &w.ops[k].op, false, NULL)) {
				printf("FAILED: %s\n", m.t.why);
				return 1;
			}
			media_count(m.t.x.media, &b);
			if (!w.ops[k].setup)
				golden_row(&m.t, words[i].name, &a, &b);
		}
		trial_end(&m.t, false, false);
	}
	workload_free(&w);
	mutator_close(&m);
	return 0;
}
