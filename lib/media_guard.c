/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The SIGBUS handler: a page that is poisoned, or beyond the end of a file that somebody
 * truncated, costs an error and not the process.
 *
 * 1. The handler is installed once, before the first range is added, and stays. Whatever it
 *    does not recognise it passes to the handler that was there before.
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

struct guard_range {
	_Atomic uintptr_t base; /* 0: free */
	_Atomic uintptr_t end;
	struct guard_range *next; /* constant once linked */
};

static _Atomic(struct guard_range *) ranges;
static pthread_mutex_t add_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_once_t install_once = PTHREAD_ONCE_INIT;
static bool installed;
static struct sigaction previous;

static _Thread_local struct {
	sigjmp_buf target;
	volatile sig_atomic_t active;
} guard;

/* Made by the linker from the section that GUARD_FIXUP fills. */
extern const struct guard_fixup __start_pmemfs_fixup[], __stop_pmemfs_fixup[];

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
	if (previous.sa_flags & SA_SIGINFO) {
		previous.sa_sigaction(sig, info, context);
	} else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
		previous.sa_handler(sig);
	} else {
		/* A fault comes again when the instruction is repeated; a kill() does not. */
		signal(sig, SIG_DFL);
		if (info->si_code <= 0)
			raise(sig);
	}
}

static void handler(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	uintptr_t resume;

	if (info->si_code <= 0 || !range_has((uintptr_t)info->si_addr)) {
		handler_chain(sig, info, context);
		return;
	}
	if (info->si_code == BUS_MCEERR_AO)
		return; /* found by the kernel in passing: whoever reads it will hear of it */
	resume = fixup_find(uc->uc_mcontext.gregs[REG_RIP]);
	if (resume) {
		uc->uc_mcontext.gregs[REG_RIP] = resume;
	} else if (guard.active) {
		guard.active = 0;
		siglongjmp(guard.target, 1);
	} else {
		handler_chain(sig, info, context);
	}
}

static void install(void)
{
	struct sigaction sa = {.sa_sigaction = handler};

	/* NODEFER: leaving by siglongjmp must not leave SIGBUS blocked, and no mask is saved.
	 */
	sa.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
	sigemptyset(&sa.sa_mask);
	installed =
	    sigaction(SIGBUS, NULL, &previous) == 0 && sigaction(SIGBUS, &sa, NULL) == 0;
}

struct guard_range *guard_add(const void *base, uint64_t size)
{
	struct guard_range *r;

	pthread_once(&install_once, install);
	if (!installed)
		return NULL;
	pthread_mutex_lock(&add_lock);
	for (r = atomic_load(&ranges); r && atomic_load(&r->base); r = r->next)
		;
	if (!r) {
		r = calloc(1, sizeof(*r));
		if (r) {
			r->next = atomic_load(&ranges);
			atomic_store_explicit(&ranges, r, memory_order_release);
		}
	}
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
