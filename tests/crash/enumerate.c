/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Enumeration of crash states. The capped plan, for more states than the limit:
 *	1. nothing, everything;
 *	2. stores as units: every subset of them if the limit allows, else each alone, all but
 *	   each, all pairs;
 *	3. lines as units: likewise;
 *	4. stores in program order up to each: how a copy is cut between lines;
 *	5. inside lines, with all others there and with none: every choice of lines with few;
 *	   each atom alone, all but each and each prefix of the first and last line of a row;
 *	6. random ones.
 * The choice arrays change in place; hashes follow by differences.
 */
#include "enumerate.h"

#include <stdlib.h>
#include <string.h>

#define FEW_CHOICES 16u /* a line with so many is tried in all of them */

struct plan {
	struct assignment *a;
	enum_visit visit;
	void *arg;
	uint64_t limit, pairs;
	uint64_t rng;
};

void assignment_close(struct assignment *a)
{
	free(a->vars);
	free(a->choice);
	free(a->delta);
	free(a->groups);
	memset(a, 0, sizeof(*a));
}

static void *grow(void *p, size_t n, size_t size)
{
	p = realloc(p, n * size);
	if (!p)
		abort();
	return p;
}

static int by_number(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
	return (a > b) - (a < b);
}

static int by_line(const void *x, const void *y)
{
	const struct persist_var *a = x, *b = y;
	return (a->pl->line > b->pl->line) - (a->pl->line < b->pl->line);
}

static void load_groups(struct assignment *a)
{
	size_t n = 0;
	for (size_t i = 0; i < a->n; i++) {
		const struct persist_line *pl = a->vars[i].pl;
		for (uint32_t k = 0; k < pl->n; k++) {
			uint32_t g = pl->atoms[k].group;
			if (n > 0 && a->groups[n - 1] == g)
				continue;
			if (n == a->cap_groups) {
				a->cap_groups = n ? 2 * n : 64;
				a->groups = grow(a->groups, a->cap_groups, sizeof(*a->groups));
			}
			a->groups[n++] = g;
		}
	}
	if (n > 1)
		qsort(a->groups, n, sizeof(*a->groups), by_number);
	a->n_groups = 0;
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || a->groups[i] != a->groups[i - 1])
			a->groups[a->n_groups++] = a->groups[i];
	}
}

void assignment_load(struct assignment *a, const struct persist *p)
{
	a->p = p;
	if (p->n > a->cap) {
		a->cap = 2 * p->n;
		a->vars = grow(a->vars, a->cap, sizeof(*a->vars));
		a->choice = grow(a->choice, a->cap, sizeof(*a->choice));
		a->delta = grow(a->delta, a->cap, sizeof(*a->delta));
	}
	a->n = p->n ? persist_vars(p, a->vars) : 0;
	if (a->n > 1)
		qsort(a->vars, a->n, sizeof(*a->vars), by_line);
	for (size_t i = 0; i < a->n; i++)
		a->choice[i] = a->delta[i] = 0;
	a->sum = 0;
	load_groups(a);
}

void assignment_set(struct assignment *a, size_t i, uint64_t choice)
{
	if (a->choice[i] == choice)
		return;
	uint64_t delta = choice ? persist_delta(a->p, &a->vars[i], choice) : 0;
	a->choice[i] = choice;
	a->sum += delta - a->delta[i];
	a->delta[i] = delta;
}

uint64_t assignment_count(const struct assignment *a)
{
	uint64_t count = 1;
	for (size_t i = 0; i < a->n; i++) {
		if (count > PERSIST_COUNT_MAX / a->vars[i].count)
			return PERSIST_COUNT_MAX;
		count *= a->vars[i].count;
	}
	return count;
}

static int visit(struct plan *p)
{
	return p->visit(p->arg, p->a);
}

static int visit_all(struct plan *p)
{
	struct assignment *a = p->a;
	for (;;) {
		int r = visit(p);
		if (r)
			return r;
		size_t i = 0;
		while (i < a->n && a->choice[i] + 1 == a->vars[i].count)
			assignment_set(a, i++, 0);
		if (i == a->n)
			return 0;
		assignment_set(a, i, a->choice[i] + 1);
	}
}

/* ---- units: stores or lines -------------------------------------------------------------- */

