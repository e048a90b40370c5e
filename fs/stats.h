/* SPDX-License-Identifier: BSD-3-Clause */
/* What was served: counted by the threads that serve, asked for by "pmemfs top". */
#ifndef PMEMFS_FS_STATS_H
#define PMEMFS_FS_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#include "control.h"

/* Of one thread, which alone writes it; anybody may read. */
struct stats {
	_Atomic uint64_t count[CONTROL_OPCODES], ns[CONTROL_OPCODES];
	_Atomic uint64_t took[CONTROL_KINDS][CONTROL_TIMES];
	_Atomic uint64_t read_bytes, written_bytes;
	_Atomic uint64_t sleeps, polls; /* ways a request was waited for */
	_Atomic uint64_t since;		/* when what is served now was begun; 0: nothing */
};

/* For the one writer: no locked instruction. */
static inline void stats_add(_Atomic uint64_t *to, uint64_t n)
{
	atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

struct fuse_in_header;
/* A request was answered, which took that long. */
void stats_request(struct stats *s, const struct fuse_in_header *in, uint64_t ns);

/* Adds what s has. */
void stats_sum(const struct stats *s, uint64_t now, struct control_stats *ret);

#endif
