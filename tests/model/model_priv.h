/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the model: shared by model*.c, and by nothing else. */
#ifndef PMEMFS_TESTS_MODEL_PRIV_H
#define PMEMFS_TESTS_MODEL_PRIV_H

#include "model.h"

#define M_BLOCK	   4096u
#define M_NAME_MAX 255u

/* What a time may be. */
#define T_EXACT 0x1u
#define T_NOW	0x2u
struct mtime {
	struct timespec exact; /* T_EXACT */
	struct timespec lo;    /* T_NOW: not before */
	unsigned may;
};
enum { ATIME, MTIME, CTIME, BTIME, TIMES };

struct page {
	unsigned refs;
	uint8_t b[M_BLOCK];
};

/* Allocated blocks [start, start + count). A page: one written block; none: unwritten. */
struct seg {
	uint64_t start, count;
	struct page *page;
};

struct mdent {
	char *name;
	uint64_t id;
};

struct mxattr {
	char *name;
	uint8_t *value;
	size_t len;
};

struct minode {
	unsigned refs; /* models that share it; changed only while 1 */
	uint64_t id;
	uint32_t mode, uid, gid, nlink; /* nlink of directories: 2 + directories in it */
	uint32_t major, minor;
	bool linkable; /* from O_TMPFILE and never named */
	uint64_t size;
	uint64_t parent; /* directories */
	struct mtime t[TIMES];
	struct seg *segs;
	size_t n_segs, cap_segs;
	char *target;
	size_t targetlen;
	struct mxattr *xattrs; /* sorted */
	size_t n_xattrs;
	struct mdent *dents; /* sorted */
	size_t n_dents;
};

struct model {
	struct model_options o;
	struct timespec clock;
	struct minode **inodes; /* by id; NULL: gone; [0] is never used, [1] is the root */
	size_t n_inodes, cap_inodes;
	uint64_t handle[OP_FDS]; /* id, 0: unused */
};
#define M_ROOT 1u

void *m_alloc(size_t n);		      /* zeroed; aborts when there is none */
void *m_grow(void *p, size_t n, size_t size); /* realloc that aborts */
char *m_strdup(const char *s);

const struct minode *m_get(const struct model *m, uint64_t id);
/* The inode for changing it: private to this model. */
struct minode *m_mut(struct model *m, uint64_t id);
struct minode *m_new_inode(struct model *m, uint32_t mode, uint32_t uid, uint32_t gid);
/* Frees it if neither name nor handle is left. */
void m_drop_if_dead(struct model *m, uint64_t id);

void m_now(struct model *m, struct minode *i, int which);
void m_maybe(struct model *m, struct minode *i, int which);

/* Path to id: 0 or -ENOENT, -ENOTDIR, -ENAMETOOLONG. */
int m_walk(const struct model *m, const char *path, uint64_t *ret);
/* The object of an operation: its path or its handle. */
int m_object(const struct model *m, const struct op *op, uint64_t *ret);
/* Directory and last name. The directory exists; *ret_id is 0 if the name does not. */
int m_parent(const struct model *m, const char *path, uint64_t *ret_dir, const char **ret_name,
	     uint64_t *ret_id);
/* Index of the name, or where it belongs. */
bool m_find(const struct minode *d, const char *name, size_t *ret);
bool m_find_xattr(const struct minode *i, const char *name, size_t *ret);

/* model_name.c: operations on names */
int64_t m_make(struct model *m, const struct op *op);
int64_t m_link(struct model *m, const struct op *op);
int64_t m_remove(struct model *m, const struct op *op);
int64_t m_rename(struct model *m, const struct op *op);
int64_t m_open(struct model *m, const struct op *op);
int64_t m_close(struct model *m, int fd);

/* model_file.c: contents */
int64_t m_write(struct model *m, const struct op *op);
int64_t m_truncate(struct model *m, const struct op *op);
int64_t m_fallocate(struct model *m, const struct op *op);
int64_t m_seek(const struct model *m, const struct op *op);
int64_t m_read(struct model *m, const struct op *op, struct op_result *res);
uint64_t m_blocks(const struct minode *i); /* allocated, of 4096 bytes */
/* First segment that ends after the block. */
size_t m_seg_at(const struct minode *i, uint64_t block);

/* model_attr.c: attributes */
int64_t m_setattr(struct model *m, const struct op *op);
int64_t m_setxattr(struct model *m, const struct op *op);
int64_t m_removexattr(struct model *m, const struct op *op);
int64_t m_getxattr(const struct model *m, const struct op *op, struct op_result *res);
int64_t m_listxattr(const struct model *m, const struct op *op, struct op_result *res);

/* model_acl.c: access control lists. The inode is one that may be changed. */
int64_t m_acl_set(struct minode *i, const struct op *op);
/* Its mode was changed. */
void m_acl_chmod(struct minode *i);
/* It was made in that directory. */
void m_acl_inherit(const struct minode *d, struct minode *i);

#endif
