/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference model: its inodes, their life, paths, and the table of operations.
 *
 * Invariants:
 *  1. inodes[id]->id == id. An id is never used again.
 *  2. An inode with refs > 1 belongs to several models and is copied before it is changed
 *     (m_mut); the same holds for pages.
 *  3. Every inode in the table has a name (or is the root) or a handle.
 *  4. Bytes of the last page behind the end of the file are zero; a written segment is one
 * block. One thread; no locks.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model_priv.h"

void *m_alloc(size_t n)
{
	void *p = calloc(1, n ? n : 1);

	if (!p)
		abort();
	return p;
}

void *m_grow(void *p, size_t n, size_t size)
{
	p = reallocarray(p, n ? n : 1, size);
	if (!p)
		abort();
	return p;
}

char *m_strdup(const char *s)
{
	size_t n = strlen(s) + 1;

	return memcpy(m_alloc(n), s, n);
}

/* ---- inodes ---- */

static void inode_put(struct minode *i)
{
	size_t k;

	if (!i || --i->refs)
		return;
	for (k = 0; k < i->n_segs; k++)
		if (i->segs[k].page && !--i->segs[k].page->refs)
			free(i->segs[k].page);
	for (k = 0; k < i->n_dents; k++)
		free(i->dents[k].name);
	for (k = 0; k < i->n_xattrs; k++) {
		free(i->xattrs[k].name);
		free(i->xattrs[k].value);
	}
	free(i->segs);
	free(i->dents);
	free(i->xattrs);
	free(i->target);
	free(i);
}

static void copy_lists(struct minode *c, const struct minode *i)
{
	size_t k;

	c->dents = m_alloc(i->n_dents * sizeof(*c->dents));
	for (k = 0; k < i->n_dents; k++)
		c->dents[k] = (struct mdent){m_strdup(i->dents[k].name), i->dents[k].id};
	c->xattrs = m_alloc(i->n_xattrs * sizeof(*c->xattrs));
	for (k = 0; k < i->n_xattrs; k++) {
		c->xattrs[k].name = m_strdup(i->xattrs[k].name);
		c->xattrs[k].len = i->xattrs[k].len;
		c->xattrs[k].value = m_alloc(i->xattrs[k].len);
		memcpy(c->xattrs[k].value, i->xattrs[k].value, i->xattrs[k].len);
	}
}

const struct minode *m_get(const struct model *m, uint64_t id)
{
	return m->inodes[id];
}

struct minode *m_mut(struct model *m, uint64_t id)
{
	struct minode *i = m->inodes[id], *c;
	size_t k;

	if (i->refs == 1)
		return i;
	c = m_alloc(sizeof(*c));
	*c = *i;
	c->refs = 1;
	i->refs--;
	c->cap_segs = i->n_segs;
	c->segs = m_alloc(i->n_segs * sizeof(*c->segs));
	for (k = 0; k < i->n_segs; k++) {
		c->segs[k] = i->segs[k];
		if (c->segs[k].page)
			c->segs[k].page->refs++;
	}
	copy_lists(c, i);
	if (i->target) {
		c->target = m_alloc(i->targetlen + 1);
		memcpy(c->target, i->target, i->targetlen);
	}
	m->inodes[id] = c;
	return c;
}

struct minode *m_new_inode(struct model *m, uint32_t mode, uint32_t uid, uint32_t gid)
{
	struct minode *i = m_alloc(sizeof(*i));
	int k;

	if (m->n_inodes == m->cap_inodes) {
		m->cap_inodes = m->cap_inodes ? 2 * m->cap_inodes : 16;
		m->inodes = m_grow(m->inodes, m->cap_inodes, sizeof(*m->inodes));
	}
	i->refs = 1;
	i->id = m->n_inodes++;
	i->mode = mode;
	i->uid = uid;
	i->gid = gid;
	i->nlink = S_ISDIR(mode) ? 2 : 1;
	for (k = 0; k < TIMES; k++)
		m_now(m, i, k);
	m->inodes[i->id] = i;
	return i;
}

void m_drop_if_dead(struct model *m, uint64_t id)
{
	int k;

	if (m->inodes[id]->nlink)
		return;
	for (k = 0; k < OP_FDS; k++)
		if (m->handle[k] == id)
			return;
	inode_put(m->inodes[id]);
	m->inodes[id] = NULL;
}

void m_now(struct model *m, struct minode *i, int which)
{
	i->t[which].may = T_NOW;
	i->t[which].lo = m->clock;
}

void m_maybe(struct model *m, struct minode *i, int which)
{
	/* what may already be "now" keeps its earlier bound */
	if (i->t[which].may & T_NOW)
		return;
	i->t[which].may |= T_NOW;
	i->t[which].lo = m->clock;
}

/* ---- life of a model ---- */

struct model *model_new(const struct model_options *o)
{
	struct model *m = m_alloc(sizeof(*m));
	struct minode *root;

