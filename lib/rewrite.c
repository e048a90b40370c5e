/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stating an inode anew: compaction, and the first log of a new inode.
 *
 * The fresh log is written where nothing refers to it: into the slot's other area (a buffer
 * here; the transaction stores it) and into new blocks. One 8-byte store of the head word makes
 * it the log. A crash before leaves the old log, which was not touched; after it, the new one,
 * which was fenced before the store. The old segments are free only once the store is durable.
 */
#include <errno.h>
#include <sys/stat.h>

#include "fs.h"

#define AREA_ROOM   (PMEMFS_AREA_SIZE - (uint32_t)sizeof(struct pmemfs_link))
#define BATCH_SMALL 4032u  /* a record that fits a segment of one block */
#define BATCH_LARGE 16320u /* of four */
#define SEGMENT_MAX 512u   /* blocks */

static uint32_t base_size(const struct inode *i)
{
	return sizeof(struct pmemfs_update) + 8 + sizeof(struct pmemfs_perm) + 8 +
	       2 * sizeof(struct pmemfs_time) + (inode_is_dir(i) ? 8 : 0) +
	       sizeof(struct pmemfs_base);
}

static uint64_t extents_size(const struct inode *i)
{
	return i->extents.count * sizeof(struct pmemfs_extent) + i->written * 8;
}

uint64_t inode_state_size(const struct inode *i)
{
	uint64_t size = base_size(i), ext = extents_size(i);

	if (inode_is_dir(i) && i->dir.live)
		size += i->dir.bytes + 32 * (2 + i->dir.live / 255 + i->dir.bytes / 3700);
	if (ext)
		size += ext + (size + ext > AREA_ROOM ? 48 * (1 + ext / 3900) : 0);
	if (i->target)
		size += ROUND_UP(sizeof(struct pmemfs_symlink) + i->attr.size, 8u);
	for (size_t n = 0; n < i->xattrs; n++)
		size += ROUND_UP(sizeof(struct pmemfs_xattr) + i->xattr[n].namelen +
				     i->xattr[n].valuelen,
				 8u);
	return size;
}

bool inode_wants_compact(const struct inode *i)
{
	return i->log.nseg && i->log.bytes > 2 * inode_state_size(i) + PMEMFS_BLOCK_SIZE;
}

struct writer {
	struct pmemfs *fs;
	struct inode *inode;
	bool segments;
	unsigned flags;
	uint8_t *area;
	uint64_t area_off; /* where the area will stand */
	uint64_t left;	   /* estimate of the bytes to come */
	uint32_t batch;
	struct log log;
	struct rangemap map;
	uint8_t rec[BATCH_LARGE] __attribute__((aligned(8)));
};

static bool in_area(const struct writer *w)
{
	return !w->log.nseg;
}

static void store(struct writer *w, const void *bytes, uint32_t len)
{
	if (in_area(w))
		memcpy(w->area + (w->log.pos - w->area_off), bytes, len);
	else
		meta_copy(w->fs, w->log.pos, w->log.mirror, bytes, len);
	w->log.pos += len;
	w->log.bytes += len;
}

static void fill_segment(struct writer *w)
{
	if (!in_area(w))
		meta_clear(w->fs, w->log.pos, w->log.mirror, w->log.end - w->log.pos);
}

/* Goes on in a new segment with room for len bytes. */
static int next_segment(struct writer *w, uint32_t len)
{
	uint64_t copies = w->fs->copies;
	uint64_t need = DIV_UP(len + LOG_LINK_SIZE, PMEMFS_BLOCK_SIZE), block, n;
	struct pmemfs_link link = {.h.type = REC_LINK, .h.len = put16(sizeof(link) / 8)};
	int err;

	if (!w->segments)
		return -ENOSPC;
	n = DIV_UP(MAX(w->left, len) + LOG_LINK_SIZE, PMEMFS_BLOCK_SIZE);
	n = MAX(MIN(n, SEGMENT_MAX), need);
	for (err = -ENOSPC; err && n >= need; n = n > need ? MAX(n / 2, need) : 0) {
		err = alloc_contig(w->fs, n * copies, w->flags, &block);
		if (!err)
			break;
	}
	if (err)
		return err;
	n *= copies;
	link.block = put64(block);
	link.blocks = put32(n);
	rec_seal(&link.h, w->log.seed, w->log.seq++, REC_MORE);
	store(w, &link, sizeof(link));
	fill_segment(w);
	w->log.seg =
	    grow_array(w->log.seg, &w->log.segcap, w->log.nseg + 1, sizeof(w->log.seg[0]));
	w->log.seg[w->log.nseg++] = (struct log_seg){block, (uint32_t)n};
	w->log.pos = block * PMEMFS_BLOCK_SIZE;
	w->log.end = w->log.pos + seg_bytes(w->fs, n);
	w->log.mirror = seg_mirror(w->fs, n);
	return 0;
}

