/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver of pmemfs in this process. It does what the kernel does above a filesystem: walks
 * paths by lookups, holds a reference for each handle and gives every other one back, and
 * refuses what never reaches a filesystem (see kernel_refuses).
 *
 * What should not be and has no errno of its own gives -EILSEQ, which nothing else gives.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "drive_core.h"

/* ---- paths ---- */

/* Walks len bytes of the path; *ret comes with a reference unless it is the root. */
static int walk(struct core *c, const char *path, size_t len, struct pmemfs_attr *ret)
{
	const char *end = path + len;
	uint64_t at = 1;
	char name[OP_PATH_MAX];
	int rc = pmemfs_getattr(c->fs, 1, ret);

	while (!rc && path < end) {
		size_t n = strcspn(path, "/");

		memcpy(name, path, n);
		name[n] = 0;
		/* as the kernel, which asks no file for a name in it */
		rc = S_ISDIR(ret->mode) ? pmemfs_lookup(c->fs, at, name, ret) : -ENOTDIR;
		if (at != 1)
			pmemfs_forget(c->fs, at, 1);
		at = ret->ino;
		path += n + (path + n < end);
	}
	return rc;
}

static int walk_parent(struct core *c, const char *path, uint64_t *ret)
{
	const char *last = drive_last(path);
	struct pmemfs_attr a;
	int rc = walk(c, path, last > path ? (size_t)(last - path - 1) : 0, &a);

	if (rc)
		return rc;
	/* the kernel finds out before it asks the filesystem for a name in it */
	if (!S_ISDIR(a.mode)) {
		core_put(c, a.ino);
		return -ENOTDIR;
	}
	*ret = a.ino;
	return 0;
}

/* The object of an operation; put_object gives it back. */
static int get_object(struct core *c, const struct op *op, struct pmemfs_attr *ret)
{
	if (op->fd == OP_NOFD)
		return walk(c, op->path, strlen(op->path), ret);
	if (op->fd < 0 || op->fd >= OP_FDS || !c->handle[op->fd])
		return -EBADF;
	return pmemfs_getattr(c->fs, c->handle[op->fd], ret);
}

static void put_object(struct core *c, const struct op *op, uint64_t ino)
{
	if (op->fd == OP_NOFD)
		core_put(c, ino);
}

/* ---- operations on names ---- */

static int64_t do_make(struct core *c, const struct op *op)
{
	const struct pmemfs_cred cred = {(uint32_t)op->uid, (uint32_t)op->gid};
	char target[OP_PATH_MAX + 4200];
	struct pmemfs_attr a;
	uint32_t mode = op->mode;
	uint64_t dir;
	size_t len = op->kind == OP_SYMLINK ? op_target(op, target, sizeof(target) - 1) : 0;
	int rc;

	/* the kernel has looked at the target before it walks the path */
	if (op->kind == OP_SYMLINK && (!len || len > 4095))
		return len ? -ENAMETOOLONG : -ENOENT;
	target[len] = 0;
	rc = walk_parent(c, op->path, &dir);
	if (rc)
		return rc;
	if (op->kind == OP_CREATE)
		mode = S_IFREG | (mode & 07777);
	else if (op->kind == OP_MKDIR)
		mode = S_IFDIR | (mode & 01777);
	else if (op->kind == OP_SYMLINK)
		mode = S_IFLNK | 0777;
	rc = pmemfs_make(c->fs, dir, drive_last(op->path), mode, op->major, op->minor,
			 op->kind == OP_SYMLINK ? target : NULL, &cred, &a);
	if (!rc)
		core_put(c, a.ino);
	core_put(c, dir);
	return rc;
}

static int64_t do_names(struct core *c, const struct op *op)
{
	const char *name = drive_last(op->path);
	uint64_t dir, to;
	int rc = walk_parent(c, op->path, &dir);

	if (rc)
		return rc;
	if (op->kind == OP_UNLINK) {
		rc = pmemfs_unlink(c->fs, dir, name);
	} else if (op->kind == OP_RMDIR) {
		rc = pmemfs_rmdir(c->fs, dir, name);
	} else {
		rc = walk_parent(c, op->to, &to);
		if (!rc) {
			rc = pmemfs_rename(c->fs, dir, name, to, drive_last(op->to), op->flags);
			core_put(c, to);
		}
	}
	core_put(c, dir);
	return rc;
}

static int64_t do_link(struct core *c, const struct op *op)
{
	struct pmemfs_attr a, b;
	uint64_t dir;
	int rc = get_object(c, op, &a);

	if (rc)
		return rc;
	rc = walk_parent(c, op->to, &dir);
	if (!rc) {
		rc = pmemfs_link(c->fs, a.ino, dir, drive_last(op->to), &b);
		if (!rc)
			core_put(c, b.ino);
		if (!rc && b.ino != a.ino)
			rc = -EILSEQ;
		core_put(c, dir);
	}
	put_object(c, op, a.ino);
	return rc;
}

