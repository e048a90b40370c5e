/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading directories. The offsets that the kernel gives back are the library's cookies, which
 * outlive the entry they belong to; so a listing misses and repeats nothing while others add
 * and remove names. A listing ends with what there was when it began (opendir, rewinddir), or
 * one that renames all it sees would meet every file again under its new name, for ever.
 *
 * The kernel's cache of listings (FOPEN_CACHE_DIR, which is also what replying ENOSYS to
 * opendir turns on) is not used: it looks for the place to go on by an exact match of the
 * offset. If that entry has been removed, and somebody else has listed the directory since, it
 * notices and asks us, except where its pages are filled to the last byte (say by 126 names of
 * up to 8 bytes): there it says that the directory ends (seen with Linux 6.18). An rm -r beside
 * an ls would leave files behind.
 */
#include "ops_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct listing {
	fuse_req_t req;
	char *buf;
	size_t size, used;
	bool plus;
	uint64_t *end;	   /* of an open directory: the first cookie that is not listed */
	uint64_t *counted; /* inodes whose reference goes to the kernel */
	size_t ncounted;
};

static int emit_entry(void *arg, const char *name, const struct pmemfs_attr *attr,
		      uint64_t cookie)
{
	struct listing *l = arg;
	size_t left = l->size - l->used, n;
	struct fuse_entry_param e;
	bool counts = l->plus && attr->nlink; /* not for the dots, nor for a damaged inode */

	if (cookie == 1 && l->end) /* the "." of a listing that begins */
		__atomic_store_n(l->end, attr->size, __ATOMIC_RELAXED);
	else if (l->end && __atomic_load_n(l->end, __ATOMIC_RELAXED) &&
		 cookie >= __atomic_load_n(l->end, __ATOMIC_RELAXED))
		return 1;
	attr_to_entry(attr, &e);
	if (!counts)
		e.ino = 0; /* nothing for the kernel to count */
	if (l->plus)
		n = fuse_add_direntry_plus(l->req, l->buf + l->used, left, name, &e, cookie);
	else
		n = fuse_add_direntry(l->req, l->buf + l->used, left, name, &e.attr, cookie);
	if (n > left)
		return 1;
	l->used += n;
	if (counts)
		l->counted[l->ncounted++] = attr->ino;
	return 0;
}

static uint64_t *dir_end(const struct fuse_file_info *fi)
{
	return (uint64_t *)(uintptr_t)fi->fh;
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	uint64_t *end = calloc(1, sizeof(*end));

	if (!end) {
		reply_result(req, -ENOMEM);
		return;
	}
	fi->fh = (uintptr_t)end;
	if (fuse_reply_open(req, fi) != 0) /* it was interrupted: there will be no releasedir */
		free(end);
}

void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	free(dir_end(fi));
	reply_result(req, 0);
}

/* No entry of a readdirplus is smaller: fuse_direntplus with a name of 8 bytes or less. */
#define PLUS_ENTRY_MIN 152

static void list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus,
		 struct fuse_file_info *fi)
{
	struct pmemfs *fs = fs_of(req);
	struct listing l = {.req = req, .size = size, .plus = plus, .end = dir_end(fi)};
	int r = 0;

	l.buf = malloc(size);
	l.counted = plus ? malloc((size / PLUS_ENTRY_MIN + 1) * sizeof(*l.counted)) : NULL;
	if (!l.buf || (plus && !l.counted))
		r = -ENOMEM;
	else
		r = pmemfs_readdir(fs, ino, off, plus ? PMEMFS_READDIR_PLUS : 0, emit_entry,
				   &l);
	/* Entries that were packed before an error are listed; the error comes next time. */
	if (r && l.used == 0)
		reply_result(req, r);
	else if (fuse_reply_buf(req, l.buf, l.used) != 0)
		for (size_t i = 0; i < l.ncounted; i++)
			pmemfs_forget(fs, l.counted[i], 1);
	free(l.counted);
	free(l.buf);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		struct fuse_file_info *fi)
{
	list(req, ino, size, off, false, fi);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	list(req, ino, size, off, true, fi);
}
