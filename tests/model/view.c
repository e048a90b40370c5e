/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collects a view through a driver: every object below the root and behind the handles, each
 * once. What contradicts itself on the way (d_ino and st_ino, "..", a listed name that cannot
 * be looked up, an unreadable file) is kept as the view's problem: the first one counts.
 *
 * Directories are descended recursively; their depth is small in all tests.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drive.h"

#define FULL_READ  (4u << 20)
#define XATTR_LIST (256u << 10)

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

static void problem(struct view *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void problem(struct view *v, const char *fmt, ...)
{
	va_list ap;

	if (v->problem)
		return;
	va_start(ap, fmt);
	if (vasprintf(&v->problem, fmt, ap) < 0)
		abort();
	va_end(ap);
}

/* ---- inodes by number ---- */

static size_t *slot_of(const struct view *v, uint64_t ino)
{
	size_t h = (size_t)(ino * 0x9e3779b97f4a7c15ull) & (v->hash_size - 1);

	while (v->hash[h] && v->inodes[v->hash[h] - 1].ino != ino)
		h = (h + 1) & (v->hash_size - 1);
	return &v->hash[h];
}

static size_t find_ino(const struct view *v, uint64_t ino)
{
	size_t at = v->hash_size ? *slot_of(v, ino) : 0;

	return at ? at - 1 : VIEW_NONE;
}

static size_t add_inode(struct view *v, const struct view_inode *i)
{
	size_t k;

	if (2 * v->n_inodes >= v->hash_size) {
		v->hash_size = v->hash_size ? 2 * v->hash_size : 64;
		free(v->hash);
		v->hash = must(calloc(v->hash_size, sizeof(*v->hash)));
		v->inodes = must(reallocarray(v->inodes, v->hash_size / 2 + 1, sizeof(*i)));
		for (k = 0; k < v->n_inodes; k++)
			*slot_of(v, v->inodes[k].ino) = k + 1;
	}
	v->inodes[v->n_inodes] = *i;
	*slot_of(v, i->ino) = ++v->n_inodes;
	return v->n_inodes - 1;
}

/* ---- contents ---- */

static const uint8_t zeros[VIEW_BLOCK];

/* Keeps the blocks of buf that are not zero; off is a multiple of the block size. */
static void keep_blocks(struct view_inode *i, uint64_t off, const uint8_t *buf, size_t len)
{
	size_t at, n;
	uint64_t last = i->n_data ? i->data[i->n_data - 1].number : 0;

	for (at = 0; at < len; at += n) {
		uint64_t number = (off + at) / VIEW_BLOCK;
		struct view_block *b;

		n = len - at < VIEW_BLOCK ? len - at : VIEW_BLOCK;
		if (!memcmp(buf + at, zeros, n) || (i->n_data && number <= last))
			continue;
		if (!(i->n_data & (i->n_data - 1)))
			i->data = must(reallocarray(i->data, i->n_data ? 2 * i->n_data : 1,
						    sizeof(*i->data)));
		b = &i->data[i->n_data++];
		b->number = number;
		b->bytes = must(calloc(1, VIEW_BLOCK));
		memcpy(b->bytes, buf + at, n);
	}
}

static void read_range(struct driver *d, struct view *v, const struct node *n,
		       struct view_inode *i, uint64_t from, uint64_t to)
{
	while (from < to) {
		size_t want = to - from < FULL_READ ? to - from : FULL_READ;
		ssize_t got;

		if (want > d->bufsize) {
			free(d->buf);
			d->buf = must(malloc(want));
			d->bufsize = want;
		}
		got = d->ops->read(d, n, from, d->buf, want);
		if (got != (ssize_t)want) {
			problem(v,
				"inode %" PRIu64 ": reading %zu bytes at %" PRIu64
				" of %" PRIu64 " gave %zd",
				i->ino, want, from, i->size, got);
			return;
		}
		keep_blocks(i, from, d->buf, want);
		from += want;
	}
}

/* Where SEEK_DATA sees data, and one block more on both sides. */
static void read_sparse(struct driver *d, struct view *v, const struct node *n,
			struct view_inode *i)
{
	int64_t from = 0, to;

	while ((uint64_t)from < i->size) {
		from = d->ops->seek(d, n, (uint64_t)from, SEEK_DATA);
		if (from == -ENXIO)
			return;
		to = from < 0 ? from : d->ops->seek(d, n, (uint64_t)from, SEEK_HOLE);
		if (to <= from) {
			problem(v,
				"inode %" PRIu64 ": seeking data or hole gave %" PRId64
				" after %" PRId64,
				i->ino, to, from);
			return;
		}
		from -= from % VIEW_BLOCK;
		if (from)
			from -= VIEW_BLOCK;
		read_range(d, v, n, i, (uint64_t)from,
			   (uint64_t)to + VIEW_BLOCK < i->size ? (uint64_t)to + VIEW_BLOCK
							       : i->size);
		from = to;
	}
}

static void read_data(struct driver *d, struct view *v, const struct node *n,
		      struct view_inode *i, const struct view_options *o)
{
	uint64_t whole = o && o->full_read ? o->full_read : FULL_READ;
	uint8_t past;
	ssize_t got;

	if (i->size <= whole)
		read_range(d, v, n, i, 0, i->size);
	else
		read_sparse(d, v, n, i);
	got = d->ops->read(d, n, i->size, &past, 1);
	if (got)
		problem(v, "inode %" PRIu64 ": reading at the end gave %zd, not 0", i->ino,
			got);
}

/* ---- one inode ---- */

static int by_xattr(const void *a, const void *b)
{
	return strcmp(((const struct view_xattr *)a)->name,
		      ((const struct view_xattr *)b)->name);
}

static void read_xattrs(struct driver *d, struct view *v, const struct node *n,
			struct view_inode *i)
{
	char small[1024], *list = small, *name;
	ssize_t len = d->ops->listxattr(d, n, small, sizeof(small));
	struct view_xattr *x;
	ssize_t got;

	if (len == -ERANGE) {
		list = must(malloc(XATTR_LIST));
		len = d->ops->listxattr(d, n, list, XATTR_LIST);
	}
	if (len < 0 && len != -EOPNOTSUPP)
		problem(v, "inode %" PRIu64 ": listxattr gave %zd", i->ino, len);
	for (name = list; name < list + len; name += strlen(name) + 1) {
		i->xattrs = must(reallocarray(i->xattrs, i->n_xattrs + 1, sizeof(*x)));
		x = &i->xattrs[i->n_xattrs++];
		x->name = must(strdup(name));
		got = d->ops->getxattr(d, n, name, NULL, 0);
		x->len = got > 0 ? (size_t)got : 0;
		x->value = must(malloc(x->len + 1));
		if (got > 0)
			got = d->ops->getxattr(d, n, name, x->value, x->len);
		if (got != (ssize_t)x->len)
			problem(v, "inode %" PRIu64 ": value of %s gave %zd, not %zu", i->ino,
				name, got, x->len);
	}
	if (i->n_xattrs)
		qsort(i->xattrs, i->n_xattrs, sizeof(*x), by_xattr);
	if (list != small)
		free(list);
}

static void read_target(struct driver *d, struct view *v, const struct node *n,
			struct view_inode *i)
{
	ssize_t len;

	i->target = must(malloc(4200));
	len = d->ops->readlink(d, n, i->target, 4200);
	if (len < 0)
		problem(v, "inode %" PRIu64 ": readlink gave %zd", i->ino, len);
	i->targetlen = len > 0 ? (size_t)len : 0;
}

/* Attributes and contents of what is seen for the first time. */
static int see(struct driver *d, struct view *v, const struct node *n,
	       const struct view_options *o, size_t *ret, bool *ret_first)
{
	struct view_inode i = {0};
	size_t at;
	int rc = d->ops->attr(d, n, &i);

	if (rc)
		return rc;
	at = find_ino(v, i.ino);
	*ret_first = at == VIEW_NONE;
	if (*ret_first) {
		if (S_ISREG(i.mode) && !(o && o->no_data))
			read_data(d, v, n, &i, o);
		if (S_ISLNK(i.mode))
			read_target(d, v, n, &i);
		read_xattrs(d, v, n, &i);
		at = add_inode(v, &i);
	}
	*ret = at;
	return 0;
}

/* ---- directories ---- */

struct list {
	struct view *v;
	uint64_t ino, parent;
	struct view_dent *dents;
	size_t n;
	int dot, dotdot;
};

static void emit(void *arg, const char *name, uint64_t d_ino, uint8_t d_type)
{
	struct list *l = arg;

	if (!strcmp(name, ".") || !strcmp(name, "..")) {
		bool up = name[1];

		*(up ? &l->dotdot : &l->dot) += 1;
		if (d_ino != (up ? l->parent : l->ino) && l->parent)
			problem(l->v, "inode %" PRIu64 ": d_ino of \"%s\" is %" PRIu64, l->ino,
				name, d_ino);
		return;
	}
	if (!(l->n & (l->n - 1)))
		l->dents = must(reallocarray(l->dents, l->n ? 2 * l->n : 1, sizeof(*l->dents)));
	l->dents[l->n++] = (struct view_dent){must(strdup(name)), VIEW_NONE, d_ino, d_type};
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct view_dent *)a)->name, ((const struct view_dent *)b)->name);
}

