/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An inode in DRAM: what its log says.
 *
 * inode_apply is the only function that changes an inode's state, when its log is read and when
 * an operation commits: what a crash leaves is replayed by the very code that ran before it. It
 * believes nothing: records of a hostile image verify too.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/sysmacros.h>

#include "fs.h"

struct inode *inode_new(uint64_t ino, uint64_t slot)
{
	struct inode *i = aligned_alloc(_Alignof(struct inode), sizeof(*i));

	if (!i)
		abort();
	memset(i, 0, sizeof(*i));
	i->ino = ino;
	i->slot = slot;
	i->attr.ino = ino;
	pthread_rwlock_init(&i->lock, NULL);
	return i;
}

void inode_clear(struct inode *i)
{
	rangemap_free(&i->extents);
	dir_clear(&i->dir);
	log_free(&i->log);
	free(i->target);
	i->target = NULL;
	for (size_t n = 0; n < i->xattrs; n++) {
		free(i->xattr[n].name);
		free(i->xattr[n].value);
	}
	free(i->xattr);
	i->xattr = NULL;
	i->xattrs = i->xattrcap = 0;
	i->written = 0;
}

void inode_delete(struct inode *i)
{
	inode_clear(i);
	pthread_rwlock_destroy(&i->lock);
	free(i);
}

static struct timespec time_get(const struct pmemfs_time *t)
{
	return (struct timespec){(int64_t)get64(t->sec), get32(t->nsec)};
}

struct mapping {
	struct inode *inode;
	struct extvec *freed;
	uint64_t keep; /* a block range that stays in use though its mapping is replaced */
	uint64_t keeplen;
};

/* A piece of the map went: its blocks are free unless the new extent uses them in place. */
static void piece_gone(void *arg, const struct range *piece)
{
	struct mapping *m = arg;
	uint64_t block = range_block(piece), len = piece->len, head;

	if (!(range_flags(piece) & (PMEMFS_EXT_UNWRITTEN | PMEMFS_EXT_NOCSUM)))
		m->inode->written -= len;
	if (!m->freed)
		return;
	if (m->keeplen && block < m->keep + m->keeplen && m->keep < block + len) {
		head = m->keep > block ? m->keep - block : 0;
		if (head)
			extvec_add(m->freed, block, head);
		if (block + len > m->keep + m->keeplen)
			extvec_add(m->freed, m->keep + m->keeplen,
				   block + len - m->keep - m->keeplen);
		return;
	}
	extvec_add(m->freed, block, len);
}

/* Decodes and checks an extent. ret->len is its blocks, csum is left 0. */
static int extent_get(struct pmemfs *fs, const struct inode *i, const struct pmemfs_extent *e,
		      struct range *ret)
{
	uint64_t where = get64(e->where), what = get64(e->what);
	struct range r = {where >> 20, where & PMEMFS_EXTENT_MAX, what, 0};
	unsigned flags = range_flags(&r);

	if (!r.len || r.start + r.len > PMEMFS_FBLOCK_MAX)
		return -EUCLEAN;
	if (inode_is_table(i) ? flags & ~(PMEMFS_EXT_NOCSUM | PMEMFS_EXT_HOLE) || !flags
			      : flags & ~(PMEMFS_EXT_UNWRITTEN | PMEMFS_EXT_HOLE))
		return -EUCLEAN;
	if (flags & PMEMFS_EXT_HOLE) {
		if (range_block(&r) || flags != PMEMFS_EXT_HOLE)
			return -EUCLEAN;
	} else if (!blocks_valid(fs, range_block(&r), r.len)) {
		return -EUCLEAN;
	}
	*ret = r;
	return 0;
}

static bool extent_has_csum(const struct range *r)
{
	return !range_flags(r);
}

