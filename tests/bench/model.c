/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the model of an Optane DIMM says: of the store kernels by size, beside the published
 * table; and of the filesystem's operations: time, bytes written to the medium for each byte
 * stored, and lines that are flushed again too soon. Needs no such DIMM.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "optane.h"
#include "pmemfs.h"
#include "target.h"
#include "util.h"

#define MEDIUM (256ull << 20)

static const size_t sizes[] = {64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536, 1 << 20};
static char buf[1 << 20];

static void begin(struct bench *b, struct optane *o, const struct optane_params *p)
{
	optane_init(o, p);
	media_set_hook(b->media, optane_hook, o);
}

/* MB/s of stores one behind the other, each with its fence. */
static double run_size(struct bench *b, size_t size)
{
	uint64_t off = media_size(b->media) / 2, n = MAX((1u << 20) / size, 16u);
	struct optane o;

	begin(b, &o, &optane_published);
	for (uint64_t i = 0; i < n; i++) {
		media_copy(b->media, off + i * size, buf, size);
		media_fence(b->media);
	}
	media_set_hook(b->media, NULL, NULL);
	return (double)(n * size) / optane_ns(&o) * 1e3;
}

static void stores(struct bench *b)
{
	struct table *t = table_new(b, "stores by the model, one writer", "MB/s", "size",
				    ARRAY_LEN(sizes), 3);
	char name[24];
	const char *why;

	for (unsigned v = 0; v < 3; v++) {
		table_col(t, v, variants[v].name);
		MUST("flush", media_set_flush(b->media, variants[v].flush, &why));
		for (unsigned s = 0; s < ARRAY_LEN(sizes); s++) {
			table_row(t, s, bench_size(sizes[s], name));
			table_add(t, s, v, run_size(b, sizes[s]));
		}
	}
}

/* ---- operations of the filesystem ---- */

enum op { OVERWRITE4K, APPEND100, WRITE64K, CREATE, RENAME, UNLINK, OPS };
static const char *const op_names[OPS] = {"write 4 KiB", "append 100", "write 64K",
					  "create",	 "rename",     "unlink"};
#define FILES 500u

static int do_op(struct pmemfs *fs, enum op op, uint64_t ino, unsigned i)
{
	const struct pmemfs_cred cred = {0};
	struct pmemfs_attr a;
	char name[24], new[24];
	int64_t r = 0;

	snprintf(name, sizeof(name), "f%u", i);
	snprintf(new, sizeof(new), "g%u", i);
	switch (op) {
	case OVERWRITE4K:
		r = pmemfs_write(fs, ino, i * 4096ull, buf, 4096, 0);
		break;
	case APPEND100:
		r = pmemfs_write(fs, ino, 0, buf, 100, PMEMFS_WRITE_APPEND);
		break;
	case WRITE64K:
		r = pmemfs_write(fs, ino, i * 65536ull, buf, 65536, 0);
		break;
	case CREATE:
		r = pmemfs_make(fs, 1, name, S_IFREG | 0600, 0, 0, NULL, &cred, &a);
		if (!r)
			pmemfs_forget(fs, a.ino, 1);
		break;
	case RENAME:
		r = pmemfs_rename(fs, 1, name, 1, new, 0);
		break;
	case UNLINK:
		r = pmemfs_unlink(fs, 1, new);
		break;
	case OPS:
		break;
	}
	return r < 0 ? (int)r : 0;
}

static void operations(struct bench *b, const char *flush)
{
	static const char *const cols[] = {"us each", "amplified", "rewrites", "fences"};
	const struct pmemfs_cred cred = {0};
	struct optane_params bare = optane_published;
	struct pmemfs *fs;
	struct pmemfs_attr a;
	struct table *t;
	const char *why = "";
	char title[96];

	bare.software = 0;
	snprintf(title, sizeof(title), "operations by the model, flush=%s", flush);
	t = table_new(b, title, "for each", "", OPS, ARRAY_LEN(cols));
	for (unsigned c = 0; c < ARRAY_LEN(cols); c++)
		table_col(t, c, cols[c]);
	MUST("flush", media_set_flush(b->media, flush, &why));
	MUST("mount", pmemfs_mount(b->media, NULL, &fs, &why));
	MUST("make", pmemfs_make(fs, 1, "file", S_IFREG | 0600, 0, 0, NULL, &cred, &a));
	for (unsigned op = 0; op < OPS; op++) {
		struct optane o;

		begin(b, &o, &bare);
		for (unsigned i = 0; i < FILES; i++)
			MUST(op_names[op], do_op(fs, op, a.ino, i));
		media_set_hook(b->media, NULL, NULL);
		optane_drain(&o);
		table_row(t, op, op_names[op]);
		table_add(t, op, 0, optane_ns(&o) / FILES / 1e3);
		table_add(t, op, 1, optane_amplification(&o));
		table_add(t, op, 2, (double)o.rewrites / FILES);
		table_add(t, op, 3, (double)o.fences / FILES);
	}
	pmemfs_forget(fs, a.ino, 1);
	MUST("unlink", pmemfs_unlink(fs, 1, "file"));
	MUST("unmount", pmemfs_unmount(fs));
}

int main(int argc, char **argv)
{
	struct bench b;

	bench_begin(&b, argc, argv, 0, "Stores and operations on a model of an Optane DIMM.");
	b.rounds = 1; /* it is always the same */
	b.quick = true;
	bench_open(&b, MEDIUM);
	variants_find(&b);
	memset(buf, 0x5a, sizeof(buf));
	stores(&b);
	for (unsigned v = 0; v < 3; v++)
		operations(&b, variants[v].flush);
	return bench_end(&b);
}