	if (o)
		m->o = *o;
	if (!m->o.root_mode)
		m->o.root_mode = 0755;
	if (!m->o.file_max)
		m->o.file_max = 1ull << 56;
	if (!m->o.link_max)
		m->o.link_max = 0x7fffffff;
	m_new_inode(m, 0, 0, 0);
	inode_put(m->inodes[0]);
	m->inodes[0] = NULL;
	root = m_new_inode(m, S_IFDIR | (m->o.root_mode & 07777), m->o.root_uid, m->o.root_gid);
	root->parent = M_ROOT;
	return m;
}

struct model *model_clone(const struct model *m)
{
	struct model *c = m_alloc(sizeof(*c));
	size_t k;

	*c = *m;
	c->cap_inodes = c->n_inodes;
	c->inodes = m_alloc(c->n_inodes * sizeof(*c->inodes));
	for (k = 0; k < c->n_inodes; k++) {
		c->inodes[k] = m->inodes[k];
		if (c->inodes[k])
			c->inodes[k]->refs++;
	}
	return c;
}

void model_free(struct model *m)
{
	size_t k;

	if (!m)
		return;
	for (k = 0; k < m->n_inodes; k++)
		inode_put(m->inodes[k]);
	free(m->inodes);
	free(m);
}

void model_clock(struct model *m, const struct timespec *now)
{
	m->clock = *now;
}

/* ---- paths ---- */

bool m_find(const struct minode *d, const char *name, size_t *ret)
{
	size_t lo = 0, hi = d->n_dents;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int c = strcmp(d->dents[mid].name, name);

		if (!c) {
			*ret = mid;
			return true;
		}
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	*ret = lo;
	return false;
}

/* One step: the entry `name` (len bytes) of the object. */
static int step(const struct model *m, uint64_t dir, const char *name, size_t len,
		uint64_t *ret)
{
	const struct minode *d = m_get(m, dir);
	char buf[M_NAME_MAX + 1];
	size_t at;

	if (!S_ISDIR(d->mode))
		return -ENOTDIR;
	if (len > M_NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(buf, name, len);
	buf[len] = 0;
	if (!m_find(d, buf, &at))
		return -ENOENT;
	*ret = d->dents[at].id;
	return 0;
}

static int walk_to(const struct model *m, const char *path, const char *end, uint64_t *ret)
{
	uint64_t id = M_ROOT;
	int rc;

	while (path < end) {
		size_t n = strcspn(path, "/");

		rc = step(m, id, path, n, &id);
		if (rc)
			return rc;
		path += n + (path + n < end);
	}
	*ret = id;
	return 0;
}

int m_walk(const struct model *m, const char *path, uint64_t *ret)
{
	return walk_to(m, path, path + strlen(path), ret);
}

int m_object(const struct model *m, const struct op *op, uint64_t *ret)
{
	if (op->fd == OP_NOFD)
		return m_walk(m, op->path, ret);
	if (!model_fd_used(m, op->fd))
		return -EBADF;
	*ret = m->handle[op->fd];
	return 0;
}

int m_parent(const struct model *m, const char *path, uint64_t *ret_dir, const char **ret_name,
	     uint64_t *ret_id)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	uint64_t dir, id = 0;
	int rc;

	rc = walk_to(m, path, slash ? slash : path, &dir);
	if (rc)
		return rc;
	rc = step(m, dir, name, strlen(name), &id);
	if (rc && rc != -ENOENT)
		return rc;
	*ret_dir = dir;
	*ret_name = name;
	*ret_id = rc ? 0 : id;
	return 0;
}

/* ---- looking ---- */

static int64_t readdir_op(struct model *m, uint64_t id, struct op_result *res)
{
	const struct minode *d = m_get(m, id);
	size_t len = 0, k;
	char *buf;

	if (!S_ISDIR(d->mode))
		return -ENOTDIR;
	for (k = 0; k < d->n_dents; k++)
		len += strlen(d->dents[k].name) + 1;
	buf = m_alloc(len);
	for (k = len = 0; k < d->n_dents; k++) {
		strcpy(buf + len, d->dents[k].name);
		len += strlen(buf + len) + 1;
	}
	op_result_set(res, 0, buf, len);
	free(buf);
	if (m->o.loose_atime)
		m_maybe(m, m_mut(m, id), ATIME);
	return (int64_t)res->ret;
}

static int64_t readlink_op(struct model *m, uint64_t id, struct op_result *res)
{
	const struct minode *i = m_get(m, id);

	if (!S_ISLNK(i->mode))
		return -EINVAL;
	op_result_set(res, (int64_t)i->targetlen, i->target, i->targetlen);
	if (m->o.loose_atime)
		m_maybe(m, m_mut(m, id), ATIME);
	return res->ret;
}

static int64_t look(struct model *m, const struct op *op, struct op_result *res)
{
	uint64_t id;
	int rc = m_object(m, op, &id);

	if (rc || op->kind == OP_STAT)
		return rc;
	if (op->kind == OP_READDIR)
		return readdir_op(m, id, res);
	return readlink_op(m, id, res);
}

