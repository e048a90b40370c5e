/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing the reader of images. An input is a seed image's number and a list of edits of its
 * metadata; after them all checksums can be made right again, so that what lies behind them is
 * reached too.
 */
#ifndef PMEMFS_FUZZ_H
#define PMEMFS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmemfs.h"

#define FUZZ_SIZE PMEMFS_MIN_SIZE

/* A seed image: its lines that hold metadata, its inode slots. */
struct fuzz_seed {
	const char *name;
	int fd; /* of the image */
	uint64_t *line;
	uint64_t *twin; /* of each line: the same in the other copy, 0: there is none */
	size_t lines;
	struct fuzz_slot {
		uint64_t ino, off;
	} * slot;
	size_t slots;
};

#define FUZZ_SEEDS 5
const struct fuzz_seed *fuzz_seeds(void); /* made at the first call */

/* Applies the input to a mapping of its seed. Returns the seed, or NULL: the input is too
 * short. */
const struct fuzz_seed *fuzz_edit(const struct fuzz_seed *seeds, const uint8_t *data,
				  size_t size, uint8_t *image);
/* Makes the checksums of superblocks, slots, logs, journal and saved list right. */
void fuzz_reseal(const struct fuzz_seed *seed, uint8_t *image);

/* What is done with the image. Aborts when something that must hold does not. */
struct fuzz_target {
	const char *name;
	void (*run)(uint8_t *image);
};
extern const struct fuzz_target fuzz_targets[];
const struct fuzz_target *fuzz_target_find(const char *name); /* NULL: none */

/* One input on one target. */
void fuzz_one(const struct fuzz_target *t, const uint8_t *data, size_t size);

#endif
