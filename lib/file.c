/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Content of regular files: read, write, truncate (see attr.c), fallocate, seek.
 *
 * Readers hold the inode's lock shared, so that blocks they point at cannot be given to others;
 * every written block is checked against its checksum before a byte of it is handed out.
 */
#include <errno.h>
#include <linux/falloc.h>
#include <unistd.h>

#include "fs.h"

#define SIZE_MAX_BYTES (PMEMFS_FBLOCK_MAX * PMEMFS_BLOCK_SIZE)

static int file_open(struct pmemfs *fs, uint64_t ino, bool exclusive, struct inode **ret)
{
	struct inode *i;
	int err;

	if (exclusive && atomic_load_explicit(&fs->readonly, memory_order_relaxed))
		return -EROFS;
	err = inode_open(fs, ino, exclusive, &i);
	if (err)
		return err;
	if (!S_ISREG(i->attr.mode)) {
		err = inode_is_dir(i) ? -EISDIR : -EINVAL;
		inode_close(fs, i);
		return err;
	}
	*ret = i;
	return 0;
}

/* ---- write ---- */

static int write_blocks(struct edit *ed, uint64_t off, const char *buf, size_t size)
{
	uint64_t end = off + size, b = off / PMEMFS_BLOCK_SIZE;
	uint32_t from = off % PMEMFS_BLOCK_SIZE;
	int err = 0;

	if (off > ed->inode->attr.size && ed->inode->attr.size / PMEMFS_BLOCK_SIZE != b)
		err = edit_old_end(ed);
	if (!buf)
		return err;
	if (from && !err) {
		uint32_t to = MIN((uint64_t)PMEMFS_BLOCK_SIZE, from + size);

		err = edit_partial(ed, b++, from, to, buf);
		buf += to - from;
		off += to - from;
	}
	if (off < end && !err) {
		uint64_t n = (end - off) / PMEMFS_BLOCK_SIZE;

		if (n)
			err = edit_full(ed, b, n, buf);
		b += n;
		buf += n * PMEMFS_BLOCK_SIZE;
		if (end % PMEMFS_BLOCK_SIZE && !err)
			err = edit_partial(ed, b, 0, end % PMEMFS_BLOCK_SIZE, buf);
	}
	return err;
}

/* Clears what a write by somebody unprivileged clears. True if anything was set. */
static bool kill_priv(struct pmemfs_attr *a)
{
	uint32_t kill = S_ISUID | (a->mode & S_IXGRP ? S_ISGID : 0);
	bool any = a->mode & kill;

	a->mode &= ~kill;
	return any;
}

/* buf NULL: the data is where it belongs (edit_ahead). */
static int write_build(struct edit *ed, uint64_t off, const void *buf, size_t size)
{
	const struct inode *i = ed->inode;

	if (!S_ISREG(i->attr.mode))
		return inode_is_dir(i) ? -EISDIR : -EINVAL;
	if (off > SIZE_MAX_BYTES || size > SIZE_MAX_BYTES - off)
		return -EFBIG;
	if (inode_frozen(i, false))
		return -EPERM;
	ed->size = MAX(i->attr.size, off + size);
	return write_blocks(ed, off, buf, size);
}

static int write_commit(struct edit *ed, unsigned flags)
{
	struct pmemfs_attr attr = ed->inode->attr;
	unsigned mask = UP_MNOW;

	attr.ctime = fs_now();
	if (flags & PMEMFS_WRITE_KILL_PRIV && kill_priv(&attr))
		mask |= UP_PERM;
	return edit_commit(ed, mask, &attr, 0);
}

#define MET 64 /* writes that store ahead after two writers have met */

/*
 * Locks the inode. If somebody else is at it, or was of late, a write of whole blocks first
 * stores its data, so that several writers of one file wait for each other's records only; *buf
 * becomes NULL then. Not always: what is stored ahead goes where there is room, not behind the
 * block before it or into what was reserved.
 */