/*
 * Writes one record; more: others follow, or the state is not whole; ret_off (may be NULL) is
 * where it stands.
 */
static int emit(struct writer *w, struct pmemfs_rec *rec, bool more, uint64_t *ret_off)
{
	uint32_t len = rec_len(rec);
	int err;

	if (w->log.end - w->log.pos < len + LOG_LINK_SIZE) {
		err = next_segment(w, len);
		if (err)
			return err;
	}
	if (ret_off)
		*ret_off = w->log.pos;
	rec_seal(rec, w->log.seed, w->log.seq++, more ? REC_MORE : 0);
	store(w, rec, len);
	w->left -= MIN(w->left, len);
	return 0;
}

/* The entries' record sets ctime to mtime: is the true one to be stated behind it? */
static bool states_ctime(const struct inode *i)
{
	return inode_is_dir(i) && i->dir.live && !i->xattrs &&
	       memcmp(&i->attr.ctime, &i->attr.mtime, sizeof(i->attr.ctime));
}

/* Does anything follow what emit_dir or emit_file writes? */
static bool has_rest(const struct inode *i)
{
	return i->target || i->xattrs || states_ctime(i);
}

/* Fills the record buffer with the inode's attributes; returns their length. */
static uint32_t build_base(struct writer *w)
{
	const struct inode *i = w->inode;
	struct pmemfs_update *u = (void *)w->rec;
	struct pmemfs_attr a = i->attr;
	bool dir = inode_is_dir(i);

	if (dir)
		a.size = i->dir.next_cookie;
	update_put(u,
		   UP_SIZE | UP_PERM | UP_NLINK | UP_ATIME | UP_MTIME | UP_BASE |
		       (dir ? UP_PARENT : 0),
		   &a, i->parent);
	return rec_len(&u->h);
}

/* Which of two checksums of a block is its data's? */
static le64 choose_csum(struct writer *w, const struct range *r, uint64_t k, le64 one,
			le64 other)
{
	uint64_t block = range_block(r) + k, hash;
	uint32_t valid = data_valid(w->inode->attr.size, r->start + k);

	if (one.raw == other.raw || media_hash(w->fs->media, block * PMEMFS_BLOCK_SIZE, valid,
					       data_seed(w->fs, block), &hash))
		return one;
	return get64(other) == hash ? other : one;
}

/* Reads the checksums of n blocks of a range, from block k of it on; from the good copy. */
static int read_csums(struct writer *w, const struct range *r, uint64_t k, uint64_t n, le64 *to)
{
	uint64_t csum = r->csum + 8 * k, other;
	le64 copy[64];
	int err;

	if (csum & CSUM_PENDING) {
		memcpy(to, (const char *)w->inode->pending + (csum & ~CSUM_PENDING), n * 8);
		return 0;
	}
	err = media_read(w->fs->media, csum, to, n * 8);
	other = log_other_copy(w->fs, w->inode->slot, &w->inode->log, csum);
	if (other && err)
		return media_read(w->fs->media, other, to, n * 8);
	for (uint64_t at = 0; other && at < n; at += ARRAY_LEN(copy)) {
		uint64_t part = MIN(n - at, ARRAY_LEN(copy));

		if (media_read(w->fs->media, other + 8 * at, copy, 8 * part))
			break;
		for (uint64_t b = 0; b < part; b++)
			to[at + b] = choose_csum(w, r, k + at + b, to[at + b], copy[b]);
	}
	return err;
}

/* A place in the map that is being written: a range and what of it is done. */
struct feed {
	struct range_cursor c;
	const struct range *r;
	uint64_t done;
};

static uint32_t extent_cost(const struct range *r, uint64_t blocks)
{
	return sizeof(struct pmemfs_extent) + (range_flags(r) ? 0 : (uint32_t)blocks * 8);
}

