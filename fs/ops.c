/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handlers of the FUSE low-level API. The kernel walks paths, checks permissions and keeps
 * the caches; a handler translates the arguments, calls the library once and replies.
 *
 * 1. Every path through a handler sends exactly one reply.
 * 2. An entry is counted by the library before it is replied; if the reply fails (the caller
 * was killed meanwhile), the kernel has not counted it, and the reference is given back.
 * 3. Everything may be cached for ever: only this daemon changes the filesystem, and the kernel
 *    knows what it asked for. The one change that it does not follow, set-id bits cleared by a
 *    write, is told to it.
 * 4. Handlers hold no locks and keep no state but this: where an open directory's listing ends.
 */
#include "ops_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "control.h"

void attr_to_stat(const struct pmemfs_attr *a, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = a->ino;
	st->st_mode = a->mode;
	st->st_nlink = a->nlink;
	st->st_uid = a->uid;
	st->st_gid = a->gid;
	st->st_rdev = makedev(a->rdev_major, a->rdev_minor);
	st->st_size = a->size;
	st->st_blksize = 4096;
	st->st_blocks = a->blocks;
	st->st_atim = a->atime;
	st->st_mtim = a->mtime;
	st->st_ctim = a->ctime;
}

void attr_to_entry(const struct pmemfs_attr *a, struct fuse_entry_param *e)
{
	memset(e, 0, sizeof(*e));
	e->ino = a->ino;
	e->generation = a->generation;
	e->attr_timeout = OPS_FOREVER;
	e->entry_timeout = OPS_FOREVER;
	attr_to_stat(a, &e->attr);
}

void reply_entry(fuse_req_t req, int r, const struct pmemfs_attr *a)
{
	struct pmemfs *fs = fs_of(req);
	struct fuse_entry_param e;

	if (r) {
		reply_result(req, r);
		return;
	}
	attr_to_entry(a, &e);
	if (fuse_reply_entry(req, &e) != 0)
		pmemfs_forget(fs, a->ino, 1);
}

/* ---- names ---- */

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct pmemfs_attr a;
	int r = pmemfs_lookup(fs_of(req), parent, name, &a);

	if (r == -ENOENT) {
		/* the kernel remembers what is not there, too */
		struct fuse_entry_param none = {.entry_timeout = OPS_FOREVER};

		fuse_reply_entry(req, &none);
		return;
	}
	reply_entry(req, r, &a);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	pmemfs_forget(fs_of(req), ino, n);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *f)
{
	struct pmemfs *fs = fs_of(req);

	for (size_t i = 0; i < count; i++)
		pmemfs_forget(fs, f[i].ino, f[i].nlookup);
	fuse_reply_none(req);
}

static void make(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev,
		 const char *target)
{
	struct pmemfs_cred cred = cred_of(req);
	struct pmemfs_attr a;
	int r = pmemfs_make(fs_of(req), parent, name, mode, major(rdev), minor(rdev), target,
			    &cred, &a);

	reply_entry(req, r, &a);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		     dev_t rdev)
{
	make(req, parent, name, mode, rdev, NULL);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	make(req, parent, name, (mode & ~S_IFMT) | S_IFDIR, 0, NULL);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	make(req, parent, name, S_IFLNK | 0777, 0, target);
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent, const char *newname)
{
	struct pmemfs_attr a;
	int r = pmemfs_link(fs_of(req), ino, newparent, newname, &a);

	reply_entry(req, r, &a);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	reply_result(req, pmemfs_unlink(fs_of(req), parent, name));
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	reply_result(req, pmemfs_rmdir(fs_of(req), parent, name));
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
		      const char *newname, unsigned flags)
{
	struct pmemfs_cred cred = cred_of(req);

	reply_result(
	    req, pmemfs_rename_by(fs_of(req), parent, name, newparent, newname, flags, &cred));
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char target[4096];
	ssize_t n = pmemfs_readlink(fs_of(req), ino, target, sizeof(target) - 1);

	if (n < 0) {
		reply_result(req, n);
		return;
	}
	target[n] = '\0';
	fuse_reply_readlink(req, target);
}

/* ---- the filesystem ---- */

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct pmemfs_statfs s;
	struct statvfs v = {.f_bsize = 4096, .f_frsize = 4096, .f_namemax = 255};

	pmemfs_statfs(fs_of(req), &s);
	v.f_blocks = s.blocks;
	v.f_bfree = s.bfree;
	v.f_bavail = s.bavail;
	v.f_files = s.files;
	v.f_ffree = v.f_favail = s.ffree;
	fuse_reply_statfs(req, &v);
}

static void set_readonly(fuse_req_t req, const void *in, size_t in_size)
{
	uint32_t readonly;
	int r;

	if (fuse_req_ctx(req)->uid != 0 || in_size != sizeof(readonly)) {
		fuse_reply_err(req, in_size != sizeof(readonly) ? EINVAL : EPERM);
		return;
	}
	memcpy(&readonly, in, sizeof(readonly));
	r = pmemfs_set_readonly(fs_of(req), readonly != 0);
	if (r)
		reply_result(req, r);
	else
		fuse_reply_ioctl(req, 0, NULL, 0);
}

