/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of checked images: rows of 8 places. Hash 0 stands for an empty place. */
#include "seen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PLACES 8u

int seen_open(struct seen *s, size_t entries)
{
	memset(s, 0, sizeof(*s));
	for (s->rows = 1; s->rows * PLACES < entries;)
		s->rows *= 2;
	size_t size = s->rows * PLACES * sizeof(*s->table);
	s->table = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->table == MAP_FAILED) {
		s->table = NULL;
		return -ENOMEM;
	}
	return 0;
}

void seen_close(struct seen *s)
{
	if (s->table)
		munmap(s->table, s->rows * PLACES * sizeof(*s->table));
	s->table = NULL;
}

void seen_clear(struct seen *s)
{
	madvise(s->table, s->rows * PLACES * sizeof(*s->table), MADV_DONTNEED);
}

static struct seen_entry *row(const struct seen *s, uint64_t hash)
{
	return &s->table[(hash & (s->rows - 1)) * PLACES];
}

bool seen_get(const struct seen *s, uint64_t hash, uint64_t *ret_digest)
{
	const struct seen_entry *e = row(s, hash);
	for (unsigned i = 0; i < PLACES; i++) {
		if (e[i].hash != hash)
			continue;
		*ret_digest = e[i].digest;
		return true;
	}
	return false;
}

void seen_put(struct seen *s, uint64_t hash, uint64_t digest)
{
	struct seen_entry *e = row(s, hash);
	unsigned at = (unsigned)(s->clock++ % PLACES);
	for (unsigned i = 0; i < PLACES; i++) {
		if (e[i].hash == hash || e[i].hash == 0) {
			at = i;
			break;
		}
	}
	if (e[at].hash != 0 && e[at].hash != hash)
		s->dropped++;
	e[at] = (struct seen_entry){.hash = hash, .digest = digest};
}
