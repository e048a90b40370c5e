/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pass 5: blocks. Pass 3 entered the owner of each in a bitmap; here are those with two owners,
 * and after a clean unmount the saved free list and counters, which must be what is left over.
 */
#include <errno.h>

#include "check.h"

/* ---- shared blocks ---- */

static bool is_shared(const struct check *c, uint64_t block)
{
	return c->shared[block / 64] >> block % 64 & 1;
}

static void report_shared(struct check *c, uint64_t ino, uint64_t block, uint64_t len)
{
	for (uint64_t k = 0, n; k < len; k += n) {
		for (n = 0; k + n < len && is_shared(c, block + k + n); n++)
			;
		if (n)
			check_problem(c, &(struct problem){.code = CHECK_SHARED,
							   .ino = ino,
							   .num = block + k,
							   .want = block + k + n - 1});
		else
			n = 1;
	}
}

static void find_shared(struct check *c, const struct inode *i)
{
	struct extvec x;

	extvec_init(&x);
	inode_runs(i, &x);
	for (size_t k = 0; k < x.n; k++)
		report_shared(c, i->ino, x.v[k].block, x.v[k].len);
	extvec_done(&x);
}

static int shared_owner(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci)
{
	struct inode *i;
	int r;

	if (!ci->type || ci->flags & CI_BAD)
		return 0;
	r = check_read(c, ino, slot, &i);
	if (r)
		return r;
	find_shared(c, i);
	inode_delete(i);
	return 0;
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

	if (c->shared) {
		for (unsigned s = 0; s < c->fs->shards; s++)
			find_shared(c, c->fs->shard[s].table.inode);
		if (c->fs->quota.inode)
			find_shared(c, c->fs->quota.inode);
		r = check_each(c, 5, shared_owner);
	}
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
