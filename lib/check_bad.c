/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bad blocks: the list of them (pass 3), whose blocks belong to nobody else or to the file that
 * has them; and, when that was asked for, a reading of every block of the device, by which the
 * list is put right (with pass 6, when parity has stored what it can).
 */
#include <errno.h>

#include "check.h"

#define CHUNK 256u /* blocks read at once */

void check_bad_list(struct check *c)
{
	for (unsigned k = 0; k < PMEMFS_BAD_MAX; k++) {
		struct problem p = {
		    .code = CHECK_BAD_WORD, .num = k, .off = super_bad_list(&c->sb) + k * 8u};
		int state = bad_word_state(c->fs, k);

		if (state == BAD_WORD_MISSING && !c->was_clean)
			check_fix_quietly(c, FIX_BAD_LIST, 0);
		else if (state && check_problem(c, &p))
			check_fix_later(c, FIX_BAD_LIST, 0, k);
	}
}

void check_bad_own(struct check *c)
{
	for (unsigned k = 0; k < PMEMFS_BAD_MAX; k++) {
		uint64_t block = c->fs->bad.block[k];

		c->bad_own[k] = block && !check_is_owned(c, block);
		if (c->bad_own[k])
			check_own(c, block, 1);
	}
}

/* ---- reading them all ---- */

static bool can_read(struct check *c, uint64_t block, uint64_t n)
{
	uint64_t hash;

	return !media_hash(c->m, block * PMEMFS_BLOCK_SIZE, n * PMEMFS_BLOCK_SIZE, 0, &hash);
}

/* Blocks [block, end) cannot be read, and are not on the list. */
static void add_bad(struct check *c, uint64_t block, uint64_t end)
{
	struct problem p = {.code = CHECK_BAD_NEW, .num = block, .want = end - 1};
	int err;

	if (block == end || !check_problem(c, &p))
		return;
	err = check_dirty(c);
	for (; block < end && !err; block++) {
		err = bad_note(c->fs, block);
		if (!err && !check_is_owned(c, block))
			check_own(c, block, 1);
	}
	if (err)
		check_repair_failed(c, &(struct fix){.ino = 0}, err);
}

static void drop_good(struct check *c, unsigned k)
{
	uint64_t block = c->fs->bad.block[k];
	struct problem p = {.code = CHECK_BAD_GOOD, .num = block};
	int err;

	if (!check_problem(c, &p))
		return;
	err = check_dirty(c);
	if (!err)
		err = bad_forget(c->fs, block);
	if (err)
		check_repair_failed(c, &(struct fix){.ino = 0}, err);
	else if (c->bad_own[k])
		check_disown(c, block);
}

void check_bad_blocks(struct check *c)
{
	uint64_t start = 0, end = 0; /* of a run that is not yet reported */

	for (unsigned k = 0; k < PMEMFS_BAD_MAX; k++)
		if (c->fs->bad.block[k] && can_read(c, c->fs->bad.block[k], 1))
			drop_good(c, k);
	for (uint64_t block = 0, n; block < c->fs->blocks; block += n) {
		n = MIN(c->fs->blocks - block, CHUNK);
		check_progress(c, 7, block, c->fs->blocks);
		if (can_read(c, block, n))
			continue;
		for (uint64_t b = block; b < block + n; b++) {
			if (super_is_reserved(&c->sb, b) || bad_next(c->fs, b, b + 1) == b ||
			    can_read(c, b, 1))
				continue;
			if (b != end) {
				add_bad(c, start, end);
				start = b;
			}
			end = b + 1;
		}
	}
	add_bad(c, start, end);
	check_progress(c, 7, c->fs->blocks, c->fs->blocks);
}
