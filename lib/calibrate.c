/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calibration: from measured times to a table of store kernels.
 *
 * 1. Rounds are paired and interleaved: in each round every kernel is measured once for every
 *    size, one right after the other, and is compared with the incumbent of the same round.
 *    Whatever else the machine does hits all of them alike, and medians over the rounds drop
 *    what it hits one by one.
 * 2. Only a clear win displaces the incumbent: at least 10% more speed, in most rounds. The
 *    incumbent is the starting rule; for several writers, what was chosen for fewer; for
 *    zeroing, what was chosen for copies.
 * 3. Among those that won, and the incumbent, the row of a table is the cheapest way through
 *    all sizes, where 3% is no difference and changing the kernel from one size to the next
 *    costs 1%: kernels that are as good as equal do not take turns, so that one calibration is
 *    like the next. Among equals the rule's own two come first.
 * 4. What was not measured in CALIBRATE_LEAST rounds is as in the row above, with fewer
 * writers; in the first row it is the rule. Sizes for which there was no time, on a slow
 * medium, have what the largest measured one has, if that is large.
 * 5. A kernel that takes three times as long as the incumbent in each of the first rounds, or
 * for two sizes one after another in the first, is not measured further.
 *
 * Locks: none here; calibrate_rig.c has threads.
 */
#include "calibrate.h"

#include <errno.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "calibrate_rig.h"
#include "media_impl.h"

#define WIN	    (1 / 1.1) /* a ratio of times that is a clear win */
#define SWITCH_COST 1.01
#define SAME	    1.03   /* a ratio that is no difference */
#define ORDER_COST  0.0005 /* decides among equals */
#define LARGE	    8	   /* a size class that stands for larger ones: 16 KiB */
#define HOPELESS    3.0
#define SIFT_AFTER  3 /* rounds */

