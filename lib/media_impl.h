/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of the media layer: shared by media*.c and their tests, by nobody else. */
#ifndef PMEMFS_MEDIA_IMPL_H
#define PMEMFS_MEDIA_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "copy.h"
#include "media.h"
#include "media_guard.h"
#include "util.h"

/*
 * Which kernel runs for what. Two and a border, the starting rule of lib/DESIGN.md or what was
 * forced; or, once measured, a table by number of writers and size class, whose cells without a
 * number hold the rule's kernels.
 */
#define MEDIA_RULE_BYTES 768u /* where a size class begins */
struct media_policy {
	size_t border; /* lengths from here on are large */
	const struct copy_kernel *small, *large;
	bool forced;	 /* by media_set_flush: no table counts */
	bool measured;	 /* the tables below count */
	bool by_writers; /* their rows differ */
	const struct copy_kernel *copy[MEDIA_WRITERS][MEDIA_CLASSES];
	const struct copy_kernel *clear[MEDIA_WRITERS][MEDIA_CLASSES];
};

static inline const struct copy_kernel *
media_policy_choose(const struct media_policy *p, bool clear, size_t len, unsigned writers)
{
	if (!p->measured)
		return len < p->border ? p->small : p->large;
	return (clear ? p->clear : p->copy)[writers][media_class(len)];
}

/*
 * Counters of one thread index: written by the thread that holds the index, read by all. Slot 0
 * is shared by the threads for which no index was left, and added to atomically.
 */
#define MEDIA_SLOTS 1024
struct media_slot {
	_Alignas(64) _Atomic uint64_t fences;
	_Atomic uint64_t flushes, nt_lines, stores8, bytes;
	/* media_writers: of the policy */
	atomic_bool storing; /* from a copy to the fence after it */
	uint8_t row;	     /* the owner's: how many were storing of late, as a table's row */
	uint16_t ticks;	     /* the owner's: copies since it last looked around */
	uint32_t average;    /* the owner's: writers seen, in 1/256 */
};

struct media_shadow;

struct media {
	/* constant after opening */
	char *base;
	uint64_t size;
	uint64_t store_limit; /* size if stores go straight to the mapping, else 0 */
	enum media_kind kind;
	unsigned flags;
	bool eadr;
	int fd, lock_fd; /* -1: none; lock_fd is the second lock of a device */
	bool mapped;	 /* base is ours to unmap */
	struct guard_range *range;
	struct media_shadow *shadow; /* NULL unless MEDIA_SHADOW */
	/* constant while several threads use the media */
	struct media_policy policy;
	const struct copy_flush *flush;
	media_before before; /* NULL: none; else store_limit is 0, so that each store asks */
	void *before_arg;
	media_hook hook; /* NULL: none */
	void *hook_arg;
	/* changes */
	atomic_bool failed;	  /* a store faulted or could not be made; sticky */
	struct media_slot *slots; /* [MEDIA_SLOTS] */
};

static inline bool media_has(const struct media *m, uint64_t off, uint64_t len)
{
	return off <= m->size && len <= m->size - off;
}

/* ---- media_count.c ---- */

extern _Thread_local int media_slot_index; /* -1: this thread has not asked yet */
int media_slot_acquire(void);

static inline struct media_slot *media_slot_get(const struct media *m)
{
	int i = media_slot_index;

	return &m->slots[unlikely(i < 0) ? media_slot_acquire() : i];
}

/* Adds to one counter of that slot. */
static inline void media_slot_add(const struct media *m, const struct media_slot *slot,
				  _Atomic uint64_t *counter, uint64_t n)
{
	if (unlikely(slot == m->slots))
		atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
	else
		atomic_store_explicit(counter,
				      atomic_load_explicit(counter, memory_order_relaxed) + n,
				      memory_order_relaxed);
}

/*
 * The row of the policy's tables for a store that this thread begins. Nothing is shared: each
 * thread says in its own slot whether it is storing, and once in a while looks at the others.
 */
#define MEDIA_LOOK_EVERY 64
void media_slot_look(const struct media *m, struct media_slot *slot);

static inline unsigned media_writers(const struct media *m, struct media_slot *slot)
{
	if (likely(!m->policy.by_writers) || slot == m->slots)
		return 0;
	atomic_store_explicit(&slot->storing, true, memory_order_relaxed);
	if (unlikely(++slot->ticks >= MEDIA_LOOK_EVERY))
		media_slot_look(m, slot);
	return slot->row;
}

/* ---- media_shadow.c ---- */

int media_shadow_make(struct media *m);
void media_shadow_free(struct media_shadow *s);
/* In bounds. 0, -EIO (the original cannot be read) or -ENOMEM. */
int media_shadow_write(struct media *m, uint64_t off, const void *src, size_t len);
int media_shadow_clear(struct media *m, uint64_t off, size_t len);
int media_shadow_read(const struct media *m, uint64_t off, void *dst, size_t len);
bool media_shadow_touches(const struct media *m, uint64_t off, size_t len);

/* ---- media.c ---- */

/*
 * media_copy (src NULL: media_clear) by that kernel and media_fence, for measuring: what runs
 * between the stores and the fence counts too. 0, -EIO (faulted; the media does not count as
 * failed), -EROFS.
 */
int media_try(struct media *m, const struct copy_kernel *k, uint64_t off, const void *src,
	      size_t len);

/* ---- media_policy.c ---- */

/* The starting rule for this media. */
void media_policy_reset(struct media *m);
/* The kernel that the rule has for a size class. */
const struct copy_kernel *media_policy_rule(const struct media *m, unsigned size_class);

/* Chooses kernels and flush for the media's kind. For tests: also as if caches were durable. */
void media_set_eadr(struct media *m, bool eadr);

#endif
