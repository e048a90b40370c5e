/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pass 6: the checksum of every written block of every file, as reading would check it. Blocks
 * behind the end of a file are never read, so nothing is asked of them.
 */
#include <dirent.h>
#include <string.h>

#include "check.h"

#define BATCH 512u

/* A run of bad blocks of a file that is not yet reported. */
struct bad {
	enum check_code code;
	uint64_t ino, start, len, block;
};

static void report_bad(struct check *c, struct bad *b)
{
	struct problem p = {.code = b->code,
			    .ino = b->ino,
			    .num = b->start,
			    .want = b->start + b->len - 1,
			    .off = b->block * PMEMFS_BLOCK_SIZE};

	if (b->len)
		check_problem(c, &p);
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
			add_bad(c, bad, err ? CHECK_DATA_IO : CHECK_DATA, from + k, block);
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
	struct bad bad = {.ino = ino};
	struct range_cursor cur;
	struct inode *i;
	int r;

	if (!(ci->flags & CI_DATA) || ci->flags & (CI_BAD | CI_ORPHAN))
		return 0;
	r = check_read(c, ino, slot, &i);
	if (r)
		return r;
	for (const struct range *e = rangemap_find(&i->extents, 0, &cur); e;
	     e = rangemap_next(&i->extents, &cur))
		if (!range_flags(e))
			check_range(c, i, e, &bad);
	report_bad(c, &bad);
	inode_delete(i);
	return 0;
}

int check_data(struct check *c)
{
	return check_each(c, 0, check_file);
}
