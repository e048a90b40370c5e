/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on names. Each is one transaction over the directories and inodes it changes.
 *
 * Locks: a directory before its children; two directories with the ancestor first, else by
 * number, under fs->rename, which keeps ancestry still; two children by number. A directory
 * found under a name must name that directory as its parent, or it is damage: so what can be
 * reached is a tree even on a hostile image, and these locks cannot go round in a circle.
 */
#include <dirent.h>
#include <errno.h>

#include "acl.h"
#include "namei.h"

/* ---- records ---- */

void dir_rec_begin(struct dir_rec *r, struct timespec now)
{
	r->u = (struct pmemfs_dirup){.h.type = REC_DIR};
	r->u.time_sec = put64(now.tv_sec);
	r->u.time_nsec = put32(now.tv_nsec);
	r->len = 0;
}

/* All removals come before all additions. */
void dir_rec_del(struct dir_rec *r, const struct dent *e)
{
	le64 cookie = put64(e->cookie);

	memcpy(r->data + r->len, &cookie, sizeof(cookie));
	r->len += sizeof(cookie);
	r->u.dels++;
}

void dir_rec_add(struct dir_rec *r, const struct inode *dir, const char *name, uint64_t ino,
		 unsigned type)
{
	struct pmemfs_dentry *e = (void *)(r->data + r->len);
	size_t len = strlen(name);

	memset(e, 0, PMEMFS_DENTRY_SIZE(len));
	*e = (struct pmemfs_dentry){put64(ino), put64(dir->dir.next_cookie + r->u.adds), type,
				    len};
	memcpy(e->name, name, len);
	r->len += PMEMFS_DENTRY_SIZE(len);
	r->u.adds++;
}

void dir_rec_put(struct dir_rec *r, struct txn *t, struct inode *dir)
{
	r->u.h.len = put16((sizeof(r->u) + r->len) / 8);
	txn_add(t, dir, &r->u.h);
}

void attr_rec_put(struct attr_rec *r, struct txn *t, struct inode *i, struct timespec now,
		  unsigned mask, uint32_t nlink, uint64_t parent)
{
	struct pmemfs_attr a = {.ctime = now, .nlink = nlink};

	update_put(&r->u, mask, &a, parent);
	txn_add(t, i, &r->u.h);
}

/* ---- finding ---- */

int name_check(const char *name)
{
	size_t len = strlen(name);

	if (!len)
		return -ENOENT;
	if (len > PMEMFS_NAME_MAX)
		return -ENAMETOOLONG;
	return strchr(name, '/') ? -EINVAL : 0;
}