static int write_lock(struct edit *ed, uint64_t off, const void **buf, size_t size,
		      unsigned flags)
{
	struct inode *i = ed->inode;
	bool whole = off % PMEMFS_BLOCK_SIZE == 0 && size % PMEMFS_BLOCK_SIZE == 0 && size &&
		     !(flags & PMEMFS_WRITE_APPEND) && off <= SIZE_MAX_BYTES;
	unsigned met = whole ? atomic_load_explicit(&i->met, memory_order_relaxed) : 0;
	int err = met ? -EBUSY : inode_trylock(i);

	if (err != -EBUSY)
		return err;
	if (whole && !edit_ahead(ed, off / PMEMFS_BLOCK_SIZE, size / PMEMFS_BLOCK_SIZE, *buf))
		*buf = NULL;
	err = met ? inode_trylock(i) : -EBUSY;
	met = err == -EBUSY ? MET : met - 1;
	if (err == -EBUSY)
		err = inode_lock(i, true);
	if (!err)
		atomic_store_explicit(&i->met, met, memory_order_relaxed);
	return err;
}

ssize_t pmemfs_write(struct pmemfs *fs, uint64_t ino, uint64_t off, const void *buf,
		     size_t size, unsigned flags)
{
	struct inode *i;
	struct edit ed;
	int err = atomic_load_explicit(&fs->readonly, memory_order_relaxed) ? -EROFS : 0;

	if (!err)
		err = inode_get(fs, ino, &i);
	if (err)
		return err;
	size = MIN(size, PMEMFS_WRITE_MAX);
	edit_begin(&ed, fs, i, 0);
	err = write_lock(&ed, off, &buf, size, flags);
	if (!err) {
		if (flags & PMEMFS_WRITE_APPEND)
			off = i->attr.size;
		err = write_build(&ed, off, buf, size);
		if (!err && size)
			err = write_commit(&ed, flags); /* ends the edit */
		else
			edit_abort(&ed);
		inode_unlock(i);
	} else {
		edit_abort(&ed);
	}
	inode_put(fs, i, 1);
	return err ? err : (ssize_t)size;
}

int file_put(struct pmemfs *fs, struct inode *i, uint64_t off, const void *buf, size_t size)
{
	struct edit ed;
	int err;

	edit_begin(&ed, fs, i, 0);
	err = write_build(&ed, off, buf, size);
	if (!err)
		return write_commit(&ed, 0);
	edit_abort(&ed);
	return err;
}

int file_move_block(struct pmemfs *fs, struct inode *i, uint64_t b, bool lost)
{
	struct edit ed;
	int err;

	edit_begin(&ed, fs, i, i->attr.size);
	err = edit_move(&ed, b, lost);
	if (!err)
		return edit_commit(&ed, 0, &i->attr, 0);
	edit_abort(&ed);
	return err;
}

/* ---- read ---- */

struct iovs {
	struct iovec *v;
	size_t n, cap;
	char **own; /* blocks in memory, to be freed */
	size_t owns, owncap;
};

static void iovs_done(struct iovs *x)
{
	while (x->owns)
		free(x->own[--x->owns]);
	free(x->own);
	free(x->v);
}

static void iov_add(struct iovs *x, const void *base, size_t len)
{
	if (x->n && (char *)x->v[x->n - 1].iov_base + x->v[x->n - 1].iov_len == base) {
		x->v[x->n - 1].iov_len += len;
		return;
	}
	x->v = grow_array(x->v, &x->cap, x->n + 1, sizeof(x->v[0]));
	x->v[x->n++] = (struct iovec){(void *)(uintptr_t)base, len};
}

static void iov_zeros(struct iovs *x, uint64_t len)
{
	static const char zeros[64u << 10] __attribute__((aligned(4096)));

	while (len) {
		size_t part = MIN(len, sizeof(zeros));

		iov_add(x, zeros, part);
		len -= part;
	}
}

/* The checksum in the log is damaged: its copy decides, and the log is mended by it. */
static bool copy_says(struct pmemfs *fs, const struct inode *i, uint64_t csum, uint64_t hash)
{
	uint64_t other = log_other_copy(fs, i->slot, &i->log, csum);
	enum log_end end;
	struct log l;
	le64 sum;

	if (!other || media_read(fs->media, other, &sum, sizeof(sum)) || get64(sum) != hash)
		return false;
	if (!log_walk(fs, i->ino, i->slot, i->log.head, true, NULL, NULL, &l, &end))
		inode_mend(fs, i, &l);
	log_free(&l);
	return true;
}

int file_judge(struct pmemfs *fs, const struct inode *i, const struct range *r, uint64_t b,
	       uint64_t hash)
{
	uint64_t csum = r->csum + 8 * (b - r->start);
	le64 sum;
	int err = media_read(fs->media, csum, &sum, sizeof(sum));

	if ((!err && get64(sum) == hash) || copy_says(fs, i, csum, hash))
		return 0;
	return err ? err : -EILSEQ;
}

