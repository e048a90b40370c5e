/* SPDX-License-Identifier: BSD-3-Clause */
/* Kinds of damage, and what fsck has to say about each. */
#ifndef PMEMFS_TEST_FSCK_DAMAGE_H
#define PMEMFS_TEST_FSCK_DAMAGE_H

#include "image.h"

enum repaired {
	SAFE,  /* by -p and -y */
	ASKED, /* by -y, not by -p */
	NEVER,
};

struct damage {
	const char *name;
	void (*make)(struct image *img);
	unsigned first[6]; /* problem codes of the first run, in their order, 0 ends */
	enum repaired repaired;
	unsigned yes[6];    /* of the first -y, where mending makes it more; all 0: the same */
	unsigned second[6]; /* NEVER: of the second run; all 0: the same as of the first */
	bool left;	    /* -p and -y say last that repairs were not made */
	bool parity;	    /* the image has it */
	bool poison;	    /* the memory must not be read without a guard */
};

extern const struct damage damages[]; /* a NULL name ends it */

#endif
