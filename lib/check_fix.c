/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Repairs: what passes 3 and 4 found and was agreed to, as ordinary transactions of the core;
 * but for damaged logs, which pass 3 has mended at once.
 *
 * Each is atomic and leaves the filesystem better than it was, so fsck may be killed at any
 * moment and run again. Before the first one the superblock stops saying "clean": a mount would
 * then recover. All is done at the end, when it is known which blocks belong to whom; where
 * that is not known, because an inode cannot be read, nothing is repaired. Blocks that two
 * files claim are given up by both, and then everything is checked again.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "namei.h"

#define NSEC	   1000000000
#define LOST_FOUND "lost+found"

int check_dirty(struct check *c)
{
	struct pmemfs_super *sb = &c->fs->sb;

	if (c->changed)
		return 0;
	c->changed = true;
	sb->state = put32(get32(sb->state) & ~PMEMFS_STATE_CLEAN);
	sb->mounts = put32(get32(sb->mounts) + 1); /* log ids are made from it */
	sb->saved_list = put64(0);
	return super_write(c->m, sb);
}

void check_fix_later(struct check *c, enum fix_kind kind, uint64_t ino, uint64_t arg)
{
	c->fix = grow_array(c->fix, &c->fixcap, c->fixes + 1, sizeof(c->fix[0]));
	c->fix[c->fixes++] = (struct fix){kind, false, ino, arg};
}

void check_fix_quietly(struct check *c, enum fix_kind kind, uint64_t ino)
{
	check_fix_later(c, kind, ino, 0);
	c->fix[c->fixes - 1].quiet = true;
}

/* ---- at once ---- */

/*
 * A crash before the fence: the record in front still says that more follows, and the log is
 * damaged as before; or it does not, and what is left of the tail is cleared as one.
 */
int check_cut_log(struct check *c, const struct inode *i, uint64_t off, uint64_t end,
		  uint64_t mirror, uint64_t more)
{
	int r = check_dirty(c);

	c->agreed--; /* it is not waiting for the others */
	if (r)
		return r;
	if (more)
		r = log_end_state(c->fs, i->slot, &i->log, more);
	meta_clear(c->fs, off, mirror, end - off);
	return media_fence(c->m) ? -EIO : r;
}

int check_give_up(struct check *c, uint64_t ino, uint64_t slot, uint64_t head)
{
	int r = check_dirty(c);
	/* Log ids of a slot only grow: those of earlier mounts were smaller. */
	uint64_t id = head ? head_id(head) + 1 : super_first_id(&c->fs->sb);

	c->agreed--;
	if (r)
		return r;
	if (ino == PMEMFS_ROOT_INO)
		return super_write_root(c->fs, slot, id);
	meta_head(c->fs, slot, head_make(HEAD_FREE, id));
	return media_fence(c->m);
}

/* ---- one inode ---- */

/* What would be cleared may be another's. */
static bool tail_is_shared(const struct check *c, const struct log *l)
{
	for (unsigned copy = 0; copy < c->fs->copies; copy++) {
		uint64_t off = l->pos + copy * l->mirror;

		for (uint64_t b = off / PMEMFS_BLOCK_SIZE;
		     b * PMEMFS_BLOCK_SIZE < l->end + copy * l->mirror; b++)
			if (c->shared[b / 64] >> b % 64 & 1)
				return true;
	}
	return false;
}

/* The core would not open an inode with such a tail. */
static int fix_tail(struct check *c, uint64_t ino)
{
	enum log_end end;
	struct inode *i;
	uint64_t slot;
	int r;

	if (itable_find(c->fs, ino, &slot))
		return -ESTALE;
	i = inode_new(ino, slot);
	r = inode_read(c->fs, i, true, &end);
	if (!r && c->shared && tail_is_shared(c, &i->log)) {
		inode_delete(i);
		return 0; /* when it is not any more */
	}
	if (!r)
		r = log_note_tail(c->fs, &i->log);
	if (!r || r == -ESTALE)
		r = log_mend(c->fs, &i->log);
	inode_delete(i);
	return r;
}

/* Until its last repair it may look like an orphan, which is no reason to free it. */
static void close_repaired(struct check *c, struct inode *i)
{
	inode_unlock(i);
	inode_put_unworked(c->fs, i);
}

static void correct_time(struct timespec *t)
{
	if (t->tv_nsec < 0 || t->tv_nsec >= NSEC)
		t->tv_nsec = 0;
}

