/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model's file contents: a sorted list of segments, each either one written block with its
 * page or a run of unwritten blocks (fallocated, read as zeros); what lies between is a hole.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model_priv.h"

size_t m_seg_at(const struct minode *i, uint64_t block)
{
	size_t lo = 0, hi = i->n_segs;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (i->segs[mid].start + i->segs[mid].count <= block)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

uint64_t m_blocks(const struct minode *i)
{
	uint64_t n = 0;
	size_t k;

	for (k = 0; k < i->n_segs; k++)
		n += i->segs[k].count;
	return n;
}

static void seg_insert(struct minode *i, size_t at, struct seg s)
{
	if (i->n_segs == i->cap_segs) {
		i->cap_segs = i->cap_segs ? 2 * i->cap_segs : 4;
		i->segs = m_grow(i->segs, i->cap_segs, sizeof(*i->segs));
	}
	memmove(i->segs + at + 1, i->segs + at, (i->n_segs - at) * sizeof(*i->segs));
	i->segs[at] = s;
	i->n_segs++;
}

/* Cuts an unwritten segment in two so that none crosses the start of `block`. */
static void seg_split(struct minode *i, uint64_t block)
{
	size_t at = m_seg_at(i, block);
	struct seg *s, rest;

	if (at == i->n_segs || i->segs[at].start >= block)
		return;
	s = &i->segs[at];
	rest = (struct seg){block, s->start + s->count - block, NULL};
	s->count = block - s->start;
	seg_insert(i, at + 1, rest);
}

/* Makes [from, to) a hole. */
static void seg_drop(struct minode *i, uint64_t from, uint64_t to)
{
	size_t a, b, k;

	if (from >= to || !i->n_segs)
		return;
	seg_split(i, from);
	seg_split(i, to);
	a = m_seg_at(i, from);
	b = m_seg_at(i, to);
	for (k = a; k < b; k++)
		if (i->segs[k].page && !--i->segs[k].page->refs)
			free(i->segs[k].page);
	memmove(i->segs + a, i->segs + b, (i->n_segs - b) * sizeof(*i->segs));
	i->n_segs -= b - a;
}

/* The page of the block for writing; made (zero) if the block was a hole or unwritten. */
static struct page *page_mut(struct minode *i, uint64_t block)
{
	size_t at = m_seg_at(i, block);
	struct page *p, *c;

	if (at == i->n_segs || i->segs[at].start > block || !i->segs[at].page) {
		seg_drop(i, block, block + 1);
		p = m_alloc(sizeof(*p));
		p->refs = 1;
		seg_insert(i, m_seg_at(i, block), (struct seg){block, 1, p});
		return p;
	}
	p = i->segs[at].page;
	if (p->refs == 1)
		return p;
	c = m_alloc(sizeof(*c));
	memcpy(c->b, p->b, M_BLOCK);
	c->refs = 1;
	p->refs--;
	i->segs[at].page = c;
	return c;
}

static bool is_written(const struct minode *i, uint64_t block)
{
	size_t at = m_seg_at(i, block);

	return at < i->n_segs && i->segs[at].start <= block && i->segs[at].page;
}

static void put_bytes(struct minode *i, uint64_t off, const uint8_t *p, size_t len)
{
	while (len) {
		size_t in = off % M_BLOCK, n = M_BLOCK - in < len ? M_BLOCK - in : len;

		memcpy(page_mut(i, off / M_BLOCK)->b + in, p, n);
		off += n;
		p += n;
		len -= n;
	}
}

/* Zeros bytes [from, to) of one block, if it is written. */
static void zero_part(struct minode *i, uint64_t from, uint64_t to)
{
	if (from < to && is_written(i, from / M_BLOCK))
		memset(page_mut(i, from / M_BLOCK)->b + from % M_BLOCK, 0, to - from);
}

/* The regular file of an operation that needs one. */
static int file_of(const struct model *m, const struct op *op, uint64_t *ret)
{
	uint64_t id;
	int rc = m_object(m, op, &id);

	if (rc)
		return rc;
	if (S_ISDIR(m_get(m, id)->mode))
		return -EISDIR;
	if (!S_ISREG(m_get(m, id)->mode))
		return -EINVAL;
	*ret = id;
	return 0;
}

static bool too_far(const struct model *m, uint64_t off, uint64_t len)
{
	return off > m->o.file_max || len > m->o.file_max - off;
}

static void changed(struct model *m, struct minode *i)
{
	m_now(m, i, MTIME);
	m_now(m, i, CTIME);
}

int64_t m_write(struct model *m, const struct op *op)
{
	struct minode *i;
	uint64_t id, off;
	uint8_t *buf;
	int rc = file_of(m, op, &id);

	if (rc)
		return rc;
	if (!op->len)
		return 0;
	off = op->kind == OP_APPEND ? m_get(m, id)->size : op->off;
	if (too_far(m, off, op->len))
		return -EFBIG;
	i = m_mut(m, id);
	buf = m_alloc(op->len);
	op_fill(op->seed, buf, op->len);
	put_bytes(i, off, buf, op->len);
	free(buf);
	if (off + op->len > i->size)
		i->size = off + op->len;
	changed(m, i);
	return (int64_t)op->len;
}

int64_t m_truncate(struct model *m, const struct op *op)
{
	struct minode *i;
	uint64_t id, end = (op->off + M_BLOCK - 1) / M_BLOCK;
	int rc = file_of(m, op, &id);

	if (rc)
		return rc;
	if (too_far(m, op->off, 0))
		return -EFBIG;
	i = m_mut(m, id);
	if (op->off == i->size) {
		m_maybe(m, i, MTIME);
		m_maybe(m, i, CTIME);
	} else {
		changed(m, i);
	}
	/* blocks past the end (KEEP_SIZE) go unless the file grows */
	if (op->off <= i->size)
		seg_drop(i, end, UINT64_MAX / M_BLOCK);
	if (op->off < i->size)
		zero_part(i, op->off, end * M_BLOCK);
	i->size = op->off;
	return 0;
}

/* ---- fallocate ---- */

static void allocate(struct minode *i, uint64_t from, uint64_t to)
{
	while (from < to) {
		size_t at = m_seg_at(i, from);
		uint64_t end = to;

		if (at < i->n_segs && i->segs[at].start <= from) {
			from = i->segs[at].start + i->segs[at].count;
			continue;
		}
		if (at < i->n_segs && i->segs[at].start < end)
			end = i->segs[at].start;
		seg_insert(i, at, (struct seg){from, end - from, NULL});
		from = end;
	}
}

/* Whole blocks of [off, end) become a hole; what is cut at the edges becomes zeros. */
static void punch(struct minode *i, uint64_t off, uint64_t end)
{
	uint64_t first = (off + M_BLOCK - 1) / M_BLOCK, last = end / M_BLOCK;

	if (first > last) {
		zero_part(i, off, end);
		return;
	}
	zero_part(i, off, first * M_BLOCK);
	zero_part(i, last * M_BLOCK, end);
	seg_drop(i, first, last);
}

static int fallocate_check(uint32_t mode, uint64_t len)
{
	const uint32_t known =
	    FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;

	if (!len)
		return -EINVAL;
	if (mode & ~known)
		return -EOPNOTSUPP;
	if ((mode & FALLOC_FL_PUNCH_HOLE) &&
	    mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE))
		return -EOPNOTSUPP;
	return 0;
}

