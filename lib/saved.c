/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The free list that a clean unmount leaves, so that the next mount need not read every log.
 *
 * It stands in blocks that it lists as free: it costs no space, and the first mount that writes
 * may overwrite it, for by then the superblock no longer refers to it. Each block is bound to
 * the superblock's sequence number, so that an old one is never believed.
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

static uint64_t block_sum(const struct pmemfs *fs, const struct pmemfs_saved *s, uint64_t block)
{
	return hash64((const char *)s + 8, sizeof(*s) - 8, fs->seed ^ block);
}

/* Writes ranges [from, from + n) into `block`. */
static void write_block(struct pmemfs *fs, const struct range *r, unsigned n, uint64_t block,
			uint64_t next)
{
	struct pmemfs_saved s = {.magic = put32(PMEMFS_SAVED_MAGIC),
				 .count = put32(n),
				 .next = put64(next),
				 .sequence = put64(get64(fs->sb.sequence) + 1)};

	for (unsigned k = 0; k < n; k++) {
		s.extent[k].start = put64(r[k].start);
		s.extent[k].blocks = put64(r[k].len);
	}
	s.checksum = put64(block_sum(fs, &s, block));
	media_copy(fs->media, block * PMEMFS_BLOCK_SIZE, &s, sizeof(s));
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

int saved_write(struct pmemfs *fs)
{
	struct collect c = {0};
	uint64_t total = 0, need;
	int err;

	for (unsigned k = 0; k < fs->shards; k++) {
		collect_map(&c, &fs->shard[k].small);
		collect_map(&c, &fs->shard[k].huge);
	}
	if (c.n)
		qsort(c.v, c.n, sizeof(c.v[0]), by_start);
	for (size_t k = 0; k < c.n; k++)
		total += c.v[k].len;
	need = DIV_UP(c.n, PMEMFS_SAVED_MAX);
	if (need > total)
		need = 0; /* cannot be: a range has a block */
	for (uint64_t k = 0; k < need; k++)
		write_block(fs, c.v + k * PMEMFS_SAVED_MAX,
			    MIN(c.n - k * PMEMFS_SAVED_MAX, PMEMFS_SAVED_MAX), nth_block(&c, k),
			    k + 1 < need ? nth_block(&c, k + 1) : 0);
	err = media_fence(fs->media);
	fs->sb.saved_list = put64(need ? nth_block(&c, 0) : 0);
	fs->sb.free_blocks = put64(total);
	fs->sb.used_inodes = put64(atomic_load(&fs->used_inodes));
	fs->sb.dentry_bytes = put64(atomic_load(&fs->dentry_bytes));
	free(c.v);
	return err;
}

/* Checks one block and collects its ranges, which ascend. */
static int read_block(struct pmemfs *fs, uint64_t block, struct collect *c, uint64_t *ret_next)
{
	struct pmemfs_saved s;
	uint64_t after = c->n ? range_end(&c->v[c->n - 1]) : 0;
	int err = media_read(fs->media, block * PMEMFS_BLOCK_SIZE, &s, sizeof(s));

	if (err)
		return err;
	if (get32(s.magic) != PMEMFS_SAVED_MAGIC || get32(s.count) > PMEMFS_SAVED_MAX ||
	    !get32(s.count) || get64(s.sequence) != get64(fs->sb.sequence) ||
	    get64(s.checksum) != block_sum(fs, &s, block))
		return -EUCLEAN;
	for (unsigned k = 0; k < get32(s.count); k++) {
		struct range r = {get64(s.extent[k].start), get64(s.extent[k].blocks), 0, 0};

		if (!blocks_valid(fs, r.start, r.len) || r.start < after)
			return -EUCLEAN;
		after = range_end(&r);
		c->v = grow_array(c->v, &c->cap, c->n + 1, sizeof(c->v[0]));
		c->v[c->n++] = r;
	}
	*ret_next = get64(s.next);
	return 0;
}

int saved_read(struct pmemfs *fs)
{
	struct collect c = {0};
	uint64_t block = get64(fs->sb.saved_list), total = 0;
	int err = 0;

	/* A loop cannot go on: ranges must ascend, and a block has at least one. */
	while (block && !err)
		err = blocks_valid(fs, block, 1) ? read_block(fs, block, &c, &block) : -EUCLEAN;
	for (size_t k = 0; k < c.n; k++)
		total += c.v[k].len;
	if (!err && total != get64(fs->sb.free_blocks))
		err = -EUCLEAN;
	for (size_t k = 0; k < c.n && !err; k++)
		alloc_add(fs, c.v[k].start, c.v[k].len);
	if (!err) {
		atomic_store(&fs->used_inodes, get64(fs->sb.used_inodes));
		atomic_store(&fs->dentry_bytes, get64(fs->sb.dentry_bytes));
	}
	free(c.v);
	return err;
}
