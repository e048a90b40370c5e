/* SPDX-License-Identifier: BSD-3-Clause */
/* What the daemon may still do once it serves. */
#ifndef PMEMFS_FS_SANDBOX_H
#define PMEMFS_FS_SANDBOX_H

#include <stdbool.h>

/*
 * The calling thread, and what it makes later, keeps no capability but those in the list that
 * it has already; CAP_* of linux/capability.h, ended by -1. Reads /proc. 0 or -EPERM.
 */
int sandbox_keep_capabilities(const int *keep);

/*
 * For the whole process and for ever: no new privileges, and of the system calls only those in
 * the table of sandbox.c; uring: those of io_uring too. Any other one kills the process. 0;
 * -ENOSYS: the kernel has no seccomp filters, and only the first half was done; other negative
 * errnos: nothing is confined.
 */
int sandbox_enter(bool uring);

#endif
