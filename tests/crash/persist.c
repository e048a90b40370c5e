/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model of persistence. Invariants:
 * 1. base plus all pending atoms in program order is what the CPU sees.
 * 2. A pending line has at least one atom; slot[] leads to it.
 * 3. An atom that a fence retired is in base and in no pending line, and no atom that stands
 *    before it can undo it any more.
 * One thread at a time, no locks.
 */
#include "persist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const persist_rule_names[RULES] = {
    [RULE_FLUSH_CLEAN] = "flush of a clean line",
    [RULE_FLUSH_AGAIN] = "flush of a line that is being written back",
    [RULE_FLUSH_NT] = "flush after a non-temporal store",
    [RULE_FENCE_EMPTY] = "fence with nothing to wait for",
    [RULE_DIRTY_AT_END] = "line dirty at the end of the operation",
};

int persist_open(struct persist *p, enum persist_model model, uint8_t *base, size_t size)
{
	memset(p, 0, sizeof(*p));
	p->model = model;
	p->base = base;
	p->size = size;
	p->slot = calloc(size / LINE_SIZE, sizeof(*p->slot));
	return p->slot ? 0 : -ENOMEM;
}

void persist_reset(struct persist *p, uint64_t base_hash)
{
	for (size_t i = 0; i < p->n; i++)
		p->slot[p->pending[i].line] = 0;
	p->n = 0;
	p->base_hash = base_hash;
	p->groups = 0;
	p->group_end = UINT64_MAX;
}

void persist_close(struct persist *p)
{
	for (size_t i = 0; i < p->cap; i++)
		free(p->pending[i].atoms);
	free(p->pending);
	free(p->slot);
	memset(p, 0, sizeof(*p));
}

static void flag(struct persist *p, enum persist_rule rule, const struct event *ev,
		 uint32_t line)
{
	if (p->flag)
		p->flag(p->flag_arg, rule, ev, line);
}

/* ---- pending lines -------------------------------------------------------------------- */

static struct persist_line *line_find(const struct persist *p, uint32_t line)
{
	return p->slot[line] ? &p->pending[p->slot[line] - 1] : NULL;
}

static struct persist_line *line_get(struct persist *p, uint32_t line)
{
	if (p->slot[line])
		return &p->pending[p->slot[line] - 1];
	if (p->n == p->cap) {
		size_t cap = p->cap ? 2 * p->cap : 64;
		void *q = realloc(p->pending, cap * sizeof(*p->pending));
		if (!q)
			abort();
		p->pending = q;
		/* Entries keep their array of atoms for the next line that uses them. */
		memset(p->pending + p->cap, 0, (cap - p->cap) * sizeof(*p->pending));
		p->cap = cap;
	}
	struct persist_line *pl = &p->pending[p->n++];
	pl->line = line;
	pl->n = 0;
	p->slot[line] = (uint32_t)p->n;
	return pl;
}

static void line_drop(struct persist *p, struct persist_line *pl)
{
	struct persist_line *last = &p->pending[--p->n], tmp = *pl;
	p->slot[pl->line] = 0;
	if (pl == last)
		return;
	*pl = *last;
	*last = tmp;
	p->slot[pl->line] = (uint32_t)(pl - p->pending) + 1;
}

static void atom_add(struct persist_line *pl, const struct persist_atom *a)
{
	if (pl->n == pl->cap) {
		pl->cap = pl->cap ? 2 * pl->cap : 16;
		pl->atoms = realloc(pl->atoms, pl->cap * sizeof(*pl->atoms));
		if (!pl->atoms)
			abort();
	}
	pl->atoms[pl->n++] = *a;
}

static void atom_apply(uint64_t words[LINE_WORDS], const struct persist_atom *a)
{
	words[a->word] = (words[a->word] & ~a->mask) | (a->value & a->mask);
}

/* ---- events ---------------------------------------------------------------------------- */

/* Stores that go on where the last one ended belong to the same copy. */
static uint32_t group_of(struct persist *p, const struct event *ev)
{
	bool joins = ev->off == p->group_end && p->groups > 0;
	if (!joins)
		p->groups++;
	p->group_end = ev->off + ev->len;
	return p->groups;
}

static void store(struct persist *p, const struct event *ev)
{
	uint32_t group = group_of(p, ev);
	for (uint64_t at = ev->off; at < ev->off + ev->len;) {
		unsigned skip = at % 8, n = 8 - skip;
		if (at + n > ev->off + ev->len)
			n = (unsigned)(ev->off + ev->len - at);
		uint8_t value[8] = {0}, mask[8] = {0};
		memcpy(value + skip, ev->bytes + (at - ev->off), n);
		memset(mask + skip, 0xff, n);
		struct persist_atom a = {
		    .group = group,
		    .site = ev->site,
		    .thread = ev->thread,
		    .word = at / 8 % LINE_WORDS,
		    .nt = ev->type == MEDIA_EV_NT,
		};
		memcpy(&a.value, value, 8);
		memcpy(&a.mask, mask, 8);
		atom_add(line_get(p, (uint32_t)(at / LINE_SIZE)), &a);
		at += n;
	}
}

