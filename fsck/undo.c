/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A record is appended and synced before its line is stored to for the first time. So at any
 * instant the file holds what stood in every line that may have changed; its last record may be
 * torn, and then its line was not stored to.
 */
#include "undo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hash.h"
#include "util.h"

#define MAGIC "PMEMFS undo 1\n\0\0"
#define LINE  64u

struct header {
	char magic[16];
	uint8_t uuid[16];
	uint64_t size; /* bytes of the medium */
	uint64_t sum;  /* of what stands before it */
};

struct record {
	uint64_t off;
	uint8_t bytes[LINE];
	uint64_t sum; /* the same */
};

static struct {
	struct media *m;
	int fd;
	uint64_t *saved; /* a bit for each line */
} undo;

static uint64_t record_sum(const struct record *r)
{
	return hash64(r, offsetof(struct record, sum), 0);
}

static uint64_t header_sum(const struct header *h)
{
	return hash64(h, offsetof(struct header, sum), 0);
}

static int write_all(int fd, const void *p, size_t len)
{
	for (const char *at = p; len;) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* ---- saving ---- */

/* What cannot be read, for it is poisoned, has nothing that could be put back. */
static int save_line(uint64_t line, bool *wrote)
{
	struct record r = {.off = line * LINE};

	if (undo.saved[line / 64] >> line % 64 & 1)
		return 0;
	undo.saved[line / 64] |= 1ull << line % 64;
	if (media_read(undo.m, r.off, r.bytes, sizeof(r.bytes)))
		return 0;
	r.sum = record_sum(&r);
	*wrote = true;
	return write_all(undo.fd, &r, sizeof(r));
}

static int save(void *arg, uint64_t off, size_t len)
{
	bool wrote = false;
	int r = 0;

	for (uint64_t line = off / LINE; line <= (off + len - 1) / LINE && !r; line++)
		r = save_line(line, &wrote);
	if (!r && wrote && fdatasync(undo.fd))
		r = -errno;
	if (r)
		fprintf(stderr,
			"fsck.pmemfs: the undo file cannot be written (%s): nothing more is "
			"changed\n",
			strerror(-r));
	return r;
}

int undo_begin(const char *path, struct media *m, const struct pmemfs_info *info)
{
	struct header h = {.size = media_size(m)};
	int r;

	undo.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (undo.fd < 0)
		return -errno;
	memcpy(h.magic, MAGIC, sizeof(h.magic));
	memcpy(h.uuid, info->uuid, sizeof(h.uuid));
	h.sum = header_sum(&h);
	r = write_all(undo.fd, &h, sizeof(h));
	if (!r && fsync(undo.fd))
		r = -errno;
	if (r)
		return r;
	undo.m = m;
	undo.saved = xcalloc(media_size(m) / LINE / 64 + 1, sizeof(undo.saved[0]));
	media_set_before(m, save, NULL);
	return 0;
}

/* ---- putting back ---- */

/* The filesystem that is there, if its superblock says so, must be the one that was saved. */
static int check_header(const struct header *h, struct media *m)
{
	struct pmemfs_info info;
	const char *why;

	if (memcmp(h->magic, MAGIC, sizeof(h->magic)) || h->sum != header_sum(h))
		return -EINVAL;
	if (h->size != media_size(m))
		return -EXDEV;
	if (!pmemfs_probe(m, &info, &why) && memcmp(info.uuid, h->uuid, sizeof(h->uuid)))
		return -EXDEV;
	return 0;
}

int undo_apply(const char *path, struct media *m, uint64_t *ret_lines)
{
	FILE *f = fopen(path, "re");
	struct header h;
	struct record rec;
	int r;

	*ret_lines = 0;
	if (!f)
		return -errno;
	r = fread(&h, sizeof(h), 1, f) == 1 ? check_header(&h, m) : -EINVAL;
	while (!r && fread(&rec, sizeof(rec), 1, f) == 1) {
		if (rec.sum != record_sum(&rec))
			break; /* the last one was torn */
		media_copy(m, rec.off, rec.bytes, sizeof(rec.bytes));
		++*ret_lines;
	}
	if (!r && ferror(f))
		r = -EIO;
	if (!r)
		r = media_fence(m);
	if (!r)
		r = media_sync(m);
	fclose(f);
	return r;
}
