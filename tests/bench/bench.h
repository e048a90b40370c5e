/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the benchmarks share: the command line, the medium, tables of medians as text, JSON and
 * pictures. All of them end the program when something fails.
 */
#ifndef PMEMFS_BENCH_H
#define PMEMFS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "media.h"

struct bench {
	const char *name, *device; /* device NULL: memory */
	const char *plot;	   /* file for the picture, or NULL */
	bool json, quick, force;
	bool mounted; /* on a mount too: those that take --mount */
	unsigned rounds, threads;
	/* bench_open */
	struct media *media;
	char *scratch; /* the image file that was made, or NULL */
	struct table *tables, **last;
};

#define BENCH_MOUNT   1u /* takes --mount */
#define BENCH_THREADS 2u /* takes --threads */

/* Parses the command line; help and mistakes end the program. `what` says what is measured. */
void bench_begin(struct bench *b, int argc, char **argv, unsigned takes, const char *what);

/*
 * Opens the medium: the device, which must hold nothing unless forced, or an image file of that
 * many bytes in memory. A filesystem is made on it and calibrated: b->media copies like that.
 */
void bench_open(struct bench *b, uint64_t bytes);
/* Closes and opens it again, for a while in which a mount has it. */
void bench_close(struct bench *b);
void bench_reopen(struct bench *b);

/* Where a mount is, to be undone when the program is interrupted; NULL. */
extern const char *bench_mounted;

/* Prints all tables, draws the picture, takes away what was made. Returns the exit code. */
int bench_end(struct bench *b);

void bench_die(const char *what, int64_t error) __attribute__((noreturn));
#define MUST(what, call)                        \
	({                                      \
		int64_t must_ = (call);         \
		if (must_ < 0)                  \
			bench_die(what, must_); \
		must_;                          \
	})

double bench_now(void); /* seconds */
uint64_t bench_random(uint64_t *state);
/* "4 KiB" */
const char *bench_size(uint64_t bytes, char buf[24]);

/* ---- tables ---- */

struct table;
/* rows x columns of which each cell collects a value a round and shows the median. */
struct table *table_new(struct bench *b, const char *title, const char *unit, const char *head,
			unsigned rows, unsigned cols);
void table_row(struct table *t, unsigned row, const char *name);
void table_col(struct table *t, unsigned col, const char *name);
void table_hide(struct table *t, unsigned col); /* from the picture */
void table_add(struct table *t, unsigned row, unsigned col, double value);
/* Median; 0: nothing was added. */
double table_get(const struct table *t, unsigned row, unsigned col);
/* Median over the rounds of a cell's value to another's of the row, both in the same round. */
double table_ratio(const struct table *t, unsigned row, unsigned col, unsigned to);

#endif
