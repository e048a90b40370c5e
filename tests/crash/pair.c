/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two concurrent operations. A thread may report an event only while it has the turn; after
 * each event the turn may pass to the other thread. Whoever waits in vain for a while takes the
 * turn: the other one is then blocked by a lock. So events never overlap, and their order is
 * the seed's but for that. Locks: the scheduler's mutex is a leaf; nothing of the library is
 * called under it.
 */
#include "pair.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "view.h"

#define PATIENCE 300000 /* ns without the turn until the other one counts as blocked */

struct sched {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned turn;
	bool done[2];
	struct op_rng rng;
};

struct runner {
	struct sched *s;
	struct trial *t;
	struct driver *driver;
	const struct op *op;
	unsigned number;
	struct op_result res;
	pthread_t thread;
};

static __thread struct runner *self;

/* Waits for the turn; takes it when the other thread does not come. */
static void gate(void *arg)
{
	struct sched *s = arg;
	struct timespec until;
	if (!self)
		return;
	pthread_mutex_lock(&s->lock);
	syscall_clock(&until);
	until.tv_nsec += PATIENCE;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	while (s->turn != self->number && !s->done[s->turn]) {
		if (pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &until) ==
		    ETIMEDOUT)
			break;
	}
	s->turn = self->number;
	/* The lock is kept until the event is recorded: events do not overlap. */
}

static void step(void *arg)
{
	struct sched *s = arg;
	if (!self)
		return;
	if (op_rng_one_in(&s->rng, 2)) {
		s->turn = !self->number;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
}

static void *run(void *arg)
{
	struct runner *r = arg;
	struct sched *s = r->s;
	self = r;
	trace_set_thread((uint16_t)r->number);
	gate(s);
	pthread_mutex_unlock(&s->lock);
	drive_apply(r->driver, r->op, &r->res);
	gate(s);
	trace_return(&r->t->x.trace);
	s->done[r->number] = true;
	s->turn = !r->number;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	self = NULL;
	return NULL;
}

static void run_both(struct trial *t, struct runner r[2], uint64_t seed)
{
	struct sched s = {.lock = PTHREAD_MUTEX_INITIALIZER,
			  .changed = PTHREAD_COND_INITIALIZER};
	s.rng.s = seed;
	s.turn = (unsigned)op_rng_below(&s.rng, 2);
	t->x.trace.gate = gate;
	t->x.trace.step = step;
	t->x.trace.step_arg = &s;
	for (unsigned i = 0; i < 2; i++) {
		r[i].s = &s;
		if (pthread_create(&r[i].thread, NULL, run, &r[i]))
			abort();
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(r[i].thread, NULL);
	t->x.trace.gate = NULL;
	t->x.trace.step = NULL;
}

/* ---- what is legal ---- */

enum { NONE, ONLY_A, ONLY_B, A_THEN_B, B_THEN_A };

/* The model after the operations, in that order; what each of them answers. */
static struct model *after(const struct model *m, const struct op *x, int64_t *rx,
			   const struct op *y, int64_t *ry)
{
	struct model *c = model_clone(m);
	if (x)
		*rx = model_apply(c, x, NULL);
	if (y)
		*ry = model_apply(c, y, NULL);
	return c;
}

static bool answered(const struct runner r[2], const int64_t want[2])
{
	for (unsigned i = 0; i < 2; i++) {
		bool both_failed = r[i].res.ret < 0 && want[i] < 0;
		if (!both_failed && r[i].res.ret != want[i])
			return false;
	}
	return true;
}

static void alternative(struct trial *t, unsigned which, struct model *m, unsigned forbidden)
{
	struct op op;
	op_init(&op, OP_CRASH);
	model_apply(m, &op, NULL);
	memo_set(&t->alt[which].memo, m);
	t->alt[which].forbidden = forbidden;
}

/* One of the two orders must explain the answers and the live tree; it becomes the model. */
static int settle(struct trial *t, const struct runner r[2], struct model *orders[2],
		  const int64_t want[2][2], char *why, size_t len)
{
	struct view v;
	int which = -1;
	if (drive_view(t->driver, NULL, &v))
		return -1;
	for (int i = 0; i < 2 && which < 0; i++) {
		if (answered(r, want[i]) &&
		    model_compare(orders[i], &v, MODEL_CMP_BLOCKS, why, len))
			which = i;
	}
	if (which >= 0) {
		model_free(t->model);
		t->model = model_clone(orders[which]);
		model_learn(t->model, &v);
	}
	view_clear(&v);
	return which;
}

int pair_run(struct trial *t, const struct op *a, const struct op *b, uint64_t seed, bool judge)
{
	struct runner r[2] = {{.t = t, .driver = t->driver, .op = a, .number = 0},
			      {.t = t, .op = b, .number = 1}};
	int64_t want[2][2], one;
	char why[512] = "the answers fit no order";
	trial_tick(t);
	struct model *orders[2] = {after(t->model, a, &want[0][0], b, &want[0][1]),
				   after(t->model, b, &want[1][1], a, &want[1][0])};
	alternative(t, NONE, model_clone(t->model), 3);
	alternative(t, ONLY_A, after(t->model, a, &one, NULL, NULL), 2);
	alternative(t, ONLY_B, after(t->model, b, &one, NULL, NULL), 1);
	r[1].driver = drive_core_new(t->fs);
	explore_op_begin(&t->x);
	run_both(t, r, seed);
	int which = settle(t, r, orders, want, why, sizeof(why));
	drive_free(r[1].driver);
	int err = -1;
	if (which < 0) {
		snprintf(t->why, sizeof(t->why),
			 "no order of the two explains the result: %s (%lld and %lld)", why,
			 (long long)r[0].res.ret, (long long)r[1].res.ret);
	} else {
		alternative(t, A_THEN_B, model_clone(which == 0 ? t->model : orders[0]), 0);
		alternative(t, B_THEN_A, model_clone(which == 1 ? t->model : orders[1]), 0);
		t->alts = 5;
		err = trial_finish(t, judge);
		t->alts = 0;
	}
	for (unsigned i = 0; i < 2; i++) {
		op_result_clear(&r[i].res);
		model_free(orders[i]);
	}
	return err;
}
