/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the processor offers and the operating system has enabled.
 *
 * Raw CPUID, because compilers' own tests do not know clwb or movdir64b, and XGETBV, because
 * CPUID alone does not allow the vector registers.
 */
#ifndef PMEMFS_CPU_H
#define PMEMFS_CPU_H

#include <stdint.h>

#define CPU_CLFLUSH    0x01u
#define CPU_CLFLUSHOPT 0x02u
#define CPU_CLWB       0x04u
#define CPU_AVX2       0x08u /* with the ymm state enabled */
#define CPU_AVX512F    0x10u /* with the zmm and mask state enabled */
#define CPU_MOVDIR64B  0x20u

/* The CPU_ bits of this machine. Cheap after the first call; any thread. */
unsigned cpu_features(void);

/* CPUID leaf 1 EAX: family, model and stepping, for remembering what was measured where. */
uint32_t cpu_model(void);

#endif
