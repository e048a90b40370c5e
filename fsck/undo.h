/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The undo file: what stood in every line of the medium before fsck changed it, so that the
 * medium can be made again what it was.
 */
#ifndef PMEMFS_FSCK_UNDO_H
#define PMEMFS_FSCK_UNDO_H

#include "media.h"
#include "pmemfs.h"

/*
 * From now on each line is saved to the new file `path`, durably, before it is first stored to;
 * a line that cannot be saved is not stored to, and the store fails. One at a time; until the
 * end of the process. 0, or negative errno: -EEXIST: there is such a file.
 */
int undo_begin(const char *path, struct media *m, const struct pmemfs_info *info);

/*
 * Puts back what the file holds, durably; may be cut short and begun again. *ret_lines: how
 * many lines of 64 bytes. -EINVAL: it is no undo file; -EXDEV: one of another filesystem, or
 * size; other negative errno: reading the file or storing failed.
 */
int undo_apply(const char *path, struct media *m, uint64_t *ret_lines);

#endif