static void correct_attr(struct inode *i)
{
	uint32_t mode = i->attr.mode;

	correct_time(&i->attr.atime);
	correct_time(&i->attr.mtime);
	correct_time(&i->attr.ctime);
	correct_time(&i->attr.btime);
	i->attr.flags &= PMEMFS_FLAGS_KNOWN;
	if (!S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode))
		i->attr.size = 0;
	if (S_ISDIR(mode))
		i->attr.nlink = MIN(i->attr.nlink, 1u);
}

static int fix_restate(struct check *c, uint64_t ino)
{
	struct inode *i;
	int r;

	if (ino & PMEMFS_INO_TABLE) {
		i = ino == PMEMFS_INO_QUOTA ? c->fs->quota.inode
					    : c->fs->shard[ino & ~PMEMFS_INO_TABLE].table.inode;
		if (!i)
			return -EIO;
		correct_attr(i);
		return inode_compact(c->fs, i);
	}
	r = inode_open(c->fs, ino, true, &i);
	if (r)
		return r;
	correct_attr(i);
	r = inode_compact(c->fs, i);
	close_repaired(c, i);
	return r;
}

static int fix_attr(struct check *c, uint64_t ino, unsigned mask, uint64_t value)
{
	struct attr_rec rec;
	struct inode *i;
	struct txn t;
	int r = inode_open(c->fs, ino, true, &i);

	if (r)
		return r;
	txn_begin(&t, c->fs, ALLOC_RESERVE);
	attr_rec_put(&rec, &t, i, i->attr.ctime, mask, (uint32_t)value, value);
	r = txn_commit(&t);
	close_repaired(c, i);
	return r;
}

static int fix_move(struct check *c, uint64_t ino, uint64_t b)
{
	struct inode *i;
	int r = inode_open(c->fs, ino, true, &i);

	if (r)
		return r;
	r = file_move_block(c->fs, i, b, false);
	close_repaired(c, i);
	return r;
}

/* The same space, reserved elsewhere: it reads as zeros. */
static int move_reserved(struct check *c, struct inode *i, uint64_t b)
{
	struct edit ed;
	int r = 0;

	for (unsigned step = 0; step < 2 && !r; step++) {
		edit_begin(&ed, c->fs, i, i->attr.size);
		if (!step)
			edit_hole(&ed, b, b + 1);
		else
			r = edit_reserve(&ed, b, b + 1, false);
		if (r)
			edit_abort(&ed);
		else
			r = edit_commit(&ed, 0, &i->attr, ALLOC_RESERVE);
	}
	return r;
}

static bool data_is_right(struct check *c, const struct inode *i, const struct range *r,
			  uint64_t b)
{
	uint64_t block = range_block(r) + (b - r->start), hash;

	return !media_hash(c->m, block * PMEMFS_BLOCK_SIZE, data_valid(i->attr.size, b),
			   data_seed(c->fs, block), &hash) &&
	       !file_judge(c->fs, i, r, b, hash);
}

static int unshare_block(struct check *c, struct inode *i, uint64_t b)
{
	struct range_cursor at;
	const struct range *r = rangemap_find(&i->extents, b, &at);

	if (!r || r->start > b)
		return 0;
	if (range_flags(r) || !data_valid(i->attr.size, b))
		return move_reserved(c, i, b);
	return file_move_block(c->fs, i, b, !data_is_right(c, i, r, b));
}

static int fix_unshare(struct check *c, uint64_t ino, uint64_t b)
{
	struct inode *i;
	int r;

	if (ino == PMEMFS_INO_QUOTA)
		return unshare_block(c, c->fs->quota.inode, b);
	r = inode_open(c->fs, ino, true, &i);
	if (r)
		return r;
	r = unshare_block(c, i, b);
	close_repaired(c, i);
	return r;
}

/* The last reference to an inode without names frees it. */
static int fix_free(struct check *c, uint64_t ino)
{
	uint64_t slot;
	le64 head;
	struct inode *i;
	int r = inode_get(c->fs, ino, &i);

	if (r)
		return r;
	slot = i->slot;
	inode_put(c->fs, i, 1);
	r = media_read(c->m, slot, &head, sizeof(head));
	if (!r && head_where(get64(head)) != HEAD_FREE)
		r = -EIO;
	return r;
}

/* ---- entries ---- */

/* Removals and additions leave the directory's time as it is: nobody used it. */
static int commit_entries(struct check *c, struct inode *dir, struct dir_rec *rec)
{
	struct txn t;

	txn_begin(&t, c->fs, ALLOC_RESERVE);
	dir_rec_put(rec, &t, dir);
	return txn_commit(&t);
}

