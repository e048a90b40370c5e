/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One filesystem operation as a value: what the model, the drivers, the differential test and
 * the crash explorer pass around, print, replay and shrink.
 *
 * Objects are named by a path below the root ("d/a", no leading slash; "" is the root) or,
 *where fd is not OP_NOFD, by a handle slot that OP_OPEN or OP_TMPFILE filled. Symlinks are
 *never followed, in no place of a path. Bytes to be written come from (seed, len), see op_fill.
 *
 * An operation is one line of text: the kind, then key=value words. Bytes of names outside
 * 0x21-0x7e, and '%', are written %XX.
 *	write path=d/a off=4090 len=100 seed=7
 *	rename path=a to=d/b flags=exchange
 */
#ifndef PMEMFS_TESTS_OP_H
#define PMEMFS_TESTS_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define OP_PATH_MAX 1280
#define OP_FDS	    8
#define OP_NOFD	    (-1)
#define OP_LINE_MAX 8192 /* longest line of op_print, with its NUL */

enum op_kind {
	OP_NONE,
	OP_CREATE,	/* path, mode: a regular file; EEXIST as with O_EXCL */
	OP_MKDIR,	/* path, mode */
	OP_MKNOD,	/* path, mode with type (fifo, socket, devices), major, minor */
	OP_SYMLINK,	/* path, target: `to`, or len bytes made from seed */
	OP_LINK,	/* path or fd, to */
	OP_UNLINK,	/* path */
	OP_RMDIR,	/* path */
	OP_RENAME,	/* path, to, flags: 0, RENAME_NOREPLACE, RENAME_EXCHANGE, _WHITEOUT */
	OP_WRITE,	/* path or fd, off, len, seed: one pwrite */
	OP_APPEND,	/* path or fd, len, seed: one write with O_APPEND */
	OP_TRUNCATE,	/* path or fd, off is the new size */
	OP_FALLOCATE,	/* path or fd, flags is the mode, off, len */
	OP_CHMOD,	/* path or fd, mode: permission bits */
	OP_CHOWN,	/* path or fd, uid, gid; -1 leaves one alone */
	OP_UTIMENS,	/* path or fd, atime, mtime; tv_nsec may be UTIME_NOW or UTIME_OMIT */
	OP_SETXATTR,	/* path or fd, to is the name, value len bytes of seed, flags */
	OP_REMOVEXATTR, /* path or fd, to is the name */
	OP_OPEN,	/* path (regular file), fd: fills the slot; EBADF if it is in use */
	OP_CLOSE,	/* fd */
	OP_TMPFILE,	/* path is a directory, mode, fd: fills the slot */
	/* what only looks */
	OP_READ,      /* path or fd, off, len; result: the bytes */
	OP_SEEK,      /* path or fd, off, flags: SEEK_DATA or SEEK_HOLE; result: the offset */
	OP_GETXATTR,  /* path or fd, to is the name, len is the buffer's size; result: value */
	OP_LISTXATTR, /* path or fd; result: the names sorted, each with its NUL */
	OP_READLINK,  /* path; result: the target */
	OP_READDIR,   /* path; result: names sorted, each with its NUL, "." and ".." left out */
	OP_STAT,      /* path or fd; 0 or ENOENT and the like */
	/* the whole filesystem */
	OP_SYNC,
	OP_REMOUNT, /* unmount and mount: every handle is closed first */
	OP_CRASH,   /* abandon and mount: handles are gone, so are the files only they held */
	OP_KINDS
};

struct op {
	enum op_kind kind;
	int fd; /* OP_NOFD: path names the object */
	uint32_t mode;
	uint32_t flags;
	int64_t uid, gid; /* makers: the owner of what is made (POSIX drivers: only 0, 0) */
	uint32_t major, minor;
	uint64_t off, len, seed;
	struct timespec atime, mtime;
	char path[OP_PATH_MAX];
	char to[OP_PATH_MAX];
};

/* What an operation answered: 0, a count or offset, or a negative errno; and bytes (malloc). */
struct op_result {
	int64_t ret;
	uint8_t *data;
	size_t len;
};
/* Sets ret, and data to a copy of the bytes (NULL: none). */
void op_result_set(struct op_result *r, int64_t ret, const void *data, size_t len);
void op_result_clear(struct op_result *r);
/* True if equal; otherwise says in why how they differ. */
bool op_result_equal(const struct op_result *want, const struct op_result *got, char *why,
		     size_t whylen);

/* Empty operation of that kind: no handle, zeros. */
void op_init(struct op *op, enum op_kind kind);
const char *op_name(enum op_kind kind);
/* True for what may change the tree (not for OP_OPEN, OP_CLOSE, lookers, OP_REMOUNT). */
bool op_changes(enum op_kind kind);

/*
 * The len bytes that seed stands for; byte i depends on seed and i only. No byte is zero,
 * except that seed 0 stands for zeros.
 */
void op_fill(uint64_t seed, void *buf, size_t len);
/*
 * The value of an OP_SETXATTR: op_fill, or for these two names, where len is that of 3 to 12
 * entries, a list that is well-formed: for 4, one with a mask, for more, with users and groups.
 */
#define OP_ACL_ACCESS  "system.posix_acl_access"
#define OP_ACL_DEFAULT "system.posix_acl_default"
#define OP_ACL_MIN     (4 + 8 * 3)
#define OP_ACL_MAX     (4 + 8 * 12)
bool op_is_acl(const char *name);
void op_value(const struct op *op, void *buf);
/* The target of an OP_SYMLINK: writes at most size bytes and no NUL, returns its length. */
size_t op_target(const struct op *op, char *buf, size_t size);

/* One line without a newline. Returns its length; truncates never if size is OP_LINE_MAX. */
size_t op_print(const struct op *op, char *buf, size_t size);
/* Parses one line; 0 or -EINVAL. Empty lines and lines with '#' in front give OP_NONE. */
int op_parse(const char *line, struct op *ret);

/* ---- random operations --------------------------------------------------------------------
 */

struct op_rng {
	uint64_t s;
};
uint64_t op_rng_next(struct op_rng *r);
/* 0 <= result < n, n > 0 */
uint64_t op_rng_below(struct op_rng *r, uint64_t n);
/* True once in n times. */
bool op_rng_one_in(struct op_rng *r, uint64_t n);

struct op_profile {
	unsigned weight[OP_KINDS];
	unsigned depth;	     /* deepest directory */
	unsigned names;	     /* how many short names there are */
	unsigned invalid;    /* per mille of deliberately wrong operations */
	unsigned odd_names;  /* per mille of new names that are long, odd or colliding */
	unsigned sparse;     /* per mille of offsets beyond 1 TiB */
	uint64_t file_size;  /* ordinary offsets stay below */
	uint64_t write_size; /* longest write */
	bool trusted;	     /* trusted. and security. xattrs, device nodes: needs root */
};
extern const struct op_profile op_profile_default;

struct model;
/* A random operation, mostly one that can succeed on the model as it is. */
void op_random(struct op_rng *r, const struct model *m, const struct op_profile *p,
	       struct op *ret);

#endif
