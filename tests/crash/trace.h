/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tracer: what the media layer's hook reports, kept as a row of events; the call stacks
 * that made them; stores that went round the hook; and the mutations that a mutation run makes.
 */
#ifndef CRASH_TRACE_H
#define CRASH_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image.h"
#include "media.h"
#include "persist.h"
#include "readset.h"

#define STACK_MAX 12

/* A call stack that ends in a store, flush or fence. */
struct stack {
	uint32_t n;
	uintptr_t ret[STACK_MAX]; /* return addresses, innermost first */
	enum media_event type;
	uint64_t hits;
};

struct stacks {
	struct stack *list; /* [0] is unused */
	uint32_t n, cap;
	uint32_t *hash;
	uint32_t hash_size;
};
void stacks_close(struct stacks *s);

/* What is broken on purpose while events are recorded. */
enum mutation_kind {
	MUT_NONE,
	MUT_DROP,  /* its events are left out */
	MUT_DELAY, /* a fence comes after the next store, a flush after the next fence */
};
struct mutation {
	enum mutation_kind kind;
	enum media_event type;
	uintptr_t caller; /* of the events whose stack has this return address */
	uint64_t fired;	  /* events it changed */
};

struct trace {
	struct event *ev;
	size_t n, cap;
	uint8_t *bytes; /* arena: events point into it once trace_seal was called */
	size_t bytes_n, bytes_cap;
	uint16_t op;
	bool on;
	/* stacks */
	struct stacks *stacks; /* NULL: not recorded */
	uintptr_t frame_top;   /* frames at and above this address are the explorer's */
	struct mutation *mutation;
	bool held; /* MUT_DELAY: this event waits for what it is to come after */
	struct event late;
	/* detection of stores round the hook */
	uint8_t *shadow; /* NULL: off */
	size_t size;
	/* lines that were stored to; NULL: not wanted */
	struct lineset *touched;
	struct readset *reads; /* is told of stores; NULL: not wanted */
	/* called before and after an event is recorded: for interleaving threads */
	void (*gate)(void *arg);
	void (*step)(void *arg);
	void *step_arg;
	uint64_t outside; /* stores that lay outside the medium */
};

void trace_open(struct trace *t, size_t image_size);
void trace_close(struct trace *t);
/* The hook: media_set_hook(m, trace_hook, t). */
void trace_hook(void *arg, enum media_event ev, uint64_t off, const void *bytes, size_t len);
void trace_clear(struct trace *t);
/* Records that the operation of the calling thread returned. */
void trace_return(struct trace *t);
/* After the last event: makes ev[].bytes valid. */
void trace_seal(struct trace *t);

/* A hook that only notes which lines were touched: arg is a struct lineset. */
void trace_touch_hook(void *arg, enum media_event ev, uint64_t off, const void *bytes,
		      size_t len);

/*
 * Compares the pages of `seen` that were ever written with the shadow; the offset of the first
 * byte that the hook was not told about, -1 if there is none.
 */
int64_t trace_find_untraced(const struct image *seen, const uint8_t *shadow);

/* The number of this thread in events; 0 unless set. */
void trace_set_thread(uint16_t n);

#endif
