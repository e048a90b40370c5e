/* SPDX-License-Identifier: BSD-3-Clause */
/* The model's operations on names: making, linking, removing, renaming; and handles. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model_priv.h"

static void dent_add(struct minode *d, const char *name, uint64_t id)
{
	size_t at;

	m_find(d, name, &at);
	d->dents = m_grow(d->dents, d->n_dents + 1, sizeof(*d->dents));
	memmove(d->dents + at + 1, d->dents + at, (d->n_dents - at) * sizeof(*d->dents));
	d->dents[at] = (struct mdent){m_strdup(name), id};
	d->n_dents++;
}

static void dent_del(struct minode *d, const char *name)
{
	size_t at;

	if (!m_find(d, name, &at))
		abort();
	free(d->dents[at].name);
	d->n_dents--;
	memmove(d->dents + at, d->dents + at + 1, (d->n_dents - at) * sizeof(*d->dents));
}

static void dir_changed(struct model *m, struct minode *d)
{
	m_now(m, d, MTIME);
	m_now(m, d, CTIME);
}

/* Owner and mode of what is made in directory d: its set-group-id bit is passed on. */
static struct minode *make_in(struct model *m, const struct minode *d, const struct op *op)
{
	uint32_t type = op->mode & S_IFMT, mode = op->mode & 07777;
	uint32_t gid = (uint32_t)op->gid;
	struct minode *i;

	switch (op->kind) {
	case OP_MKDIR:
		type = S_IFDIR;
		mode &= 01777; /* as Linux does */
		break;
	case OP_SYMLINK:
		type = S_IFLNK;
		mode = 0777;
		break;
	case OP_MKNOD:
		break;
	default:
		type = S_IFREG;
	}
	if (d->mode & S_ISGID) {
		gid = d->gid;
		if (type == S_IFDIR)
			mode |= S_ISGID;
	}
	i = m_new_inode(m, type | mode, (uint32_t)op->uid, gid);
	m_acl_inherit(d, i);
	return i;
}

static int check_target(const struct op *op)
{
	size_t n = op->len ? (size_t)op->len : strlen(op->to);

	if (!n)
		return -ENOENT;
	return n > 4095 ? -ENAMETOOLONG : 0;
}

int64_t m_make(struct model *m, const struct op *op)
{
	uint64_t dir, id;
	const char *name;
	struct minode *d, *i;
	int rc = op->kind == OP_SYMLINK ? check_target(op) : 0;

	if (!rc && op->kind == OP_MKNOD && S_ISDIR(op->mode))
		rc = -EPERM;
	if (!rc && !*op->path)
		rc = -EEXIST;
	if (!rc)
		rc = m_parent(m, op->path, &dir, &name, &id);
	if (!rc && id)
		rc = -EEXIST;
	if (rc)
		return rc;
	d = m_mut(m, dir);
	i = make_in(m, d, op);
	if (S_ISDIR(i->mode)) {
		i->parent = dir;
		d->nlink++;
	}
	if (S_ISCHR(i->mode) || S_ISBLK(i->mode)) {
		i->major = op->major;
		i->minor = op->minor;
	}
	if (S_ISLNK(i->mode)) {
		i->target = m_alloc(4096);
		i->targetlen = i->size = op_target(op, i->target, 4095);
	}
	dent_add(d, name, i->id);
	dir_changed(m, d);
	return 0;
}

int64_t m_link(struct model *m, const struct op *op)
{
	uint64_t id, dir, old;
	const char *name;
	struct minode *i, *d;
	int rc = m_object(m, op, &id);

	if (!rc && !*op->to)
		rc = -EEXIST;
	if (!rc)
		rc = m_parent(m, op->to, &dir, &name, &old);
	if (rc)
		return rc;
	if (old)
		return -EEXIST;
	if (S_ISDIR(m_get(m, id)->mode))
		return -EPERM;
	if (!m_get(m, id)->nlink && !m_get(m, id)->linkable)
		return -ENOENT;
	if (m_get(m, id)->nlink >= m->o.link_max)
		return -EMLINK;
	i = m_mut(m, id);
	i->nlink++;
	i->linkable = false;
	m_now(m, i, CTIME);
	d = m_mut(m, dir);
	dent_add(d, name, id);
	dir_changed(m, d);
	return 0;
}

/* The inode loses the name that was just taken out of its directory. */
static void unlinked(struct model *m, uint64_t dir, uint64_t id)
{
	struct minode *i = m_mut(m, id);

	if (S_ISDIR(i->mode)) {
		i->nlink = 0;
		m_mut(m, dir)->nlink--;
	} else {
		i->nlink--;
	}
	m_now(m, i, CTIME);
	m_drop_if_dead(m, id);
}

int64_t m_remove(struct model *m, const struct op *op)
{
	uint64_t dir, id;
	const char *name;
	struct minode *d;
	int rc = *op->path ? m_parent(m, op->path, &dir, &name, &id) : -EBUSY;

	if (rc)
		return rc;
	if (!id)
		return -ENOENT;
	if (op->kind == OP_UNLINK && S_ISDIR(m_get(m, id)->mode))
		return -EISDIR;
	if (op->kind == OP_RMDIR && !S_ISDIR(m_get(m, id)->mode))
		return -ENOTDIR;
	if (op->kind == OP_RMDIR && m_get(m, id)->n_dents)
		return -ENOTEMPTY;
	d = m_mut(m, dir);
	dent_del(d, name);
	dir_changed(m, d);
	unlinked(m, dir, id);
	return 0;
}

/* ---- rename ---- */

