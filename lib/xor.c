/* SPDX-License-Identifier: BSD-3-Clause */
/* One body, and a wrapper for each target. The choice is made before main(), and stays. */
#include "xor.h"

#include <stdint.h>

#include "cpu.h"

/* Unaligned, and aliasing anything. */
typedef uint64_t xor64 __attribute__((vector_size(64), aligned(1), may_alias));
typedef uint64_t xor32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint64_t xor16 __attribute__((vector_size(16), aligned(1), may_alias));

#define XOR(name, vector, attribute)                                                    \
	attribute static void name(void *dst, const void *a, const void *b, size_t len) \
	{                                                                               \
		uint8_t *d = dst;                                                       \
		const uint8_t *p = a, *q = b;                                           \
		size_t k = 0;                                                           \
                                                                                        \
		for (; q && k + sizeof(vector) <= len; k += sizeof(vector))             \
			*(vector *)(d + k) ^=                                           \
			    *(const vector *)(p + k) ^ *(const vector *)(q + k);        \
		for (; !q && k + sizeof(vector) <= len; k += sizeof(vector))            \
			*(vector *)(d + k) ^= *(const vector *)(p + k);                 \
		for (; k < len; k++)                                                    \
			d[k] ^= p[k] ^ (q ? q[k] : 0);                                  \
	}

XOR(xor_avx512, xor64, __attribute__((target("avx512f"))))
XOR(xor_avx2, xor32, __attribute__((target("avx2"))))
XOR(xor_sse2, xor16, )

const struct xor_variant xor_variants[] = {
    {"avx512", CPU_AVX512F, xor_avx512},
    {"avx2", CPU_AVX2, xor_avx2},
    {"sse2", 0, xor_sse2},
};

static const struct xor_variant *chosen = &xor_variants[2];

__attribute__((constructor)) static void xor_choose(void)
{
	const struct xor_variant *v = xor_variants;

	while (v->needs & ~cpu_features())
		v++;
	chosen = v;
}

void xor_into(void *dst, const void *a, const void *b, size_t len)
{
	chosen->xor (dst, a, b, len);
}
