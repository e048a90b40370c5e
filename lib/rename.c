/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Renaming and exchanging: one transaction over up to two directories, two inodes, and what is
 * made in the old one's place.
 *
 * Locks: see namei.c. What moves between directories does so under fs->rename, so that nobody
 * can make a loop out of two moves that are each right.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>

#include "namei.h"

struct rename {
	struct pmemfs *fs;
	struct inode *d1, *d2; /* may be the same */
	const char *n1, *n2;
	struct dent *e1, *e2;  /* e2 may be NULL */
	struct inode *i1, *i2; /* the moved one; the victim or the other moved one */
	struct inode *white;   /* what takes the old name, or NULL */
	unsigned flags;
	const struct pmemfs_cred *by;
};

/*
 * Is `above` the directory `ino` or one of its ancestors? 1, 0 or -errno. Under fs->rename,
 * which alone lets a directory's parent change: so no lock is needed to read it.
 */
static int is_above(struct pmemfs *fs, uint64_t above, uint64_t ino)
{
	uint64_t end = itable_inodes(fs);

	for (uint64_t depth = 0; depth <= end; depth++) {
		struct inode *i;
		int err;

		if (ino == above)
			return 1;
		if (ino == PMEMFS_ROOT_INO)
			return 0;
		if (!ino) /* only a directory's log names its parent */
			return -ENOTDIR;
		err = inode_get(fs, ino, &i);
		if (err)
			return err == -ESTALE ? -ENOENT : err;
		ino = i->parent;
		inode_put_unworked(fs, i); /* a directory below it may be locked */
	}
	return -EIO; /* a loop */
}

/* References go when no lock is held any more: a last one takes the lock again. */
static void close_dirs(struct rename *r)
{
	inode_unlock(r->d1);
	if (r->d2 != r->d1) {
		inode_unlock(r->d2);
		inode_put(r->fs, r->d2, 1);
	}
	inode_put(r->fs, r->d1, 1);
}

static int open_dirs(struct rename *r, uint64_t dir1, uint64_t dir2)
{
	bool first2;
	int err;

	if (dir1 == dir2) {
		err = dir_open(r->fs, dir1, true, &r->d1);
		r->d2 = r->d1;
		return err;
	}
	err = is_above(r->fs, dir2, dir1);
	if (err < 0)
		return err;
	first2 = err;
	if (!first2) {
		err = is_above(r->fs, dir1, dir2);
		if (err < 0)
			return err;
		first2 = !err && dir2 < dir1;
	}
	err =
	    first2 ? dir_open(r->fs, dir2, true, &r->d2) : dir_open(r->fs, dir1, true, &r->d1);
	if (err)
		return err;
	err =
	    first2 ? dir_open(r->fs, dir1, true, &r->d1) : dir_open(r->fs, dir2, true, &r->d2);
	if (err)
		inode_close(r->fs, first2 ? r->d2 : r->d1);
	return err;
}

/*
 * A directory must not go below itself; nor may a child be locked that is one of the locked
 * directories. Only in different directories can a child be above one: the parents were checked
 * to be a tree.
 */
static int check_loops(struct rename *r)
{
	int err;

	if (r->d1 == r->d2)
		return 0;
	if (r->e1->type == DT_DIR) {
		if (r->e1->ino == r->d2->ino)
			return -EINVAL;
		err = is_above(r->fs, r->e1->ino, r->d2->parent);
		if (err)
			return err < 0 ? err : -EINVAL;
	}
	if (r->e2 && r->e2->type == DT_DIR) {
		int above = r->flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;

		if (r->e2->ino == r->d1->ino)
			return above;
		err = is_above(r->fs, r->e2->ino, r->d1->parent);
		if (err)
			return err < 0 ? err : above;
	}
	return 0;
}

static int check_rename(struct rename *r)
{
	bool exchange = r->flags & RENAME_EXCHANGE;
	int err;

	if (!r->e1)
		return -ENOENT;
	err = name_check(r->n2);
	if (err)
		return err;
	if (exchange && !r->e2)
		return -ENOENT;
	if (r->flags & RENAME_NOREPLACE && r->e2)
		return -EEXIST;
	err = check_loops(r);
	if (!err && r->e2 && !exchange && (r->e1->type == DT_DIR) != (r->e2->type == DT_DIR))
		err = r->e1->type == DT_DIR ? -ENOTDIR : -EISDIR;
	return err;
}

static void put_child(struct rename *r, struct inode **i)
{
	if (*i)
		inode_put(r->fs, *i, 1);
	*i = NULL;
}

/* Gets both children, then locks them by number. */
static int open_children(struct rename *r)
{
	bool swap;
	int err = 0;

	if (r->e1->ino == r->d2->ino || (r->e2 && r->e2->ino == r->d1->ino))
		err =
		    -EIO; /* locked already: only a damaged directory names its own kind here */
	if (!err)
		err = child_get(r->fs, r->d1, r->e1, &r->i1);
	if (!err && r->e2)
		err = child_get(r->fs, r->d2, r->e2, &r->i2);
	if (err)
		goto out;
	swap = r->i2 && r->i2->ino < r->i1->ino;
	if (swap)
		err = child_lock(r->fs, r->d2, r->e2, r->i2, true);
	if (err)
		goto out;
	err = child_lock(r->fs, r->d1, r->e1, r->i1, true);
	if (err && swap)
		inode_unlock(r->i2);
	if (!err && r->i2 && !swap) {
		err = child_lock(r->fs, r->d2, r->e2, r->i2, true);
		if (err)
			inode_unlock(r->i1);
	}
out:
	if (err) {
		put_child(r, &r->i1);
		put_child(r, &r->i2);
	}
	return err;
}