static void see_dir(struct driver *d, struct view *v, const struct node *n, size_t at,
		    uint64_t parent, const struct view_options *o);

static void see_entry(struct driver *d, struct view *v, const struct node *dir, uint64_t ino,
		      struct view_dent *e, const struct view_options *o)
{
	struct node n;
	bool first = false;
	int rc = d->ops->look(d, dir, e->name, &n);

	if (!rc) {
		rc = see(d, v, &n, o, &e->inode, &first);
		if (!rc && first && S_ISDIR(v->inodes[e->inode].mode))
			see_dir(d, v, &n, e->inode, ino, o);
		d->ops->drop(d, &n);
	}
	if (rc) {
		problem(v,
			"inode %" PRIu64 " lists \"%s\" (%" PRIu64 "), looking at it gave %d",
			ino, e->name, e->d_ino, rc);
		e->inode = 0;
	}
}

static void see_dir(struct driver *d, struct view *v, const struct node *n, size_t at,
		    uint64_t parent, const struct view_options *o)
{
	struct list l = {.v = v, .ino = v->inodes[at].ino, .parent = parent};
	int rc = d->ops->readdir(d, n, emit, &l);
	size_t k;

	if (rc)
		problem(v, "inode %" PRIu64 ": readdir gave %d", l.ino, rc);
	else if (l.dot != 1 || l.dotdot != 1)
		problem(v,
			"inode %" PRIu64 ": readdir lists \".\" %d times and \"..\" %d times",
			l.ino, l.dot, l.dotdot);
	if (l.n)
		qsort(l.dents, l.n, sizeof(*l.dents), by_name);
	for (k = 0; k < l.n; k++) {
		if (k && !strcmp(l.dents[k - 1].name, l.dents[k].name))
			problem(v, "inode %" PRIu64 " lists \"%s\" twice", l.ino,
				l.dents[k].name);
		see_entry(d, v, n, l.ino, &l.dents[k], o);
	}
	v->inodes[at].dents = l.dents;
	v->inodes[at].n_dents = l.n;
}