bool name_is_dot(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Opens a directory; live: one that still has a name. */
int dir_open(struct pmemfs *fs, uint64_t ino, bool exclusive, struct inode **ret)
{
	struct inode *d;
	int err;

	if (exclusive && atomic_load_explicit(&fs->readonly, memory_order_relaxed))
		return -EROFS;
	err = inode_open(fs, ino, exclusive, &d);
	if (err)
		return err;
	if (!inode_is_dir(d) || (exclusive && !d->attr.nlink)) {
		err = inode_is_dir(d) ? -ENOENT : -ENOTDIR;
		inode_close(fs, d);
		return err;
	}
	*ret = d;
	return 0;
}

struct dent *dir_lookup(const struct inode *dir, const char *name)
{
	return dir_find(&dir->dir, name, strlen(name));
}

/* Takes a child's lock and checks that it is what the entry says. Under the directory's lock.
 */
int child_lock(struct pmemfs *fs, const struct inode *dir, const struct dent *e,
	       struct inode *i, bool exclusive)
{
	int err = inode_lock(i, exclusive);

	if (err)
		return err == -ESTALE ? -EIO : err;
	if (IFTODT(i->attr.mode) == e->type && (e->type != DT_DIR || i->parent == dir->ino))
		return 0;
	inode_unlock(i);
	fs_report(fs, 0,
		  "directory %llu: entry for inode %llu does not fit it: run fsck.pmemfs",
		  (unsigned long long)dir->ino, (unsigned long long)i->ino);
	return -EIO;
}

int child_get(struct pmemfs *fs, const struct inode *dir, const struct dent *e,
	      struct inode **ret)
{
	int err = e->ino == dir->ino ? -EIO : inode_get(fs, e->ino, ret);

	if (err == -ESTALE) {
		fs_report(fs, 0,
			  "directory %llu: entry for missing inode %llu: run fsck.pmemfs",
			  (unsigned long long)dir->ino, (unsigned long long)e->ino);
		err = -EIO;
	}
	return err;
}

static int child_open(struct pmemfs *fs, const struct inode *dir, const struct dent *e,
		      bool exclusive, struct inode **ret)
{
	struct inode *i;
	int err = child_get(fs, dir, e, &i);

	if (err)
		return err;
	err = child_lock(fs, dir, e, i, exclusive);
	if (err) {
		inode_put(fs, i, 1);
		return err;
	}
	*ret = i;
	return 0;
}

/* "." is the object itself, of any kind; ".." is a directory's parent. */
static int lookup_dot(struct pmemfs *fs, uint64_t dir, const char *name, struct inode **ret)
{
	struct inode *d;
	uint64_t parent;
	int err;

	if (!name[1])
		return inode_open(fs, dir, false, ret);
	err = dir_open(fs, dir, false, &d);
	if (err)
		return err;
	parent = d->parent;
	inode_close(fs, d);
	return inode_open(fs, parent, false, ret);
}

static int lookup_name(struct pmemfs *fs, uint64_t dir, const char *name, struct inode **ret)
{
	struct inode *d;
	struct dent *e;
	int err = dir_open(fs, dir, false, &d);

	if (err)
		return err;
	e = dir_lookup(d, name);
	err = e ? child_open(fs, d, e, false, ret) : -ENOENT;
	inode_close(fs, d);
	return err;
}

int pmemfs_lookup(struct pmemfs *fs, uint64_t dir, const char *name, struct pmemfs_attr *ret)
{
	struct inode *i;
	int err = name_check(name);

	if (!err)
		err = name_is_dot(name) ? lookup_dot(fs, dir, name, &i)
					: lookup_name(fs, dir, name, &i);
	if (err)
		return err;
	inode_fill_attr(i, ret);
	inode_unlock(i); /* the reference is the caller's */
	return 0;
}

void pmemfs_forget(struct pmemfs *fs, uint64_t ino, uint64_t n)
{
	struct inode *i = n ? icache_find(fs, ino) : NULL;

	if (i)
		inode_put(fs, i, n);
}

ssize_t pmemfs_readlink(struct pmemfs *fs, uint64_t ino, char *buf, size_t size)
{
	struct inode *i;
	ssize_t ret = inode_open(fs, ino, false, &i);

	if (ret)
		return ret;
	ret = -EINVAL;
	if (i->target) {
		ret = (ssize_t)MIN(size, i->attr.size);
		memcpy(buf, i->target, ret);
	}
	inode_close(fs, i);
	return ret;
}

struct emit_ctx {
	pmemfs_emit emit;
	void *arg;
	bool plus;
};

static int emit_entry(struct pmemfs *fs, const struct inode *dir, const struct dent *e,
		      const struct emit_ctx *x)
{
	struct pmemfs_attr attr = {.ino = e->ino, .mode = DTTOIF(e->type)};
	char name[PMEMFS_NAME_MAX + 1];
	struct inode *i = NULL;
	int full;

	memcpy(name, e->name, e->namelen);
	name[e->namelen] = 0;
	if (x->plus && !child_open(fs, dir, e, false, &i)) {
		inode_fill_attr(i, &attr);
		inode_unlock(i);
	}
	full = x->emit(x->arg, name, &attr, e->cookie);
	if (full && i)
		inode_put(fs, i, 1);
	return full;
}

int pmemfs_readdir(struct pmemfs *fs, uint64_t dir, uint64_t cookie, unsigned flags,
		   pmemfs_emit emit, void *arg)
{
	struct emit_ctx x = {emit, arg, flags & PMEMFS_READDIR_PLUS};
	struct pmemfs_attr attr = {.mode = S_IFDIR};
	struct inode *d;
	bool full = false;
	int err = dir_open(fs, dir, false, &d);

	if (err)
		return err;
	if (cookie < 1) {
		attr.ino = d->ino;
		attr.size = d->dir.next_cookie;
		full = emit(arg, ".", &attr, 1);
	}
	if (cookie < 2 && !full) {
		attr.ino = d->parent;
		full = emit(arg, "..", &attr, 2);
	}
	for (size_t k = dir_after(&d->dir, MAX(cookie, 2)); k < d->dir.n && !full; k++)
		if (d->dir.vec[k].e)
			full = emit_entry(fs, d, d->dir.vec[k].e, &x);
	inode_close(fs, d);
	return 0;
}

/* ---- making ---- */

/* A number's log ids never come back, so that its next owner has another one. */
static uint32_t new_generation(const struct pmemfs *fs, uint64_t ino, uint64_t head)
{
	uint64_t x[2] = {ino, head_id(head)};

	return (uint32_t)hash64(x, sizeof(x), fs->seed);
}

int new_inode(struct pmemfs *fs, const struct inode *dir, uint32_t mode,
	      const struct pmemfs_cred *cred, struct timespec now, struct inode **ret)
{
	uint64_t ino, slot, head;
	struct inode *i;
	int err = itable_alloc(fs, fs_home_shard(fs), &ino, &slot, &head);

	if (err)
		return err;
	i = inode_new(ino, slot);
	i->refs = 1;
	i->log.head = head;
	i->dir.next_cookie = PMEMFS_COOKIE_FIRST;
	i->parent = dir->ino;
	i->attr.generation = new_generation(fs, ino, head);
	i->attr.mode = mode;
	i->attr.uid = cred->uid;
	i->attr.gid = cred->gid;
	if (dir->attr.mode & S_ISGID) {
		i->attr.gid = dir->attr.gid;
		if (S_ISDIR(mode))
			i->attr.mode |= S_ISGID;
	}
	i->attr.nlink = 1;
	i->attr.atime = i->attr.mtime = i->attr.ctime = i->attr.btime = now;
	if (fs->options.noacl)
		i->attr.mode &= ~(S_ISLNK(mode) ? 0 : cred->umask & 0777);
	else
		acl_inherit(dir, i, cred->umask);
	*ret = i;
	return 0;
}

void drop_new_inode(struct pmemfs *fs, struct inode *i)
{
	itable_free(fs, i->ino);
	inode_delete(i);
}

static int set_target(struct inode *i, const char *target)
{
	size_t len = target ? strlen(target) : 0;

	if (!len)
		return -ENOENT;
	if (len > PMEMFS_SYMLINK_MAX)
		return -ENAMETOOLONG;
	i->target = memcpy(xcalloc(1, len + 1), target, len);
	i->attr.size = len;
	return 0;
}

void dir_compact(struct pmemfs *fs, struct inode *d)
{
	if (!d->error && !d->freed && inode_wants_compact(d))
		inode_compact(fs, d); /* a failure only leaves the log long */
}

static int make_locked(struct pmemfs *fs, struct inode *d, const char *name, struct inode *i)
{
	struct dir_rec rec;
	struct txn t;

	dir_rec_begin(&rec, i->attr.ctime);
	dir_rec_add(&rec, d, name, i->ino, IFTODT(i->attr.mode));
	txn_begin(&t, fs, 0);
	dir_rec_put(&rec, &t, d);
	txn_create(&t, i);
	return txn_commit(&t);
}

int pmemfs_make(struct pmemfs *fs, uint64_t dir, const char *name, uint32_t mode,
		uint32_t rdev_major, uint32_t rdev_minor, const char *target,
		const struct pmemfs_cred *cred, struct pmemfs_attr *ret)
{
	struct inode *d, *i;
	int err = name_check(name);

	if (err)
		return err;
	if (!(mode & S_IFMT))
		mode |= S_IFREG;
	err = dir_open(fs, dir, true, &d);
	if (err)
		return err;
	err = name_is_dot(name) || dir_lookup(d, name) ? -EEXIST : inode_frozen(d, false);
	if (!err)
		err = new_inode(fs, d, mode, cred, fs_now(), &i);
	if (err)
		goto out;
	if (S_ISCHR(mode) || S_ISBLK(mode)) {
		i->attr.rdev_major = rdev_major;
		i->attr.rdev_minor = rdev_minor;
	}
	if (S_ISLNK(mode))
		err = set_target(i, target);
	if (!err)
		err = make_locked(fs, d, name, i);
	if (err) {
		drop_new_inode(fs, i);
		goto out;
	}
	inode_fill_attr(i, ret);
	icache_insert(fs, i);
	dir_compact(fs, d);
out:
	inode_close(fs, d);
	return err;
}

int pmemfs_tmpfile(struct pmemfs *fs, uint64_t dir, uint32_t mode,
		   const struct pmemfs_cred *cred, struct pmemfs_attr *ret)
{
	struct inode *d, *i;
	struct txn t;
	int err = dir_open(fs, dir, true, &d);

	if (err)
		return err;
	err = inode_frozen(d, false);
	if (!err)
		err = new_inode(fs, d, S_IFREG | (mode & 07777), cred, fs_now(), &i);
	if (!err) {
		i->attr.nlink = 0;
		i->tmpfile = true;
		txn_begin(&t, fs, 0);
		txn_create(&t, i);
		err = txn_commit(&t);
		if (err)
			drop_new_inode(fs, i);
	}
	if (!err) {
		inode_fill_attr(i, ret);
		icache_insert(fs, i);
	}
	inode_close(fs, d);
	return err;
}

static int link_locked(struct pmemfs *fs, struct inode *d, const char *name, struct inode *i)
{
	struct timespec now = fs_now();
	struct dir_rec rec;
	struct attr_rec attr;
	struct txn t;

	if (inode_is_dir(i))
		return -EPERM;
	if (!i->attr.nlink && !i->tmpfile)
		return -ENOENT;
	if (i->attr.nlink >= PMEMFS_LINK_MAX)
		return -EMLINK;
	if (inode_frozen(d, false) || inode_frozen(i, true))
		return -EPERM;
	dir_rec_begin(&rec, now);
	dir_rec_add(&rec, d, name, i->ino, IFTODT(i->attr.mode));
	txn_begin(&t, fs, 0);
	dir_rec_put(&rec, &t, d);
	attr_rec_put(&attr, &t, i, now, UP_NLINK, i->attr.nlink + 1, 0);
	return txn_commit(&t);
}

/* Is it a directory? Asked before anything is locked: a directory must not be locked as a
 * child. */
static int is_dir(struct pmemfs *fs, uint64_t ino)
{
	struct inode *i;
	int err = inode_open(fs, ino, false, &i);

	if (err)
		return err;
	err = inode_is_dir(i);
	inode_close(fs, i);
	return err;
}

int pmemfs_link(struct pmemfs *fs, uint64_t ino, uint64_t dir, const char *name,
		struct pmemfs_attr *ret)
{
	struct inode *d, *i;
	int err = name_check(name), isdir = is_dir(fs, ino);

	if (err || isdir < 0)
		return err ? err : isdir;
	err = dir_open(fs, dir, true, &d);
	if (err)
		return err;
	if (name_is_dot(name) || dir_lookup(d, name))
		err = -EEXIST;
	else
		err = isdir ? -EPERM : inode_open(fs, ino, true, &i);
	if (err)
		goto out;
	err = link_locked(fs, d, name, i);
	if (!err) {
		i->tmpfile = false;
		inode_fill_attr(i, ret);
		if (inode_wants_compact(i))
			inode_compact(fs, i);
		dir_compact(fs, d);
		inode_unlock(i); /* the reference is the caller's */
	} else {
		inode_close(fs, i);
	}
out:
	inode_close(fs, d);
	return err;
}

/* ---- removing ---- */

/*
 * Adds to t that one name of i goes: the last one frees it at once if nobody uses it, else
 * leaves an orphan, which its last user or recovery frees.
 */
void drop_name(struct pmemfs *fs, struct txn *t, struct inode *i, struct timespec now,
	       struct attr_rec *rec)
{
	uint32_t nlink = i->attr.nlink ? i->attr.nlink - 1 : 0;

	if (!nlink && inode_is_sole(fs, i))
		txn_free(t, i);
	else
		attr_rec_put(rec, t, i, now, UP_NLINK, nlink, 0);
}

/* After the commit: a freed inode's slot and number can be used again. */
void name_dropped(struct pmemfs *fs, struct inode *i)
{
	if (!i->freed)
		return;
	icache_remove(fs, i);
	itable_free(fs, i->ino);
}

static int remove_locked(struct pmemfs *fs, struct inode *d, struct dent *e, struct inode *i)
{
	struct timespec now = fs_now();
	struct dir_rec rec;
	struct attr_rec attr;
	struct txn t;
	int err;

	dir_rec_begin(&rec, now);
	dir_rec_del(&rec, e);
	txn_begin(&t, fs, ALLOC_RESERVE);
	dir_rec_put(&rec, &t, d);
	drop_name(fs, &t, i, now, &attr);
	err = txn_commit(&t);
	if (!err) {
		name_dropped(fs, i);
		dir_compact(fs, d);
		if (!i->freed && inode_wants_compact(i))
			inode_compact(fs, i);
	}
	return err;
}

static int remove_name(struct pmemfs *fs, uint64_t dir, const char *name, bool want_dir)
{
	struct inode *d, *i;
	struct dent *e;
	int err = name_check(name);

	if (!err && name_is_dot(name))
		err = !want_dir ? -EISDIR : name[1] ? -ENOTEMPTY : -EINVAL;
	if (!err)
		err = dir_open(fs, dir, true, &d);
	if (err)
		return err;
	e = dir_lookup(d, name);
	if (!e)
		err = -ENOENT;
	else if (want_dir != (e->type == DT_DIR))
		err = want_dir ? -ENOTDIR : -EISDIR;
	else
		err = child_open(fs, d, e, true, &i);
	if (!err) {
		if (inode_frozen(d, true) || inode_frozen(i, true))
			err = -EPERM;
		else
			err = want_dir && i->dir.live ? -ENOTEMPTY : remove_locked(fs, d, e, i);
		inode_close(fs, i);
	}
	inode_close(fs, d);
	return err;
}

int pmemfs_unlink(struct pmemfs *fs, uint64_t dir, const char *name)
{
	return remove_name(fs, dir, name, false);
}

int pmemfs_rmdir(struct pmemfs *fs, uint64_t dir, const char *name)
{
	return remove_name(fs, dir, name, true);
}
