/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker: its passes in order, and the two small ones, superblock and journal.
 *
 * Nothing is written with PMEMFS_FIX_NONE: what the journal holds is replayed on private
 * copies, so the medium must be shadowed then. Otherwise the superblock's copies and the
 * journal are put right first (as a mount would do), and everything else at the end; the
 * superblock says "clean" again only when the structure is in order.
 *
 * One thread, no locks.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "check.h"

/* ---- pass 1: superblock --------------------------------------------------------------- */

static int write_copy(struct check *c, unsigned block)
{
	media_copy(c->m, block * (uint64_t)PMEMFS_BLOCK_SIZE, &c->sb, sizeof(c->sb));
	return media_fence(c->m);
}

/* Both copies are valid. After a crash one may be older; equally old ones must be equal. */
static int compare_copies(struct check *c)
{
	struct pmemfs_super sb[2];
	int r = media_read(c->m, PMEMFS_SB_BLOCK * (uint64_t)PMEMFS_BLOCK_SIZE, &sb[0],
			   sizeof(sb[0]));

	if (!r)
		r = media_read(c->m, PMEMFS_SB_REPLICA * (uint64_t)PMEMFS_BLOCK_SIZE, &sb[1],
			       sizeof(sb[1]));
	if (r || get64(sb[0].sequence) != get64(sb[1].sequence) ||
	    !memcmp(&sb[0], &sb[1], sizeof(sb[0])) ||
	    !check_problem(c, &(struct problem){.code = CHECK_SB_DIFFER}))
		return r;
	return write_copy(c, PMEMFS_SB_REPLICA);
}

/* Nobody wants to know more. */
static bool looks_clean(const struct check *c)
{
	return !c->o->force && get32(c->sb.state) == PMEMFS_STATE_CLEAN;
}

static int check_super(struct check *c)
{
	const char *why;
	unsigned ok = 0;
	int r = super_read(c->m, &c->sb, &ok, &why);

	if (r)
		return r;
	if (ok != 3 || !looks_clean(c))
		check_progress(c, 1, 0, 1);
	if (get64(c->sb.ro_compat) & ~PMEMFS_ROCOMPAT_KNOWN && c->o->fix != PMEMFS_FIX_NONE)
		return -EPROTONOSUPPORT;
	if (!(ok & 1) && check_problem(c, &(struct problem){.code = CHECK_SB_PRIMARY}))
		r = write_copy(c, PMEMFS_SB_BLOCK);
	if (!(ok & 2) && check_problem(c, &(struct problem){.code = CHECK_SB_REPLICA}))
		r = write_copy(c, PMEMFS_SB_REPLICA);
	return ok == 3 ? compare_copies(c) : r;
}

/* ---- pass 2: journal ------------------------------------------------------------------ */

/* The journal names inodes, which the tables find. False: it ends here. */
static bool load_tables(struct check *c)
{
	bool good = true;

	for (unsigned s = 0; s < c->fs->shards; s++) {
		int r = itable_load(c->fs, s);

		if (!r)
			continue;
		good = false;
		check_problem(
		    c, &(struct problem){.code = CHECK_TABLE,
					 .num = s,
					 .name = r == -EUCLEAN ? "damaged" : strerror(-r)});
	}
	return good;
}

static void check_journal(struct check *c)
{
	struct problem p = {.code = CHECK_JOURNAL};
	uint64_t replayed;
	int r = c->was_clean ? 0 : journal_replay(c->fs, &replayed);

	if (!r)
		return;
	c->blocks_unknown = true; /* what it would have changed */
	if (r != -EUCLEAN) {
		p.code = CHECK_JOURNAL_IO;
		p.name = strerror(-r);
	}
	check_problem(c, &p);
}

/* ---- all of it ------------------------------------------------------------------------ */

