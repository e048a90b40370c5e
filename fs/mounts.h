/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's mount table, and mounting and unmounting in it. */
#ifndef PMEMFS_FS_MOUNTS_H
#define PMEMFS_FS_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>

#define MOUNTS_TYPE "fuse.pmemfs"

struct mount_entry {
	unsigned major, minor;
	const char *point, *options, *type, *source;
};

/* Calls fn for each mount, in the table's order, until it returns non-zero; returns that. */
typedef int (*mounts_fn)(void *arg, const struct mount_entry *e);
int mounts_each(mounts_fn fn, void *arg);

struct mount_found {
	bool found;
	unsigned major, minor;
	char point[4096], options[512], type[64], source[4096];
};

/* The uppermost mount at a mount point; a mount of pmemfs with that source. */
void mounts_find_point(const char *point, struct mount_found *ret);
void mounts_find_source(const char *source, struct mount_found *ret);

/*
 * Mounts a new FUSE connection with mount(2). ret_fd: its descriptor. -EPERM: not allowed, try
 * fusermount3. data: further options for the kernel, or NULL.
 */
int mounts_mount(const char *source, const char *point, unsigned long flags, const char *data,
		 int *ret_fd);

/* Is there a fusermount3, for those who may not call mount(2)? */
bool mounts_have_fusermount(void);

/*
 * Unmounts the uppermost mount of pmemfs that is listed as major:minor in this mount namespace.
 * flags as for umount2(2). -ENOENT: there is none; -EBUSY; -EPERM.
 */
int mounts_unmount_top(unsigned major, unsigned minor, int flags);

/* Writes back what the kernel still has dirty of it. */
void mounts_sync(unsigned major, unsigned minor);

/* Raises the kernel's read-ahead; in silence where that is not permitted. */
void mounts_set_readahead(unsigned major, unsigned minor, unsigned kib);

#endif
