/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Complete exploration by reads: a line that no judgement reads needs no second content. Begins
 * with nothing persisted; for each undecided line that a state's judgement read, states with
 * its other contents follow, with the lines read before it as they were.
 */
#ifndef CRASH_LAZY_H
#define CRASH_LAZY_H

#include "enumerate.h"
#include "readset.h"

/*
 * visit judges the state and leaves in `reads` what that read. Stops after `limit` states;
 * *ret_complete tells whether every state of the assignment has the verdict of one visited.
 */
int lazy_enumerate(struct assignment *a, const struct readset *reads, uint64_t limit,
		   enum_visit visit, void *arg, bool *ret_complete);

#endif
