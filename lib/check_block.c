/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pass 5: blocks. Pass 3 entered the owner of each in a bitmap; here are those with two owners,
 * and after a clean unmount the saved free list and counters, which must be what is left over.
 */
#include <errno.h>

#include "check.h"

/* ---- shared blocks ----
 *
 * Logs, tables and what has a fixed place stay where they are: their own checksums say whose
 * they are. Data of files moves, so nothing is decided about whose it was: who has the right
 * checksum for it keeps his data, each in a block of his own; who has not reads an error, as
 * before.
 */

static bool has_bit(const uint64_t *map, uint64_t block)
{
	return map[block / 64] >> block % 64 & 1;
}

/* What of an inode stays where it is: its log, and the blocks of a table. */
static void firm_runs(const struct inode *i, struct extvec *ret)
{
	struct range_cursor at;
	const struct range *r = inode_is_table(i) ? rangemap_find(&i->extents, 0, &at) : NULL;

	for (; r; r = rangemap_next(&i->extents, &at))
		extvec_add(ret, range_block(r), r->len);
	for (uint32_t k = 0; k < i->log.nseg; k++)
		extvec_add(ret, i->log.seg[k].block, i->log.seg[k].blocks);
}

static void note_firm(struct check *c, const struct inode *i)
{
	struct extvec x;

	extvec_init(&x);
	firm_runs(i, &x);
	for (size_t k = 0; k < x.n; k++)
		for (uint64_t b = x.v[k].block; b < x.v[k].block + x.v[k].len; b++) {
			uint64_t bit = 1ull << b % 64;

			if (!has_bit(c->shared, b))
				continue;
			if (c->firm[b / 64] & bit || super_is_reserved(&c->sb, b)) {
				c->firm_twice[b / 64] |= bit;
				c->stuck = true;
			}
			c->firm[b / 64] |= bit;
		}
	extvec_done(&x);
}

static void report_firm(struct check *c, const struct inode *i)
{
	struct problem p = {.code = CHECK_SHARED, .ino = i->ino};
	struct extvec x;

	extvec_init(&x);
	firm_runs(i, &x);
	for (size_t k = 0; k < x.n; k++)
		for (uint64_t b = x.v[k].block, end = b + x.v[k].len, n; b < end; b += n) {
			for (n = 0; b + n < end && has_bit(c->firm_twice, b + n); n++)
				;
			p.num = b;
			p.want = b + n - 1;
			if (n)
				check_problem(c, &p);
			else
				n = 1;
		}
	extvec_done(&x);
}

/* File blocks [b, b + n) of the range. */
static void report_data(struct check *c, const struct inode *i, const struct range *r,
			uint64_t b, uint64_t n)
{
	struct problem p = {.code = CHECK_SHARED_DATA,
			    .ino = i->ino,
			    .num = b,
			    .want = b + n - 1,
			    .off = (range_block(r) + (b - r->start)) * PMEMFS_BLOCK_SIZE};

	if (!check_problem(c, &p)) {
		c->stuck = true;
		return;
	}
	c->agreed++;
	c->shares++;
	for (uint64_t k = 0; k < n; k++) {
		check_fix_later(c, FIX_UNSHARE, i->ino, b + k);
		c->fix[c->fixes - 1].quiet = k; /* the problem is one */
	}
}

static void report_shared(struct check *c, const struct inode *i)
{
	struct range_cursor at;

	report_firm(c, i);
	if (!S_ISREG(i->attr.mode) || inode_is_table(i))
		return;
	for (const struct range *r = rangemap_find(&i->extents, 0, &at); r;
	     r = rangemap_next(&i->extents, &at))
		for (uint64_t b = r->start, n; b < range_end(r); b += n) {
			uint64_t block = range_block(r) + (b - r->start);

			for (n = 0; b + n < range_end(r) && has_bit(c->shared, block + n); n++)
				;
			if (n)
				report_data(c, i, r, b, n);
			else
				n = 1;
		}
}

