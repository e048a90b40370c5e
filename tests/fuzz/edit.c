/* SPDX-License-Identifier: BSD-3-Clause */
/* From an input to an image: edits of the seed's metadata, then checksums. */
#include <string.h>

#include "fs.h"
#include "fuzz.h"

/* An edit as it stands in the input. */
struct __attribute__((packed)) fuzz_change {
	uint8_t kind, at; /* at: offset in the line */
	uint16_t line;
	uint64_t value;
};

static const uint8_t *any_line(const struct fuzz_seed *s, const struct fuzz_image *i,
			       uint64_t n)
{
	return i->at + s->line[n % s->lines];
}

/* What a field may hold that means something, or just does not. */
static uint64_t meaningful(uint64_t n)
{
	static const uint64_t values[] = {
	    0,
	    1,
	    2,
	    8,
	    64,
	    255,
	    256,
	    4095,
	    4096,
	    0x7fffffff,
	    0xffffffff,
	    FUZZ_SIZE / PMEMFS_BLOCK_SIZE - 1,
	    FUZZ_SIZE / PMEMFS_BLOCK_SIZE,
	    FUZZ_SIZE,
	    PMEMFS_INO_TABLE,
	    PMEMFS_INO_TABLE | 1,
	    PMEMFS_INO_QUOTA,
	    (1ull << 63) - 1,
	    ~0ull,
	};

	return values[n % ARRAY_LEN(values)];
}

static void put_at(uint8_t *at, unsigned left, uint64_t value, unsigned len)
{
	memcpy(at, &value, MIN(len, left));
}

static void edit_one(const struct fuzz_seed *s, const struct fuzz_change *e,
		     struct fuzz_image *i)
{
	uint64_t off = s->line[e->line % s->lines], v;
	unsigned from = e->at % 64, left = 64 - from; /* not past the line */
	uint8_t *line = i->at + off, *at = line + from, *word = line + from / 8 * 8;

	fuzz_image_touch(i, off, 64);
	switch (e->kind % 12) {
	case 0: /* a byte, and so on */
	case 1:
	case 2:
	case 3:
		put_at(at, left, e->value, 1u << e->kind % 12);
		break;
	case 4:
		memcpy(&v, word, 8);
		v += (uint64_t)(int64_t)(int8_t)e->value;
		memcpy(word, &v, 8);
		break;
	case 5:
		word[e->value / 8 % 8] ^= 1u << e->value % 8;
		break;
	case 6:
		memmove(line, any_line(s, i, e->value), 64);
		break;
	case 7:
		memset(at, 0, left);
		break;
	case 8: /* a word of another place: another's block, inode, record */
		memmove(word, any_line(s, i, e->value) + (e->value >> 32) % 8 * 8, 8);
		break;
	case 9:
	case 10:
		put_at(at, left, meaningful(e->value), e->kind % 12 == 9 ? 4 : 8);
		break;
	default: /* a head word: which slot it is, where its log begins, with which id */
		off = s->slot[e->line % s->slots].off;
		fuzz_image_touch(i, off, 8);
		memcpy(&v, i->at + off, 8);
		v = head_make(e->value % 4, head_id(v) + (uint64_t)(e->at % 3) - 1);
		memcpy(i->at + off, &v, 8);
		break;
	}
}

/* The other copy is the same. */
static void edit_twin(const struct fuzz_seed *s, size_t line, struct fuzz_image *i)
{
	if (!s->twin[line])
		return;
	fuzz_image_touch(i, s->twin[line], 64);
	memcpy(i->at + s->twin[line], i->at + s->line[line], 64);
}

void fuzz_edit(const struct fuzz_seed *s, const uint8_t *data, size_t size,
	       struct fuzz_image *i)
{
	struct fuzz_change e;

	for (size_t k = 1; k + sizeof(e) <= size; k += sizeof(e)) {
		memcpy(&e, data + k, sizeof(e));
		edit_one(s, &e, i);
		if (e.kind & 0x80)
			edit_twin(s, e.line % s->lines, i);
	}
	if (data[0] & 0x80)
		fuzz_reseal(s, i);
}

/* ---- checksums ---- */

/* What the library's functions want to know of a filesystem here. */
struct context {
	struct pmemfs fs;
	struct fuzz_image *i;
};

/* The image at off, which is going to be stored to. */
static void *at(const struct context *c, uint64_t off, size_t len)
{
	fuzz_image_touch(c->i, off, len);
	return c->i->at + off;
}

