/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes, and extended ones. */
#include "ops_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct pmemfs_attr a;
	struct stat st;
	int r = pmemfs_getattr(fs_of(req), ino, &a);

	if (r) {
		reply_result(req, r);
		return;
	}
	attr_to_stat(&a, &st);
	fuse_reply_attr(req, &st, OPS_FOREVER);
}

/* What the kernel names FUSE_SET_ATTR_*, and the library PMEMFS_SET_*. */
static unsigned setattr_mask(int to_set)
{
	static const struct {
		int theirs;
		unsigned ours;
	} map[] = {
	    {FUSE_SET_ATTR_MODE, PMEMFS_SET_MODE},
	    {FUSE_SET_ATTR_UID, PMEMFS_SET_UID},
	    {FUSE_SET_ATTR_GID, PMEMFS_SET_GID},
	    {FUSE_SET_ATTR_SIZE, PMEMFS_SET_SIZE},
	    {FUSE_SET_ATTR_CTIME, PMEMFS_SET_CTIME},
	    {FUSE_SET_ATTR_KILL_SUID, PMEMFS_SET_KILL_PRIV},
	    {FUSE_SET_ATTR_KILL_SGID, PMEMFS_SET_KILL_PRIV},
	};
	unsigned mask = 0;

	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		if (to_set & map[i].theirs)
			mask |= map[i].ours;
	/* NOW comes together with the plain bit, whose value then is the caller's clock. */
	if (to_set & FUSE_SET_ATTR_ATIME_NOW)
		mask |= PMEMFS_SET_ATIME_NOW;
	else if (to_set & FUSE_SET_ATTR_ATIME)
		mask |= PMEMFS_SET_ATIME;
	if (to_set & FUSE_SET_ATTR_MTIME_NOW)
		mask |= PMEMFS_SET_MTIME_NOW;
	else if (to_set & FUSE_SET_ATTR_MTIME)
		mask |= PMEMFS_SET_MTIME;
	return mask;
}

/* A truncation says so itself; a change of owner always does, without saying so. */
static bool kills_privileges(const struct ops *o, unsigned mask, int to_set)
{
	/* Nothing to set at all is chown(-1, -1) on kernels before 6.2. */
	return o->kill_priv &&
	       (to_set == 0 || (to_set & (FUSE_SET_ATTR_KILL_SUID | FUSE_SET_ATTR_KILL_SGID)) ||
		(mask & (PMEMFS_SET_UID | PMEMFS_SET_GID)));
}

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
		struct fuse_file_info *fi)
{
	struct ops *o = ops_of(req);
	unsigned mask = setattr_mask(to_set);
	struct pmemfs_attr a = {
	    .mode = st->st_mode,
	    .uid = st->st_uid,
	    .gid = st->st_gid,
	    .size = st->st_size,
	    .atime = st->st_atim,
	    .mtime = st->st_mtim,
	    .ctime = st->st_ctim,
	};
	struct pmemfs_attr now;
	uint32_t lost = 0;
	struct stat ret;
	int r = 0;

	if (kills_privileges(o, mask, to_set)) {
		r = pmemfs_getattr(o->fs, ino, &now);
		lost = r ? 0 : privileges_lost(req, &now);
	}
	if (lost) {
		a.mode = (mask & PMEMFS_SET_MODE ? a.mode : now.mode) & ~lost;
		mask |= PMEMFS_SET_MODE;
	}
	if (fuse_req_ctx(req)->uid == 0)
		mask |= PMEMFS_SET_UNLIMITED;
	if (r == 0)
		r = pmemfs_setattr(o->fs, ino, mask, &a, &a);
	if (r) {
		reply_result(req, r);
		return;
	}
	attr_to_stat(&a, &ret);
	fuse_reply_attr(req, &ret, OPS_FOREVER);
}

#ifdef PMEMFS_FUSE_STATX
static struct statx_timestamp statx_time(struct timespec t)
{
	return (struct statx_timestamp){.tv_sec = t.tv_sec, .tv_nsec = t.tv_nsec};
}

/* The kernel asks for this one only when somebody wants the birth time. */
void op_statx(fuse_req_t req, fuse_ino_t ino, int flags, int mask, struct fuse_file_info *fi)
{
	struct pmemfs_attr a;
	int r = pmemfs_getattr(fs_of(req), ino, &a);
	struct statx x = {.stx_mask = STATX_BASIC_STATS | STATX_BTIME, .stx_blksize = 4096};

	if (r) {
		reply_result(req, r);
		return;
	}
	x.stx_ino = a.ino;
	x.stx_mode = a.mode;
	x.stx_nlink = a.nlink;
	x.stx_uid = a.uid;
	x.stx_gid = a.gid;
	x.stx_rdev_major = a.rdev_major;
	x.stx_rdev_minor = a.rdev_minor;
	x.stx_size = a.size;
	x.stx_blocks = a.blocks;
	x.stx_atime = statx_time(a.atime);
	x.stx_mtime = statx_time(a.mtime);
	x.stx_ctime = statx_time(a.ctime);
	x.stx_btime = statx_time(a.btime);
	fuse_reply_statx(req, 0, &x, OPS_FOREVER);
}
#endif

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
		 size_t size, int flags)
{
	struct pmemfs_attr a;

	if (strcmp(name, "system.posix_acl_access") == 0 &&
	    pmemfs_getattr(fs_of(req), ino, &a) == 0 && is_outsider(req, a.gid))
		flags |= PMEMFS_XATTR_KILL_SGID;
	reply_result(req, pmemfs_setxattr(fs_of(req), ino, name, value, size, flags));
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	reply_result(req, pmemfs_removexattr(fs_of(req), ino, name));
}

static void reply_xattr(fuse_req_t req, ssize_t n, const char *buf, size_t size)
{
	if (n < 0)
		reply_result(req, n);
	else if (size == 0)
		fuse_reply_xattr(req, n);
	else
		fuse_reply_buf(req, buf, n);
}

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	char *buf = size ? malloc(size) : NULL;
	ssize_t n = size && !buf ? -ENOMEM : pmemfs_getxattr(fs_of(req), ino, name, buf, size);

	reply_xattr(req, n, buf, size);
	free(buf);
}

/* Takes the names out that only root may see. */
static size_t hide_trusted(char *list, size_t n)
{
	size_t kept = 0;

	for (size_t at = 0, len; at < n; at += len) {
		len = strlen(list + at) + 1;
		if (strncmp(list + at, "trusted.", 8) == 0)
			continue;
		memmove(list + kept, list + at, len);
		kept += len;
	}
	return kept;
}

/* The whole list; its length may grow between asking for that and for the list itself. */
static ssize_t get_list(struct pmemfs *fs, fuse_ino_t ino, char **ret)
{
	ssize_t n = pmemfs_listxattr(fs, ino, NULL, 0);
	char *list = n > 0 ? malloc(n) : NULL;

	if (n > 0)
		n = list ? pmemfs_listxattr(fs, ino, list, n) : -ENOMEM;
	if (n >= 0)
		*ret = list;
	else
		free(list);
	return n;
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	char *list = NULL;
	ssize_t n = get_list(fs_of(req), ino, &list);

	if (n > 0 && fuse_req_ctx(req)->uid != 0)
		n = hide_trusted(list, n);
	if (size > 0 && n > (ssize_t)size)
		n = -ERANGE;
	reply_xattr(req, n, list, size);
	free(list);
}
