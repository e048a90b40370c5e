/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inode tables: each shard's inodes live in the slots of an internal file, so that a table
 * grows, shrinks, is checksummed and recovered like any file, and a slot is found in O(1).
 *
 * Logical block k of shard s holds inode numbers 1 + (8k + 0..7) * shards + s. Which slots are
 * used is known from their head words, read when first needed. Everything here is under
 * table.lock; a block's bits are set before its inode is written and cleared after its slot is
 * durably free.
 */
#include <errno.h>

#include "fs.h"

#define GROW_BLOCKS 8u	/* 64 inodes */
#define KEEP_EMPTY  8u	/* empty blocks that stay for the next files */
#define TRIM_AT	    24u /* empty blocks that make giving them back worth a record */
#define FULL	    ((uint8_t)((1u << PMEMFS_SLOTS_PER_BLOCK) - 1))

static struct itable *table_of(struct pmemfs *fs, unsigned shard)
{
	return &fs->shard[shard].table;
}

static unsigned ino_shard(const struct pmemfs *fs, uint64_t ino)
{
	return (ino - 1) % fs->shards;
}

static uint64_t ino_index(const struct pmemfs *fs, uint64_t ino)
{
	return (ino - 1) / fs->shards;
}

/* Under the lock. */
static void count_inodes(struct itable *t, int64_t n)
{
	atomic_store_explicit(&t->inodes,
			      atomic_load_explicit(&t->inodes, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

uint64_t itable_inodes(const struct pmemfs *fs)
{
	int64_t sum = 0;

	for (unsigned k = 0; k < fs->shards; k++)
		sum += atomic_load(&fs->shard[k].table.inodes);
	return (uint64_t)MAX(sum, 0);
}

void itable_set_inodes(struct pmemfs *fs, uint64_t n)
{
	for (unsigned k = 0; k < fs->shards; k++)
		atomic_store(&fs->shard[k].table.inodes, k ? 0 : (int64_t)n);
}

static void list_block(struct itable *t, size_t k)
{
	if (t->v[k].listed || t->v[k].used == FULL)
		return;
	t->room = grow_array(t->room, &t->roomcap, t->nroom + 1, sizeof(t->room[0]));
	t->room[t->nroom++] = (uint32_t)k;
	t->v[k].listed = true;
}

static int set_blocks(struct pmemfs *fs, struct itable *t, uint64_t first, uint64_t block,
		      uint64_t n)
{
	if (first + n > fs->blocks || first + n > UINT32_MAX)
		return -EUCLEAN;
	if (first + n > t->n) {
		t->v = grow_array(t->v, &t->cap, first + n, sizeof(t->v[0]));
		memset(t->v + t->n, 0, (first + n - t->n) * sizeof(t->v[0]));
		t->n = first + n;
	}
	for (uint64_t k = 0; k < n; k++)
		t->v[first + k] = (struct itblock){.block = block + k * fs->copies};
	return 0;
}

/* A table block and its copy follow one another, in the file and on the medium. */
static int set_range(struct pmemfs *fs, struct itable *t, const struct range *r)
{
	if (r->start % fs->copies || r->len % fs->copies)
		return -EUCLEAN;
	return set_blocks(fs, t, r->start / fs->copies, range_block(r), r->len / fs->copies);
}

int itable_load(struct pmemfs *fs, unsigned shard)
{
	struct itable *t = table_of(fs, shard);
	struct range_cursor c;
	enum log_end end = LOG_CLEAN;
	int err;

	t->inode = inode_new(PMEMFS_INO_TABLE | shard, super_table_slot(&fs->sb, shard));
	err = inode_read(fs, t->inode, fs->both, &end);
	if (!err && (end == LOG_DAMAGED || (end == LOG_TORN && fs->was_clean)))
		err = -EUCLEAN;
	if (err)
		return err == -ESTALE ? -EUCLEAN : err;
	if (!fs->was_clean) {
		err = log_note_tail(fs, &t->inode->log);
		if (!err)
			err = log_mend(fs, &t->inode->log);
	}
	for (const struct range *r = rangemap_find(&t->inode->extents, 0, &c); r && !err;
	     r = rangemap_next(&t->inode->extents, &c))
		err = set_range(fs, t, r);
	return err;
}

void itable_done(struct pmemfs *fs, unsigned shard)
{
	struct itable *t = table_of(fs, shard);

	if (t->inode)
		inode_delete(t->inode);
	free(t->v);
	free(t->room);
	t->inode = NULL;
	t->v = NULL;
	t->room = NULL;
	t->n = t->cap = t->nroom = t->roomcap = t->scanned = 0;
	t->empty = 0;
}

int itable_find(struct pmemfs *fs, uint64_t ino, uint64_t *ret_slot)
{
	struct itable *t;
	uint64_t index, k, block = 0;

	if (!ino)
		return -ESTALE;
	if (ino & PMEMFS_INO_TABLE) {
		uint64_t shard = ino & ~PMEMFS_INO_TABLE;

		if (ino == PMEMFS_INO_QUOTA) {
			*ret_slot = super_quota_slot(&fs->sb);
			return 0;
		}
		if (shard >= fs->shards)
			return -ESTALE;
		*ret_slot = super_table_slot(&fs->sb, shard);
		return 0;
	}
	t = table_of(fs, ino_shard(fs, ino));
	index = ino_index(fs, ino);
	k = index / PMEMFS_SLOTS_PER_BLOCK;
	pthread_mutex_lock(&t->lock);
	if (k < t->n)
		block = t->v[k].block;
	pthread_mutex_unlock(&t->lock);
	if (!block)
		return -ESTALE;
	*ret_slot =
	    block * PMEMFS_BLOCK_SIZE + index % PMEMFS_SLOTS_PER_BLOCK * PMEMFS_SLOT_SIZE;
	return 0;
}

/* Is the slot free, by its head word? One that cannot be read, or makes no sense, is not. */
static bool slot_is_free(struct pmemfs *fs, uint64_t slot, uint64_t *ret_head)
{
	uint64_t head[2];

	if (head_read(fs, slot, false, head, NULL) < 0)
		return false;
	*ret_head = head[0];
	return head_where(head[0]) == HEAD_FREE;
}

static uint64_t slot_of(const struct itblock *b, unsigned k)
{
	return b->block * PMEMFS_BLOCK_SIZE + k * PMEMFS_SLOT_SIZE;
}

/* Reads which slots of block k are used. */
static void learn_block(struct pmemfs *fs, struct itable *t, size_t k)
{
	struct itblock *b = &t->v[k];
	uint64_t head;

	if (b->known || !b->block)
		return;
	b->used = 0;
	for (unsigned i = 0; i < PMEMFS_SLOTS_PER_BLOCK; i++)
		if (!slot_is_free(fs, slot_of(b, i), &head))
			b->used |= 1u << i;
	b->known = true;
	t->empty += !b->used;
	list_block(t, k);
}

uint64_t itable_next_used(struct pmemfs *fs, uint64_t from)
{
	uint64_t end = 0;

	for (unsigned k = 0; k < fs->shards; k++) {
		struct itable *t = table_of(fs, k);

		pthread_mutex_lock(&t->lock);
		end = MAX(end, t->n * PMEMFS_SLOTS_PER_BLOCK * fs->shards + k);
		pthread_mutex_unlock(&t->lock);
	}
	for (uint64_t ino = from; ino <= end; ino++) {
		struct itable *t = table_of(fs, ino_shard(fs, ino));
		uint64_t index = ino_index(fs, ino), k = index / PMEMFS_SLOTS_PER_BLOCK;
		bool used = false;

		pthread_mutex_lock(&t->lock);
		if (k < t->n && t->v[k].block) {
			learn_block(fs, t, k);
			used = t->v[k].used & 1u << index % PMEMFS_SLOTS_PER_BLOCK;
		}
		pthread_mutex_unlock(&t->lock);
		if (used)
			return ino;
	}
	return 0;
}

/* Changes the table file by these extents; in place in DRAM too. */
static int change_table(struct pmemfs *fs, struct itable *t, struct pmemfs_extent *e,
			unsigned n, unsigned flags, bool dirty)
{
	struct {
		struct pmemfs_update u;
		struct pmemfs_extent e[128];
	} rec = {.u.h.type = REC_UPDATE, .u.mask = put16(UP_MNOW)};
	struct timespec now = fs_now();
	struct txn txn;
	int err;

	rec.u.h.len = put16((sizeof(rec.u) + n * sizeof(*e)) / 8);
	rec.u.extents = put16(n);
	rec.u.ctime_sec = put64(now.tv_sec);
	rec.u.ctime_nsec = put32(now.tv_nsec);
	memcpy(rec.e, e, n * sizeof(*e));
	txn_begin(&txn, fs, flags);
	txn.dirty = dirty;
	txn_add(&txn, t->inode, &rec.u.h);
	err = txn_commit(&txn);
	if (!err && inode_wants_compact(t->inode))
		inode_compact(fs, t->inode); /* a failure only leaves it long */
	return err;
}

/* The first run of missing blocks, at most max long. */
static uint64_t find_gap(const struct pmemfs *fs, const struct itable *t, uint64_t max,
			 uint64_t *ret_n)
{
	uint64_t k = 0, n = 0;

	if (rangemap_last(&t->inode->extents) && t->inode->extents.total == t->n * fs->copies)
		k = t->n; /* no gap: at the end */
	while (k < t->n && t->v[k].block)
		k++;
	while (n < max && (k + n >= t->n || !t->v[k + n].block))
		n++;
	*ret_n = n;
	return k;
}

void itable_free_slots(struct pmemfs_slot ret[PMEMFS_SLOTS_PER_BLOCK], uint64_t id)
{
	memset(ret, 0, PMEMFS_BLOCK_SIZE);
	for (unsigned i = 0; i < PMEMFS_SLOTS_PER_BLOCK; i++)
		ret[i].head = put64(head_make(HEAD_FREE, id));
}

/*
 * Adds blocks to the table. They are written and fenced before the table's record names them: a
 * crash before it leaves free blocks; after it, free slots.
 */
static int grow(struct pmemfs *fs, struct itable *t)
{
	struct pmemfs_slot slots[PMEMFS_SLOTS_PER_BLOCK];
	struct pmemfs_extent e;
	uint64_t n, block, first = find_gap(fs, t, GROW_BLOCKS, &n);
	int err = alloc_contig(fs, n * fs->copies, 0, &block);

	if (err && n > 1) {
		n = 1;
		err = alloc_contig(fs, fs->copies, 0, &block);
	}
	if (err)
		return err;
	itable_free_slots(slots, atomic_fetch_add(&fs->next_id, 1));
	for (uint64_t k = 0; k < n * fs->copies; k++)
		media_copy(fs->media, (block + k) * PMEMFS_BLOCK_SIZE, slots, sizeof(slots));
	e.where = put64(first * fs->copies << 20 | n * fs->copies);
	e.what = put64((uint64_t)PMEMFS_EXT_NOCSUM << RANGE_FLAG_SHIFT | block);
	err = change_table(fs, t, &e, 1, 0, true);
	if (err) {
		free_blocks(fs, block, n * fs->copies);
		return err;
	}
	err = set_blocks(fs, t, first, block, n);
	for (uint64_t k = n; k-- && !err;) {
		t->v[first + k].known = true;
		t->empty++;
		list_block(t, first + k);
	}
	return err;
}

/* A block with a free slot, -1 if none is known of. */
static ssize_t find_room(struct pmemfs *fs, struct itable *t)
{
	for (;;) {
		while (t->nroom) {
			size_t k = t->room[t->nroom - 1];

			if (t->v[k].block && t->v[k].known && t->v[k].used != FULL)
				return (ssize_t)k;
			t->v[k].listed = false;
			t->nroom--;
		}
		if (t->scanned >= t->n)
			return -1;
		learn_block(fs, t, t->scanned++);
	}
}

static int alloc_in(struct pmemfs *fs, unsigned shard, bool may_grow, uint64_t *ret_ino,
		    uint64_t *ret_slot, uint64_t *ret_head)
{
	struct itable *t = table_of(fs, shard);
	unsigned bit = 0;
	ssize_t k;
	int err;

	k = find_room(fs, t);
	if (k < 0) {
		err = may_grow ? grow(fs, t) : -ENOSPC;
		if (err)
			return err;
		k = find_room(fs, t);
		if (k < 0)
			return -EIO;
	}
	while (t->v[k].used & 1u << bit)
		bit++;
	*ret_slot = slot_of(&t->v[k], bit);
	if (!slot_is_free(fs, *ret_slot, ret_head))
		return -EIO;
	t->empty -= !t->v[k].used;
	t->v[k].used |= 1u << bit;
	count_inodes(t, 1);
	*ret_ino = 1 + ((uint64_t)k * PMEMFS_SLOTS_PER_BLOCK + bit) * fs->shards + shard;
	return 0;
}

int itable_alloc(struct pmemfs *fs, unsigned shard, uint64_t *ret_ino, uint64_t *ret_slot,
		 uint64_t *ret_head)
{
	int err = -ENOSPC;

	for (unsigned k = 0; k < fs->shards && err == -ENOSPC; k++) {
		unsigned s = (shard + k) % fs->shards;

		pthread_mutex_lock(&table_of(fs, s)->lock);
		err = alloc_in(fs, s, k == 0, ret_ino, ret_slot, ret_head);
		pthread_mutex_unlock(&table_of(fs, s)->lock);
	}
	return err;
}

/*
 * New slots in the place of these begin with greater log ids than these have had, so that no
 * journal record that names one can be taken for one of theirs.
 */
static int retire_ids(struct pmemfs *fs, const struct itblock *b)
{
	uint64_t next = atomic_load(&fs->next_id);

	for (unsigned i = 0; i < PMEMFS_SLOTS_PER_BLOCK; i++) {
		uint64_t head;

		if (!slot_is_free(fs, slot_of(b, i), &head))
			return -EIO;
		while (next <= head_id(head) &&
		       !atomic_compare_exchange_weak(&fs->next_id, &next, head_id(head) + 1))
			;
	}
	return 0;
}

/* Under the lock. */
static int trim(struct pmemfs *fs, struct itable *t, uint64_t keep)
{
	struct pmemfs_extent e[128];
	int err = 0;

	if (t->empty <= keep)
		return 0;
	for (size_t k = t->n; !err && k && t->empty > keep;) {
		unsigned n = 0;
		size_t from = k;

		for (; k && t->empty > keep && n < ARRAY_LEN(e); k--) {
			struct itblock *b = &t->v[k - 1];

			if (!b->block || !b->known || b->used)
				continue;
			t->empty--;
			if (retire_ids(fs, b)) {
				b->used = FULL; /* it cannot be read */
				continue;
			}
			e[n++] = (struct pmemfs_extent){
			    put64((k - 1) * fs->copies << 20 | fs->copies),
			    put64((uint64_t)PMEMFS_EXT_HOLE << RANGE_FLAG_SHIFT)};
		}
		if (!n)
			break;
		err = change_table(fs, t, e, n, ALLOC_RESERVE, false);
		for (size_t i = k; !err && i < from; i++)
			if (t->v[i].known && !t->v[i].used)
				t->v[i].block = 0;
		if (err)
			t->empty += n;
	}
	for (size_t i = 0; !err && i < t->n; i++)
		if (!t->v[i].block)
			t->v[i].known = false;
	while (t->n && !t->v[t->n - 1].block)
		t->n--;
	for (size_t i = 0; i < t->nroom;) {
		size_t k = t->room[i];

		if (k < t->n && t->v[k].block) {
			i++;
			continue;
		}
		if (k < t->n)
			t->v[k].listed = false;
		t->room[i] = t->room[--t->nroom];
	}
	t->scanned = MIN(t->scanned, t->n);
	return err;
}

void itable_free(struct pmemfs *fs, uint64_t ino)
{
	struct itable *t = table_of(fs, ino_shard(fs, ino));
	uint64_t index = ino_index(fs, ino), k = index / PMEMFS_SLOTS_PER_BLOCK;

	pthread_mutex_lock(&t->lock);
	count_inodes(t, -1);
	if (t->v[k].known) {
		t->v[k].used &= ~(1u << index % PMEMFS_SLOTS_PER_BLOCK);
		t->empty += !t->v[k].used;
		list_block(t, k);
	} else {
		learn_block(fs, t, k); /* a failure only keeps the block */
	}
	if (t->empty > TRIM_AT)
		trim(fs, t, KEEP_EMPTY); /* the same */
	pthread_mutex_unlock(&t->lock);
}

int itable_trim(struct pmemfs *fs, unsigned shard, bool all)
{
	struct itable *t = table_of(fs, shard);
	int err;

	pthread_mutex_lock(&t->lock);
	err = trim(fs, t, all ? 0 : KEEP_EMPTY);
	if (!err && all &&
	    (inode_wants_compact(t->inode) ||
	     (t->inode->log.nseg && inode_state_size(t->inode) < 200)))
		err = inode_compact(fs, t->inode);
	pthread_mutex_unlock(&t->lock);
	return err;
}

void itable_set_used(struct pmemfs *fs, uint64_t ino)
{
	struct itable *t = table_of(fs, ino_shard(fs, ino));
	uint64_t index = ino_index(fs, ino);

	t->v[index / PMEMFS_SLOTS_PER_BLOCK].used |= 1u << index % PMEMFS_SLOTS_PER_BLOCK;
}

void itable_scanned(struct pmemfs *fs, unsigned shard)
{
	struct itable *t = table_of(fs, shard);

	for (size_t k = t->n; k--;) { /* the lowest block is listed last and used first */
		if (!t->v[k].block)
			continue;
		t->v[k].known = true;
		t->empty += !t->v[k].used;
		list_block(t, k);
	}
	t->scanned = t->n;
}
