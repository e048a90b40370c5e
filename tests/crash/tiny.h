/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tiny log on persistent memory, right or broken in one known way: what the explorer is tried
 * on, so that it cannot silently find nothing.
 */
#ifndef CRASH_TINY_H
#define CRASH_TINY_H

#include "explore.h"

enum tiny_fault {
	TINY_RIGHT,	     /* record, fence, tail, flush, fence */
	TINY_CHECKED,	     /* record with checksum, one fence: right too */
	TINY_NO_FLUSH,	     /* the tail is not flushed */
	TINY_NO_DATA_FENCE,  /* record and tail in one epoch */
	TINY_NO_LAST_FENCE,  /* returns before the tail is durable */
	TINY_SWAPPED,	     /* tail before record */
	TINY_IN_PLACE,	     /* a committed record is edited in place */
	TINY_STRAY,	     /* a store goes round the media layer */
	TINY_UNCHECKED,	     /* as CHECKED, but recovery looks at the length only */
	TINY_WRONG_TAIL,     /* the tail covers a record that is not there yet */
	TINY_EARLY_REUSE,    /* the place of a live record is given out again */
	TINY_HALF_FLUSH,     /* only the first line of a record of two is flushed */
	TINY_UNDO_TWICE,     /* recovery adds to a counter: not idempotent */
	TINY_RECOVERY_ORDER, /* recovery erases its journal before what it did is durable */
	TINY_RECOVERS_RIGHT, /* recovery writes, and is idempotent */
	TINY_FAULTS
};
extern const char *const tiny_names[TINY_FAULTS];

struct tiny {
	enum tiny_fault fault;
	struct explorer *x;
	unsigned done;	 /* operations that returned */
	unsigned judged; /* by judge */
};

/* Prepares an empty log in x->live and a subject that judges it. */
void tiny_begin(struct tiny *t, struct explorer *x, enum tiny_fault fault, int *start);
/* Operation number t->done on x->media. */
void tiny_op(struct tiny *t);

#endif
