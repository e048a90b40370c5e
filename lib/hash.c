/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses the variant of XXH3 and holds the one for any x86-64.
 *
 * xxHash picks its vector unit at compile time, so that its header is built once per target
 * (hash_avx2.c, hash_avx512.c). The choice is made before main() and never changes.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cpu.h"
#include "hash.h"

static uint64_t hash64_sse2(const void *p, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(p, len, seed);
}

const struct hash_variant hash_variants[] = {
    {"avx512", CPU_AVX512F, hash64_avx512},
    {"avx2", CPU_AVX2, hash64_avx2},
    {"sse2", 0, hash64_sse2},
};

static hash_function chosen = hash64_sse2;

__attribute__((constructor)) static void hash_choose(void)
{
	const struct hash_variant *v = hash_variants;

	while (v->needs & ~cpu_features())
		v++;
	chosen = v->hash;
}

uint64_t hash64(const void *p, size_t len, uint64_t seed)
{
	return chosen(p, len, seed);
}
