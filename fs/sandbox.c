/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whoever takes over the daemon, by an image or by requests, gets a process that can read and
 * write the files it has open and can do next to nothing else.
 *
 * What is not in the table kills the process: a call that nobody here makes is somebody else's,
 * and a killed daemon loses nothing that was durable. Four kinds fail instead, for the C
 * library makes them on its own account and does without:
 *
 *	opening a file	(how many CPUs there are, a library for ending threads): EACCES
 *	naming memory	for who reads /proc/.../maps: EINVAL, as where nobody can
 *	clone3		whose flags are in memory, where no filter can look: ENOSYS, then it
 *			takes clone
 *	calls that are younger than this table: ENOSYS, as on an older kernel
 */
#include "sandbox.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZER
#endif
#endif

/* Sanitizers write their reports into files of their own. */
#ifdef SANITIZER
#define OPENING SCMP_ACT_ALLOW
#define NAMING	SCMP_ACT_ALLOW
#else
#define OPENING SCMP_ACT_ERRNO(EACCES)
#define NAMING	SCMP_ACT_ERRNO(EINVAL)
#endif

/* What came with Linux 6.2 and later, up to where x32 has numbers of its own. */
#define YOUNG_FIRST 451
#define YOUNG_LAST  511

/* Flags of clone by which it would make more, or less, than a thread. */
#define CLONE_NEW                                                                      \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)

struct row {
	int call;
	uint32_t action; /* 0: allowed */
	unsigned n;	 /* conditions, all of which must hold */
	struct scmp_arg_cmp arg[2];
};

/* Bits of an argument that have to be so; an argument that has to be that. */
#define BITS(i, mask, value)                       \
	{                                          \
		i, SCMP_CMP_MASKED_EQ, mask, value \
	}
#define IS(i, value)                     \
	{                                \
		i, SCMP_CMP_EQ, value, 0 \
	}

static const struct row always[] = {
    {SCMP_SYS(read)},	/* requests; the monitor's answers */
    {SCMP_SYS(write)},	/* to the monitor; messages in the foreground; waking the seat */
    {SCMP_SYS(writev)}, /* replies */
    {SCMP_SYS(poll)},	/* the seat; the monitor; whether the mount is there */
    {SCMP_SYS(futex)},	/* locks */
    {SCMP_SYS(close)},	/* the end */
    {SCMP_SYS(dup2)},	/* daemon_ready: /dev/null in place of the terminal */
    {SCMP_SYS(fcntl), 0, 1, {IS(1, F_SETFL)}}, /* polling, or sleeping in read */
    {SCMP_SYS(fcntl), 0, 1, {IS(1, F_GETFL)}},
    {SCMP_SYS(msync)}, /* fsync on a file of a disk filesystem */

    /* memory: never executable, never of a file */
    {SCMP_SYS(mmap),
     0,
     2,
     {BITS(2, PROT_EXEC, 0), BITS(3, MAP_ANONYMOUS, MAP_ANONYMOUS)}}, /* malloc, stacks */
    {SCMP_SYS(mprotect), 0, 1, {BITS(2, PROT_EXEC, 0)}},	      /* the same */
    {SCMP_SYS(munmap)},						      /* the same; the medium */
    {SCMP_SYS(mremap)},						      /* realloc */
    {SCMP_SYS(madvise)},					      /* free; ended threads */
    {SCMP_SYS(brk)},						      /* malloc */

    /* threads, made as they are needed */
    {SCMP_SYS(clone), 0, 1, {BITS(0, CLONE_THREAD | CLONE_NEW, CLONE_THREAD)}},
    {SCMP_SYS(clone3), SCMP_ACT_ERRNO(ENOSYS)},
    {SCMP_SYS(set_robust_list)},   /* each thread's beginning */
    {SCMP_SYS(rseq)},		   /* the same */
    {SCMP_SYS(sched_getaffinity)}, /* malloc: how many arenas */
    {SCMP_SYS(sched_yield)},	   /* locks */
    {SCMP_SYS(exit)},		   /* each thread's end */
    {SCMP_SYS(exit_group)},

    /* signals */
    {SCMP_SYS(rt_sigaction)},	 /* the one that wakes; what the SIGBUS handler passes on */
    {SCMP_SYS(rt_sigprocmask)},	 /* making threads; abort */
    {SCMP_SYS(rt_sigreturn)},	 /* the SIGBUS handler */
    {SCMP_SYS(rt_sigtimedwait)}, /* sigwait */
    {SCMP_SYS(rt_sigpending)},	 /* whether to go on setting up */
    {SCMP_SYS(restart_syscall)}, /* by the kernel, after a stop */
    {SCMP_SYS(getpid)},		 /* pthread_kill, abort */
    {SCMP_SYS(gettid)},		 /* the same */

    /* time, where the vDSO has no clock */
    {SCMP_SYS(clock_gettime)},
    {SCMP_SYS(gettimeofday)},
    {SCMP_SYS(clock_nanosleep)}, /* waiting for the end */
    {SCMP_SYS(nanosleep)},	 /* the same, in older libraries */

    {SCMP_SYS(getrandom)}, /* malloc */
    {SCMP_SYS(sysinfo)},   /* qsort, at unmounting: how much memory there is */

    {SCMP_SYS(prctl), NAMING, 1, {IS(0, PR_SET_VMA)}},
    {SCMP_SYS(open), OPENING},
    {SCMP_SYS(openat), OPENING},
};

