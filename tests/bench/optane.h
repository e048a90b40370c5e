/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model of an Optane DIMM behind the media layer's hook: it counts what the medium has to do
 * for a trace of stores, flushes and fences, and estimates how long that takes. So that
 * decisions for real persistent memory can be tested on a machine that has none.
 */
#ifndef PMEMFS_BENCH_OPTANE_H
#define PMEMFS_BENCH_OPTANE_H

#include "media.h"

#define OPTANE_LINE    256u /* the medium's own line */
#define OPTANE_BUFFER  64u  /* lines in the write buffer: 16 KiB */
#define OPTANE_WRITERS 16u

/* Nanoseconds. See optane.c for where the numbers come from. */
struct optane_params {
	double nt_line;	     /* 64 bytes stored non-temporally */
	double cached_line;  /* 64 bytes stored to the cache and written back */
	double nt_fence;     /* a fence behind non-temporal stores */
	double cached_fence; /* a fence behind lines that were written back */
	double software;     /* what the caller does for each fence */
	double media_write;  /* the medium writes a line of its own */
	double media_read;   /* and reads one, to complete it */
	double rewrite;	     /* from a line's arrival until it can come again */
};
extern const struct optane_params optane_published;

struct optane {
	struct optane_params params;
	/* counts */
	uint64_t bytes;	       /* stored by the program */
	uint64_t lines;	       /* of 64 bytes that arrived */
	uint64_t media_writes; /* lines of 256 bytes written */
	uint64_t media_reads;  /* and read, since they came in parts */
	uint64_t rewrites;     /* lines that came again before they could */
	uint64_t fences;
	/* inside */
	unsigned writer; /* whose stores come now; the caller sets it */
	struct {
		double now;
		bool nt, cached; /* since the fence */
	} w[OPTANE_WRITERS];
	double media_free; /* when the medium has done what it was given */
	struct {
		uint64_t line, used;
		uint8_t parts; /* which of its four; 0: free */
	} buffer[OPTANE_BUFFER];
	uint64_t uses;
	struct {
		uint64_t line; /* + 1 */
		double when;
	} recent[1024]; /* by line number */
};

void optane_init(struct optane *o, const struct optane_params *params);
/* For media_set_hook; arg is the model. One thread. */
void optane_hook(void *arg, enum media_event ev, uint64_t off, const void *bytes, size_t len);
/* Writes out the buffer, so that all is counted. */
void optane_drain(struct optane *o);
/* The time of the writer that took longest. */
double optane_ns(const struct optane *o);
/* Bytes written to the medium for each byte that was stored. */
double optane_amplification(const struct optane *o);

#endif
