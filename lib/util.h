/* SPDX-License-Identifier: BSD-3-Clause */
/* Small things that every layer uses. */
#ifndef PMEMFS_UTIL_H
#define PMEMFS_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MIN(a, b)      ((a) < (b) ? (a) : (b))
#define MAX(a, b)      ((a) > (b) ? (a) : (b))
#define ROUND_UP(x, n) (((x) + (n)-1) / (n) * (n))
#define DIV_UP(x, n)   (((x) + (n)-1) / (n))
#define ARRAY_LEN(a)   (sizeof(a) / sizeof((a)[0]))
#define likely(x)      __builtin_expect(!!(x), 1)
#define unlikely(x)    __builtin_expect(!!(x), 0)

/* For a mutex that is held for less than falling asleep takes: who waits tries for a while. */
static inline void short_mutex_init(pthread_mutex_t *m)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(m, &a);
	pthread_mutexattr_destroy(&a);
}

/*
 * Memory for DRAM structures. When there is none the process ends as if killed: by design that
 * loses nothing durable, and Linux hardly ever reports it in any other way.
 */
static inline void *xrealloc(void *p, size_t size)
{
	p = realloc(p, size);
	if (!p)
		abort();
	return p;
}

static inline void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		abort();
	return p;
}

/* Makes room for `need` elements of `size` bytes in a growing array. */
static inline void *grow_array(void *p, size_t *cap, size_t need, size_t size)
{
	if (need <= *cap)
		return p;
	*cap = MAX(need, *cap + *cap / 2 + 4);
	return xrealloc(p, *cap * size);
}

#endif
