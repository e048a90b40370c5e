/* SPDX-License-Identifier: BSD-3-Clause */
/* The FUSE face: requests of the kernel become calls of the library, and nothing more. */
#ifndef PMEMFS_FS_OPS_H
#define PMEMFS_FS_OPS_H

#include <fuse_lowlevel.h>
#include <stdbool.h>

#include "pmemfs.h"

#define OPS_MAX_WRITE	   (1u << 20)
#define OPS_MAX_BACKGROUND 256u

/* The user data of a session. */
struct ops {
	struct pmemfs *fs;	      /* set by the owner */
	struct fuse_session *session; /* for notifications; set by the owner */
	bool ready;		      /* the kernel was greeted */
	bool kill_priv;		      /* writes say when they must clear set-id bits */
	bool acl;		      /* no "noacl"; set by the owner */
	bool direct; /* O_DIRECT files bypass the page cache and remain mappable */
};

/*
 * Fills the table of handlers for a filesystem on that medium, which is to be set before any of
 * them runs but the one that greets the kernel. What is durable without them has no handler
 * (the kernel is told so once and never asks again): fsync and fsyncdir are there only on a
 * medium that needs them.
 */
void ops_init(struct ops *o, const struct media *m, struct fuse_lowlevel_ops *ret);

#endif
