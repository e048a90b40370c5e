/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timing stores as the filesystem makes them: from memory that is in the cache, to places all
 * over the scratch area, with a fence after each.
 *
 * 1. The caller's thread is the one that is timed. Helpers, one for each further writer, store
 *    the same way in parts of the area of their own, from before the first timed store on. They
 *    go on until they are told something else, so that telling costs no time. If a helper does
 *    not get a CPU in time, measuring goes on without it.
 * 2. The time of a burst of stores is taken some times over and the least counts: what
 *    interrupts a burst only ever makes it longer.
 * 3. Every page of the area is written once before, so that no fault is timed.
 *
 * Locks: `lock`, for helpers that sleep; a leaf.
 */
#include "calibrate_rig.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "media_impl.h"

#define SOURCE	(4u << 20) /* the largest store */
#define WAIT_NS 200000

/* What all writers do, in one word: bytes << 32 | writers << 16 | clear << 8 | kernel. */
typedef uint64_t job_word;

struct helper {
	struct calibrate_rig *rig;
	unsigned index; /* 1 and more */
	pthread_t thread;
	_Atomic job_word doing; /* has stored that at least once */
};

struct calibrate_rig {
	struct media *m;
	media_hook hook; /* what it was: measuring is not for it */
	uint64_t off, len;
	char *source;
	struct helper *helper;
	unsigned helpers;
	_Atomic job_word job; /* 0: none */
	uint64_t random; /* of the timed thread: no two measurements store to the same places */
	atomic_bool end;
	atomic_int failed;
	pthread_mutex_t lock;
	pthread_cond_t cond;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static job_word job_make(unsigned number, bool clear, size_t bytes, unsigned writers)
{
	return (uint64_t)bytes << 32 | writers << 16 | (unsigned)clear << 8 | number;
}

static unsigned job_writers(job_word job)
{
	return job >> 16 & 0xffff;
}

/*
 * A store somewhere in the part of the area that belongs to one writer and, where there is
 * room, to the kernel: which lines another has left in the cache is no business of it.
 */
static int store_once(const struct calibrate_rig *rig, job_word job, unsigned writer,
		      uint64_t *random)
{
	unsigned number = job & 0xff, writers = job_writers(job);
	const struct copy_kernel *k = copy_by_number(number);
	const char *src = job & 0x100 ? NULL : rig->source;
	size_t bytes = job >> 32, align = MAX(COPY_LINE, MIN(bytes, 4096u));
	uint64_t own = rig->len / COPY_NUMBERS / 4096 * 4096;
	bool apart = own / writers >= bytes;
	uint64_t part = (apart ? own : rig->len) / writers / align * align;
	uint64_t places = (part - bytes) / align + 1, at;

	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	at = ((*random >> 32) * places >> 32) * align;
	at += rig->off + writer * part + (apart ? number * own : 0);
	return media_try(rig->m, k, at, src, bytes);
}

/* What the helper has to do now; 0: wait. */
static job_word helper_job(const struct helper *h)
{
	job_word job = atomic_load(&h->rig->job);

	return h->index < job_writers(job) ? job : 0;
}

static void *helper_main(void *arg)
{
	struct helper *h = arg;
	struct calibrate_rig *rig = h->rig;
	uint64_t random = h->index * 0x9e3779b97f4a7c15ull | 1;

	while (!atomic_load(&rig->end)) {
		job_word job = helper_job(h);
		int r = job ? store_once(rig, job, h->index, &random) : 0;

		if (atomic_load(&h->doing) != job)
			atomic_store(&h->doing, job);
		if (r)
			atomic_store(&rig->failed, r);
		if (job && !r)
			continue;
		pthread_mutex_lock(&rig->lock);
		while (!atomic_load(&rig->end) && (r || !helper_job(h)))
			pthread_cond_wait(&rig->cond, &rig->lock);
		pthread_mutex_unlock(&rig->lock);
	}
	return NULL;
}

/* Tells the helpers, and waits until they do it, or for WAIT_NS. */
static void tell(struct calibrate_rig *rig, job_word job)
{
	uint64_t until = now_ns() + WAIT_NS;
	job_word before = atomic_exchange(&rig->job, job);

	if (job_writers(before) != job_writers(job)) {
		pthread_mutex_lock(&rig->lock);
		pthread_cond_broadcast(&rig->cond);
		pthread_mutex_unlock(&rig->lock);
	}
	for (unsigned i = 0; i < rig->helpers; i++) {
		struct helper *h = &rig->helper[i];

		while (atomic_load(&h->doing) != helper_job(h) && now_ns() < until)
			__builtin_ia32_pause();
	}
}

int rig_measure(void *arg, unsigned number, bool clear, size_t bytes, unsigned writers,
		double *ret_ns)
{
	struct calibrate_rig *rig = arg;
	job_word job = job_make(number, clear, bytes, writers);
	unsigned n = RIG_IN_BURST(bytes);
	uint64_t best = UINT64_MAX, random = rig->random; /* helpers read what is beside it */
	int r = 0;

	tell(rig, job);
	for (unsigned burst = 0; burst < RIG_BURSTS(bytes) && !r; burst++) {
		uint64_t start = now_ns(), took;

		for (unsigned i = 0; i < n && !r; i++)
			r = store_once(rig, job, 0, &random);
		took = now_ns() - start;
		best = MIN(best, took);
	}
	rig->random = random;
	if (!r)
		r = atomic_load(&rig->failed);
	if (!r)
		*ret_ns = MAX(best, 1) / (double)n;
	return r;
}

void rig_rest(struct calibrate_rig *rig)
{
	tell(rig, 0);
}

/* Writes to each page, so that it is there. */
static int touch(const struct calibrate_rig *rig)
{
	const struct copy_kernel *k = copy_best_nontemporal();
	int r = 0;

	for (uint64_t at = 0; at + 4096 <= rig->len && !r; at += 4096)
		r = media_try(rig->m, k, rig->off + at, rig->source, 4096);
	return r;
}

static int start_helpers(struct calibrate_rig *rig, unsigned n)
{
	int r = 0;

	while (rig->helpers < n && !r) {
		struct helper *h = &rig->helper[rig->helpers];

		h->rig = rig;
		h->index = rig->helpers + 1;
		r = -pthread_create(&h->thread, NULL, helper_main, h);
		rig->helpers += !r;
	}
	return r;
}

int rig_make(struct media *m, uint64_t off, uint64_t len, unsigned writers,
	     struct calibrate_rig **ret)
{
	struct calibrate_rig *rig = calloc(1, sizeof(*rig));
	int r = rig ? 0 : -ENOMEM;

