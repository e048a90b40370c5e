/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference model: a POSIX filesystem in memory, written from the standard and the Linux
 * manual pages alone. It shares no code with lib/, and is what results, trees, contents and
 * attributes of pmemfs are compared with.
 *
 * Space has no end in the model: whoever drives it and sees -ENOSPC leaves the operation out of
 * the model (a failed operation changes nothing) and may compare all the same.
 *
 * Times. A time of the model is a set of allowed values:
 *	exact	one known value: set by utimens, or learned
 *	now	the operation set it to the clock: anything from the clock as model_clock last
 *		said to the moment the view was taken
 *	maybe	either of both: where POSIX or Linux leave it to the filesystem (ctime of what
 *is renamed, m/ctime of a truncate to the same size, see struct model_options) model_learn
 *takes the values of a view that compared equal as exact ones, so that from then on a time that
 *changes without an operation that may change it is a difference. Use one model for each
 *filesystem under test.
 *
 * Directory sizes are not compared. Blocks: a regular file has those 4 KiB blocks that were
 * written or fallocated and not truncated or punched away (MODEL_CMP_BLOCKS).
 *
 * A model and its clones share pages and inodes with plain counters: one thread.
 */
#ifndef PMEMFS_TESTS_MODEL_H
#define PMEMFS_TESTS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "op.h"
#include "view.h"

struct model;

struct model_options {
	uint32_t root_mode, root_uid, root_gid; /* mode 0: 0755 */
	bool loose_fallocate_times;		/* fallocate: m/ctime maybe (tmpfs) */
	bool loose_atime;			/* reads, readlink, readdir: atime maybe */
	uint64_t file_max;			/* EFBIG beyond; 0: 2^56 */
	uint64_t link_max;			/* EMLINK beyond; 0: 0x7fffffff */
};

struct model *model_new(const struct model_options *o); /* NULL: defaults */
/* A copy that changes independently; costs one pointer an inode. */
struct model *model_clone(const struct model *m);
void model_free(struct model *m);

/*
 * The clock before the next operation: the lower bound of "now". Unset: no lower bound. It is
 * the coarse one where a kernel answers, whose filesystems read that one; it lags behind the
 * other by a tick, and by more when the processor that counts the ticks is held up.
 */
void model_clock(struct model *m, const struct timespec *now);

/*
 * Does the operation; returns 0, a count or an offset, or a negative errno and no change. res
 * may be NULL; otherwise it is filled with the same and the bytes (clear it afterwards).
 */
int64_t model_apply(struct model *m, const struct op *op, struct op_result *res);

/*
 * Whether ret is a correct answer to that OP_SEEK even if it is not the model's: a filesystem
 * may take unwritten (fallocated) blocks for data or for holes. Before the operation is
 * applied.
 */
bool model_seek_ok(const struct model *m, const struct op *op, int64_t ret);

#define MODEL_CMP_BLOCKS   0x1u /* st_blocks of regular files */
#define MODEL_CMP_NO_TIMES 0x2u
#define MODEL_CMP_NO_ATIME 0x4u
#define MODEL_CMP_NO_DATA  0x8u /* the view was taken with no_data */
/*
 * True if the view is what the model says. Otherwise why is a line for people that begins with
 * the path. Inode numbers must be one to one with the model's objects (hard links!).
 */
bool model_compare(const struct model *m, const struct view *v, unsigned flags, char *why,
		   size_t whylen);
/* The same for one object, v from drive_view_one; also true if both have no such object. */
bool model_compare_one(const struct model *m, const char *path, int fd, const struct view *v,
		       unsigned flags, char *why, size_t whylen);
/* After a comparison that held: all times become exact. */
void model_learn(struct model *m, const struct view *v);
void model_learn_one(struct model *m, const char *path, int fd, const struct view *v);

/* ---- looking into it --------------------------------------------------------------------- */

struct model_attr {
	uint64_t id; /* the same for all names of one object, never reused */
	uint32_t mode, uid, gid, nlink;
	uint64_t size;
	uint64_t blocks; /* of 512 bytes */
};
/* 0 or -ENOENT, -ENOTDIR, -ENAMETOOLONG; fd if not OP_NOFD: -EBADF. */
int model_stat(const struct model *m, const char *path, int fd, struct model_attr *ret);
/* Each name, directories before their entries, the root as "". Stops when fn returns non-zero.
 */
int model_walk(const struct model *m,
	       int (*fn)(void *arg, const char *path, const struct model_attr *a), void *arg);
/* Objects that have a name, the root included. */
size_t model_count(const struct model *m);
/*
 * A random path of an object whose type (S_IFREG ...; 0: any but the root) fits; false if there
 * is none.
 */
bool model_pick(const struct model *m, struct op_rng *r, uint32_t type, char path[OP_PATH_MAX]);
/* True if the slot is in use. */
bool model_fd_used(const struct model *m, int fd);
/* Lower-level equality of two models, times left out. */
bool model_equal(const struct model *a, const struct model *b);
void model_print(const struct model *m, FILE *out);

#endif
