/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flags of chattr(1), by both of Linux's interfaces. The kernel (5.13 and later) asks for
 * them by ioctls of its own and has checked then that the caller may change them; it does not
 * know what they mean, so that the library forbids what they forbid, and opening is refused
 * here.
 */
#include "ops_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>

#define PROTECTED (FS_IMMUTABLE_FL | FS_APPEND_FL)

static const struct {
	uint32_t flag, xflag;
} names[] = {
    {FS_IMMUTABLE_FL, FS_XFLAG_IMMUTABLE}, {FS_APPEND_FL, FS_XFLAG_APPEND},
    {FS_SYNC_FL, FS_XFLAG_SYNC},	   {FS_NOATIME_FL, FS_XFLAG_NOATIME},
    {FS_NODUMP_FL, FS_XFLAG_NODUMP},
};

/* Sets the bits of mask to those of flags. */
static int set_flags(fuse_req_t req, fuse_ino_t ino, uint32_t flags, uint32_t mask)
{
	struct ops *o = ops_of(req);
	uid_t uid = fuse_req_ctx(req)->uid;
	struct pmemfs_attr a;
	int r = pmemfs_getattr(o->fs, ino, &a);

	if (r)
		return r;
	flags |= a.flags & ~mask;
	if (uid != 0 && (uid != a.uid || ((flags ^ a.flags) & PROTECTED)))
		return -EPERM;
	a.flags = flags;
	r = pmemfs_setattr(o->fs, ino, PMEMFS_SET_FLAGS, &a, NULL);
	/* It caches the time of the change, too; attributes only, which waits for no page. */
	if (r == 0)
		fuse_lowlevel_notify_inval_inode(o->session, ino, -1, 0);
	return r;
}

static int get_xattr(fuse_req_t req, fuse_ino_t ino, struct fsxattr *ret)
{
	struct pmemfs_attr a;
	int r = pmemfs_getattr(fs_of(req), ino, &a);

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; r == 0 && i < sizeof(names) / sizeof(names[0]); i++)
		if (a.flags & names[i].flag)
			ret->fsx_xflags |= names[i].xflag;
	return r;
}

static int set_xattr(fuse_req_t req, fuse_ino_t ino, const struct fsxattr *x)
{
	uint32_t known = 0, mask = 0, flags = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		known |= names[i].xflag;
		mask |= names[i].flag;
		flags |= x->fsx_xflags & names[i].xflag ? names[i].flag : 0;
	}
	if (x->fsx_xflags & ~known || x->fsx_extsize || x->fsx_cowextsize || x->fsx_projid)
		return -EOPNOTSUPP;
	return set_flags(req, ino, flags, mask);
}

bool ioctl_flags(fuse_req_t req, fuse_ino_t ino, unsigned cmd, const void *in, size_t in_size,
		 size_t out_size)
{
	struct pmemfs_attr a;
	struct fsxattr x;
	uint32_t word;
	const void *out = NULL;
	size_t out_len = 0;
	int r = -EINVAL;

	switch (cmd) {
	case FS_IOC_GETFLAGS:
	case FS_IOC_GETVERSION:
		out = &word;
		out_len = sizeof(word);
		r = pmemfs_getattr(fs_of(req), ino, &a);
		word = r ? 0 : cmd == FS_IOC_GETFLAGS ? a.flags : a.generation;
		break;
	case FS_IOC_FSGETXATTR:
		out = &x;
		out_len = sizeof(x);
		r = get_xattr(req, ino, &x);
		break;
	case FS_IOC_SETFLAGS:
		if (in_size >= sizeof(word)) {
			memcpy(&word, in, sizeof(word));
			r = set_flags(req, ino, word, UINT32_MAX);
		}
		break;
	case FS_IOC_FSSETXATTR:
		if (in_size >= sizeof(x)) {
			memcpy(&x, in, sizeof(x));
			r = set_xattr(req, ino, &x);
		}
		break;
	default:
		return false;
	}
	if (r == 0 && out_len > out_size)
		r = -EINVAL;
	if (r)
		reply_result(req, r);
	else
		fuse_reply_ioctl(req, 0, out, out_len);
	return true;
}

int flags_may_open(fuse_req_t req, fuse_ino_t ino, int flags)
{
	struct pmemfs_attr a;
	int r;

	if ((flags & O_ACCMODE) == O_RDONLY && !(flags & O_TRUNC))
		return 0;
	r = pmemfs_getattr(fs_of(req), ino, &a);
	if (r)
		return r;
	if (a.flags & FS_IMMUTABLE_FL ||
	    (a.flags & FS_APPEND_FL && (!(flags & O_APPEND) || flags & O_TRUNC)))
		return -EPERM;
	return 0;
}
