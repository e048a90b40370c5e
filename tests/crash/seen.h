/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known about images that were checked: image hash -> digest of the tree that recovery
 * found. A fixed table; when a row of places is full, its oldest entry goes (a state is then
 * checked again, no more).
 */
#ifndef CRASH_SEEN_H
#define CRASH_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seen_entry {
	uint64_t hash;
	uint64_t digest;
};
struct seen {
	struct seen_entry *table;
	size_t rows;
	uint64_t clock;
	uint64_t dropped;
};
int seen_open(struct seen *s, size_t entries);
void seen_close(struct seen *s);
void seen_clear(struct seen *s);
bool seen_get(const struct seen *s, uint64_t hash, uint64_t *ret_digest);
void seen_put(struct seen *s, uint64_t hash, uint64_t digest);

#endif
