/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The live side of a trial. Each operation has its own second on the clock, so that all times
 * are known; the model learns the times of the live tree after it compared equal, and from then
 * on times in crash states must be exactly these.
 */
#include "trial.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "op.h"
#include "view.h"

int trial_open(struct trial *t)
{
	memset(t, 0, sizeof(*t));
	int r = seen_open(&t->seen, 1u << 21);
	if (r == 0)
		r = explore_open(&t->x, TRIAL_SIZE, &t->seen);
	t->x.subject = (struct subject){.arg = t, .legal = trial_legal, .judge = trial_judge};
	t->checks = CHECK_USE;
	return r;
}

void trial_close(struct trial *t)
{
	if (t->fs)
		trial_end(t, false, false);
	if (t->crash_driver)
		drive_free(t->crash_driver);
	if (t->driver)
		drive_free(t->driver);
	memo_set(&t->before, NULL);
	memo_set(&t->after, NULL);
	for (unsigned i = 0; i < 5; i++)
		memo_set(&t->alt[i].memo, NULL);
	model_free(t->model);
	explore_close(&t->x);
	seen_close(&t->seen);
}

bool trial_parity;

struct pmemfs_format_options trial_format_options(const struct start *s)
{
	struct pmemfs_format_options o = {.shards = s->shards,
					  .replica = s->replica,
					  .parity = trial_parity,
					  .now = CRASH_EPOCH,
					  .label = "crash"};
	memcpy(o.uuid, TRIAL_UUID, sizeof(o.uuid));
	return o;
}

static int fail(struct trial *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct trial *t, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	vsnprintf(t->why, sizeof(t->why), format, ap);
	va_end(ap);
	return -1;
}

static int explored(struct trial *t, int r)
{
	if (r)
		memcpy(t->why, t->x.why, sizeof(t->why));
	return r;
}

/* What is legal is what the model would be after a crash: handles are gone. */
static struct model *model_crashed(const struct model *m)
{
	struct model *c = model_clone(m);
	struct op op;
	op_init(&op, OP_CRASH);
	model_apply(c, &op, NULL);
	return c;
}

/* The clock of operation number t->op. */
void trial_tick(struct trial *t)
{
	crash_clock_set(CRASH_EPOCH + 1000 + t->op, 1000 + t->op);
	struct timespec now = crash_clock();
	model_clock(t->model, &now);
}

/* The live tree must be the model's; then the model knows all times. */
static int compare_live(struct trial *t)
{
	struct view_options o = {.full_read = 256 << 10};
	struct view v;
	char why[1024];
	int r = drive_view(t->driver, &o, &v);
	if (r)
		return fail(t, "the live tree cannot be read: %s", strerror(-r));
	if (v.problem)
		r = fail(t, "the live tree: %s", v.problem);
	else if (!model_compare(t->model, &v, MODEL_CMP_BLOCKS, why, sizeof(why)))
		r = fail(t, "the live tree is not the model's: %s", why);
	else
		model_learn(t->model, &v);
	view_clear(&v);
	return r;
}

/* The operation returned: its tree after is what later crashes must find. */
int trial_finish(struct trial *t, bool judge)
{
	int r;
	memo_set(&t->after, model_crashed(t->model));
	r = explored(t, explore_op_end(&t->x, judge));
	memo_set(&t->before, NULL);
	t->before = t->after;
	t->after = (struct memo){0};
	t->op++;
	return r;
}

static int op_finish(struct trial *t, bool judge)
{
	int r = compare_live(t);
	return r ? r : trial_finish(t, judge);
}

static void live_set(struct trial *t)
{
	if (t->driver)
		drive_core_set(t->driver, t->fs);
	else
		t->driver = drive_core_new(t->fs);
	if (!t->driver)
		abort();
}

int trial_begin(struct trial *t, const struct start *s, bool judge)
{
	int r = explore_begin(&t->x, s->fd, s->hash);
	if (r)
		return fail(t, "cannot map the start image: %s", strerror(-r));
	t->start = s;
	t->op = 0;
	t->why[0] = '\0';
	model_free(t->model);
	t->model = model_clone(s->model);
	memo_set(&t->before, model_crashed(t->model));
	memo_set(&t->after, NULL);
	trial_tick(t);
	t->x.trace.op = 0;
	explore_op_begin(&t->x);
	r = trial_mount(t, t->x.media, &t->fs, t->why, sizeof(t->why));
	if (r)
		return -1;
	live_set(t);
	return op_finish(t, judge);
}

