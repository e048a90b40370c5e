/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images in memory: a start image is a memfd, a view is a private copy-on-write mapping of one.
 * What a view has changed is dropped by image_reset without copying anything, and the kernel
 * knows which of its pages were ever written, by whomever.
 */
#ifndef CRASH_IMAGE_H
#define CRASH_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINE_SIZE  64u
#define LINE_WORDS 8u
#define PAGE_BYTES 4096u

struct image {
	uint8_t *mem;
	size_t size;
};

/* Makes an empty start image; returns its descriptor or a negative errno. */
int image_start_create(size_t size);
/* Makes a start image that holds what `from` holds. */
int image_start_copy(const struct image *from);

int image_open(struct image *im, int start, size_t size);
/* Becomes a fresh view of `start` (which may be another one than before). */
int image_rebase(struct image *im, int start);
/* Drops all changes. */
void image_reset(struct image *im);
void image_close(struct image *im);

/*
 * Lists the pages of the view that were written since it was mapped or reset, at most max, and
 * returns how many there are, or a negative errno.
 */
long image_written(const struct image *im, uint32_t *ret_pages, size_t max);

/*
 * The hash of an image is the sum over its 8-byte words of word_hash, so that it follows every
 * change of a word.
 */
static inline uint64_t word_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	return x;
}
static inline uint64_t word_hash(uint64_t off, uint64_t value)
{
	return word_mix(value + word_mix(off + 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull);
}
uint64_t image_hash(const uint8_t *mem, size_t size);
uint64_t image_start_hash(int start, size_t size);

/* A set of lines, for undoing: adding is O(1), clearing is O(members). */
struct lineset {
	uint64_t *bits;
	uint32_t *list;
	size_t n;
	size_t lines;
};
int lineset_open(struct lineset *s, size_t image_size);
void lineset_close(struct lineset *s);
void lineset_add(struct lineset *s, uint64_t off, size_t len);
bool lineset_has(const struct lineset *s, uint32_t line);
void lineset_clear(struct lineset *s);
/* Copies the member lines from `from` to `to`, then clears the set. */
void lineset_restore(struct lineset *s, uint8_t *to, const uint8_t *from);

#endif
