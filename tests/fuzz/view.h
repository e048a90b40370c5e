/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PMEMFS_FUZZ_VIEW_H
#define PMEMFS_FUZZ_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "media.h"

/* What a reader of everything gets. */
struct view {
	uint64_t digest; /* of names, attributes, contents, and of which calls failed */
	uint64_t errors; /* calls that gave EIO, and errors that were reported */
};

/* Mounted for reading, so that the image stays as it is. False: it does not mount. */
bool view_image(uint8_t *image, struct view *ret);
/* Does fsck -n find anything? */
bool view_fsck_finds(uint8_t *image);
/* fsck -y, each store of which the hook (may be NULL) is told; does it say that all is well
 * now? */
bool view_fsck_repairs(uint8_t *image, media_hook hook, void *arg);

#endif
