/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The journal: each shard has a few slots of one block, each holding one redo record.
 *
 * A slot is taken for the length of one transaction. What its record describes is fenced before
 * the slot is given back, so that overwriting a record needs no care. A record that was applied
 * stays where it is until then, and may be replayed if that mount ends in a crash: so each
 * entry names the head word that its inode had, and is skipped once that has changed, for then
 * everything the entry did is part of the new state. Head words never come back in a mount, and
 * a record of an earlier mount does not count. One of a mount that is still to come says that
 * the superblock's number went back, or began again at 0: recovery clears it, or it would count
 * when that number comes, on top of what was done meanwhile.
 *
 * Replay is idempotent: the same bytes go to the same places, and records of slots are
 * independent, since transactions that were under way at a crash shared no inode. A crash in
 * replay is met by replaying again; only when all is fenced does the superblock begin another
 * mount, for which the records are of the past.
 */
#include <errno.h>

#include "fs.h"

void journal_add(struct journal_buf *b, uint64_t ino, uint64_t from, unsigned type,
		 uint64_t where, uint64_t mirror, const void *bytes, uint32_t len)
{
	struct pmemfs_jentry *e = (void *)(b->data + b->len);
	uint32_t padded = ROUND_UP(len, 8u);

	if (b->len + sizeof(*e) + padded > sizeof(b->data))
		abort(); /* no operation has so much to say */
	*e = (struct pmemfs_jentry){put64(ino), put64(from), put64(where),
				    put32(len), put16(type), put16(mirror / PMEMFS_BLOCK_SIZE)};
	if (padded)
		memset((char *)(e + 1) + padded - 8, 0, 8);
	if (len)
		memcpy(e + 1, bytes, len);
	b->len += sizeof(*e) + padded;
	b->entries++;
}

static struct journal_slot *take_slot(struct pmemfs *fs)
{
	static _Thread_local unsigned turn;
	struct shard *s = &fs->shard[fs_home_shard(fs)];
	struct journal_slot *slot;

	for (unsigned k = 0; k < PMEMFS_JOURNAL_SLOTS; k++) {
		slot = &s->journal[(turn + k) % PMEMFS_JOURNAL_SLOTS];
		if (!pthread_mutex_trylock(&slot->lock))
			return slot;
	}
	slot = &s->journal[turn++ % PMEMFS_JOURNAL_SLOTS];
	pthread_mutex_lock(&slot->lock);
	return slot;
}

static uint64_t record_sum(const struct pmemfs *fs, uint64_t off,
			   const struct pmemfs_journal *j, uint32_t len)
{
	return hash64((const char *)j + 8, sizeof(*j) - 8 + len, fs->seed ^ off);
}

int journal_commit(struct pmemfs *fs, struct journal_buf *b, void **ret_slot)
{
	struct {
		struct pmemfs_journal head;
		uint8_t data[sizeof(b->data)];
	} rec;
	struct journal_slot *slot = take_slot(fs);
	int err;

	rec.head = (struct pmemfs_journal){.magic = put32(PMEMFS_JOURNAL_MAGIC),
					   .len = put32(b->len),
					   .entries = put32(b->entries),
					   .mounts = fs->sb.mounts};
	memcpy(rec.data, b->data, b->len);
	rec.head.checksum = put64(record_sum(fs, slot->off, &rec.head, b->len));
	meta_copy(fs, slot->off, fs->mirror, &rec, sizeof(rec.head) + b->len);
	err = media_fence(fs->media);
	if (err) {
		pthread_mutex_unlock(&slot->lock);
		return err;
	}
	*ret_slot = slot;
	return 0;
}

void journal_release(struct pmemfs *fs, void *slot)
{
	(void)fs;
	pthread_mutex_unlock(&((struct journal_slot *)slot)->lock);
}

/* Do these bytes lie in blocks that a log can have? */
static bool bytes_valid(const struct pmemfs *fs, uint64_t off, uint32_t len)
{
	uint64_t block = off / PMEMFS_BLOCK_SIZE;

	return block < fs->blocks &&
	       blocks_valid(fs, block, (off + len - 1) / PMEMFS_BLOCK_SIZE - block + 1);
}

/* May the entry store there? Its own log's blocks are not known here; the rest is bounds. */
static bool entry_sane(const struct pmemfs *fs, const struct pmemfs_jentry *e, uint64_t slot)
{
	uint64_t where = get64(e->where), area0 = slot_area(slot, 1);
	uint64_t mirror = get16(e->mirror) * (uint64_t)PMEMFS_BLOCK_SIZE;
	uint32_t len = get32(e->len);

	if (get16(e->type) == JOURNAL_SWITCH)
		return head_valid(where) && where && len <= PMEMFS_AREA_SIZE &&
		       (len == 0) == (head_where(where) == HEAD_FREE);
	if (get16(e->type) != JOURNAL_APPEND || !len || where % 8 || !mirror != !fs->mirror)
		return false;
	if (where >= area0 && where + len <= area0 + 2 * PMEMFS_AREA_SIZE)
		return mirror == fs->mirror;
	return bytes_valid(fs, where, len) && bytes_valid(fs, where + mirror, len);
}

