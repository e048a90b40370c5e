/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets of read lines. A read counts unless all its bytes in the line were stored by the
 * judgement itself before. Reads of private copies (fsck -n) count as reads of the image: more
 * than is true is safe. One thread.
 */
#include "readset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct readset *readset_active;

int readset_open(struct readset *r, size_t image_size)
{
	memset(r, 0, sizeof(*r));
	r->mask = calloc(image_size / LINE_SIZE, sizeof(*r->mask));
	if (r->mask && !lineset_open(&r->read, image_size) &&
	    !lineset_open(&r->written, image_size))
		return 0;
	readset_close(r);
	return -ENOMEM;
}

void readset_close(struct readset *r)
{
	lineset_close(&r->read);
	lineset_close(&r->written);
	free(r->mask);
	memset(r, 0, sizeof(*r));
}

void readset_forget_writes(struct readset *r)
{
	for (size_t i = 0; i < r->written.n; i++)
		r->mask[r->written.list[i]] = 0;
	lineset_clear(&r->written);
}

void readset_start(struct readset *r)
{
	readset_forget_writes(r);
	lineset_clear(&r->read);
	r->on = true;
	readset_active = r;
}

void readset_stop(struct readset *r)
{
	r->on = false;
	readset_active = NULL;
}

/* The bytes of line l that [off, off + len) covers, as a mask. */
static uint64_t bytes_of(uint64_t l, uint64_t off, size_t len)
{
	uint64_t start = l * LINE_SIZE, from = off > start ? off - start : 0;
	uint64_t to = off + len < start + LINE_SIZE ? off + len - start : LINE_SIZE;
	uint64_t mask = to - from == LINE_SIZE ? UINT64_MAX : (1ull << (to - from)) - 1;
	return mask << from;
}

void readset_note_write(struct readset *r, uint64_t off, size_t len)
{
	if (!r->on || len == 0)
		return;
	lineset_add(&r->written, off, len);
	for (uint64_t l = off / LINE_SIZE; l <= (off + len - 1) / LINE_SIZE; l++)
		r->mask[l] |= bytes_of(l, off, len);
}

void readset_note_read(struct readset *r, uint64_t off, size_t len)
{
	if (!r->on || len == 0)
		return;
	for (uint64_t l = off / LINE_SIZE; l <= (off + len - 1) / LINE_SIZE; l++) {
		if (l >= r->read.lines)
			return; /* the read is refused */
		if (bytes_of(l, off, len) & ~r->mask[l])
			lineset_add(&r->read, l * LINE_SIZE, 1);
	}
}