	if (r)
		return r;
	rig->m = m;
	rig->hook = m->hook;
	m->hook = NULL;
	rig->off = off;
	rig->len = len;
	rig->random = 88172645463325252ull;
	pthread_mutex_init(&rig->lock, NULL);
	pthread_cond_init(&rig->cond, NULL);
	rig->helper = calloc(writers, sizeof(*rig->helper));
	rig->source = aligned_alloc(4096, SOURCE);
	if (!rig->helper || !rig->source)
		r = -ENOMEM;
	else
		memset(rig->source, 0x5a, SOURCE);
	if (!r)
		r = start_helpers(rig, writers - 1);
	if (!r)
		r = touch(rig);
	if (r)
		rig_free(rig);
	else
		*ret = rig;
	return r;
}

void rig_free(struct calibrate_rig *rig)
{
	if (!rig)
		return;
	atomic_store(&rig->end, true);
	pthread_mutex_lock(&rig->lock);
	pthread_cond_broadcast(&rig->cond);
	pthread_mutex_unlock(&rig->lock);
	for (unsigned i = 0; i < rig->helpers; i++)
		pthread_join(rig->helper[i].thread, NULL);
	pthread_cond_destroy(&rig->cond);
	pthread_mutex_destroy(&rig->lock);
	rig->m->hook = rig->hook;
	free(rig->helper);
	free(rig->source);
	free(rig);
}