static int apply_extents(struct pmemfs *fs, struct inode *i, const struct pmemfs_extent *e,
			 unsigned n, uint64_t csums, uint64_t bytes, struct extvec *freed)
{
	struct mapping m = {i, freed, 0, 0};
	struct range r, old;

	for (unsigned k = 0; k < n; k++) {
		int err = extent_get(fs, i, &e[k], &r);

		if (err)
			return err;
		if (extent_has_csum(&r)) {
			if (r.len * 8 > bytes)
				return -EUCLEAN;
			bytes -= r.len * 8;
			r.csum = csums;
			csums += r.len * 8;
			i->written += r.len;
		}
		m.keep = range_block(&r);
		m.keeplen = range_flags(&r) & PMEMFS_EXT_HOLE ? 0 : r.len;
		if (m.keeplen && rangemap_replace(&i->extents, &r, &old)) {
			piece_gone(&m, &old);
			continue;
		}
		rangemap_cut(&i->extents, r.start, r.start + r.len, piece_gone, &m);
		if (m.keeplen)
			rangemap_insert(&i->extents, r);
	}
	return bytes ? -EUCLEAN : 0;
}

static bool mode_ok(const struct inode *i, uint32_t mode, bool first)
{
	if (!first && (mode & S_IFMT) != (i->attr.mode & S_IFMT))
		return false;
	switch (mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFLNK:
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		return !(mode & ~(S_IFMT | 07777));
	default:
		return false;
	}
}

static int apply_perm(struct inode *i, const struct pmemfs_perm *p, bool base)
{
	uint32_t mode = get32(p->mode);

	if (!mode_ok(i, mode, base))
		return -EUCLEAN;
	i->attr.mode = mode;
	i->attr.uid = get32(p->uid);
	i->attr.gid = get32(p->gid);
	i->attr.flags = get32(p->flags);
	return 0;
}

static int apply_size(struct inode *i, uint64_t size, struct extvec *freed)
{
	struct mapping m = {i, freed, 0, 0};

	if (inode_is_dir(i)) {
		if (size < i->dir.next_cookie)
			return -EUCLEAN;
		i->dir.next_cookie = size;
		return 0;
	}
	if (size > PMEMFS_FBLOCK_MAX * PMEMFS_BLOCK_SIZE)
		return -EUCLEAN;
	if (size < i->attr.size)
		rangemap_cut(&i->extents, DIV_UP(size, PMEMFS_BLOCK_SIZE), PMEMFS_FBLOCK_MAX,
			     piece_gone, &m);
	i->attr.size = size;
	return 0;
}

static void apply_base(struct inode *i, const struct pmemfs_base *b)
{
	uint32_t rdev = get32(b->rdev);

	i->attr.btime = time_get(&b->btime);
	i->attr.generation = get32(b->generation);
	i->attr.rdev_major = (rdev >> 8) & 0xfff;
	i->attr.rdev_minor = (rdev & 0xff) | ((rdev >> 12) & ~0xffu);
}

uint32_t update_fields_size(unsigned mask)
{
	return (mask & UP_SIZE ? 8 : 0) + (mask & UP_PERM ? sizeof(struct pmemfs_perm) : 0) +
	       (mask & UP_NLINK ? 8 : 0) + (mask & UP_ATIME ? sizeof(struct pmemfs_time) : 0) +
	       (mask & UP_MTIME ? sizeof(struct pmemfs_time) : 0) + (mask & UP_PARENT ? 8 : 0) +
	       (mask & UP_BASE ? sizeof(struct pmemfs_base) : 0);
}

static void *put_field(void *to, const void *field, size_t len)
{
	return (char *)memcpy(to, field, len) + len;
}

static struct pmemfs_time time_put(const struct timespec *t)
{
	return (struct pmemfs_time){put64(t->tv_sec), put32(t->tv_nsec), {0}};
}

