/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The explorer. Invariants between two states:
 * 1. level[0].base is start plus all that fences made durable; level[0].p.base_hash its hash.
 * 2. Every crash image, and level[1].base, equals level[0].base but for the lines that its own
 *    set (touched, moved) names; while nothing is judged these sets are empty.
 * 3. live holds all stores made so far, shadow all those that the hook reported.
 * A state costs in proportion to the lines it touches: no image is ever copied.
 */
#include "explore.h"
#include "lazy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- set-up ------------------------------------------------------------------------------ */

static void retired(void *arg, uint32_t line, const uint8_t *content)
{
	struct explorer *x = arg;
	size_t off = (size_t)line * LINE_SIZE;
	memcpy(x->level[0].crash.mem + off, content, LINE_SIZE);
	memcpy(x->level[1].base.mem + off, content, LINE_SIZE);
	memcpy(x->level[1].crash.mem + off, content, LINE_SIZE);
}

static void retired_nested(void *arg, uint32_t line, const uint8_t *content)
{
	struct explorer *x = arg;
	size_t off = (size_t)line * LINE_SIZE;
	lineset_add(&x->level[1].moved, off, LINE_SIZE);
	memcpy(x->level[1].crash.mem + off, content, LINE_SIZE);
}

static void rule_broken(void *arg, enum persist_rule rule, const struct event *ev,
			uint32_t line)
{
	struct explorer *x = arg;
	(void)line;
	x->stats.rules[rule]++;
	uint32_t site = ev ? ev->site : 0;
	if (x->offenders && site < EXPLORE_STACKS)
		x->offenders[site][rule]++;
}

static int level_open(struct level *l, int start, size_t size)
{
	int r = image_open(&l->base, start, size);
	if (r == 0)
		r = image_open(&l->crash, start, size);
	if (r == 0)
		r = media_open_memory(l->crash.mem, size, 0, &l->media);
	if (r == 0)
		r = lineset_open(&l->touched, size);
	if (r == 0)
		r = lineset_open(&l->moved, size);
	if (r == 0)
		r = persist_open(&l->p, PERSIST_STRICT, l->base.mem, size);
	if (r)
		return r;
	trace_open(&l->trace, size);
	l->trace.touched = &l->touched;
	media_set_hook(l->media, trace_hook, &l->trace);
	return 0;
}

static void level_close(struct level *l)
{
	media_close(l->media);
	image_close(&l->base);
	image_close(&l->crash);
	lineset_close(&l->touched);
	lineset_close(&l->moved);
	persist_close(&l->p);
	assignment_close(&l->a);
	trace_close(&l->trace);
}

int explore_open(struct explorer *x, size_t size, struct seen *seen)
{
	memset(x, 0, sizeof(*x));
	x->size = size;
	x->seen = seen;
	int r = seen_open(&x->alike, 1u << 18);
	if (r == 0)
		r = readset_open(&x->reads, size);
	if (r)
		return r;
	x->start = image_start_create(size);
	if (x->start < 0)
		return x->start;
	r = image_open(&x->live, x->start, size);
	if (r == 0)
		r = image_open(&x->shadow, x->start, size);
	if (r == 0)
		r = media_open_memory(x->live.mem, size, 0, &x->media);
	for (unsigned d = 0; d < EXPLORE_DEPTH && r == 0; d++)
		r = level_open(&x->level[d], x->start, size);
	if (r) {
		explore_close(x);
		return r;
	}
	trace_open(&x->trace, size);
	x->trace.shadow = x->shadow.mem;
	media_set_hook(x->media, trace_hook, &x->trace);
	x->level[0].trace.reads = &x->reads;
	x->level[0].p.retired = retired;
	x->level[0].p.flag = rule_broken;
	x->level[1].p.retired = retired_nested;
	for (unsigned d = 0; d < EXPLORE_DEPTH; d++)
		x->level[d].p.retired_arg = x->level[d].p.flag_arg = x;
	return 0;
}

void explore_close(struct explorer *x)
{
	media_close(x->media);
	for (unsigned d = 0; d < EXPLORE_DEPTH; d++)
		level_close(&x->level[d]);
	image_close(&x->live);
	image_close(&x->shadow);
	trace_close(&x->trace);
	seen_close(&x->alike);
	readset_close(&x->reads);
}

static int image_start(struct image *im, int start)
{
	int r = image_rebase(im, start);
	if (r == 0)
		image_reset(im);
	return r;
}

