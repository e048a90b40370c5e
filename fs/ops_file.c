/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open files: their contents.
 *
 * O_APPEND needs nothing here. The kernel holds the inode's lock for an appending write and its
 * idea of the size is exact, because only it changes files; so the offset that it sends is the
 * end of the file. (Appending at the daemon's idea of the end instead would put the pieces of
 * one large asynchronous direct write, which arrive together, in the wrong order.)
 */
#include "ops_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* What one request of copy_file_range does at most, and the piece it is done in. */
#define COPY_MAX   (16u << 20)
#define COPY_PIECE (1u << 20)

static void set_open_flags(const struct ops *o, struct fuse_file_info *fi)
{
	fi->fh = 0;
	fi->keep_cache = 1;
	/*
	 * Without DIRECT_IO_ALLOW_MMAP the kernel would refuse to map such a file, and older
	 * ones would not keep the page cache true; they do O_DIRECT well enough by themselves.
	 */
	if ((fi->flags & O_DIRECT) && o->direct) {
		fi->direct_io = 1;
#ifdef PMEMFS_FUSE_PARALLEL_DIRECT
		fi->parallel_direct_writes = 1;
#endif
	}
}

static int truncate_at_open(fuse_req_t req, fuse_ino_t ino, const struct fuse_file_info *fi)
{
	struct pmemfs_attr zero = {.size = 0};
	int r = privileges_clear_for(req, ino, fi);

	if (r)
		return r;
	return pmemfs_setattr(fs_of(req), ino, PMEMFS_SET_SIZE | PMEMFS_SET_MTIME_NOW, &zero,
			      NULL);
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	int r = flags_may_open(req, ino, fi->flags);

	if (r == 0 && fi->flags & O_TRUNC)
		r = truncate_at_open(req, ino, fi);
	if (r) {
		reply_result(req, r);
		return;
	}
	set_open_flags(ops_of(req), fi);
	fuse_reply_open(req, fi);
}

/* The reply of create and tmpfile: the entry's reference goes to the kernel, or back. */
static void reply_created(fuse_req_t req, int r, const struct pmemfs_attr *a,
			  struct fuse_file_info *fi)
{
	struct ops *o = ops_of(req);
	struct fuse_entry_param e;

	if (r) {
		reply_result(req, r);
		return;
	}
	attr_to_entry(a, &e);
	set_open_flags(o, fi);
	if (fuse_reply_create(req, &e, fi) != 0)
		pmemfs_forget(o->fs, a->ino, 1);
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *fi)
{
	struct pmemfs_cred cred = cred_of(req);
	struct pmemfs_attr a;
	int r = pmemfs_make(fs_of(req), parent, name, (mode & ~S_IFMT) | S_IFREG, 0, 0, NULL,
			    &cred, &a);

	reply_created(req, r, &a, fi);
}

#ifdef PMEMFS_FUSE_TMPFILE
void op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi)
{
	struct pmemfs_cred cred = cred_of(req);
	struct pmemfs_attr a;
	int r = pmemfs_tmpfile(fs_of(req), parent, (mode & ~S_IFMT) | S_IFREG, &cred, &a);

	reply_created(req, r, &a, fi);
}
#endif

/* ---- reading ---- */

struct read_reply {
	fuse_req_t req;
	bool sent;
};

static int send_iov(void *arg, const struct iovec *iov, int n, size_t total)
{
	struct read_reply *reply = arg;

	/*
	 * Straight from the mapping. Where the medium fails in between, the system call fails,
	 * and the kernel itself turns the request into EIO.
	 */
	reply->sent = true;
	fuse_reply_iov(reply->req, iov, n);
	return 0;
}

static void read_by_copy(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off)
{
	char *buf = malloc(size);
	ssize_t n = buf ? pmemfs_read(fs_of(req), ino, off, buf, size) : -ENOMEM;

	if (n < 0)
		reply_result(req, n);
	else
		fuse_reply_buf(req, buf, n);
	free(buf);
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct read_reply reply = {.req = req};
	int r = pmemfs_read_iov(fs_of(req), ino, off, size, send_iov, &reply);

	if (reply.sent)
		return;
	if (r == -ENOTSUP)
		read_by_copy(req, ino, size, off);
	else
		reply_result(req, r);
}

/* ---- writing ---- */

void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
	      struct fuse_file_info *fi)
{
	ssize_t n = privileges_clear_for(req, ino, fi);

	if (n == 0)
		n = capabilities_clear(req, ino, fi);
	if (n == 0)
		n = pmemfs_write(fs_of(req), ino, off, buf, size, 0);
	if (n < 0)
		reply_result(req, n);
	else
		fuse_reply_write(req, n);
}

void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len,
		  struct fuse_file_info *fi)
{
	int r = privileges_clear_by_uid(req, ino);

	if (r == 0)
		r = pmemfs_fallocate(fs_of(req), ino, mode, off, len);
	reply_result(req, r);
}

void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
	int64_t r = pmemfs_seek(fs_of(req), ino, off, whence);

	if (r < 0)
		reply_result(req, r);
	else
		fuse_reply_lseek(req, r);
}

/* Returns what was copied, less than len at the end of the source; an error only for nothing.
 */
static ssize_t copy_range(struct pmemfs *fs, uint64_t in, uint64_t off_in, uint64_t out,
			  uint64_t off_out, size_t len)
{
	char *buf = malloc(len < COPY_PIECE ? len : COPY_PIECE);
	size_t done = 0;
	ssize_t n = buf ? 0 : -ENOMEM;

	while (n >= 0 && done < len) {
		size_t piece = len - done < COPY_PIECE ? len - done : COPY_PIECE;

		n = pmemfs_read(fs, in, off_in + done, buf, piece);
		if (n > 0)
			n = pmemfs_write(fs, out, off_out + done, buf, n, 0);
		if (n <= 0)
			break;
		done += n;
	}
	free(buf);
	return done > 0 ? (ssize_t)done : n;
}

void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in,
			struct fuse_file_info *fi_in, fuse_ino_t ino_out, off_t off_out,
			struct fuse_file_info *fi_out, size_t len, int flags)
{
	ssize_t n = privileges_clear_by_uid(req, ino_out);

	if (n == 0)
		n = copy_range(fs_of(req), ino_in, off_in, ino_out, off_out,
			       len < COPY_MAX ? len : COPY_MAX);
	if (n < 0)
		reply_result(req, n);
	else
		fuse_reply_write(req, n);
}

/* A file on a disk filesystem: what was written outlives the daemon, but not yet the machine.
 */
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	reply_result(req, pmemfs_sync(fs_of(req)));
}
