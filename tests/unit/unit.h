/* SPDX-License-Identifier: BSD-3-Clause */
/* What unit tests share: cmocka with its includes, and small helpers. */
#ifndef PMEMFS_TEST_UNIT_H
#define PMEMFS_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A generator of its own, so that a run can be repeated. */
static inline uint64_t unit_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static inline void unit_fill(void *p, size_t len, uint64_t seed)
{
	unsigned char *to = p;

	while (len--)
		*to++ = unit_random(&seed);
}

#endif
