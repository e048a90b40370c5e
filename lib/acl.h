/* SPDX-License-Identifier: BSD-3-Clause */
/* POSIX access control lists: their meaning. Permissions are checked by the kernel. */
#ifndef PMEMFS_ACL_H
#define PMEMFS_ACL_H

#include "fs.h"

#define ACL_ACCESS  "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"

bool acl_is_access(const char *name);
bool acl_is_name(const char *name);
/* Is this a list, well-formed? -EINVAL, -EOPNOTSUPP: another version. */
int acl_check(const void *acl, size_t size);
/* The nine bits that a list gives a mode. */
uint32_t acl_mode(const void *acl, size_t size);
/* Does it say nothing that a mode could not? */
bool acl_is_mode(const void *acl, size_t size);
/* Writes the mode's bits over the entries that they stand for. */
void acl_fill(void *acl, size_t size, uint32_t mode);
/* A new inode, not yet on the medium: what it gets from its directory's list, or the umask. */
void acl_inherit(const struct inode *dir, struct inode *i, uint32_t umask);

#endif
