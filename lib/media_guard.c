/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The SIGBUS handler: a page that is poisoned, or beyond the end of a file that somebody
 * truncated, costs an error and not the process.
 *
 * 1. Whenever a range is added the handler is made the current one, and stays. Whatever it does
 *    not recognise it passes to the handler that was there before.
 * 2. Ranges are nodes that are never freed, only reused, so that the handler may walk the list
 *    without a lock while others add and remove. A thread that faults in a range keeps it from
 *    being removed: removing needs that nobody uses it.
 * 3. A thread's jump target is valid while `active` is set; only that thread sets it, around a
 *    call that never nests.
 *
 * Locks: add_lock, around the list's writers; a leaf.
 */
#include "media_guard.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "hash.h"
#include "util.h"
#include "xor.h"

struct guard_range {
	_Atomic uintptr_t base; /* 0: free */
	_Atomic uintptr_t end;
	struct guard_range *next; /* constant once linked */
};

static _Atomic(struct guard_range *) ranges;
static pthread_mutex_t add_lock = PTHREAD_MUTEX_INITIALIZER;

/* Where to pass what is not ours: two, so that the next can be written while one is in use. */
static struct sigaction previous[2];
static atomic_uint previous_index;

static _Thread_local struct {
	sigjmp_buf target;
	volatile sig_atomic_t active;
} guard;

/* Made by the linker from the section that GUARD_FIXUP fills. */
#define HIDDEN __attribute__((visibility("hidden")))
extern const struct guard_fixup __start_pmemfs_fixup[] HIDDEN;
extern const struct guard_fixup __stop_pmemfs_fixup[] HIDDEN;

static bool range_has(uintptr_t addr)
{
	struct guard_range *r = atomic_load_explicit(&ranges, memory_order_acquire);

	for (; r; r = r->next)
		if (addr >= atomic_load_explicit(&r->base, memory_order_relaxed) &&
		    addr < atomic_load_explicit(&r->end, memory_order_relaxed))
			return true;
	return false;
}

/* Where to go on after a fault of the instruction at ip, or 0. */
static uintptr_t fixup_find(uintptr_t ip)
{
	const struct guard_fixup *f;

	for (f = __start_pmemfs_fixup; f < __stop_pmemfs_fixup; f++)
		if ((uintptr_t)&f->insn + f->insn == ip)
			return (uintptr_t)&f->resume + f->resume;
	return 0;
}

static void handler_chain(int sig, siginfo_t *info, void *context)
{
	const struct sigaction *p = &previous[atomic_load(&previous_index)];

	if (p->sa_flags & SA_SIGINFO) {
		p->sa_sigaction(sig, info, context);
	} else if (p->sa_handler != SIG_DFL && p->sa_handler != SIG_IGN) {
		p->sa_handler(sig);
	} else {
		/* A fault comes again when the instruction is repeated; others do not. */
		signal(sig, SIG_DFL);
		if (info->si_code <= 0 || info->si_code >= BUS_MCEERR_AR)
			raise(sig);
	}
}

/* Whether the thread has just come back from a system call: its syscall instruction is 0f 05.
 */
static bool in_syscall(const greg_t *regs)
{
	return !memcmp((const char *)(uintptr_t)regs[REG_RIP] - 2, "\x0f\x05", 2);
}

/* Runs in the faulting thread, after the handler, in place of what faulted. */
static _Noreturn void leave(void)
{
	siglongjmp(guard.target, 1);
}

/* Makes the return from the handler a call of leave(), below the red zone of what faulted. */
static void leave_later(greg_t *regs)
{
	regs[REG_RSP] = ((regs[REG_RSP] - 128) & ~15ll) - 8;
	regs[REG_EFL] &= ~0x400ll; /* DF: a function may rely on its being clear */
	regs[REG_RIP] = (greg_t)leave;
}

/*
 * Changes where the thread goes on and returns, so that the kernel puts the signal mask back
 * and nothing jumps out of a handler.
 */
