/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * POSIX access control lists, in the form in which Linux hands them over as extended
 * attributes: a version, then entries of tag, permissions and id, in ascending order of tag and
 * id.
 *
 * The mode has the last word: the entries of owner, others, and mask (or, without one, the
 * group) are written over with its bits whenever a list is read. So a change of mode is no
 * change of the list, and the two cannot disagree, on whatever image. A list that says no more
 * than a mode is not stored at all.
 */
#include "acl.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define ACL_VERSION 2u
#define ACL_MAX	    ((PMEMFS_XATTR_MAX - 4) / sizeof(struct acl_entry))

enum tag {
	USER_OBJ = 0x01,
	USER = 0x02,
	GROUP_OBJ = 0x04,
	GROUP = 0x08,
	MASK = 0x10,
	OTHER = 0x20,
};

struct acl_entry {
	le16 tag, perm;
	le32 id;
};
struct acl_head {
	le32 version;
};
_Static_assert(sizeof(struct acl_entry) == 8 && sizeof(struct acl_head) == 4, "as in Linux");

bool acl_is_access(const char *name)
{
	return !strcmp(name, ACL_ACCESS);
}

bool acl_is_name(const char *name)
{
	return acl_is_access(name) || !strcmp(name, ACL_DEFAULT);
}

/* Entry k; values lie at any address. */
static struct acl_entry entry_at(const void *acl, size_t k)
{
	struct acl_entry e;

	memcpy(&e, (const char *)acl + sizeof(struct acl_head) + k * sizeof(e), sizeof(e));
	return e;
}

static void set_perm(void *acl, size_t k, unsigned perm)
{
	struct acl_entry e = entry_at(acl, k);

	e.perm = put16(perm);
	memcpy((char *)acl + sizeof(struct acl_head) + k * sizeof(e), &e, sizeof(e));
}

static size_t count(size_t size)
{
	return size < sizeof(struct acl_head)
		   ? 0
		   : (size - sizeof(struct acl_head)) / sizeof(struct acl_entry);
}

/* Where in a mode the permissions of these entries stand; -1: nowhere. */
static int shift_of(unsigned tag, bool mask)
{
	switch (tag) {
	case USER_OBJ:
		return 6;
	case GROUP_OBJ:
		return mask ? -1 : 3;
	case MASK:
		return 3;
	case OTHER:
		return 0;
	default:
		return -1;
	}
}

static unsigned tags_of(const void *acl, size_t size)
{
	unsigned tags = 0;

	for (size_t k = 0; k < count(size); k++)
		tags |= get16(entry_at(acl, k).tag);
	return tags;
}

int acl_check(const void *acl, size_t size)
{
	const unsigned needed = USER_OBJ | GROUP_OBJ | OTHER;
	unsigned last = 0, tags = tags_of(acl, size);
	uint32_t last_id = 0;
	struct acl_head h;

	if (size < sizeof(h) || (size - sizeof(h)) % sizeof(struct acl_entry))
		return -EINVAL;
	memcpy(&h, acl, sizeof(h));
	if (get32(h.version) != ACL_VERSION || count(size) > ACL_MAX)
		return -EOPNOTSUPP;
	for (size_t k = 0; k < count(size); k++) {
		struct acl_entry e = entry_at(acl, k);
		unsigned tag = get16(e.tag);
		bool named = tag == USER || tag == GROUP;

		if (tag & (tag - 1) || !(tag & 0x3f) || get16(e.perm) & ~7u || tag < last ||
		    (tag == last && (!named || get32(e.id) <= last_id)))
			return -EINVAL;
		last = tag;
		last_id = get32(e.id);
	}
	if ((tags & needed) != needed || (tags & (USER | GROUP) && !(tags & MASK)))
		return -EINVAL;
	return 0;
}

uint32_t acl_mode(const void *acl, size_t size)
{
	bool mask = tags_of(acl, size) & MASK;
	uint32_t mode = 0;

	for (size_t k = 0; k < count(size); k++) {
		struct acl_entry e = entry_at(acl, k);
		int shift = shift_of(get16(e.tag), mask);

		if (shift >= 0)
			mode |= (get16(e.perm) & 7u) << shift;
	}
	return mode;
}

bool acl_is_mode(const void *acl, size_t size)
{
	return !(tags_of(acl, size) & (USER | GROUP | MASK));
}

void acl_fill(void *acl, size_t size, uint32_t mode)
{
	bool mask = tags_of(acl, size) & MASK;

	for (size_t k = 0; k < count(size); k++) {
		int shift = shift_of(get16(entry_at(acl, k).tag), mask);

		if (shift >= 0)
			set_perm(acl, k, (mode >> shift) & 7);
	}
}

static const struct xattr *find(const struct inode *i, const char *name)
{
	for (size_t n = 0; n < i->xattrs; n++)
		if (!strcmp(i->xattr[n].name, name))
			return &i->xattr[n];
	return NULL;
}

static void give(struct inode *i, const char *name, const struct xattr *from)
{
	struct xattr *x;

	i->xattr = grow_array(i->xattr, &i->xattrcap, i->xattrs + 1, sizeof(*x));
	x = &i->xattr[i->xattrs++];
	x->namelen = strlen(name);
	x->name = memcpy(xcalloc(1, x->namelen + 1), name, x->namelen);
	x->valuelen = from->valuelen;
	x->value = memcpy(xcalloc(1, x->valuelen + 1), from->value, x->valuelen);
}

void acl_inherit(const struct inode *dir, struct inode *i, uint32_t umask)
{
	const struct xattr *x = find(dir, ACL_DEFAULT);

	if (S_ISLNK(i->attr.mode))
		return;
	if (!x || acl_check(x->value, x->valuelen)) {
		i->attr.mode &= ~(umask & 0777);
		return;
	}
	i->attr.mode &= ~0777u | acl_mode(x->value, x->valuelen);
	if (!acl_is_mode(x->value, x->valuelen))
		give(i, ACL_ACCESS, x);
	if (S_ISDIR(i->attr.mode))
		give(i, ACL_DEFAULT, x);
}
