/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pass 4: every directory entry, and every inode's names.
 *
 * Three walks: all entries, counting names; entries of directories with more than one name, if
 * there are any; all inodes, comparing what was counted with what their logs say. Of several
 * names of a directory the one in the directory that its log calls its parent stays. No
 * recursion: paths are climbed by parent, with marks.
 */
#include <dirent.h>

#include "check.h"

static bool usable(const struct check_inode *ci)
{
	return ci->type && !(ci->flags & CI_BAD);
}

static bool usable_dir(const struct check_inode *ci)
{
	return usable(ci) && ci->type == DT_DIR;
}

/* ---- entries ---- */

static bool entry_problem(struct check *c, enum check_code code, uint64_t dir,
			  const struct dent *e, uint64_t have, uint64_t want)
{
	char name[PMEMFS_NAME_MAX + 1];

	memcpy(name, e->name, e->namelen);
	name[e->namelen] = 0;
	return check_problem(c, &(struct problem){.code = code,
						  .ino = dir,
						  .ino2 = e->ino,
						  .num = have,
						  .want = want,
						  .name = name});
}

/* A directory's name. It may have only one; which, is known at the end of the walk. */
static void count_dir_name(uint64_t dir, struct check_inode *ci)
{
	if (ci->parent == dir && !(ci->flags & CI_PARENT)) {
		ci->named = dir;
		ci->flags |= CI_PARENT;
	}
	if (!ci->named)
		ci->named = dir;
	ci->names++;
}

static void check_entry(struct check *c, uint64_t dir, const struct dent *e)
{
	struct check_inode *ci = check_find(c, e->ino, NULL);

	if (e->ino == PMEMFS_ROOT_INO) {
		if (entry_problem(c, CHECK_NAMES_ROOT, dir, e, 0, 0))
			check_fix_later(c, FIX_ENTRY, dir, e->cookie);
		return;
	}
	if (!ci || (!ci->type && !(ci->flags & CI_BAD))) {
		if (entry_problem(c, CHECK_DANGLING, dir, e, 0, 0))
			check_fix_later(c, FIX_ENTRY, dir, e->cookie);
		return;
	}
	if (usable(ci) && e->type != ci->type &&
	    entry_problem(c, CHECK_ENTRY_TYPE, dir, e, e->type, ci->type))
		check_fix_later(c, FIX_ENTRY_TYPE, dir, e->cookie);
	if (usable_dir(ci)) {
		count_dir_name(dir, ci);
		return;
	}
	if (!ci->named)
		ci->named = dir;
	ci->names++;
}

static int scan_dir(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci)
{
	struct inode *i;
	int r;

	if (!usable_dir(ci) || !(ci->flags & CI_FULL))
		return 0;
	r = check_read(c, ino, slot, &i);
	if (r) /* pass 3 could read it */
		return r;
	for (size_t k = 0; k < i->dir.n; k++)
		if (i->dir.vec[k].e)
			check_entry(c, ino, i->dir.vec[k].e);
	inode_delete(i);
	return 0;
}

/* An entry of a directory that has several names. */
static void check_second(struct check *c, uint64_t dir, const struct dent *e)
{
	struct check_inode *ci = check_find(c, e->ino, NULL);

	if (!ci || !usable_dir(ci) || ci->names < 2 || e->ino == PMEMFS_ROOT_INO)
		return;
	if (ci->named == dir && !(ci->flags & CI_KEPT)) {
		ci->flags |= CI_KEPT;
		return;
	}
	if (entry_problem(c, CHECK_SECOND_NAME, dir, e, 0, 0))
		check_fix_later(c, FIX_ENTRY, dir, e->cookie);
}

static int scan_second(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci)
{
	struct inode *i;
	int r;

	if (!usable_dir(ci) || !(ci->flags & CI_FULL))
		return 0;
	r = check_read(c, ino, slot, &i);
	if (r)
		return r;
	for (size_t k = 0; k < i->dir.n; k++)
		if (i->dir.vec[k].e)
			check_second(c, ino, i->dir.vec[k].e);
	inode_delete(i);
	return 0;
}

static int find_second(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci)
{
	return usable_dir(ci) && ci->names > 1;
}

/* ---- inodes ---- */

/* After a crash, one of a file that was open when it was removed: freed as recovery would. */
static void found_orphan(struct check *c, uint64_t ino, struct check_inode *ci)
{
	struct problem p = {.code = CHECK_ORPHAN, .ino = ino};

	ci->flags |= CI_ORPHAN;
	if (!c->was_clean)
		check_fix_quietly(c, FIX_FREE, ino);
	else if (check_problem(c, &p))
		check_fix_later(c, FIX_FREE, ino, 0);
}