int64_t m_fallocate(struct model *m, const struct op *op)
{
	struct minode *i;
	uint64_t id, end = op->off + op->len, size;
	int rc = file_of(m, op, &id);

	if (!rc)
		rc = fallocate_check(op->flags, op->len);
	if (!rc && too_far(m, op->off, op->len))
		rc = -EFBIG;
	if (rc)
		return rc;
	i = m_mut(m, id);
	size = i->size;
	if (!(op->flags & FALLOC_FL_KEEP_SIZE) && end > size)
		size = end;
	if (op->flags & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		punch(i, op->off, end);
	if (!(op->flags & FALLOC_FL_PUNCH_HOLE))
		allocate(i, op->off / M_BLOCK, (end + M_BLOCK - 1) / M_BLOCK);
	if (m->o.loose_fallocate_times) {
		m_maybe(m, i, MTIME);
		m_maybe(m, i, CTIME);
	} else if ((op->flags & ~(uint32_t)FALLOC_FL_KEEP_SIZE) || size > i->size) {
		changed(m, i);
	} else {
		/* blocks came, the content stayed */
		m_maybe(m, i, MTIME);
		m_now(m, i, CTIME);
	}
	i->size = size;
	return 0;
}

/* ---- looking ---- */

int64_t m_seek(const struct model *m, const struct op *op)
{
	const struct minode *i;
	uint64_t id, b;
	size_t at;
	int rc = file_of(m, op, &id);

	if (rc)
		return rc;
	i = m_get(m, id);
	if (op->flags != SEEK_DATA && op->flags != SEEK_HOLE)
		return -EINVAL;
	if (op->off >= i->size)
		return -ENXIO;
	b = op->off / M_BLOCK;
	at = m_seg_at(i, b);
	if (op->flags == SEEK_HOLE) {
		while (at < i->n_segs && i->segs[at].start == b && i->segs[at].page) {
			at++;
			b++;
		}
	} else {
		while (at < i->n_segs && !i->segs[at].page)
			at++;
		if (at == i->n_segs)
			return -ENXIO;
		b = i->segs[at].start;
	}
	if (op->flags == SEEK_DATA && b * M_BLOCK >= i->size)
		return -ENXIO;
	b *= M_BLOCK;
	if (b < op->off)
		b = op->off;
	return (int64_t)(b < i->size ? b : i->size);
}

/* What a block is to a seek: written, unwritten or a hole. */
static int block_kind(const struct minode *i, uint64_t block)
{
	size_t at = m_seg_at(i, block);

	if (at == i->n_segs || i->segs[at].start > block)
		return 0;
	return i->segs[at].page ? 2 : 1;
}

/* Is any block of that kind in [from, to)? Kind 0: not looked at one by one, gaps count. */
static bool has_kind(const struct minode *i, uint64_t from, uint64_t to, int kind)
{
	size_t at = m_seg_at(i, from);

	for (; from < to; at++) {
		uint64_t start = at < i->n_segs ? i->segs[at].start : UINT64_MAX;

		if (start > from && kind == 0)
			return true;
		if (start >= to)
			return false;
		if (kind == (i->segs[at].page ? 2 : 1))
			return true;
		from = start + i->segs[at].count;
	}
	return false;
}

bool model_seek_ok(const struct model *m, const struct op *op, int64_t ret)
{
	const struct minode *i;
	uint64_t id, off = (uint64_t)ret, end, first = op->off / M_BLOCK;

	if (m_seek(m, op) == ret)
		return true;
	if (file_of(m, op, &id) || (op->flags != SEEK_DATA && op->flags != SEEK_HOLE))
		return false;
	i = m_get(m, id);
	end = (i->size + M_BLOCK - 1) / M_BLOCK;
	if (op->off >= i->size)
		return false;
	if (ret == -ENXIO)
		return op->flags == SEEK_DATA && !has_kind(i, first, end, 2);
	if (ret < 0 || off < op->off || off > i->size ||
	    (off != op->off && off != i->size && off % M_BLOCK))
		return false;
	/* nothing of the wrong kind is passed over, and something of the right kind is met */
	if (op->flags == SEEK_DATA)
		return !has_kind(i, first, off / M_BLOCK, 2) && off < i->size &&
		       block_kind(i, off / M_BLOCK);
	return !has_kind(i, first, (off + M_BLOCK - 1) / M_BLOCK, 0) &&
	       (off == i->size || block_kind(i, off / M_BLOCK) < 2);
}

int64_t m_read(struct model *m, const struct op *op, struct op_result *res)
{
	const struct minode *i;
	uint64_t id, off, len, end;
	uint8_t *buf;
	size_t at;
	int rc = file_of(m, op, &id);

	if (rc)
		return rc;
	i = m_get(m, id);
	if (m->o.loose_atime) {
		m_maybe(m, m_mut(m, id), ATIME);
		i = m_get(m, id);
	}
	if (op->off >= i->size || !op->len)
		return 0;
	len = i->size - op->off < op->len ? i->size - op->off : op->len;
	end = op->off + len;
	buf = m_alloc(len);
	for (at = m_seg_at(i, op->off / M_BLOCK); at < i->n_segs; at++) {
		const struct seg *s = &i->segs[at];
		uint64_t a = s->start * M_BLOCK, b = a + M_BLOCK;

		if (a >= end)
			break;
		if (!s->page)
			continue;
		off = a > op->off ? a : op->off;
		if (b > end)
			b = end;
		memcpy(buf + (off - op->off), s->page->b + (off - a), b - off);
	}
	op_result_set(res, (int64_t)len, buf, len);
	free(buf);
	return (int64_t)len;
}
