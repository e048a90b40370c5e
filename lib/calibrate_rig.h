/* SPDX-License-Identifier: BSD-3-Clause */
/* The stores that calibration times, and benchmarks too: one kernel, one size, some writers. */
#ifndef PMEMFS_CALIBRATE_RIG_H
#define PMEMFS_CALIBRATE_RIG_H

#include "media.h"

struct calibrate_rig;

/* Writes over [off, off + len) of the medium; at most `writers` at a time. */
int rig_make(struct media *m, uint64_t off, uint64_t len, unsigned writers,
	     struct calibrate_rig **ret);
void rig_free(struct calibrate_rig *rig); /* NULL is allowed */

/* How many stores of a size one measurement makes, about. */
#define RIG_BURST	  131072
#define RIG_MANY	  96
#define RIG_BURSTS(bytes) ((bytes) < 1u << 20 ? 3u : 2u)
#define RIG_IN_BURST(bytes) \
	MAX(1u, MIN((unsigned)RIG_MANY, (unsigned)(RIG_BURST / ((bytes) + 640))))
#define RIG_STORES(bytes) (RIG_BURSTS(bytes) * RIG_IN_BURST(bytes))

/* A calibrate_measure; arg is the rig. */
int rig_measure(void *arg, unsigned number, bool clear, size_t bytes, unsigned writers,
		double *ret_ns);

/* Helpers sleep until the next measurement with several writers. */
void rig_rest(struct calibrate_rig *rig);

#endif