static int run_passes(struct check *c)
{
	int r;

	check_progress(c, 2, 0, 1);
	if (!load_tables(c))
		return 0;
	check_journal(c);
	check_progress(c, 2, 1, 1);
	check_map_make(c);
	check_progress(c, 3, 0, 1);
	bad_load(c->fs);
	check_bad_list(c);
	r = check_inodes(c);
	if (r)
		return r;
	check_bad_own(c);
	check_progress(c, 4, 0, 1);
	r = check_names(c);
	if (r)
		return r;
	check_progress(c, 5, 0, 1);
	r = check_blocks(c);
	/* What is shared is nobody's to rebuild; it is checked when it is not shared any more.
	 */
	if (!r && !c->o->no_data && !(c->shared && c->o->fix != PMEMFS_FIX_NONE)) {
		check_progress(c, 6, 0, 1);
		r = check_data(c);
	}
	if (!r && c->o->bad_blocks)
		check_bad_blocks(c);
	return r ? r : check_repair(c);
}

/* The state of a clean unmount, when all is in order; else what it was, or "not clean". */
static int finish(struct check *c)
{
	struct pmemfs *fs = c->fs;
	int r;

	if (c->o->fix == PMEMFS_FIX_NONE || c->refused)
		return 0;
	/* Without the clean mark, a mount counts and collects for itself. */
	if (c->unsound)
		return c->recount ? check_dirty(c) : 0;
	/*
	 * The list that the superblock refers to is about to be written over: a crash in
	 * between must find one that is not clean, which refers to none.
	 */
	r = check_dirty(c);
	if (r)
		return r;
	fs->sb.state = put32(0);
	if (!c->o->no_data)
		fs->sb.checked = put64((uint64_t)time(NULL));
	c->fs = NULL;
	return pmemfs_unmount(fs);
}

static void fill_result(struct check *c)
{
	struct pmemfs_check_result *res = c->res;

	res->was_clean = c->was_clean;
	res->checked = true;
	res->used_blocks = c->used_blocks;
	res->free_blocks = get64(c->sb.blocks) - c->used_blocks;
	if (c->fs && c->changed) { /* what repairs took and gave */
		res->free_blocks = alloc_free(c->fs);
		res->used_blocks = get64(c->sb.blocks) - res->free_blocks;
	}
}

static int check_all(struct check *c)
{
	static const struct pmemfs_options options;
	int r;

	c->fs = fs_new(c->m, &c->sb, &options);
	if (c->again) /* what stands behind a log's end is still no crash's */
		c->fs->was_clean = c->was_clean;
	c->was_clean = c->fs->was_clean;
	c->fs->both =
	    true; /* of two head words that look good, the one that is going to stay */
	r = run_passes(c);
	fill_result(c);
	check_map_free(c);
	if (!r && !c->unshared)
		r = finish(c);
	c->again = !r && c->unshared;
	if (c->again)
		c->sb = c->fs->sb;
	if (c->fs)
		fs_delete(c->fs);
	free(c->fix);
	return r;
}

/* From the beginning, but for what was found out of the medium's state and has been repaired.
 */
static int check_again(struct check *c)
{
	struct pmemfs_check_result *res = c->res;

	*c = (struct check){.m = c->m,
			    .o = c->o,
			    .res = res,
			    .sb = c->sb,
			    .was_clean = c->was_clean,
			    .unsound = c->unsound,
			    .refused = c->refused,
			    .changed = c->changed,
			    .recount = c->recount,
			    .again = true};
	res->files = res->dirs = res->others = 0;
	return check_all(c);
}

static bool quick(struct check *c)
{
	struct pmemfs_check_result *res = c->res;

	if (!looks_clean(c) || res->problems)
		return false;
	res->was_clean = true;
	res->free_blocks = get64(c->sb.free_blocks);
	res->used_blocks = get64(c->sb.blocks) - res->free_blocks;
	return true;
}

int pmemfs_check(struct media *m, const struct pmemfs_check_options *o,
		 struct pmemfs_check_result *ret)
{
	struct pmemfs_check_result res = {0};
	struct check c = {.m = m, .o = o, .res = &res};
	int r;

	/* Replaying the journal stores: to private copies, or with leave. */
	if (o->fix == PMEMFS_FIX_NONE ? !media_shadowed(m) : media_readonly(m))
		return -EROFS;
	r = check_super(&c);
	if (!r && !quick(&c))
		r = check_all(&c);
	if (!r && c.again)
		r = check_again(&c);
	if (!r)
		*ret = res;
	return r;
}
