/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pass 6: the checksum of every written block of every file, as reading would check it. Blocks
 * behind the end of a file are never read, so nothing is asked of them.
 *
 * Where there is parity: what is damaged is rebuilt, if it can be; and when all files were
 * seen, each stripe's parity is compared with its members. What was open at a crash was made
 * anew before, as a mount does.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "check.h"

#define BATCH 512u

/* A run of bad blocks of a file that is not yet reported. */
struct bad {
	enum check_code code;
	const struct inode *inode;
	const struct range *range;
	uint64_t start, len, block;
};

/* Whether block b can be rebuilt; does so if `store`. */
static int rebuild(struct check *c, const struct inode *i, const struct range *r, uint64_t b,
		   bool store)
{
	uint8_t bytes[PMEMFS_BLOCK_SIZE] __attribute__((aligned(64)));
	bool stored;
	int err = file_rebuild(c->fs, i, r, b, 0, store, bytes, &stored);

	return err || stored || !store ? err : -EIO;
}

/* What could be rebuilt was not: the parity stays as it is. */
static void keep_parity(struct check *c, const struct bad *b)
{
	for (uint64_t k = 0; k < b->len; k++)
		parity_mark(c->fs, (b->block + k) / PMEMFS_STRIPE, true);
}

/* The medium does not take block k of them: it goes elsewhere when all space is known. */
static void move_later(struct check *c, const struct bad *b, uint64_t k, bool *moves)
{
	check_fix_later(c, FIX_MOVE, b->inode->ino, b->start + k);
	c->fix[c->fixes - 1].quiet = *moves; /* the problem is one */
	c->agreed += !*moves;
	*moves = true;
}

static void repair_bad(struct check *c, const struct bad *b)
{
	int err = check_dirty(c), one;
	bool moves = false;

	for (uint64_t k = 0; k < b->len && b->code == CHECK_REBUILD; k++) {
		one = rebuild(c, b->inode, b->range, b->start + k, true);
		if (one && bad_next(c->fs, b->block + k, b->block + k + 1) == b->block + k) {
			move_later(c, b, k, &moves);
			one = 0;
		}
		err = err ? err : one;
	}
	if (b->code == CHECK_UNCOVERED)
		parity_adopt(c->fs, b->block, b->len, NULL);
	if ((err || moves) && b->code == CHECK_REBUILD)
		keep_parity(c, b);
	if (err)
		check_repair_failed(c, &(struct fix){.ino = b->inode->ino}, err);
}

static void report_bad(struct check *c, struct bad *b)
{
	struct problem p = {.code = b->code,
			    .ino = b->inode->ino,
			    .num = b->start,
			    .want = b->start + b->len - 1,
			    .off = b->block * PMEMFS_BLOCK_SIZE};

	if (b->len && check_problem(c, &p))
		repair_bad(c, b);
	else if (b->len && b->code == CHECK_REBUILD)
		keep_parity(c, b);
	b->len = 0;
}

static void add_bad(struct check *c, struct bad *b, enum check_code code, uint64_t fblock,
		    uint64_t block)
{
	if (b->len &&
	    (b->code != code || b->start + b->len != fblock || b->block + b->len != block))
		report_bad(c, b);
	if (!b->len) {
		b->code = code;
		b->start = fblock;
		b->block = block;
	}
	b->len++;
}

/* Blocks [from, from + n) of the range, n at most BATCH. */
static void check_batch(struct check *c, const struct inode *i, const struct range *r,
			uint64_t from, uint64_t n, struct bad *bad)
{
	uint64_t block = range_block(r) + (from - r->start), hash;
	uint64_t at = r->csum + 8 * (from - r->start);
	le64 csum[BATCH];
	int err = media_read(c->m, at, csum, n * 8);

	if (err) {
		check_problem(c, &(struct problem){.code = CHECK_CSUM_IO,
						   .ino = i->ino,
						   .off = at,
						   .name = strerror(-err)});
		return;
	}
	for (uint64_t k = 0; k < n; k++, block++) {
		uint32_t valid = data_valid(i->attr.size, from + k);

		if (!valid)
			continue;
		err = media_hash(c->m, block * PMEMFS_BLOCK_SIZE, valid,
				 data_seed(c->fs, block), &hash);
		if (err || hash != get64(csum[k]))
			add_bad(c, bad,
				!rebuild(c, i, r, from + k, false) ? CHECK_REBUILD
				: err				   ? CHECK_DATA_IO
								   : CHECK_DATA,
				from + k, block);
		else if (!parity_covers(c->fs, block, 1))
			add_bad(c, bad, CHECK_UNCOVERED, from + k, block);
	}
}

static void check_range(struct check *c, const struct inode *i, const struct range *r,
			struct bad *bad)
{
	for (uint64_t at = r->start, n; at < range_end(r); at += n) {
		n = MIN(range_end(r) - at, BATCH);
		check_batch(c, i, r, at, n, bad);
		c->data_done += n;
		check_progress(c, 6, c->data_done, c->written);
	}
}

static int check_file(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci)
{
	struct bad bad = {0};
	struct range_cursor cur;
	struct inode *i;
	int r;

	if (!(ci->flags & CI_DATA) || ci->flags & (CI_BAD | CI_ORPHAN))
		return 0;
	r = check_read(c, ino, slot, &i);
	if (r)
		return r;
	bad.inode = i;
	for (const struct range *e = rangemap_find(&i->extents, 0, &cur); e;
	     e = rangemap_next(&i->extents, &cur)) {
		bad.range = e;
		if (!range_flags(e))
			check_range(c, i, e, &bad);
		report_bad(c, &bad);
	}
	inode_delete(i);
	return 0;
}

static int check_stripes(struct check *c)
{
	int err = 0;

	for (uint64_t k = 0; k < parity_stripes(c->fs) && !err; k++) {
		struct problem p = {.code = CHECK_PARITY,
				    .num = k * PMEMFS_STRIPE,
				    .want = (k + 1) * PMEMFS_STRIPE - 1};

		if (parity_is_marked(c->fs, k) || parity_check(c->fs, k) <= 0 ||
		    !check_problem(c, &p))
			continue;
		err = check_dirty(c);
		if (!err && parity_remake(c->fs, k))
			check_repair_failed(c, &(struct fix){.ino = 0}, -EIO);
	}
	return err;
}

int check_data(struct check *c)
{
	int r;

	if (!c->was_clean) /* without -n on the medium, else on private copies */
		parity_recover(c->fs);
	r = check_each(c, 0, check_file);
	return r ? r : check_stripes(c);
}
