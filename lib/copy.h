/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The store kernels: every way of getting whole 64-byte lines onto persistent memory.
 *
 * Nothing here is durable before a fence. All functions return 0, or -EIO when a store or flush
 * faulted within a guarded range (media_guard.h); what was stored is undefined then. dst is
 * 64-byte aligned, src may be anywhere; `lines` may be 0.
 */
#ifndef PMEMFS_COPY_H
#define PMEMFS_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COPY_LINE 64u

struct copy_kernel {
	const char *name;
	uint8_t number;	  /* on media; 1 and more, one for each name */
	unsigned needs;	  /* CPU_ bits */
	bool nontemporal; /* no flush is needed */
	bool eadr_only;	  /* never flushes: durable only where caches are */
	int (*copy)(void *dst, const void *src, size_t lines);
	int (*clear)(void *dst, size_t lines);
};

/*
 * All kernels, a NULL name ends the table. A name may stand in several rows, widest vector
 * first: the first row that the CPU can run is the one that bears the name.
 */
extern const struct copy_kernel copy_kernels[];

/* The row that runs under that name, NULL if there is none, or this CPU lacks what it needs. */
const struct copy_kernel *copy_find(const char *name);
/* The same by number. */
const struct copy_kernel *copy_by_number(unsigned number);
#define COPY_NUMBERS 11 /* numbers are below this */
/* Whether a kernel of that name exists at all. */
bool copy_known(const char *name);

/* The starting rule's two: the widest non-temporal kernel, cached stores + the best flush. */
const struct copy_kernel *copy_best_nontemporal(void);
const struct copy_kernel *copy_best_cached(bool eadr);

/* Writing back `lines` lines that hold dirty data. */
struct copy_flush {
	const char *name;
	unsigned needs;
	bool none; /* does nothing: eADR */
	int (*flush)(const void *line, size_t lines);
};
/* The best first; the last, for eADR, does nothing. NULL name ends the table. */
extern const struct copy_flush copy_flushes[];
const struct copy_flush *copy_best_flush(bool eadr);

/* Cached stores of len bytes at any address, in address order, aligned words in one piece. */
int copy_bytes(void *dst, const void *src, size_t len);
int copy_zeros(void *dst, size_t len);

/* One atomic cached store to an aligned word. */
int copy_store8(void *dst, uint64_t value);

#define COPY_AHEAD 16 /* lines: as many as a core has fill buffers; more would wait */

/*
 * A hint: these lines are going to be stored to, cached; asks for the first COPY_AHEAD. A store
 * needs the line, and otherwise asks for it only when it is its turn. A processor that does not
 * know the instruction skips it.
 */
static inline void copy_expect(const void *line, size_t lines)
{
	const char *at = line,
		   *end = at + (lines < COPY_AHEAD ? lines : COPY_AHEAD) * COPY_LINE;

	for (; at < end; at += COPY_LINE)
		__asm__ volatile("prefetchw %0" : : "m"(*at));
}

/* Orders and completes what this thread stored non-temporally and flushed. */
static inline void copy_fence(void)
{
	__asm__ volatile("sfence" ::: "memory");
}

#endif
