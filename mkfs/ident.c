/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a device or image holds, by libblkid.
 *
 * libblkid reads a file descriptor, and a devdax character device cannot be read: there the
 * places where signatures live (the first and last few MiB) are copied to a sparse file in
 * memory of the same size, which libblkid reads instead. Image files are read by themselves,
 * so that holes stay holes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <blkid.h>

#include "ident.h"
#include "util.h"

#define EDGE  (4ull << 20)
#define CHUNK 65536u

struct probe {
	blkid_probe blkid;
	int copy; /* descriptor of the copy, -1: none */
};

/* Copies [from, to) of the medium; what cannot be read stays a hole. */
static int copy_range(struct media *m, int fd, uint64_t from, uint64_t to)
{
	char *buf = malloc(CHUNK);
	int r = buf ? 0 : -ENOMEM;

	for (uint64_t off = from; off < to && !r; off += CHUNK) {
		size_t len = MIN(CHUNK, to - off);

		if (media_read(m, off, buf, len))
			continue;
		if (pwrite(fd, buf, len, (off_t)off) != (ssize_t)len)
			r = -EIO;
	}
	free(buf);
	return r;
}

static int copy_edges(struct media *m, int *ret)
{
	uint64_t size = media_size(m);
	int fd = memfd_create("pmemfs-probe", MFD_CLOEXEC);
	int r = 0;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size))
		r = -errno;
	if (!r)
		r = copy_range(m, fd, 0, MIN(EDGE, size));
	if (!r && size > EDGE)
		r = copy_range(m, fd, MAX(EDGE, size - EDGE) / CHUNK * CHUNK, size);
	if (r)
		close(fd);
	else
		*ret = fd;
	return r;
}

static void probe_close(struct probe *p)
{
	blkid_free_probe(p->blkid);
	if (p->copy >= 0)
		close(p->copy);
}

static int probe_open(struct media *m, struct probe *ret)
{
	struct probe p = {.copy = -1};
	struct stat st;
	int fd = media_fd(m), r = 0;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		r = copy_edges(m, &p.copy);
		fd = p.copy;
	}
	if (r)
		return r;
	p.blkid = blkid_new_probe();
	if (!p.blkid || blkid_probe_set_device(p.blkid, fd, 0, 0)) {
		probe_close(&p);
		return -EIO;
	}
	blkid_probe_enable_superblocks(p.blkid, 1);
	blkid_probe_set_superblocks_flags(p.blkid, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL |
						       BLKID_SUBLKS_USAGE | BLKID_SUBLKS_MAGIC);
	blkid_probe_enable_partitions(p.blkid, 1);
	blkid_probe_set_partitions_flags(p.blkid, BLKID_PARTS_MAGIC);
	*ret = p;
	return 0;
}

static const char *value(const struct probe *p, const char *name)
{
	const char *v = NULL;

	return blkid_probe_lookup_value(p->blkid, name, &v, NULL) ? NULL : v;
}

void ident_printable(char *dst, size_t size, const char *src)
{
	size_t i = 0;

	for (; src[i] && i + 1 < size; i++)
		dst[i] = (unsigned char)src[i] < ' ' || src[i] == 0x7f ? '?' : src[i];
	dst[i] = 0;
}

/* What libblkid calls usage, in words. */
static const char *usage_words(const char *usage)
{
	static const struct {
		const char *usage, *words;
	} table[] = {
	    {"filesystem", "a filesystem"},
	    {"raid", "a RAID or LVM member"},
	    {"crypto", "an encrypted volume"},
	    {"other", "an area"},
	};

	for (size_t i = 0; usage && i < ARRAY_LEN(table); i++)
		if (!strcmp(table[i].usage, usage))
			return table[i].words;
	return "something";
}

static void describe(const struct probe *p, char *ret, size_t size)
{
	const char *type = value(p, "TYPE"), *label = value(p, "LABEL");
	char clean[64];
	int n;

	if (!type) {
		snprintf(ret, size, "a partition table of type %s", value(p, "PTTYPE"));
		return;
	}
	n = snprintf(ret, size, "%s of type %s", usage_words(value(p, "USAGE")), type);
	if (label && *label && n >= 0 && (size_t)n < size) {
		ident_printable(clean, sizeof(clean), label);
		snprintf(ret + n, size - n, ", label \"%s\"", clean);
	}
}

int ident_find(struct media *m, char *ret, size_t size)
{
	struct probe p;
	int r = probe_open(m, &p);

	if (r)
		return r;
	/* Goes through the superblocks, then the partition tables, to the first find. */
	switch (blkid_do_probe(p.blkid)) {
	case 0:
		r = value(&p, "TYPE") || value(&p, "PTTYPE");
		if (r)
			describe(&p, ret, size);
		break;
	case 1:
		break;
	default:
		r = -EIO;
	}
	probe_close(&p);
	return r;
}

/* Where the signature that was just found stands. */
static bool signature(const struct probe *p, uint64_t *ret_off, uint64_t *ret_len)
{
	const char *off = value(p, "SBMAGIC_OFFSET"), *magic;
	size_t len = 0;

	magic = off ? "SBMAGIC" : "PTMAGIC";
	if (!off)
		off = value(p, "PTMAGIC_OFFSET");
	if (!off || blkid_probe_lookup_value(p->blkid, magic, NULL, &len) || !len)
		return false;
	*ret_off = strtoull(off, NULL, 10);
	*ret_len = len;
	return true;
}

int ident_wipe(struct media *m)
{
	struct probe p;
	uint64_t off, len;
	int r = probe_open(m, &p);

	if (r)
		return r;
	while (blkid_do_probe(p.blkid) == 0) {
		if (!signature(&p, &off, &len) || off >= media_size(m) ||
		    len > media_size(m) - off)
			continue;
		media_clear(m, off, len);
		/* Hides it from the probe, so that what stands behind it is found too. */
		if (blkid_do_wipe(p.blkid, 1))
			break;
	}
	probe_close(&p);
	return media_fence(m);
}
