/* SPDX-License-Identifier: BSD-3-Clause */
/* A view for people, and as a digest. */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "view.h"

static void print_dir(const struct view *v, size_t at, int depth, FILE *out)
{
	const struct view_inode *d = &v->inodes[at];
	size_t k;

	for (k = 0; k < d->n_dents; k++) {
		const struct view_inode *i = &v->inodes[d->dents[k].inode];

		fprintf(out,
			"%06o %3u %5u:%-5u %12" PRIu64 " %8" PRIu64 " #%-6" PRIu64 " %*s%s\n",
			i->mode, i->nlink, i->uid, i->gid, i->size, i->blocks, i->ino,
			2 * depth, "", d->dents[k].name);
		if (S_ISDIR(i->mode))
			print_dir(v, d->dents[k].inode, depth + 1, out);
	}
}

void view_print(const struct view *v, FILE *out)
{
	int k;

	if (v->problem)
		fprintf(out, "problem: %s\n", v->problem);
	if (v->n_inodes)
		print_dir(v, 0, 0, out);
	for (k = 0; k < OP_FDS; k++)
		if (v->handle[k] != VIEW_NONE)
			fprintf(out, "fd %d: #%" PRIu64 "\n", k, v->inodes[v->handle[k]].ino);
}

/* FNV-1a over 8-byte words with a final mix: fast enough, and of no importance to anyone else.
 */
static uint64_t feed(uint64_t h, const void *p, size_t len)
{
	const uint8_t *b = p;
	uint64_t w;

	for (; len >= 8; len -= 8, b += 8) {
		memcpy(&w, b, 8);
		h = (h ^ w) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	w = len;
	memcpy(&w, b, len);
	h = (h ^ w ^ (uint64_t)len << 56) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 32;
}

static uint64_t feed_inode(uint64_t h, const struct view_inode *i, bool times)
{
	uint64_t n[] = {i->mode,
			i->uid,
			i->gid,
			i->nlink,
			i->major,
			i->minor,
			S_ISDIR(i->mode) ? 0 : i->size};
	int64_t t[] = {i->atime.tv_sec, i->atime.tv_nsec, i->mtime.tv_sec, i->mtime.tv_nsec,
		       i->ctime.tv_sec, i->ctime.tv_nsec, i->btime.tv_sec, i->btime.tv_nsec};
	size_t k;

	h = feed(h, n, sizeof(n));
	if (times)
		h = feed(h, t, sizeof(t));
	h = feed(h, i->target ? i->target : "", i->targetlen);
	for (k = 0; k < i->n_xattrs; k++) {
		h = feed(h, i->xattrs[k].name, strlen(i->xattrs[k].name));
		h = feed(h, i->xattrs[k].value, i->xattrs[k].len);
	}
	for (k = 0; k < i->n_data; k++) {
		h = feed(h, &i->data[k].number, 8);
		h = feed(h, i->data[k].bytes, VIEW_BLOCK);
	}
	return h;
}

/* Objects are numbered in the order of the walk, which depends on names only. */
uint64_t view_digest(const struct view *v, bool with_times)
{
	uint64_t h = 1;
	size_t k, j;

	for (k = 0; k < v->n_inodes; k++) {
		const struct view_inode *i = &v->inodes[k];

		h = feed_inode(h, i, with_times);
		for (j = 0; j < i->n_dents; j++) {
			h = feed(h, i->dents[j].name, strlen(i->dents[j].name));
			h = feed(h, &i->dents[j].inode, sizeof(size_t));
		}
	}
	return feed(h, v->handle, sizeof(v->handle));
}