void *update_put(struct pmemfs_update *u, unsigned mask, const struct pmemfs_attr *a,
		 uint64_t parent)
{
	le64 size = put64(a->size), nlink = put64(a->nlink), above = put64(parent);
	struct pmemfs_perm perm = {put32(a->mode), put32(a->uid), put32(a->gid),
				   put32(a->flags)};
	struct pmemfs_time atime = time_put(&a->atime), mtime = time_put(&a->mtime);
	struct pmemfs_base base = {time_put(&a->btime), put32(a->generation),
				   put32((a->rdev_minor & 0xff) | a->rdev_major << 8 |
					 (a->rdev_minor & ~0xffu) << 12)};
	void *p = u + 1;

	*u = (struct pmemfs_update){.h.type = REC_UPDATE, .mask = put16(mask)};
	u->ctime_sec = put64(a->ctime.tv_sec);
	u->ctime_nsec = put32(a->ctime.tv_nsec);
	if (mask & UP_SIZE)
		p = put_field(p, &size, sizeof(size));
	if (mask & UP_PERM)
		p = put_field(p, &perm, sizeof(perm));
	if (mask & UP_NLINK)
		p = put_field(p, &nlink, sizeof(nlink));
	if (mask & UP_ATIME)
		p = put_field(p, &atime, sizeof(atime));
	if (mask & UP_MTIME)
		p = put_field(p, &mtime, sizeof(mtime));
	if (mask & UP_PARENT)
		p = put_field(p, &above, sizeof(above));
	if (mask & UP_BASE)
		p = put_field(p, &base, sizeof(base));
	u->h.len = put16(((char *)p - (char *)u) / 8);
	return p;
}

static int apply_fields(struct inode *i, const struct pmemfs_update *u, const uint8_t *p,
			struct extvec *freed)
{
	unsigned mask = get16(u->mask);
	const uint8_t *size = NULL;
	int err = 0;

	i->attr.ctime = (struct timespec){(int64_t)get64(u->ctime_sec), get32(u->ctime_nsec)};
	if (mask & UP_SIZE) { /* after the type is known */
		size = p;
		p += 8;
	}
	if (mask & UP_PERM) {
		err = apply_perm(i, (const void *)p, mask & UP_BASE);
		p += sizeof(struct pmemfs_perm);
	}
	if (mask & UP_NLINK) {
		uint64_t nlink = get64(*(const le64 *)p);

		if (nlink > PMEMFS_LINK_MAX)
			return -EUCLEAN;
		i->attr.nlink = (uint32_t)nlink;
		p += 8;
	}
	if (mask & UP_ATIME) {
		i->attr.atime = time_get((const void *)p);
		p += sizeof(struct pmemfs_time);
	}
	if (mask & UP_MTIME) {
		i->attr.mtime = time_get((const void *)p);
		p += sizeof(struct pmemfs_time);
	}
	if (mask & UP_MNOW)
		i->attr.mtime = i->attr.ctime;
	if (mask & UP_PARENT) {
		i->parent = get64(*(const le64 *)p);
		p += 8;
	}
	if (mask & UP_BASE)
		apply_base(i, (const void *)p);
	if (size && !err)
		err = apply_size(i, get64(*(const le64 *)size), freed);
	return err;
}

static int apply_update(struct pmemfs *fs, struct inode *i, const struct pmemfs_update *u,
			uint64_t off, struct extvec *freed)
{
	unsigned mask = get16(u->mask), n = get16(u->extents);
	uint32_t len = rec_len(&u->h), fixed = sizeof(*u) + update_fields_size(mask);
	uint32_t head = fixed + n * (uint32_t)sizeof(struct pmemfs_extent);
	bool first = get32(u->h.seq) == 1 && off != CSUM_PENDING && !i->loaded;
	int err;

	if (len < head || mask & ~UP_KNOWN || (mask & UP_BASE && !first) ||
	    (first && (~mask & (UP_BASE | UP_PERM | UP_NLINK | UP_SIZE))))
		return -EUCLEAN;
	err = apply_fields(i, u, (const uint8_t *)(u + 1), freed);
	if (err)
		return err;
	if (n && !S_ISREG(i->attr.mode))
		return -EUCLEAN;
	return apply_extents(fs, i, (const void *)((const char *)u + fixed), n, off + head,
			     len - head, freed);
}