/* Whose content parity_rebuild is to find. */
struct wanted {
	struct pmemfs *fs;
	const struct inode *i;
	const struct range *r;
	uint64_t b, block;
};

static bool is_wanted(void *arg, const void *bytes)
{
	const struct wanted *w = arg;
	uint64_t hash =
	    hash64(bytes, data_valid(w->i->attr.size, w->b), data_seed(w->fs, w->block));

	return !file_judge(w->fs, w->i, w->r, w->b, hash);
}

/* Stores what the block should hold, and already did. False: it does not help. */
static bool put_back(const struct wanted *w, const void *bytes)
{
	struct media *m = w->fs->media;
	uint64_t off = w->block * PMEMFS_BLOCK_SIZE, hash;

	return !atomic_load(&w->fs->readonly) &&
	       !media_copy_try(m, off, bytes, PMEMFS_BLOCK_SIZE) && !media_fence(m) &&
	       !media_hash(m, off, PMEMFS_BLOCK_SIZE, 0, &hash) &&
	       hash == hash64(bytes, PMEMFS_BLOCK_SIZE, 0);
}

int file_rebuild(struct pmemfs *fs, const struct inode *i, const struct range *r, uint64_t b,
		 int error, bool store, void *ret, bool *ret_stored)
{
	struct wanted w = {fs, i, r, b, range_block(r) + (b - r->start)};
	int err = parity_rebuild(fs, w.block, is_wanted, &w, ret);

	*ret_stored = !err && store && put_back(&w, ret);
	if (!err && store)
		fs_report(fs, 1,
			  "inode %llu: block %llu (of the device: %llu) was lost, and is "
			  "rebuilt from parity%s",
			  (unsigned long long)i->ino, (unsigned long long)b,
			  (unsigned long long)w.block,
			  *ret_stored ? "" : "; the medium does not take it back");
	else if (error == -EILSEQ)
		fs_report(fs, 0,
			  "inode %llu: block %llu (of the device: %llu) fails its checksum",
			  (unsigned long long)i->ino, (unsigned long long)b,
			  (unsigned long long)w.block);
	if (*ret_stored)
		bad_forget(fs, w.block);
	else if (store && (!err || error == -EIO))
		bad_note(fs, w.block); /* a failure leaves it to the next reader */
	return err ? -EIO : 0;
}

/* Block b cannot be read, or is not what it should be; rebuilt on the medium it is as good. */
static int mend_block(struct pmemfs *fs, const struct inode *i, const struct range *r,
		      uint64_t b, int error)
{
	uint8_t bytes[PMEMFS_BLOCK_SIZE] __attribute__((aligned(64)));
	bool stored;
	int err = file_rebuild(fs, i, r, b, error, true, bytes, &stored);

	return err || stored ? err : -EIO;
}

int file_verify(struct pmemfs *fs, const struct inode *i, const struct range *r, uint64_t b,
		uint64_t end)
{
	le64 csum[64];

	while (b < end) {
		uint64_t n = MIN(end - b, ARRAY_LEN(csum)), hash;
		int err = media_read(fs->media, r->csum + 8 * (b - r->start), csum, n * 8);
		bool read = !err;

		if (fs->mirror)
			err = 0; /* one by one, from the copy */
		for (uint64_t k = 0; k < n && !err; k++, b++) {
			uint64_t block = range_block(r) + (b - r->start);

			err = media_hash(fs->media, block * PMEMFS_BLOCK_SIZE,
					 data_valid(i->attr.size, b), data_seed(fs, block),
					 &hash);
			if (!err && !(read && hash == get64(csum[k])))
				err = file_judge(fs, i, r, b, hash);
			if (err)
				err = mend_block(fs, i, r, b, err);
		}
		if (err)
			return err;
	}
	return 0;
}

/* Bytes [off, stop) of the written range r where they stand, verified. */
static int map_medium(struct pmemfs *fs, const struct inode *i, const struct range *r,
		      uint64_t off, uint64_t stop, struct iovs *x)
{
	uint64_t at = range_block(r) * PMEMFS_BLOCK_SIZE + off - r->start * PMEMFS_BLOCK_SIZE;
	int err =
	    file_verify(fs, i, r, off / PMEMFS_BLOCK_SIZE, DIV_UP(stop, PMEMFS_BLOCK_SIZE));
	const void *p = err ? NULL : media_ptr(fs->media, at, stop - off);

	if (p)
		iov_add(x, p, stop - off);
	return err ? err : p ? 0 : -ENOTSUP;
}

