/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Comparing a view with the model, learning times from it, comparing two models, printing.
 *
 * The comparison walks both trees together; names and objects must correspond one to one, so
 * that a hard link that became a copy (or a copy that became a link) is a difference.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model_priv.h"

struct cmp {
	const struct model *m;
	const struct view *v;
	unsigned flags;
	size_t *inode_of; /* by id: index in the view, VIEW_NONE unknown */
	uint64_t *id_of;  /* by index in the view: id, 0 unknown */
	const char *path;
	char *why;
	size_t whylen;
	struct model *learn; /* not comparing: taking times over */
};

static bool differ(struct cmp *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool differ(struct cmp *c, const char *fmt, ...)
{
	va_list ap;
	char *p;
	int n;

	n = snprintf(c->why, c->whylen, "/%s: ", c->path);
	va_start(ap, fmt);
	if (n >= 0 && (size_t)n < c->whylen)
		vsnprintf(c->why + n, c->whylen - (size_t)n, fmt, ap);
	va_end(ap);
	for (p = c->why; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = '?';
	return false;
}

/* ---- attributes ---- */

static int time_cmp(const struct timespec *a, const struct timespec *b)
{
	if (a->tv_sec != b->tv_sec)
		return a->tv_sec < b->tv_sec ? -1 : 1;
	return a->tv_nsec < b->tv_nsec ? -1 : a->tv_nsec > b->tv_nsec;
}

static bool cmp_time(struct cmp *c, const char *name, const struct mtime *t,
		     const struct timespec *got)
{
	if ((t->may & T_EXACT) && !time_cmp(&t->exact, got))
		return true;
	if ((t->may & T_NOW) && time_cmp(got, &t->lo) >= 0 && time_cmp(got, &c->v->taken) <= 0)
		return true;
	if (t->may & T_EXACT)
		return differ(c, "%s should be %" PRId64 ".%09ld%s, is %" PRId64 ".%09ld", name,
			      (int64_t)t->exact.tv_sec, t->exact.tv_nsec,
			      t->may & T_NOW ? " or the time of the operation" : "",
			      (int64_t)got->tv_sec, got->tv_nsec);
	return differ(c,
		      "%s should be the time of the operation (%" PRId64 ".%09ld to %" PRId64
		      ".%09ld), is %" PRId64 ".%09ld",
		      name, (int64_t)t->lo.tv_sec, t->lo.tv_nsec, (int64_t)c->v->taken.tv_sec,
		      c->v->taken.tv_nsec, (int64_t)got->tv_sec, got->tv_nsec);
}

static bool cmp_times(struct cmp *c, const struct minode *i, const struct view_inode *v)
{
	if (c->flags & MODEL_CMP_NO_TIMES)
		return true;
	/* looking at a symlink counts as reading it, which no flag of open(2) prevents */
	if (!(c->flags & MODEL_CMP_NO_ATIME) && !(c->m->o.loose_atime && S_ISLNK(i->mode)) &&
	    !cmp_time(c, "atime", &i->t[ATIME], &v->atime))
		return false;
	if (!cmp_time(c, "mtime", &i->t[MTIME], &v->mtime) ||
	    !cmp_time(c, "ctime", &i->t[CTIME], &v->ctime))
		return false;
	return !v->has_btime || cmp_time(c, "btime", &i->t[BTIME], &v->btime);
}

static bool cmp_attr(struct cmp *c, const struct minode *i, const struct view_inode *v)
{
	if (i->mode != v->mode)
		return differ(c, "mode should be 0%o, is 0%o", i->mode, v->mode);
	if (i->uid != v->uid || i->gid != v->gid)
		return differ(c, "owner should be %u:%u, is %u:%u", i->uid, i->gid, v->uid,
			      v->gid);
	if (i->nlink != v->nlink)
		return differ(c, "nlink should be %u, is %u", i->nlink, v->nlink);
	if (!S_ISDIR(i->mode) && i->size != v->size)
		return differ(c, "size should be %" PRIu64 ", is %" PRIu64, i->size, v->size);
	if ((S_ISCHR(i->mode) || S_ISBLK(i->mode)) &&
	    (i->major != v->major || i->minor != v->minor))
		return differ(c, "device should be %u:%u, is %u:%u", i->major, i->minor,
			      v->major, v->minor);
	if ((c->flags & MODEL_CMP_BLOCKS) && S_ISREG(i->mode) && 8 * m_blocks(i) != v->blocks)
		return differ(c, "st_blocks should be %" PRIu64 ", is %" PRIu64,
			      8 * m_blocks(i), v->blocks);
	if (S_ISLNK(i->mode) &&
	    (i->targetlen != v->targetlen || memcmp(i->target, v->target, i->targetlen)))
		return differ(c,
			      "target should be \"%.*s\" (%zu bytes), is \"%.*s\" (%zu bytes)",
			      (int)i->targetlen, i->target, i->targetlen, (int)v->targetlen,
			      v->target, v->targetlen);
	return true;
}

static bool cmp_xattrs(struct cmp *c, const struct minode *i, const struct view_inode *v)
{
	size_t k;

	for (k = 0; k < i->n_xattrs || k < v->n_xattrs; k++) {
		const struct mxattr *a = k < i->n_xattrs ? &i->xattrs[k] : NULL;
		const struct view_xattr *b = k < v->n_xattrs ? &v->xattrs[k] : NULL;
		int o = !a ? 1 : !b ? -1 : strcmp(a->name, b->name);

		if (o < 0)
			return differ(c, "xattr %s is missing", a->name);
		if (o > 0)
			return differ(c, "xattr %s should not be there", b->name);
		if (a->len != b->len)
			return differ(c, "xattr %s should have %zu bytes, has %zu", a->name,
				      a->len, b->len);
		if (memcmp(a->value, b->value, a->len))
			return differ(c, "xattr %s has the wrong value", a->name);
	}
	return true;
}

/* ---- contents ---- */

static const uint8_t zeros[M_BLOCK];

static bool block_differs(struct cmp *c, uint64_t block, const uint8_t *want,
			  const uint8_t *got)
{
	char a[3 * 8 + 1] = "", b[3 * 8 + 1] = "";
	size_t at = 0, n = 0, k;

	while (want[at] == got[at])
		at++;
	for (k = at; k < M_BLOCK; k++)
		n += want[k] != got[k];
	for (k = 0; k < 8 && at + k < M_BLOCK; k++) {
		snprintf(a + 3 * k, 4, "%02x ", want[at + k]);
		snprintf(b + 3 * k, 4, "%02x ", got[at + k]);
	}
	return differ(c,
		      "%zu bytes of block %" PRIu64 " differ, from offset %" PRIu64
		      " on: should be %sis %s",
		      n, block, block * M_BLOCK + at, a, b);
}

static bool cmp_data(struct cmp *c, const struct minode *i, const struct view_inode *v)
{
	size_t a = 0, b = 0;

	while (a < i->n_segs || b < v->n_data) {
		const struct seg *s = a < i->n_segs ? &i->segs[a] : NULL;
		const struct view_block *w = b < v->n_data ? &v->data[b] : NULL;

		if (s && !s->page) {
			a++;
			continue;
		}
		if (s && (!w || s->start < w->number)) {
			if (memcmp(s->page->b, zeros, M_BLOCK))
				return block_differs(c, s->start, s->page->b, zeros);
			a++;
		} else if (!s || w->number < s->start) {
			if (memcmp(w->bytes, zeros, M_BLOCK))
				return block_differs(c, w->number, zeros, w->bytes);
			b++;
		} else {
			if (memcmp(s->page->b, w->bytes, M_BLOCK))
				return block_differs(c, s->start, s->page->b, w->bytes);
			a++;
			b++;
		}
	}
	return true;
}

/* ---- trees ---- */

static bool cmp_inode(struct cmp *c, uint64_t id, size_t at)
{
	const struct minode *i = m_get(c->m, id);
	const struct view_inode *v = &c->v->inodes[at];

	if (c->learn)
		return true;
	if (!cmp_attr(c, i, v) || !cmp_xattrs(c, i, v))
		return false;
	if (S_ISREG(i->mode) && !(c->flags & MODEL_CMP_NO_DATA) && !cmp_data(c, i, v))
		return false;
	return cmp_times(c, i, v);
}

static void learn_time(struct mtime *t, const struct timespec *got)
{
	t->may = T_EXACT;
	t->exact = *got;
}

static void learn_inode(struct model *m, uint64_t id, const struct view_inode *v)
{
	const struct minode *i = m_get(m, id);
	struct minode *w;
	int k;

	for (k = 0; k < TIMES && i->t[k].may == T_EXACT; k++)
		;
	if (k == TIMES)
		return;
	w = m_mut(m, id);
	learn_time(&w->t[ATIME], &v->atime);
	learn_time(&w->t[MTIME], &v->mtime);
	learn_time(&w->t[CTIME], &v->ctime);
	if (v->has_btime)
		learn_time(&w->t[BTIME], &v->btime);
}

/* Pairs id with the view's inode; *ret_first says whether it is the first time. */
static bool pair(struct cmp *c, uint64_t id, size_t at, bool *ret_first)
{
	*ret_first = c->inode_of[id] == VIEW_NONE && !c->id_of[at];
	if (*ret_first) {
		c->inode_of[id] = at;
		c->id_of[at] = id;
		if (c->learn)
			learn_inode(c->learn, id, &c->v->inodes[at]);
		return true;
	}
	if (c->inode_of[id] == at)
		return true;
	if (c->inode_of[id] == VIEW_NONE)
		return differ(c, "is the same object as another name, should be its own");
	return differ(c, "should be a link to an object seen before, is another object");
}

static uint8_t type_of(uint32_t mode)
{
	return (uint8_t)((mode & S_IFMT) >> 12);
}

static bool cmp_dir(struct cmp *c, uint64_t id, size_t at, char *path, size_t len);

static bool cmp_entry(struct cmp *c, uint64_t id, const struct view_dent *d, char *path,
		      size_t len)
{
	const struct view_inode *v = &c->v->inodes[d->inode];
	bool first;

	c->path = path;
	if (d->d_ino != v->ino)
		return differ(c, "d_ino is %" PRIu64 ", st_ino is %" PRIu64, d->d_ino, v->ino);
	if (d->d_type != type_of(v->mode))
		return differ(c, "d_type is %u, the mode 0%o", d->d_type, v->mode);
	if (!pair(c, id, d->inode, &first))
		return false;
	if (!first)
		return true;
	if (!cmp_inode(c, id, d->inode))
		return false;
	return !S_ISDIR(v->mode) || cmp_dir(c, id, d->inode, path, len);
}

static bool cmp_dir(struct cmp *c, uint64_t id, size_t at, char *path, size_t len)
{
	const struct minode *i = m_get(c->m, id);
	const struct view_inode *v = &c->v->inodes[at];
	size_t k, n;
	bool ok = true;

	for (k = 0; ok && (k < i->n_dents || k < v->n_dents); k++) {
		const char *a = k < i->n_dents ? i->dents[k].name : NULL;
		const char *b = k < v->n_dents ? v->dents[k].name : NULL;
		int o = !a ? 1 : !b ? -1 : strcmp(a, b);

		n = (size_t)snprintf(path + len, OP_PATH_MAX - len, "%s%s", len ? "/" : "",
				     o <= 0 ? a : b);
		/* the path is for messages only, and may be cut */
		if (len + n >= OP_PATH_MAX)
			n = OP_PATH_MAX - 1 - len;
		c->path = path;
		if (o < 0)
			ok = differ(c, "is missing");
		else if (o > 0)
			ok = differ(c, "should not be there");
		else
			ok = cmp_entry(c, i->dents[k].id, &v->dents[k], path, len + n);
		path[len] = 0;
	}
	return ok;
}

static bool cmp_handles(struct cmp *c)
{
	bool ok = true, first;
	char name[16];
	int k;

	for (k = 0; ok && k < OP_FDS; k++) {
		snprintf(name, sizeof(name), "(fd %d)", k);
		c->path = name;
		if (!c->m->handle[k] && c->v->handle[k] == VIEW_NONE)
			continue;
		if (!c->m->handle[k] || c->v->handle[k] == VIEW_NONE)
			ok = differ(c, "should%s be open", c->m->handle[k] ? "" : " not");
		else
			ok = pair(c, c->m->handle[k], c->v->handle[k], &first) &&
			     (!first || cmp_inode(c, c->m->handle[k], c->v->handle[k]));
	}
	return ok;
}

static bool run(struct cmp *c)
{
	char path[OP_PATH_MAX] = "";
	bool first, ok;
	size_t k;

	c->path = path;
	if (c->v->problem && !c->learn) {
		snprintf(c->why, c->whylen, "%s", c->v->problem);
		return false;
	}
	c->inode_of = m_alloc(c->m->n_inodes * sizeof(*c->inode_of));
	c->id_of = m_alloc(c->v->n_inodes * sizeof(*c->id_of));
	for (k = 0; k < c->m->n_inodes; k++)
		c->inode_of[k] = VIEW_NONE;
	ok = pair(c, M_ROOT, 0, &first) && cmp_inode(c, M_ROOT, 0) &&
	     cmp_dir(c, M_ROOT, 0, path, 0) && cmp_handles(c);
	free(c->inode_of);
	free(c->id_of);
	return ok;
}

bool model_compare(const struct model *m, const struct view *v, unsigned flags, char *why,
		   size_t whylen)
{
	struct cmp c = {.m = m, .v = v, .flags = flags, .why = why, .whylen = whylen};

	return run(&c);
}

void model_learn(struct model *m, const struct view *v)
{
	char why[8];
	struct cmp c = {.m = m, .v = v, .why = why, .whylen = sizeof(why), .learn = m};

	run(&c);
}

static int id_of(const struct model *m, const char *path, int fd, uint64_t *ret)
{
	struct op op;

	op_init(&op, OP_STAT);
	op.fd = fd;
	snprintf(op.path, sizeof(op.path), "%s", path ? path : "");
	return m_object(m, &op, ret);
}

bool model_compare_one(const struct model *m, const char *path, int fd, const struct view *v,
		       unsigned flags, char *why, size_t whylen)
{
	struct cmp c = {.m = m, .v = v, .flags = flags, .why = why, .whylen = whylen};
	uint64_t id;
	int rc = id_of(m, path, fd, &id);
	char name[16];

	snprintf(name, sizeof(name), "(fd %d)", fd);
	c.path = fd == OP_NOFD ? path : name;
	if (v->problem) {
		snprintf(why, whylen, "%s", v->problem);
		return false;
	}
	if (rc && !v->n_inodes)
		return true;
	if (rc)
		return differ(&c, "should not be there");
	if (!v->n_inodes)
		return differ(&c, "is missing");
	return cmp_inode(&c, id, 0);
}

void model_learn_one(struct model *m, const char *path, int fd, const struct view *v)
{
	uint64_t id;

	if (v->n_inodes && !id_of(m, path, fd, &id))
		learn_inode(m, id, &v->inodes[0]);
}