static bool name_ok(const char *name, unsigned len)
{
	return len && !memchr(name, '/', len) && !memchr(name, 0, len) &&
	       !(name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

static int apply_dir(struct inode *i, const struct pmemfs_dirup *u)
{
	const char *p = (const char *)(u + 1), *end = (const char *)u + rec_len(&u->h);

	if (rec_len(&u->h) < sizeof(*u) + 8u * u->dels || !inode_is_dir(i))
		return -EUCLEAN;
	i->attr.mtime = i->attr.ctime =
	    (struct timespec){(int64_t)get64(u->time_sec), get32(u->time_nsec)};
	for (unsigned k = 0; k < u->dels; k++, p += 8) {
		struct dent *e = dir_find_cookie(&i->dir, get64(*(const le64 *)p));

		if (!e)
			return -EUCLEAN;
		dir_remove(&i->dir, e);
	}
	for (unsigned k = 0; k < u->adds; k++) {
		const struct pmemfs_dentry *e = (const void *)p;
		int err;

		if (end - p < 24 || end - p < PMEMFS_DENTRY_SIZE(e->namelen) ||
		    !name_ok(e->name, e->namelen))
			return -EUCLEAN;
		err = dir_add(&i->dir, e->name, e->namelen, get64(e->ino), e->type,
			      get64(e->cookie));
		if (err)
			return err;
		p += PMEMFS_DENTRY_SIZE(e->namelen);
	}
	return p == end ? 0 : -EUCLEAN;
}

static struct xattr *xattr_find(struct inode *i, const char *name, size_t len)
{
	for (size_t n = 0; n < i->xattrs; n++)
		if (i->xattr[n].namelen == len && !memcmp(i->xattr[n].name, name, len))
			return &i->xattr[n];
	return NULL;
}

static void *copy_bytes(const char *from, size_t len)
{
	char *p = xrealloc(NULL, len + 1);

	memcpy(p, from, len);
	p[len] = 0;
	return p;
}

static int apply_xattr(struct inode *i, const struct pmemfs_xattr *x)
{
	uint32_t valuelen, need = sizeof(*x);
	struct xattr *a;

	if (rec_len(&x->h) < need)
		return -EUCLEAN;
	valuelen = get32(x->valuelen);
	if (!x->namelen || valuelen > PMEMFS_XATTR_MAX || x->remove > 1 ||
	    rec_len(&x->h) != ROUND_UP(need + x->namelen + valuelen, 8u) ||
	    memchr(x->data, 0, x->namelen) ||
	    (get32(x->mode) && !mode_ok(i, get32(x->mode), false)))
		return -EUCLEAN;
	if (get32(x->mode))
		i->attr.mode = get32(x->mode);
	i->attr.ctime = (struct timespec){(int64_t)get64(x->ctime_sec), get32(x->ctime_nsec)};
	a = xattr_find(i, x->data, x->namelen);
	if (x->remove && !a)
		return -EUCLEAN;
	if (a) {
		free(a->value);
		if (x->remove) {
			free(a->name);
			memmove(a, a + 1, (char *)(i->xattr + --i->xattrs) - (char *)a);
			return 0;
		}
	} else {
		i->xattr = grow_array(i->xattr, &i->xattrcap, i->xattrs + 1, sizeof(*a));
		a = &i->xattr[i->xattrs++];
		a->name = copy_bytes(x->data, x->namelen);
		a->namelen = x->namelen;
	}
	a->value = copy_bytes(x->data + x->namelen, valuelen);
	a->valuelen = valuelen;
	return 0;
}

static int apply_symlink(struct inode *i, const struct pmemfs_symlink *s)
{
	uint32_t len;

	if (rec_len(&s->h) < sizeof(*s) || !S_ISLNK(i->attr.mode) || i->target)
		return -EUCLEAN;
	len = get32(s->targetlen);
	if (!len || len > PMEMFS_SYMLINK_MAX || len != i->attr.size ||
	    rec_len(&s->h) != ROUND_UP((uint32_t)sizeof(*s) + len, 8u) ||
	    memchr(s->target, 0, len))
		return -EUCLEAN;
	i->target = copy_bytes(s->target, len);
	return 0;
}

int inode_apply(struct pmemfs *fs, struct inode *i, const struct pmemfs_rec *rec, uint64_t off,
		struct extvec *freed)
{
	if (get32(rec->seq) == 1 && !i->loaded && rec->type != REC_UPDATE)
		return -EUCLEAN;
	switch (rec->type) {
	case REC_UPDATE:
		if (rec_len(rec) < sizeof(struct pmemfs_update))
			return -EUCLEAN;
		return apply_update(fs, i, (const void *)rec, off, freed);
	case REC_DIR:
		if (rec_len(rec) < sizeof(struct pmemfs_dirup))
			return -EUCLEAN;
		return apply_dir(i, (const void *)rec);
	case REC_XATTR:
		return apply_xattr(i, (const void *)rec);
	case REC_SYMLINK:
		return apply_symlink(i, (const void *)rec);
	default:
		return -EUCLEAN;
	}
}

struct load {
	struct pmemfs *fs;
	struct inode *inode;
};

static int load_record(void *arg, const struct pmemfs_rec *rec, uint64_t off)
{
	struct load *l = arg;

	return inode_apply(l->fs, l->inode, rec, off, NULL);
}

static int read_log(struct pmemfs *fs, struct inode *i, uint64_t head, bool both,
		    enum log_end *ret_end)
{
	struct load l = {fs, i};
	int err;

	i->log.head = head;
	if (head_where(head) == HEAD_FREE)
		return -ESTALE;
	if (!i->dir.next_cookie)
		i->dir.next_cookie = PMEMFS_COOKIE_FIRST;
	err = log_walk(fs, i->ino, i->slot, head, both, load_record, &l, &i->log, ret_end);
	if (!err && (i->log.seq == 1 || (S_ISLNK(i->attr.mode) && !i->target)))
		err = -EUCLEAN; /* not even the first record */
	return err;
}

static void reset(struct inode *i)
{
	inode_clear(i);
	i->attr = (struct pmemfs_attr){.ino = i->attr.ino};
	i->parent = 0;
}

int inode_read(struct pmemfs *fs, struct inode *i, bool both, enum log_end *ret_end)
{
	uint64_t head[2], first;
	bool alike;
	int n = head_read(fs, i->slot, both, head, &alike), err;

	if (n < 0)
		return n;
	first = head[0];
	err = read_log(fs, i, first, both, ret_end);
	/* A damaged word can look good: what its log says decides. */
	if (fs->mirror && err != -ESTALE && (err || *ret_end == LOG_DAMAGED)) {
		n = head_read(fs, i->slot, true, head, &alike);
		if (n == 2) {
			reset(i);
			err = read_log(fs, i, head[head[0] == first], both, ret_end);
		}
	}
	if (!alike && (!err || err == -ESTALE))
		log_note_heads(fs, i->slot, &i->log);
	if (!err)
		i->loaded = true;
	return err;
}

int inode_mend(struct pmemfs *fs, const struct inode *i, struct log *l)
{
	bool readonly = atomic_load(&fs->readonly);
	int err;

	if (!l->fixes)
		return 0;
	fs_report(fs, 1, "inode %llu (block %llu): a copy of its metadata %s",
		  (unsigned long long)i->ino, (unsigned long long)(i->slot / PMEMFS_BLOCK_SIZE),
		  readonly ? "is damaged" : "was damaged, and is restored");
	if (readonly)
		return -EROFS;
	err = log_mend(fs, l);
	if (err)
		fs_damage(fs, "inode %llu: the medium failed", (unsigned long long)i->ino);
	return err;
}

void inode_runs(const struct inode *i, struct extvec *ret)
{
	struct range_cursor c;

	for (const struct range *r = rangemap_find(&i->extents, 0, &c); r;
	     r = rangemap_next(&i->extents, &c))
		extvec_add(ret, range_block(r), r->len);
	for (uint32_t k = 0; k < i->log.nseg; k++)
		extvec_add(ret, i->log.seg[k].block, i->log.seg[k].blocks);
}

void inode_fill_attr(const struct inode *i, struct pmemfs_attr *ret)
{
	*ret = i->attr;
	ret->blocks = i->extents.total * (PMEMFS_BLOCK_SIZE / 512);
	if (inode_is_dir(i)) {
		ret->nlink = i->attr.nlink ? 2 + i->dir.subdirs : 0;
		ret->size = i->dir.bytes;
	}
}
