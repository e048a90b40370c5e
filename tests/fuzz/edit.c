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

static void edit_one(const struct fuzz_seed *s, const struct fuzz_change *e, uint8_t *image)
{
	uint8_t *line = image + s->line[e->line % s->lines];
	uint8_t *at = line + e->at % 64, *word = line + e->at % 64 / 8 * 8;
	uint64_t v;

	switch (e->kind % 8) {
	case 0: /* a byte, and so on; not past the line */
	case 1:
	case 2:
	case 3:
		memcpy(at, &e->value, MIN(1u << e->kind % 8, 64u - e->at % 64));
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
		memmove(line, image + s->line[e->value % s->lines], 64);
		break;
	default:
		memset(at, 0, 64 - e->at % 64);
		break;
	}
}

const struct fuzz_seed *fuzz_edit(const struct fuzz_seed *seeds, const uint8_t *data,
				  size_t size, uint8_t *image)
{
	const struct fuzz_seed *s;
	struct fuzz_change e;

	if (!size)
		return NULL;
	s = &seeds[data[0] % FUZZ_SEEDS];
	for (size_t k = 1; k + sizeof(e) <= size; k += sizeof(e)) {
		memcpy(&e, data + k, sizeof(e));
		edit_one(s, &e, image);
	}
	if (data[0] & 0x80)
		fuzz_reseal(s, image);
	return s;
}

/* ---- checksums ---- */

/* What the library's functions want to know of a filesystem here. */
struct context {
	struct pmemfs fs;
	uint8_t *image;
};

static void reseal_log(const struct context *c, const struct fuzz_slot *slot, uint64_t head)
{
	uint64_t pos = slot_area(slot->off, head_where(head)), end = pos + PMEMFS_AREA_SIZE;
	uint64_t seed = log_seed(&c->fs, slot->ino, head);

	for (uint32_t seq = 1; seq < 2000 && pos + sizeof(struct pmemfs_rec) <= end; seq++) {
		struct pmemfs_rec *rec = (void *)(c->image + pos);
		const struct pmemfs_link *link = (const void *)rec;
		uint32_t len = rec_len(rec);

		if (len < sizeof(*rec) || len > end - pos)
			break;
		rec_seal(rec, seed, seq);
		pos += len;
		if (rec->type != REC_LINK || len != sizeof(*link))
			continue;
		if (get64(link->block) >= FUZZ_SIZE / PMEMFS_BLOCK_SIZE ||
		    get32(link->blocks) > FUZZ_SIZE / PMEMFS_BLOCK_SIZE - get64(link->block))
			break;
		pos = get64(link->block) * PMEMFS_BLOCK_SIZE;
		end = pos + get32(link->blocks) * (uint64_t)PMEMFS_BLOCK_SIZE;
	}
}

static void reseal_slot(const struct context *c, const struct fuzz_slot *slot)
{
	uint64_t head;

	memcpy(&head, c->image + slot->off, 8);
	if (!head)
		return;
	head = head_make(head_where(head), head_id(head));
	memcpy(c->image + slot->off, &head, 8);
	if (head_where(head) == 1 || head_where(head) == 2)
		reseal_log(c, slot, head);
}

static void reseal_journal(const struct context *c, uint64_t off)
{
	struct pmemfs_journal *j = (void *)(c->image + off);
	uint32_t len = get32(j->len);

	if (get32(j->magic) == PMEMFS_JOURNAL_MAGIC && len <= PMEMFS_BLOCK_SIZE - sizeof(*j))
		j->checksum =
		    put64(hash64((char *)j + 8, sizeof(*j) - 8 + len, c->fs.seed ^ off));
}

static void reseal_saved(const struct context *c, uint64_t block)
{
	for (unsigned k = 0; k < 8 && block && block < FUZZ_SIZE / PMEMFS_BLOCK_SIZE; k++) {
		struct pmemfs_saved *s = (void *)(c->image + block * PMEMFS_BLOCK_SIZE);

		s->checksum = put64(hash64((char *)s + 8, sizeof(*s) - 8, c->fs.seed ^ block));
		block = get64(s->next);
	}
}

void fuzz_reseal(const struct fuzz_seed *seed, uint8_t *image)
{
	static const uint64_t copies[] = {PMEMFS_SB_BLOCK, PMEMFS_SB_REPLICA};
	struct context c = {.image = image};
	struct pmemfs_super *sb = (void *)image;

	for (unsigned k = 0; k < 2; k++) {
		struct pmemfs_super *copy = (void *)(image + copies[k] * PMEMFS_BLOCK_SIZE);

		copy->checksum =
		    put64(hash64(copy, offsetof(struct pmemfs_super, checksum), 0));
	}
	c.fs.seed = super_seed(sb);
	for (size_t k = 0; k < seed->slots; k++)
		reseal_slot(&c, &seed->slot[k]);
	for (unsigned k = 0; k < 2 * PMEMFS_JOURNAL_SLOTS; k++) {
		uint64_t off =
		    super_journal_slot(sb, k / PMEMFS_JOURNAL_SLOTS, k % PMEMFS_JOURNAL_SLOTS);

		if (off <= FUZZ_SIZE - PMEMFS_BLOCK_SIZE)
			reseal_journal(&c, off);
	}
	reseal_saved(&c, get64(sb->saved_list));
}
