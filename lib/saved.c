/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The free list that a clean unmount leaves, so that the next mount need not read every log.
 *
 * It stands in blocks that it lists as free: it costs no space, and the first mount that writes
 * may overwrite it, for by then the superblock no longer refers to it. Each block is bound to
 * the superblock's sequence number, so that an old one is never believed.
 *
 * Where there are quotas, blocks with what is used by whom follow in the same chain, if there
 * is room for them: without, the next mount sums it up.
 */
#include <errno.h>

#include "fs.h"

struct collect {
	struct range *v;
	size_t n, cap;
};

static void collect_map(struct collect *c, const struct rangemap *m)
{
	struct range_cursor at;

	for (const struct range *r = rangemap_find(m, 0, &at); r; r = rangemap_next(m, &at)) {
		c->v = grow_array(c->v, &c->cap, c->n + 1, sizeof(c->v[0]));
		c->v[c->n++] = *r;
	}
}

static int by_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Both kinds of blocks have the same head. */
union saved_block {
	struct pmemfs_saved free;
	struct pmemfs_usage usage;
};

static uint64_t block_sum(const struct pmemfs *fs, const union saved_block *s, uint64_t block)
{
	return hash64((const char *)s + 8, sizeof(*s) - 8, fs->seed ^ block);
}

static void store_block(struct pmemfs *fs, union saved_block *s, uint32_t magic, unsigned n,
			uint64_t block, uint64_t next)
{
	s->free.magic = put32(magic);
	s->free.count = put32(n);
	s->free.next = put64(next);
	s->free.sequence = put64(get64(fs->sb.sequence) + 1);
	s->free.checksum = put64(block_sum(fs, s, block));
	parity_forget(fs, block, 1);
	media_copy(fs->media, block * PMEMFS_BLOCK_SIZE, s, sizeof(*s));
}

static void write_free(struct pmemfs *fs, const struct range *r, unsigned n, uint64_t block,
		       uint64_t next)
{
	union saved_block s = {.free = {{0}}};

	for (unsigned k = 0; k < n; k++) {
		s.free.extent[k].start = put64(r[k].start);
		s.free.extent[k].blocks = put64(r[k].len);
	}
	store_block(fs, &s, PMEMFS_SAVED_MAGIC, n, block, next);
}

static void write_usage(struct pmemfs *fs, const struct quota_usage *u, unsigned n,
			uint64_t block, uint64_t next)
{
	union saved_block s = {.usage = {{0}}};

	for (unsigned k = 0; k < n; k++) {
		s.usage.of[k].kind = put32(u[k].kind);
		s.usage.of[k].id = put32(u[k].id);
		s.usage.of[k].blocks = put64(u[k].blocks);
		s.usage.of[k].inodes = put64(u[k].inodes);
	}
	store_block(fs, &s, PMEMFS_USAGE_MAGIC, n, block, next);
}

/* The k-th free block. */
static uint64_t nth_block(const struct collect *c, uint64_t k)
{
	for (size_t n = 0; n < c->n; n++) {
		if (k < c->v[n].len)
			return c->v[n].start + k;
		k -= c->v[n].len;
	}
	return 0;
}

/* What is used now; or what was read from the last list, where quotas were not switched on. */
static size_t usage_of(struct pmemfs *fs, struct quota_usage **ret)
{
	size_t n = fs->quota.saveds;

	if (atomic_load(&fs->quota.state) == QUOTA_ON)
		return quota_collect(fs, ret);
	*ret = NULL;
	if (n) {
		*ret = xcalloc(n, sizeof(**ret));
		memcpy(*ret, fs->quota.saved, n * sizeof(**ret));
	}
	return n;
}

/* The chain: c's ranges, then n rows of usage. */
static void write_chain(struct pmemfs *fs, const struct collect *c, uint64_t need,
			const struct quota_usage *u, size_t n)
{
	uint64_t all = need + DIV_UP(n, PMEMFS_USAGE_MAX);

	for (uint64_t k = 0; k < all; k++) {
		uint64_t block = nth_block(c, k), next = k + 1 < all ? nth_block(c, k + 1) : 0;
		uint64_t at = k < need ? k * PMEMFS_SAVED_MAX : (k - need) * PMEMFS_USAGE_MAX;

		if (k < need)
			write_free(fs, c->v + at, MIN(c->n - at, PMEMFS_SAVED_MAX), block,
				   next);
		else
			write_usage(fs, u + at, MIN(n - at, PMEMFS_USAGE_MAX), block, next);
	}
}