/* Returns 1 if the entry was stored, 0 if it is a thing of the past, or a negative errno. */
static int replay_entry(struct pmemfs *fs, const struct pmemfs_jentry *e)
{
	uint64_t slot, head[2], from = get64(e->from), where = get64(e->where);
	uint32_t len = get32(e->len);
	int err = itable_find(fs, get64(e->ino), &slot);

	if (err == -ESTALE)
		return 0; /* the slot's whole block was given up since */
	if (err)
		return err;
	if (!entry_sane(fs, e, slot))
		return -EUCLEAN;
	err = head_read(fs, slot, true, head, NULL);
	if (err < 0)
		return err;
	if (get16(e->type) == JOURNAL_APPEND) {
		if (head[0] != from)
			return 0;
		meta_copy(fs, where, get16(e->mirror) * (uint64_t)PMEMFS_BLOCK_SIZE, e + 1,
			  len);
		return 1;
	}
	if (head[0] != from && head[0] != where)
		return 0;
	if (len) {
		uint64_t area = slot_area(slot, head_where(where));
		uint32_t padded = ROUND_UP(len, 8u);

		/*
		 * An append may have followed the switch: what it wrote must stay. No fence:
		 * should the word alone be durable, the next replay stores the area again.
		 */
		meta_copy(fs, area, fs->mirror, e + 1, len);
		if (head[0] == from)
			meta_clear(fs, area + padded, fs->mirror, PMEMFS_AREA_SIZE - padded);
	}
	meta_head(fs, slot, where);
	return 1;
}

struct journal_rec {
	struct pmemfs_journal head;
	uint8_t data[PMEMFS_BLOCK_SIZE - sizeof(struct pmemfs_journal)];
};

/* Reads the copy at `from` of the slot at off. 1: it counts, 0: not; negative errno. */
static int read_slot(struct pmemfs *fs, uint64_t off, uint64_t from, struct journal_rec *rec)
{
	int err = media_read(fs->media, from, rec, sizeof(*rec));
	int32_t ahead;
	uint32_t len;

	if (err)
		return err;
	len = get32(rec->head.len);
	/* Else it was never committed, and nothing of it stored. */
	if (get32(rec->head.magic) != PMEMFS_JOURNAL_MAGIC || len > sizeof(rec->data) ||
	    get64(rec->head.checksum) != record_sum(fs, off, &rec->head, len))
		return 0;
	ahead = (int32_t)(get32(rec->head.mounts) - get32(fs->sb.mounts));
	if (ahead > 0)
		meta_clear(fs, from, 0, sizeof(rec->head));
	return ahead == 0;
}

static int replay_slot(struct pmemfs *fs, uint64_t off, uint64_t *replayed)
{
	struct journal_rec rec;
	uint32_t at = 0, len;
	int r = read_slot(fs, off, off, &rec);

	if (r <= 0 && fs->mirror) {
		int other = read_slot(fs, off, off + fs->mirror, &rec);

		r = other > 0 || r == 0 ? other : r;
	}
	if (r <= 0)
		return r;
	len = get32(rec.head.len);
	for (uint32_t k = 0; k < get32(rec.head.entries); k++) {
		const struct pmemfs_jentry *e = (const void *)(rec.data + at);
		uint32_t size;
		int did;

		if (len - at < sizeof(*e) || get32(e->len) > len - at - sizeof(*e))
			return -EUCLEAN;
		size = sizeof(*e) + ROUND_UP(get32(e->len), 8u);
		if (size > len - at)
			return -EUCLEAN;
		did = replay_entry(fs, e);
		if (did < 0)
			return did;
		*replayed += did;
		at += size;
	}
	return 0;
}

int journal_replay(struct pmemfs *fs, uint64_t *ret_replayed)
{
	uint64_t replayed = 0;
	int err = 0;

	for (unsigned s = 0; s < fs->shards && !err; s++)
		for (unsigned k = 0; k < PMEMFS_JOURNAL_SLOTS && !err; k++)
			err = replay_slot(fs, fs->shard[s].journal[k].off, &replayed);
	if (!err)
		err = media_fence(fs->media);
	if (!err)
		*ret_replayed = replayed;
	return err;
}