/* How many blocks of the feed's range fit into `room` bytes of a record. */
static uint64_t feed_fit(const struct feed *f, uint32_t room)
{
	uint64_t n = MIN(f->r->len - f->done, PMEMFS_EXTENT_MAX);

	if (room < extent_cost(f->r, 1))
		return 0;
	if (!range_flags(f->r))
		n = MIN(n, (room - sizeof(struct pmemfs_extent)) / 8);
	return n;
}

static void feed_advance(struct writer *w, struct feed *f, uint64_t n)
{
	f->done += n;
	if (f->done == f->r->len) {
		f->r = rangemap_next(&w->inode->extents, &f->c);
		f->done = 0;
	}
}

/*
 * Emits one REC_UPDATE: `fixed` bytes of it are in the buffer, extents from the feed follow, as
 * many as fit into w->batch. Two passes over the feed: the extents, then their checksums.
 */
static int emit_extents(struct writer *w, uint32_t fixed, struct feed *f)
{
	struct pmemfs_update *u = (void *)w->rec;
	struct pmemfs_extent *e = (void *)(w->rec + fixed);
	struct feed start = *f;
	uint32_t size = fixed, csum;
	uint64_t n, off;
	unsigned count = 0;
	int err = 0;

	while (f->r && (n = feed_fit(f, w->batch - size))) {
		e[count++] = (struct pmemfs_extent){put64((f->r->start + f->done) << 20 | n),
						    put64(f->r->what + f->done)};
		size += extent_cost(f->r, n);
		feed_advance(w, f, n);
	}
	csum = fixed + count * (uint32_t)sizeof(*e);
	for (unsigned k = 0; k < count && !err; k++) {
		n = get64(e[k].where) & PMEMFS_EXTENT_MAX;
		if (!range_flags(start.r)) {
			err = read_csums(w, start.r, start.done, n, (le64 *)(w->rec + csum));
			csum += n * 8;
		}
		feed_advance(w, &start, n);
	}
	u->extents = put16(count);
	u->h.len = put16(size / 8);
	if (!err)
		err = emit(w, &u->h, f->r || has_rest(w->inode), &off);
	if (err)
		return err;
	off += fixed + count * sizeof(*e);
	for (unsigned k = 0; k < count; k++) {
		uint64_t where = get64(e[k].where), what = get64(e[k].what);
		struct range r = {where >> 20, where & PMEMFS_EXTENT_MAX, what, off};

		if (range_flags(&r))
			r.csum = 0;
		else
			off += 8 * r.len;
		rangemap_insert(&w->map, r);
	}
	return 0;
}

static int emit_file(struct writer *w)
{
	struct feed f = {0};
	struct pmemfs_update *u = (void *)w->rec;
	uint32_t fixed = build_base(w);
	int err = 0;

	f.r = rangemap_find(&w->inode->extents, 0, &f.c);
	/* All in one record where that fits; else the attributes alone, so that they come
	 * first. */
	if (fixed + extents_size(w->inode) > AREA_ROOM) {
		u->h.len = put16(fixed / 8);
		err = emit(w, &u->h, f.r || has_rest(w->inode), NULL);
		u->mask = put16(0);
		fixed = sizeof(*u);
		if (err || !f.r)
			return err;
	}
	do
		err = emit_extents(w, fixed, &f);
	while (!err && f.r);
	return err;
}

static int emit_dir(struct writer *w)
{
	const struct dir *d = &w->inode->dir;
	struct pmemfs_update *u = (void *)w->rec;
	struct pmemfs_dirup *r = (void *)w->rec;
	uint32_t size = build_base(w);
	size_t k = 0, left = d->live;
	int err;

	u->h.len = put16(size / 8);
	err = emit(w, &u->h, left || has_rest(w->inode), NULL);
	while (!err && k < d->n) {
		*r = (struct pmemfs_dirup){.h.type = REC_DIR};
		r->time_sec = put64(w->inode->attr.mtime.tv_sec);
		r->time_nsec = put32(w->inode->attr.mtime.tv_nsec);
		for (size = sizeof(*r); k < d->n && r->adds < 255; k++) {
			const struct dent *e = d->vec[k].e;
			struct pmemfs_dentry *to = (void *)(w->rec + size);

			if (!e)
				continue;
			if (size + PMEMFS_DENTRY_SIZE(e->namelen) > BATCH_SMALL)
				break;
			memset(to, 0, PMEMFS_DENTRY_SIZE(e->namelen));
			*to = (struct pmemfs_dentry){put64(e->ino), put64(e->cookie), e->type,
						     e->namelen};
			memcpy(to->name, e->name, e->namelen);
			size += PMEMFS_DENTRY_SIZE(e->namelen);
			r->adds++;
		}
		r->h.len = put16(size / 8);
		left -= r->adds;
		if (r->adds)
			err = emit(w, &r->h, left || has_rest(w->inode), NULL);
	}
	return err;
}

