/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the handlers; ops.c explains the conventions. */
#ifndef PMEMFS_FS_OPS_IMPL_H
#define PMEMFS_FS_OPS_IMPL_H

#include "ops.h"

/* Only this daemon changes the filesystem, through this kernel: nothing cached expires. */
#define OPS_FOREVER 1e9

static inline struct ops *ops_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}
static inline struct pmemfs *fs_of(fuse_req_t req)
{
	return ops_of(req)->fs;
}

static inline struct pmemfs_cred cred_of(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	return (struct pmemfs_cred){.uid = ctx->uid, .gid = ctx->gid, .umask = ctx->umask};
}

/* r is 0 or a negative errno of the library. */
static inline void reply_result(fuse_req_t req, int r)
{
	fuse_reply_err(req, -r);
}

void attr_to_stat(const struct pmemfs_attr *a, struct stat *st);
void attr_to_entry(const struct pmemfs_attr *a, struct fuse_entry_param *e);

/* Replies the entry, whose reference goes to the kernel or, when that fails, back. */
void reply_entry(fuse_req_t req, int r, const struct pmemfs_attr *a);

/*
 * ops_priv.c: what a change of a file by its caller takes away. Which of the mode's set-id bits
 * go, as Linux has it for a caller without CAP_FSETID; 0: none.
 */
uint32_t privileges_lost(fuse_req_t req, const struct pmemfs_attr *a);
/* Does nothing entitle the caller to a set-group-id bit of this gid? */
bool is_outsider(fuse_req_t req, gid_t gid);
/* Clears those bits before a write, and tells the kernel, which caches the mode for ever. */
int privileges_clear(fuse_req_t req, fuse_ino_t ino);
/* For a write through a descriptor; for a request that does not say who lacks CAP_FSETID. */
int privileges_clear_for(fuse_req_t req, fuse_ino_t ino, const struct fuse_file_info *fi);
int privileges_clear_by_uid(fuse_req_t req, fuse_ino_t ino);
/* A direct write has to remove file capabilities itself. */
int capabilities_clear(fuse_req_t req, fuse_ino_t ino, const struct fuse_file_info *fi);

/* ops_flags.c: what chattr and lsattr ask for. False, without a reply: not one of these. */
bool ioctl_flags(fuse_req_t req, fuse_ino_t ino, unsigned cmd, const void *in, size_t in_size,
		 size_t out_size);
/* What immutable and append-only forbid to an open with these flags: 0 or -EPERM. */
int flags_may_open(fuse_req_t req, fuse_ino_t ino, int flags);

/* ops_dir.c */
void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		struct fuse_file_info *fi);
void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi);

/* ops_attr.c */
void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
		struct fuse_file_info *fi);
#ifdef PMEMFS_FUSE_STATX
void op_statx(fuse_req_t req, fuse_ino_t ino, int flags, int mask, struct fuse_file_info *fi);
#endif
void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
		 size_t size, int flags);
void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

/* ops_file.c */
void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *fi);
#ifdef PMEMFS_FUSE_TMPFILE
void op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi);
#endif
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
	      struct fuse_file_info *fi);
void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len,
		  struct fuse_file_info *fi);
void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi);
void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in,
			struct fuse_file_info *fi_in, fuse_ino_t ino_out, off_t off_out,
			struct fuse_file_info *fi_out, size_t len, int flags);
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);

#endif
