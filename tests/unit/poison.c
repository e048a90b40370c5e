/* SPDX-License-Identifier: BSD-3-Clause */
#include "poison.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "media.h"

#define PLACES 4u

static struct {
	uint64_t off, len;
} place[PLACES];
bool poison_stays, poison_met;

bool poison_hits(uint64_t off, size_t len)
{
	for (unsigned k = 0; k < PLACES; k++)
		if (place[k].len && off < place[k].off + place[k].len &&
		    place[k].off < off + len)
			return true;
	return false;
}

void poison_add(uint64_t off, uint64_t len)
{
	for (unsigned k = 0; k < PLACES; k++)
		if (!place[k].len) {
			place[k].off = off;
			place[k].len = len;
			return;
		}
	abort();
}

void poison_end(void)
{
	memset(place, 0, sizeof(place));
	poison_stays = false;
}

static bool meet(uint64_t off, size_t len)
{
	bool hit = poison_hits(off, len);

	if (hit)
		poison_met = true;
	return hit;
}

int __real_media_read(const struct media *m, uint64_t off, void *dst, size_t len);
int __wrap_media_read(const struct media *m, uint64_t off, void *dst, size_t len);
int __wrap_media_read(const struct media *m, uint64_t off, void *dst, size_t len)
{
	return meet(off, len) ? -EIO : __real_media_read(m, off, dst, len);
}

int __real_media_hash(const struct media *m, uint64_t off, size_t len, uint64_t seed,
		      uint64_t *ret);
int __wrap_media_hash(const struct media *m, uint64_t off, size_t len, uint64_t seed,
		      uint64_t *ret);
int __wrap_media_hash(const struct media *m, uint64_t off, size_t len, uint64_t seed,
		      uint64_t *ret)
{
	return meet(off, len) ? -EIO : __real_media_hash(m, off, len, seed, ret);
}

int __real_media_xor(const struct media *m, uint64_t off, void *dst, const void *src,
		     size_t len);
int __wrap_media_xor(const struct media *m, uint64_t off, void *dst, const void *src,
		     size_t len);
int __wrap_media_xor(const struct media *m, uint64_t off, void *dst, const void *src,
		     size_t len)
{
	if (!meet(off, len))
		return __real_media_xor(m, off, dst, src, len);
	memset(dst, 0xee, len); /* undefined */
	return -EIO;
}

int __real_media_copy_try(struct media *m, uint64_t off, const void *src, size_t len);
int __wrap_media_copy_try(struct media *m, uint64_t off, const void *src, size_t len);
int __wrap_media_copy_try(struct media *m, uint64_t off, const void *src, size_t len)
{
	for (unsigned k = 0; k < PLACES && !poison_stays; k++)
		if (off <= place[k].off && place[k].off + place[k].len <= off + len)
			place[k].len = 0;
	return __real_media_copy_try(m, off, src, len);
}
