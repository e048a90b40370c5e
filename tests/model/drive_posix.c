/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver of a directory: system calls only. Objects are reached with O_PATH descriptors,
 * and their attributes and contents through /proc/self/fd, so that no symlink is ever followed
 * and no fifo or device is opened. Reads use O_NOATIME.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "drive.h"

struct posix {
	struct driver d;
	int root;
	int fd[OP_FDS];
};

static struct posix *of(struct driver *d)
{
	return (struct posix *)d;
}

struct proc {
	char s[40];
};

static struct proc proc_path(int fd)
{
	struct proc p;

	snprintf(p.s, sizeof(p.s), "/proc/self/fd/%d", fd);
	return p;
}

static int64_t sys(int64_t rc)
{
	return rc < 0 ? -errno : rc;
}

/* ---- paths ---- */

/* The directory of len bytes of path, as an O_PATH descriptor. */
static int open_dir(struct posix *p, const char *path, size_t len)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
			       .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH};
	char dir[OP_PATH_MAX];
	int fd;

	if (!len)
		strcpy(dir, ".");
	else
		memcpy(dir, path, len), dir[len] = 0;
	fd = (int)syscall(SYS_openat2, p->root, dir, &how, sizeof(how));
	if (fd >= 0)
		return fd;
	return errno == ELOOP ? -ENOTDIR : -errno;
}

static int open_parent(struct posix *p, const char *path)
{
	const char *last = drive_last(path);

	return open_dir(p, path, last > path ? (size_t)(last - path - 1) : 0);
}

/* The object itself, O_PATH. */
static int open_object(struct posix *p, const struct op *op)
{
	int dir, fd;

	if (op->fd != OP_NOFD)
		return p->fd[op->fd] < 0 ? -EBADF : (int)sys(dup(p->fd[op->fd]));
	if (!*op->path)
		return open_dir(p, "", 0);
	dir = open_parent(p, op->path);
	if (dir < 0)
		return dir;
	fd = (int)sys(openat(dir, drive_last(op->path), O_PATH | O_NOFOLLOW | O_CLOEXEC));
	close(dir);
	return fd;
}

/* Opens a regular file that is held as an object; the object is closed. */
static int open_file(int object, int flags)
{
	struct stat st;
	int fd;

	if (object < 0)
		return object;
	fd = (int)sys(fstat(object, &st));
	if (!fd && S_ISDIR(st.st_mode))
		fd = -EISDIR;
	else if (!fd && !S_ISREG(st.st_mode))
		fd = -EINVAL;
	else if (!fd)
		fd = (int)sys(open(proc_path(object).s, flags | O_CLOEXEC | O_NOATIME));
	close(object);
	return fd;
}

/* ---- operations ---- */

static int64_t do_make(struct posix *p, const struct op *op)
{
	char target[4200];
	const char *name = drive_last(op->path);
	int dir = open_parent(p, op->path), fd;
	int64_t rc;

	if (dir < 0) {
		if (op->kind != OP_SYMLINK)
			return dir;
		/* The kernel looks at the target before it looks for the directory. */
		target[op_target(op, target, 4199)] = 0;
		rc = sys(symlinkat(target, -1, "x"));
		return rc == -EBADF ? dir : rc;
	}
	switch (op->kind) {
	case OP_CREATE:
		fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC,
			    op->mode & 07777);
		rc = sys(fd);
		if (fd >= 0) {
			close(fd);
			rc = 0;
		}
		break;
	case OP_MKDIR:
		rc = sys(mkdirat(dir, name, op->mode & 07777));
		break;
	case OP_MKNOD:
		rc = sys(mknodat(dir, name, op->mode, makedev(op->major, op->minor)));
		break;
	default:
		target[op_target(op, target, 4199)] = 0;
		rc = sys(symlinkat(target, dir, name));
	}
	close(dir);
	return rc;
}

static int64_t do_names(struct posix *p, const struct op *op)
{
	int dir = open_parent(p, op->path), to;
	int64_t rc;

	if (dir < 0)
		return dir;
	if (op->kind == OP_UNLINK || op->kind == OP_RMDIR) {
		rc = sys(unlinkat(dir, drive_last(op->path),
				  op->kind == OP_RMDIR ? AT_REMOVEDIR : 0));
	} else {
		to = open_parent(p, op->to);
		rc = to;
		if (to >= 0) {
			rc = sys(renameat2(dir, drive_last(op->path), to, drive_last(op->to),
					   op->flags));
			close(to);
		}
	}
	close(dir);
	return rc;
}