/* All atoms of the line so far are being written back. Returns whether that was any use. */
static void flush_line(struct persist *p, const struct event *ev, uint32_t line)
{
	struct persist_line *pl = line_find(p, line);
	bool cached = false, useful = false;
	for (uint32_t i = 0; pl && i < pl->n; i++) {
		if (pl->atoms[i].nt)
			continue;
		cached = true;
		useful |= !pl->atoms[i].flushed;
		pl->atoms[i].flushed = (uint16_t)(1 + ev->thread);
	}
	if (!pl)
		flag(p, RULE_FLUSH_CLEAN, ev, line);
	else if (!cached)
		flag(p, RULE_FLUSH_NT, ev, line);
	else if (!useful)
		flag(p, RULE_FLUSH_AGAIN, ev, line);
}

/* An atom that is durable now can no longer be undone by one that stands before it. */
static void mask_earlier(struct persist_line *pl, uint32_t i)
{
	for (uint32_t j = 0; j < i; j++) {
		if (pl->atoms[j].word == pl->atoms[i].word)
			pl->atoms[j].mask &= ~pl->atoms[i].mask;
	}
}

static bool retires(const struct persist_atom *a, uint16_t thread)
{
	return a->nt ? a->thread == thread : a->flushed == 1 + thread;
}

/* Moves what the thread's fence makes durable into base. Returns the number of atoms. */
static uint32_t fence_line(struct persist *p, struct persist_line *pl, uint16_t thread)
{
	uint64_t words[LINE_WORDS], old[LINE_WORDS];
	uint8_t *base = p->base + (size_t)pl->line * LINE_SIZE;
	uint32_t kept = 0;
	memcpy(old, base, LINE_SIZE);
	memcpy(words, base, LINE_SIZE);
	for (uint32_t i = 0; i < pl->n; i++) {
		if (!retires(&pl->atoms[i], thread))
			continue;
		mask_earlier(pl, i);
		atom_apply(words, &pl->atoms[i]);
	}
	for (uint32_t i = 0; i < pl->n; i++) {
		if (!retires(&pl->atoms[i], thread) && pl->atoms[i].mask)
			pl->atoms[kept++] = pl->atoms[i];
	}
	uint32_t gone = pl->n - kept;
	pl->n = kept;
	if (memcmp(old, words, LINE_SIZE) == 0)
		return gone;
	for (unsigned w = 0; w < LINE_WORDS; w++) {
		uint64_t off = (uint64_t)pl->line * LINE_SIZE + 8 * w;
		p->base_hash += word_hash(off, words[w]) - word_hash(off, old[w]);
	}
	memcpy(base, words, LINE_SIZE);
	if (p->retired)
		p->retired(p->retired_arg, pl->line, base);
	return gone;
}

static void fence(struct persist *p, const struct event *ev)
{
	uint32_t gone = 0;
	for (size_t i = p->n; i-- > 0;) {
		struct persist_line *pl = &p->pending[i];
		gone += fence_line(p, pl, ev->thread);
		if (pl->n == 0)
			line_drop(p, pl);
	}
	if (gone == 0)
		flag(p, RULE_FENCE_EMPTY, ev, 0);
}

int persist_event(struct persist *p, const struct event *ev)
{
	if (ev->off > p->size || ev->len > p->size - ev->off)
		return -EINVAL;
	if (ev->type == MEDIA_EV_FENCE) {
		fence(p, ev);
		p->group_end = UINT64_MAX;
		return 0;
	}
	if (ev->len == 0)
		return 0;
	if (ev->type == MEDIA_EV_FLUSH) {
		uint64_t last = (ev->off + ev->len - 1) / LINE_SIZE;
		for (uint64_t l = ev->off / LINE_SIZE; l <= last; l++)
			flush_line(p, ev, (uint32_t)l);
		return 0;
	}
	if (ev->type == MEDIA_EV_STORE8 && (ev->off % 8 || ev->len != 8))
		return -EINVAL;
	if (ev->type == MEDIA_EV_NT && (ev->off % 8 || ev->len % 8))
		return -EINVAL;
	store(p, ev);
	return 0;
}

void persist_end(struct persist *p)
{
	for (size_t i = 0; i < p->n; i++)
		flag(p, RULE_DIRTY_AT_END, NULL, p->pending[i].line);
	p->group_end = UINT64_MAX;
}

/* ---- choices --------------------------------------------------------------------------- */

