/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations: chosen by weight, aimed by what the model holds so that most of them can
 * succeed, with a share of deliberately wrong ones. The same rng, model and profile give the
 * same operation.
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "model.h"
#include "op.h"

#define CROWDED 160 /* objects from which on making turns into removing */

const struct op_profile op_profile_default = {
    .weight =
	{[OP_CREATE] = 60,	[OP_MKDIR] = 30,   [OP_MKNOD] = 10,    [OP_SYMLINK] = 15,
	 [OP_LINK] = 25,	[OP_UNLINK] = 50,  [OP_RMDIR] = 20,    [OP_RENAME] = 80,
	 [OP_WRITE] = 160,	[OP_APPEND] = 60,  [OP_TRUNCATE] = 60, [OP_FALLOCATE] = 50,
	 [OP_CHMOD] = 15,	[OP_CHOWN] = 15,   [OP_UTIMENS] = 20,  [OP_SETXATTR] = 30,
	 [OP_REMOVEXATTR] = 15, [OP_OPEN] = 25,	   [OP_CLOSE] = 20,    [OP_TMPFILE] = 10,
	 [OP_READ] = 60,	[OP_SEEK] = 30,	   [OP_GETXATTR] = 15, [OP_LISTXATTR] = 10,
	 [OP_READLINK] = 10,	[OP_READDIR] = 20, [OP_STAT] = 10,     [OP_SYNC] = 2},
    .depth = 4,
    .names = 12,
    .invalid = 40,
    .odd_names = 60,
    .sparse = 20,
    .file_size = 256 << 10,
    .write_size = 64 << 10,
    .trusted = true,
};