static int64_t do_link(struct posix *p, const struct op *op)
{
	int from = open_object(p, op), to;
	int64_t rc;

	if (from < 0)
		return from;
	to = open_parent(p, op->to);
	rc = to;
	if (to >= 0) {
		rc = sys(linkat(AT_FDCWD, proc_path(from).s, to, drive_last(op->to),
				AT_SYMLINK_FOLLOW));
		close(to);
	}
	close(from);
	return rc;
}

/* ZERO_RANGE where the filesystem has none: the same by other means. */
static int64_t zero_range(int fd, const struct op *op)
{
	int keep = (int)(op->flags & FALLOC_FL_KEEP_SIZE);
	int64_t rc = sys(fallocate(fd, (int)op->flags, (off_t)op->off, (off_t)op->len));

	if (rc != -EOPNOTSUPP || (op->flags & FALLOC_FL_PUNCH_HOLE))
		return rc;
	rc = sys(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)op->off,
			   (off_t)op->len));
	return rc ? rc : sys(fallocate(fd, keep, (off_t)op->off, (off_t)op->len));
}

static int64_t do_content(struct posix *p, const struct op *op, struct op_result *res)
{
	bool reads = op->kind == OP_READ || op->kind == OP_SEEK;
	int flags = reads ? O_RDONLY : op->kind == OP_APPEND ? O_WRONLY | O_APPEND : O_WRONLY;
	bool needs_buf = op->kind == OP_READ || op->kind == OP_WRITE || op->kind == OP_APPEND;
	uint8_t *buf = needs_buf ? malloc(op->len + 1) : NULL;
	int fd = open_file(open_object(p, op), flags);
	int64_t rc = fd;

	if (needs_buf && !buf)
		abort();
	if (fd < 0)
		goto out;
	if (needs_buf && !reads)
		op_fill(op->seed, buf, op->len);
	if (op->kind == OP_WRITE)
		rc = sys(pwrite(fd, buf, op->len, (off_t)op->off));
	else if (op->kind == OP_APPEND)
		rc = sys(write(fd, buf, op->len));
	else if (op->kind == OP_TRUNCATE)
		rc = sys(ftruncate(fd, (off_t)op->off));
	else if (op->kind == OP_FALLOCATE && (op->flags & FALLOC_FL_ZERO_RANGE))
		rc = zero_range(fd, op);
	else if (op->kind == OP_FALLOCATE)
		rc = sys(fallocate(fd, (int)op->flags, (off_t)op->off, (off_t)op->len));
	else if (op->kind == OP_SEEK)
		rc = sys(lseek(fd, (off_t)op->off, (int)op->flags));
	else
		rc = sys(pread(fd, buf, op->len, (off_t)op->off));
	if (op->kind == OP_READ && rc > 0)
		op_result_set(res, rc, buf, (size_t)rc);
	close(fd);
out:
	free(buf);
	return rc;
}

static int64_t do_attr(struct posix *p, const struct op *op)
{
	const struct timespec t[2] = {op->atime, op->mtime};
	int fd = open_object(p, op);
	struct proc path = proc_path(fd);
	int64_t rc;

	if (fd < 0)
		return fd;
	if (op->kind == OP_CHMOD)
		rc = sys(chmod(path.s, op->mode & 07777));
	else if (op->kind == OP_CHOWN)
		rc = sys(chown(path.s, (uid_t)op->uid, (gid_t)op->gid));
	else
		rc = sys(utimensat(AT_FDCWD, path.s, t, 0));
	close(fd);
	return rc;
}

static int64_t do_xattr(struct posix *p, const struct op *op, struct op_result *res)
{
	int fd = open_object(p, op);
	struct proc path = proc_path(fd);
	size_t size = op->kind == OP_LISTXATTR ? 65536 : (size_t)op->len;
	char *buf;
	int64_t rc;

	if (fd < 0)
		return fd;
	buf = malloc(size + 1);
	if (!buf)
		abort();
	switch (op->kind) {
	case OP_SETXATTR:
		op_value(op, buf);
		rc = sys(setxattr(path.s, op->to, buf, size, (int)op->flags));
		break;
	case OP_REMOVEXATTR:
		rc = sys(removexattr(path.s, op->to));
		break;
	case OP_GETXATTR:
		rc = sys(getxattr(path.s, op->to, buf, size));
		break;
	default:
		rc = sys(listxattr(path.s, buf, size));
		if (rc > 0)
			drive_sort_names(buf, (size_t)rc);
	}
	if (rc >= 0 && (op->kind == OP_LISTXATTR || (op->kind == OP_GETXATTR && size)))
		op_result_set(res, rc, buf, (size_t)rc);
	free(buf);
	close(fd);
	return rc;
}

