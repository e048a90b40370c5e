/* SPDX-License-Identifier: BSD-3-Clause */
/* The differential test's parts: subjects, runs of operations, shrinking. */
#ifndef PMEMFS_TESTS_DIFF_H
#define PMEMFS_TESTS_DIFF_H

#include <stdbool.h>
#include <stdint.h>

#include "model.h"

#define WHY_MAX 4096

struct config {
	uint64_t seed;
	unsigned steps;
	unsigned full_every;	/* whole trees are compared every so many steps */
	unsigned remount_every; /* on average; 0: never */
	unsigned kill_every;
	uint64_t image;	 /* bytes */
	unsigned shards; /* 0: pmemfs chooses */
	bool replica;
	bool parity;
	const char *mount;    /* directory on a pmemfs mount, or NULL */
	const char *tmpfs;    /* directory on another filesystem, or NULL */
	const char *sequence; /* file of operations instead of random ones, or NULL */
	unsigned hang;	      /* seconds that a run may take */
	uint64_t file_size;   /* of the profile */
	bool no_core;
	bool verbose;
};

/* A filesystem under test, with the model that says what it should be. */
struct subject;
/* NULL after a message on stderr. */
struct subject *subject_new_core(const struct config *c);
struct subject *subject_new_dir(const struct config *c, const char *dir, bool pmemfs);
/* Removes everything it made. */
void subject_free(struct subject *s);
const struct model *subject_model(const struct subject *s);
/* What the last step answered. */
int64_t subject_answer(const struct subject *s);
/*
 * Does the operation on both, and compares result and the objects it names (full: everything).
 * False and why on a difference.
 */
bool subject_step(struct subject *s, const struct op *op, bool full, char *why);
/* After the last step: everything once more, then an empty filesystem must have all space back.
 */
bool subject_finish(struct subject *s, char *why);

/* Operations in a row. */
struct sequence {
	struct op *ops;
	size_t n, cap;
};
void sequence_add(struct sequence *q, const struct op *op);
int sequence_load(struct sequence *q, const char *path);
void sequence_print(const struct sequence *q, size_t from, FILE *out);

/*
 * Runs the operations of q (or, if make, random ones, which q then holds) on fresh subjects, in
 * a process of its own: that it dies or hangs is a difference like others. Returns 0; 1 for a
 * difference: why says it and q ends with the operation that shows it; 2 for trouble.
 */
struct outcome {
	size_t succeeded; /* operations of the first subject */
	size_t no_space;
};
int run_sequence(const struct config *c, struct sequence *q, bool make, char *why,
		 struct outcome *ret);

/* Leaves out of q what the difference does not need. */
void shrink(const struct config *c, struct sequence *q, char *why);

#endif
