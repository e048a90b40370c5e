/* SPDX-License-Identifier: BSD-3-Clause */
/* Says what a device or image holds that is not pmemfs (libblkid), for messages. */
#ifndef PMEMFS_IDENT_H
#define PMEMFS_IDENT_H

#include <stddef.h>

#include "media.h"

/*
 * Looks for filesystems, RAID and LVM members, encrypted volumes, swap areas and partition
 * tables. 1: found, ret says in words what ("a filesystem of type ext4, label \"data\"");
 * 0: nothing known; negative errno.
 */
int ident_find(struct media *m, char *ret, size_t size);

/* Zeroes every signature that ident_find finds, durably. */
int ident_wipe(struct media *m);

/* Copies a label for printing: control characters become '?'. */
void ident_printable(char *dst, size_t size, const char *src);

#endif