static void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,
		     struct fuse_file_info *fi, unsigned flags, const void *in, size_t in_size,
		     size_t out_size)
{
	if (cmd == PMEMFS_IOC_SET_READONLY && ino == FUSE_ROOT_ID)
		set_readonly(req, in, in_size);
	else if (!ioctl_flags(req, ino, cmd, in, in_size, out_size))
		fuse_reply_err(req, ENOTTY);
}

/* Asks for a capability if the kernel has it; says whether it has. */
static bool want(struct fuse_conn_info *conn, uint64_t cap)
{
#ifdef PMEMFS_FUSE_FEATURE_FLAG
	return fuse_set_feature_flag(conn, cap);
#else
	if (!(conn->capable & cap))
		return false;
	conn->want |= cap;
	return true;
#endif
}

static void unwant(struct fuse_conn_info *conn, uint64_t cap)
{
#ifdef PMEMFS_FUSE_FEATURE_FLAG
	fuse_unset_feature_flag(conn, cap);
#else
	conn->want &= ~cap;
#endif
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct ops *o = userdata;

	/* Own writes must not drop the cache, nor have the size asked for again. */
	if (want(conn, FUSE_CAP_EXPLICIT_INVAL_DATA))
		unwant(conn, FUSE_CAP_AUTO_INVAL_DATA);
	want(conn, FUSE_CAP_ASYNC_READ);
	want(conn, FUSE_CAP_ASYNC_DIO);
	want(conn, FUSE_CAP_ATOMIC_O_TRUNC);
	want(conn, FUSE_CAP_EXPORT_SUPPORT);
	want(conn, FUSE_CAP_CACHE_SYMLINKS);
	want(conn, FUSE_CAP_PARALLEL_DIROPS);
	want(conn, FUSE_CAP_READDIRPLUS);
	want(conn, FUSE_CAP_READDIRPLUS_AUTO);
	want(conn, FUSE_CAP_IOCTL_DIR);
	/* Requests arrive in memory that the library copies from; a pipe would be a copy more.
	 */
	unwant(conn, FUSE_CAP_SPLICE_READ);
	unwant(conn, FUSE_CAP_SPLICE_WRITE);
	unwant(conn, FUSE_CAP_SPLICE_MOVE);
	/* The kernel checks lists and leaves the umask to whoever knows of a default one. */
	if (o->acl && want(conn, FUSE_CAP_POSIX_ACL))
		want(conn, FUSE_CAP_DONT_MASK);
	/* Version 1 does not say whose writes must clear set-id bits: then the kernel does it.
	 */
	unwant(conn, FUSE_CAP_HANDLE_KILLPRIV);
#if defined(FUSE_CAP_HANDLE_KILLPRIV_V2) && defined(PMEMFS_FUSE_KILL_SUIDGID)
	o->kill_priv = want(conn, FUSE_CAP_HANDLE_KILLPRIV_V2);
#endif
#ifdef FUSE_CAP_DIRECT_IO_ALLOW_MMAP
	o->direct = want(conn, FUSE_CAP_DIRECT_IO_ALLOW_MMAP);
#endif
#ifdef PMEMFS_FUSE_NO_INTERRUPT
	conn->no_interrupt = 1; /* no operation waits for anything */
#endif
	conn->max_write = OPS_MAX_WRITE;
	conn->max_background = OPS_MAX_BACKGROUND;
	conn->time_gran = 1;
	o->ready = true;
}

static const struct fuse_lowlevel_ops handlers = {
    .init = op_init,
    .lookup = op_lookup,
    .forget = op_forget,
    .forget_multi = op_forget_multi,
    .getattr = op_getattr,
    .setattr = op_setattr,
    .readlink = op_readlink,
    .mknod = op_mknod,
    .mkdir = op_mkdir,
    .unlink = op_unlink,
    .rmdir = op_rmdir,
    .symlink = op_symlink,
    .rename = op_rename,
    .link = op_link,
    .open = op_open,
    .create = op_create,
    .read = op_read,
    .write = op_write,
    .opendir = op_opendir,
    .releasedir = op_releasedir,
    .readdir = op_readdir,
    .readdirplus = op_readdirplus,
    .statfs = op_statfs,
    .setxattr = op_setxattr,
    .getxattr = op_getxattr,
    .listxattr = op_listxattr,
    .removexattr = op_removexattr,
    .ioctl = op_ioctl,
    .fallocate = op_fallocate,
    .lseek = op_lseek,
    .copy_file_range = op_copy_file_range,
#ifdef PMEMFS_FUSE_TMPFILE
    .tmpfile = op_tmpfile,
#endif
#ifdef PMEMFS_FUSE_STATX
    .statx = op_statx,
#endif
};

void ops_init(struct ops *o, const struct media *m, struct fuse_lowlevel_ops *ret)
{
	memset(o, 0, sizeof(*o));
	*ret = handlers;
	if (media_kind(m) == MEDIA_FILE) {
		ret->fsync = op_fsync;
		ret->fsyncdir = op_fsync;
	}
}