int explore_begin(struct explorer *x, int start, uint64_t start_hash)
{
	int r = image_start(&x->live, start);
	if (r == 0)
		r = image_start(&x->shadow, start);
	for (unsigned d = 0; d < EXPLORE_DEPTH && r == 0; d++) {
		struct level *l = &x->level[d];
		l->p.model = x->o.model;
		lineset_clear(&l->touched);
		lineset_clear(&l->moved);
		persist_reset(&l->p, start_hash);
		r = image_start(&l->base, start);
		if (r == 0)
			r = image_start(&l->crash, start);
	}
	x->start_hash = start_hash;
	x->why[0] = '\0';
	x->failed_hash = 0;
	trace_clear(&x->trace);
	return r;
}

/* ---- one state --------------------------------------------------------------------------- */

/* What visiting needs to know beside the assignment. */
struct point {
	struct explorer *x;
	unsigned depth;
	bool inside;
	bool again; /* states that were judged before are judged again, for what they read */
};

/* Puts the lines of the assignment into `to` and notes them in `set`. */
static void state_put(const struct assignment *a, struct image *to, struct lineset *set)
{
	for (size_t i = 0; i < a->n; i++) {
		uint64_t words[LINE_WORDS];
		if (a->choice[i] == 0)
			continue;
		uint64_t off = (uint64_t)a->vars[i].pl->line * LINE_SIZE;
		persist_content(a->p, &a->vars[i], a->choice[i], words);
		lineset_add(set, off, LINE_SIZE);
		memcpy(to->mem + off, words, LINE_SIZE);
	}
}

void explore_recovered(struct crash_state *s)
{
	s->x->level[s->depth].trace.on = false;
}

void explore_stacks(struct explorer *x, struct stacks *s)
{
	uintptr_t top = (uintptr_t)__builtin_frame_address(0);
	x->trace.stacks = s;
	x->trace.frame_top = top;
	for (unsigned d = 0; d < EXPLORE_DEPTH; d++) {
		x->level[d].trace.stacks = s;
		x->level[d].trace.frame_top = top;
	}
}

/* The functions whose stores are pending in the line. */
static size_t explain_line(struct explorer *x, const struct persist_line *pl, char *out,
			   size_t len)
{
	size_t n = 0;
	for (uint32_t i = 0; i < pl->n && x->stack_name && n + 100 < len; i++) {
		uint32_t site = pl->atoms[i].site;
		if (site == 0 || (i > 0 && site == pl->atoms[i - 1].site))
			continue;
		n += (size_t)snprintf(out + n, len - n, ", %s",
				      x->stack_name(x->stack_arg, site));
	}
	return n;
}

static void explain_state(struct explorer *x, const struct assignment *a, char *out, size_t len)
{
	size_t n = strlen(out);
	for (size_t i = 0; i < a->n && n + 400 < len; i++) {
		const struct persist_var *v = &a->vars[i];
		const char *how = a->choice[i] == 0		 ? "nothing"
				  : a->choice[i] + 1 == v->count ? "all"
								 : "a part";
		n += (size_t)snprintf(out + n, len - n, "  line at %#llx: %s of %u words",
				      (unsigned long long)v->pl->line * LINE_SIZE, how,
				      v->pl->n);
		n += explain_line(x, v->pl, out + n, len - n);
		n += (size_t)snprintf(out + n, len - n, "\n");
	}
}

static int state_failed(struct explorer *x, const struct crash_state *s,
			const struct assignment *a)
{
	x->stats.failures++;
	if (x->failed_hash == 0) {
		x->failed_hash = s->hash ? s->hash : 1;
		snprintf(x->why, sizeof(x->why),
			 "%.*s\nthe state: a crash %s%s%s; pending lines:\n", EXPLORE_WHY / 2,
			 s->why,
			 s->inside ? "inside the operation" : "after the operation returned",
			 s->depth ? ", then a crash while recovering" : "",
			 s->by_fsck ? ", recovered by fsck -y" : "");
		explain_state(x, a, x->why, sizeof(x->why));
	}
	return x->o.keep_going ? 0 : -1;
}

/* Explores the recovery whose events level d's trace has, on the state that `a` is. */
static int nested(struct explorer *x, struct crash_state *s, const struct assignment *a);

#define COMPARE_EVERY 1000u

/* Nothing may be left of a state: else recovery stored round the media layer. */
static int state_undone(const struct level *l, struct crash_state *s)
{
	int64_t stray = trace_find_untraced(&l->crash, l->base.mem);
	if (stray < 0)
		return 0;
	snprintf(s->why, sizeof(s->why), "a store at %#llx went round the media layer",
		 (unsigned long long)stray);
	return -1;
}