/* The same block by block: one that the medium does not hold any more is rebuilt in memory. */
static int map_blocks(struct pmemfs *fs, const struct inode *i, const struct range *r,
		      uint64_t off, uint64_t stop, struct iovs *x)
{
	int err = 0;

	for (uint64_t to; off < stop && !err; off = to) {
		uint64_t b = off / PMEMFS_BLOCK_SIZE;
		char *bytes;

		to = MIN(stop, (b + 1) * PMEMFS_BLOCK_SIZE);
		err = map_medium(fs, i, r, off, to, x);
		if (err != -EIO)
			continue;
		x->own = grow_array(x->own, &x->owncap, x->owns + 1, sizeof(x->own[0]));
		x->own[x->owns++] = bytes = xrealloc(NULL, PMEMFS_BLOCK_SIZE);
		err = file_read_block(fs, i, b, PMEMFS_BLOCK_SIZE, bytes);
		if (!err)
			iov_add(x, bytes + off % PMEMFS_BLOCK_SIZE, to - off);
	}
	return err;
}

/* Maps [off, end) of the file to memory, verified. */
static int map_range(struct pmemfs *fs, const struct inode *i, uint64_t off, uint64_t end,
		     struct iovs *x)
{
	struct range_cursor c;
	const struct range *r = rangemap_find(&i->extents, off / PMEMFS_BLOCK_SIZE, &c);

	while (off < end) {
		uint64_t start = r ? r->start * PMEMFS_BLOCK_SIZE : end, stop;
		int err = 0;

		if (off < start) {
			stop = MIN(start, end);
			iov_zeros(x, stop - off);
			off = stop;
			continue;
		}
		stop = MIN(range_end(r) * PMEMFS_BLOCK_SIZE, end);
		if (range_flags(r) & PMEMFS_EXT_UNWRITTEN)
			iov_zeros(x, stop - off);
		else
			err = map_medium(fs, i, r, off, stop, x);
		if (err == -EIO && fs->parity)
			err = map_blocks(fs, i, r, off, stop, x);
		if (err)
			return err;
		off = stop;
		r = rangemap_next(&i->extents, &c);
	}
	return 0;
}

int pmemfs_read_iov(struct pmemfs *fs, uint64_t ino, uint64_t off, size_t size,
		    pmemfs_consume fn, void *arg)
{
	struct iovs x = {0};
	struct inode *i;
	uint64_t end;
	int err = file_open(fs, ino, false, &i);

	if (err)
		return err;
	end = off < i->attr.size ? MIN(i->attr.size, off + size) : off;
	err = map_range(fs, i, off, end, &x);
	if (!err)
		err = fn(arg, x.v, (int)x.n, end - off);
	inode_close(fs, i);
	iovs_done(&x);
	return err;
}

/* Copies [off, end), then checks the copy block by block: what was handed out was verified. */
static int read_copy(struct pmemfs *fs, const struct inode *i, uint64_t off, uint64_t end,
		     char *buf)
{
	char bytes[PMEMFS_BLOCK_SIZE] __attribute__((aligned(64)));

	while (off < end) {
		uint64_t b = off / PMEMFS_BLOCK_SIZE;
		uint32_t from = off % PMEMFS_BLOCK_SIZE;
		uint32_t len = MIN(PMEMFS_BLOCK_SIZE - from, end - off);
		bool whole = len == PMEMFS_BLOCK_SIZE;
		int err = file_read_block(fs, i, b, PMEMFS_BLOCK_SIZE, whole ? buf : bytes);

		if (err)
			return err;
		if (!whole)
			memcpy(buf, bytes + from, len);
		buf += len;
		off += len;
	}
	return 0;
}

ssize_t pmemfs_read(struct pmemfs *fs, uint64_t ino, uint64_t off, void *buf, size_t size)
{
	struct inode *i;
	uint64_t end;
	int err = file_open(fs, ino, false, &i);

	if (err)
		return err;
	size = MIN(size, SIZE_MAX / 2);
	end = off < i->attr.size ? MIN(i->attr.size, off + size) : off;
	err = read_copy(fs, i, off, end, buf);
	inode_close(fs, i);
	return err ? err : (ssize_t)(end - off);
}

/* ---- fallocate, seek ---- */

/* Zeroes the bytes of [off, end) in blocks that it covers partly. Whole ones are [*b, *last).
 */
