/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The families of workloads, each numbered from 0, so that processes can share them out, and a
 * number and a seed name a workload for ever.
 */
#include "workload.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const start_names[STARTS] = {
    [START_FRESH] = "fresh", [START_SHARDS] = "shards",	    [START_AGED] = "aged",
    [START_FULL] = "full",   [START_CRASHED] = "crashed",   [START_CRASHED2] = "crashed2",
    [START_TORN] = "torn",   [START_REFORMAT] = "reformat", [START_REPLICA] = "replica",
};

const char *const family_names[FAMILIES] = {
    [FAMILY_CORPUS] = "corpus",	  [FAMILY_SEQ1] = "seq1",     [FAMILY_FORMAT] = "format",
    [FAMILY_UNMOUNT] = "unmount", [FAMILY_ROLL] = "roll",     [FAMILY_COMPACT] = "compact",
    [FAMILY_PAIR] = "pair",	  [FAMILY_RANDOM] = "random", [FAMILY_SEQ2] = "seq2",
    [FAMILY_SEQ3] = "seq3",
};

void workload_clear(struct workload *w)
{
	struct work_op *ops = w->ops;
	struct work_op *mirror = w->mirror;
	unsigned cap = w->cap;
	*w = (struct workload){.ops = ops, .cap = cap, .mirror = mirror};
}

void workload_free(struct workload *w)
{
	free(w->ops);
	*w = (struct workload){0};
}

struct work_op *workload_add(struct workload *w, bool setup)
{
	if (w->n == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 16;
		w->ops = realloc(w->ops, w->cap * sizeof(*w->ops));
		if (!w->ops)
			abort();
	}
	w->ops[w->n].setup = setup;
	w->ops[w->n].pair = false;
	return &w->ops[w->n++];
}

void workload_copy(struct workload *to, const struct workload *from)
{
	struct work_op *ops = to->ops;
	unsigned cap = to->cap;
	*to = *from;
	to->ops = ops;
	to->cap = cap;
	to->n = 0;
	for (unsigned i = 0; i < from->n; i++)
		*workload_add(to, false) = from->ops[i];
}

void workload_drop(struct workload *w, unsigned at)
{
	memmove(&w->ops[at], &w->ops[at + 1], (w->n - at - 1) * sizeof(*w->ops));
	w->n--;
}

int workload_parse(struct workload *w, const char *script)
{
	char line[OP_LINE_MAX];
	while (*script) {
		script += strspn(script, " \t\n;");
		size_t n = strcspn(script, "\n;");
		if (n == 0)
			continue;
		if (n >= sizeof(line) || !strchr("!.&", *script))
			return -EINVAL;
		memcpy(line, script + 1, n - 1);
		line[n - 1] = '\0';
		struct work_op *o = workload_add(w, *script == '.');
		o->pair = *script == '&';
		int r = op_parse(line, &o->op);
		if (r)
			return r;
		script += n;
	}
	return 0;
}

void workload_print(const struct workload *w, FILE *out)
{
	char line[OP_LINE_MAX];
	fprintf(out, "start %s\norder %llu\n", start_names[w->start],
		(unsigned long long)w->seed);
	if (w->format)
		fprintf(out, "format\n");
	if (w->unmount)
		fprintf(out, "unmount\n");
	for (unsigned i = 0; i < w->n; i++) {
		op_print(&w->ops[i].op, line, sizeof(line));
		char mark = w->ops[i].setup ? '.' : w->ops[i].pair ? '&' : '!';
		fprintf(out, "%c %s\n", mark, line);
	}
}

/* ---- families ---------------------------------------------------------------------------- */

