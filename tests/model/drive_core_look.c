/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver of pmemfs in this process: looking. Every read is done both ways (pmemfs_read and
 * pmemfs_read_iov), every directory is listed both ways (plain and plus); if they disagree the
 * result is -EILSEQ, which nothing else gives.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "drive_core.h"

struct gather {
	uint8_t *buf;
	size_t len;
};

static int gather(void *arg, const struct iovec *iov, int n, size_t total)
{
	struct gather *g = arg;
	int k;

	for (k = 0; k < n; k++) {
		if (iov[k].iov_len > g->len)
			return -EILSEQ;
		memcpy(g->buf, iov[k].iov_base, iov[k].iov_len);
		g->buf += iov[k].iov_len;
		g->len -= iov[k].iov_len;
		total -= iov[k].iov_len;
	}
	return total ? -EILSEQ : 0;
}

int64_t core_read_both(struct core *c, uint64_t ino, uint64_t off, void *buf, size_t size)
{
	ssize_t n = pmemfs_read(c->fs, ino, off, buf, size);
	struct gather g = {malloc(size + 1), size};
	uint8_t *other = g.buf;
	int rc;

	if (!other)
		abort();
	rc = pmemfs_read_iov(c->fs, ino, off, size, gather, &g);
	if (rc != -ENOTSUP &&
	    (n < 0 ? rc != n
		   : rc || size - g.len != (size_t)n || memcmp(other, buf, (size_t)n)))
		n = -EILSEQ;
	free(other);
	return n;
}

/* ---- listing ---- */

static int list_entry(void *arg, const char *name, const struct pmemfs_attr *a, uint64_t cookie)
{
	struct listing *l = arg;
	struct entry *e;

	if (l->room && l->n == l->room)
		return 1;
	if (!(l->n & (l->n - 1)))
		l->e = realloc(l->e, (l->n ? 2 * l->n : 1) * sizeof(*l->e));
	if (!l->e)
		abort();
	e = &l->e[l->n++];
	snprintf(e->name, sizeof(e->name), "%s", name);
	e->ino = a->ino;
	e->type = (uint8_t)((a->mode & S_IFMT) >> 12);
	e->cookie = cookie;
	return 0;
}

/* The whole directory, in pieces of `room` entries (0: at once); l starts empty. */
static int list_dir(struct core *c, uint64_t dir, unsigned flags, size_t room,
		    struct listing *l)
{
	uint64_t cookie = 0;
	size_t had, k;
	int rc;

	do {
		had = l->n;
		l->room = room ? had + room : 0;
		rc = pmemfs_readdir(c->fs, dir, cookie, flags, list_entry, l);
		for (k = had; (flags & PMEMFS_READDIR_PLUS) && k < l->n; k++)
			if (!core_is_dots(l->e[k].name))
				pmemfs_forget(c->fs, l->e[k].ino, 1);
		if (l->n)
			cookie = l->e[l->n - 1].cookie;
	} while (!rc && l->n > had && room);
	return rc;
}

int core_list(struct core *c, uint64_t dir, struct listing *ret)
{
	struct listing a = {0}, b = {0};
	int rc = list_dir(c, dir, 0, 0, &a);
	int rc2 = list_dir(c, dir, PMEMFS_READDIR_PLUS, 3, &b);
	size_t k;

	if (rc != rc2 || a.n != b.n)
		rc = -EILSEQ;
	for (k = 0; !rc && k < a.n; k++)
		if (strcmp(a.e[k].name, b.e[k].name) || a.e[k].ino != b.e[k].ino ||
		    a.e[k].type != b.e[k].type || a.e[k].cookie != b.e[k].cookie ||
		    (k && a.e[k].cookie <= a.e[k - 1].cookie))
			rc = -EILSEQ;
	free(b.e);
	if (rc)
		free(a.e);
	else
		*ret = a;
	return rc;
}

/* ---- looking ---- */

static int core_root(struct driver *d, struct node *ret)
{
	ret->ino = 1;
	return 0;
}

static int core_handle(struct driver *d, int slot, struct node *ret)
{
	/* the handle's own reference is enough; drop must not give it back */
	ret->ino = core_of(d)->handle[slot];
	ret->fd = 1;
	return ret->ino ? 0 : -EBADF;
}

