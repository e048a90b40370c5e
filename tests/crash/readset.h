/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which lines of the crashed image a judgement read, before it stored to them itself. Two
 * states that differ only in lines that neither reads have the same verdict; so a set of
 * pending lines that is never read is explored completely by one state.
 *
 * A program that wants this is linked with --wrap for media_read, media_hash and media_ptr
 * (readset_wrap.c): these are all the ways in which the library reads the medium.
 */
#ifndef CRASH_READSET_H
#define CRASH_READSET_H

#include "image.h"

struct readset {
	bool on;
	struct lineset read;	/* in the order of the first read */
	struct lineset written; /* lines with a mask */
	uint64_t *mask;		/* bytes of each line that were stored since the start */
};
int readset_open(struct readset *r, size_t image_size);
void readset_close(struct readset *r);
/* Forgets all, and notes reads from here on. */
void readset_start(struct readset *r);
void readset_stop(struct readset *r);
/* The image is as it was again. */
void readset_forget_writes(struct readset *r);
void readset_note_write(struct readset *r, uint64_t off, size_t len);
void readset_note_read(struct readset *r, uint64_t off, size_t len);

/* The set that the wrapped functions tell; NULL: none. */
extern struct readset *readset_active;

#endif
