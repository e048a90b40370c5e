/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring which store kernel is fastest on a medium, for each size and number of writers.
 *
 * The starting rule holds until a measurement displaces it; calibrate.c says when that is.
 */
#ifndef PMEMFS_CALIBRATE_H
#define PMEMFS_CALIBRATE_H

#include "copy.h"
#include "media.h"

#define CALIBRATE_ROUNDS 31 /* at most */
#define CALIBRATE_LEAST	 3  /* what fewer rounds say does not count */

/*
 * Measures one store of `bytes` bytes (whole lines) with its fence, while writers - 1 other
 * threads do the same: nanoseconds, by the kernel of that number. 0 or negative errno.
 */
typedef int (*calibrate_measure)(void *arg, unsigned number, bool clear, size_t bytes,
				 unsigned writers, double *ret_ns);

struct calibrate_options {
	uint64_t off, len;    /* scratch area of the medium, line-aligned: it is overwritten */
	uint64_t budget_ns;   /* how long to measure, all together; a half more if need be */
	unsigned rounds;      /* at most; 0: CALIBRATE_ROUNDS */
	unsigned max_writers; /* 0: the number of CPUs */
	/* NULL: the stores are made and timed */
	calibrate_measure measure;
	void *measure_arg;
	/* May be NULL. done of total steps. */
	void (*progress)(void *arg, unsigned done, unsigned total);
	void *progress_arg;
};

/* What one kernel took in one cell of the table. */
struct calibrate_time {
	unsigned rounds;
	double ns;    /* median; 0: was not measured */
	double ratio; /* median over the rounds of its time to that of the incumbent */
	bool clear_win;
};

struct calibrate_result {
	struct media_table table;
	unsigned writers[MEDIA_WRITERS]; /* measured with so many; 0: the row above was taken */
	unsigned classes; /* that were measured; the last of them stands for more */
	struct calibrate_time time[2][MEDIA_WRITERS][MEDIA_CLASSES][COPY_NUMBERS]; /* [clear] */
};

/*
 * Fills ret->table and what led to it. 0, or: -ENOSPC: the scratch area is smaller than 64 KiB;
 * -EIO: it faulted; -ENOMEM, -EAGAIN: no memory, no threads; what `measure` returned.
 */
int calibrate(struct media *m, const struct calibrate_options *o, struct calibrate_result *ret);

#endif