struct ren {
	uint64_t dir, id, newdir, newid;
	const char *name, *newname;
	uint32_t flags;
};

/* Is a the directory b or above it? */
static bool is_above(const struct model *m, uint64_t a, uint64_t b)
{
	for (; b != M_ROOT; b = m_get(m, b)->parent)
		if (a == b)
			return true;
	return a == M_ROOT;
}

/* The checks in the order of Linux: flags, existence, ancestry, same object, types, emptiness.
 */
static int rename_check(const struct model *m, const struct ren *r)
{
	const struct minode *o, *n;
	bool exchange = r->flags & RENAME_EXCHANGE;

	if (!r->id)
		return -ENOENT;
	if ((r->flags & RENAME_NOREPLACE) && r->newid)
		return -EEXIST;
	if (exchange && !r->newid)
		return -ENOENT;
	o = m_get(m, r->id);
	if (S_ISDIR(o->mode) && is_above(m, r->id, r->newdir))
		return -EINVAL;
	if (!r->newid)
		return 0;
	n = m_get(m, r->newid);
	if (S_ISDIR(n->mode) && is_above(m, r->newid, r->dir))
		return exchange ? -EINVAL : -ENOTEMPTY;
	if (r->id == r->newid || exchange)
		return 0;
	if (S_ISDIR(o->mode) && !S_ISDIR(n->mode))
		return -ENOTDIR;
	if (!S_ISDIR(o->mode) && S_ISDIR(n->mode))
		return -EISDIR;
	return n->n_dents ? -ENOTEMPTY : 0;
}

static void move_dir(struct model *m, uint64_t id, uint64_t from, uint64_t to)
{
	if (!S_ISDIR(m_get(m, id)->mode) || from == to)
		return;
	m_mut(m, from)->nlink--;
	m_mut(m, to)->nlink++;
	m_mut(m, id)->parent = to;
}

static void set_dent(struct model *m, uint64_t dir, const char *name, uint64_t id)
{
	struct minode *d = m_mut(m, dir);
	size_t at;

	if (!m_find(d, name, &at))
		abort();
	d->dents[at].id = id;
}

/* A character device 0/0 without permissions stands where the name was. */
static void whiteout(struct model *m, uint64_t dir, const char *name)
{
	const struct minode *d = m_get(m, dir);
	uint32_t gid = d->mode & S_ISGID ? d->gid : 0;
	struct minode *i = m_new_inode(m, S_IFCHR, 0, gid);

	m_acl_inherit(m_get(m, dir), i);
	dent_add(m_mut(m, dir), name, i->id);
}

static void rename_do(struct model *m, const struct ren *r)
{
	if (r->flags & RENAME_EXCHANGE) {
		set_dent(m, r->dir, r->name, r->newid);
		set_dent(m, r->newdir, r->newname, r->id);
		move_dir(m, r->newid, r->newdir, r->dir);
		m_maybe(m, m_mut(m, r->newid), CTIME);
	} else {
		dent_del(m_mut(m, r->dir), r->name);
		if (r->newid) {
			dent_del(m_mut(m, r->newdir), r->newname);
			unlinked(m, r->newdir, r->newid);
		}
		dent_add(m_mut(m, r->newdir), r->newname, r->id);
		if (r->flags & RENAME_WHITEOUT)
			whiteout(m, r->dir, r->name);
	}
	move_dir(m, r->id, r->dir, r->newdir);
	m_maybe(m, m_mut(m, r->id), CTIME);
	dir_changed(m, m_mut(m, r->dir));
	dir_changed(m, m_mut(m, r->newdir));
}

int64_t m_rename(struct model *m, const struct op *op)
{
	struct ren r = {.flags = op->flags};
	int rc;

	if (r.flags & ~(uint32_t)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT) ||
	    (r.flags & RENAME_EXCHANGE && r.flags != RENAME_EXCHANGE))
		return -EINVAL;
	if (!*op->path || !*op->to)
		return -EBUSY;
	rc = m_parent(m, op->path, &r.dir, &r.name, &r.id);
	if (rc)
		return rc;
	rc = m_parent(m, op->to, &r.newdir, &r.newname, &r.newid);
	/* that there is nothing to rename is seen before the new name is looked at */
	if (rc == -ENAMETOOLONG && !r.id)
		rc = -ENOENT;
	if (!rc)
		rc = rename_check(m, &r);
	if (!rc && r.id != r.newid)
		rename_do(m, &r);
	return rc;
}

/* ---- handles ---- */

int64_t m_open(struct model *m, const struct op *op)
{
	struct minode *i;
	uint64_t id;
	int rc;

	if (op->fd < 0 || op->fd >= OP_FDS || m->handle[op->fd])
		return -EBADF;
	rc = m_walk(m, op->path, &id);
	if (rc)
		return rc;
	if (op->kind == OP_TMPFILE) {
		if (!S_ISDIR(m_get(m, id)->mode))
			return -ENOTDIR;
		i = make_in(m, m_get(m, id), op);
		i->nlink = 0;
		i->linkable = true;
		m->handle[op->fd] = i->id;
		return 0;
	}
	if (!S_ISREG(m_get(m, id)->mode))
		return S_ISDIR(m_get(m, id)->mode)   ? -EISDIR
		       : S_ISLNK(m_get(m, id)->mode) ? -ELOOP
						     : -EINVAL;
	m->handle[op->fd] = id;
	return 0;
}

int64_t m_close(struct model *m, int fd)
{
	uint64_t id;

	if (!model_fd_used(m, fd))
		return -EBADF;
	id = m->handle[fd];
	m->handle[fd] = 0;
	m_drop_if_dead(m, id);
	return 0;
}