static int core_look(struct driver *d, const struct node *dir, const char *name,
		     struct node *ret)
{
	struct pmemfs_attr a, b;
	int rc = pmemfs_lookup(core_of(d)->fs, dir->ino, name, &a);

	if (rc)
		return rc;
	ret->ino = a.ino;
	ret->fd = 0;
	if (!S_ISDIR(a.mode))
		return 0;
	rc = pmemfs_lookup(core_of(d)->fs, a.ino, "..", &b);
	if (!rc) {
		core_put(core_of(d), b.ino);
		rc = b.ino == dir->ino ? 0 : -EILSEQ;
	}
	if (rc)
		core_put(core_of(d), a.ino);
	return rc;
}

static void core_drop(struct driver *d, struct node *n)
{
	if (n->ino != 1 && !n->fd)
		pmemfs_forget(core_of(d)->fs, n->ino, 1);
}

static int core_attr(struct driver *d, const struct node *n, struct view_inode *ret)
{
	struct pmemfs_attr a;
	int rc = pmemfs_getattr(core_of(d)->fs, n->ino, &a);

	if (rc)
		return rc;
	*ret = (struct view_inode){.ino = a.ino,
				   .mode = a.mode,
				   .uid = a.uid,
				   .gid = a.gid,
				   .nlink = a.nlink,
				   .major = a.rdev_major,
				   .minor = a.rdev_minor,
				   .size = a.size,
				   .blocks = a.blocks,
				   .atime = a.atime,
				   .mtime = a.mtime,
				   .ctime = a.ctime,
				   .btime = a.btime,
				   .has_btime = true};
	return 0;
}

static int core_readdir(struct driver *d, const struct node *n, drive_emit emit, void *arg)
{
	struct listing l = {0};
	int rc = core_list(core_of(d), n->ino, &l);
	size_t k;

	if (rc)
		return rc;
	for (k = 0; k < l.n; k++)
		emit(arg, l.e[k].name, l.e[k].ino, l.e[k].type);
	free(l.e);
	return 0;
}

static ssize_t core_readlink(struct driver *d, const struct node *n, char *buf, size_t size)
{
	return pmemfs_readlink(core_of(d)->fs, n->ino, buf, size);
}

static ssize_t core_listxattr(struct driver *d, const struct node *n, char *buf, size_t size)
{
	return pmemfs_listxattr(core_of(d)->fs, n->ino, buf, size);
}

static ssize_t core_getxattr(struct driver *d, const struct node *n, const char *name,
			     void *buf, size_t size)
{
	return pmemfs_getxattr(core_of(d)->fs, n->ino, name, buf, size);
}

static ssize_t core_read(struct driver *d, const struct node *n, uint64_t off, void *buf,
			 size_t size)
{
	return core_read_both(core_of(d), n->ino, off, buf, size);
}

static int64_t core_seek(struct driver *d, const struct node *n, uint64_t off, int whence)
{
	return pmemfs_seek(core_of(d)->fs, n->ino, off, whence);
}

static void core_statfs(struct driver *d, struct view *v)
{
	struct pmemfs_statfs st;

	pmemfs_statfs(core_of(d)->fs, &st);
	v->bfree = st.bfree;
	v->ffree = st.ffree;
}

static void core_close_all(struct driver *d)
{
	int k;

	for (k = 0; k < OP_FDS; k++)
		core_close(core_of(d), k);
}

static void core_free(struct driver *d)
{
	free(d);
}

static const struct driver_ops core_ops = {
    .name = "pmemfs",
    .apply = core_apply,
    .close_all = core_close_all,
    .free = core_free,
    .root = core_root,
    .handle = core_handle,
    .look = core_look,
    .drop = core_drop,
    .attr = core_attr,
    .readdir = core_readdir,
    .readlink = core_readlink,
    .listxattr = core_listxattr,
    .getxattr = core_getxattr,
    .read = core_read,
    .seek = core_seek,
    .statfs = core_statfs,
};

struct driver *drive_core_new(struct pmemfs *fs)
{
	struct core *c = calloc(1, sizeof(*c));

	if (!c)
		abort();
	c->d.ops = &core_ops;
	c->fs = fs;
	return &c->d;
}

void drive_core_set(struct driver *d, struct pmemfs *fs)
{
	struct core *c = core_of(d);

	c->fs = fs;
	memset(c->handle, 0, sizeof(c->handle));
}