static int64_t do_open(struct core *c, const struct op *op)
{
	const struct pmemfs_cred cred = {(uint32_t)op->uid, (uint32_t)op->gid};
	struct pmemfs_attr a, t;
	int rc;

	if (op->fd < 0 || op->fd >= OP_FDS || c->handle[op->fd])
		return -EBADF;
	rc = walk(c, op->path, strlen(op->path), &a);
	if (rc)
		return rc;
	if (op->kind == OP_TMPFILE) {
		rc = !S_ISDIR(a.mode)
			 ? -ENOTDIR
			 : pmemfs_tmpfile(c->fs, a.ino, S_IFREG | op->mode, &cred, &t);
		core_put(c, a.ino);
		if (!rc)
			c->handle[op->fd] = t.ino;
		return rc;
	}
	if (S_ISREG(a.mode)) {
		c->handle[op->fd] = a.ino;
		return 0;
	}
	core_put(c, a.ino);
	return S_ISDIR(a.mode) ? -EISDIR : S_ISLNK(a.mode) ? -ELOOP : -EINVAL;
}

int64_t core_close(struct core *c, int fd)
{
	if (fd < 0 || fd >= OP_FDS || !c->handle[fd])
		return -EBADF;
	pmemfs_forget(c->fs, c->handle[fd], 1);
	c->handle[fd] = 0;
	return 0;
}

/* ---- operations on an inode ---- */

static int64_t do_write(struct core *c, uint64_t ino, const struct op *op)
{
	uint8_t *buf = malloc(op->len + 1);
	int64_t rc;

	if (!buf)
		abort();
	op_fill(op->seed, buf, op->len);
	rc = pmemfs_write(c->fs, ino, op->off, buf, op->len,
			  op->kind == OP_APPEND ? PMEMFS_WRITE_APPEND : 0);
	free(buf);
	return rc;
}

static int64_t do_read(struct core *c, uint64_t ino, const struct op *op, struct op_result *res)
{
	uint8_t *buf = malloc(op->len + 1);
	int64_t rc;

	if (!buf)
		abort();
	rc = core_read_both(c, ino, op->off, buf, op->len);
	if (rc > 0)
		op_result_set(res, rc, buf, (size_t)rc);
	free(buf);
	return rc;
}

static unsigned time_mask(const struct timespec *t, unsigned set, unsigned now)
{
	return t->tv_nsec == UTIME_OMIT ? 0 : t->tv_nsec == UTIME_NOW ? now : set;
}

static int64_t do_setattr(struct core *c, const struct pmemfs_attr *old, const struct op *op)
{
	struct pmemfs_attr a = {0}, after;
	unsigned mask = 0;
	int rc;

	switch (op->kind) {
	case OP_TRUNCATE:
		mask = PMEMFS_SET_SIZE;
		a.size = op->off;
		break;
	case OP_CHMOD:
		mask = PMEMFS_SET_MODE;
		a.mode = (old->mode & S_IFMT) | (op->mode & 07777);
		break;
	case OP_CHOWN:
		mask = (op->uid >= 0 ? PMEMFS_SET_UID : 0) |
		       (op->gid >= 0 ? PMEMFS_SET_GID : 0) |
		       (S_ISDIR(old->mode) ? 0 : PMEMFS_SET_KILL_PRIV);
		a.uid = (uint32_t)op->uid;
		a.gid = (uint32_t)op->gid;
		break;
	default:
		mask = time_mask(&op->atime, PMEMFS_SET_ATIME, PMEMFS_SET_ATIME_NOW) |
		       time_mask(&op->mtime, PMEMFS_SET_MTIME, PMEMFS_SET_MTIME_NOW);
		a.atime = op->atime;
		a.mtime = op->mtime;
		if (!mask)
			return 0;
	}
	rc = pmemfs_setattr(c->fs, old->ino, mask, &a, &after);
	return !rc && after.ino != old->ino ? -EILSEQ : rc;
}

static int64_t do_xattr(struct core *c, uint64_t ino, const struct op *op,
			struct op_result *res)
{
	size_t size = op->kind == OP_LISTXATTR ? 0 : (size_t)op->len;
	char *buf;
	int64_t rc;

	if (op->kind == OP_REMOVEXATTR)
		return pmemfs_removexattr(c->fs, ino, op->to);
	if (op->kind == OP_LISTXATTR) {
		rc = pmemfs_listxattr(c->fs, ino, NULL, 0);
		if (rc < 0)
			return rc;
		size = (size_t)rc;
	}
	buf = malloc(size + 1);
	if (!buf)
		abort();
	if (op->kind == OP_SETXATTR) {
		op_value(op, buf);
		rc = pmemfs_setxattr(c->fs, ino, op->to, buf, size, (int)op->flags);
	} else if (op->kind == OP_GETXATTR) {
		rc = pmemfs_getxattr(c->fs, ino, op->to, buf, size);
		if (rc >= 0 && size)
			op_result_set(res, rc, buf, (size_t)rc);
	} else {
		rc = size ? pmemfs_listxattr(c->fs, ino, buf, size) : 0;
		if (rc >= 0) {
			drive_sort_names(buf, (size_t)rc);
			op_result_set(res, rc, buf, (size_t)rc);
		}
	}
	free(buf);
	return rc;
}

