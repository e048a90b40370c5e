/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the checker keeps in DRAM: 32 bytes for each inode slot and a bit for each block.
 *
 * Tables may have holes as large as a hostile image likes, so inodes stand in an array without
 * holes, found by the run of table blocks that they are in.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"

#define WORD 64u

static size_t bitmap_words(const struct check *c)
{
	return DIV_UP(c->fs->blocks, WORD);
}

/* ---- inodes ---- */

static void table_make(struct check *c, unsigned shard)
{
	struct check_table *t = &c->table[shard];
	struct range_cursor cur;
	uint64_t blocks = 0;

	for (const struct range *r =
		 rangemap_find(&c->fs->shard[shard].table.inode->extents, 0, &cur);
	     r; r = rangemap_next(&c->fs->shard[shard].table.inode->extents, &cur)) {
		struct check_run *last = t->runs ? &t->run[t->runs - 1] : NULL;
		uint64_t start = r->start / c->fs->copies, len = r->len / c->fs->copies;

		if (last && last->start + last->len == start) {
			last->len += len;
		} else {
			t->run = grow_array(t->run, &t->cap, t->runs + 1, sizeof(t->run[0]));
			t->run[t->runs++] = (struct check_run){start, len, blocks};
		}
		blocks += len;
	}
	t->n = blocks * PMEMFS_SLOTS_PER_BLOCK;
	t->v = xcalloc(MAX(t->n, 1u), sizeof(t->v[0]));
}

int check_map_make(struct check *c)
{
	c->owned = xcalloc(bitmap_words(c), sizeof(c->owned[0]));
	check_own(c, PMEMFS_SB_BLOCK, 1);
	check_own(c, PMEMFS_SB_REPLICA, 1);
	check_own(c, super_shard_header(&c->sb, 0),
		  (uint64_t)c->fs->shards * PMEMFS_SHARD_BLOCKS * c->fs->copies);
	check_own(c, super_parity_start(&c->sb), super_parity_blocks(&c->sb));
	c->table = xcalloc(c->fs->shards, sizeof(c->table[0]));
	for (unsigned s = 0; s < c->fs->shards; s++)
		table_make(c, s);
	return 0;
}

void check_map_free(struct check *c)
{
	for (unsigned s = 0; c->table && s < c->fs->shards; s++) {
		free(c->table[s].run);
		free(c->table[s].v);
	}
	free(c->table);
	free(c->owned);
	free(c->shared);
	free(c->firm);
	free(c->firm_twice);
	c->table = NULL;
	c->owned = c->shared = c->firm = c->firm_twice = NULL;
}

static const struct check_run *find_run(const struct check_table *t, uint64_t block)
{
	size_t lo = 0, hi = t->runs;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->run[mid].start + t->run[mid].len <= block)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < t->runs && t->run[lo].start <= block ? &t->run[lo] : NULL;
}

/* Byte offset of a slot; the block is mapped. */
static uint64_t slot_at(struct check *c, unsigned shard, uint64_t block, unsigned k)
{
	struct range_cursor cur;
	const struct range *r;

	block *= c->fs->copies;
	r = rangemap_find(&c->fs->shard[shard].table.inode->extents, block, &cur);
	return (range_block(r) + block - r->start) * PMEMFS_BLOCK_SIZE + k * PMEMFS_SLOT_SIZE;
}

struct check_inode *check_find(struct check *c, uint64_t ino, uint64_t *ret_slot)
{
	unsigned shard;
	uint64_t index, block;
	const struct check_run *r;

	if (!ino || ino & PMEMFS_INO_TABLE)
		return NULL;
	shard = (ino - 1) % c->fs->shards;
	index = (ino - 1) / c->fs->shards;
	block = index / PMEMFS_SLOTS_PER_BLOCK;
	r = find_run(&c->table[shard], block);
	if (!r)
		return NULL;
	if (ret_slot)
		*ret_slot = slot_at(c, shard, block, index % PMEMFS_SLOTS_PER_BLOCK);
	return &c->table[shard].v[(r->base + block - r->start) * PMEMFS_SLOTS_PER_BLOCK +
				  index % PMEMFS_SLOTS_PER_BLOCK];
}

static int each_in_block(struct check *c, unsigned shard, uint64_t block,
			 struct check_inode *ci, check_fn fn)
{
	uint64_t slot = slot_at(c, shard, block, 0);
	int r = 0;

	for (unsigned k = 0; k < PMEMFS_SLOTS_PER_BLOCK && !r; k++) {
		uint64_t index = block * PMEMFS_SLOTS_PER_BLOCK + k;

		r = fn(c, 1 + index * c->fs->shards + shard, slot + k * PMEMFS_SLOT_SIZE,
		       &ci[k]);
	}
	return r;
}