/* One operation with one number of writers: a row of the table. */
struct row {
	struct media *m;
	const struct calibrate_options *o;
	calibrate_measure measure;
	void *arg;
	bool clear;
	unsigned writers;
	uint64_t deadline;
	unsigned classes, rounds;
	uint8_t base[MEDIA_CLASSES]; /* numbers of the incumbents */
	bool out[MEDIA_CLASSES][COPY_NUMBERS];
	double ns[MEDIA_CLASSES][COPY_NUMBERS][CALIBRATE_ROUNDS];
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *v, unsigned n)
{
	double sorted[CALIBRATE_ROUNDS];

	memcpy(sorted, v, n * sizeof(*v));
	qsort(sorted, n, sizeof(*sorted), by_value);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* ---- measuring ---- */

/* Whether the kernel may run on this medium and is worth a look. */
static bool is_candidate(const struct media *m, unsigned number)
{
	const struct copy_kernel *k = copy_by_number(number);

	return k && (!k->eadr_only || m->eadr);
}

static int measure_class(struct row *r, unsigned c, unsigned first)
{
	int err = 0;

	/* Beginning with another kernel each time, so that none always follows the same. */
	for (unsigned i = 0; i < COPY_NUMBERS && !err; i++) {
		unsigned n = (first + i) % COPY_NUMBERS;

		if (!r->out[c][n])
			err = r->measure(r->arg, n, r->clear, (size_t)COPY_LINE << c,
					 r->writers, &r->ns[c][n][r->rounds]);
	}
	return err;
}

/* In the first round: nothing larger of what took far too long for this size and the last. */
static void sift_first(struct row *r, unsigned c)
{
	for (unsigned n = 0; n < COPY_NUMBERS && c; n++) {
		bool slow = n != r->base[c] && !r->out[c][n] && !r->out[c - 1][n];

		for (unsigned k = c - 1; k <= c && slow; k++)
			slow = r->ns[k][n][0] > HOPELESS * r->ns[k][r->base[k]][0];
		for (unsigned k = c + 1; k < r->classes && slow; k++)
			r->out[k][n] = n != r->base[k];
	}
}

/* No more of what cannot win. */
static void sift(struct row *r)
{
	for (unsigned c = 0; c < r->classes; c++) {
		const double *base = r->ns[c][r->base[c]];

		for (unsigned n = 0; n < COPY_NUMBERS; n++) {
			unsigned slow = 0;

			for (unsigned k = 0; k < r->rounds && !r->out[c][n]; k++)
				slow += r->ns[c][n][k] > HOPELESS * base[k];
			if (slow == r->rounds)
				r->out[c][n] = true;
		}
	}
}

/* How long the stores of a round's class took by themselves: rig_measure makes a few of each.
 */
static double class_cost(const struct row *r, unsigned c)
{
	double ns = 0;

	for (unsigned n = 0; n < COPY_NUMBERS; n++)
		if (!r->out[c][n])
			ns += RIG_STORES(((size_t)COPY_LINE << c)) * r->ns[c][n][r->rounds];
	return ns;
}

/* One round. False: it was not finished before the deadline, and does not count. */
static bool measure_round(struct row *r, double share, int *ret_err)
{
	double cost = 0;

	for (unsigned c = 0; c < r->classes; c++) {
		*ret_err = measure_class(r, c, r->rounds);
		if (*ret_err || now_ns() > r->deadline)
			return false;
		if (r->rounds)
			continue;
		cost += class_cost(r, c);
		sift_first(r, c);
		if (c && cost > share)
			r->classes = c; /* all the sizes that there is time for */
	}
	return true;
}

/* Rounds until the time is over; if the machine is busy, a few at least. */
static int measure_row(struct row *r, uint64_t budget, unsigned max_rounds)
{
	uint64_t start = now_ns();
	int err = 0;

	while (r->rounds < max_rounds &&
	       measure_round(r, budget / (double)(2 * CALIBRATE_LEAST), &err)) {
		r->rounds++;
		if (r->rounds == SIFT_AFTER)
			sift(r);
		if (r->rounds >= CALIBRATE_LEAST &&
		    now_ns() - start > budget * r->rounds / (r->rounds + 1))
			break;
	}
	return err;
}

/* ---- deciding ---- */

static struct calibrate_time judge(const struct row *r, unsigned c, unsigned n)
{
	const double *mine = r->ns[c][n], *base = r->ns[c][r->base[c]];
	struct calibrate_time t = {.rounds = r->rounds};
	double ratio[CALIBRATE_ROUNDS];
	unsigned wins = 0;

	if (r->out[c][n])
		return (struct calibrate_time){0};
	for (unsigned k = 0; k < r->rounds; k++) {
		ratio[k] = mine[k] / base[k];
		wins += ratio[k] <= WIN;
	}
	t.ns = median(mine, r->rounds);
	t.ratio = median(ratio, r->rounds);
	t.clear_win = 2 * wins > r->rounds;
	return t;
}

/*
 * What a choice costs for one size, relative to the best; INFINITY: it is not to be had. State
 * 0 is the incumbent, others are kernels' numbers.
 */
static void state_costs(const struct row *r, unsigned c,
			const struct calibrate_time time[COPY_NUMBERS],
			double ret[COPY_NUMBERS])
{
	double best = 1;

	for (unsigned n = 0; n < COPY_NUMBERS; n++) {
		bool open = n && n != r->base[c] && time[n].clear_win;

		ret[n] = open ? time[n].ratio : n ? INFINITY : 1;
		best = MIN(best, ret[n]);
	}
	for (unsigned n = 0; n < COPY_NUMBERS; n++) {
		bool rules = n == media_policy_rule(r->m, 0)->number ||
			     n == media_policy_rule(r->m, MEDIA_CLASSES - 1)->number;

		ret[n] = MAX(ret[n] / best, SAME) * (1 + (rules ? 0 : n) * ORDER_COST);
	}
}

/* The cheapest way through the sizes. Changes the classes that something else has won. */
static void choose_row(const struct row *r,
		       struct calibrate_time time[MEDIA_CLASSES][COPY_NUMBERS],
		       uint8_t ret[MEDIA_CLASSES])
{
	double cost[MEDIA_CLASSES][COPY_NUMBERS];
	uint8_t from[MEDIA_CLASSES][COPY_NUMBERS] = {0};
	unsigned best = 0, c;

	state_costs(r, 0, time[0], cost[0]);
	for (c = 1; c < r->classes; c++) {
		state_costs(r, c, time[c], cost[c]);
		for (unsigned n = 0; n < COPY_NUMBERS; n++) {
			double least = INFINITY;

			for (unsigned p = 0; p < COPY_NUMBERS; p++) {
				double x = cost[c - 1][p] * (p == n ? 1 : SWITCH_COST);

				if (x < least) {
					least = x;
					from[c][n] = p;
				}
			}
			cost[c][n] *= least;
		}
	}
	for (unsigned n = 1; n < COPY_NUMBERS; n++)
		if (cost[c - 1][n] < cost[c - 1][best])
			best = n;
	while (c-- > 0) {
		if (best)
			ret[c] = best; /* the incumbent is there already */
		best = from[c][best];
	}
}

/* ---- rows ---- */

/* How many writers stand for a row; 0: this machine has not so many CPUs. */
static unsigned row_writers(const struct calibrate_options *o, unsigned row)
{
	static const unsigned want[MEDIA_WRITERS] = {1, 2, 4, 8},
			      least[MEDIA_WRITERS] = {1, 2, 3, 5};
	unsigned cpus = o->max_writers ? o->max_writers : sysconf(_SC_NPROCESSORS_ONLN);

	return row && cpus < least[row] ? 0 : MIN(cpus, want[row]);
}

/* The classes of which each writer has room for two. */
static unsigned classes_that_fit(const struct calibrate_options *o, unsigned writers)
{
	unsigned c = MEDIA_CLASSES;

	while (c && ((uint64_t)COPY_LINE << (c - 1)) * 2 * writers > o->len)
		c--;
	return c;
}

static void begin_row(struct row *r, const uint8_t table[MEDIA_CLASSES])
{
	for (unsigned c = 0; c < MEDIA_CLASSES; c++) {
		r->base[c] = table[c] ? table[c] : media_policy_rule(r->m, c)->number;
		for (unsigned n = 0; n < COPY_NUMBERS; n++)
			r->out[c][n] = !is_candidate(r->m, n);
	}
	r->classes = classes_that_fit(r->o, r->writers);
}

/* Measures and decides one row, which is like the one above so far. */
static int do_row(struct row *r, unsigned row, uint64_t budget, struct calibrate_result *ret)
{
	unsigned max = r->o->rounds ? MIN(r->o->rounds, CALIBRATE_ROUNDS) : CALIBRATE_ROUNDS;
	uint8_t *table = (r->clear ? ret->table.clear : ret->table.copy)[row];
	struct calibrate_time(*time)[COPY_NUMBERS] = ret->time[r->clear][row];
	int err;

	begin_row(r, table);
	err = r->classes ? measure_row(r, budget, max) : 0;
	if (err || r->rounds < CALIBRATE_LEAST)
		return err;
	for (unsigned c = 0; c < r->classes; c++)
		for (unsigned n = 0; n < COPY_NUMBERS; n++)
			time[c][n] = judge(r, c, n);
	choose_row(r, time, table);
	if (r->classes > LARGE)
		memset(table + r->classes, table[r->classes - 1], MEDIA_CLASSES - r->classes);
	ret->writers[row] = r->writers;
	ret->classes = MAX(ret->classes, r->classes);
	return 0;
}

static int do_rows(struct media *m, const struct calibrate_options *o,
		   calibrate_measure measure, void *arg, struct calibrate_result *ret)
{
	uint64_t deadline = now_ns() + o->budget_ns + o->budget_ns / 2;
	struct row *r = malloc(sizeof(*r));
	unsigned steps = 0, done = 0;
	int err = r ? 0 : -ENOMEM;

	for (unsigned row = 0; row < MEDIA_WRITERS; row++)
		steps += 2 * !!row_writers(o, row);
	for (unsigned i = 0; i < 2 * MEDIA_WRITERS && !err; i++) {
		uint8_t(*table)[MEDIA_CLASSES] = i % 2 ? ret->table.clear : ret->table.copy;
		unsigned row = i / 2;

		memset(r, 0, sizeof(*r));
		r->m = m;
		r->o = o;
		r->measure = measure;
		r->arg = arg;
		r->clear = i % 2;
		r->deadline = deadline;
		r->writers = row_writers(o, row);
		if (r->clear || row)
			memcpy(table[row], r->clear ? ret->table.copy[row] : table[row - 1],
			       sizeof(table[row]));
		if (!r->writers)
			continue;
		if (o->progress)
			o->progress(o->progress_arg, done, steps);
		err = do_row(r, row, o->budget_ns / steps, ret);
		done++;
	}
	if (!err && o->progress)
		o->progress(o->progress_arg, done, steps);
	free(r);
	return err;
}

int calibrate(struct media *m, const struct calibrate_options *o, struct calibrate_result *ret)
{
	struct calibrate_rig *rig = NULL;
	unsigned writers = 1;
	int err;

	memset(ret, 0, sizeof(*ret));
	if (o->measure)
		return do_rows(m, o, o->measure, o->measure_arg, ret);
	if (o->len < 65536)
		return -ENOSPC;
	for (unsigned row = 0; row < MEDIA_WRITERS; row++)
		writers = MAX(writers, row_writers(o, row));
	err = rig_make(m, o->off, o->len, writers, &rig);
	if (!err)
		err = do_rows(m, o, rig_measure, rig, ret);
	rig_free(rig);
	return err;
}
