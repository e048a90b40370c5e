/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Set-id bits and file capabilities that go when a file changes.
 *
 * With HANDLE_KILLPRIV_V2 the kernel leaves this to the daemon, and in return asks for nothing
 * before each write. It says (kill_suidgid) whose request must clear them: somebody's without
 * CAP_FSETID. The bits are cleared before the change, so that no moment has new contents under
 * the old privileges. Without that protocol the kernel does all of it by itself.
 */
#include "ops_impl.h"

#include <errno.h>
#include <fcntl.h>

#include "monitor.h"

#define CAPABILITY_XATTR "security.capability"

static bool in_group(fuse_req_t req, gid_t gid)
{
	const struct fuse_ctx *caller = fuse_req_ctx(req);

	return caller->gid == gid || monitor_in_group(caller->pid, gid);
}

bool is_outsider(fuse_req_t req, gid_t gid)
{
	return fuse_req_ctx(req)->uid != 0 && !in_group(req, gid);
}

uint32_t privileges_lost(fuse_req_t req, const struct pmemfs_attr *a)
{
	uint32_t lost = a->mode & S_ISUID;

	if (S_ISDIR(a->mode))
		return 0;
	/* Without group execution the bit is no privilege, but still not for outsiders to keep.
	 */
	if ((a->mode & S_ISGID) && ((a->mode & S_IXGRP) || is_outsider(req, a->gid)))
		lost |= S_ISGID;
	return lost;
}

int privileges_clear(fuse_req_t req, fuse_ino_t ino)
{
	struct ops *o = ops_of(req);
	struct pmemfs_attr a;
	uint32_t lost;
	int r = pmemfs_getattr(o->fs, ino, &a);

	if (r)
		return r;
	lost = privileges_lost(req, &a);
	if (!lost)
		return 0;
	a.mode &= ~lost;
	r = pmemfs_setattr(o->fs, ino, PMEMFS_SET_MODE, &a, NULL);
	/* A negative offset means the attributes only: it waits for no page, so no deadlock. */
	if (r == 0)
		fuse_lowlevel_notify_inval_inode(o->session, ino, -1, 0);
	return r;
}

int privileges_clear_for(fuse_req_t req, fuse_ino_t ino, const struct fuse_file_info *fi)
{
#ifdef PMEMFS_FUSE_KILL_SUIDGID
	return fi->kill_suidgid ? privileges_clear(req, ino) : 0;
#else
	return 0;
#endif
}

/* Whoever is not root lacks CAP_FSETID. */
int privileges_clear_by_uid(fuse_req_t req, fuse_ino_t ino)
{
	if (!ops_of(req)->kill_priv || fuse_req_ctx(req)->uid == 0)
		return 0;
	return privileges_clear(req, ino);
}

/* Direct writes go past the place where the kernel removes capabilities before a write. */
int capabilities_clear(fuse_req_t req, fuse_ino_t ino, const struct fuse_file_info *fi)
{
	struct pmemfs *fs = fs_of(req);
	int r;

	if (!ops_of(req)->direct || !(fi->flags & O_DIRECT) ||
	    pmemfs_getxattr(fs, ino, CAPABILITY_XATTR, NULL, 0) < 0)
		return 0;
	r = pmemfs_removexattr(fs, ino, CAPABILITY_XATTR);
	return r == -ENODATA ? 0 : r;
}
