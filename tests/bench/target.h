/* SPDX-License-Identifier: BSD-3-Clause */
/* Files on pmemfs to be written to: in this process, or through a mount. */
#ifndef PMEMFS_BENCH_TARGET_H
#define PMEMFS_BENCH_TARGET_H

#include <sys/types.h>

#include "bench.h"

struct pmemfs;
struct target {
	struct bench *b;
	bool mounted;
	struct pmemfs *fs; /* in this process */
	char *dir;	   /* the mount point */
};

struct target_file {
	uint64_t ino; /* in this process */
	int fd;	      /* on the mount */
};

/* What is compared: flush= and a column's name. */
struct variant {
	const char *name, *flush;
};
#define VARIANTS 4
/* movnti, the best cached kernel, the starting rule, auto. */
extern struct variant variants[VARIANTS];
void variants_find(struct bench *b);

/* Mounts b's medium with flush=; only one at a time. */
void target_begin(struct target *t, struct bench *b, bool mounted, const char *flush);
void target_end(struct target *t);

/* Makes a file in the root directory; direct: O_DIRECT where there is a kernel. */
struct target_file target_make(struct target *t, const char *name, bool direct);
void target_write(struct target *t, const struct target_file *f, uint64_t off, const void *buf,
		  size_t len);
void target_done(struct target *t, struct target_file *f);
void target_unlink(struct target *t, const char *name);

#endif