static int close_all(struct model *m)
{
	int k;

	for (k = 0; k < OP_FDS; k++)
		if (m->handle[k])
			m_close(m, k);
	return 0;
}

static int64_t apply(struct model *m, const struct op *op, struct op_result *res)
{
	switch (op->kind) {
	case OP_CREATE:
	case OP_MKDIR:
	case OP_MKNOD:
	case OP_SYMLINK:
		return m_make(m, op);
	case OP_LINK:
		return m_link(m, op);
	case OP_UNLINK:
	case OP_RMDIR:
		return m_remove(m, op);
	case OP_RENAME:
		return m_rename(m, op);
	case OP_WRITE:
	case OP_APPEND:
		return m_write(m, op);
	case OP_TRUNCATE:
		return m_truncate(m, op);
	case OP_FALLOCATE:
		return m_fallocate(m, op);
	case OP_CHMOD:
	case OP_CHOWN:
	case OP_UTIMENS:
		return m_setattr(m, op);
	case OP_SETXATTR:
		return m_setxattr(m, op);
	case OP_REMOVEXATTR:
		return m_removexattr(m, op);
	case OP_OPEN:
	case OP_TMPFILE:
		return m_open(m, op);
	case OP_CLOSE:
		return m_close(m, op->fd);
	case OP_READ:
		return m_read(m, op, res);
	case OP_SEEK:
		return m_seek(m, op);
	case OP_GETXATTR:
		return m_getxattr(m, op, res);
	case OP_LISTXATTR:
		return m_listxattr(m, op, res);
	case OP_READLINK:
	case OP_READDIR:
	case OP_STAT:
		return look(m, op, res);
	case OP_REMOUNT:
	case OP_CRASH:
		return close_all(m);
	case OP_NONE:
	case OP_SYNC:
		return 0;
	case OP_KINDS:
		break;
	}
	return -ENOSYS;
}

int64_t model_apply(struct model *m, const struct op *op, struct op_result *res)
{
	struct op_result r = {0};

	r.ret = apply(m, op, &r);
	if (res)
		*res = r;
	else
		free(r.data);
	return r.ret;
}

int model_stat(const struct model *m, const char *path, int fd, struct model_attr *ret)
{
	const struct minode *i;
	uint64_t id;
	int rc = 0;

	if (fd == OP_NOFD)
		rc = m_walk(m, path, &id);
	else if (model_fd_used(m, fd))
		id = m->handle[fd];
	else
		rc = -EBADF;
	if (rc)
		return rc;
	i = m_get(m, id);
	*ret = (struct model_attr){id,	     i->mode, i->uid,	      i->gid,
				   i->nlink, i->size, 8 * m_blocks(i)};
	return 0;
}

bool model_fd_used(const struct model *m, int fd)
{
	return fd >= 0 && fd < OP_FDS && m->handle[fd];
}

struct walk {
	int (*fn)(void *arg, const char *path, const struct model_attr *a);
	void *arg;
	char path[OP_PATH_MAX];
};

/* The tree's depth is bounded by the length of a path. */
static int walk_tree(const struct model *m, struct walk *w, uint64_t id, size_t len)
{
	const struct minode *i = m_get(m, id);
	struct model_attr a = {id, i->mode, i->uid, i->gid, i->nlink, i->size, 8 * m_blocks(i)};
	int rc = w->fn(w->arg, w->path, &a);
	size_t k, n;

	for (k = 0; !rc && k < i->n_dents; k++) {
		n = (size_t)snprintf(w->path + len, sizeof(w->path) - len, "%s%s",
				     len ? "/" : "", i->dents[k].name);
		if (len + n < sizeof(w->path))
			rc = walk_tree(m, w, i->dents[k].id, len + n);
		w->path[len] = 0;
	}
	return rc;
}

int model_walk(const struct model *m,
	       int (*fn)(void *arg, const char *path, const struct model_attr *a), void *arg)
{
	struct walk w = {fn, arg, ""};

	return walk_tree(m, &w, M_ROOT, 0);
}

size_t model_count(const struct model *m)
{
	size_t k, n = 0;

	for (k = 0; k < m->n_inodes; k++)
		n += m->inodes[k] && m->inodes[k]->nlink;
	return n;
}

struct pick {
	struct op_rng *r;
	uint32_t type;
	uint64_t seen;
	char *path;
};

/* Reservoir of one. */
static int pick_one(void *arg, const char *path, const struct model_attr *a)
{
	struct pick *p = arg;

	if (p->type ? (a->mode & S_IFMT) != p->type : !*path)
		return 0;
	if (!op_rng_below(p->r, ++p->seen))
		strcpy(p->path, path);
	return 0;
}

bool model_pick(const struct model *m, struct op_rng *r, uint32_t type, char path[OP_PATH_MAX])
{
	struct pick p = {r, type, 0, path};

	model_walk(m, pick_one, &p);
	return p.seen > 0;
}
