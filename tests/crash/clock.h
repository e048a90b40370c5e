/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The explorer's clock and processor: clock_gettime(CLOCK_REALTIME) and sched_getcpu of the
 * whole program are defined here, so that the same operations make the same bytes in every run
 * and the reference model knows each time exactly.
 */
#ifndef CRASH_CLOCK_H
#define CRASH_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CRASH_EPOCH 1700000000

void crash_clock_set(int64_t sec, long nsec);
struct timespec crash_clock(void);
void crash_cpu_set(int cpu);
/* CLOCK_MONOTONIC as the system has it. */
void syscall_clock(struct timespec *ret);
/* The real, monotonic clock in seconds. */
double crash_clock_real(void);
/* Processor time of this process in seconds. */
double crash_clock_cpu(void);

#endif
