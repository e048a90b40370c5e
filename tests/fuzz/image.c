/* SPDX-License-Identifier: BSD-3-Clause */
/* An image that inputs are tried on, one after another: what they store to is put back. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fuzz.h"

struct fuzz_image *fuzz_image_new(const struct fuzz_seed *seed)
{
	struct fuzz_image *i = calloc(1, sizeof(*i));

	if (!i)
		abort();
	i->at = mmap(NULL, FUZZ_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, seed->fd, 0);
	i->clean = mmap(NULL, FUZZ_SIZE, PROT_READ, MAP_PRIVATE, seed->fd, 0);
	if (i->at == MAP_FAILED || i->clean == MAP_FAILED)
		abort();
	return i;
}

void fuzz_image_delete(struct fuzz_image *i)
{
	munmap(i->at, FUZZ_SIZE);
	munmap((void *)(uintptr_t)i->clean, FUZZ_SIZE);
	free(i);
}

void fuzz_image_touch(struct fuzz_image *i, uint64_t off, size_t len)
{
	for (uint64_t line = off / 64; line <= (off + len - 1) / 64; line++) {
		if (!i->seen[line])
			i->line[i->touched++] = line;
		i->seen[line] = true;
	}
}

void fuzz_image_hook(void *arg, enum media_event ev, uint64_t off, const void *bytes,
		     size_t len)
{
	if (ev != MEDIA_EV_FENCE && ev != MEDIA_EV_FLUSH && len)
		fuzz_image_touch(arg, off, len);
}

void fuzz_image_restore(struct fuzz_image *i)
{
	while (i->touched) {
		uint64_t line = i->line[--i->touched];

		i->seen[line] = false;
		memcpy(i->at + line * 64, i->clean + line * 64, 64);
	}
}
