/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by drive_core.c and drive_core_look.c. */
#ifndef PMEMFS_TESTS_DRIVE_CORE_H
#define PMEMFS_TESTS_DRIVE_CORE_H

#include <string.h>

#include "drive.h"
#include "pmemfs.h"

struct core {
	struct driver d;
	struct pmemfs *fs;
	uint64_t handle[OP_FDS]; /* inode, one reference each; 0: not in use */
};

struct entry {
	char name[256];
	uint64_t ino;
	uint8_t type;
	uint64_t cookie;
};

struct listing {
	struct entry *e;
	size_t n;
	size_t room; /* entries until emit says stop; 0: never */
};

static inline struct core *core_of(struct driver *d)
{
	return (struct core *)d;
}

/* Gives back what a lookup gave. */
static inline void core_put(struct core *c, uint64_t ino)
{
	if (ino != 1)
		pmemfs_forget(c->fs, ino, 1);
}

static inline bool core_is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

/* drive_core.c */
void core_apply(struct driver *d, const struct op *op, struct op_result *res);
int64_t core_close(struct core *c, int fd);

/* drive_core_look.c: done both ways, -EILSEQ if they disagree */
int64_t core_read_both(struct core *c, uint64_t ino, uint64_t off, void *buf, size_t size);
/* Lists plain and at once, and plus in pieces of three. The caller frees ret->e. */
int core_list(struct core *c, uint64_t dir, struct listing *ret);

#endif
