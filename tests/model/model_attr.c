/* SPDX-License-Identifier: BSD-3-Clause */
/* The model's operations on attributes: mode, owner, times, extended attributes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "model_priv.h"

#define M_XATTR_MAX 65536u

static void chown_do(struct minode *i, const struct op *op)
{
	if (op->uid >= 0)
		i->uid = (uint32_t)op->uid;
	if (op->gid >= 0)
		i->gid = (uint32_t)op->gid;
	if (S_ISDIR(i->mode))
		return;
	/* a new owner must not inherit the power of set-id bits; without group execution the
	 * set-group-id bit means something else and stays */
	i->mode &= ~(uint32_t)S_ISUID;
	if (i->mode & S_IXGRP)
		i->mode &= ~(uint32_t)S_ISGID;
}

static void set_time(struct model *m, struct minode *i, int which, const struct timespec *t)
{
	if (t->tv_nsec == UTIME_OMIT)
		return;
	if (t->tv_nsec == UTIME_NOW) {
		m_now(m, i, which);
	} else {
		i->t[which].may = T_EXACT;
		i->t[which].exact = *t;
	}
}

int64_t m_setattr(struct model *m, const struct op *op)
{
	struct minode *i;
	uint64_t id;
	int rc = m_object(m, op, &id);

	if (rc)
		return rc;
	if (op->kind == OP_UTIMENS && op->atime.tv_nsec == UTIME_OMIT &&
	    op->mtime.tv_nsec == UTIME_OMIT)
		return 0;
	if (op->kind == OP_CHMOD && S_ISLNK(m_get(m, id)->mode))
		return -EOPNOTSUPP;
	i = m_mut(m, id);
	if (op->kind == OP_CHMOD) {
		i->mode = (i->mode & S_IFMT) | (op->mode & 07777);
		m_acl_chmod(i);
	} else if (op->kind == OP_CHOWN) {
		chown_do(i, op);
	} else {
		set_time(m, i, ATIME, &op->atime);
		set_time(m, i, MTIME, &op->mtime);
	}
	m_now(m, i, CTIME);
	return 0;
}

/* ---- extended attributes ---- */

bool m_find_xattr(const struct minode *i, const char *name, size_t *ret)
{
	size_t k;

	for (k = 0; k < i->n_xattrs && strcmp(i->xattrs[k].name, name) < 0; k++)
		;
	*ret = k;
	return k < i->n_xattrs && !strcmp(i->xattrs[k].name, name);
}

static int check_name(const struct minode *i, const char *name, int refused)
{
	static const char *const spaces[] = {"user.", "trusted.", "security."};
	size_t k, n;

	if (op_is_acl(name))
		return S_ISLNK(i->mode) ? -EOPNOTSUPP : 0;
	for (k = 0; k < 3; k++) {
		n = strlen(spaces[k]);
		if (strncmp(name, spaces[k], n))
			continue;
		if (k == 0 && !S_ISREG(i->mode) && !S_ISDIR(i->mode))
			return refused;
		return name[n] ? 0 : -EINVAL;
	}
	return -EOPNOTSUPP;
}

static int check_length(const char *name)
{
	size_t n = strlen(name);

	return !n || n > 255 ? -ERANGE : 0;
}

int64_t m_setxattr(struct model *m, const struct op *op)
{
	struct minode *i;
	struct mxattr *x;
	uint64_t id;
	size_t at;
	bool found;
	int rc = m_object(m, op, &id);

	if (!rc)
		rc = check_length(op->to);
	if (!rc && op->len > M_XATTR_MAX)
		rc = -E2BIG;
	if (!rc)
		rc = check_name(m_get(m, id), op->to, -EPERM);
	if (rc)
		return rc;
	found = m_find_xattr(m_get(m, id), op->to, &at);
	if ((op->flags & XATTR_CREATE) && found)
		return -EEXIST;
	if ((op->flags & XATTR_REPLACE) && !found)
		return -ENODATA;
	i = m_mut(m, id);
	if (op_is_acl(op->to)) {
		rc = (int)m_acl_set(i, op);
		if (!rc)
			m_now(m, i, CTIME);
		return rc;
	}
	if (!found) {
		i->xattrs = m_grow(i->xattrs, i->n_xattrs + 1, sizeof(*i->xattrs));
		memmove(i->xattrs + at + 1, i->xattrs + at,
			(i->n_xattrs - at) * sizeof(*i->xattrs));
		i->n_xattrs++;
		i->xattrs[at] = (struct mxattr){m_strdup(op->to), NULL, 0};
	}
	x = &i->xattrs[at];
	free(x->value);
	x->len = (size_t)op->len;
	x->value = m_alloc(x->len);
	op_value(op, x->value);
	m_now(m, i, CTIME);
	return 0;
}

int64_t m_removexattr(struct model *m, const struct op *op)
{
	struct minode *i;
	uint64_t id;
	size_t at;
	int rc = m_object(m, op, &id);

	if (!rc)
		rc = check_length(op->to);
	if (!rc)
		rc = check_name(m_get(m, id), op->to, -EPERM);
	if (rc)
		return rc;
	if (!m_find_xattr(m_get(m, id), op->to, &at)) {
		if (op_is_acl(op->to))
			m_maybe(m, m_mut(m, id), CTIME);
		return op_is_acl(op->to) ? 0 : -ENODATA;
	}
	i = m_mut(m, id);
	free(i->xattrs[at].name);
	free(i->xattrs[at].value);
	i->n_xattrs--;
	memmove(i->xattrs + at, i->xattrs + at + 1, (i->n_xattrs - at) * sizeof(*i->xattrs));
	m_now(m, i, CTIME);
	return 0;
}

int64_t m_getxattr(const struct model *m, const struct op *op, struct op_result *res)
{
	const struct mxattr *x;
	uint64_t id;
	size_t at;
	int rc = m_object(m, op, &id);

	if (!rc)
		rc = check_length(op->to);
	if (!rc)
		rc = check_name(m_get(m, id), op->to, -ENODATA);
	if (rc)
		return rc;
	if (!m_find_xattr(m_get(m, id), op->to, &at))
		return -ENODATA;
	x = &m_get(m, id)->xattrs[at];
	if (op->len && op->len < x->len)
		return -ERANGE;
	if (op->len)
		op_result_set(res, (int64_t)x->len, x->value, x->len);
	return (int64_t)x->len;
}

int64_t m_listxattr(const struct model *m, const struct op *op, struct op_result *res)
{
	const struct minode *i;
	uint64_t id;
	size_t len = 0, k;
	char *buf;
	int rc = m_object(m, op, &id);

	if (rc)
		return rc;
	i = m_get(m, id);
	for (k = 0; k < i->n_xattrs; k++)
		len += strlen(i->xattrs[k].name) + 1;
	buf = m_alloc(len);
	for (k = len = 0; k < i->n_xattrs; k++) {
		strcpy(buf + len, i->xattrs[k].name);
		len += strlen(buf + len) + 1;
	}
	op_result_set(res, (int64_t)len, buf, len);
	free(buf);
	return (int64_t)len;
}
