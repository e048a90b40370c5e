/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Building a change of a file's content: data goes to blocks that nothing refers to, or to
 * bytes that nothing reads (past the end of the file, unwritten extents); then one record makes
 * it true. Building reads and computes; the transaction stores, data first. So nothing that is
 * computed waits for the data's lines on their way to the medium (a load that overlaps a young
 * store in part waits until that store has left the buffer, behind all of the data).
 *
 * Invariants: no byte that the committed state can read is ever stored to. The checksum of a
 * block covers its first data_valid() bytes, so a change of the size restates the checksums of
 * the blocks that hold the old and the new end. A crash before the record's fence leaves the
 * old file and blocks that are still free; after it, the new file.
 */
#include <assert.h>
#include <errno.h>

#include "fs.h"

void edit_begin(struct edit *ed, struct pmemfs *fs, struct inode *i, uint64_t size)
{
	ed->fs = fs;
	ed->inode = i;
	ed->size = size;
	extvec_init(&ed->taken);
	ed->data = ed->datafixed;
	ed->datacap = ARRAY_LEN(ed->datafixed);
	ed->e = ed->efixed;
	ed->cap = ARRAY_LEN(ed->efixed);
	ed->csum = ed->csumfixed;
	ed->csumcap = ARRAY_LEN(ed->csumfixed);
	ed->n = ed->csums = ed->datas = 0;
	ed->partial = 0;
}

/* As grow_array, for an array that begins inside the structure. */
static void *grow_fixed(void *p, const void *fixed, size_t *cap, size_t need, size_t size)
{
	size_t old = *cap;
	void *new;

	if (need <= old)
		return p;
	new = grow_array(p == fixed ? NULL : p, cap, need, size);
	return p == fixed ? memcpy(new, fixed, old * size) : new;
}

static void edit_end(struct edit *ed)
{
	extvec_done(&ed->taken);
	if (ed->data != ed->datafixed)
		free(ed->data);
	if (ed->e != ed->efixed)
		free(ed->e);
	if (ed->csum != ed->csumfixed)
		free(ed->csum);
}

void edit_abort(struct edit *ed)
{
	free_runs(ed->fs, &ed->taken);
	edit_end(ed);
}

static void add_extent(struct edit *ed, uint64_t b, uint64_t n, uint64_t block, unsigned flags)
{
	while (n) {
		uint64_t part = MIN(n, PMEMFS_EXTENT_MAX);

		ed->e = grow_fixed(ed->e, ed->efixed, &ed->cap, ed->n + 1, sizeof(ed->e[0]));
		ed->e[ed->n++] = (struct pmemfs_extent){
		    put64(b << 20 | part), put64((uint64_t)flags << RANGE_FLAG_SHIFT | block)};
		b += part;
		n -= part;
		block += flags & PMEMFS_EXT_HOLE ? 0 : part;
	}
}

static void add_csum(struct edit *ed, const void *bytes, uint32_t len, uint64_t block)
{
	ed->csum = grow_fixed(ed->csum, ed->csumfixed, &ed->csumcap, ed->csums + 1,
			      sizeof(ed->csum[0]));
	ed->csum[ed->csums++] = put64(hash64(bytes, len, data_seed(ed->fs, block)));
}

/* src stays as it is until the edit ends. */
static void add_data(struct edit *ed, uint64_t off, const void *src, size_t len)
{
	ed->data = grow_fixed(ed->data, ed->datafixed, &ed->datacap, ed->datas + 1,
			      sizeof(ed->data[0]));
	ed->data[ed->datas++] = (struct txn_data){off, src, len};
}

static const struct range *mapping(const struct inode *i, uint64_t b)
{
	struct range_cursor c;
	const struct range *r = rangemap_find(&i->extents, b, &c);

	return r && r->start <= b ? r : NULL;
}

static bool is_written(const struct range *r)
{
	return r && !(range_flags(r) & PMEMFS_EXT_UNWRITTEN);
}

/* Where new blocks for b should go: behind the block before it, unless b itself is there. */
static uint64_t goal_of(const struct inode *i, uint64_t b)
{
	const struct range *r = b ? mapping(i, b - 1) : NULL;

	return r && range_end(r) <= b ? range_block(r) + (b - r->start) : 0;
}

