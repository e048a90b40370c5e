/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of mkfs.pmemfs. */
#ifndef PMEMFS_MKFS_OPTIONS_H
#define PMEMFS_MKFS_OPTIONS_H

#include "pmemfs.h"

struct mkfs_options {
	const char *path;
	struct pmemfs_format_options format; /* size: what --size said */
	bool dry, quiet, force, no_calibrate;
};

/* 0: go on; otherwise the exit code is *ret_code: help or version was asked for, or an error.
 */
int mkfs_options_parse(int argc, char **argv, struct mkfs_options *ret, int *ret_code);

/* "1.5 GiB": exact or with one decimal. */
const char *mkfs_size_words(uint64_t bytes, char *buf, size_t size);

#endif