int saved_write(struct pmemfs *fs)
{
	struct collect c = {0};
	struct quota_usage *u;
	uint64_t total = 0, need;
	size_t n = usage_of(fs, &u);
	int err;

	for (unsigned k = 0; k < fs->shards; k++) {
		collect_map(&c, &fs->shard[k].small);
		collect_map(&c, &fs->shard[k].huge);
	}
	if (c.n)
		qsort(c.v, c.n, sizeof(c.v[0]), by_start);
	for (size_t k = 0; k < c.n; k++)
		total += c.v[k].len;
	need = DIV_UP(c.n, PMEMFS_SAVED_MAX); /* no more than total: a range has a block */
	if (need + DIV_UP(n, PMEMFS_USAGE_MAX) > total)
		n = 0;
	write_chain(fs, &c, need, u, n);
	err = media_fence(fs->media);
	fs->sb.saved_list = put64(need ? nth_block(&c, 0) : 0);
	fs->sb.free_blocks = put64(total);
	fs->sb.used_inodes = put64(itable_inodes(fs));
	fs->sb.dentry_bytes = put64(alloc_dentry_bytes(fs));
	free(c.v);
	free(u);
	return err;
}

static int read_free(struct pmemfs *fs, const struct pmemfs_saved *s, struct collect *c)
{
	uint64_t after = c->n ? range_end(&c->v[c->n - 1]) : 0;

	if (get32(s->count) > PMEMFS_SAVED_MAX || fs->quota.saveds)
		return -EUCLEAN;
	for (unsigned k = 0; k < get32(s->count); k++) {
		struct range r = {get64(s->extent[k].start), get64(s->extent[k].blocks), 0, 0};

		if (!blocks_valid(fs, r.start, r.len) || r.start < after)
			return -EUCLEAN;
		after = range_end(&r);
		c->v = grow_array(c->v, &c->cap, c->n + 1, sizeof(c->v[0]));
		c->v[c->n++] = r;
	}
	return 0;
}

/* Does b come after a? */
static bool usage_ascends(const struct quota_usage *a, const struct quota_usage *b)
{
	return a->kind < b->kind || (a->kind == b->kind && a->id < b->id);
}

static int read_usage(struct pmemfs *fs, const struct pmemfs_usage *s)
{
	struct quota *q = &fs->quota;

	if (get32(s->count) > PMEMFS_USAGE_MAX)
		return -EUCLEAN;
	for (unsigned k = 0; k < get32(s->count); k++) {
		struct quota_usage u = {get32(s->of[k].kind), get32(s->of[k].id),
					get64(s->of[k].blocks), get64(s->of[k].inodes)};

		if (!u.kind || u.kind > QUOTA_KINDS || u.blocks > fs->blocks ||
		    (q->saveds && !usage_ascends(&q->saved[q->saveds - 1], &u)))
			return -EUCLEAN;
		q->saved =
		    grow_array(q->saved, &q->savedcap, q->saveds + 1, sizeof(q->saved[0]));
		q->saved[q->saveds++] = u;
	}
	return 0;
}

/* Checks one block and collects what it has. */
static int read_block(struct pmemfs *fs, uint64_t block, struct collect *c, uint64_t *ret_next)
{
	union saved_block s;
	int err = media_read(fs->media, block * PMEMFS_BLOCK_SIZE, &s, sizeof(s));

	if (err)
		return err;
	if (!get32(s.free.count) || get64(s.free.sequence) != get64(fs->sb.sequence) ||
	    get64(s.free.checksum) != block_sum(fs, &s, block))
		return -EUCLEAN;
	*ret_next = get64(s.free.next);
	if (get32(s.free.magic) == PMEMFS_SAVED_MAGIC)
		return read_free(fs, &s.free, c);
	return get32(s.free.magic) == PMEMFS_USAGE_MAGIC ? read_usage(fs, &s.usage) : -EUCLEAN;
}

int saved_read(struct pmemfs *fs)
{
	struct collect c = {0};
	uint64_t block = get64(fs->sb.saved_list), total = 0;
	int err = 0;

	/* A loop cannot go on: what the blocks list ascends, and each lists something. */
	while (block && !err)
		err = blocks_valid(fs, block, 1) ? read_block(fs, block, &c, &block) : -EUCLEAN;
	for (size_t k = 0; k < c.n; k++)
		total += c.v[k].len;
	if (!err && total != get64(fs->sb.free_blocks))
		err = -EUCLEAN;
	for (size_t k = 0; k < c.n && !err; k++)
		alloc_add(fs, c.v[k].start, c.v[k].len);
	if (err)
		fs->quota.saveds = 0;
	if (!err) {
		itable_set_inodes(fs, get64(fs->sb.used_inodes));
		atomic_store(&fs->dentry_bytes, (int64_t)get64(fs->sb.dentry_bytes));
	}
	free(c.v);
	return err;
}