static int64_t do_open(struct posix *p, const struct op *op)
{
	struct stat st;
	int fd;

	if (op->fd < 0 || op->fd >= OP_FDS || p->fd[op->fd] >= 0)
		return -EBADF;
	if (op->kind == OP_TMPFILE) {
		int dir = open_dir(p, op->path, strlen(op->path));

		if (dir < 0)
			return dir;
		fd = (int)sys(openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, op->mode));
		close(dir);
	} else {
		struct op by_path = *op;

		by_path.fd = OP_NOFD;
		fd = open_object(p, &by_path);
		if (fd >= 0 && !fstat(fd, &st) && S_ISLNK(st.st_mode)) {
			close(fd);
			return -ELOOP;
		}
		fd = open_file(fd, O_RDWR);
	}
	if (fd < 0)
		return fd;
	p->fd[op->fd] = fd;
	return 0;
}

static int64_t do_close(struct posix *p, const struct op *op)
{
	if (op->fd < 0 || op->fd >= OP_FDS || p->fd[op->fd] < 0)
		return -EBADF;
	close(p->fd[op->fd]);
	p->fd[op->fd] = -1;
	return 0;
}

static int list_dir(int object, drive_emit emit, void *arg)
{
	int fd = (int)sys(openat(object, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME));
	struct dirent *e;
	int rc;
	DIR *dir;

	if (fd < 0)
		return fd;
	dir = fdopendir(fd);
	if (!dir)
		abort();
	while (errno = 0, e = readdir(dir))
		emit(arg, e->d_name, e->d_ino, e->d_type);
	rc = -errno;
	closedir(dir);
	return rc;
}

struct names {
	char *list;
	size_t len;
};

static void add_name(void *arg, const char *name, uint64_t d_ino, uint8_t d_type)
{
	struct names *n = arg;
	size_t len = strlen(name) + 1;

	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return;
	n->list = realloc(n->list, n->len + len);
	if (!n->list)
		abort();
	memcpy(n->list + n->len, name, len);
	n->len += len;
}

static int64_t do_look(struct posix *p, const struct op *op, struct op_result *res)
{
	struct names n = {0};
	char buf[4200];
	int fd = open_object(p, op);
	int64_t rc = 0;

	if (fd < 0)
		return fd;
	if (op->kind == OP_READLINK) {
		rc = sys(readlinkat(fd, "", buf, sizeof(buf)));
		if (rc ==
		    -ENOENT) /* what readlinkat says of descriptors that are no symlinks */
			rc = -EINVAL;
		if (rc >= 0)
			op_result_set(res, rc, buf, (size_t)rc);
	} else if (op->kind == OP_READDIR) {
		rc = list_dir(fd, add_name, &n);
		if (!rc) {
			drive_sort_names(n.list ? n.list : buf, n.len);
			op_result_set(res, rc, n.list ? n.list : buf, n.len);
		}
		free(n.list);
	}
	close(fd);
	return rc;
}

static int64_t apply(struct posix *p, const struct op *op, struct op_result *res)
{
	switch (op->kind) {
	case OP_CREATE:
	case OP_MKDIR:
	case OP_MKNOD:
	case OP_SYMLINK:
		return do_make(p, op);
	case OP_LINK:
		return do_link(p, op);
	case OP_UNLINK:
	case OP_RMDIR:
	case OP_RENAME:
		return do_names(p, op);
	case OP_WRITE:
	case OP_APPEND:
	case OP_TRUNCATE:
	case OP_FALLOCATE:
	case OP_READ:
	case OP_SEEK:
		return do_content(p, op, res);
	case OP_CHMOD:
	case OP_CHOWN:
	case OP_UTIMENS:
		return do_attr(p, op);
	case OP_SETXATTR:
	case OP_REMOVEXATTR:
	case OP_GETXATTR:
	case OP_LISTXATTR:
		return do_xattr(p, op, res);
	case OP_OPEN:
	case OP_TMPFILE:
		return do_open(p, op);
	case OP_CLOSE:
		return do_close(p, op);
	case OP_READLINK:
	case OP_READDIR:
	case OP_STAT:
		return do_look(p, op, res);
	case OP_SYNC:
		return sys(syncfs(p->root));
	case OP_NONE:
		return 0;
	default:
		return -ENOSYS;
	}
}

static void posix_apply(struct driver *d, const struct op *op, struct op_result *res)
{
	res->ret = apply(of(d), op, res);
}

/* ---- looking ---- */

static int posix_root(struct driver *d, struct node *ret)
{
	ret->fd = open_dir(of(d), "", 0);
	return ret->fd < 0 ? ret->fd : 0;
}

