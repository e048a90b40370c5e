/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attributes, truncation and extended attributes: operations on one inode, one record each.
 */
#include <errno.h>
#include <sys/xattr.h>

#include "acl.h"

int pmemfs_getattr(struct pmemfs *fs, uint64_t ino, struct pmemfs_attr *ret)
{
	struct inode *i;
	int err = inode_open(fs, ino, false, &i);

	if (err)
		return err;
	inode_fill_attr(i, ret);
	inode_close(fs, i);
	return 0;
}

static bool time_ok(const struct timespec *t)
{
	return t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

/* Merges what the mask names into attr; returns the mask of the record, negative: -errno. */
static int merge(const struct inode *i, unsigned mask, const struct pmemfs_attr *from,
		 struct pmemfs_attr *a)
{
	struct timespec now = fs_now();
	unsigned up = 0;

	if (mask & PMEMFS_SET_MODE)
		a->mode = (a->mode & S_IFMT) | (from->mode & 07777);
	if (mask & PMEMFS_SET_UID)
		a->uid = from->uid;
	if (mask & PMEMFS_SET_GID)
		a->gid = from->gid;
	if (mask & PMEMFS_SET_KILL_PRIV && !S_ISDIR(a->mode))
		a->mode &= ~(S_ISUID | (a->mode & S_IXGRP ? S_ISGID : 0u));
	if (mask & PMEMFS_SET_FLAGS)
		a->flags = from->flags;
	if (a->mode != i->attr.mode ||
	    mask & (PMEMFS_SET_MODE | PMEMFS_SET_UID | PMEMFS_SET_GID | PMEMFS_SET_FLAGS))
		up |= UP_PERM;
	if (mask & (PMEMFS_SET_ATIME | PMEMFS_SET_ATIME_NOW)) {
		a->atime = mask & PMEMFS_SET_ATIME_NOW ? now : from->atime;
		up |= UP_ATIME;
	}
	if (mask & (PMEMFS_SET_MTIME | PMEMFS_SET_MTIME_NOW)) {
		a->mtime = mask & PMEMFS_SET_MTIME_NOW ? now : from->mtime;
		up |= UP_MTIME;
	} else if (mask & PMEMFS_SET_SIZE) {
		up |= UP_MNOW;
	}
	a->ctime = mask & PMEMFS_SET_CTIME ? from->ctime : now;
	if (up & UP_MNOW)
		a->mtime = a->ctime;
	if (!time_ok(&a->atime) || !time_ok(&a->mtime) || !time_ok(&a->ctime))
		return -EINVAL;
	return (int)up;
}

/*
 * What immutable (nothing) and append-only let change: times to now, as by touch. The flags
 * themselves are changed by whoever may (the caller has asked).
 */
static int check_flags(const struct inode *i, unsigned mask, const struct pmemfs_attr *from)
{
	const unsigned any = PMEMFS_SET_MODE | PMEMFS_SET_UID | PMEMFS_SET_GID |
			     PMEMFS_SET_SIZE | PMEMFS_SET_ATIME | PMEMFS_SET_MTIME |
			     PMEMFS_SET_CTIME;

	if (mask & PMEMFS_SET_FLAGS && from->flags & ~PMEMFS_FLAGS_KNOWN)
		return -EOPNOTSUPP;
	if (mask & ~(PMEMFS_SET_FLAGS | PMEMFS_SET_UNLIMITED) && inode_frozen(i, false))
		return -EPERM;
	return mask & any ? inode_frozen(i, true) : 0;
}

static int set_locked(struct pmemfs *fs, struct inode *i, unsigned mask,
		      const struct pmemfs_attr *from)
{
	struct pmemfs_attr a = i->attr;
	uint64_t size = i->attr.size;
	struct edit ed;
	int up, err;

	if (mask & PMEMFS_SET_SIZE) {
		if (!S_ISREG(i->attr.mode))
			return inode_is_dir(i) ? -EISDIR : -EINVAL;
		size = from->size;
		if (size > PMEMFS_FBLOCK_MAX * PMEMFS_BLOCK_SIZE)
			return -EFBIG;
	}
	err = check_flags(i, mask, from);
	if (err)
		return err;
	up = merge(i, mask, from, &a);
	if (up < 0)
		return up;
	edit_begin(&ed, fs, i, size);
	err = size != i->attr.size ? edit_old_end(&ed) : 0;
	if (mask & PMEMFS_SET_SIZE &&
	    size == i->attr.size) /* what was reserved past it goes too */
		edit_hole(&ed, DIV_UP(size, PMEMFS_BLOCK_SIZE), PMEMFS_FBLOCK_MAX);
	if (err) {
		edit_abort(&ed);
		return err;
	}
	return edit_commit(
	    &ed, up, &a,
	    (mask & PMEMFS_SET_SIZE && size <= i->attr.size ? ALLOC_RESERVE : 0) |
		(mask & PMEMFS_SET_UNLIMITED ? QUOTA_UNLIMITED : 0));
}

int pmemfs_setattr(struct pmemfs *fs, uint64_t ino, unsigned mask, const struct pmemfs_attr *a,
		   struct pmemfs_attr *ret)
{
	struct inode *i;
	int err;

	if (atomic_load_explicit(&fs->readonly, memory_order_relaxed))
		return -EROFS;
	err = inode_open(fs, ino, true, &i);
	if (err)
		return err;
	err = set_locked(fs, i, mask, a);
	if (!err && ret)
		inode_fill_attr(i, ret);
	inode_close(fs, i);
	return err;
}

/* ---- extended attributes ---- */

static const struct xattr *find(const struct inode *i, const char *name)
{
	for (size_t n = 0; n < i->xattrs; n++)
		if (!strcmp(i->xattr[n].name, name))
			return &i->xattr[n];
	return NULL;
}

/* Appends one REC_XATTR; value NULL removes; mode 0: that stays as it is. */
static int put_xattr(struct pmemfs *fs, struct inode *i, const char *name, const void *value,
		     size_t size, uint32_t mode)
{
	size_t namelen = strlen(name),
	       len = ROUND_UP(sizeof(struct pmemfs_xattr) + namelen + size, 8u);
	struct pmemfs_xattr *x = xcalloc(1, len);
	struct timespec now = fs_now();
	struct txn t;
	int err;

	x->h.type = REC_XATTR;
	x->h.len = put16(len / 8);
	x->ctime_sec = put64(now.tv_sec);
	x->ctime_nsec = put32(now.tv_nsec);
	x->namelen = namelen;
	x->remove = !value;
	x->valuelen = put32(size);
	x->mode = put32(mode);
	memcpy(x->data, name, namelen);
	if (size)
		memcpy(x->data + namelen, value, size);
	txn_begin(&t, fs, value ? 0 : ALLOC_RESERVE);
	txn_add(&t, i, &x->h);
	err = txn_commit(&t);
	if (!err && inode_wants_compact(i))
		inode_compact(fs, i);
	free(x);
	return err;
}

/* The namespaces that are stored as they are; of system. there are the ACLs. */
static int check_name(const struct pmemfs *fs, const char *name)
{
	static const char *const space[] = {"user.", "trusted.", "security."};

	if (!*name || strlen(name) > 255)
		return -ERANGE;
	if (acl_is_name(name))
		return fs->options.noacl ? -EOPNOTSUPP : 0;
	for (unsigned k = 0; k < ARRAY_LEN(space); k++) {
		size_t len = strlen(space[k]);

		if (!strncmp(name, space[k], len))
			return name[len] ? 0 : -EINVAL;
	}
	return -EOPNOTSUPP;
}

static bool is_listed(const struct pmemfs *fs, const struct xattr *x)
{
	return !fs->options.noacl || !acl_is_name(x->name);
}

/* All attributes together are listed in 64 KiB at most, as the kernel's buffers are. */
static uint64_t list_size(const struct pmemfs *fs, const struct inode *i)
{
	uint64_t size = 0;

	for (size_t n = 0; n < i->xattrs; n++)
		size += is_listed(fs, &i->xattr[n]) ? i->xattr[n].namelen + 1 : 0;
	return size;
}

/*
 * An access list and the mode become true together. One that says no more than a mode is not
 * kept.
 */
static int set_access(struct pmemfs *fs, struct inode *i, const void *value, size_t size,
		      int flags)
{
	struct pmemfs_attr a = {.mode = (i->attr.mode & ~0777u) | acl_mode(value, size)};

	if (flags & PMEMFS_XATTR_KILL_SGID)
		a.mode &= ~(uint32_t)S_ISGID;
	if (!acl_is_mode(value, size))
		return put_xattr(fs, i, ACL_ACCESS, value, size, a.mode);
	if (find(i, ACL_ACCESS))
		return put_xattr(fs, i, ACL_ACCESS, NULL, 0, a.mode);
	return set_locked(fs, i, PMEMFS_SET_MODE, &a);
}

static int set_acl(struct pmemfs *fs, struct inode *i, const char *name, const void *value,
		   size_t size, int flags)
{
	int err = S_ISLNK(i->attr.mode) ? -EOPNOTSUPP : acl_check(value, size);

	if (err)
		return err;
	if (acl_is_access(name))
		return set_access(fs, i, value, size, flags);
	return inode_is_dir(i) ? put_xattr(fs, i, name, value, size, 0) : -EACCES;
}

int pmemfs_setxattr(struct pmemfs *fs, uint64_t ino, const char *name, const void *value,
		    size_t size, int flags)
{
	struct inode *i;
	int err = check_name(fs, name);

	if (err)
		return err;
	if (size > PMEMFS_XATTR_MAX)
		return -E2BIG;
	if (atomic_load_explicit(&fs->readonly, memory_order_relaxed))
		return -EROFS;
	err = inode_open(fs, ino, true, &i);
	if (err)
		return err;
	if (inode_frozen(i, true))
		err = -EPERM;
	else if (flags & XATTR_CREATE && find(i, name))
		err = -EEXIST;
	else if (flags & XATTR_REPLACE && !find(i, name))
		err = -ENODATA;
	else if (!find(i, name) && list_size(fs, i) + strlen(name) + 1 > PMEMFS_XATTR_MAX)
		err = -ENOSPC;
	else if (acl_is_name(name))
		err = set_acl(fs, i, name, value, size, flags);
	else
		err = put_xattr(fs, i, name, value ? value : "", size, 0);
	inode_close(fs, i);
	return err;
}

int pmemfs_removexattr(struct pmemfs *fs, uint64_t ino, const char *name)
{
	struct inode *i;
	int err = check_name(fs, name);

	if (err)
		return err;
	if (atomic_load_explicit(&fs->readonly, memory_order_relaxed))
		return -EROFS;
	err = inode_open(fs, ino, true, &i);
	if (err)
		return err;
	err = inode_frozen(i, true);
	if (!err)
		err = find(i, name)	  ? put_xattr(fs, i, name, NULL, 0, 0)
		      : acl_is_name(name) ? 0
					  : -ENODATA;
	inode_close(fs, i);
	return err;
}

ssize_t pmemfs_getxattr(struct pmemfs *fs, uint64_t ino, const char *name, void *value,
			size_t size)
{
	const struct xattr *x;
	struct inode *i;
	ssize_t ret = check_name(fs, name);

	if (!ret)
		ret = inode_open(fs, ino, false, &i);
	if (ret)
		return ret;
	x = find(i, name);
	ret = !x ? -ENODATA : size && size < x->valuelen ? -ERANGE : (ssize_t)x->valuelen;
	if (ret > 0 && size) {
		memcpy(value, x->value, x->valuelen);
		if (acl_is_access(name))
			acl_fill(value, ret, i->attr.mode);
	}
	inode_close(fs, i);
	return ret;
}

ssize_t pmemfs_listxattr(struct pmemfs *fs, uint64_t ino, char *list, size_t size)
{
	struct inode *i;
	ssize_t ret = inode_open(fs, ino, false, &i);
	size_t need;

	if (ret)
		return ret;
	need = list_size(fs, i);
	ret = size && size < need ? -ERANGE : (ssize_t)need;
	for (size_t n = 0; ret > 0 && size && n < i->xattrs; n++) {
		if (!is_listed(fs, &i->xattr[n]))
			continue;
		memcpy(list, i->xattr[n].name, i->xattr[n].namelen + 1);
		list += i->xattr[n].namelen + 1;
	}
	inode_close(fs, i);
	return ret;
}
