/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock and processor number that the program under test sees. Threads share them. */
#include "clock.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct timespec now = {.tv_sec = CRASH_EPOCH};
static int cpu_now;

int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) {
		*ts = now;
		return 0;
	}
	return (int)syscall(SYS_clock_gettime, id, ts);
}

time_t time(time_t *t)
{
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}

int sched_getcpu(void)
{
	return cpu_now;
}

void crash_clock_set(int64_t sec, long nsec)
{
	now = (struct timespec){.tv_sec = sec, .tv_nsec = nsec};
}

struct timespec crash_clock(void)
{
	return now;
}

void crash_cpu_set(int cpu)
{
	cpu_now = cpu;
}

void syscall_clock(struct timespec *ret)
{
	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, ret);
}

static double seconds(clockid_t id)
{
	struct timespec ts;
	syscall(SYS_clock_gettime, id, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

double crash_clock_real(void)
{
	return seconds(CLOCK_MONOTONIC);
}

double crash_clock_cpu(void)
{
	return seconds(CLOCK_PROCESS_CPUTIME_ID);
}