/* Its first len bytes, though the medium does not give them. */
static int rebuild_block(struct pmemfs *fs, const struct inode *i, const struct range *r,
			 uint64_t b, int error, uint32_t len, void *dst)
{
	char bytes[PMEMFS_BLOCK_SIZE] __attribute__((aligned(64)));
	bool stored;
	int err = file_rebuild(fs, i, r, b, error, true, bytes, &stored);

	if (!err)
		memcpy(dst, bytes, len);
	return err;
}

int file_read_block(struct pmemfs *fs, const struct inode *i, uint64_t b, uint32_t len,
		    void *dst)
{
	const struct range *r = mapping(i, b);
	uint32_t valid = data_valid(i->attr.size, b);
	uint64_t block;
	int err;

	if (!is_written(r) || !valid) {
		memset(dst, 0, len);
		return 0;
	}
	block = range_block(r) + (b - r->start);
	err = media_read(fs->media, block * PMEMFS_BLOCK_SIZE, dst, valid);
	if (!err)
		err = file_judge(fs, i, r, b, hash64(dst, valid, data_seed(fs, block)));
	if (err)
		err = rebuild_block(fs, i, r, b, err, valid, dst);
	if (err)
		return err;
	if (len > valid)
		memset((char *)dst + valid, 0, len - valid);
	return 0;
}

static void store_run(struct edit *ed, uint64_t b, uint64_t n, uint64_t block, const char *src)
{
	add_extent(ed, b, n, block, 0);
	media_expect_copy(ed->fs->media, block * PMEMFS_BLOCK_SIZE, n * PMEMFS_BLOCK_SIZE);
	for (uint64_t k = 0; k < n; k++)
		add_csum(ed, src + k * PMEMFS_BLOCK_SIZE, PMEMFS_BLOCK_SIZE, block + k);
	add_data(ed, block * PMEMFS_BLOCK_SIZE, src, n * PMEMFS_BLOCK_SIZE);
}

/* What blocks from b on, at most max, have in common. */
struct stretch {
	uint64_t n;
	uint64_t block; /* they are mapped but unwritten, here; 0: they need new blocks */
	uint64_t goal;	/* where these should begin; 0: anywhere */
};

/* They are where they belong, unless that is a bad block. */
static struct stretch unwritten(const struct edit *ed, uint64_t block, uint64_t n)
{
	uint64_t bad = bad_next(ed->fs, block, block + n);

	return bad > block ? (struct stretch){bad - block, block, 0} : (struct stretch){.n = 1};
}

static struct stretch look(const struct edit *ed, uint64_t b, uint64_t max)
{
	const struct inode *i = ed->inode;
	struct range_cursor c;
	const struct range *r = rangemap_find(&i->extents, b, &c);
	struct stretch s = {.n = max};

	if (!r || r->start > b)
		s.goal = goal_of(i, b);
	else if (!is_written(r))
		return unwritten(ed, range_block(r) + (b - r->start),
				 MIN(max, range_end(r) - b));
	for (; r && r->start < b + max; r = rangemap_next(&i->extents, &c)) {
		if (!is_written(r)) {
			s.n = r->start - b;
			break;
		}
	}
	return s;
}

static int store_fresh(struct edit *ed, uint64_t b, const struct stretch *s, const char *src)
{
	struct extvec x;
	int err;

	extvec_init(&x);
	err = alloc_blocks(ed->fs, s->n, s->goal, 0, &x);
	for (size_t k = 0; k < x.n && !err; k++) {
		extvec_add(&ed->taken, x.v[k].block, x.v[k].len);
		store_run(ed, b, x.v[k].len, x.v[k].block, src);
		b += x.v[k].len;
		src += x.v[k].len * PMEMFS_BLOCK_SIZE;
	}
	extvec_done(&x);
	return err;
}

int edit_full(struct edit *ed, uint64_t b, uint64_t n, const void *src)
{
	const char *from = src;
	int err = 0;

	while (n && !err) {
		struct stretch s = look(ed, b, n);

		if (s.block)
			store_run(ed, b, s.n, s.block, from);
		else
			err = store_fresh(ed, b, &s, from);
		b += s.n;
		n -= s.n;
		from += s.n * PMEMFS_BLOCK_SIZE;
	}
	return err;
}

