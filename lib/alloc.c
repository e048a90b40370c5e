/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Free space, per shard, as ranges in DRAM. Nothing of it is on the medium while mounted: what
 * is free follows from the logs.
 *
 * Invariants: fs->free and all shards' credits are together the number of blocks in all maps,
 * less what callers have claimed and not yet taken. A credit is what a shard's threads may
 * claim without touching the common count, which all other CPUs read. A range in `huge` is made
 * of whole aligned 2 MiB units; a range in `small` contains none. Small requests never break a
 * unit while a small range is left, so that large files find aligned space on an aged
 * filesystem (WineFS showed up to 2x for mapped reads). Requests without ALLOC_RESERVE leave
 * alloc_reserve() blocks alone.
 */
#include <errno.h>

#include "fs.h"

#define UNIT   512u /* blocks in 2 MiB */
#define CREDIT 256u /* blocks that a shard takes from or gives to the common count */
#define BATCH  4096 /* bytes of dentries that a shard counts for itself */

void extvec_init(struct extvec *x)
{
	x->v = x->fixed;
	x->n = 0;
	x->cap = ARRAY_LEN(x->fixed);
}

void extvec_add(struct extvec *x, uint64_t block, uint64_t len)
{
	if (x->n && x->v[x->n - 1].block + x->v[x->n - 1].len == block) {
		x->v[x->n - 1].len += len;
		return;
	}
	if (x->n == x->cap) {
		bool first = x->v == x->fixed;

		x->cap *= 2;
		x->v = xrealloc(first ? NULL : x->v, x->cap * sizeof(x->v[0]));
		if (first)
			memcpy(x->v, x->fixed, sizeof(x->fixed));
	}
	x->v[x->n++] = (struct run){block, len};
}

void extvec_done(struct extvec *x)
{
	if (x->v != x->fixed)
		free(x->v);
	extvec_init(x);
}

/*
 * What deleting everything may need: each entry's removal record (40 bytes or less) and the
 * compaction of the directory that it makes due. A directory of n bytes of entries is compacted
 * when its log has doubled; until then its removals have taken less than n bytes, and the new
 * log takes less than n more.
 */
static uint64_t reserve_for(const struct pmemfs *fs, uint64_t bytes)
{
	bytes += (uint64_t)fs->shards * BATCH; /* what shards may not yet have told */
	return 16 + fs->blocks / 1024 + bytes * 2 * fs->copies / PMEMFS_BLOCK_SIZE;
}

void alloc_count_dentries(struct pmemfs *fs, int64_t bytes)
{
	_Atomic int64_t *own = &fs->shard[fs_home_shard(fs)].dentry_bytes;
	int64_t sum = atomic_fetch_add(own, bytes) + bytes;

	if (sum >= BATCH || sum <= -BATCH)
		atomic_fetch_add(&fs->dentry_bytes, atomic_exchange(own, 0));
}

uint64_t alloc_dentry_bytes(const struct pmemfs *fs)
{
	int64_t sum = atomic_load(&fs->dentry_bytes);

	for (unsigned k = 0; k < fs->shards; k++)
		sum += atomic_load(&fs->shard[k].dentry_bytes);
	return (uint64_t)MAX(sum, 0);
}

uint64_t alloc_reserve(const struct pmemfs *fs)
{
	return reserve_for(fs, alloc_dentry_bytes(fs));
}

/* The same, of what shards have told: reads nothing that others keep writing. */
static uint64_t reserve_told(const struct pmemfs *fs)
{
	int64_t bytes = atomic_load_explicit(&fs->dentry_bytes, memory_order_relaxed);

	return reserve_for(fs, (uint64_t)MAX(bytes, 0));
}

uint64_t alloc_free(const struct pmemfs *fs)
{
	uint64_t sum = atomic_load(&fs->free);

	for (unsigned k = 0; k < fs->shards; k++)
		sum += atomic_load(&fs->shard[k].credit);
	return sum;
}

/* Takes n of a count, if `keep` are left then. */
static bool take_count(_Atomic uint64_t *count, uint64_t n, uint64_t keep)
{
	uint64_t old = atomic_load(count);

	do {
		if (old < n || old - n < keep)
			return false;
	} while (!atomic_compare_exchange_weak(count, &old, old - n));
	return true;
}

