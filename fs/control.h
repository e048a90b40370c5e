/* SPDX-License-Identifier: BSD-3-Clause */
/* What the mount command tells the daemon of a mounted filesystem: ioctls on its root. */
#ifndef PMEMFS_FS_CONTROL_H
#define PMEMFS_FS_CONTROL_H

#include <stdint.h>
#include <sys/ioctl.h>

/*
 * mount -o remount: stop (1) or start (0) writing to the medium. Root only. EROFS: the medium
 * or damage forbid it.
 */
#define PMEMFS_IOC_SET_READONLY _IOW(0xf2, 1, uint32_t)

#endif
