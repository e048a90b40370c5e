/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transactions: the records of one operation, at most one for each inode, become true together.
 *
 * One inode: its record certifies itself, so that appending it is the commit.
 *	data fence (if there was data); store record; FENCE.
 *	A crash before the last fence leaves the old log, or the whole record, or a torn one
 *that does not verify; after it, the record. One that needs a new segment clears that first and
 *	writes the link last in program order; where only the record or only the link arrived,
 *	the log still ends where it did, for the segment was zero when fenced.
 * Several inodes: one journal record says what goes where.
 *	store journal record; FENCE (committed); store everything in its place; FENCE; slot
 *free. A crash before the first fence leaves nothing (or, by luck, a whole record: then all of
 *	it). After it, replay stores the same bytes again; each entry is tied to its inode's
 *head word, so that a record of the past cannot touch what came later. A log that has no room
 *in its area is stated anew in the slot's other area: that is a change of the head word instead
 *of a record, and the same argument with one word.
 *
 * The locks of all inodes are held exclusively from before txn_add until after txn_commit.
 *Blocks that lost their owner are free only after the last fence.
 */
#include <errno.h>

#include "fs.h"

#define AREA_ROOM (PMEMFS_AREA_SIZE - LOG_LINK_SIZE)

void txn_begin(struct txn *t, struct pmemfs *fs, unsigned flags)
{
	t->fs = fs;
	t->n = 0;
	t->flags = flags;
	t->counted = t->gated = false;
	t->dirty = false;
	t->data = NULL;
	t->datas = 0;
	extvec_init(&t->freed);
}

static struct txn_part *add_part(struct txn *t, struct inode *i, enum txn_how how)
{
	struct txn_part *p = &t->part[t->n++];

	p->inode = i;
	p->rec = NULL;
	p->how = how;
	p->newlog = (struct log){0};
	p->newmap = (struct rangemap){0};
	p->segblocks = 0;
	return p;
}

void txn_add(struct txn *t, struct inode *i, struct pmemfs_rec *rec)
{
	add_part(t, i, TXN_APPEND)->rec = rec;
}

void txn_create(struct txn *t, struct inode *i)
{
	add_part(t, i, TXN_SWITCH);
}

void txn_free(struct txn *t, struct inode *i)
{
	add_part(t, i, TXN_FREE);
}

void txn_abort(struct txn *t)
{
	extvec_done(&t->freed);
}

/* How much the inode's state can grow by this record. */
static uint64_t state_growth(const struct pmemfs_rec *rec)
{
	if (rec->type == REC_UPDATE) {
		const struct pmemfs_update *u = (const void *)rec;
		uint64_t n = get16(u->extents);

		/* each extent can split one; its checksums come last in the record */
		return n ? (n + 1) * sizeof(struct pmemfs_extent) + rec_len(rec) - sizeof(*u)
			 : 0;
	}
	return rec_len(rec) + 32u; /* the entries' record of a directory, an UPDATE for ctime */
}

static uint64_t next_head(uint64_t head, unsigned where)
{
	uint64_t id = (head_id(head) + 1) & HEAD_ID_MAX;

	return head_make(where, id ? id : 1);
}

static unsigned other_area(uint64_t head)
{
	return head_where(head) == 1 ? 2 : 1;
}

static int place_segment(struct txn *t, struct txn_part *p)
{
	struct log *l = &p->inode->log;
	uint64_t need = DIV_UP(rec_len(p->rec) + LOG_LINK_SIZE, PMEMFS_BLOCK_SIZE);
	uint64_t copies = t->fs->copies;
	uint64_t n = l->nseg ? MIN(l->seg[l->nseg - 1].blocks / copies * 2, 64) : 1;
	int err = -ENOSPC;

	if (t->counted)
		n = quota_segment(t, p, MAX(n, need) * copies, need * copies) / copies;
	for (n = MAX(n, need); err && n >= need; n = n > need ? MAX(n / 2, need) : 0) {
		err = alloc_contig(t->fs, n * copies, t->flags, &p->seg);
		if (!err)
			break;
	}
	if (err)
		return err;
	p->how = TXN_SEGMENT;
	n *= copies;
	p->segblocks = n;
	p->at = p->seg * PMEMFS_BLOCK_SIZE;
	media_clear(t->fs->media, p->at, n * PMEMFS_BLOCK_SIZE); /* both copies */
	t->dirty = true;
	p->link = (struct pmemfs_link){.h.type = REC_LINK, .h.len = put16(sizeof(p->link) / 8)};
	p->link.block = put64(p->seg);
	p->link.blocks = put32(n);
	return 0;
}