/* Unmounts or abandons, and mounts. */
static int op_remount(struct trial *t, const struct op *op)
{
	int r = 0;
	drive_close_all(t->driver);
	if (op->kind == OP_REMOUNT)
		r = pmemfs_unmount(t->fs);
	else
		pmemfs_abandon(t->fs);
	t->fs = NULL;
	if (r)
		return fail(t, "unmounting failed: %s", strerror(-r));
	if (trial_mount(t, t->x.media, &t->fs, t->why, sizeof(t->why)))
		return -1;
	live_set(t);
	return 0;
}

/* Does the operation on both sides; the answers must agree. */
static int op_both(struct trial *t, const struct op *op, int64_t *ret)
{
	struct op_result live = {0}, want = {0};
	char why[512];
	int r = 0;
	struct model *m = model_clone(t->model);
	model_apply(m, op, &want);
	if (op->kind == OP_REMOUNT || op->kind == OP_CRASH)
		r = op_remount(t, op);
	else
		drive_apply(t->driver, op, &live);
	char line[OP_LINE_MAX];
	op_print(op, line, sizeof(line));
	bool nospace = live.ret == -ENOSPC && want.ret >= 0 && t->start->full;
	/* Which errno it is: the differential test compares that. */
	bool both_failed = live.ret < 0 && want.ret < 0;
	if (r == 0 && !nospace && !both_failed &&
	    !op_result_equal(&want, &live, why, sizeof(why)))
		r = fail(t, "%.200s answered otherwise than the model: %s", line, why);
	if (nospace) {
		model_free(m);
	} else {
		model_free(t->model);
		t->model = m;
	}
	if (ret)
		*ret = live.ret;
	op_result_clear(&live);
	op_result_clear(&want);
	return r;
}

int trial_op(struct trial *t, const struct op *op, bool judge, int64_t *ret)
{
	if (op->kind == OP_NONE)
		return 0;
	trial_tick(t);
	t->x.trace.op = (uint16_t)t->op;
	explore_op_begin(&t->x);
	int r = op_both(t, op, ret);
	return r ? r : op_finish(t, judge);
}

int trial_end(struct trial *t, bool clean, bool judge)
{
	int r = 0;
	if (!t->fs)
		return 0;
	if (!clean) {
		t->x.trace.on = false;
		pmemfs_abandon(t->fs);
		t->fs = NULL;
		return 0;
	}
	trial_tick(t);
	explore_op_begin(&t->x);
	drive_close_all(t->driver);
	r = pmemfs_unmount(t->fs);
	t->fs = NULL;
	if (r)
		return fail(t, "unmounting failed: %s", strerror(-r));
	memo_set(&t->after, model_crashed(t->model));
	r = explored(t, explore_op_end(&t->x, judge));
	t->op++;
	return r;
}

int trial_format(struct trial *t, const struct start *s, bool judge)
{
	struct pmemfs_format_options o = trial_format_options(s);

	o.seed = s->hash | 1; /* known, and another than the old filesystem's */
	int r = explore_begin(&t->x, s->fd, s->hash);
	if (r)
		return fail(t, "cannot map the start image: %s", strerror(-r));
	t->start = s;
	t->op = 0;
	model_free(t->model);
	t->model = model_new(NULL);
	memo_set(&t->before, s->model ? model_crashed(s->model) : NULL);
	trial_tick(t);
	explore_op_begin(&t->x);
	r = pmemfs_format(t->x.media, &o);
	if (r)
		return fail(t, "formatting failed: %s", strerror(-r));
	memo_set(&t->after, model_clone(t->model));
	t->formatting = true;
	r = explored(t, explore_op_end(&t->x, judge));
	t->formatting = false;
	t->op++;
	return r;
}

int trial_save(struct trial *t, struct start *ret)
{
	int fd = image_start_copy(&t->x.live);
	if (fd < 0)
		return fd;
	ret->fd = fd;
	ret->hash = image_hash(t->x.live.mem, t->x.size);
	ret->model = model_crashed(t->model);
	return 0;
}