/* An atom does not matter when it stores what is there and nothing else writes its word. */
static uint64_t effective_atoms(const struct persist *p, const struct persist_line *pl)
{
	uint64_t base[LINE_WORDS], ret = 0;
	uint32_t writers[LINE_WORDS] = {0};
	memcpy(base, p->base + (size_t)pl->line * LINE_SIZE, LINE_SIZE);
	for (uint32_t i = 0; i < pl->n; i++)
		writers[pl->atoms[i].word]++;
	for (uint32_t i = 0; i < pl->n && i < 64; i++) {
		const struct persist_atom *a = &pl->atoms[i];
		bool same = (base[a->word] & a->mask) == (a->value & a->mask);
		if (!same || writers[a->word] > 1)
			ret |= 1ull << i;
	}
	return ret;
}

static bool ordered(const struct persist *p, const struct persist_atom *a)
{
	return p->model == PERSIST_STRICT && !a->nt;
}

/* Atoms from the 64th on share the fate of the last one that counts. */
static bool matters(const struct persist_var *v, uint32_t i)
{
	return i < 64 && (v->effective >> i & 1);
}

static uint64_t count_choices(const struct persist_var *v)
{
	uint64_t count = v->prefixes + 1;
	if (v->bits >= 40 || count << v->bits > PERSIST_COUNT_MAX)
		return PERSIST_COUNT_MAX;
	return count << v->bits;
}

size_t persist_vars(const struct persist *p, struct persist_var *ret)
{
	size_t n = 0;
	for (size_t i = 0; i < p->n; i++) {
		struct persist_var v = {.pl = &p->pending[i]};
		v.effective = effective_atoms(p, v.pl);
		for (uint32_t k = 0; k < v.pl->n; k++) {
			if (!matters(&v, k))
				continue;
			if (ordered(p, &v.pl->atoms[k]))
				v.prefixes++;
			else
				v.bits++;
		}
		if (p->model == PERSIST_LINE && v.bits) {
			v.prefixes = 1;
			v.bits = 0;
		}
		v.count = count_choices(&v);
		if (v.count > 1)
			ret[n++] = v;
	}
	return n;
}

static void all_atoms(const struct persist_line *pl, uint64_t words[LINE_WORDS])
{
	for (uint32_t i = 0; i < pl->n; i++)
		atom_apply(words, &pl->atoms[i]);
}

void persist_content(const struct persist *p, const struct persist_var *v, uint64_t choice,
		     uint64_t ret[LINE_WORDS])
{
	memcpy(ret, p->base + (size_t)v->pl->line * LINE_SIZE, LINE_SIZE);
	if (choice == v->count - 1) {
		all_atoms(v->pl, ret);
		return;
	}
	if (p->model == PERSIST_LINE)
		return;
	uint64_t prefix = choice % (v->prefixes + 1), bits = choice / (v->prefixes + 1);
	bool in = false;
	for (uint32_t i = 0; i < v->pl->n; i++) {
		const struct persist_atom *a = &v->pl->atoms[i];
		if (i < 64 && !matters(v, i))
			continue;
		if (i < 64 && ordered(p, a)) {
			in = prefix > 0;
			prefix -= in;
		} else if (i < 64) {
			in = bits & 1;
			bits >>= 1;
		}
		if (in)
			atom_apply(ret, a);
	}
}

uint64_t persist_delta(const struct persist *p, const struct persist_var *v, uint64_t choice)
{
	uint64_t words[LINE_WORDS], old[LINE_WORDS], sum = 0;
	uint64_t off = (uint64_t)v->pl->line * LINE_SIZE;
	memcpy(old, p->base + off, LINE_SIZE);
	persist_content(p, v, choice, words);
	for (unsigned w = 0; w < LINE_WORDS; w++) {
		if (words[w] != old[w])
			sum +=
			    word_hash(off + 8 * w, words[w]) - word_hash(off + 8 * w, old[w]);
	}
	return sum;
}

uint64_t persist_choice(const struct persist *p, const struct persist_var *v,
			bool (*want)(void *arg, uint32_t group), void *arg)
{
	uint64_t prefix = 0, bits = 0;
	uint32_t bit = 0;
	bool broken = false, all = true;
	for (uint32_t i = 0; i < v->pl->n; i++) {
		const struct persist_atom *a = &v->pl->atoms[i];
		bool yes = want(arg, a->group);
		all &= yes;
		if (!matters(v, i))
			continue;
		if (ordered(p, a)) {
			broken |= !yes;
			prefix += !broken;
		} else {
			if (yes && bit < 40)
				bits |= 1ull << bit;
			bit++;
		}
	}
	if (all)
		return v->count - 1;
	if (p->model == PERSIST_LINE)
		return 0;
	uint64_t choice = prefix + (v->prefixes + 1) * bits;
	return choice < v->count ? choice : v->count - 1;
}
