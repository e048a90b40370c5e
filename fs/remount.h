/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PMEMFS_FS_REMOUNT_H
#define PMEMFS_FS_REMOUNT_H

#include "options.h"

/* Changes the options of what is mounted on dir. Returns the exit code. */
int remount(const char *dir, const struct mount_options *options);

#endif
