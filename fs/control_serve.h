/* SPDX-License-Identifier: BSD-3-Clause */
/* Answering what control.h asks for. There is one mount in a process. */
#ifndef PMEMFS_FS_CONTROL_SERVE_H
#define PMEMFS_FS_CONTROL_SERVE_H

#include <fuse_lowlevel.h>

#include "transport.h"

/* Puts itself in front of the handler of ioctls. */
void control_add(struct fuse_lowlevel_ops *handlers);

/* Whose threads count; before requests are served. name: what runs, in a word. */
void control_set_transport(struct transport *t, const char *name);

#endif
