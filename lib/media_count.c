/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counting without sharing: each thread has a small index, and each media an array of slots.
 *
 * 1. An index belongs to one thread at a time, from its first store until it exits; a later
 *    thread that gets it goes on counting where the slot stands, so that nothing is lost.
 * 2. The mutex that hands the index on orders the old owner's writes before the new one's.
 * 3. Index 0 is nobody's and everybody's: threads share it when all others are taken.
 *
 * Locks: index_lock, a leaf.
 */
#include "media_impl.h"

#include <string.h>

_Thread_local int media_slot_index = -1;

static pthread_mutex_t index_lock = PTHREAD_MUTEX_INITIALIZER;
static bool index_taken[MEDIA_SLOTS];
static atomic_int index_top; /* the highest that was ever taken */

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

/* Runs when a thread exits; the value is the index. */
static void index_release(void *value)
{
	pthread_mutex_lock(&index_lock);
	index_taken[(intptr_t)value] = false;
	pthread_mutex_unlock(&index_lock);
	media_slot_index = -1;
}

static void key_make(void)
{
	key_made = pthread_key_create(&key, index_release) == 0;
}

int media_slot_acquire(void)
{
	int i;

	pthread_once(&key_once, key_make);
	pthread_mutex_lock(&index_lock);
	for (i = 1; i < MEDIA_SLOTS && index_taken[i]; i++)
		;
	/* An index that could not be given back is not worth taking. */
	if (i == MEDIA_SLOTS || !key_made || pthread_setspecific(key, (void *)(intptr_t)i))
		i = 0;
	else
		index_taken[i] = true;
	if (i > atomic_load(&index_top))
		atomic_store(&index_top, i);
	pthread_mutex_unlock(&index_lock);
	return media_slot_index = i;
}

/*
 * Counts who is storing at this moment, up to what the last row needs. Samples taken where this
 * thread's own stores begin see what those stores meet; a moving average takes the noise out.
 */
void media_slot_look(const struct media *m, struct media_slot *slot)
{
	static const uint32_t row_from[MEDIA_WRITERS] = {0, 3 * 128, 5 * 128, 9 * 128};
	int top = atomic_load_explicit(&index_top, memory_order_relaxed);
	uint32_t writers = 1;

	for (int i = 1; i <= top && writers < 6; i++)
		if (&m->slots[i] != slot)
			writers +=
			    atomic_load_explicit(&m->slots[i].storing, memory_order_relaxed);
	slot->average = (7 * slot->average + (writers << 8)) / 8;
	slot->row = MEDIA_WRITERS - 1;
	while (slot->average < row_from[slot->row])
		slot->row--;
	slot->ticks = 0;
}

static uint64_t get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

void media_count(const struct media *m, struct media_counts *ret)
{
	struct media_counts sum = {0};

	for (int i = 0; i < MEDIA_SLOTS; i++) {
		const struct media_slot *s = &m->slots[i];

		sum.fences += get(&s->fences);
		sum.flushes += get(&s->flushes);
		sum.nt_lines += get(&s->nt_lines);
		sum.stores8 += get(&s->stores8);
		sum.bytes += get(&s->bytes);
	}
	*ret = sum;
}

struct media_mark media_mark(const struct media *m)
{
	const struct media_slot *s = media_slot_get(m);

	/* What several threads share tells of none of them. */
	return (struct media_mark){s == m->slots ? NULL : s, get(&s->fences)};
}

bool media_mark_is_fenced(struct media_mark mark)
{
	const struct media_slot *s = mark.thread;

	return s && atomic_load_explicit(&s->fences, memory_order_acquire) > mark.fences;
}