/* All credits go to the common count. Their sum. */
static uint64_t gather_credits(struct pmemfs *fs)
{
	uint64_t sum = 0;

	for (unsigned k = 0; k < fs->shards; k++)
		sum += atomic_exchange(&fs->shard[k].credit, 0);
	atomic_fetch_add(&fs->free, sum);
	return sum;
}

/* Claims n blocks, so that taking them cannot fail. */
static int claim(struct pmemfs *fs, uint64_t n, unsigned flags)
{
	_Atomic uint64_t *credit = &fs->shard[fs_home_shard(fs)].credit;
	uint64_t keep = flags & ALLOC_RESERVE ? 0 : reserve_told(fs);

	if (atomic_load(&fs->free) >= keep && take_count(credit, n, 0))
		return 0;
	if (take_count(&fs->free, n + CREDIT, keep)) {
		atomic_fetch_add(credit, CREDIT);
		return 0;
	}
	do { /* it is nearly full: exactly */
		if (take_count(&fs->free, n, keep))
			return 0;
	} while (gather_credits(fs));
	return -ENOSPC;
}

/* Blocks of the shard may be claimed from now on. */
static void unclaim(struct pmemfs *fs, struct shard *s, uint64_t n)
{
	uint64_t sum = atomic_fetch_add(&s->credit, n) + n;

	if (sum > 2 * CREDIT && take_count(&s->credit, sum - CREDIT, 0))
		atomic_fetch_add(&fs->free, sum - CREDIT);
}

static struct range free_range(uint64_t block, uint64_t len)
{
	return (struct range){block, len,
			      (uint64_t)PMEMFS_EXT_NOCSUM << RANGE_FLAG_SHIFT | block, 0};
}

/* Puts a range back; moves whole aligned units to `huge`. Under the shard's lock. */
static void put_range(struct shard *s, uint64_t block, uint64_t len)
{
	struct range r = rangemap_insert(&s->small, free_range(block, len));
	uint64_t first = ROUND_UP(r.start, UNIT), last = range_end(&r) / UNIT * UNIT;

	if (first >= last)
		return;
	rangemap_cut(&s->small, first, last, NULL, NULL);
	rangemap_insert(&s->huge, free_range(first, last - first));
}

static unsigned shard_of(const struct pmemfs *fs, uint64_t block)
{
	return MIN(block / super_shard_span(&fs->sb), fs->shards - 1);
}

static void give(struct pmemfs *fs, uint64_t block, uint64_t n)
{
	uint64_t span = super_shard_span(&fs->sb);

	while (n) {
		unsigned i = shard_of(fs, block);
		uint64_t limit = i == fs->shards - 1 ? UINT64_MAX : (i + 1) * span;
		uint64_t part = MIN(n, limit - block);

		pthread_mutex_lock(&fs->shard[i].space);
		put_range(&fs->shard[i], block, part);
		pthread_mutex_unlock(&fs->shard[i].space);
		unclaim(fs, &fs->shard[i], part);
		block += part;
		n -= part;
	}
}

/* All but bad blocks; online: those leave their stripes, whose others can do without them. */
static void give_good(struct pmemfs *fs, uint64_t block, uint64_t n, bool online)
{
	uint64_t end = block + n;

	if (unlikely(fs->keep_freed) && online)
		return;
	for (uint64_t stop; block < end; block = stop + 1) {
		stop = bad_next(fs, block, end);
		if (block < stop)
			give(fs, block, stop - block);
		if (stop < end && online)
			parity_forget(fs, stop, 1);
	}
}

void free_blocks(struct pmemfs *fs, uint64_t block, uint64_t n)
{
	give_good(fs, block, n, true);
}

void alloc_add(struct pmemfs *fs, uint64_t block, uint64_t n)
{
	give_good(fs, block, n, false);
}

void alloc_clear(struct pmemfs *fs)
{
	for (unsigned s = 0; s < fs->shards; s++) {
		rangemap_free(&fs->shard[s].small);
		rangemap_free(&fs->shard[s].huge);
		atomic_store(&fs->shard[s].credit, 0);
		atomic_store(&fs->shard[s].dentry_bytes, 0);
	}
	atomic_store(&fs->free, 0);
}

void free_runs(struct pmemfs *fs, const struct extvec *x)
{
	for (size_t i = 0; i < x->n; i++)
		free_blocks(fs, x->v[i].block, x->v[i].len);
}

