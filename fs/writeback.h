/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's writeback cache. */
#ifndef PMEMFS_FS_WRITEBACK_H
#define PMEMFS_FS_WRITEBACK_H

#include <fuse_lowlevel.h>

/* Changes the handlers to it. */
void writeback_add(struct fuse_lowlevel_ops *handlers);

#endif