static int emit_symlink(struct writer *w)
{
	const struct inode *i = w->inode;
	struct pmemfs_symlink *s = (void *)w->rec;
	uint32_t size = ROUND_UP((uint32_t)(sizeof(*s) + i->attr.size), 8u);

	memset(s, 0, size);
	s->h.type = REC_SYMLINK;
	s->h.len = put16(size / 8);
	s->targetlen = put32(i->attr.size);
	memcpy(s->target, i->target, i->attr.size);
	return emit(w, &s->h, i->xattrs, NULL);
}

static int emit_xattr(struct writer *w, const struct xattr *a, bool more)
{
	uint32_t size =
	    ROUND_UP((uint32_t)sizeof(struct pmemfs_xattr) + a->namelen + a->valuelen, 8u);
	struct pmemfs_xattr *x = xcalloc(1, size);
	int err;

	x->h.type = REC_XATTR;
	x->h.len = put16(size / 8);
	x->ctime_sec = put64(w->inode->attr.ctime.tv_sec);
	x->ctime_nsec = put32(w->inode->attr.ctime.tv_nsec);
	x->namelen = a->namelen;
	x->valuelen = put32(a->valuelen);
	memcpy(x->data, a->name, a->namelen);
	memcpy(x->data + a->namelen, a->value, a->valuelen);
	err = emit(w, &x->h, more, NULL);
	free(x);
	return err;
}

static int emit_all(struct writer *w)
{
	const struct inode *i = w->inode;
	struct timespec ctime = i->attr.ctime;
	struct pmemfs_update *u = (void *)w->rec;
	int err;

	err = inode_is_dir(i) ? emit_dir(w) : emit_file(w);
	if (!err && i->target)
		err = emit_symlink(w);
	for (size_t n = 0; n < i->xattrs && !err; n++)
		err = emit_xattr(w, &i->xattr[n], n + 1 < i->xattrs);
	if (!err && states_ctime(i)) {
		*u = (struct pmemfs_update){
		    .h = {.type = REC_UPDATE, .len = put16(sizeof(*u) / 8)}};
		u->ctime_sec = put64(ctime.tv_sec);
		u->ctime_nsec = put32(ctime.tv_nsec);
		err = emit(w, &u->h, false, NULL);
	}
	return err;
}

int log_rewrite(struct pmemfs *fs, struct inode *i, uint64_t head, bool segments,
		unsigned flags, uint8_t area[PMEMFS_AREA_SIZE], struct log *ret_log,
		struct rangemap *ret_map)
{
	struct writer *w = xrealloc(NULL, sizeof(*w));
	int err;

	memset(w, 0, offsetof(struct writer, rec));
	w->fs = fs;
	w->inode = i;
	w->segments = segments;
	w->flags = flags;
	w->area = area;
	w->area_off = slot_area(i->slot, head_where(head));
	w->left = inode_state_size(i);
	w->batch = w->left > (256u << 10) ? BATCH_LARGE : BATCH_SMALL;
	w->log = (struct log){.head = head, .seed = log_seed(fs, i->ino, head), .seq = 1};
	w->log.pos = w->area_off;
	w->log.end = w->area_off + PMEMFS_AREA_SIZE;
	w->log.mirror = fs->mirror;
	memset(area, 0, PMEMFS_AREA_SIZE);
	err = emit_all(w);
	if (err) {
		for (uint32_t k = 0; k < w->log.nseg; k++)
			free_blocks(fs, w->log.seg[k].block, w->log.seg[k].blocks);
		log_free(&w->log);
		rangemap_free(&w->map);
	} else {
		fill_segment(w);
		*ret_log = w->log;
		*ret_map = w->map;
	}
	free(w);
	return err;
}

int inode_compact(struct pmemfs *fs, struct inode *i)
{
	struct txn t;

	txn_begin(&t, fs, ALLOC_RESERVE);
	txn_create(&t, i);
	return txn_commit(&t);
}