/* Takes up to n blocks that start exactly at goal. */
static uint64_t take_at(struct shard *s, uint64_t goal, uint64_t n)
{
	struct range_cursor c;
	struct rangemap *m = &s->small;
	const struct range *r = rangemap_find(m, goal, &c);

	if (!r || r->start > goal) {
		m = &s->huge;
		r = rangemap_find(m, goal, &c);
		if (!r || r->start > goal)
			return 0;
	}
	n = MIN(n, range_end(r) - goal);
	if (m == &s->huge) { /* only whole units may leave; the rest becomes small */
		uint64_t first = goal / UNIT * UNIT, last = ROUND_UP(goal + n, UNIT);

		rangemap_cut(m, first, last, NULL, NULL);
		if (goal > first)
			rangemap_insert(&s->small, free_range(first, goal - first));
		if (last > goal + n)
			rangemap_insert(&s->small, free_range(goal + n, last - goal - n));
		return n;
	}
	rangemap_cut(m, goal, goal + n, NULL, NULL);
	return n;
}

/* Takes n blocks from the front of whole units; what is left of the last unit becomes small. */
static bool take_huge(struct shard *s, uint64_t n, uint64_t *ret_block, struct range *ret_best)
{
	uint64_t units = ROUND_UP(n, UNIT);

	if (!rangemap_take(&s->huge, units, 0, ret_block, ret_best))
		return false;
	if (n < units)
		rangemap_insert(&s->small, free_range(*ret_block + n, units - n));
	return true;
}

/*
 * Takes one run of at most n blocks from the shard. contig: exactly n or none. 0: nothing to be
 * had.
 */
static uint64_t take_run(struct shard *s, uint64_t n, bool contig, uint64_t *ret_block)
{
	struct range best = {0};

	if (n >= UNIT) {
		if (take_huge(s, n, ret_block, &best))
			return n;
		if (!contig && best.len) {
			*ret_block = best.start;
			return take_at(s, best.start, MIN(n, best.len));
		}
	}
	if (rangemap_take(&s->small, n, s->hint, ret_block, &best) ||
	    (n < UNIT && take_huge(s, n, ret_block, NULL))) {
		s->hint = *ret_block + n;
		return n;
	}
	if (contig || !best.len)
		return 0;
	*ret_block = best.start;
	return take_at(s, best.start, MIN(n, best.len));
}

static uint64_t take_goal(struct pmemfs *fs, uint64_t n, uint64_t goal)
{
	struct shard *s;
	uint64_t got;

	if (!goal || goal >= fs->blocks)
		return 0;
	s = &fs->shard[shard_of(fs, goal)];
	pthread_mutex_lock(&s->space);
	got = take_at(s, goal, n);
	pthread_mutex_unlock(&s->space);
	return got;
}

/* From the home shard first, then from each other one. */
static uint64_t take_any(struct pmemfs *fs, uint64_t n, bool contig, uint64_t *ret_block)
{
	unsigned home = fs_home_shard(fs);
	uint64_t got = 0;

	for (unsigned i = 0; i < fs->shards && !got; i++) {
		struct shard *s = &fs->shard[(home + i) % fs->shards];

		pthread_mutex_lock(&s->space);
		got = take_run(s, n, contig, ret_block);
		pthread_mutex_unlock(&s->space);
	}
	return got;
}

int alloc_blocks(struct pmemfs *fs, uint64_t n, uint64_t goal, unsigned flags,
		 struct extvec *ret)
{
	uint64_t block, got;
	int err = claim(fs, n, flags);

	if (err)
		return err;
	got = take_goal(fs, n, goal);
	if (got)
		extvec_add(ret, goal, got);
	for (n -= got; n; n -= got) {
		got = take_any(fs, n, false, &block);
		/*
		 * The claim says that n blocks are there, but one that another thread is just
		 * freeing reaches its map before the count, so they are in the maps too; a run
		 * may however move between maps while we look. Look again.
		 */
		if (got)
			extvec_add(ret, block, got);
	}
	return 0;
}

int alloc_contig(struct pmemfs *fs, uint64_t n, unsigned flags, uint64_t *ret_block)
{
	int err = claim(fs, n, flags);

	if (err)
		return err;
	if (take_any(fs, n, true, ret_block)) {
		parity_forget(fs, *ret_block, n);
		return 0;
	}
	unclaim(fs, &fs->shard[fs_home_shard(fs)], n);
	return -ENOSPC;
}
