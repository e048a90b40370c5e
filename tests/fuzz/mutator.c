/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes an image while it is mounted. Both states of a line verify where the input's
 * checksums were made right, so what was looked at once and is read again may be something
 * else, and as valid.
 *
 * turn wraps the two functions by which everything is read from the medium, so the interleaving
 * is that of the input. race has a thread.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define MOST   256u /* lines that change */
#define ROUNDS 300u /* changes by the thread for one input */

static struct {
	struct fuzz_image *image;
	uint64_t line[MOST];
	uint8_t edited[MOST][64];
	bool as_edited[MOST];
	unsigned n;
	uint64_t random;
	unsigned left; /* readings until the next change; 0: turn is not on */
	pthread_t thread;
	atomic_bool stop;
} mut;

static uint64_t next(void)
{
	mut.random ^= mut.random << 13;
	mut.random ^= mut.random >> 7;
	mut.random ^= mut.random << 17;
	return mut.random;
}

static void toggle(unsigned k)
{
	const uint8_t *clean = mut.image->clean + mut.line[k] * 64;

	memcpy(mut.image->at + mut.line[k] * 64, mut.as_edited[k] ? clean : mut.edited[k], 64);
	mut.as_edited[k] = !mut.as_edited[k];
}

static void change(void)
{
	uint64_t r = next();

	if (!mut.n)
		return;
	if (r & 1)
		toggle((r >> 8) % mut.n);
	for (unsigned k = 0; !(r & 1) && k < mut.n; k++)
		toggle(k);
}

static void begin(struct fuzz_image *i)
{
	mut.image = i;
	mut.random = 1;
	mut.n = 0;
	for (size_t k = 0; k < i->touched && mut.n < MOST; k++) {
		uint64_t off = i->line[k] * 64;

		if (!memcmp(i->at + off, i->clean + off, 64))
			continue;
		mut.line[mut.n] = i->line[k];
		memcpy(mut.edited[mut.n], i->at + off, 64);
		mut.random ^= i->line[k] << 20 | i->at[off + 8];
		mut.as_edited[mut.n++] = true;
	}
	mut.random += !mut.random;
}

/* ---- at each reading ---- */

void fuzz_turn_begin(struct fuzz_image *i)
{
	begin(i);
	mut.left = 1 + next() % 64;
}

void fuzz_turn_end(void)
{
	mut.left = 0;
}

static void reading(void)
{
	if (!mut.left || --mut.left)
		return;
	change();
	mut.left = 1 + next() % 16;
}

int __real_media_read(const struct media *m, uint64_t off, void *dst, size_t len);
int __wrap_media_read(const struct media *m, uint64_t off, void *dst, size_t len);
int __wrap_media_read(const struct media *m, uint64_t off, void *dst, size_t len)
{
	reading();
	return __real_media_read(m, off, dst, len);
}

int __real_media_hash(const struct media *m, uint64_t off, size_t len, uint64_t seed,
		      uint64_t *ret);
int __wrap_media_hash(const struct media *m, uint64_t off, size_t len, uint64_t seed,
		      uint64_t *ret);
int __wrap_media_hash(const struct media *m, uint64_t off, size_t len, uint64_t seed,
		      uint64_t *ret)
{
	reading();
	return __real_media_hash(m, off, len, seed, ret);
}

/* ---- all the time ---- */

static void *run(void *arg)
{
	for (unsigned k = 0; k < ROUNDS && !atomic_load(&mut.stop); k++) {
		change();
		if (k % 4 == 3)
			sched_yield();
	}
	return NULL;
}

void fuzz_race_begin(struct fuzz_image *i)
{
	begin(i);
	atomic_store(&mut.stop, false);
	if (pthread_create(&mut.thread, NULL, run, NULL))
		abort();
}

void fuzz_race_end(void)
{
	atomic_store(&mut.stop, true);
	pthread_join(mut.thread, NULL);
}