uint64_t op_rng_next(struct op_rng *r)
{
	uint64_t x = r->s += 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

uint64_t op_rng_below(struct op_rng *r, uint64_t n)
{
	return op_rng_next(r) % n;
}

bool op_rng_one_in(struct op_rng *r, uint64_t n)
{
	return !op_rng_below(r, n);
}

static bool per_mille(struct op_rng *r, unsigned n)
{
	return op_rng_below(r, 1000) < n;
}

struct gen {
	struct op_rng *r;
	const struct model *m;
	const struct op_profile *p;
	struct op *op;
};

static uint64_t below(struct gen *g, uint64_t n)
{
	return op_rng_below(g->r, n);
}

/* ---- names and paths ---- */

static void odd_name(struct gen *g, char *s)
{
	/* the first two have the same XXH3-64 with seed 0; a filesystem must tell them apart */
	static const char *const fixed[] = {
	    "nikmknhhjjjkljkh",
	    "gljhjglmkjjjikjl",
	    "...",
	    ".hidden",
	    "a b%c\n\t",
	    "\x01\x7f\xff",
	    "\xc3\xa4\xf0\x9f\x92\xbe",
	    "0123456789012345678901234567890123456789012345678901234567890123456789"};
	size_t n, k;

	switch (below(g, 3)) {
	case 0:
		strcpy(s, fixed[below(g, sizeof(fixed) / sizeof(fixed[0]))]);
		return;
	case 1:
		n = 255 - below(g, 2);
		break;
	default:
		n = 1 + below(g, 255);
	}
	memset(s, "xyz"[below(g, 3)], n);
	for (k = 0; k < 2 && k < n; k++)
		s[n - 1 - k] = (char)('0' + below(g, 3));
	s[n] = 0;
}

static void any_name(struct gen *g, char *s)
{
	if (per_mille(g->r, g->p->invalid / 4)) {
		memset(s, 'L', 256);
		s[256] = 0;
	} else if (per_mille(g->r, g->p->odd_names)) {
		odd_name(g, s);
	} else {
		sprintf(s, "n%u", (unsigned)below(g, g->p->names));
	}
}

static unsigned depth_of(const char *path)
{
	unsigned n = *path != 0;

	for (; *path; path++)
		n += *path == '/';
	return n;
}

static void join(char *path, const char *name)
{
	size_t n = strlen(path);

	snprintf(path + n, OP_PATH_MAX - n, "%s%s", n ? "/" : "", name);
}

/* A name, taken or not, in some directory (rarely in something that is none). */
static void new_path(struct gen *g, char *path)
{
	char name[260];
	int tries;

	path[0] = 0;
	for (tries = 0; tries < 4; tries++) {
		model_pick(g->m, g->r, S_IFDIR, path);
		if (depth_of(path) < g->p->depth)
			break;
		path[0] = 0;
	}
	if (per_mille(g->r, g->p->invalid / 4))
		model_pick(g->m, g->r, op_rng_one_in(g->r, 2) ? S_IFREG : S_IFLNK, path);
	if (per_mille(g->r, g->p->invalid / 4))
		join(path, "missing");
	any_name(g, name);
	join(path, name);
}

/* Something that is there, of the type (0: any); rarely of a wrong type or missing. */
static void old_path(struct gen *g, uint32_t type, char *path)
{
	path[0] = 0;
	if (per_mille(g->r, g->p->invalid))
		type = 0;
	if (per_mille(g->r, g->p->invalid / 2) || !model_pick(g->m, g->r, type, path))
		new_path(g, path);
}

static int some_fd(struct gen *g, bool used)
{
	int start = (int)below(g, OP_FDS), k;

	for (k = 0; k < OP_FDS; k++)
		if (model_fd_used(g->m, (start + k) % OP_FDS) == used)
			return (start + k) % OP_FDS;
	return OP_NOFD;
}

/* A file by name or by handle. */
static void object(struct gen *g, uint32_t type)
{
	if (op_rng_one_in(g->r, 4))
		g->op->fd = some_fd(g, true);
	if (g->op->fd == OP_NOFD)
		old_path(g, type, g->op->path);
}

/* A file (mostly), directory or other object for attributes. */
static void any_object(struct gen *g)
{
	object(g, op_rng_one_in(g->r, 2) ? S_IFREG : op_rng_one_in(g->r, 3) ? S_IFDIR : 0);
}

/* ---- numbers ---- */

static uint64_t size_of(struct gen *g)
{
	struct model_attr a;

	return model_stat(g->m, g->op->path, g->op->fd, &a) ? 0 : a.size;
}

static uint64_t some_offset(struct gen *g)
{
	uint64_t size = size_of(g), max = g->p->file_size, off;

	if (per_mille(g->r, g->p->sparse))
		return (1ull << 40) + below(g, 1 << 20);
	switch (below(g, 5)) {
	case 0:
		off = size;
		break;
	case 1:
		off = size > 100 ? size - below(g, 100) : below(g, 100);
		break;
	case 2:
		off = below(g, max / 4096) * 4096;
		break;
	case 3:
		off = below(g, max / 4096) * 4096 + 4090 + below(g, 12);
		break;
	default:
		off = below(g, max);
	}
	/* what was grown by sparse offsets is left behind now and then */
	return off < 2 * max || op_rng_one_in(g->r, 3) ? off : below(g, max);
}

static uint64_t some_length(struct gen *g)
{
	uint64_t max = g->p->write_size;

	switch (below(g, 8)) {
	case 0:
		return 1 + below(g, 16);
	case 1:
		return 4096;
	case 2:
		return 4096 * (1 + below(g, max / 4096));
	case 3:
		return 1 + below(g, max);
	case 4:
		return below(g, 2) ? 4095 + below(g, 3) : below(g, 2);
	default:
		return 1 + below(g, max < 6000 ? max : 6000);
	}
}

static uint64_t some_seed(struct gen *g)
{
	return op_rng_one_in(g->r, 40) ? 0 : op_rng_next(g->r) >> 16;
}

static void some_time(struct gen *g, struct timespec *t)
{
	static const int64_t special[] = {0,	      -1,	  -2177452800, 2147483647,
					  2147483648, 4294967296, 16725225599, 951782400};

	switch (below(g, 6)) {
	case 0:
		*t = (struct timespec){0, UTIME_NOW};
		return;
	case 1:
		*t = (struct timespec){0, UTIME_OMIT};
		return;
	case 2:
		t->tv_sec = (int64_t)below(g, 1ull << 31);
		break;
	default:
		t->tv_sec = special[below(g, sizeof(special) / sizeof(special[0]))];
	}
	t->tv_nsec = op_rng_one_in(g->r, 3) ? 999999999 : (long)below(g, 1000000000);
}

/* ---- by kind ---- */

static void gen_make(struct gen *g)
{
	static const uint32_t types[] = {S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK};
	struct op *op = g->op;
	size_t k;

	new_path(g, op->path);
	op->mode = op_rng_one_in(g->r, 4) ? (uint32_t)below(g, 010000)
					  : (op->kind == OP_MKDIR ? 0755 : 0644);
	if (op->kind == OP_MKNOD) {
		op->mode |= types[below(g, g->p->trusted ? 4 : 2)];
		if (S_ISCHR(op->mode) || S_ISBLK(op->mode)) {
			op->major = (uint32_t)below(g, op_rng_one_in(g->r, 2) ? 16 : 4096);
			op->minor = (uint32_t)below(g, op_rng_one_in(g->r, 2) ? 256 : 1 << 20);
		}
	}
	if (op->kind != OP_SYMLINK)
		return;
	op->mode = 0;
	if (op_rng_one_in(g->r, 3)) {
		op->len = op_rng_one_in(g->r, 4) ? 4095 : 1 + below(g, 300);
		op->seed = 1 + below(g, 1000);
		if (per_mille(g->r, g->p->invalid))
			op->len = 4096;
		return;
	}
	for (k = 0; k < 1 + below(g, 20); k++)
		strcat(op->to, below(g, 4) ? "../x" : "/tmp");
}

static void gen_names(struct gen *g)
{
	struct op *op = g->op;

	switch (op->kind) {
	case OP_LINK:
		object(g, op_rng_one_in(g->r, 8) ? 0 : S_IFREG);
		new_path(g, op->to);
		break;
	case OP_UNLINK:
		old_path(g, op_rng_one_in(g->r, 3) ? 0 : S_IFREG, op->path);
		break;
	case OP_RMDIR:
		old_path(g, S_IFDIR, op->path);
		break;
	default:
		old_path(g, 0, op->path);
		if (op_rng_one_in(g->r, 3))
			old_path(g, op_rng_one_in(g->r, 2) ? 0 : S_IFDIR, op->to);
		else
			new_path(g, op->to);
		if (op_rng_one_in(g->r, 3))
			op->flags = op_rng_one_in(g->r, 3) ? RENAME_NOREPLACE : RENAME_EXCHANGE;
		if (op->flags == RENAME_EXCHANGE && !op_rng_one_in(g->r, 5))
			old_path(g, 0, op->to);
		else if (g->p->trusted && op_rng_one_in(g->r, 8))
			op->flags |= RENAME_WHITEOUT; /* with EXCHANGE it is wrong */
	}
	/* the root cannot be renamed or removed, which the callers of pmemfs never ask for */
	if (!*op->path && op->fd == OP_NOFD)
		strcpy(op->path, "n0");
	if (!*op->to && (op->kind == OP_RENAME || op->kind == OP_LINK))
		strcpy(op->to, "n1");
}

static void gen_truncate(struct gen *g)
{
	uint64_t size;

	object(g, S_IFREG);
	size = size_of(g);
	switch (below(g, 6)) {
	case 0:
		g->op->off = 0;
		break;
	case 1:
		g->op->off = size;
		break;
	case 2:
	case 3:
		g->op->off = size ? below(g, size) : 0;
		if (size > 4 * g->p->file_size)
			g->op->off = below(g, g->p->file_size);
		break;
	default:
		g->op->off = some_offset(g);
	}
}

static void gen_fallocate(struct gen *g)
{
	static const uint32_t modes[] = {0,
					 FALLOC_FL_KEEP_SIZE,
					 FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					 FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					 FALLOC_FL_ZERO_RANGE,
					 FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
	struct op *op = g->op;

	object(g, S_IFREG);
	op->flags = modes[below(g, 6)];
	op->off = some_offset(g);
	op->len = some_length(g);
	if ((op->flags & FALLOC_FL_PUNCH_HOLE) && op_rng_one_in(g->r, 10))
		op->len = 1ull << (12 + below(g, 30));
	if (per_mille(g->r, g->p->invalid))
		op->flags = FALLOC_FL_PUNCH_HOLE;
}

static void gen_content(struct gen *g)
{
	struct op *op = g->op;

	object(g, S_IFREG);
	op->off = op->kind == OP_APPEND ? 0 : some_offset(g);
	if (op->kind == OP_SEEK) {
		op->flags = op_rng_one_in(g->r, 2) ? SEEK_DATA : SEEK_HOLE;
		return;
	}
	op->len = some_length(g);
	if (op->kind != OP_READ)
		op->seed = some_seed(g);
}

static void gen_attr(struct gen *g)
{
	struct op *op = g->op;

	any_object(g);
	switch (op->kind) {
	case OP_CHMOD:
		op->mode = (uint32_t)below(g, 010000);
		break;
	case OP_CHOWN:
		op->uid = op_rng_one_in(g->r, 4) ? -1 : (int64_t)below(g, 70000);
		op->gid = op_rng_one_in(g->r, 4) ? -1 : (int64_t)below(g, 70000);
		break;
	default:
		some_time(g, &op->atime);
		some_time(g, &op->mtime);
	}
}

static void xattr_name(struct gen *g, char *s)
{
	static const char *const wrong[] = {"user.", "foo.bar", "nonsense", "trusted."};
	size_t n;

	if (per_mille(g->r, g->p->invalid)) {
		strcpy(s, wrong[below(g, 4)]);
		return;
	}
	n = (size_t)sprintf(s, "%s%u",
			    !g->p->trusted || below(g, 4) ? "user.a"
			    : below(g, 2)		  ? "trusted.b"
							  : "security.c",
			    (unsigned)below(g, 4));
	if (op_rng_one_in(g->r, 10)) {
		size_t end = per_mille(g->r, g->p->invalid * 4) ? 256 : 255;

		memset(s + n, 'q', end - n);
		s[end] = 0;
	}
}

static void gen_xattr(struct gen *g)
{
	struct op *op = g->op;

	any_object(g);
	if (op->kind == OP_LISTXATTR)
		return;
	if (g->p->trusted && op_rng_one_in(g->r, 4)) {
		strcpy(op->to, below(g, 2) ? OP_ACL_ACCESS : OP_ACL_DEFAULT);
		if (below(g, 3))
			old_path(g, strcmp(op->to, OP_ACL_ACCESS) ? S_IFDIR : 0, op->path);
		op->len = op->kind == OP_GETXATTR ? 65536 : 4 + 8 * (3 + below(g, 10));
		op->seed = some_seed(g) | 1;
		return;
	}
	xattr_name(g, op->to);
	if (op->kind == OP_REMOVEXATTR)
		return;
	if (op->kind == OP_GETXATTR) {
		op->len = below(g, 3) ? 65536 : below(g, 40);
		return;
	}
	op->len = op_rng_one_in(g->r, 6) ? below(g, 3000) : below(g, 60);
	if (per_mille(g->r, g->p->invalid))
		op->len = 65536 + below(g, 2);
	op->seed = some_seed(g);
	if (op_rng_one_in(g->r, 4))
		op->flags = op_rng_one_in(g->r, 2) ? XATTR_CREATE : XATTR_REPLACE;
}

static void gen_handle(struct gen *g)
{
	struct op *op = g->op;

	op->fd = some_fd(g, op->kind == OP_CLOSE);
	if (op->fd == OP_NOFD) {
		op_init(op, OP_STAT);
		return;
	}
	if (op->kind == OP_OPEN)
		old_path(g, S_IFREG, op->path);
	if (op->kind == OP_TMPFILE) {
		old_path(g, S_IFDIR, op->path);
		op->mode = 0600;
	}
}

static void gen_look(struct gen *g)
{
	switch (g->op->kind) {
	case OP_READLINK:
		old_path(g, S_IFLNK, g->op->path);
		break;
	case OP_READDIR:
		old_path(g, S_IFDIR, g->op->path);
		break;
	case OP_STAT:
		object(g, 0);
		break;
	default:
		break;
	}
}

static enum op_kind choose(struct gen *g)
{
	uint64_t sum = 0, at;
	unsigned k;

	for (k = 0; k < OP_KINDS; k++)
		sum += g->p->weight[k];
	at = below(g, sum);
	for (k = 0; at >= g->p->weight[k]; k++)
		at -= g->p->weight[k];
	if (k >= OP_CREATE && k <= OP_LINK && model_count(g->m) > CROWDED)
		k = op_rng_one_in(g->r, 3) ? OP_RMDIR : OP_UNLINK;
	return k;
}

void op_random(struct op_rng *r, const struct model *m, const struct op_profile *p,
	       struct op *ret)
{
	struct gen g = {r, m, p, ret};

	op_init(ret, choose(&g));
	switch (ret->kind) {
	case OP_CREATE:
	case OP_MKDIR:
	case OP_MKNOD:
	case OP_SYMLINK:
		gen_make(&g);
		break;
	case OP_LINK:
	case OP_UNLINK:
	case OP_RMDIR:
	case OP_RENAME:
		gen_names(&g);
		break;
	case OP_WRITE:
	case OP_APPEND:
	case OP_READ:
	case OP_SEEK:
		gen_content(&g);
		break;
	case OP_TRUNCATE:
		gen_truncate(&g);
		break;
	case OP_FALLOCATE:
		gen_fallocate(&g);
		break;
	case OP_CHMOD:
	case OP_CHOWN:
	case OP_UTIMENS:
		gen_attr(&g);
		break;
	case OP_SETXATTR:
	case OP_REMOVEXATTR:
	case OP_GETXATTR:
	case OP_LISTXATTR:
		gen_xattr(&g);
		break;
	case OP_OPEN:
	case OP_CLOSE:
	case OP_TMPFILE:
		gen_handle(&g);
		break;
	default:
		gen_look(&g);
	}
}