static void name(struct workload *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void name(struct workload *w, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	vsnprintf(w->name, sizeof(w->name), format, ap);
	va_end(ap);
}

static void script(struct workload *w, const char *s)
{
	if (workload_parse(w, s) == 0)
		return;
	fprintf(stderr, "bad script in %s: %s\n", w->name, s);
	abort();
}

/* The word's operations only prepare. */
static void script_setup(struct workload *w, const char *s)
{
	unsigned from = w->n;
	script(w, s);
	for (unsigned i = from; i < w->n; i++)
		w->ops[i].setup = true;
}

static void make_corpus(struct workload *w, uint64_t i)
{
	const struct corpus_test *c = &corpus[i];
	w->start = c->start;
	w->format = c->format;
	w->unmount = c->unmount;
	name(w, "corpus %u: %s", c->number, c->name);
	if (c->script)
		script(w, c->script);
}

/* Words at each position of a log: one more record before them from workload to workload. */
static const struct {
	const char *name, *filler, *op;
} rolls[] = {
    {"chmod", ".chmod path=foo mode=0%03o", "!chmod path=foo mode=0777"},
    {"write", ".chmod path=foo mode=0%03o", "!write path=foo off=0 len=5000 seed=7"},
    {"append", ".append path=foo len=10 seed=%u", "!append path=foo len=10 seed=900"},
    {"overwrite", ".write path=foo off=0 len=4096 seed=%u",
     "!write path=foo off=0 len=4096 seed=901"},
    {"xattr", ".chmod path=foo mode=0%03o", "!setxattr path=foo to=user.x len=300 seed=8"},
    {"truncate", ".truncate path=foo off=%u", "!truncate path=foo off=3"},
    {"link", ".chmod path=foo mode=0%03o", "!link path=foo to=bar"},
    {"rename", ".chmod path=foo mode=0%03o", "!rename path=foo to=A/bar"},
    {"unlink", ".append path=foo len=4096 seed=%u", "!unlink path=foo"},
    {"dir-chmod", ".chmod path=A mode=0%03o", "!create path=A/x mode=0644"},
    {"dir-rename", ".create path=A/f%u mode=0600", "!rename path=foo to=A/foo"},
    {"dir-create", ".create path=A/f%u mode=0600", "!create path=A/x mode=0600"},
    {"dir-mkdir", ".create path=A/f%u mode=0600", "!mkdir path=A/d mode=0700"},
    {"dir-unlink", ".create path=A/f%u mode=0600", "!unlink path=A/f0"},
    {"dir-move", ".chmod path=A mode=0%03o", "!rename path=A to=B"},
};
#define ROLLS	  (sizeof(rolls) / sizeof(rolls[0]))
#define ROLL_FROM 1u
#define ROLL_TO	  28u

static void make_roll(struct workload *w, uint64_t i)
{
	char line[256];
	unsigned k = ROLL_FROM + (unsigned)(i / ROLLS), which = (unsigned)(i % ROLLS);
	name(w, "roll %s after %u", rolls[which].name, k);
	w->unmount = true;
	script(w, ".create path=foo mode=0644; .mkdir path=A mode=0755");
	for (unsigned n = 0; n < k; n++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(line, sizeof(line), rolls[which].filler, n);
#pragma GCC diagnostic pop
		script(w, line);
	}
	script(w, rolls[which].op);
}

/* Long sequences on one inode, all judged: the log is stated anew on the way. */
static const struct {
	const char *name;
	unsigned rounds;
	const char *op[3];
} compacts[] = {
    {"chmod", 200, {"!chmod path=foo mode=0%03o"}},
    {"overwrite", 60, {"!write path=foo off=0 len=4096 seed=%u"}},
    {"small overwrites", 100, {"!write path=foo off=%u len=20 seed=5"}},
    {"append and truncate",
     50,
     {"!append path=foo len=3000 seed=%u", "!truncate path=foo off=%u"}},
    {"replaced xattr", 80, {"!setxattr path=foo to=user.a len=100 seed=%u"}},
    {"create and unlink", 60, {"!create path=A/x%u mode=0644", "!unlink path=A/x%u"}},
    {"mkdir and rmdir", 60, {"!mkdir path=A/x%u mode=0755", "!rmdir path=A/x%u"}},
    {"rename to and fro", 80, {"!rename path=foo to=A/bar%u", "!rename path=A/bar%u to=foo"}},
    {"link and unlink", 60, {"!link path=foo to=A/l%u", "!unlink path=A/l%u"}},
    {"replace by rename",
     40,
     {"!create path=A/t%u mode=0644", "!append path=A/t%1$u len=500 seed=3",
      "!rename path=A/t%u to=foo"}},
    {"holes",
     50,
     {"!write path=foo off=%u000 len=5000 seed=3",
      "!fallocate path=foo off=%u000 len=4096 flags=punch|keep"}},
};
#define COMPACTS (sizeof(compacts) / sizeof(compacts[0]))

static void make_compact(struct workload *w, uint64_t i)
{
	char line[256];
	name(w, "compact %s", compacts[i].name);
	w->unmount = true;
	script(w, ".create path=foo mode=0644; .mkdir path=A mode=0755");
	for (unsigned n = 0; n < compacts[i].rounds; n++) {
		for (unsigned k = 0; k < 3 && compacts[i].op[k]; k++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			snprintf(line, sizeof(line), compacts[i].op[k], n);
#pragma GCC diagnostic pop
			script(w, line);
		}
	}
}

static void make_seq3(struct workload *w, uint64_t i, uint64_t seed)
{
	struct op_rng r = {.s = seed * 1000003 + i};
	unsigned a = (unsigned)op_rng_below(&r, n_words),
		 b = (unsigned)op_rng_below(&r, n_words);
	unsigned c = (unsigned)op_rng_below(&r, n_words);
	w->start = (enum start_kind)op_rng_below(&r, STARTS);
	name(w, "seq3 %s, %s, %s", words[a].name, words[b].name, words[c].name);
	script_setup(w, words[a].script);
	script_setup(w, words[b].script);
	script(w, words[c].script);
}

static bool pairable(const struct workload *w, unsigned i)
{
	const struct op *op = &w->ops[i].op;
	return !w->ops[i].setup && op->fd == OP_NOFD && op->kind < OP_OPEN;
}

/* The preparations of two words, then their last operations at the same time. */
static void make_pair(struct workload *w, uint64_t i, uint64_t seed)
{
	struct op_rng r = {.s = seed * 77003 + i};
	const struct word *a = &words[op_rng_below(&r, n_words)];
	const struct word *b = &words[op_rng_below(&r, n_words)];
	static const enum start_kind from[] = {START_SHARDS, START_FRESH, START_AGED};
	w->start = from[i % 3];
	name(w, "pair %s and %s on %s", a->name, b->name, start_names[w->start]);
	script(w, a->script);
	struct work_op last = w->ops[w->n - 1];
	bool can = pairable(w, w->n - 1);
	w->ops[w->n - 1].setup = true;
	if (can)
		w->n--;
	unsigned from_b = w->n;
	script(w, b->script);
	for (unsigned k = from_b; k + 1 < w->n; k++)
		w->ops[k].setup = true;
	if (!can || !pairable(w, w->n - 1))
		return;
	last.pair = true;
	struct work_op second = w->ops[w->n - 1];
	w->ops[w->n - 1] = last;
	*workload_add(w, false) = second;
}

uint64_t family_size(enum family f, uint64_t sample)
{
	switch (f) {
	case FAMILY_CORPUS:
		return n_corpus;
	case FAMILY_SEQ1:
		return (uint64_t)n_words * STARTS;
	case FAMILY_FORMAT:
		return STARTS;
	case FAMILY_UNMOUNT:
		return n_words;
	case FAMILY_ROLL:
		return (ROLL_TO - ROLL_FROM + 1) * ROLLS;
	case FAMILY_COMPACT:
		return COMPACTS;
	case FAMILY_SEQ2:
		return (uint64_t)n_words * n_words * STARTS;
	default:
		return sample;
	}
}

static void make_seq2(struct workload *w, uint64_t i)
{
	const struct word *a, *b;
	w->start = (enum start_kind)(i / ((uint64_t)n_words * n_words));
	i %= (uint64_t)n_words * n_words;
	a = &words[i / n_words];
	b = &words[i % n_words];
	name(w, "seq2 %s, %s on %s", a->name, b->name, start_names[w->start]);
	script_setup(w, a->script);
	script(w, b->script);
}

void workload_make(struct workload *w, enum family f, uint64_t i, uint64_t seed)
{
	workload_clear(w);
	w->seed = seed * 7919 + i;
	switch (f) {
	case FAMILY_CORPUS:
		make_corpus(w, i);
		break;
	case FAMILY_SEQ1:
		w->start = (enum start_kind)(i % STARTS);
		i /= STARTS;
		name(w, "seq1 %s on %s", words[i].name, start_names[w->start]);
		script(w, words[i].script);
		break;
	case FAMILY_FORMAT:
		w->start = (enum start_kind)i;
		w->format = true;
		name(w, "format over %s", start_names[w->start]);
		script(w, "!create path=foo mode=0644");
		break;
	case FAMILY_UNMOUNT:
		w->start = (enum start_kind)(i % STARTS);
		w->unmount = true;
		name(w, "unmount after %s on %s", words[i].name, start_names[w->start]);
		script_setup(w, words[i].script);
		break;
	case FAMILY_ROLL:
		make_roll(w, i);
		break;
	case FAMILY_COMPACT:
		make_compact(w, i);
		break;
	case FAMILY_PAIR:
		make_pair(w, i, seed);
		break;
	case FAMILY_RANDOM:
		w->start = (enum start_kind)(i % STARTS);
		w->random = true;
		name(w, "random %llu on %s", (unsigned long long)i, start_names[w->start]);
		break;
	case FAMILY_SEQ2:
		make_seq2(w, i);
		break;
	default:
		make_seq3(w, i, seed);
		break;
	}
}
