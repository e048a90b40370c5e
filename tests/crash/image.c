/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images in memory, their hash, and sets of lines: what makes a crash state cost in proportion
 * to the lines it touches. One thread at a time, no locks.
 */
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int image_start_create(size_t size)
{
	int fd = memfd_create("crash-start", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) < 0) {
		int r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

int image_start_copy(const struct image *from)
{
	int fd = image_start_create(from->size);
	if (fd < 0)
		return fd;
	for (size_t done = 0; done < from->size;) {
		ssize_t n = pwrite(fd, from->mem + done, from->size - done, (off_t)done);
		if (n <= 0) {
			int r = n < 0 ? -errno : -EIO;
			close(fd);
			return r;
		}
		done += (size_t)n;
	}
	return fd;
}

int image_open(struct image *im, int start, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, start, 0);
	if (p == MAP_FAILED)
		return -errno;
	im->mem = p;
	im->size = size;
	return 0;
}

int image_rebase(struct image *im, int start)
{
	void *p =
	    mmap(im->mem, im->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, start, 0);
	return p == MAP_FAILED ? -errno : 0;
}

void image_reset(struct image *im)
{
	/* A private mapping reads from its file again after this. */
	if (madvise(im->mem, im->size, MADV_DONTNEED) < 0)
		abort();
}

void image_close(struct image *im)
{
	if (im->mem)
		munmap(im->mem, im->size);
	im->mem = NULL;
}

/* In /proc/PID/pagemap: the page is present, and it is still the file's. */
#define PM_PRESENT (1ull << 63)
#define PM_SWAPPED (1ull << 62)
#define PM_FILE	   (1ull << 61)

long image_written(const struct image *im, uint32_t *ret_pages, size_t max)
{
	size_t pages = im->size / PAGE_BYTES;
	uint64_t *map = malloc(pages * sizeof(*map));
	long n = -ENOMEM;
	int fd = -1;
	if (!map)
		goto out;
	fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	n = -errno;
	if (fd < 0)
		goto out;
	n = -EIO;
	off_t at = (off_t)((uintptr_t)im->mem / PAGE_BYTES * sizeof(*map));
	if (pread(fd, map, pages * sizeof(*map), at) != (ssize_t)(pages * sizeof(*map)))
		goto out;
	n = 0;
	for (size_t i = 0; i < pages; i++) {
		bool there = map[i] & (PM_PRESENT | PM_SWAPPED);
		if (!there || (map[i] & PM_FILE))
			continue;
		if ((size_t)n < max)
			ret_pages[n] = (uint32_t)i;
		n++;
	}
out:
	if (fd >= 0)
		close(fd);
	free(map);
	return n;
}

uint64_t image_hash(const uint8_t *mem, size_t size)
{
	uint64_t sum = 0;
	for (size_t off = 0; off < size; off += 8) {
		uint64_t v;
		memcpy(&v, mem + off, 8);
		sum += word_hash(off, v);
	}
	return sum;
}

uint64_t image_start_hash(int start, size_t size)
{
	struct image im = {0};
	if (image_open(&im, start, size))
		abort();
	uint64_t hash = image_hash(im.mem, size);
	image_close(&im);
	return hash;
}

int lineset_open(struct lineset *s, size_t image_size)
{
	memset(s, 0, sizeof(*s));
	s->lines = image_size / LINE_SIZE;
	s->bits = calloc((s->lines + 63) / 64, sizeof(*s->bits));
	s->list = malloc(s->lines * sizeof(*s->list));
	if (s->bits && s->list)
		return 0;
	lineset_close(s);
	return -ENOMEM;
}

void lineset_close(struct lineset *s)
{
	free(s->bits);
	free(s->list);
	memset(s, 0, sizeof(*s));
}

bool lineset_has(const struct lineset *s, uint32_t line)
{
	return s->bits[line / 64] >> (line % 64) & 1;
}

void lineset_add(struct lineset *s, uint64_t off, size_t len)
{
	if (len == 0)
		return;
	for (uint64_t l = off / LINE_SIZE; l <= (off + len - 1) / LINE_SIZE; l++) {
		if (l >= s->lines)
			abort(); /* a store outside the medium */
		if (lineset_has(s, (uint32_t)l))
			continue;
		s->bits[l / 64] |= 1ull << (l % 64);
		s->list[s->n++] = (uint32_t)l;
	}
}

void lineset_clear(struct lineset *s)
{
	for (size_t i = 0; i < s->n; i++)
		s->bits[s->list[i] / 64] = 0;
	s->n = 0;
}

void lineset_restore(struct lineset *s, uint8_t *to, const uint8_t *from)
{
	for (size_t i = 0; i < s->n; i++) {
		size_t off = (size_t)s->list[i] * LINE_SIZE;
		memcpy(to + off, from + off, LINE_SIZE);
	}
	lineset_clear(s);
}