static int remove_entry(struct check *c, struct inode *dir, const struct dent *e)
{
	struct dir_rec rec;

	if (!e)
		return -ENOENT;
	dir_rec_begin(&rec, dir->attr.mtime);
	dir_rec_del(&rec, e);
	return commit_entries(c, dir, &rec);
}

static int fix_entry(struct check *c, uint64_t ino, uint64_t cookie)
{
	struct inode *dir;
	int r = inode_open(c->fs, ino, true, &dir);

	if (r)
		return r;
	r = remove_entry(c, dir, dir_find_cookie(&dir->dir, cookie));
	close_repaired(c, dir);
	return r;
}

static int fix_entry_type(struct check *c, uint64_t ino, uint64_t cookie)
{
	const struct check_inode *ci;
	const struct dent *e;
	char name[PMEMFS_NAME_MAX + 1] = {0};
	struct dir_rec rec;
	struct inode *dir;
	int r = inode_open(c->fs, ino, true, &dir);

	if (r)
		return r;
	e = dir_find_cookie(&dir->dir, cookie);
	ci = e ? check_find(c, e->ino, NULL) : NULL;
	if (ci) {
		memcpy(name, e->name, e->namelen);
		dir_rec_begin(&rec, dir->attr.mtime);
		dir_rec_del(&rec, e);
		dir_rec_add(&rec, dir, name, e->ino, ci->type);
		r = commit_entries(c, dir, &rec);
	}
	close_repaired(c, dir);
	return r;
}

/* Takes the name away that makes a directory part of itself. */
static int remove_name(struct check *c, uint64_t ino, uint64_t named)
{
	const struct dent *e = NULL;
	struct inode *dir;
	int r = inode_open(c->fs, named, true, &dir);

	if (r)
		return r;
	for (size_t k = 0; k < dir->dir.n && !e; k++)
		if (dir->dir.vec[k].e && dir->dir.vec[k].e->ino == ino)
			e = dir->dir.vec[k].e;
	if (e)
		r = remove_entry(c, dir, e);
	close_repaired(c, dir);
	return r;
}

static int get_lost_found(struct check *c, uint64_t *ret)
{
	const struct pmemfs_cred root = {0};
	struct pmemfs_attr attr;
	int r = pmemfs_lookup(c->fs, PMEMFS_ROOT_INO, LOST_FOUND, &attr);

	if (r == -ENOENT)
		r = pmemfs_make(c->fs, PMEMFS_ROOT_INO, LOST_FOUND, S_IFDIR | 0700, 0, 0, NULL,
				&root, &attr);
	if (r)
		return r;
	pmemfs_forget(c->fs, attr.ino, 1);
	*ret = attr.ino;
	return S_ISDIR(attr.mode) ? 0 : -ENOTDIR;
}

/* A name that is not taken: #INO, #INO.1, ... */
static void choose_name(const struct inode *dir, uint64_t ino, char *ret, size_t size)
{
	snprintf(ret, size, "#%" PRIu64, ino);
	for (unsigned k = 1; dir_find(&dir->dir, ret, strlen(ret)); k++)
		snprintf(ret, size, "#%" PRIu64 ".%u", ino, k);
}

/* Both records become true together. */
static int connect(struct check *c, struct inode *dir, struct inode *i)
{
	bool is_dir = inode_is_dir(i);
	struct dir_rec entry;
	struct attr_rec attr;
	struct txn t;
	char name[64];

	choose_name(dir, i->ino, name, sizeof(name));
	dir_rec_begin(&entry, dir->attr.mtime);
	dir_rec_add(&entry, dir, name, i->ino, IFTODT(i->attr.mode));
	txn_begin(&t, c->fs, ALLOC_RESERVE);
	dir_rec_put(&entry, &t, dir);
	attr_rec_put(&attr, &t, i, i->attr.ctime, UP_NLINK | (is_dir ? UP_PARENT : 0), 1,
		     dir->ino);
	return txn_commit(&t);
}

static int fix_reconnect(struct check *c, uint64_t ino)
{
	const struct check_inode *ci = check_find(c, ino, NULL);
	struct inode *dir, *i;
	uint64_t lost;
	int r = get_lost_found(c, &lost);

	if (!r && ci->named)
		r = remove_name(c, ino, ci->named);
	if (r)
		return r;
	r = inode_open(c->fs, lost, true, &dir);
	if (r)
		return r;
	r = inode_open(c->fs, ino, true, &i);
	if (!r) {
		r = connect(c, dir, i);
		close_repaired(c, i);
	}
	close_repaired(c, dir);
	return r;
}