static int posix_handle(struct driver *d, int slot, struct node *ret)
{
	if (of(d)->fd[slot] < 0)
		return -EBADF;
	ret->fd = (int)sys(dup(of(d)->fd[slot]));
	return ret->fd < 0 ? ret->fd : 0;
}

static int posix_look(struct driver *d, const struct node *dir, const char *name,
		      struct node *ret)
{
	ret->fd = (int)sys(openat(dir->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
	return ret->fd < 0 ? ret->fd : 0;
}

static void posix_drop(struct driver *d, struct node *n)
{
	close(n->fd);
}

static struct timespec time_of(const struct statx_timestamp *t)
{
	return (struct timespec){t->tv_sec, t->tv_nsec};
}

static int posix_attr(struct driver *d, const struct node *n, struct view_inode *ret)
{
	struct statx st;

	if (statx(n->fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &st))
		return -errno;
	*ret = (struct view_inode){.ino = st.stx_ino,
				   .mode = st.stx_mode,
				   .uid = st.stx_uid,
				   .gid = st.stx_gid,
				   .nlink = st.stx_nlink,
				   .major = st.stx_rdev_major,
				   .minor = st.stx_rdev_minor,
				   .size = st.stx_size,
				   .blocks = st.stx_blocks,
				   .atime = time_of(&st.stx_atime),
				   .mtime = time_of(&st.stx_mtime),
				   .ctime = time_of(&st.stx_ctime),
				   .btime = time_of(&st.stx_btime),
				   .has_btime = st.stx_mask & STATX_BTIME};
	return 0;
}

static int posix_readdir(struct driver *d, const struct node *n, drive_emit emit, void *arg)
{
	return list_dir(n->fd, emit, arg);
}

static ssize_t posix_readlink(struct driver *d, const struct node *n, char *buf, size_t size)
{
	return sys(readlinkat(n->fd, "", buf, size));
}

static ssize_t posix_listxattr(struct driver *d, const struct node *n, char *buf, size_t size)
{
	return sys(listxattr(proc_path(n->fd).s, buf, size));
}

static ssize_t posix_getxattr(struct driver *d, const struct node *n, const char *name,
			      void *buf, size_t size)
{
	return sys(getxattr(proc_path(n->fd).s, name, buf, size));
}

static ssize_t posix_read(struct driver *d, const struct node *n, uint64_t off, void *buf,
			  size_t size)
{
	int fd = (int)sys(open(proc_path(n->fd).s, O_RDONLY | O_CLOEXEC | O_NOATIME));
	ssize_t rc;

	if (fd < 0)
		return fd;
	rc = sys(pread(fd, buf, size, (off_t)off));
	close(fd);
	return rc;
}

static int64_t posix_seek(struct driver *d, const struct node *n, uint64_t off, int whence)
{
	int fd = (int)sys(open(proc_path(n->fd).s, O_RDONLY | O_CLOEXEC | O_NOATIME));
	int64_t rc;

	if (fd < 0)
		return fd;
	rc = sys(lseek(fd, (off_t)off, whence));
	close(fd);
	return rc;
}

static void posix_statfs(struct driver *d, struct view *v)
{
	struct statvfs st;

	if (fstatvfs(of(d)->root, &st))
		return;
	v->bfree = st.f_bfree;
	v->ffree = st.f_ffree;
}

static void posix_close_all(struct driver *d)
{
	int k;

	for (k = 0; k < OP_FDS; k++) {
		if (of(d)->fd[k] >= 0)
			close(of(d)->fd[k]);
		of(d)->fd[k] = -1;
	}
}

static void posix_free(struct driver *d)
{
	posix_close_all(d);
	close(of(d)->root);
	free(d);
}

static const struct driver_ops posix_ops = {
    .name = "posix",
    .apply = posix_apply,
    .close_all = posix_close_all,
    .free = posix_free,
    .root = posix_root,
    .handle = posix_handle,
    .look = posix_look,
    .drop = posix_drop,
    .attr = posix_attr,
    .readdir = posix_readdir,
    .readlink = posix_readlink,
    .listxattr = posix_listxattr,
    .getxattr = posix_getxattr,
    .read = posix_read,
    .seek = posix_seek,
    .statfs = posix_statfs,
};

struct driver *drive_posix_new(const char *dir)
{
	struct posix *p = calloc(1, sizeof(*p));
	int k;

	if (!p)
		return NULL;
	p->d.ops = &posix_ops;
	p->root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->root < 0) {
		free(p);
		return NULL;
	}
	for (k = 0; k < OP_FDS; k++)
		p->fd[k] = -1;
	umask(0);
	return &p->d;
}
