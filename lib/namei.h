/* SPDX-License-Identifier: BSD-3-Clause */
/* What namei.c and rename.c share: records of operations on names, and finding children. */
#ifndef PMEMFS_NAMEI_H
#define PMEMFS_NAMEI_H

#include "fs.h"

/* A REC_DIR that is being built. All removals come before all additions. */
struct dir_rec {
	struct pmemfs_dirup u;
	uint8_t data[2 * 8 + 2 * PMEMFS_DENTRY_SIZE(PMEMFS_NAME_MAX)]
	    __attribute__((aligned(8)));
	uint32_t len;
};

void dir_rec_begin(struct dir_rec *r, struct timespec now);
void dir_rec_del(struct dir_rec *r, const struct dent *e);
void dir_rec_add(struct dir_rec *r, const struct inode *dir, const char *name, uint64_t ino,
		 unsigned type);
void dir_rec_put(struct dir_rec *r, struct txn *t, struct inode *dir);

/* A REC_UPDATE that sets ctime and what the mask names: UP_NLINK, UP_PARENT. */
struct attr_rec {
	struct pmemfs_update u;
	le64 field[2];
};

void attr_rec_put(struct attr_rec *r, struct txn *t, struct inode *i, struct timespec now,
		  unsigned mask, uint32_t nlink, uint64_t parent);

/* -ENOENT for an empty name, -ENAMETOOLONG, -EINVAL for one with a slash. */
int name_check(const char *name);
bool name_is_dot(const char *name);

/* Opens and locks a directory; for writing only one that still has a name. */
int dir_open(struct pmemfs *fs, uint64_t ino, bool exclusive, struct inode **ret);
struct dent *dir_lookup(const struct inode *dir, const char *name);
/* States the directory's log anew where that is due. */
void dir_compact(struct pmemfs *fs, struct inode *d);

/* The inode that an entry names, with a reference. Under the directory's lock, as the next. */
int child_get(struct pmemfs *fs, const struct inode *dir, const struct dent *e,
	      struct inode **ret);
/* Takes the child's lock and checks that it is what the entry says: -EIO. */
int child_lock(struct pmemfs *fs, const struct inode *dir, const struct dent *e,
	       struct inode *i, bool exclusive);

/* A new inode in DRAM with a slot of its own, for a name in dir; used_inodes counts it. */
int new_inode(struct pmemfs *fs, const struct inode *dir, uint32_t mode,
	      const struct pmemfs_cred *cred, struct timespec now, struct inode **ret);
/* It was not committed. */
void drop_new_inode(struct pmemfs *fs, struct inode *i);

/*
 * Adds to t that one name of i goes: the last one frees it at once if nobody uses it, else
 * leaves an orphan, which its last user or recovery frees.
 */
void drop_name(struct pmemfs *fs, struct txn *t, struct inode *i, struct timespec now,
	       struct attr_rec *rec);
/* After the commit: a freed inode's slot and number can be used again. */
void name_dropped(struct pmemfs *fs, struct inode *i);

#endif
