/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading logs.
 *
 * A log is a row of records that certify themselves: the checksum of each is seeded with the
 * filesystem, the inode and the log id, and its sequence number is one more than its
 * predecessor's. So no tail pointer is needed, and no store to one: the log ends where the
 * next record does not verify. Where it ends at zeros nothing was being appended. Bytes that
 * are not zero there are an append that a crash tore (recovery clears it, so that later only
 * damage can look like this) or a damaged record.
 *
 * Everything is copied to DRAM before it is looked at: the medium may change underneath.
 */
#include <errno.h>

#include "fs.h"

#define WINDOW 4096u

/* CRC-8, polynomial 0x07, of the word without its own byte (bits 8-15). */
static uint8_t head_crc(uint64_t head)
{
	uint8_t crc = 0xff;

	for (unsigned i = 0; i < 8; i++) {
		if (i == 1)
			continue;
		crc ^= (uint8_t)(head >> (8 * i));
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc & 0x80 ? (uint8_t)(crc << 1) ^ 0x07 : (uint8_t)(crc << 1);
	}
	return crc;
}

uint64_t head_make(unsigned where, uint64_t id)
{
	uint64_t head = id << 16 | where;

	return head | (uint64_t)head_crc(head) << 8;
}

bool head_valid(uint64_t head)
{
	return head_where(head) <= 2 && !(head & 0xfc) && head >> 16 &&
	       (uint8_t)(head >> 8) == head_crc(head);
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	return x;
}

uint64_t log_seed(const struct pmemfs *fs, uint64_t ino, uint64_t head)
{
	return mix(mix(fs->seed ^ ino) + head_id(head));
}

void rec_seal(struct pmemfs_rec *rec, uint64_t seed, uint32_t seq)
{
	rec->flags = 0;
	rec->seq = put32(seq);
	rec->checksum = put64(hash64((const char *)rec + 8, rec_len(rec) - 8, seed));
}

bool blocks_valid(const struct pmemfs *fs, uint64_t block, uint64_t n)
{
	uint64_t low = super_shard_header(&fs->sb, fs->shards);

	if (!n || block >= fs->blocks || n > fs->blocks - block)
		return false;
	low = MAX(low, PMEMFS_SB_REPLICA + 1ull);
	for (uint64_t b = block; b < MIN(block + n, low); b++)
		if (super_is_reserved(&fs->sb, b))
			return false;
	return true;
}

/* A window of the medium in DRAM. */
struct reader {
	struct pmemfs *fs;
	uint64_t off;
	uint32_t len, cap;
	uint8_t *buf;
	uint8_t fixed[WINDOW] __attribute__((aligned(8)));
};

/* Makes [off, off + need) readable; reads on to `end` as far as the window goes. */
static int reader_get(struct reader *r, uint64_t off, uint32_t need, uint64_t end,
		      const uint8_t **ret)
{
	uint32_t want = MIN(MAX(need, WINDOW), end - off);
	int err;

	if (off < r->off || off + need > r->off + r->len) {
		if (want > r->cap) {
			r->buf = xrealloc(r->buf == r->fixed ? NULL : r->buf, want);
			r->cap = want;
		}
		err = media_read(r->fs->media, off, r->buf, want);
		if (err)
			return err;
		r->off = off;
		r->len = want;
	}
	*ret = r->buf + (off - r->off);
	return 0;
}

/* The record at off, if one with this sequence number (0: with a later one than `after`)
 * verifies. */
static int read_record(struct reader *r, uint64_t off, uint64_t end, uint64_t seed,
		       uint32_t seq, uint32_t after, const struct pmemfs_rec **ret)
{
	const uint8_t *p;
	const struct pmemfs_rec *rec;
	uint32_t len;
	int err;

	*ret = NULL;
	if (end - off < sizeof(*rec))
		return 0;
	err = reader_get(r, off, sizeof(*rec), end, &p);
	if (err)
		return err;
	rec = (const void *)p;
	len = rec_len(rec);
	if (len < sizeof(*rec) || len > end - off || (seq && get32(rec->seq) != seq) ||
	    get32(rec->seq) <= after)
		return 0;
	err = reader_get(r, off, len, end, &p);
	if (err)
		return err;
	rec = (const void *)p;
	if (rec_len(rec) == len && !rec->flags &&
	    get64(rec->checksum) == hash64(p + 8, len - 8, seed))
		*ret = rec;
	return 0;
}

