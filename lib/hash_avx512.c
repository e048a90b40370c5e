/* SPDX-License-Identifier: BSD-3-Clause */
/* XXH3-64 for machines with AVX-512; see hash.c, which calls it only there. */
#include "hash.h"
#include "hash_target.h"

HASH_TARGET("avx512f")

#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX512
#include <xxhash.h>

uint64_t hash64_avx512(const void *p, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, len, seed);
}

HASH_TARGET_END
