/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Quotas in the passes: the file of limits and its entries (3), and what the last unmount has
 * saved of the usage (5). Its log is read as any other, and what it owns is entered by pass 3.
 *
 * Repairs are counted but not limited: the sums that pass 3 makes follow them, so that what is
 * saved at the end is right.
 */
#include <errno.h>

#include "check.h"

#define PER_BLOCK (PMEMFS_BLOCK_SIZE / sizeof(struct pmemfs_limit))

/* 1: it is a file of limits; 0: it is not, and was given up; -1: it is not, and stays. */
int check_limits_kind(struct check *c, const struct inode *i)
{
	struct problem p = {.code = CHECK_LIMITS_KIND, .ino = i->ino};
	int r;

	if (S_ISREG(i->attr.mode) && i->attr.nlink == 1 && i->attr.size <= PMEMFS_LIMITS_MAX)
		return 1;
	if (!check_problem(c, &p)) {
		c->blocks_unknown = true;
		return -1;
	}
	r = check_give_up(c, i->ino, i->slot, i->log.head);
	return r ? -1 : 0;
}

/* ---- limits ---- */

static const char *kind_name(uint32_t kind)
{
	return kind == PMEMFS_LIMIT_USER ? "user" : "group";
}

static void look_entry(void *arg, uint64_t index, const struct pmemfs_limit *e)
{
	struct check *c = arg;
	struct problem p = {.code = CHECK_LIMIT, .num = index};
	struct quota_id *id;

	if (!e) {
		p.code = CHECK_LIMIT_DATA;
		p.want = index + PER_BLOCK - 1;
	} else if (limit_is_free(e)) {
		return;
	} else if (limit_valid(e)) {
		/* limits_load has given the place to the first one */
		id = quota_find(c->fs, get32(e->kind) - 1, get32(e->id), true);
		if (id->entry == index)
			return;
		p.code = CHECK_LIMIT_TWICE;
		p.name = kind_name(get32(e->kind));
		p.want = get32(e->id);
	}
	if (check_problem(c, &p))
		check_fix_later(c, e ? FIX_LIMIT : FIX_LIMITS, PMEMFS_INO_QUOTA, index);
}

void check_limits(struct check *c)
{
	struct quota *q = &c->fs->quota;

	/* What it finds wrong with the log was found already, and is not mended yet. */
	c->quotas_unknown = limits_load(c->fs);
	if (!q->inode)
		return;
	q->enforce = false;
	limits_walk(c->fs, q->inode, look_entry, c);
	limits_start(c->fs, true);
}

/* ---- usage ---- */

static void report_usage(struct check *c, const struct quota_usage *u)
{
	struct problem p = {.code = CHECK_USAGE, .name = kind_name(u->kind), .want = u->id};

	c->recount |= check_problem(c, &p);
}

static int compare(const struct quota_usage *a, const struct quota_usage *b)
{
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static void compare_usage(struct check *c, const struct quota_usage *sum, size_t n)
{
	const struct quota *q = &c->fs->quota;
	size_t i = 0, k = 0;

	while (i < n || k < q->saveds) {
		const struct quota_usage *a = i < n ? &sum[i] : NULL;
		const struct quota_usage *b = k < q->saveds ? &q->saved[k] : NULL;
		int order = !a ? 1 : !b ? -1 : compare(a, b);

		if (order || a->blocks != b->blocks || a->inodes != b->inodes)
			report_usage(c, order > 0 ? b : a);
		i += order <= 0;
		k += order >= 0;
	}
}

/* Nothing was saved where no block was free for it; without quotas nothing should be. */
void check_usage(struct check *c)
{
	struct quota *q = &c->fs->quota;
	struct quota_usage *sum = NULL;
	size_t n = q->inode ? quota_collect(c->fs, &sum) : 0;

	if (q->saveds && !c->quotas_unknown)
		compare_usage(c, sum, n);
	free(sum);
	q->saveds = 0; /* what is saved anew is the sum, or nothing */
}