static void set_lines(struct assignment *a, bool on)
{
	for (size_t i = 0; i < a->n; i++)
		assignment_set(a, i, on ? a->vars[i].count - 1 : 0);
}

static void line_put(struct assignment *a, size_t i, bool on)
{
	assignment_set(a, i, on ? a->vars[i].count - 1 : 0);
}

/* Which stores are wanted: a flag for each member of a->groups. */
struct wanted {
	const struct assignment *a;
	const bool *on;
};

static bool group_wanted(void *arg, uint32_t group)
{
	const struct wanted *w = arg;
	const uint32_t *g =
	    bsearch(&group, w->a->groups, w->a->n_groups, sizeof(group), by_number);
	return g && w->on[g - w->a->groups];
}

static int visit_groups(struct plan *p, const bool *on)
{
	struct assignment *a = p->a;
	struct wanted w = {a, on};
	for (size_t i = 0; i < a->n; i++)
		assignment_set(a, i, persist_choice(a->p, &a->vars[i], group_wanted, &w));
	return visit(p);
}

static int visit_flags(struct plan *p, const bool *on, size_t n, bool groups)
{
	if (groups)
		return visit_groups(p, on);
	for (size_t i = 0; i < n; i++)
		line_put(p->a, i, on[i]);
	return visit(p);
}

static int unit_subsets(struct plan *p, bool *on, size_t n, bool groups)
{
	for (uint64_t set = 0; set < 1ull << n; set++) {
		for (size_t i = 0; i < n; i++)
			on[i] = set >> i & 1;
		int r = visit_flags(p, on, n, groups);
		if (r)
			return r;
	}
	return 0;
}

static uint64_t random_next(struct plan *p)
{
	p->rng += 0x9e3779b97f4a7c15ull;
	return word_mix(p->rng);
}

/* Each alone, or (on all set) all but each. At most `limit` of them, spread evenly. */
static int unit_singles(struct plan *p, bool *on, size_t n, bool groups)
{
	size_t step = n / p->limit + 1;
	for (size_t i = 0; i < n; i += step) {
		on[i] = !on[i];
		int r = visit_flags(p, on, n, groups);
		on[i] = !on[i];
		if (r)
			return r;
	}
	return 0;
}

static int unit_pairs(struct plan *p, bool *on, size_t n, bool groups)
{
	uint64_t pairs = (uint64_t)n * (n - 1) / 2;
	for (uint64_t k = 0; k < pairs && k < p->pairs; k++) {
		uint64_t which = pairs <= p->pairs ? k : random_next(p) % pairs;
		size_t i = 0;
		while (which >= n - 1 - i)
			which -= n - 1 - i++;
		size_t j = i + 1 + which;
		on[i] = on[j] = true;
		int r = visit_flags(p, on, n, groups);
		on[i] = on[j] = false;
		if (r)
			return r;
	}
	return 0;
}

static bool fits(const struct plan *p, size_t units)
{
	return units < 63 && 1ull << units <= p->limit;
}

static int visit_units(struct plan *p, size_t n, bool groups)
{
	bool *on = calloc(n + 1, sizeof(*on));
	int r;
	if (!on)
		abort();
	if (fits(p, n)) {
		r = unit_subsets(p, on, n, groups);
		goto out;
	}
	r = unit_singles(p, on, n, groups);
	if (r == 0)
		r = unit_pairs(p, on, n, groups);
	memset(on, true, n);
	if (r == 0)
		r = unit_singles(p, on, n, groups);
out:
	free(on);
	return r;
}

static int visit_order(struct plan *p)
{
	bool *on = calloc(p->a->n_groups + 1, sizeof(*on));
	int r = 0;
	if (!on)
		abort();
	for (size_t i = 0; i < p->a->n_groups && r == 0; i++) {
		on[i] = true;
		r = visit_groups(p, on);
	}
	/* Lines in address order: where a long copy is cut. */
	set_lines(p->a, false);
	size_t step = p->a->n / p->limit + 1;
	for (size_t i = 0; i < p->a->n && r == 0; i++) {
		line_put(p->a, i, true);
		if (i % step == 0)
			r = visit(p);
	}
	free(on);
	return r;
}

/* ---- inside lines ------------------------------------------------------------------------ */