int check_each(struct check *c, unsigned pass, check_fn fn)
{
	uint64_t done = 0, total = 0;
	int r = 0;

	for (unsigned s = 0; s < c->fs->shards; s++)
		total += c->table[s].n / PMEMFS_SLOTS_PER_BLOCK;
	for (unsigned s = 0; s < c->fs->shards && !r; s++) {
		struct check_table *t = &c->table[s];

		for (size_t i = 0; i < t->runs && !r; i++)
			for (uint64_t k = 0; k < t->run[i].len && !r; k++) {
				uint64_t at = (t->run[i].base + k) * PMEMFS_SLOTS_PER_BLOCK;

				r = each_in_block(c, s, t->run[i].start + k, &t->v[at], fn);
				if (pass && !(++done % 64))
					check_progress(c, pass, done, total);
			}
	}
	if (pass && !r)
		check_progress(c, pass, total, total);
	return r;
}

/* ---- blocks ---- */

/* The bits of word w that belong to [block, end). */
static uint64_t word_mask(uint64_t w, uint64_t block, uint64_t end)
{
	uint64_t mask = ~0ull;

	if (block > w * WORD)
		mask <<= block - w * WORD;
	if (end < (w + 1) * WORD)
		mask &= ~0ull >> ((w + 1) * WORD - end);
	return mask;
}

void check_own(struct check *c, uint64_t block, uint64_t n)
{
	uint64_t end = block + n;

	for (uint64_t w = block / WORD; w * WORD < end; w++) {
		uint64_t mask = word_mask(w, block, end), twice = c->owned[w] & mask;

		if (twice && !c->shared)
			c->shared = xcalloc(bitmap_words(c), sizeof(c->shared[0]));
		if (twice)
			c->shared[w] |= twice;
		c->used_blocks += __builtin_popcountll(mask & ~twice);
		c->owned[w] |= mask;
	}
}

void check_disown(struct check *c, uint64_t block)
{
	c->owned[block / WORD] &= ~(1ull << block % WORD);
	c->used_blocks--;
}

bool check_is_owned(const struct check *c, uint64_t block)
{
	return c->owned[block / WORD] >> block % WORD & 1;
}

/* The first block at or after `at` whose bit is `owned`, or the end. */
static uint64_t next_bit(const struct check *c, uint64_t at, bool owned)
{
	uint64_t flip = owned ? 0 : ~0ull;

	while (at < c->fs->blocks) {
		uint64_t word = (c->owned[at / WORD] ^ flip) >> at % WORD;

		if (word)
			return MIN(at + (uint64_t)__builtin_ctzll(word), c->fs->blocks);
		at = (at / WORD + 1) * WORD;
	}
	return c->fs->blocks;
}

bool check_next_free(const struct check *c, uint64_t *at, uint64_t *ret_n)
{
	uint64_t start = next_bit(c, *at, false);

	if (start >= c->fs->blocks)
		return false;
	*at = start;
	*ret_n = next_bit(c, start, true) - start;
	return true;
}

/* ---- paths ---- */

/* Puts "/name" before what stands in the buffer's end. False: it does not fit. */
static bool prepend(char *buf, size_t *at, const char *name, size_t len)
{
	if (*at < len + 1 + 3)
		return false;
	*at -= len;
	memcpy(buf + *at, name, len);
	buf[--*at] = '/';
	return true;
}

static const struct dent *find_entry(const struct inode *dir, uint64_t ino)
{
	for (size_t k = 0; k < dir->dir.n; k++)
		if (dir->dir.vec[k].e && dir->dir.vec[k].e->ino == ino)
			return dir->dir.vec[k].e;
	return NULL;
}

/* One step up. Returns the directory that names ino, 0: not known. */
static uint64_t path_step(struct check *c, uint64_t ino, char *buf, size_t *at)
{
	const struct check_inode *ci = check_find(c, ino, NULL);
	const struct dent *e;
	struct inode *dir;
	uint64_t slot, up = 0;

	if (!ci || !ci->named || !check_find(c, ci->named, &slot) ||
	    check_read(c, ci->named, slot, &dir))
		return 0;
	e = find_entry(dir, ino);
	if (e && prepend(buf, at, e->name, e->namelen))
		up = ci->named;
	inode_delete(dir);
	return up;
}

const char *check_path(struct check *c, uint64_t ino, char *buf, size_t size)
{
	uint64_t start = ino;
	size_t at = size - 1;

	buf[at] = 0;
	if (ino == PMEMFS_ROOT_INO)
		buf[--at] = '/';
	while (ino && ino != PMEMFS_ROOT_INO) {
		ino = path_step(c, ino, buf, &at);
		if (ino == start)
			ino = 0;
	}
	if (!ino) { /* unknown from here up, or too long, or a loop */
		at -= 3;
		memcpy(buf + at, "...", 3);
	}
	return buf + at;
}
