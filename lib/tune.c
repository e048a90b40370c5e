/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calibration table of a filesystem: measuring it, keeping it in the superblock, using it.
 *
 * 1. A table counts only on the model of CPU it was measured on, and only as a whole. Nothing
 *    that a table says can make a store less durable: media_set_table sees to it.
 * 2. Measuring overwrites free blocks of a filesystem that is clean and not mounted, the saved
 *    free list among them. So the superblock loses its clean mark before. Crash from there on:
 *    the next mount finds the free space by a scan, as after any crash. When all is done,
 * table, new list and mark come with one superblock.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "calibrate.h"
#include "cpu.h"
#include "fs.h"

#define SCRATCH_MAX (64u << 20)
#define SCRATCH_MIN (1u << 20)
#define BUDGET_NS   1000000000ull

_Static_assert(PMEMFS_CAL_CLASSES == MEDIA_CLASSES && PMEMFS_CAL_WRITERS == MEDIA_WRITERS,
	       "the table on the medium is the media layer's");

/* ---- using ---- */

int tune_apply(struct media *m, const struct pmemfs_super *sb)
{
	const struct pmemfs_calibration *c = &sb->calibration;
	struct media_table t;

	media_set_table(m, NULL);
	if (get32(c->valid) != 1)
		return -ENOENT;
	if (get32(c->cpu_model) != cpu_model())
		return -EXDEV;
	memcpy(t.copy, c->copy, sizeof(t.copy));
	memcpy(t.clear, c->clear, sizeof(t.clear));
	return media_set_table(m, &t);
}

int pmemfs_use_calibration(struct media *m)
{
	struct pmemfs_super sb;
	const char *why;
	int err = super_read(m, &sb, NULL, &why);

	return err ? err : tune_apply(m, &sb);
}

/* ---- measuring ---- */

/* The largest free run, up to SCRATCH_MAX. Nothing on the medium says that it is taken. */
static int take_scratch(struct pmemfs *fs, uint64_t *ret_block, uint64_t *ret_blocks)
{
	uint64_t n = SCRATCH_MAX / PMEMFS_BLOCK_SIZE;
	int err = -ENOSPC;

	for (; err && n >= SCRATCH_MIN / PMEMFS_BLOCK_SIZE; n /= 2) {
		err = alloc_contig(fs, n, ALLOC_RESERVE, ret_block);
		*ret_blocks = n;
	}
	return err;
}

/* What was a hole in an image file is one again. Free space need not be zero: best effort. */
static void give_back(struct media *m, uint64_t off, uint64_t len)
{
	struct stat st;

	if (media_fd(m) >= 0 && !fstat(media_fd(m), &st) && S_ISREG(st.st_mode))
		fallocate(media_fd(m), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
			  (off_t)len);
}

static int measure(struct pmemfs *fs, const struct pmemfs_calibrate_options *o,
		   struct calibrate_result *ret, const char **ret_why)
{
	struct calibrate_options c = {
	    .budget_ns = o->budget_ns ? o->budget_ns : BUDGET_NS,
	    .progress = o->progress,
	    .progress_arg = o->arg,
	};
	uint64_t block, n;
	int err = take_scratch(fs, &block, &n);

	*ret_why = "has not 1 MiB of free space in one piece to measure in";
	if (err)
		return err;
	c.off = block * PMEMFS_BLOCK_SIZE;
	c.len = n * PMEMFS_BLOCK_SIZE;
	*ret_why = "cannot be measured: its free space cannot be written to";
	err = calibrate(fs->media, &c, ret);
	give_back(fs->media, c.off, c.len);
	free_blocks(fs, block, n);
	return err;
}

static void put_table(struct pmemfs_super *sb, const struct media_table *t)
{
	struct pmemfs_calibration *c = &sb->calibration;

	c->valid = put32(1);
	c->cpu_model = put32(cpu_model());
	c->when = put64(fs_now().tv_sec);
	memcpy(c->copy, t->copy, sizeof(c->copy));
	memcpy(c->clear, t->clear, sizeof(c->clear));
}

/* From here on a crash is one: the saved list is not to be believed. */
static int begin(struct pmemfs *fs, const char **ret_why)
{
	fs->sb.state = put32(get32(fs->sb.state) & ~PMEMFS_STATE_CLEAN);
	fs->sb.saved_list = put64(0);
	*ret_why = "cannot be written: the medium failed";
	return super_write(fs->media, &fs->sb);
}

/* Clean again, with the free list anew and what was measured. */
static int end(struct pmemfs *fs, const char **ret_why)
{
	int err = saved_write(fs);

	fs->sb.state = put32(get32(fs->sb.state) | PMEMFS_STATE_CLEAN);
	if (!err)
		err = parity_flush(fs);
	if (!err)
		err = super_write(fs->media, &fs->sb);
	if (!err)
		err = media_sync(fs->media);
	*ret_why = "cannot be written: the medium failed";
	return err;
}

/* The filesystem, with its free space and nothing else. */
static int open_clean(struct media *m, struct pmemfs **ret, const char **ret_why)
{
	static const struct pmemfs_options options;
	struct pmemfs_super sb;
	struct pmemfs *fs;
	int err = super_read(m, &sb, NULL, ret_why);

	if (err)
		return err;
	*ret_why = "has features that allow only reading: use a newer pmemfs";
	if (get64(sb.ro_compat) & ~PMEMFS_ROCOMPAT_KNOWN)
		return -EPROTONOSUPPORT;
	*ret_why = "was found to have errors: run fsck.pmemfs";
	if (get32(sb.state) & PMEMFS_STATE_ERROR)
		return -EIO;
	fs = fs_new(m, &sb, &options);
	*ret_why = "has no valid list of free space: mount it once";
	err = fs->was_clean ? saved_read(fs) : -EUCLEAN;
	if (err)
		fs_delete(fs);
	else
		*ret = fs;
	return err;
}

/* After a crash, or where the list is not valid: what a mount does about it. */
static int make_clean(struct media *m, const char **ret_why)
{
	struct pmemfs *fs;
	int err = pmemfs_mount(m, NULL, &fs, ret_why);

	if (err)
		return err;
	*ret_why = "cannot be written: the medium failed";
	return pmemfs_unmount(fs);
}

/* Opens it, after a mount if need be. */
static int open_or_clean(struct media *m, struct pmemfs **ret, const char **ret_why)
{
	int err;

	*ret_why = "is read-only";
	if (media_readonly(m))
		return -EROFS;
	err = open_clean(m, ret, ret_why);
	if (err == -EUCLEAN)
		err = make_clean(m, ret_why);
	else
		return err;
	return err ? err : open_clean(m, ret, ret_why);
}

int pmemfs_calibrate(struct media *m, const struct pmemfs_calibrate_options *o,
		     struct calibrate_result *ret, const char **ret_why)
{
	struct calibrate_result *result = xcalloc(1, sizeof(*result));
	struct pmemfs *fs = NULL;
	const char *why;
	int ended, err = open_or_clean(m, &fs, ret_why);

	if (!err)
		err = begin(fs, ret_why);
	if (!err) {
		err = measure(fs, o, result, ret_why);
		if (!err)
			put_table(&fs->sb, &result->table);
		ended = end(fs, &why);
		if (!err && ended) {
			err = ended;
			*ret_why = why;
		}
	}
	if (fs)
		fs_delete(fs);
	if (!err)
		media_set_table(m, &result->table);
	if (!err && ret)
		*ret = *result;
	free(result);
	return err;
}
