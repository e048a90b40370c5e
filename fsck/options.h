/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of fsck.pmemfs. */
#ifndef PMEMFS_FSCK_OPTIONS_H
#define PMEMFS_FSCK_OPTIONS_H

#include "pmemfs.h"

/* Exit codes of fsck(8); bits. */
enum {
	FSCK_OK = 0,
	FSCK_FIXED = 1,
	FSCK_UNCORRECTED = 4,
	FSCK_ERROR = 8,
	FSCK_USAGE = 16,
	FSCK_CANCELED = 32,
};

struct fsck_options {
	const char *path;
	enum pmemfs_fix fix;
	bool mode_given; /* -n, -y, -p or -a */
	bool force, bad_blocks, verbose;
	int progress_fd;    /* -1: not given; 0: a bar */
	const char *backup; /* -b: the undo file to make; NULL: none */
	const char *undo;   /* --undo: the one to put back */
};

/* 0: go on; otherwise *ret_code is the exit code. */
int fsck_options_parse(int argc, char **argv, struct fsck_options *ret, int *ret_code);

#endif
