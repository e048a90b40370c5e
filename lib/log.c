/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading logs.
 *
 * A log is a row of records that certify themselves: the checksum of each is seeded with the
 * filesystem, the inode and the log id, and its sequence number is one more than its
 * predecessor's. So no tail pointer is needed, and no store to one: the log ends where the
 * next record does not verify. Where it ends at zeros nothing was being appended. Bytes that
 * are not zero there are an append that a crash tore (recovery clears it, so that later only
 * damage can look like this) or a damaged record. What a rewrite makes was fenced before the
 * head word named it, so none of it can be torn: each of its records but the last says
 * REC_MORE, and a log that ends behind one is damaged.
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
	uint64_t head;

	id += !(id << 16); /* behind the last one comes 1: 0 is none */
	head = id << 16 | where;
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

uint64_t rec_sum(const struct pmemfs_rec *rec, uint64_t seed, uint64_t more)
{
	uint64_t sum = hash64((const char *)rec + 8, rec_len(rec) - 8, seed + more);

	return (sum & ~REC_MORE) | more;
}

void rec_seal(struct pmemfs_rec *rec, uint64_t seed, uint32_t seq, uint64_t more)
{
	rec->flags = 0;
	rec->seq = put32(seq);
	rec->checksum = put64(rec_sum(rec, seed, more));
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

/* Whoever appends relies on it: behind what is no link there is room for one. */
static bool leaves_room(const struct pmemfs_rec *rec, uint64_t space)
{
	return rec->type == REC_LINK || rec_len(rec) + (uint64_t)LOG_LINK_SIZE <= space;
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
	if (rec_len(rec) == len && !rec->flags && leaves_room(rec, end - off) &&
	    get64(rec->checksum) == rec_sum(rec, seed, rec_more(rec)))
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

void log_note_fix(struct log *l, uint64_t to, uint64_t from, uint64_t len)
{
	l->fix = grow_array(l->fix, &l->fixcap, l->fixes + 1, sizeof(l->fix[0]));
	l->fix[l->fixes++] = (struct log_fix){to, from, len};
}

static int mend_one(struct pmemfs *fs, const struct log_fix *f)
{
	void *buf;
	int err;

	if (!f->from) {
		media_clear(fs->media, f->to, f->len);
		return 0;
	}
	buf = xrealloc(NULL, f->len);
	err = media_read(fs->media, f->from, buf, f->len);
	if (!err)
		media_copy(fs->media, f->to, buf, f->len);
	free(buf);
	return err;
}

int log_mend(struct pmemfs *fs, struct log *l)
{
	int err = 0, fence;

	if (!l->fixes)
		return 0;
	for (size_t k = 0; k < l->fixes && !err; k++)
		err = mend_one(fs, &l->fix[k]);
	fence = media_fence(fs->media);
	free(l->fix);
	l->fix = NULL;
	l->fixes = l->fixcap = 0;
	return err ? err : fence;
}

int log_tail_is_clear(struct pmemfs *fs, const struct log *l, uint64_t shift, bool *ret)
{
	uint64_t buf[WINDOW / 8], off = l->pos + shift, end = l->end + shift;

	for (*ret = true; off < end && *ret;) {
		size_t n = MIN(end - off, sizeof(buf));
		int err = media_read(fs->media, off, buf, n);

		if (err)
			return err;
		for (size_t k = 0; k < n / 8; k++)
			*ret &= !buf[k];
		off += n;
	}
	return 0;
}

int log_note_tail(struct pmemfs *fs, struct log *l)
{
	for (unsigned copy = 0; copy < 1u + !!l->mirror; copy++) {
		uint64_t shift = copy ? l->mirror : 0;
		bool clear;
		int err = log_tail_is_clear(fs, l, shift, &clear);

		if (err && !l->mirror)
			return err;
		if (err || !clear)
			log_note_fix(l, l->pos + shift, 0, l->end - l->pos);
	}
	return 0;
}

void log_note_heads(struct pmemfs *fs, uint64_t slot, struct log *l)
{
	for (unsigned copy = 0; copy < fs->copies; copy++) {
		uint64_t at = slot + copy * fs->mirror;
		le64 word;

		if (media_read(fs->media, at, &word, sizeof(word)) || get64(word) != l->head)
			log_note_fix(l, at, slot + !copy * fs->mirror, sizeof(word));
	}
}

uint64_t log_other_copy(const struct pmemfs *fs, uint64_t slot, const struct log *l,
			uint64_t off)
{
	uint64_t start = slot, half = fs->mirror, end = slot + PMEMFS_SLOT_SIZE;

	if (!half)
		return 0;
	if (off >= start && off < end)
		return off + half;
	if (off >= start + half && off < end + half)
		return off - half;
	for (uint32_t k = 0; k < l->nseg; k++) {
		start = l->seg[k].block * PMEMFS_BLOCK_SIZE;
		half = seg_mirror(fs, l->seg[k].blocks);
		if (off >= start && off < start + 2 * half)
			return off < start + half ? off + half : off - half;
	}
	return 0;
}

int head_read(struct pmemfs *fs, uint64_t slot, bool both, uint64_t ret[2], bool *ret_alike)
{
	bool alike = true;
	int n = 0, err = 0;

	for (unsigned copy = 0; copy < fs->copies; copy++) {
		le64 word;
		int r = media_read(fs->media, slot + copy * fs->mirror, &word, sizeof(word));

		err = r ? r : err;
		if (r || !head_valid(get64(word)))
			alike = false;
		else if (!n || ret[0] != get64(word))
			ret[n++] = get64(word);
		if (n && !both)
			break;
	}
	if (n == 2 && head_id(ret[1]) > head_id(ret[0])) {
		uint64_t old = ret[0];

		ret[0] = ret[1];
		ret[1] = old;
	}
	if (ret_alike)
		*ret_alike = alike && n == 1;
	return n ? n : err ? err : -EUCLEAN;
}

/* ---- walking ---- */

/* Both copies of a log being read. */
struct walker {
	struct pmemfs *fs;
	struct log *log;
	bool both;
	struct reader r[2];
};

static int follow_link(struct pmemfs *fs, struct log *l, const struct pmemfs_rec *rec,
		       uint64_t *total)
{
	const struct pmemfs_link *link = (const void *)rec;
	uint64_t block, n;

	if (rec_len(rec) != sizeof(*link))
		return -EUCLEAN;
	block = get64(link->block);
	n = get32(link->blocks);
	if (!blocks_valid(fs, block, n) || n % fs->copies || (*total += n) > fs->blocks)
		return -EUCLEAN;
	l->seg = grow_array(l->seg, &l->segcap, l->nseg + 1, sizeof(l->seg[0]));
	l->seg[l->nseg++] = (struct log_seg){block, (uint32_t)n};
	l->pos = block * PMEMFS_BLOCK_SIZE;
	l->end = l->pos + seg_bytes(fs, n);
	l->mirror = seg_mirror(fs, n);
	return 0;
}

/*
 * Is this, where no record verified, a link whose header is damaged? The rest of it verifies
 * with the header that it has to have. One that a crash tore, whose header did not arrive, has
 * 0 there: links are appended over zeros. (A header alone says nothing: where a crash cut a
 * replay short, bytes of the area's earlier lives may stand behind the log.)
 */
static bool was_link(const struct log *l, const uint8_t *p)
{
	struct pmemfs_link link;

	memcpy(&link, p, sizeof(link));
	if (!link.h.len.raw && !link.h.type && !link.h.flags && !link.h.seq.raw)
		return false;
	link.h = (struct pmemfs_rec){.checksum = link.h.checksum,
				     .len = put16(sizeof(link) / 8),
				     .type = REC_LINK,
				     .seq = put32(l->seq)};
	return get64(link.h.checksum) == rec_sum(&link.h, l->seed, rec_more(&link.h));
}

/*
 * If it is a link, whatever is wrong with it: does the log go on where it leads? The first
 * record there may have been stored in one epoch with the link; one behind that was not.
 */
static int find_behind(struct reader *r, const struct log *l, const uint8_t *p, bool *ret)
{
	uint64_t block = get64(((const struct pmemfs_link *)(const void *)p)->block);

	*ret = false;
	if (!blocks_valid(r->fs, block, 1))
		return 0;
	return find_later(r, block * PMEMFS_BLOCK_SIZE, r->fs->blocks * PMEMFS_BLOCK_SIZE,
			  l->seed, l->seq + 1, ret);
}

/* Was there a link at the log's end? */
static int find_link(struct reader *r, const struct log *l, uint64_t shift, bool *ret)
{
	const uint8_t *p;
	int err;

	*ret = false;
	if (l->end - l->pos < LOG_LINK_SIZE)
		return 0;
	err = reader_get(r, l->pos + shift, LOG_LINK_SIZE, l->end + shift, &p);
	if (err)
		return err;
	*ret = was_link(l, p);
	return *ret ? 0 : find_behind(r, l, p, ret);
}

/* What stands in one copy where no record verified? */
static int judge_copy(struct reader *r, const struct log *l, uint64_t shift, enum log_end *ret)
{
	static const uint8_t zero[sizeof(struct pmemfs_rec)];
	const uint8_t *p;
	bool later;
	int err;

	*ret = LOG_CLEAN;
	if (l->end - l->pos < sizeof(zero))
		return 0;
	err = reader_get(r, l->pos + shift, sizeof(zero), l->end + shift, &p);
	if (err)
		return err;
	if (!memcmp(p, zero, sizeof(zero)))
		return 0;
	err = find_later(r, l->pos + shift + 8, l->end + shift, l->seed, l->seq, &later);
	if (!err && !later)
		err = find_link(r, l, shift, &later);
	if (!err)
		*ret = later ? LOG_DAMAGED : LOG_TORN;
	return err;
}

/*
 * What stands where in no copy a record verified? One copy that ends in zeros says that the log
 * ends here: then what stands in the other is rot, or was torn by a crash.
 */
static int judge_end(struct walker *w, enum log_end *ret)
{
	struct log *l = w->log;
	enum log_end other;
	int err = judge_copy(&w->r[0], l, 0, ret), err2;

	if (!l->mirror) {
		if (l->more)
			*ret = LOG_DAMAGED;
		return err;
	}
	err2 = judge_copy(&w->r[1], l, l->mirror, &other);
	if (err && err2)
		return err;
	if (l->more || (!err && *ret == LOG_DAMAGED) || (!err2 && other == LOG_DAMAGED)) {
		*ret = LOG_DAMAGED;
		return 0;
	}
	if (err || (*ret == LOG_TORN && !err2 && other == LOG_CLEAN))
		log_note_fix(l, l->pos, 0, l->end - l->pos);
	if (err2 || (other == LOG_TORN && !err && *ret == LOG_CLEAN))
		log_note_fix(l, l->pos + l->mirror, 0, l->end - l->pos);
	if (err || (!err2 && other == LOG_CLEAN))
		*ret = other;
	return 0;
}

/* The next record, from the copy in which it verifies; *ret_at is where it stands there. */
static int next_record(struct walker *w, const struct pmemfs_rec **ret, uint64_t *ret_at)
{
	const struct log *l = w->log;
	const struct pmemfs_rec *other = NULL;
	int err = read_record(&w->r[0], l->pos, l->end, l->seed, l->seq, 0, ret);

	*ret_at = l->pos;
	if (!l->mirror || (!err && *ret && !w->both))
		return err;
	if (err)
		*ret = NULL;
	if (read_record(&w->r[1], l->pos + l->mirror, l->end + l->mirror, l->seed, l->seq, 0,
			&other))
		other = NULL;
	/* Both verify, and fsck was cut short when it ended a state: in the first it is. */
	if (*ret && (!other || rec_more(*ret) != rec_more(other)))
		log_note_fix(w->log, l->pos + l->mirror, l->pos, rec_len(*ret));
	if (!*ret && other) {
		log_note_fix(w->log, l->pos, l->pos + l->mirror, rec_len(other));
		*ret_at = l->pos + l->mirror;
		*ret = other;
	}
	return 0; /* if neither can be read, judge_end fails */
}

static int walk(struct walker *w, log_fn fn, void *arg, enum log_end *ret_end)
{
	struct log *l = w->log;
	uint64_t total = 0;

	for (;;) {
		const struct pmemfs_rec *rec;
		uint64_t at, more;
		int err = next_record(w, &rec, &at);

		if (err)
			return err;
		if (!rec)
			return judge_end(w, ret_end);
		more = rec_more(rec) ? l->pos : 0;
		l->seq++;
		l->bytes += rec_len(rec);
		if (rec->type == REC_LINK) {
			err = follow_link(w->fs, l, rec, &total);
		} else {
			l->pos += rec_len(rec);
			err = fn ? fn(arg, rec, at) : 0;
		}
		if (err)
			return err;
		l->more = more;
	}
}

static void reader_init(struct reader *r, struct pmemfs *fs)
{
	r->fs = fs;
	r->off = 0;
	r->len = 0;
	r->cap = WINDOW;
	r->buf = r->fixed;
}

int log_walk(struct pmemfs *fs, uint64_t ino, uint64_t slot, uint64_t head, bool both,
	     log_fn fn, void *arg, struct log *ret, enum log_end *ret_end)
{
	struct walker w;
	int err;

	*ret = (struct log){.head = head, .seed = log_seed(fs, ino, head), .seq = 1};
	ret->pos = slot_area(slot, head_where(head));
	ret->end = ret->pos + PMEMFS_AREA_SIZE;
	ret->mirror = fs->mirror;
	w.fs = fs;
	w.log = ret;
	w.both = both;
	reader_init(&w.r[0], fs);
	reader_init(&w.r[1], fs);
	err = walk(&w, fn, arg, ret_end);
	for (unsigned k = 0; k < 2; k++)
		if (w.r[k].buf != w.r[k].fixed)
			free(w.r[k].buf);
	return err;
}

int log_end_state(struct pmemfs *fs, uint64_t slot, const struct log *l, uint64_t off)
{
	uint64_t at[2] = {off, log_other_copy(fs, slot, l, off)}, word = 0;
	const struct pmemfs_rec *rec = NULL;
	struct reader r;
	int err = -EUCLEAN;

	reader_init(&r, fs);
	for (unsigned k = 0; k < 2 && !rec && at[k]; k++)
		err = read_record(
		    &r, at[k],
		    MIN(at[k] + PMEMFS_REC_MAX + LOG_LINK_SIZE, fs->blocks * PMEMFS_BLOCK_SIZE),
		    l->seed, 0, 0, &rec);
	if (rec)
		word = rec_sum(rec, l->seed, 0);
	if (r.buf != r.fixed)
		free(r.buf);
	if (!rec)
		return err ? err : -EUCLEAN;
	for (unsigned k = 0; k < 2 && at[k]; k++) {
		media_store8(fs->media, at[k], word);
		media_flush(fs->media, at[k], 8);
	}
	return 0;
}

void log_free(struct log *l)
{
	free(l->seg);
	free(l->fix);
	*l = (struct log){0};
}
