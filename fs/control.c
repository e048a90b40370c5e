/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's end of control.h: an ioctl of the root directory, so that it needs no socket, no
 * file and no permissions of its own, and works in every namespace that sees the mount. Other
 * ioctls go on to the filesystem's handler.
 */
#include "control_serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "control.h"
#include "ops_impl.h"
#include "util.h"

static struct {
	void (*next)(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,
		     struct fuse_file_info *fi, unsigned flags, const void *in, size_t in_size,
		     size_t out_size);
	struct transport *transport;
	const char *name;
	struct timespec start;
} control;

static void fill(struct pmemfs *fs, struct control_stats *s)
{
	struct media_counts counts;
	struct pmemfs_statfs space;
	struct timespec now;

	memset(s, 0, sizeof(*s));
	transport_stats(control.transport, s);
	clock_gettime(CLOCK_MONOTONIC, &now);
	s->uptime_ns = (now.tv_sec - control.start.tv_sec) * 1000000000ll + now.tv_nsec -
		       control.start.tv_nsec;
	media_count(pmemfs_media(fs), &counts);
	s->fences = counts.fences;
	s->flushed_lines = counts.flushes;
	s->nt_lines = counts.nt_lines;
	s->media_bytes = counts.bytes;
	pmemfs_statfs(fs, &space);
	s->blocks = space.blocks;
	s->free_blocks = space.bfree;
	s->available_blocks = space.bavail;
	s->files = space.files;
	s->free_files = space.ffree;
	snprintf(s->transport, sizeof(s->transport), "%s", control.name);
}

static void reply_stats(fuse_req_t req, size_t out_size)
{
	struct control_stats s;

	if (out_size < sizeof(s)) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	fill(fs_of(req), &s);
	fuse_reply_ioctl(req, 0, &s, sizeof(s));
}

static void reply_scrub(fuse_req_t req, const void *in, size_t in_size, size_t out_size)
{
	struct pmemfs_scrub work;
	struct pmemfs_statfs space;
	struct control_scrub s;

	if (fuse_req_ctx(req)->uid != 0) {
		fuse_reply_err(req, EPERM);
		return;
	}
	if (in_size < sizeof(s) || out_size < sizeof(s)) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	memcpy(&s, in, sizeof(s));
	work = (struct pmemfs_scrub){s.next, s.inodes, s.bytes, s.damaged, s.repaired};
	pmemfs_scrub(fs_of(req), &work, MIN(s.budget, 16u << 20));
	pmemfs_statfs(fs_of(req), &space);
	s = (struct control_scrub){.next = work.next,
				   .inodes = work.inodes,
				   .bytes = work.bytes,
				   .damaged = work.damaged,
				   .repaired = work.repaired,
				   .all = space.files - space.ffree};
	fuse_reply_ioctl(req, 0, &s, sizeof(s));
}

static void control_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,
			  struct fuse_file_info *fi, unsigned flags, const void *in,
			  size_t in_size, size_t out_size)
{
	if (cmd == PMEMFS_IOC_STATS && ino == FUSE_ROOT_ID)
		reply_stats(req, out_size);
	else if (cmd == PMEMFS_IOC_SCRUB && ino == FUSE_ROOT_ID)
		reply_scrub(req, in, in_size, out_size);
	else if (ino == FUSE_ROOT_ID && control_quota(req, cmd, in, in_size, out_size))
		return;
	else
		control.next(req, ino, cmd, arg, fi, flags, in, in_size, out_size);
}

void control_add(struct fuse_lowlevel_ops *handlers)
{
	control.next = handlers->ioctl;
	handlers->ioctl = control_ioctl;
	clock_gettime(CLOCK_MONOTONIC, &control.start);
}

void control_set_transport(struct transport *t, const char *name)
{
	control.transport = t;
	control.name = name;
}