/* ---- all of them ---- */

static int fix_header(struct check *c, unsigned shard, uint64_t off)
{
	uint64_t used = check_header_used(shard);

	media_clear(c->m, off + used, PMEMFS_BLOCK_SIZE - used);
	return media_fence(c->m);
}

static int apply_fix(struct check *c, const struct fix *f)
{
	switch (f->kind) {
	case FIX_RESERVED:
		media_store8(c->m, f->arg + 8, 0);
		media_flush(c->m, f->arg + 8, 8);
		return media_fence(c->m);
	case FIX_HEADER:
		return fix_header(c, f->ino & ~PMEMFS_INO_TABLE, f->arg);
	case FIX_BAD_LIST:
		return bad_mend(c->fs);
	case FIX_TAIL:
		return fix_tail(c, f->ino);
	case FIX_RESTATE:
		return fix_restate(c, f->ino);
	case FIX_LIMIT:
	case FIX_LIMITS:
		return limits_erase(c->fs, f->arg, f->kind == FIX_LIMITS);
	case FIX_ENTRY:
		return fix_entry(c, f->ino, f->arg);
	case FIX_ENTRY_TYPE:
		return fix_entry_type(c, f->ino, f->arg);
	case FIX_RECONNECT:
		return fix_reconnect(c, f->ino);
	case FIX_PARENT:
		return fix_attr(c, f->ino, UP_PARENT, f->arg);
	case FIX_NLINK:
		return fix_attr(c, f->ino, UP_NLINK, f->arg);
	case FIX_FREE:
		return fix_free(c, f->ino);
	case FIX_MOVE:
		return fix_move(c, f->ino, f->arg);
	case FIX_UNSHARE:
		return fix_unshare(c, f->ino, f->arg);
	case FIX_KINDS:
		break;
	}
	return -EINVAL;
}

static int set_used(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci)
{
	if (ci->type || ci->flags & CI_BAD)
		itable_set_used(c->fs, ino);
	return 0;
}

/* The allocator learns what is free from what pass 3 saw. */
static void set_free_space(struct check *c)
{
	uint64_t at = 0, n;

	alloc_clear(c->fs);
	for (; check_next_free(c, &at, &n); at += n)
		alloc_add(c->fs, at, n);
	check_each(c, 0, set_used);
	for (unsigned s = 0; s < c->fs->shards; s++)
		itable_scanned(c->fs, s);
	itable_set_inodes(c->fs, c->inodes);
	atomic_store(&c->fs->dentry_bytes, (int64_t)c->dentry_bytes);
}

/* True: all of them worked. */
static bool apply_kind(struct check *c, enum fix_kind kind)
{
	bool all = true;

	for (size_t k = 0; k < c->fixes; k++) {
		int err = c->fix[k].kind == kind ? apply_fix(c, &c->fix[k]) : 0;

		if (err)
			check_repair_failed(c, &c->fix[k], err);
		all &= !err;
	}
	return all;
}

/*
 * Blocks that are shared are used, so there is space to move to; what is moved away from may
 * still be another's, so it is not given to anybody. Then all is checked again, and nothing of
 * it is shared; a crash meanwhile leaves fewer that are.
 */
static int repair_shared(struct check *c)
{
	int r;

	if (c->stuck || c->again) {
		check_repairs_left(c);
		return 0;
	}
	set_free_space(c);
	r = check_dirty(c);
	if (r)
		return r;
	c->fs->keep_freed = true;
	c->agreed -= c->shares;
	apply_kind(c, FIX_TAIL); /* the core opens no inode whose log has a tail */
	c->unshared = apply_kind(c, FIX_UNSHARE);
	if (c->unshared)
		check_take_back(c);
	else
		check_repairs_left(c);
	icache_drop(c->fs, NULL);
	return 0;
}

int check_repair(struct check *c)
{
	int r;

	if (c->o->fix == PMEMFS_FIX_NONE)
		return 0;
	/* Else even what is cleared in place may be another's. */
	if (c->blocks_unknown) {
		check_repairs_left(c);
		return 0;
	}
	if (c->shared)
		return repair_shared(c);
	set_free_space(c);
	if (!c->fixes)
		return 0;
	r = check_dirty(c);
	/* In the order of the kinds: the core opens no inode whose log has a tail. */
	for (unsigned kind = 0; kind < FIX_KINDS && !r; kind++)
		apply_kind(c, kind);
	icache_drop(c->fs, NULL);
	return r;
}
