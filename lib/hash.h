/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XXH3-64 with a seed, by the widest vector unit of the machine. The result is the same on all.
 */
#ifndef PMEMFS_HASH_H
#define PMEMFS_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t (*hash_function)(const void *p, size_t len, uint64_t seed);

/* XXH3_64bits_withSeed. Any thread. */
uint64_t hash64(const void *p, size_t len, uint64_t seed);

/* One implementation of hash64, for tests and benchmarks. */
struct hash_variant {
	const char *name;
	unsigned needs; /* CPU_ bits */
	hash_function hash;
};
/* Widest first; the last needs nothing and ends the table. */
extern const struct hash_variant hash_variants[];

/* Each lives in its own file, compiled for its target. */
uint64_t hash64_avx512(const void *p, size_t len, uint64_t seed);
uint64_t hash64_avx2(const void *p, size_t len, uint64_t seed);

#endif