static void view_init(struct view *v)
{
	int k;

	memset(v, 0, sizeof(*v));
	for (k = 0; k < OP_FDS; k++)
		v->handle[k] = VIEW_NONE;
}

int drive_view(struct driver *d, const struct view_options *o, struct view *ret)
{
	struct view v;
	struct node n;
	bool first;
	size_t at;
	int rc, k;

	view_init(&v);
	rc = d->ops->root(d, &n);
	if (rc)
		return rc;
	rc = see(d, &v, &n, o, &at, &first);
	if (!rc)
		see_dir(d, &v, &n, at, 0, o);
	d->ops->drop(d, &n);
	for (k = 0; !rc && k < OP_FDS; k++) {
		if (d->ops->handle(d, k, &n))
			continue;
		rc = see(d, &v, &n, o, &v.handle[k], &first);
		d->ops->drop(d, &n);
	}
	d->ops->statfs(d, &v);
	clock_gettime(CLOCK_REALTIME, &v.taken);
	if (rc)
		view_clear(&v);
	else
		*ret = v;
	return rc;
}

/* Follows the path without touching what stands beside it. */
static int find_node(struct driver *d, const char *path, struct node *ret)
{
	struct node n, next;
	char name[OP_PATH_MAX];
	int rc = d->ops->root(d, &n);

	while (!rc && *path) {
		size_t len = strcspn(path, "/");

		memcpy(name, path, len);
		name[len] = 0;
		rc = d->ops->look(d, &n, name, &next);
		d->ops->drop(d, &n);
		n = next;
		path += len + (path[len] == '/');
	}
	if (!rc)
		*ret = n;
	return rc;
}