static int each_owner(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci,
		      void (*fn)(struct check *c, const struct inode *i))
{
	struct inode *i;
	int r;

	if (!ci->type || ci->flags & CI_BAD)
		return 0;
	r = check_read(c, ino, slot, &i);
	if (r)
		return r;
	fn(c, i);
	inode_delete(i);
	return 0;
}

static int note_owner(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci)
{
	return each_owner(c, ino, slot, ci, note_firm);
}

static int report_owner(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci)
{
	return each_owner(c, ino, slot, ci, report_shared);
}

static void internal_owners(struct check *c, void (*fn)(struct check *c, const struct inode *i))
{
	for (unsigned s = 0; s < c->fs->shards; s++)
		fn(c, c->fs->shard[s].table.inode);
	if (c->fs->quota.inode)
		fn(c, c->fs->quota.inode);
}

static int check_shared(struct check *c)
{
	int r;

	c->firm = xcalloc(c->fs->blocks / 64 + 1, sizeof(c->firm[0]));
	c->firm_twice = xcalloc(c->fs->blocks / 64 + 1, sizeof(c->firm_twice[0]));
	internal_owners(c, note_firm);
	r = check_each(c, 0, note_owner);
	if (r)
		return r;
	internal_owners(c, report_shared);
	return check_each(c, 5, report_owner);
}

/* ---- what was saved ---- */

struct tally {
	uint64_t listed, used; /* blocks that the list calls free; those of them that are not */
};

static void compare_range(struct check *c, const struct range *r, struct tally *t)
{
	uint64_t block = range_block(r);

	t->listed += r->len;
	for (uint64_t k = 0, n; k < r->len; k += n) {
		struct problem p = {.code = CHECK_SAVED_USED, .num = block + k};

		for (n = 0; k + n < r->len && check_is_owned(c, block + k + n); n++)
			;
		p.want = block + k + n - 1;
		t->used += n;
		if (n)
			c->recount |= check_problem(c, &p);
		else
			n = 1;
	}
}

static void compare_map(struct check *c, const struct rangemap *m, struct tally *t)
{
	struct range_cursor cur;

	for (const struct range *r = rangemap_find(m, 0, &cur); r; r = rangemap_next(m, &cur))
		compare_range(c, r, t);
}

static uint64_t free_total(const struct check *c)
{
	return c->fs->blocks - c->used_blocks;
}

static int check_saved(struct check *c)
{
	struct tally t = {0};
	int r = saved_read(c->fs);

	if (r == -EUCLEAN || r == -EIO) {
		c->recount |= check_problem(c, &(struct problem){.code = CHECK_SAVED_LIST});
		return 0;
	}
	if (r)
		return r;
	for (unsigned s = 0; s < c->fs->shards; s++) {
		compare_map(c, &c->fs->shard[s].small, &t);
		compare_map(c, &c->fs->shard[s].huge, &t);
	}
	if (!c->blocks_unknown && t.listed - t.used < free_total(c))
		c->recount |= check_problem(
		    c, &(struct problem){.code = CHECK_SAVED_LEAK,
					 .num = free_total(c) - (t.listed - t.used)});
	return 0;
}

static void check_count(struct check *c, enum check_code code, uint64_t have, uint64_t want)
{
	struct problem p = {.code = code, .num = have, .want = want};

	if (have != want)
		c->recount |= check_problem(c, &p);
}

int check_blocks(struct check *c)
{
	int r = 0;

	if (c->shared)
		r = check_shared(c);
	if (r || !c->was_clean || c->changed) /* mended: what was saved is void */
		return r;
	r = check_saved(c);
	if (r)
		return r;
	check_progress(c, 5, 1, 1);
	if (c->blocks_unknown)
		return 0;
	check_count(c, CHECK_FREE_COUNT, get64(c->sb.free_blocks), free_total(c));
	check_count(c, CHECK_INODE_COUNT, get64(c->sb.used_inodes), c->inodes);
	check_count(c, CHECK_DENTRY_COUNT, get64(c->sb.dentry_bytes), c->dentry_bytes);
	check_usage(c);
	return 0;
}