/* Judges the state that is in level d's crash image, then undoes it. */
static int state_judge(struct explorer *x, struct crash_state *s, const struct assignment *a)
{
	struct level *l = &x->level[s->depth];
	state_put(a, &l->crash, &l->touched);
	trace_clear(&l->trace);
	l->trace.on = s->depth + 1 < x->o.depth && !s->known;
	int r = x->subject.judge(x->subject.arg, s);
	l->trace.on = false;
	lineset_restore(&l->touched, l->crash.mem, l->base.mem);
	readset_forget_writes(&x->reads);
	if (l->trace.outside)
		abort();
	if (r == 0 && x->stats.distinct % COMPARE_EVERY == 0)
		r = state_undone(l, s);
	return r;
}

/* Recovers and judges; then the crashes inside the recovery. */
static int state_recover(struct explorer *x, struct crash_state *s, const struct assignment *a)
{
	if (state_judge(x, s, a))
		return state_failed(x, s, a);
	if (s->known || s->depth + 1 >= x->o.depth || x->level[s->depth].trace.n == 0)
		return 0;
	return nested(x, s, a);
}

/* A mount and, for some states, fsck -y. */
static int state_recoveries(struct explorer *x, struct crash_state *s,
			    const struct assignment *a)
{
	int r = state_recover(x, s, a);
	uint64_t digest = s->digest;
	if (r || s->known || s->depth || !x->o.fsck_every || s->hash % x->o.fsck_every)
		return r;
	s->by_fsck = true;
	x->stats.fscked++;
	r = state_recover(x, s, a);
	s->digest = digest;
	return r;
}

/* A judgement that reads nothing would let one state stand for all. */
static int state_was_read(struct explorer *x)
{
	if (x->reads.read.n > 0)
		return 0;
	snprintf(x->why, sizeof(x->why),
		 "the judgement read nothing: readset_wrap.c is not linked");
	return -1;
}

static int state_visit(void *arg, const struct assignment *a)
{
	struct point *pt = arg;
	struct explorer *x = pt->x;
	uint64_t digest, hash = assignment_hash(a);
	struct crash_state s = {.x = x, .inside = pt->inside, .depth = pt->depth, .hash = hash};
	*(pt->depth ? &x->stats.states2 : &x->stats.states) += 1;
	if (x->heartbeat)
		*x->heartbeat += 1;
	s.known = seen_get(x->seen, hash, &digest);
	if (s.known && !pt->again && x->subject.legal(x->subject.arg, digest, pt->inside))
		return 0;
	*(pt->depth ? &x->stats.distinct2 : &x->stats.distinct) += !s.known;
	s.known &= !pt->again;
	s.media = x->level[s.depth].media;
	s.image = &x->level[s.depth].crash;
	if (pt->again)
		readset_start(&x->reads);
	int r = state_recoveries(x, &s, a);
	if (pt->again) {
		readset_stop(&x->reads);
		r = r ? r : state_was_read(x);
	}
	if (r == 0 && !s.known)
		seen_put(x->seen, hash, s.digest);
	return r;
}

/* ---- crash points -------------------------------------------------------------------------
 */

/* Fewer states than these are visited without looking at what they read. */
#define LAZY_FROM 8u

/* Completely, if what is read allows it; else all, or the plan. */
static int point_states(struct point *pt, struct assignment *a, const struct enum_options *plan,
			enum enum_cover *ret_cover)
{
	struct explorer *x = pt->x;
	bool complete = false;
	int r = 0;
	if (x->o.reads && pt->depth == 0 && assignment_count(a) >= LAZY_FROM) {
		pt->again = true;
		r = lazy_enumerate(a, &x->reads, plan->limit, state_visit, pt, &complete);
		pt->again = false;
	}
	if (r || complete) {
		x->stats.lazy += complete;
		*ret_cover = COVER_ALL;
		return r;
	}
	return enumerate(a, plan, state_visit, pt, ret_cover);
}

static int point_explore(struct explorer *x, unsigned depth, bool inside)
{
	struct level *l = &x->level[depth];
	struct point pt = {.x = x, .depth = depth, .inside = inside};
	struct enum_options plan = x->o.plan;
	enum enum_cover cover;
	if (depth && x->o.nested_limit)
		plan.limit = x->o.nested_limit;
	plan.seed += l->p.base_hash;
	assignment_load(&l->a, &l->p);
	int r = point_states(&pt, &l->a, &plan, &cover);
	*(depth ? &x->stats.points2 : &x->stats.points) += 1;
	(depth ? x->stats.cover2 : x->stats.cover)[cover]++;
	return r;
}