/* Decides how the part becomes true and takes the blocks for it. */
static int place(struct txn *t, struct txn_part *p)
{
	struct inode *i = p->inode;
	struct log *l = &i->log;
	int err;

	if (p->how == TXN_FREE) {
		p->head = next_head(l->head, HEAD_FREE);
		return 0;
	}
	if (!p->rec) {
		p->head = next_head(l->head, other_area(l->head));
		err = log_rewrite(t->fs, i, p->head, true, t->flags, p->area, &p->newlog,
				  &p->newmap);
		t->dirty |= !err && p->newlog.nseg;
		return err;
	}
	p->at = l->pos;
	if (l->end - l->pos >= rec_len(p->rec) + LOG_LINK_SIZE)
		return 0;
	if (!l->nseg && inode_state_size(i) + state_growth(p->rec) <= AREA_ROOM) {
		p->how = TXN_SWITCH;
		p->head = next_head(l->head, other_area(l->head));
		return 0;
	}
	return place_segment(t, p);
}

static void unplace(struct txn *t, struct txn_part *p)
{
	if (p->how == TXN_SEGMENT)
		free_blocks(t->fs, p->seg, p->segblocks);
	for (uint32_t k = 0; k < p->newlog.nseg; k++)
		free_blocks(t->fs, p->newlog.seg[k].block, p->newlog.seg[k].blocks);
	log_free(&p->newlog);
	rangemap_free(&p->newmap);
}

/* Seals the record for its place and changes the inode in DRAM. */
static int apply(struct txn *t, struct txn_part *p)
{
	struct inode *i = p->inode;
	struct log *l = &i->log;
	uint64_t bytes = i->dir.bytes;
	uint32_t seq = l->seq;
	int err;

	if (!p->rec)
		return 0;
	if (p->how == TXN_SEGMENT)
		rec_seal(&p->link.h, l->seed, seq++, 0);
	if (p->how == TXN_SWITCH)
		p->rec->seq = put32(seq);
	else
		rec_seal(p->rec, l->seed, seq, 0);
	i->pending = p->rec;
	err = inode_apply(t->fs, i, p->rec, p->how == TXN_SWITCH ? CSUM_PENDING : p->at,
			  &t->freed);
	if (!err && p->how == TXN_SWITCH)
		err = log_rewrite(t->fs, i, p->head, false, 0, p->area, &p->newlog, &p->newmap);
	i->pending = NULL;
	/* Not for files: an atomic here would wait for the data's lines, which it need not. */
	if (i->dir.bytes != bytes)
		alloc_count_dentries(t->fs, (int64_t)(i->dir.bytes - bytes));
	return err;
}

/* One copy of the slot: the word and the area that it names. */
static void store_slot(struct pmemfs *fs, uint64_t slot, const struct txn_part *p)
{
	media_store8(fs->media, slot, p->head);
	media_copy(fs->media, slot_area(slot, head_where(p->head)), p->area, sizeof(p->area));
	if (head_where(p->head) != 1) /* whose first line is the word's */
		media_flush(fs->media, slot, 8);
}

/* Stores the part, which is in the journal, where it belongs. */
static void store(struct txn *t, struct txn_part *p)
{
	struct pmemfs *fs = t->fs;
	struct inode *i = p->inode;

	switch (p->how) {
	case TXN_SEGMENT:
		meta_copy(fs, p->at, seg_mirror(fs, p->segblocks), p->rec, rec_len(p->rec));
		meta_copy(fs, i->log.pos, i->log.mirror, &p->link, sizeof(p->link));
		break;
	case TXN_APPEND:
		meta_copy(fs, p->at, i->log.mirror, p->rec, rec_len(p->rec));
		break;
	case TXN_SWITCH:
		store_slot(fs, i->slot, p);
		if (fs->mirror)
			store_slot(fs, i->slot + fs->mirror, p);
		break;
	case TXN_FREE:
		meta_head(fs, i->slot, p->head);
		break;
	}
}

void txn_store_data(struct pmemfs *fs, const struct txn_data *data, size_t n)
{
	for (size_t k = 0; k < n; k++)
		parity_copy(fs, data[k].off, data[k].src, data[k].len);
}

static int commit_one(struct txn *t, struct txn_part *p)
{
	struct media *m = t->fs->media;

	if (p->how == TXN_SWITCH) {
		/* The area before the word: a crash between leaves a log nobody refers to. */
		meta_copy(t->fs, slot_area(p->inode->slot, head_where(p->head)), t->fs->mirror,
			  p->area, sizeof(p->area));
		media_fence(m);
		meta_head(t->fs, p->inode->slot, p->head);
		return media_fence(m);
	}
	if (t->dirty)
		media_fence(m);
	store(t, p);
	return media_fence(m);
}

