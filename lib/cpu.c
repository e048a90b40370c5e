/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feature detection by CPUID and XGETBV; see cpu.h.
 *
 * The answer is computed by whoever asks first and cached in one word. Two threads may compute
 * it at the same time; they get the same result.
 */
#include "cpu.h"

#include <cpuid.h>
#include <stdatomic.h>

#define KNOWN 0x80000000u /* set in the cached word */

#define XCR0_YMM 0x06u /* SSE and AVX state */
#define XCR0_ZMM 0xe6u /* and opmask, ZMM_Hi256, Hi16_ZMM */

static uint32_t read_xcr0(void)
{
	uint32_t eax, edx;

	__asm__("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
	return eax;
}

static unsigned detect(void)
{
	unsigned eax, ebx, ecx, edx, features = 0;
	uint32_t xcr0 = 0;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx))
		return 0;
	if (edx & (1u << 19))
		features |= CPU_CLFLUSH;
	if (ecx & (1u << 27)) /* OSXSAVE: xgetbv exists */
		xcr0 = read_xcr0();
	if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
		return features;
	if (ebx & (1u << 23))
		features |= CPU_CLFLUSHOPT;
	if (ebx & (1u << 24))
		features |= CPU_CLWB;
	if ((ebx & (1u << 5)) && (xcr0 & XCR0_YMM) == XCR0_YMM)
		features |= CPU_AVX2;
	if ((ebx & (1u << 16)) && (xcr0 & XCR0_ZMM) == XCR0_ZMM)
		features |= CPU_AVX512F;
	if (ecx & (1u << 28))
		features |= CPU_MOVDIR64B;
	return features;
}

unsigned cpu_features(void)
{
	static atomic_uint cache;
	unsigned features = atomic_load_explicit(&cache, memory_order_relaxed);

	if (!features) {
		features = detect() | KNOWN;
		atomic_store_explicit(&cache, features, memory_order_relaxed);
	}
	return features & ~KNOWN;
}

uint32_t cpu_model(void)
{
	unsigned eax, ebx, ecx, edx;

	return __get_cpuid(1, &eax, &ebx, &ecx, &edx) ? eax : 0;
}