static void handler(int sig, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	uintptr_t resume;

	if (info->si_code <= 0 || !range_has((uintptr_t)info->si_addr)) {
		handler_chain(sig, info, context);
		return;
	}
	if (info->si_code == BUS_MCEERR_AO)
		return; /* found by the kernel in passing: whoever reads it will hear of it */
	if (info->si_code == BUS_MCEERR_AR && in_syscall(regs))
		return; /* the kernel met it in a buffer of ours: the call has said EFAULT */
	resume = fixup_find(regs[REG_RIP]);
	if (resume) {
		regs[REG_RIP] = resume;
	} else if (guard.active) {
		guard.active = 0;
		leave_later(regs);
	} else {
		handler_chain(sig, info, context);
	}
}

/*
 * Makes the handler the current one. A library or a test that brought its own since the last
 * time becomes the previous one. Under add_lock.
 */
static bool handler_install(void)
{
	struct sigaction sa = {.sa_sigaction = handler};
	unsigned next = !atomic_load(&previous_index);

	if (sigaction(SIGBUS, NULL, &previous[next]))
		return false;
	if ((previous[next].sa_flags & SA_SIGINFO) && previous[next].sa_sigaction == handler)
		return true;
	atomic_store(&previous_index, next);
	sa.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigemptyset(&sa.sa_mask);
	return sigaction(SIGBUS, &sa, NULL) == 0;
}

/* A free node of the list, made if there is none. Under add_lock. */
static struct guard_range *range_get(void)
{
	struct guard_range *r = atomic_load(&ranges);

	while (r && atomic_load(&r->base))
		r = r->next;
	if (r)
		return r;
	r = calloc(1, sizeof(*r));
	if (r) {
		r->next = atomic_load(&ranges);
		atomic_store_explicit(&ranges, r, memory_order_release);
	}
	return r;
}

struct guard_range *guard_add(const void *base, uint64_t size)
{
	struct guard_range *r = NULL;

	pthread_mutex_lock(&add_lock);
	if (handler_install())
		r = range_get();
	if (r) {
		atomic_store(&r->end, (uintptr_t)base + size);
		atomic_store(&r->base, (uintptr_t)base);
	}
	pthread_mutex_unlock(&add_lock);
	return r;
}

void guard_remove(struct guard_range *r)
{
	if (!r)
		return;
	pthread_mutex_lock(&add_lock);
	atomic_store(&r->end, 0);
	atomic_store(&r->base, 0);
	pthread_mutex_unlock(&add_lock);
}

int guard_read(void *dst, const void *src, size_t len)
{
	if (sigsetjmp(guard.target, 0))
		return -EIO;
	guard.active = 1;
	atomic_signal_fence(memory_order_seq_cst);
	memcpy(dst, src, len);
	atomic_signal_fence(memory_order_seq_cst);
	guard.active = 0;
	return 0;
}

int guard_hash(const void *src, size_t len, uint64_t seed, uint64_t *ret)
{
	uint64_t hash;

	if (sigsetjmp(guard.target, 0))
		return -EIO;
	guard.active = 1;
	atomic_signal_fence(memory_order_seq_cst);
	hash = hash64(src, len, seed);
	atomic_signal_fence(memory_order_seq_cst);
	guard.active = 0;
	*ret = hash;
	return 0;
}

int guard_run(void (*fn)(void *arg), void *arg)
{
	if (sigsetjmp(guard.target, 0))
		return -EIO;
	guard.active = 1;
	atomic_signal_fence(memory_order_seq_cst);
	fn(arg);
	atomic_signal_fence(memory_order_seq_cst);
	guard.active = 0;
	return 0;
}

int guard_xor(void *dst, const void *src, const void *more, size_t len)
{
	if (sigsetjmp(guard.target, 0))
		return -EIO;
	guard.active = 1;
	atomic_signal_fence(memory_order_seq_cst);
	xor_into(dst, src, more, len);
	atomic_signal_fence(memory_order_seq_cst);
	guard.active = 0;
	return 0;
}