static void journal_part(struct pmemfs *fs, struct journal_buf *b, struct txn_part *p)
{
	struct inode *i = p->inode;
	uint64_t head = i->log.head;

	switch (p->how) {
	case TXN_SEGMENT:
		journal_add(b, i->ino, head, JOURNAL_APPEND, i->log.pos, i->log.mirror,
			    &p->link, sizeof(p->link));
		journal_add(b, i->ino, head, JOURNAL_APPEND, p->at,
			    seg_mirror(fs, p->segblocks), p->rec, rec_len(p->rec));
		break;
	case TXN_APPEND:
		journal_add(b, i->ino, head, JOURNAL_APPEND, p->at, i->log.mirror, p->rec,
			    rec_len(p->rec));
		break;
	case TXN_SWITCH: {
		uint32_t len = p->newlog.nseg ? PMEMFS_AREA_SIZE : (uint32_t)p->newlog.bytes;

		journal_add(b, i->ino, head, JOURNAL_SWITCH, p->head, 0, p->area, len);
		break;
	}
	case TXN_FREE:
		journal_add(b, i->ino, head, JOURNAL_SWITCH, p->head, 0, NULL, 0);
		break;
	}
}

static int commit_many(struct txn *t)
{
	struct journal_buf b;
	void *slot;
	int err;

	b.len = b.entries = 0;
	for (unsigned k = 0; k < t->n; k++)
		journal_part(t->fs, &b, &t->part[k]);
	if (t->dirty)
		media_fence(t->fs->media);
	err = journal_commit(t->fs, &b, &slot);
	if (err)
		return err;
	for (unsigned k = 0; k < t->n; k++)
		store(t, &t->part[k]);
	err = media_fence(t->fs->media);
	journal_release(t->fs, slot);
	return err;
}

/* The part is durable: the log in DRAM goes on behind it. */
static void install(struct txn *t, struct txn_part *p)
{
	struct inode *i = p->inode;
	struct log *l = &i->log;

	switch (p->how) {
	case TXN_SEGMENT:
		l->seg = grow_array(l->seg, &l->segcap, l->nseg + 1, sizeof(l->seg[0]));
		l->seg[l->nseg++] = (struct log_seg){p->seg, p->segblocks};
		l->end = p->at + seg_bytes(t->fs, p->segblocks);
		l->mirror = seg_mirror(t->fs, p->segblocks);
		l->bytes += sizeof(p->link);
		l->seq++;
		/* fall through */
	case TXN_APPEND:
		l->pos = p->at + rec_len(p->rec);
		l->bytes += rec_len(p->rec);
		l->seq++;
		break;
	case TXN_SWITCH:
		for (uint32_t k = 0; k < l->nseg; k++)
			extvec_add(&t->freed, l->seg[k].block, l->seg[k].blocks);
		log_free(l);
		*l = p->newlog;
		rangemap_free(&i->extents);
		i->extents = p->newmap;
		i->loaded = true;
		break;
	case TXN_FREE:
		inode_runs(i, &t->freed);
		l->head = p->head;
		i->freed = true;
		break;
	}
}

int txn_commit(struct txn *t)
{
	struct pmemfs *fs = t->fs;
	unsigned placed;
	int err = atomic_load_explicit(&fs->readonly, memory_order_relaxed) ? -EROFS : 0;

	if (unlikely(quota_is_on(fs)))
		quota_begin(t);
	for (placed = 0; placed < t->n && !err; placed++)
		err = place(t, &t->part[placed]);
	if (!err && t->counted)
		err = quota_claim(t);
	if (err) {
		while (placed--)
			unplace(t, &t->part[placed]);
		goto out;
	}
	for (unsigned k = 0; k < t->n && !err; k++)
		err = apply(t, &t->part[k]);
	if (!err) {
		txn_store_data(fs, t->data, t->datas);
		t->dirty |= t->datas;
	}
	if (!err)
		err = t->n == 1 ? commit_one(t, &t->part[0]) : commit_many(t);
	if (err) {
		for (unsigned k = 0; k < t->n; k++)
			t->part[k].inode->error = -EIO;
		fs_damage(fs, "writing inode %llu failed: %s",
			  (unsigned long long)t->part[0].inode->ino, strerror(-err));
		err = -EIO;
		goto out;
	}
	for (unsigned k = 0; k < t->n; k++)
		install(t, &t->part[k]);
	free_runs(fs, &t->freed);
out:
	if (t->counted)
		quota_end(t, !err);
	extvec_done(&t->freed);
	return err;
}