static void found_unnamed(struct check *c, uint64_t ino, struct check_inode *ci)
{
	struct problem p = {.code = CHECK_UNREACHABLE, .ino = ino};

	if (!ci->nlink && !(ci->flags & CI_FULL))
		found_orphan(c, ino, ci);
	else if (check_problem(c, &p))
		check_fix_later(c, FIX_RECONNECT, ino, 0);
}

static void check_links(struct check *c, uint64_t ino, struct check_inode *ci)
{
	struct problem p = {.ino = ino, .num = ci->nlink, .want = ci->names};
	bool dir = ci->type == DT_DIR;

	if (!ci->nlink) {
		p.code = CHECK_REMOVED_NAMED;
		if (check_problem(c, &p))
			check_fix_later(c, FIX_NLINK, ino, dir ? 1 : ci->names);
	} else if (!dir && ci->nlink != ci->names) {
		p.code = CHECK_NLINK;
		if (check_problem(c, &p))
			check_fix_later(c, FIX_NLINK, ino, ci->names);
	}
	if (dir && ci->parent != ci->named) {
		p.code = CHECK_PARENT;
		p.num = ci->parent;
		p.want = ci->named;
		if (check_problem(c, &p))
			check_fix_later(c, FIX_PARENT, ino, ci->named);
	}
}

static int judge(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci)
{
	if (!usable(ci) || ino == PMEMFS_ROOT_INO)
		return 0;
	if (ci->names)
		check_links(c, ino, ci);
	else
		found_unnamed(c, ino, ci);
	return 0;
}

/* Marks what leads up from ino until something that was reached before, or `stop`. */
static void mark_path(struct check *c, uint64_t ino, uint64_t stop)
{
	struct check_inode *ci = check_find(c, ino, NULL);

	while (ci && !(ci->flags & CI_REACHED)) {
		ci->flags = (ci->flags & ~CI_ONPATH) | CI_REACHED;
		ci = ci->named && ci->named != stop ? check_find(c, ci->named, NULL) : NULL;
	}
}

/*
 * Climbs from a directory until the root, one without a name (which was reported) or one known
 * to be reached. Meeting a directory of this climb again closes a loop.
 */
static int check_reached(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci)
{
	uint64_t at = ino;

	if (!usable_dir(ci))
		return 0;
	while (ci && !(ci->flags & (CI_REACHED | CI_ONPATH)) && at != PMEMFS_ROOT_INO) {
		ci->flags |= CI_ONPATH;
		if (!ci->named)
			break;
		at = ci->named;
		ci = check_find(c, at, NULL);
	}
	if (ci && ci->flags & CI_ONPATH && ci->named &&
	    check_problem(c, &(struct problem){.code = CHECK_LOOP, .ino = at}))
		check_fix_later(c, FIX_RECONNECT, at, 0);
	mark_path(c, ino, 0);
	return 0;
}

/* ---- the root ---- */

static const char *root_state(struct check *c)
{
	const struct check_inode *root = check_find(c, PMEMFS_ROOT_INO, NULL);

	if (!root || (!root->type && !(root->flags & CI_BAD)))
		return "missing";
	if (root->flags & CI_BAD)
		return "damaged";
	if (root->type != DT_DIR)
		return "no directory";
	return root->nlink ? NULL : "marked as removed";
}

static void check_root(struct check *c)
{
	const struct check_inode *root;
	const char *state = root_state(c);

	if (c->no_root)
		return; /* pass 3 has told */
	if (state) {
		c->no_root = true;
		check_problem(c, &(struct problem){.code = CHECK_ROOT, .name = state});
		return;
	}
	root = check_find(c, PMEMFS_ROOT_INO, NULL);
	if (root->parent != PMEMFS_ROOT_INO &&
	    check_problem(c, &(struct problem){.code = CHECK_PARENT,
					       .ino = PMEMFS_ROOT_INO,
					       .num = root->parent,
					       .want = PMEMFS_ROOT_INO}))
		check_fix_later(c, FIX_PARENT, PMEMFS_ROOT_INO, PMEMFS_ROOT_INO);
}

int check_names(struct check *c)
{
	int r;

	check_root(c);
	r = check_each(c, 4, scan_dir);
	if (!r)
		r = check_each(c, 0, find_second);
	if (r == 1)
		r = check_each(c, 0, scan_second);
	/* What a directory that cannot be read names is not known to be unreachable. */
	if (r || c->names_unknown || c->no_root)
		return r;
	r = check_each(c, 0, judge);
	return r ? r : check_each(c, 0, check_reached);
}
