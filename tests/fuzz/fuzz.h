/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing the reader of images. An input is a seed image's number and a list of edits of its
 * metadata; after them all checksums can be made right again, so that what lies behind them is
 * reached too.
 *
 * Images are 16 MiB, and an input changes some lines: so a seed is mapped once, every line that
 * is stored to is noted, and put back afterwards.
 */
#ifndef PMEMFS_FUZZ_H
#define PMEMFS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"
#include "media.h"

#define FUZZ_SIZE  PMEMFS_MIN_SIZE
#define FUZZ_LINES (FUZZ_SIZE / 64)

/* A seed image: its lines that hold metadata, its inode slots. */
struct fuzz_seed {
	const char *name;
	int fd; /* of the image */
	uint64_t *line;
	/* of each line: the same in the other copy, 0: there is none; itself: of data that has
	 * parity */
	uint64_t *twin;
	size_t lines;
	struct fuzz_slot {
		uint64_t ino, off;
	} * slot;
	size_t slots;
	/*
	 * Of a crashed one: what may be an append that was cut short: the journal, and the last
	 * record of each log if it was appended, and a link that was: all of it, if the last
	 * record is the only one behind it; else the word that says where it leads.
	 */
	struct fuzz_range {
		uint64_t off, len;
	} * last;
	size_t lasts;
	unsigned shards, copies;
	uint64_t *journal; /* byte offsets of its slots */
};

#define FUZZ_SEEDS 12
#define FUZZ_ALL   5 /* of them, the first: what flips and poison take for "all" */
const struct fuzz_seed *fuzz_seeds(void); /* made at the first call */

/* A mapping of a seed, to be changed. */
struct fuzz_image {
	uint8_t *at;
	const uint8_t *clean; /* the seed */
	uint64_t line[FUZZ_LINES];
	size_t touched; /* of them: numbers of lines that may not be as they were */
	bool seen[FUZZ_LINES];
};
struct fuzz_image *fuzz_image_new(const struct fuzz_seed *seed);
void fuzz_image_delete(struct fuzz_image *i);
void fuzz_image_touch(struct fuzz_image *i, uint64_t off, size_t len);
/* A media_hook, arg the image: touches what is stored to. */
void fuzz_image_hook(void *arg, enum media_event ev, uint64_t off, const void *bytes,
		     size_t len);
void fuzz_image_restore(struct fuzz_image *i);

/* Applies the input's edits to the image of the seed that it names. */
void fuzz_edit(const struct fuzz_seed *s, const uint8_t *data, size_t size,
	       struct fuzz_image *i);
/* Makes the checksums of superblocks, slots, logs, journal and saved list right. */
void fuzz_reseal(const struct fuzz_seed *seed, struct fuzz_image *i);

/*
 * The image changes while it is used: lines that the input edits are now as it made them, now
 * as they were, one by one or all together. turn: before every few readings of the medium,
 * always the same way for an input; race: by a thread, which ends by itself after a while.
 */
void fuzz_turn_begin(struct fuzz_image *i);
void fuzz_turn_end(void);
void fuzz_race_begin(struct fuzz_image *i);
void fuzz_race_end(void);

/* What is done with the image. Aborts when something that must hold does not. */
struct fuzz_target {
	const char *name;
	void (*run)(struct fuzz_image *i);
};
extern const struct fuzz_target fuzz_targets[];
const struct fuzz_target *fuzz_target_find(const char *name); /* NULL: none */

/* One input on one target. */
void fuzz_one(const struct fuzz_target *t, const uint8_t *data, size_t size);

#endif
