/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two operations at the same time, in two threads. Which of them goes on at each store, flush
 * and fence is decided by a seed, so far as their locks let them.
 */
#ifndef CRASH_PAIR_H
#define CRASH_PAIR_H

#include "trial.h"

/*
 * Runs a and b on live and judges their crash states: legal is what some order of those that
 * returned, with or without the others, leads to. 0, or -1 and t->why.
 */
int pair_run(struct trial *t, const struct op *a, const struct op *b, uint64_t seed,
	     bool judge);

#endif