int edit_ahead(struct edit *ed, uint64_t b, uint64_t n, const void *src)
{
	const struct stretch anywhere = {.n = n};
	int err = store_fresh(ed, b, &anywhere, src);

	if (!err) {
		txn_store_data(ed->fs, ed->data, ed->datas);
		err = media_fence(ed->fs->media);
	}
	ed->datas = 0;
	if (err) {
		edit_abort(ed);
		edit_begin(ed, ed->fs, ed->inode, ed->size);
	}
	return err;
}

/* Stores bytes [from, valid) of the block's new content; its checksum covers all valid ones. */
static void store_block(struct edit *ed, uint64_t b, uint64_t block, const char *bytes,
			uint32_t from, uint32_t valid)
{
	add_extent(ed, b, 1, block, 0);
	media_expect_copy(ed->fs->media, block * PMEMFS_BLOCK_SIZE + from, valid - from);
	add_csum(ed, bytes, valid, block);
	add_data(ed, block * PMEMFS_BLOCK_SIZE + from, bytes + from, valid - from);
}

/* Where the content of a block that changes in part is put together. */
static char *partial_block(struct edit *ed)
{
	assert(ed->partial < ARRAY_LEN(ed->partials));
	return ed->partials[ed->partial++];
}

static int take_block(struct edit *ed, uint64_t b, uint64_t *ret)
{
	struct extvec x;
	int err;

	extvec_init(&x);
	err = alloc_blocks(ed->fs, 1, goal_of(ed->inode, b), 0, &x);
	if (!err) {
		*ret = x.v[0].block;
		extvec_add(&ed->taken, *ret, 1);
	}
	extvec_done(&x);
	return err;
}

int edit_partial(struct edit *ed, uint64_t b, uint32_t from, uint32_t to, const void *src)
{
	const struct inode *i = ed->inode;
	const struct range *r = mapping(i, b);
	uint32_t old = data_valid(i->attr.size, b), valid = data_valid(ed->size, b);
	uint64_t block;
	char *bytes;
	int err;

	if (!src && !is_written(r))
		return 0; /* zeros already */
	bytes = partial_block(ed);
	err = file_read_block(ed->fs, i, b, valid, bytes);
	if (err)
		return err;
	to = MIN(to, valid);
	if (from >= to)
		return 0;
	if (src)
		memcpy(bytes + from, src, to - from);
	else
		memset(bytes + from, 0, to - from);
	if (r) {
		block = range_block(r) + (b - r->start);
		/* nothing reads what is stored to */
		if ((!is_written(r) || from >= old) &&
		    bad_next(ed->fs, block, block + 1) != block) {
			store_block(ed, b, block, bytes, is_written(r) ? old : 0, valid);
			return 0;
		}
	}
	err = take_block(ed, b, &block);
	if (!err)
		store_block(ed, b, block, bytes, 0, valid);
	return err;
}

int edit_move(struct edit *ed, uint64_t b, bool lost)
{
	uint32_t valid = data_valid(ed->size, b);
	char *bytes = partial_block(ed);
	uint64_t block;
	int err = 0;

	if (!lost)
		err = file_read_block(ed->fs, ed->inode, b, valid, bytes);
	else
		memset(bytes, 0, valid);
	if (!err)
		err = take_block(ed, b, &block);
	if (err)
		return err;
	store_block(ed, b, block, bytes, 0, valid);
	if (lost)
		ed->csum[ed->csums - 1].raw ^= 1;
	return 0;
}

