/* SPDX-License-Identifier: BSD-3-Clause */
/* What a driver gives to view.c; private to view.c and drive_*.c. */
#ifndef PMEMFS_TESTS_DRIVE_H
#define PMEMFS_TESTS_DRIVE_H

#include <sys/types.h>

#include "view.h"

/* An object held for looking at it. */
struct node {
	uint64_t ino;
	int fd; /* drive_posix */
};

typedef void (*drive_emit)(void *arg, const char *name, uint64_t d_ino, uint8_t d_type);

/* Results as in the kernel's: 0, a count or a negative errno. */
struct driver_ops {
	const char *name;
	void (*apply)(struct driver *d, const struct op *op, struct op_result *res);
	void (*close_all)(struct driver *d);
	void (*free)(struct driver *d);

	int (*root)(struct driver *d, struct node *ret);
	int (*handle)(struct driver *d, int slot, struct node *ret); /* -EBADF: not in use */
	int (*look)(struct driver *d, const struct node *dir, const char *name,
		    struct node *ret);
	void (*drop)(struct driver *d, struct node *n);
	int (*attr)(struct driver *d, const struct node *n, struct view_inode *ret);
	int (*readdir)(struct driver *d, const struct node *n, drive_emit emit, void *arg);
	ssize_t (*readlink)(struct driver *d, const struct node *n, char *buf, size_t size);
	ssize_t (*listxattr)(struct driver *d, const struct node *n, char *buf, size_t size);
	ssize_t (*getxattr)(struct driver *d, const struct node *n, const char *name, void *buf,
			    size_t size);
	ssize_t (*read)(struct driver *d, const struct node *n, uint64_t off, void *buf,
			size_t size);
	int64_t (*seek)(struct driver *d, const struct node *n, uint64_t off, int whence);
	void (*statfs)(struct driver *d, struct view *v);
};

struct driver {
	const struct driver_ops *ops;
	uint8_t *buf; /* view.c: for reading files */
	size_t bufsize;
};

/* Last name of a path, and where it starts. */
static inline const char *drive_last(const char *path)
{
	const char *slash = __builtin_strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Sorts NUL-separated strings (OP_READDIR, OP_LISTXATTR); aborts without memory. */
void drive_sort_names(char *list, size_t len);

#endif
