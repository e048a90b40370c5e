/* SPDX-License-Identifier: BSD-3-Clause */
/* Answering what control.h asks for. There is one mount in a process. */
#ifndef PMEMFS_FS_CONTROL_SERVE_H
#define PMEMFS_FS_CONTROL_SERVE_H

#include <fuse_lowlevel.h>
#include <stdbool.h>

#include "transport.h"

/* Puts itself in front of the handler of ioctls. */
void control_add(struct fuse_lowlevel_ops *handlers);

/* control_quota.c: what pmemfs quota asks for. False, without a reply: not one of these. */
bool control_quota(fuse_req_t req, unsigned cmd, const void *in, size_t in_size,
		   size_t out_size);

/* Whose threads count; before requests are served. name: what runs, in a word. */
void control_set_transport(struct transport *t, const char *name);

#endif
