/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordered map of non-overlapping ranges: a file's extents and a shard's free space.
 *
 * Neighbours that continue each other (blocks, flags and checksums alike) are merged when one
 * is inserted. The caller locks.
 */
#ifndef PMEMFS_RANGEMAP_H
#define PMEMFS_RANGEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANGE_FLAG_SHIFT 48
#define RANGE_BLOCK_MASK ((1ull << RANGE_FLAG_SHIFT) - 1)

struct range {
	uint64_t start;
	uint64_t len;
	uint64_t what; /* PMEMFS_EXT_* << 48 | first block */
	uint64_t csum; /* byte offset on the medium of the first block's checksum, 0: none */
};

static inline uint64_t range_block(const struct range *r)
{
	return r->what & RANGE_BLOCK_MASK;
}
static inline unsigned range_flags(const struct range *r)
{
	return r->what >> RANGE_FLAG_SHIFT;
}
static inline uint64_t range_end(const struct range *r)
{
	return r->start + r->len;
}

struct rangemap {
	struct range_index {
		uint64_t end; /* of the leaf's last range: searching touches no leaf but one */
		struct range_leaf *leaf;
	} * index;
	size_t leaves, cap;
	uint64_t count; /* ranges */
	uint64_t total; /* sum of their lengths */
};

/* A place in the map; any change of the map invalidates it. */
struct range_cursor {
	size_t leaf;
	unsigned slot;
};

void rangemap_free(struct rangemap *m); /* leaves it empty and usable */

/* The first range that ends after key (it contains key or follows it); NULL: none. */
const struct range *rangemap_find(const struct rangemap *m, uint64_t key,
				  struct range_cursor *ret);
const struct range *rangemap_next(const struct rangemap *m, struct range_cursor *c);

/* The last range, NULL: none. */
const struct range *rangemap_last(const struct rangemap *m);

/* Inserts a range that overlaps none. Returns the range it became part of by value. */
struct range rangemap_insert(struct rangemap *m, struct range r);

/* Puts r in the place of a range with the same start and length; false: there is none. */
bool rangemap_replace(struct rangemap *m, const struct range *r, struct range *ret_old);

/* Removes [start, end); calls fn (may be NULL) with each piece removed, in order. */
typedef void (*range_fn)(void *arg, const struct range *piece);
void rangemap_cut(struct rangemap *m, uint64_t start, uint64_t end, range_fn fn, void *arg);

/*
 * Takes the first len of a range of at least that length, the first one at or after `hint`,
 * else from the beginning, out of the map. ret_best (may be NULL) gets the longest range seen
 * when none is long enough; its len is 0 for an empty map.
 */
bool rangemap_take(struct rangemap *m, uint64_t len, uint64_t hint, uint64_t *ret_start,
		   struct range *ret_best);

/* The part of r that lies in [start, end), which must overlap it. */
struct range range_clip(const struct range *r, uint64_t start, uint64_t end);

#endif
