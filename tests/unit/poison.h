/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Poison on the medium: what is read there fails. Links with wrapped media_read, media_hash,
 * media_xor and media_copy_try (tests/unit/meson.build: poison_args).
 */
#ifndef PMEMFS_TEST_POISON_H
#define PMEMFS_TEST_POISON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern bool poison_stays; /* also when it is stored to for mending */
extern bool poison_met;	  /* something read it */

void poison_add(uint64_t off, uint64_t len);
/* No more poison, and it would not stay. */
void poison_end(void);
bool poison_hits(uint64_t off, size_t len);

#endif