int drive_view_one(struct driver *d, const char *path, int fd, const struct view_options *o,
		   struct view *ret)
{
	struct view v;
	struct node n;
	bool first;
	size_t at;
	int rc;

	view_init(&v);
	rc = fd == OP_NOFD ? find_node(d, path, &n) : d->ops->handle(d, fd, &n);
	if (!rc) {
		rc = see(d, &v, &n, o, &at, &first);
		d->ops->drop(d, &n);
	} else if (rc == -ENOENT || rc == -ENOTDIR || rc == -ENAMETOOLONG || rc == -EBADF) {
		rc = 0;
	}
	clock_gettime(CLOCK_REALTIME, &v.taken);
	if (rc)
		view_clear(&v);
	else
		*ret = v;
	return rc;
}

/* ---- the rest of a view's life ---- */

void view_clear(struct view *v)
{
	size_t k, j;

	for (k = 0; k < v->n_inodes; k++) {
		struct view_inode *i = &v->inodes[k];

		for (j = 0; j < i->n_xattrs; j++) {
			free(i->xattrs[j].name);
			free(i->xattrs[j].value);
		}
		for (j = 0; j < i->n_data; j++)
			free(i->data[j].bytes);
		for (j = 0; j < i->n_dents; j++)
			free(i->dents[j].name);
		free(i->xattrs);
		free(i->data);
		free(i->dents);
		free(i->target);
	}
	free(v->inodes);
	free(v->hash);
	free(v->problem);
	view_init(v);
}

void drive_apply(struct driver *d, const struct op *op, struct op_result *res)
{
	memset(res, 0, sizeof(*res));
	d->ops->apply(d, op, res);
}

void drive_close_all(struct driver *d)
{
	d->ops->close_all(d);
}

void drive_free(struct driver *d)
{
	if (!d)
		return;
	free(d->buf);
	d->ops->free(d);
}

const char *drive_name(const struct driver *d)
{
	return d->ops->name;
}

static int by_string(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void drive_sort_names(char *list, size_t len)
{
	char *copy = must(malloc(len + 1)), **names, *p;
	size_t n = 0, k;

	memcpy(copy, list, len);
	for (p = copy; p < copy + len; p += strlen(p) + 1)
		n++;
	names = must(malloc((n + 1) * sizeof(*names)));
	for (p = copy, n = 0; p < copy + len; p += strlen(p) + 1)
		names[n++] = p;
	if (n)
		qsort(names, n, sizeof(*names), by_string);
	for (k = 0; k < n; k++)
		list = stpcpy(list, names[k]) + 1;
	free(names);
	free(copy);
}
