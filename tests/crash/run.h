/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs workloads on a trial; writes and reads replay files; shrinks what failed. */
#ifndef CRASH_RUN_H
#define CRASH_RUN_H

#include <stdio.h>

#include "starts.h"
#include "trial.h"
#include "workload.h"

struct run_options {
	enum persist_model model;
	uint64_t limit;		/* combinations of a point that are all tried */
	unsigned pairs, random; /* of a capped plan */
	unsigned depth;		/* 2: crashes in recovery too */
	uint64_t nested_limit;	/* the same in recovery */
	uint64_t alike;		/* recoveries that store the same: so many are explored */
	enum trial_checks checks;
	unsigned fill_every; /* one state in so many is filled to the brim */
	uint64_t fsck_every; /* one in so many is recovered by fsck -y too */
	uint64_t seed;
	unsigned steps; /* of random workloads */
	bool reads;	/* the program is linked with readset_wrap.c */
	bool dry;	/* follow the events, judge nothing */
};
extern const struct run_options run_defaults;

void run_configure(struct trial *t, const struct run_options *o);

/*
 * Runs the workload; 0, or -1 with t->why and the index of the operation that failed in
 * *ret_op (w->n: the end). Operations of a random workload are added to w.
 */
int run_workload(struct trial *t, const struct starts *st, struct workload *w,
		 const struct run_options *o, unsigned *ret_op);

/* From here on reports name the functions whose stores are pending. */
void run_explain(struct trial *t);

/* The same in a child process that may crash or hang; why (of size len) says what happened. */
int run_isolated(struct trial *t, const struct starts *st, const struct workload *w,
		 const struct run_options *o, unsigned seconds, char *why, size_t len);

/* Takes operations away and makes numbers smaller while it still fails, for so many seconds. */
void run_shrink(struct trial *t, const struct starts *st, struct workload *w,
		const struct run_options *o, double seconds, char *why, size_t len);

void replay_write(FILE *out, const struct workload *w, const struct run_options *o,
		  const char *why);
/* 0 or -EINVAL and the line in *ret_line. */
int replay_read(FILE *in, struct workload *w, struct run_options *o, unsigned *ret_line);

#endif