/* Of the first copy, or the second one, `mirror` bytes behind it. */
static void reseal_log(const struct context *c, const struct fuzz_slot *slot, uint64_t head,
		       uint64_t mirror)
{
	uint64_t pos = slot_area(slot->off, head_where(head)) + mirror;
	uint64_t end = pos + PMEMFS_AREA_SIZE;
	uint64_t seed = log_seed(&c->fs, slot->ino, head);

	for (uint32_t seq = 1; seq < 2000 && pos + sizeof(struct pmemfs_rec) <= end; seq++) {
		struct pmemfs_rec *rec = at(c, pos, sizeof(*rec));
		const struct pmemfs_link *link = (const void *)rec;
		uint32_t len = rec_len(rec);

		if (len < sizeof(*rec) || len > end - pos)
			break;
		rec_seal(rec, seed, seq, rec_more(rec));
		pos += len;
		if (rec->type != REC_LINK || len != sizeof(*link))
			continue;
		if (get64(link->block) >= FUZZ_SIZE / PMEMFS_BLOCK_SIZE ||
		    get32(link->blocks) > FUZZ_SIZE / PMEMFS_BLOCK_SIZE - get64(link->block))
			break;
		pos = get64(link->block) * PMEMFS_BLOCK_SIZE;
		end = pos + seg_bytes(&c->fs, get32(link->blocks));
		if (mirror) {
			pos += seg_mirror(&c->fs, get32(link->blocks));
			end += seg_mirror(&c->fs, get32(link->blocks));
		}
	}
}

static void reseal_slot(const struct context *c, const struct fuzz_slot *slot, uint64_t mirror)
{
	uint64_t head;

	memcpy(&head, c->i->at + slot->off + mirror, 8);
	if (!head)
		return;
	head = head_make(head_where(head), head_id(head));
	memcpy(at(c, slot->off + mirror, 8), &head, 8);
	if (head_where(head) == 1 || head_where(head) == 2)
		reseal_log(c, slot, head, mirror);
}

static void reseal_journal(const struct context *c, uint64_t off, uint64_t mirror)
{
	struct pmemfs_journal *j = at(c, off + mirror, 8);
	uint32_t len = get32(j->len);

	if (get32(j->magic) == PMEMFS_JOURNAL_MAGIC && len <= PMEMFS_BLOCK_SIZE - sizeof(*j))
		j->checksum =
		    put64(hash64((char *)j + 8, sizeof(*j) - 8 + len, c->fs.seed ^ off));
}

static void reseal_saved(const struct context *c, uint64_t block)
{
	for (unsigned k = 0; k < 8 && block && block < FUZZ_SIZE / PMEMFS_BLOCK_SIZE; k++) {
		struct pmemfs_saved *s = at(c, block * PMEMFS_BLOCK_SIZE, 8);

		s->checksum = put64(hash64((char *)s + 8, sizeof(*s) - 8, c->fs.seed ^ block));
		block = get64(s->next);
	}
}

/* What was put on the list of bad blocks is made to be a block, more or less. */
static void reseal_bad(const struct context *c, uint64_t table, uint64_t mirror)
{
	uint64_t off = table + 2 * PMEMFS_SLOT_SIZE + mirror, word;

	for (unsigned k = 0; k < PMEMFS_BAD_MAX; k++, off += 8) {
		memcpy(&word, c->i->at + off, 8);
		if (!word)
			continue;
		word = bad_word(&c->fs, k,
				(word >> PMEMFS_BAD_BLOCK_SHIFT) %
				    (FUZZ_SIZE / PMEMFS_BLOCK_SIZE + 4));
		memcpy(at(c, off, 8), &word, 8);
	}
}

void fuzz_reseal(const struct fuzz_seed *seed, struct fuzz_image *i)
{
	static const uint64_t copies[] = {PMEMFS_SB_BLOCK, PMEMFS_SB_REPLICA};
	struct context c = {.i = i};
	const struct pmemfs_super *sb = (const void *)i->at;

	for (unsigned k = 0; k < 2; k++) {
		struct pmemfs_super *copy =
		    at(&c, copies[k] * PMEMFS_BLOCK_SIZE, sizeof(*copy));

		copy->checksum =
		    put64(hash64(copy, offsetof(struct pmemfs_super, checksum), 0));
	}
	c.fs.seed = super_seed(sb);
	c.fs.copies = seed->copies;
	c.fs.mirror = seed->copies == 2 ? PMEMFS_BLOCK_SIZE : 0;
	for (size_t k = 0; k < seed->slots; k++)
		for (unsigned copy = 0; copy < seed->copies; copy++)
			reseal_slot(&c, &seed->slot[k], copy * c.fs.mirror);
	for (unsigned copy = 0; copy < seed->copies; copy++)
		reseal_bad(&c, seed->slot[0].off, copy * c.fs.mirror);
	for (unsigned k = 0; k < seed->shards * PMEMFS_JOURNAL_SLOTS; k++)
		for (unsigned copy = 0; copy < seed->copies; copy++)
			reseal_journal(&c, seed->journal[k], copy * c.fs.mirror);
	reseal_saved(&c, get64(sb->saved_list));
}