/* The rings are made when the kernel is greeted, before the sandbox. */
static const struct row with_uring[] = {
    {SCMP_SYS(io_uring_enter)},
};

#ifdef SANITIZER
/* What the run-time libraries of the sanitizers do: stacks for signals of each thread, reports
 * into files, and at the end a process that stops this one to look for leaks. */
static const struct row with_sanitizer[] = {
    {SCMP_SYS(sigaltstack)}, {SCMP_SYS(prctl)}, {SCMP_SYS(getppid)},  {SCMP_SYS(clone)},
    {SCMP_SYS(ptrace)},	     {SCMP_SYS(wait4)}, {SCMP_SYS(getdents)}, {SCMP_SYS(lseek)},
    {SCMP_SYS(fcntl)},	     {SCMP_SYS(ioctl)}, {SCMP_SYS(fstat)},    {SCMP_SYS(newfstatat)},
    {SCMP_SYS(readlink)},    {SCMP_SYS(mmap)}, /* of its own program, for the names of functions
						*/
};
#endif

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static int add_rows(scmp_filter_ctx filter, const struct row *rows, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = seccomp_rule_add_array(filter,
					   rows[i].action ? rows[i].action : SCMP_ACT_ALLOW,
					   rows[i].call, rows[i].n, rows[i].arg);
	return r;
}

static int add_all(scmp_filter_ctx filter, bool uring)
{
	/* waking threads of ours, abort */
	const struct row own[] = {{SCMP_SYS(tgkill), 0, 1, {IS(0, (uint64_t)getpid())}}};
	int r = add_rows(filter, always, COUNT(always));

	if (r == 0)
		r = add_rows(filter, own, COUNT(own));
#ifdef SANITIZER
	if (r == 0)
		r = add_rows(filter, with_sanitizer, COUNT(with_sanitizer));
#endif
	if (r == 0 && uring)
		r = add_rows(filter, with_uring, COUNT(with_uring));
	for (int call = YOUNG_FIRST; call <= YOUNG_LAST && r == 0; call++)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), call, 0);
	return r;
}

static int set_attributes(scmp_filter_ctx filter)
{
	static const struct {
		enum scmp_filter_attr attr;
		uint32_t value;
	} attributes[] = {
	    {SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS},
	    {SCMP_FLTATR_CTL_TSYNC, 1},	   /* all threads, io_uring's exist already */
	    {SCMP_FLTATR_CTL_OPTIMIZE, 2}, /* a tree */
	    {SCMP_FLTATR_API_SYSRAWRC, 1}, /* what the kernel said */
	};
	int r = 0;

	for (size_t i = 0; i < COUNT(attributes) && r == 0; i++)
		r = seccomp_attr_set(filter, attributes[i].attr, attributes[i].value);
	/* Slower memory against code of others in the process, which there is none of; old
	 * kernels and libraries cannot tell. */
	seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	return r;
}

static bool kernel_has_filters(void)
{
	uint32_t action = SECCOMP_RET_KILL_PROCESS;

	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

int sandbox_enter(bool uring)
{
	scmp_filter_ctx filter;
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (!kernel_has_filters())
		return -ENOSYS;
	filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	if (!filter)
		return -ENOMEM;
	r = set_attributes(filter);
	if (r == 0)
		r = add_all(filter, uring);
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

int sandbox_keep_capabilities(const int *keep)
{
	capng_type_t both = CAPNG_EFFECTIVE | CAPNG_PERMITTED;
	capng_select_t sets = CAPNG_SELECT_CAPS | CAPNG_SELECT_AMBIENT;
	uint64_t kept = 0;

	if (capng_get_caps_process() < 0)
		return -EPERM;
	/* Without it the bounding set stays; it counts at an exec. */
	if (capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP))
		sets |= CAPNG_SELECT_BOUNDS;
	for (; *keep >= 0; keep++)
		if (capng_have_capability(CAPNG_PERMITTED, *keep))
			kept |= 1ull << *keep;
	capng_clear(CAPNG_SELECT_ALL);
	for (unsigned i = 0; i <= CAP_LAST_CAP; i++)
		if (kept >> i & 1)
			capng_update(CAPNG_ADD, both | CAPNG_BOUNDING_SET, i);
	return capng_apply(sets) < 0 ? -EPERM : 0;
}
