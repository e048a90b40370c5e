/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fsck.pmemfs: checks a filesystem that is not mounted, by pmemfs_check, and says what it
 * found.
 *
 * With -n, and where questions could not be asked, the medium is opened for reading only and
 * what the journal holds is replayed on private copies. Everything else may be interrupted at
 * any instant: repairs are transactions.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ident.h"
#include "talk.h"
#include "undo.h"

static int fail(const char *path, const char *why)
{
	fprintf(stderr, "fsck.pmemfs: %s: %s\n", path, why);
	return FSCK_ERROR;
}

static void on_signal(int sig)
{
	static const char text[] = "\nfsck.pmemfs: canceled\n";

	(void)sig;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(FSCK_CANCELED | FSCK_ERROR);
	_exit(FSCK_CANCELED);
}

/* No pmemfs there; if it is something else that is known, name it. */
static int not_pmemfs(const char *path, struct media *m, const char *why)
{
	char what[192], text[256];

	if (ident_find(m, what, sizeof(what)) <= 0)
		return fail(path, why);
	snprintf(text, sizeof(text), "holds %s, no pmemfs: use the fsck of that", what);
	return fail(path, text);
}

static void print_counts(const struct fsck_options *o, const struct pmemfs_info *info,
			 const struct pmemfs_check_result *res)
{
	uint64_t blocks = info->size / 4096;
	uint64_t inodes =
	    res->checked ? res->files + res->dirs + res->others : info->used_inodes;
	/* Inodes come out of the free space, eight to a block. */
	uint64_t room = inodes + res->free_blocks * 8;

	printf("%s: %s%" PRIu64 "/%" PRIu64 " files, %" PRIu64 "/%" PRIu64 " blocks\n", o->path,
	       res->checked ? "" : "clean, ", inodes, room, res->used_blocks, blocks);
	if (!o->verbose || !res->checked)
		return;
	printf("%12" PRIu64 " regular files\n%12" PRIu64 " directories\n%12" PRIu64
	       " symlinks, devices, fifos and sockets\n%12" PRIu64
	       " blocks used (%.2f%%)\n%12" PRIu64 " blocks free\n",
	       res->files, res->dirs, res->others, res->used_blocks,
	       blocks ? 100.0 * (double)res->used_blocks / (double)blocks : 0.0,
	       res->free_blocks);
}

static int conclude(const struct fsck_options *o, const struct pmemfs_info *info,
		    const struct pmemfs_check_result *res)
{
	bool left = res->problems > res->fixed;

	if (res->fixed && o->fix != PMEMFS_FIX_SAFE)
		printf("\n%s: ***** FILE SYSTEM WAS MODIFIED *****\n", o->path);
	if (left && o->fix == PMEMFS_FIX_SAFE)
		printf("%s: ERRORS ARE LEFT; RUN fsck.pmemfs MANUALLY (without -p or -a)\n",
		       o->path);
	else if (left)
		printf("\n%s: ********** WARNING: Filesystem still has errors **********\n",
		       o->path);
	if (left && !o->mode_given && o->fix == PMEMFS_FIX_NONE)
		printf("%s: there is no terminal to ask on, so nothing was repaired: use -y or "
		       "-p\n",
		       o->path);
	print_counts(o, info, res);
	if (left)
		return FSCK_UNCORRECTED;
	return res->fixed ? FSCK_FIXED : FSCK_OK;
}

static int check(const struct fsck_options *o, struct media *m, const struct pmemfs_info *info)
{
	struct talk talk;
	struct pmemfs_check_result res;
	struct pmemfs_check_options options = {
	    .fix = o->fix,
	    .force = o->force,
	    .bad_blocks = o->bad_blocks,
	    .problem = talk_problem,
	    .progress = talk_progress,
	    .arg = &talk,
	};
	int r;

	talk_init(&talk, o);
	r = pmemfs_check(m, &options, &res);
	talk_done(&talk);
	if (r == -EUCLEAN)
		return fail(o->path, "has no usable superblock");
	if (r)
		return fail(o->path, r == -EIO ? "the medium failed: save what can be read"
					       : strerror(-r));
	r = media_sync(m);
	if (r)
		return fail(o->path, strerror(-r));
	return conclude(o, info, &res);
}

static int put_back(const struct fsck_options *o)
{
	struct media *m = NULL;
	const char *why = "";
	uint64_t lines;
	int r = media_open(o->path, MEDIA_WAIT, &m, &why);

	if (r)
		return fail(o->path, why);
	r = undo_apply(o->undo, m, &lines);
	media_close(m);
	if (r == -EINVAL)
		return fail(o->undo, "is no undo file");
	if (r == -EXDEV)
		return fail(o->undo, "is of another filesystem");
	if (r)
		return fail(o->undo, strerror(-r));
	printf("%s: %" PRIu64 " lines of 64 bytes are what they were before the repair\n",
	       o->path, lines);
	return FSCK_FIXED;
}

/* Saves what is going to be changed, if that was asked for. */
static int begin_backup(const struct fsck_options *o, struct media *m,
			const struct pmemfs_info *info)
{
	int r;

	if (!o->backup || o->fix == PMEMFS_FIX_NONE)
		return FSCK_OK;
	r = undo_begin(o->backup, m, info);
	return r ? fail(o->backup, r == -EEXIST ? "exists: name a new file" : strerror(-r))
		 : FSCK_OK;
}

static int run(const struct fsck_options *o)
{
	struct media *m = NULL;
	struct pmemfs_info info = {0};
	const char *why = "";
	int code, r;

	r = media_open(o->path, MEDIA_WAIT | (o->fix == PMEMFS_FIX_NONE ? MEDIA_SHADOW : 0), &m,
		       &why);
	if (r)
		return fail(o->path, why);
	r = pmemfs_probe(m, &info, &why);
	if (r == -EINVAL)
		code = not_pmemfs(o->path, m, why);
	else if (r)
		code = fail(o->path, why);
	else if (!(code = begin_backup(o, m, &info)))
		code = check(o, m, &info);
	media_close(m);
	return code;
}

int main(int argc, char **argv)
{
	struct fsck_options o;
	int code;

	if (fsck_options_parse(argc, argv, &o, &code))
		return code;
	/* Without anybody to ask, look only. */
	if (!o.mode_given && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
		o.fix = PMEMFS_FIX_NONE;
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	code = o.undo ? put_back(&o) : run(&o);
	if (fflush(stdout))
		code |= FSCK_ERROR;
	return code;
}
