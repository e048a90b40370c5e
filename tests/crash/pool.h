/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the workloads of a tier in several processes. */
#ifndef CRASH_POOL_H
#define CRASH_POOL_H

#include "run.h"

enum tier { TIER_SHORT, TIER_COMMIT, TIER_LONG, TIERS };
extern const char *const tier_names[TIERS];

struct pool_options {
	struct run_options run;
	enum tier tier;
	enum tier plan; /* whose limits hold; TIERS: the tier's own */
	double budget;	/* seconds; 0: the tier's own */
	unsigned workers;
	const char *failures; /* folder for replay files */
	const char *only;     /* regular expression on workloads' names, or NULL */
};
/* Exit code: 0, or 1 after a failure. */
int pool_run(const struct pool_options *o);
int pool_list(const struct pool_options *o);

#endif