int edit_old_end(struct edit *ed)
{
	const struct inode *i = ed->inode;
	bool shrink = ed->size < i->attr.size;
	uint64_t b = (shrink ? ed->size : i->attr.size) / PMEMFS_BLOCK_SIZE;
	const struct range *r = mapping(i, b);
	uint32_t old = data_valid(i->attr.size, b), valid = data_valid(ed->size, b);
	uint64_t block;
	char *bytes;
	int err;

	if (!is_written(r) || !old || !valid || old == valid)
		return 0;
	bytes = partial_block(ed);
	err = file_read_block(ed->fs, i, b, MAX(old, valid), bytes);
	if (err)
		return err;
	block = range_block(r) + (b - r->start);
	if (!shrink) {
		store_block(ed, b, block, bytes, old, valid);
		return 0;
	}
	add_extent(ed, b, 1, block, 0);
	add_csum(ed, bytes, valid, block);
	return 0;
}

void edit_hole(struct edit *ed, uint64_t b, uint64_t end)
{
	const struct range *last = rangemap_last(&ed->inode->extents);
	struct range_cursor c;

	if (last)
		end = MIN(end, range_end(last));
	if (last && b < end && rangemap_find(&ed->inode->extents, b, &c)->start < end)
		add_extent(ed, b, end - b, 0, PMEMFS_EXT_HOLE);
}

static int reserve_hole(struct edit *ed, uint64_t b, uint64_t n)
{
	struct extvec x;
	int err;

	extvec_init(&x);
	err = alloc_blocks(ed->fs, n, goal_of(ed->inode, b), 0, &x);
	for (size_t k = 0; k < x.n && !err; k++) {
		extvec_add(&ed->taken, x.v[k].block, x.v[k].len);
		add_extent(ed, b, x.v[k].len, x.v[k].block, PMEMFS_EXT_UNWRITTEN);
		b += x.v[k].len;
	}
	extvec_done(&x);
	return err;
}

int edit_reserve(struct edit *ed, uint64_t b, uint64_t end, bool zero)
{
	struct range_cursor c;
	const struct range *r = rangemap_find(&ed->inode->extents, b, &c);
	int err = 0;

	while (b < end && !err) {
		uint64_t stop = r ? MIN(r->start, end) : end;

		if (b < stop) {
			err = reserve_hole(ed, b, stop - b);
			b = stop;
			continue;
		}
		if (!r || b >= end)
			break;
		stop = MIN(range_end(r), end);
		if (zero && is_written(r)) /* the same blocks, read as zeros from now on */
			add_extent(ed, b, stop - b, range_block(r) + (b - r->start),
				   PMEMFS_EXT_UNWRITTEN);
		b = stop;
		r = rangemap_next(&ed->inode->extents, &c);
	}
	return err;
}

static char *put_array(char *to, const void *from, size_t len)
{
	return len ? (char *)memcpy(to, from, len) + len : to;
}

int edit_commit(struct edit *ed, unsigned mask, const struct pmemfs_attr *attr, unsigned flags)
{
	char fixed[1024] __attribute__((aligned(8)));
	size_t len =
	    sizeof(struct pmemfs_update) + 8 * 10 + ed->n * sizeof(ed->e[0]) + ed->csums * 8;
	struct pmemfs_update *u = (void *)fixed;
	struct pmemfs_attr new;
	struct txn t;
	char *p;
	int err;

	if (len > PMEMFS_REC_MAX || ed->n > UINT16_MAX) {
		edit_abort(ed);
		return -EFBIG; /* in one piece: more fragments than a record can name */
	}
	if (len > sizeof(fixed))
		u = xrealloc(NULL, len);
	if (ed->size != ed->inode->attr.size)
		mask |= UP_SIZE;
	new = *attr;
	new.size = ed->size;
	p = update_put(u, mask, &new, ed->inode->parent);
	u->extents = put16(ed->n);
	p = put_array(p, ed->e, ed->n * sizeof(ed->e[0]));
	p = put_array(p, ed->csum, ed->csums * 8);
	u->h.len = put16((p - (char *)u) / 8);
	txn_begin(&t, ed->fs, flags);
	t.data = ed->data;
	t.datas = ed->datas;
	txn_add(&t, ed->inode, &u->h);
	err = txn_commit(&t);
	if (err)
		free_runs(ed->fs, &ed->taken);
	else if (inode_wants_compact(ed->inode))
		inode_compact(ed->fs, ed->inode); /* a failure only leaves the log long */
	if (u != (void *)fixed)
		free(u);
	edit_end(ed);
	return err;
}