/*
 * Does any later record of this log stand between off and end? Looks at most 64 KiB on and at
 * candidates that could be a record, so that made-up bytes cannot keep it busy.
 */
static int find_later(struct reader *r, uint64_t off, uint64_t end, uint64_t seed, uint32_t seq,
		      bool *ret)
{
	const struct pmemfs_rec *rec;
	uint64_t limit = MIN(end, off + (64u << 10));

	*ret = false;
	for (; off + sizeof(*rec) <= limit; off += 8) {
		int err = read_record(r, off, limit, seed, 0, seq, &rec);

		if (err)
			return err;
		if (rec) {
			*ret = true;
			return 0;
		}
	}
	return 0;
}

static int follow_link(struct pmemfs *fs, struct log *l, const struct pmemfs_rec *rec,
		       uint64_t *total)
{
	const struct pmemfs_link *link = (const void *)rec;
	uint64_t block, n;

	if (rec_len(rec) != sizeof(*link))
		return -EUCLEAN;
	block = get64(link->block);
	n = get32(link->blocks);
	if (!blocks_valid(fs, block, n) || (*total += n) > fs->blocks)
		return -EUCLEAN;
	l->seg = grow_array(l->seg, &l->segcap, l->nseg + 1, sizeof(l->seg[0]));
	l->seg[l->nseg++] = (struct log_seg){block, (uint32_t)n};
	l->pos = block * PMEMFS_BLOCK_SIZE;
	l->end = l->pos + n * PMEMFS_BLOCK_SIZE;
	return 0;
}

/* What stands where no record verified? */
static int judge_end(struct reader *r, const struct log *l, enum log_end *ret)
{
	static const uint8_t zero[sizeof(struct pmemfs_rec)];
	const uint8_t *p;
	bool later;
	int err;

	*ret = LOG_CLEAN;
	if (l->end - l->pos < sizeof(zero))
		return 0;
	err = reader_get(r, l->pos, sizeof(zero), l->end, &p);
	if (err)
		return err;
	if (!memcmp(p, zero, sizeof(zero)))
		return 0;
	err = find_later(r, l->pos + 8, l->end, l->seed, l->seq, &later);
	if (!err)
		*ret = later ? LOG_DAMAGED : LOG_TORN;
	return err;
}

static int walk(struct reader *r, struct log *l, log_fn fn, void *arg, enum log_end *ret_end)
{
	uint64_t total = 0;

	for (;;) {
		const struct pmemfs_rec *rec;
		uint64_t at = l->pos;
		int err = read_record(r, l->pos, l->end, l->seed, l->seq, 0, &rec);

		if (err)
			return err;
		if (!rec)
			return judge_end(r, l, ret_end);
		l->seq++;
		l->bytes += rec_len(rec);
		if (rec->type == REC_LINK) {
			err = follow_link(r->fs, l, rec, &total);
		} else {
			l->pos += rec_len(rec);
			err = fn ? fn(arg, rec, at) : 0;
		}
		if (err)
			return err;
	}
}

int log_walk(struct pmemfs *fs, uint64_t ino, uint64_t slot, uint64_t head, log_fn fn,
	     void *arg, struct log *ret, enum log_end *ret_end)
{
	struct reader r;
	int err;

	*ret = (struct log){.head = head, .seed = log_seed(fs, ino, head), .seq = 1};
	ret->pos = slot_area(slot, head_where(head));
	ret->end = ret->pos + PMEMFS_AREA_SIZE;
	r.fs = fs;
	r.off = 0;
	r.len = 0;
	r.cap = WINDOW;
	r.buf = r.fixed;
	err = walk(&r, ret, fn, arg, ret_end);
	if (r.buf != r.fixed)
		free(r.buf);
	return err;
}

void log_free(struct log *l)
{
	free(l->seg);
	*l = (struct log){0};
}

int log_clear_tail(struct pmemfs *fs, const struct log *l)
{
	media_clear(fs->media, l->pos, l->end - l->pos);
	return media_fence(fs->media);
}