/* A whiteout, by which overlayfs knows that a name is gone: device 0/0 of nobody's mode. */
static int make_whiteout(struct rename *r, struct timespec now)
{
	return r->flags & RENAME_WHITEOUT
		   ? new_inode(r->fs, r->d1, S_IFCHR, r->by, now, &r->white)
		   : 0;
}

static int commit_rename(struct rename *r)
{
	bool exchange = r->flags & RENAME_EXCHANGE, same = r->d1 == r->d2;
	struct timespec now = fs_now();
	struct dir_rec rec1, rec2, *to = same ? &rec1 : &rec2;
	struct attr_rec attr1, attr2;
	struct txn t;
	int err = make_whiteout(r, now);
	unsigned p1 = !same && r->e1->type == DT_DIR ? UP_PARENT : 0;
	unsigned p2 = !same && r->e2 && r->e2->type == DT_DIR ? UP_PARENT : 0;

	if (err)
		return err;
	dir_rec_begin(&rec1, now);
	dir_rec_begin(&rec2, now);
	dir_rec_del(&rec1, r->e1);
	if (r->e2)
		dir_rec_del(to, r->e2);
	if (exchange)
		dir_rec_add(&rec1, r->d1, r->n1, r->e2->ino, r->e2->type);
	if (r->white)
		dir_rec_add(&rec1, r->d1, r->n1, r->white->ino, DT_CHR);
	dir_rec_add(to, r->d2, r->n2, r->e1->ino, r->e1->type);
	txn_begin(&t, r->fs, r->e2 && !exchange && !r->white ? ALLOC_RESERVE : 0);
	dir_rec_put(&rec1, &t, r->d1);
	if (!same)
		dir_rec_put(&rec2, &t, r->d2);
	attr_rec_put(&attr1, &t, r->i1, now, p1, 0, r->d2->ino);
	if (exchange)
		attr_rec_put(&attr2, &t, r->i2, now, p2, 0, r->d1->ino);
	else if (r->i2)
		drop_name(r->fs, &t, r->i2, now, &attr2);
	if (r->white)
		txn_create(&t, r->white);
	err = txn_commit(&t);
	if (err && r->white) {
		drop_new_inode(r->fs, r->white);
		r->white = NULL;
	}
	return err;
}

/* Does a flag forbid that a name goes here, or appears there? */
static bool is_frozen(const struct rename *r)
{
	return inode_frozen(r->d1, true) || inode_frozen(r->i1, true) ||
	       inode_frozen(r->d2, r->i2) || (r->i2 && inode_frozen(r->i2, true));
}

static int rename_locked(struct rename *r)
{
	int err = check_rename(r);

	if (err)
		return err;
	if (r->e2 && r->e1->ino == r->e2->ino)
		return 0; /* two names of one inode: nothing happens */
	err = open_children(r);
	if (err)
		return err;
	if (is_frozen(r))
		err = -EPERM;
	else if (r->i2 && !(r->flags & RENAME_EXCHANGE) && inode_is_dir(r->i2) &&
		 r->i2->dir.live)
		err = -ENOTEMPTY;
	else
		err = commit_rename(r);
	if (!err) {
		if (r->white)
			icache_insert(r->fs, r->white);
		if (r->i2 && !(r->flags & RENAME_EXCHANGE))
			name_dropped(r->fs, r->i2);
		dir_compact(r->fs, r->d1);
		dir_compact(r->fs, r->d2);
		if (inode_wants_compact(r->i1))
			inode_compact(r->fs, r->i1);
	}
	inode_unlock(r->i1);
	if (r->i2)
		inode_unlock(r->i2);
	put_child(r, &r->i1); /* which may lock again: after both were unlocked */
	put_child(r, &r->i2);
	return err;
}

int pmemfs_rename_by(struct pmemfs *fs, uint64_t dir, const char *name, uint64_t newdir,
		     const char *newname, unsigned flags, const struct pmemfs_cred *by)
{
	struct rename r = {.fs = fs, .n1 = name, .n2 = newname, .flags = flags, .by = by};
	int err = name_check(name);

	if (!err && (flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT) ||
		     (flags & RENAME_EXCHANGE && flags != RENAME_EXCHANGE)))
		err = -EINVAL;
	if (!err && (name_is_dot(name) || name_is_dot(newname)))
		err = flags & RENAME_NOREPLACE && name_is_dot(newname) ? -EEXIST : -EBUSY;
	if (err)
		return err;
	if (dir != newdir)
		pthread_mutex_lock(&fs->rename);
	err = open_dirs(&r, dir, newdir);
	if (!err) {
		r.e1 = dir_lookup(r.d1, name);
		r.e2 = dir_lookup(r.d2, newname);
		err = rename_locked(&r);
		close_dirs(&r);
		put_child(&r, &r.white);
	}
	if (dir != newdir)
		pthread_mutex_unlock(&fs->rename);
	return err;
}

int pmemfs_rename(struct pmemfs *fs, uint64_t dir, const char *name, uint64_t newdir,
		  const char *newname, unsigned flags)
{
	const struct pmemfs_cred root = {0};

	return pmemfs_rename_by(fs, dir, name, newdir, newname, flags, &root);
}