static int zero_edges(struct edit *ed, uint64_t off, uint64_t end, uint64_t *b, uint64_t *last)
{
	uint32_t from = off % PMEMFS_BLOCK_SIZE, to = end % PMEMFS_BLOCK_SIZE;
	int err = 0;

	*b = DIV_UP(off, PMEMFS_BLOCK_SIZE);
	*last = end / PMEMFS_BLOCK_SIZE;
	if (*b > *last) /* inside one block */
		return edit_partial(ed, *last, from, to, NULL);
	if (from)
		err = edit_partial(ed, *b - 1, from, PMEMFS_BLOCK_SIZE, NULL);
	if (to && !err)
		err = edit_partial(ed, *last, 0, to, NULL);
	return err;
}

static int build_fallocate(struct edit *ed, int mode, uint64_t off, uint64_t end)
{
	uint64_t first = off / PMEMFS_BLOCK_SIZE, stop = DIV_UP(end, PMEMFS_BLOCK_SIZE), b,
		 last;
	int err = 0;

	if (ed->size > ed->inode->attr.size)
		err = edit_old_end(ed);
	if (err)
		return err;
	if (!(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)))
		return edit_reserve(ed, first, stop, false);
	err = zero_edges(ed, off, end, &b, &last);
	if (err)
		return err;
	if (mode & FALLOC_FL_PUNCH_HOLE) {
		if (b < last)
			edit_hole(ed, b, last);
		return 0;
	}
	if (b >= last)
		return edit_reserve(ed, first, stop, false);
	err = edit_reserve(ed, b, last, true);
	if (!err && first < b)
		err = edit_reserve(ed, first, b, false);
	if (!err && last < stop)
		err = edit_reserve(ed, last, stop, false);
	return err;
}

int pmemfs_fallocate(struct pmemfs *fs, uint64_t ino, int mode, uint64_t off, uint64_t len)
{
	const int known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
	struct pmemfs_attr attr;
	struct inode *i;
	struct edit ed;
	uint64_t end;
	int err;

	if (!len)
		return -EINVAL;
	if (mode & ~known || ((mode & FALLOC_FL_PUNCH_HOLE) &&
			      (!(mode & FALLOC_FL_KEEP_SIZE) || mode & FALLOC_FL_ZERO_RANGE)))
		return -EOPNOTSUPP;
	if (off > SIZE_MAX_BYTES || len > SIZE_MAX_BYTES - off)
		return -EFBIG;
	err = file_open(fs, ino, true, &i);
	if (err)
		return err;
	/* an append-only file may still have room reserved */
	err = inode_frozen(i, mode & ~FALLOC_FL_KEEP_SIZE);
	if (err) {
		inode_close(fs, i);
		return err;
	}
	end = off + len;
	edit_begin(&ed, fs, i,
		   mode & FALLOC_FL_KEEP_SIZE ? i->attr.size : MAX(i->attr.size, end));
	err = build_fallocate(&ed, mode, off, end);
	if (err) {
		edit_abort(&ed);
	} else {
		attr = i->attr;
		attr.ctime = fs_now();
		err = edit_commit(&ed, UP_MNOW, &attr,
				  mode & FALLOC_FL_PUNCH_HOLE ? ALLOC_RESERVE : 0);
	}
	inode_close(fs, i);
	return err;
}

int64_t pmemfs_seek(struct pmemfs *fs, uint64_t ino, uint64_t off, int whence)
{
	struct range_cursor c;
	const struct range *r;
	struct inode *i;
	uint64_t at = off, size;
	int err;

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return -EINVAL;
	err = file_open(fs, ino, false, &i);
	if (err)
		return err;
	size = i->attr.size;
	r = rangemap_find(&i->extents, off / PMEMFS_BLOCK_SIZE, &c);
	for (; r && at < size; r = rangemap_next(&i->extents, &c)) {
		bool data = !(range_flags(r) & PMEMFS_EXT_UNWRITTEN);

		if (whence == SEEK_DATA && data) {
			at = MAX(at, r->start * PMEMFS_BLOCK_SIZE);
			break;
		}
		if (whence == SEEK_HOLE && (!data || r->start * PMEMFS_BLOCK_SIZE > at))
			break;
		if (whence == SEEK_HOLE)
			at = range_end(r) * PMEMFS_BLOCK_SIZE;
	}
	inode_close(fs, i);
	if (off >= size || (whence == SEEK_DATA && (!r || at >= size)))
		return -ENXIO;
	return (int64_t)MIN(at, size);
}