static int64_t do_look(struct core *c, const struct pmemfs_attr *a, const struct op *op,
		       struct op_result *res)
{
	struct listing l = {0};
	char buf[4200], *list;
	size_t len = 0, k;
	int64_t rc = 0;

	if (op->kind == OP_READLINK) {
		rc = pmemfs_readlink(c->fs, a->ino, buf, sizeof(buf));
		if (rc >= 0)
			op_result_set(res, rc, buf, (size_t)rc);
	} else if (op->kind == OP_READDIR) {
		rc = core_list(c, a->ino, &l);
		if (rc)
			return rc;
		list = malloc(l.n * 256 + 1);
		if (!list)
			abort();
		for (k = 0; k < l.n; k++)
			if (!core_is_dots(l.e[k].name))
				len += (size_t)sprintf(list + len, "%s", l.e[k].name) + 1;
		drive_sort_names(list, len);
		op_result_set(res, 0, list, len);
		free(list);
		free(l.e);
	}
	return rc;
}

/* What the kernel answers itself, without asking the filesystem. */
static int kernel_refuses(const struct op *op, const struct pmemfs_attr *a)
{
	bool set = op->kind == OP_SETXATTR || op->kind == OP_REMOVEXATTR;
	size_t len = strlen(op->to);

	if (op->kind == OP_CHMOD && S_ISLNK(a->mode))
		return -EOPNOTSUPP;
	/* a bad mode would be seen first, had opening for writing not failed before */
	if (op->kind == OP_FALLOCATE && !S_ISREG(a->mode))
		return S_ISDIR(a->mode) ? -EISDIR : -EINVAL;
	if (!set && op->kind != OP_GETXATTR)
		return 0;
	if (!len || len > 255)
		return -ERANGE;
	if (op->kind == OP_SETXATTR && op->len > 65536)
		return -E2BIG;
	if (op_is_acl(op->to))
		return S_ISLNK(a->mode) ? -EOPNOTSUPP : 0;
	if (!S_ISREG(a->mode) && !S_ISDIR(a->mode) && !strncmp(op->to, "user.", 5))
		return set ? -EPERM : -ENODATA;
	return 0;
}

static int64_t on_object(struct core *c, const struct op *op, struct op_result *res)
{
	struct pmemfs_attr a;
	int64_t rc = get_object(c, op, &a);

	if (rc)
		return rc;
	rc = kernel_refuses(op, &a);
	switch (rc ? OP_NONE : op->kind) {
	case OP_WRITE:
	case OP_APPEND:
		rc = do_write(c, a.ino, op);
		break;
	case OP_TRUNCATE:
	case OP_CHMOD:
	case OP_CHOWN:
	case OP_UTIMENS:
		rc = do_setattr(c, &a, op);
		break;
	case OP_FALLOCATE:
		rc = pmemfs_fallocate(c->fs, a.ino, (int)op->flags, op->off, op->len);
		break;
	case OP_READ:
		rc = do_read(c, a.ino, op, res);
		break;
	case OP_SEEK:
		rc = pmemfs_seek(c->fs, a.ino, op->off, (int)op->flags);
		break;
	case OP_SETXATTR:
	case OP_REMOVEXATTR:
	case OP_GETXATTR:
	case OP_LISTXATTR:
		rc = do_xattr(c, a.ino, op, res);
		break;
	case OP_READLINK:
	case OP_READDIR:
		rc = do_look(c, &a, op, res);
		break;
	default:
		break;
	}
	put_object(c, op, a.ino);
	return rc;
}

void core_apply(struct driver *d, const struct op *op, struct op_result *res)
{
	struct core *c = core_of(d);

	switch (op->kind) {
	case OP_CREATE:
	case OP_MKDIR:
	case OP_MKNOD:
	case OP_SYMLINK:
		res->ret = do_make(c, op);
		break;
	case OP_LINK:
		res->ret = do_link(c, op);
		break;
	case OP_UNLINK:
	case OP_RMDIR:
	case OP_RENAME:
		res->ret = do_names(c, op);
		break;
	case OP_OPEN:
	case OP_TMPFILE:
		res->ret = do_open(c, op);
		break;
	case OP_CLOSE:
		res->ret = core_close(c, op->fd);
		break;
	case OP_SYNC:
		res->ret = pmemfs_sync(c->fs);
		break;
	case OP_NONE:
		break;
	case OP_REMOUNT:
	case OP_CRASH:
		res->ret = -ENOSYS;
		break;
	default:
		res->ret = on_object(c, op, res);
	}
}