static int visit_bits(struct plan *p, size_t i)
{
	const struct persist_var *v = &p->a->vars[i];
	uint64_t radix = v->prefixes + 1, all = v->count - 1;
	for (uint32_t b = 0; b < v->bits && b < 40; b++) {
		uint64_t bit = radix << b, upto = radix * ((2ull << b) - 1) + v->prefixes;
		uint64_t try[] = {bit, all - bit, upto};
		for (unsigned k = 0; k < 3; k++) {
			if (try[k] >= v->count)
				continue;
			assignment_set(p->a, i, try[k]);
			int r = visit(p);
			if (r)
				return r;
		}
	}
	return 0;
}

static int visit_prefixes(struct plan *p, size_t i)
{
	const struct persist_var *v = &p->a->vars[i];
	uint64_t none = 0, all = v->count - 1 - v->prefixes;
	for (uint64_t k = 0; k <= v->prefixes; k++) {
		assignment_set(p->a, i, none + k);
		int r = visit(p);
		if (r)
			return r;
		if (all + k >= v->count)
			continue;
		assignment_set(p->a, i, all + k);
		r = visit(p);
		if (r)
			return r;
	}
	return 0;
}

static int visit_choices(struct plan *p, size_t i)
{
	for (uint64_t c = 0; c < p->a->vars[i].count; c++) {
		assignment_set(p->a, i, c);
		int r = visit(p);
		if (r)
			return r;
	}
	return 0;
}

/* The first and the last line of a row, and one in 16 of the others. */
static bool inspect_line(struct plan *p, size_t i)
{
	const struct assignment *a = p->a;
	if (a->vars[i].count <= FEW_CHOICES && a->n <= FEW_CHOICES)
		return true;
	if (i == 0 || a->vars[i].pl->line != a->vars[i - 1].pl->line + 1)
		return true;
	if (i + 1 == a->n || a->vars[i].pl->line + 1 != a->vars[i + 1].pl->line)
		return true;
	return random_next(p) % 16 == 0;
}

static int visit_inside(struct plan *p, bool others)
{
	struct assignment *a = p->a;
	int r = 0;
	set_lines(a, others);
	for (size_t i = 0; i < a->n && r == 0; i++) {
		if (!inspect_line(p, i))
			continue;
		if (a->vars[i].count <= FEW_CHOICES) {
			r = visit_choices(p, i);
		} else {
			r = visit_bits(p, i);
			if (r == 0)
				r = visit_prefixes(p, i);
		}
		line_put(a, i, others);
	}
	return r;
}

static int visit_random(struct plan *p, unsigned n)
{
	for (unsigned k = 0; k < n; k++) {
		uint64_t bias =
		    random_next(p) % 3; /* mostly nothing, even, mostly everything */
		for (size_t i = 0; i < p->a->n; i++) {
			uint64_t x = random_next(p), c = random_next(p) % p->a->vars[i].count;
			if (x % 4 < bias)
				c = p->a->vars[i].count - 1;
			else if (x % 4 == 3)
				c = 0;
			assignment_set(p->a, i, c);
		}
		int r = visit(p);
		if (r)
			return r;
	}
	return 0;
}

static int visit_plan(struct plan *p, unsigned random)
{
	int r;
	set_lines(p->a, false);
	if ((r = visit(p)))
		return r;
	set_lines(p->a, true);
	if ((r = visit(p)))
		return r;
	if ((r = visit_units(p, p->a->n_groups, true)))
		return r;
	if ((r = visit_units(p, p->a->n, false)))
		return r;
	if ((r = visit_order(p)))
		return r;
	if ((r = visit_inside(p, false)))
		return r;
	if ((r = visit_inside(p, true)))
		return r;
	return visit_random(p, random);
}

int enumerate(struct assignment *a, const struct enum_options *o, enum_visit fn, void *arg,
	      enum enum_cover *ret_cover)
{
	struct plan p = {
	    .a = a,
	    .visit = fn,
	    .arg = arg,
	    .limit = o->limit ? o->limit : ENUM_LIMIT,
	    .pairs = o->pairs ? o->pairs : ENUM_PAIRS,
	    .rng = o->seed,
	};
	if (assignment_count(a) <= p.limit) {
		*ret_cover = COVER_ALL;
		set_lines(a, false);
		return visit_all(&p);
	}
	*ret_cover = COVER_PLAN;
	if (fits(&p, a->n_groups))
		*ret_cover = fits(&p, a->n) ? COVER_LINES : COVER_STORES;
	return visit_plan(&p, o->random);
}
