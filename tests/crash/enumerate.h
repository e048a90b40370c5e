/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of the states that a set of pending lines allows are visited: all of them where their
 * number is within the limit, otherwise a plan.
 */
#ifndef CRASH_ENUMERATE_H
#define CRASH_ENUMERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "persist.h"

#define ENUM_LIMIT  4096u /* all combinations up to here */
#define ENUM_PAIRS  2048u /* pairs of stores, and of lines, in a capped plan */
#define ENUM_RANDOM 64u

struct enum_options {
	uint64_t limit;	 /* 0: ENUM_LIMIT */
	unsigned pairs;	 /* pairs in a capped plan; 0: ENUM_PAIRS */
	unsigned random; /* random states in a capped plan */
	uint64_t seed;
};

/*
 * The assignment that is being visited: one choice for each var, the sum of what they change in
 * the image's hash, and the vars that are not at choice 0.
 */
struct assignment {
	const struct persist *p;
	struct persist_var *vars;
	size_t n, cap;
	uint64_t *choice;
	uint64_t *delta;
	uint64_t sum;
	uint32_t *groups; /* the stores that are pending, ascending */
	size_t n_groups, cap_groups;
};
void assignment_close(struct assignment *a);
/* Starts anew with the lines that are pending in p: choice 0 everywhere. */
void assignment_load(struct assignment *a, const struct persist *p);
void assignment_set(struct assignment *a, size_t i, uint64_t choice);
static inline uint64_t assignment_hash(const struct assignment *a)
{
	return a->p->base_hash + a->sum;
}
/* The number of all assignments; saturates at PERSIST_COUNT_MAX. */
uint64_t assignment_count(const struct assignment *a);

/* Returns non-zero to stop; enumerate returns it. */
typedef int (*enum_visit)(void *arg, const struct assignment *a);

enum enum_cover {
	COVER_ALL,   /* every state */
	COVER_LINES, /* every subset of the lines and of the stores, each whole or not at all */
	COVER_STORES, /* every subset of the stores */
	COVER_PLAN,   /* what the plan has */
	COVERS
};

/*
 * Visits states of the loaded assignment; some may come twice. *ret_cover tells how much of
 * them all that was.
 */
int enumerate(struct assignment *a, const struct enum_options *o, enum_visit visit, void *arg,
	      enum enum_cover *ret_cover);

#endif
