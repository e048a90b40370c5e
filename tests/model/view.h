/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A view: everything that can be seen of a filesystem at one moment, collected through a driver
 * and compared with the model. And the drivers themselves: pmemfs in this process (drive_core)
 * and a directory reached by system calls (drive_posix: a mount, tmpfs).
 */
#ifndef PMEMFS_TESTS_VIEW_H
#define PMEMFS_TESTS_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "op.h"

#define VIEW_BLOCK 4096u

struct view_xattr {
	char *name;
	uint8_t *value;
	size_t len;
};

/* A 4096-byte block of a file that is not all zero. */
struct view_block {
	uint64_t number;
	uint8_t *bytes; /* VIEW_BLOCK of them; past the end of the file: zeros */
};

/* One inode, however many names it has. */
struct view_inode {
	uint64_t ino;
	uint32_t mode, uid, gid, nlink;
	uint32_t major, minor;
	uint64_t size;
	uint64_t blocks; /* of 512 bytes */
	struct timespec atime, mtime, ctime, btime;
	bool has_btime;
	char *target; /* symlinks */
	size_t targetlen;
	struct view_xattr *xattrs; /* sorted by name */
	size_t n_xattrs;
	struct view_block *data; /* regular files, sorted */
	size_t n_data;
	struct view_dent *dents; /* directories, sorted by name (bytes) */
	size_t n_dents;
};

struct view_dent {
	char *name;
	size_t inode;	/* index in view.inodes */
	uint64_t d_ino; /* what readdir said */
	uint8_t d_type; /* DT_* */
};

struct view {
	struct view_inode *inodes; /* [0] is the root */
	size_t n_inodes;
	size_t handle[OP_FDS]; /* index in inodes, or VIEW_NONE */
	struct timespec taken; /* CLOCK_REALTIME after it was taken */
	uint64_t bfree, ffree; /* statfs */
	size_t *hash;	       /* private to view.c: inode numbers to indexes */
	size_t hash_size;
	char *problem; /* an inconsistency seen while looking (d_ino, d_type, "..", EIO), or
			  NULL */
};
#define VIEW_NONE ((size_t)-1)

struct view_options {
	bool no_data;	    /* names and attributes only */
	uint64_t full_read; /* files up to this size are read whole, larger ones where SEEK_DATA
			       sees data, plus one block on both sides; 0: 4 MiB */
};

void view_clear(struct view *v);
/* Prints the tree, for people. */
void view_print(const struct view *v, FILE *out);
/* 64-bit digest of all that the model compares but times (with_times: and times). */
uint64_t view_digest(const struct view *v, bool with_times);

/* ---- drivers ---------------------------------------------------------------------------- */

struct pmemfs;
struct driver;

/* Operations on fs. The caller keeps fs, and unmounts it after drive_free or drive_core_set. */
struct driver *drive_core_new(struct pmemfs *fs);
/*
 * After a remount: another struct pmemfs. Handles are forgotten; close them before a clean
 * unmount with drive_close_all. OP_REMOUNT and OP_CRASH are the caller's: drive_apply answers
 * -ENOSYS for them.
 */
void drive_core_set(struct driver *d, struct pmemfs *fs);
/* References held by the driver are given back (handles). */
void drive_close_all(struct driver *d);

/* Operations below the directory. Sets the umask to 0. NULL with errno. */
struct driver *drive_posix_new(const char *dir);

void drive_free(struct driver *d);
const char *drive_name(const struct driver *d);

/*
 * Does it; fills res (clear it afterwards). Where the kernel would refuse before the filesystem
 * is asked (O_TMPFILE of a name, user xattrs on symlinks), drive_core refuses likewise.
 */
void drive_apply(struct driver *d, const struct op *op, struct op_result *res);

/* 0 or a negative errno if not even the root can be read. o may be NULL. */
int drive_view(struct driver *d, const struct view_options *o, struct view *ret);
/* A view of the one object (path, or fd if not OP_NOFD), without the entries of directories. */
int drive_view_one(struct driver *d, const char *path, int fd, const struct view_options *o,
		   struct view *ret);

#endif
