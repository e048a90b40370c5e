/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model's access control lists: kept as the bytes that getxattr gives, and brought up to
 * date whenever the mode changes, which is the other way round than in lib/.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model_priv.h"

enum { OWNER = 1, USER = 2, GROUP_OF = 4, GROUP = 8, MASK = 16, OTHERS = 32 };

static const uint8_t *entry(const struct mxattr *x, size_t at)
{
	return x->value + 4 + 8 * at;
}

static size_t entries(const struct mxattr *x)
{
	return (x->len - 4) / 8;
}

static bool has(const struct mxattr *x, int tag)
{
	for (size_t k = 0; k < entries(x); k++)
		if (entry(x, k)[0] == tag)
			return true;
	return false;
}

static struct mxattr *list_of(const struct minode *i, const char *name)
{
	size_t at;

	return m_find_xattr(i, name, &at) ? &i->xattrs[at] : NULL;
}

static void drop(struct minode *i, const char *name)
{
	size_t at;

	if (!m_find_xattr(i, name, &at))
		return;
	free(i->xattrs[at].name);
	free(i->xattrs[at].value);
	memmove(i->xattrs + at, i->xattrs + at + 1, (--i->n_xattrs - at) * sizeof(*i->xattrs));
}

static void put(struct minode *i, const char *name, const uint8_t *value, size_t len)
{
	size_t at;

	drop(i, name);
	m_find_xattr(i, name, &at);
	i->xattrs = m_grow(i->xattrs, i->n_xattrs + 1, sizeof(*i->xattrs));
	memmove(i->xattrs + at + 1, i->xattrs + at, (i->n_xattrs++ - at) * sizeof(*i->xattrs));
	i->xattrs[at] = (struct mxattr){m_strdup(name), m_alloc(len), len};
	memcpy(i->xattrs[at].value, value, len);
}

void m_acl_chmod(struct minode *i)
{
	struct mxattr *x = list_of(i, OP_ACL_ACCESS);

	for (size_t k = 0; x && k < entries(x); k++) {
		uint8_t *e = x->value + 4 + 8 * k;

		if (e[0] == OWNER)
			e[2] = (i->mode >> 6) & 7;
		else if (e[0] == OTHERS)
			e[2] = i->mode & 7;
		else if (e[0] == (has(x, MASK) ? MASK : GROUP_OF))
			e[2] = (i->mode >> 3) & 7;
	}
}

static uint32_t mode_of(const struct mxattr *x)
{
	uint32_t mode = 0;

	for (size_t k = 0; k < entries(x); k++) {
		uint32_t perm = entry(x, k)[2];

		if (entry(x, k)[0] == OWNER)
			mode |= perm << 6;
		else if (entry(x, k)[0] == OTHERS)
			mode |= perm;
		else if (entry(x, k)[0] == (has(x, MASK) ? MASK : GROUP_OF))
			mode |= perm << 3;
	}
	return mode;
}

int64_t m_acl_set(struct minode *i, const struct op *op)
{
	uint8_t bytes[OP_ACL_MAX];
	struct mxattr x = {NULL, bytes, (size_t)op->len};

	if (S_ISLNK(i->mode))
		return -EOPNOTSUPP;
	if (op->len < OP_ACL_MIN || op->len > OP_ACL_MAX || op->len % 8 != 4)
		return -EINVAL;
	op_value(op, bytes);
	if (strcmp(op->to, OP_ACL_ACCESS)) {
		if (!S_ISDIR(i->mode))
			return -EACCES;
		put(i, op->to, bytes, x.len);
		return 0;
	}
	i->mode = (i->mode & ~0777u) | mode_of(&x);
	if (has(&x, USER) || has(&x, GROUP) || has(&x, MASK))
		put(i, op->to, bytes, x.len);
	else
		drop(i, op->to);
	return 0;
}

void m_acl_inherit(const struct minode *d, struct minode *i)
{
	const struct mxattr *x = list_of(d, OP_ACL_DEFAULT);

	if (!x || S_ISLNK(i->mode))
		return;
	i->mode &= ~0777u | mode_of(x);
	if (has(x, USER) || has(x, GROUP) || has(x, MASK))
		put(i, OP_ACL_ACCESS, x->value, x->len);
	m_acl_chmod(i);
	if (S_ISDIR(i->mode))
		put(i, OP_ACL_DEFAULT, x->value, x->len);
}
