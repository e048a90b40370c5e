/* SPDX-License-Identifier: BSD-3-Clause */
/* Exclusive or of memory, by the widest vector unit of the machine. */
#ifndef PMEMFS_XOR_H
#define PMEMFS_XOR_H

#include <stddef.h>

/* dst ^= a ^ b, len bytes at any address; b NULL: dst ^= a. Nothing overlaps. Any thread. */
void xor_into(void *dst, const void *a, const void *b, size_t len);

/* One implementation of it, for tests. */
struct xor_variant {
	const char *name;
	unsigned needs; /* CPU_ bits */
	void (*xor)(void *dst, const void *a, const void *b, size_t len);
};
/* Widest first; the last needs nothing and ends the table. */
extern const struct xor_variant xor_variants[];

#endif