/* From now on what this thread did must be there. */
static int returned(struct explorer *x, const struct event *ev, bool judge)
{
	x->returned |= 1u << ev->thread;
	return judge ? point_explore(x, 0, true) : 0;
}

/* A fence was followed: is it the one whose durable image is wanted? */
static void capture(struct explorer *x)
{
	if (x->capture_fence == 0 || --x->capture_fence > 0)
		return;
	x->captured = image_start_copy(&x->level[0].base);
	x->captured_hash = x->level[0].p.base_hash;
}

/* Follows the events on a level; explores before each fence. */
static int events_follow(struct explorer *x, unsigned depth, const struct trace *t, bool judge,
			 bool inside)
{
	struct level *l = &x->level[depth];
	bool fresh = false;
	int r = 0;
	for (size_t i = 0; i < t->n && r == 0; i++) {
		const struct event *ev = &t->ev[i];
		if (ev->type == EVENT_RETURN) {
			r = returned(x, ev, judge);
			continue;
		}
		if (ev->type == MEDIA_EV_FENCE && fresh && judge) {
			r = point_explore(x, depth, inside);
			fresh = false;
		}
		if (r == 0 && persist_event(&l->p, ev)) {
			snprintf(x->why, sizeof(x->why),
				 "the hook reported a store that cannot be: type %d at %#llx, "
				 "%zu bytes",
				 ev->type, (unsigned long long)ev->off, ev->len);
			r = -1;
		}
		fresh |= ev->type != MEDIA_EV_FENCE && ev->type != MEDIA_EV_FLUSH;
		if (ev->type == MEDIA_EV_FENCE && depth == 0)
			capture(x);
	}
	return r;
}

/* What the recovery stored, as a number. */
static uint64_t recovery_hash(const struct trace *t)
{
	uint64_t h = t->n;
	for (size_t i = 0; i < t->n; i++) {
		const struct event *ev = &t->ev[i];
		h = word_mix(h + ev->off) + word_mix(ev->len + ((uint64_t)ev->type << 56));
		for (size_t k = 0; ev->bytes && k < ev->len; k += 8) {
			uint64_t v = 0;
			memcpy(&v, ev->bytes + k, ev->len - k < 8 ? ev->len - k : 8);
			h = word_mix(h ^ v);
		}
	}
	return h ? h : 1;
}

/*
 * Crashes in recoveries that store the same bytes in the same places are explored a few times
 * only: most differ just in what recovery did not take up.
 */
static bool recovery_alike(struct explorer *x, const struct trace *t)
{
	uint64_t n = 0, h = recovery_hash(t);
	x->stats.recoveries++;
	if (x->o.alike == 0)
		return false;
	seen_get(&x->alike, h, &n);
	seen_put(&x->alike, h, n + 1);
	if (n < x->o.alike)
		return false;
	x->stats.alike++;
	return true;
}

static int nested(struct explorer *x, struct crash_state *s, const struct assignment *a)
{
	struct level *up = &x->level[s->depth], *l = &x->level[s->depth + 1];
	trace_seal(&up->trace);
	if (recovery_alike(x, &up->trace))
		return 0;
	state_put(a, &l->base, &l->moved);
	state_put(a, &l->crash, &l->moved);
	persist_reset(&l->p, s->hash);
	int r = events_follow(x, s->depth + 1, &up->trace, true, s->inside);
	if (r == 0)
		r = point_explore(x, s->depth + 1, s->inside);
	/* moved names the lines of both images. */
	for (size_t i = 0; i < l->moved.n; i++) {
		size_t off = (size_t)l->moved.list[i] * LINE_SIZE;
		memcpy(l->crash.mem + off, up->base.mem + off, LINE_SIZE);
	}
	lineset_restore(&l->moved, l->base.mem, up->base.mem);
	return r;
}

void explore_op_begin(struct explorer *x)
{
	trace_clear(&x->trace);
	x->returned = 0;
	x->trace.on = true;
}

int explore_op_end(struct explorer *x, bool judge)
{
	x->trace.on = false;
	trace_seal(&x->trace);
	x->stats.ops++;
	int64_t stray = trace_find_untraced(&x->live, x->shadow.mem);
	if (stray >= 0 || x->trace.outside) {
		snprintf(x->why, sizeof(x->why), "a store at %#llx went round the media layer",
			 (unsigned long long)stray);
		return -1;
	}
	int r = events_follow(x, 0, &x->trace, judge, true);
	if (r == 0)
		persist_end(&x->level[0].p);
	if (r == 0 && judge && (x->trace.n > 0 || x->stats.points == 0))
		r = point_explore(x, 0, false);
	x->end_hash = x->level[0].p.base_hash;
	return r;
}
