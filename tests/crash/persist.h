/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model of persistence on x86: which contents of the medium a crash can leave.
 *
 * An aligned 8-byte word is the atom. Cached stores to one 64-byte line reach the medium in
 * program order, any number of them. Non-temporal stores reach it in any order, atom by atom,
 * until the storing thread's fence. A flush and a fence after it make what the line held at the
 * flush durable. A dirty line that was not flushed may reach the medium at any time, and stays
 * optional until it is flushed and fenced.
 */
#ifndef CRASH_PERSIST_H
#define CRASH_PERSIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image.h"
#include "media.h"

enum persist_model {
	PERSIST_STRICT,	     /* as above */
	PERSIST_LINE,	     /* a line reaches the medium whole or not at all: fast triage */
	PERSIST_ADVERSARIAL, /* as STRICT, but no order inside a line */
};

/* Beside those of the media layer: an operation that ran beside others returned. */
#define EVENT_RETURN ((enum media_event)(MEDIA_EV_FENCE + 1))

struct event {
	enum media_event type;
	uint16_t thread;
	uint16_t op;
	uint32_t site; /* index of the call stack, 0: not recorded */
	uint64_t off;
	size_t len;
	const uint8_t *bytes;
};

struct persist_atom {
	uint64_t value;
	uint64_t mask;	/* the bytes it stores */
	uint32_t group; /* number of the store it belongs to */
	uint32_t site;	/* and the stack that made it */
	uint16_t thread;
	uint16_t flushed; /* 0, or 1 + the thread that flushed it */
	uint8_t word;
	bool nt;
};

struct persist_line {
	uint32_t line;
	uint32_t n, cap;
	struct persist_atom *atoms; /* in program order */
};

/* What streaming over the events shows about wasted or forgotten work. */
enum persist_rule {
	RULE_FLUSH_CLEAN,  /* flush of a line with nothing pending */
	RULE_FLUSH_AGAIN,  /* flush of a line that is being written back already */
	RULE_FLUSH_NT,	   /* flush of a line that only non-temporal stores wrote */
	RULE_FENCE_EMPTY,  /* fence with nothing to wait for */
	RULE_DIRTY_AT_END, /* line left dirty when the operation returned */
	RULES
};
extern const char *const persist_rule_names[RULES];
typedef void (*persist_flag)(void *arg, enum persist_rule rule, const struct event *ev,
			     uint32_t line);

struct persist {
	enum persist_model model;
	uint8_t *base;	    /* what is durable for certain */
	uint64_t base_hash; /* image_hash of it */
	size_t size;
	uint32_t *slot; /* line -> 1 + index in pending */
	struct persist_line *pending;
	size_t n, cap;
	uint32_t groups;    /* stores so far */
	uint64_t group_end; /* where the newest one ends: the next may continue it */
	enum media_event group_type;
	persist_flag flag; /* may be NULL */
	void *flag_arg;
	/* called for each line of base that a fence changed: mirrors of base follow it */
	void (*retired)(void *arg, uint32_t line, const uint8_t *content);
	void *retired_arg;
};

int persist_open(struct persist *p, enum persist_model model, uint8_t *base, size_t size);
void persist_close(struct persist *p);
/* Forgets all that is pending; base and its hash were set anew by the caller. */
void persist_reset(struct persist *p, uint64_t base_hash);

/* Follows one event. -EINVAL: it lies outside the medium or is misaligned. */
int persist_event(struct persist *p, const struct event *ev);
/* The operation returned: flags lines that are dirty still. */
void persist_end(struct persist *p);

/*
 * What a crash can make of one pending line: choices 0 (nothing of it) to count - 1 (all of
 * it). A choice is prefix + (prefixes + 1) * bits.
 */
struct persist_var {
	const struct persist_line *pl;
	uint32_t prefixes;  /* ordered atoms that matter */
	uint32_t bits;	    /* unordered atoms that matter */
	uint64_t count;	    /* choices; saturates */
	uint64_t effective; /* which of the first 64 atoms matter */
};
#define PERSIST_COUNT_MAX (1ull << 40)

/* One var for each pending line that has more than one choice. ret has room for p->n. */
size_t persist_vars(const struct persist *p, struct persist_var *ret);
/* The 64 bytes that the choice leaves. */
void persist_content(const struct persist *p, const struct persist_var *v, uint64_t choice,
		     uint64_t ret[LINE_WORDS]);
/* What the choice changes in the image's hash. */
uint64_t persist_delta(const struct persist *p, const struct persist_var *v, uint64_t choice);
/* The choice that has of the line just the stores that `want` says yes to, as far as ordered.
 */
uint64_t persist_choice(const struct persist *p, const struct persist_var *v,
			bool (*want)(void *arg, uint32_t group), void *arg);

#endif
