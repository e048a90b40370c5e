/* SPDX-License-Identifier: BSD-3-Clause */
/* Counting is some ten nanoseconds a request: a thread has lines of its own and locks nothing.
 */
#include "stats.h"

#include <linux/fuse.h>

static enum control_kind kind_of(unsigned opcode)
{
	return opcode == FUSE_READ    ? CONTROL_READ
	       : opcode == FUSE_WRITE ? CONTROL_WRITE
				      : CONTROL_OTHER;
}

static unsigned time_class(uint64_t ns)
{
	unsigned bits = 63 - __builtin_clzll(ns | 1);

	return bits < CONTROL_TIMES ? bits : CONTROL_TIMES - 1;
}

void stats_request(struct stats *s, const struct fuse_in_header *in, uint64_t ns)
{
	unsigned opcode = in->opcode < CONTROL_OPCODES ? in->opcode : 0;
	const void *arg = in + 1;

	stats_add(&s->count[opcode], 1);
	stats_add(&s->ns[opcode], ns);
	stats_add(&s->took[kind_of(opcode)][time_class(ns)], 1);
	if (opcode == FUSE_READ)
		stats_add(&s->read_bytes, ((const struct fuse_read_in *)arg)->size);
	else if (opcode == FUSE_WRITE)
		stats_add(&s->written_bytes, ((const struct fuse_write_in *)arg)->size);
}

static uint64_t get(const _Atomic uint64_t *from)
{
	return atomic_load_explicit(from, memory_order_relaxed);
}

void stats_sum(const struct stats *s, uint64_t now, struct control_stats *ret)
{
	uint64_t since = get(&s->since);

	for (unsigned i = 0; i < CONTROL_OPCODES; i++) {
		ret->count[i] += get(&s->count[i]);
		ret->ns[i] += get(&s->ns[i]);
	}
	for (unsigned k = 0; k < CONTROL_KINDS; k++)
		for (unsigned i = 0; i < CONTROL_TIMES; i++)
			ret->took[k][i] += get(&s->took[k][i]);
	ret->read_bytes += get(&s->read_bytes);
	ret->written_bytes += get(&s->written_bytes);
	ret->sleeps += get(&s->sleeps);
	ret->polls += get(&s->polls);
	ret->threads++;
	if (since) {
		ret->busy++;
		if (now > since && now - since > ret->longest_ns)
			ret->longest_ns = now - since;
	}
}
