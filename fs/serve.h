/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of one mount, from opening the medium to its clean end. */
#ifndef PMEMFS_FS_SERVE_H
#define PMEMFS_FS_SERVE_H

#include "options.h"

struct serve_args {
	const struct mount_options *options;
	const char *device; /* absolute */
	const char *source; /* what the mount table is to show */
	const char *dir;    /* absolute, a directory */
	bool verbose;
};

/* Mounts, serves until unmounted or told to stop, unmounts. Returns the exit code. */
int serve(const struct serve_args *args);

#endif
