/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Scrubbing: reading what nobody reads, while mounted, so that rot is known before it is
 * wanted.
 *
 * Every superblock copy, log and written block is verified on the medium. Where metadata has
 * two copies, one that is damaged is restored from the other; nothing else is changed. An
 * inode's lock is held shared, and for no more than CHUNK blocks at a time, so that who writes
 * waits no longer for a scrub than for another reader. What comes and goes meanwhile is either
 * seen whole or not at all.
 *
 * Where there is parity, data that is damaged is rebuilt as by any reader. Parity that is not
 * that of its members before the files are seen, nor afterwards, is made anew: what they hold
 * was verified between. If it was right before, a member may have rotted since: then it is left
 * to the next scrub, which rebuilds that.
 */
#include <errno.h>

#include "fs.h"

#define CHUNK 256u /* blocks */
/* In `next`: stripes come instead of inodes, before them all or after them. */
#define BEFORE (1ull << 62)
#define AFTER  (1ull << 63)

static void damaged(struct pmemfs *fs, struct pmemfs_scrub *s, uint64_t ino, const char *what)
{
	s->damaged++;
	fs_report(fs, 0, "inode %llu: %s: unmount and run fsck.pmemfs", (unsigned long long)ino,
		  what);
}

/* Was it restored? A block of a segment that does not take its content back is bad. */
static bool is_restored(struct pmemfs *fs, const struct inode *i)
{
	bool restored = true;
	enum log_end end;
	struct log l;

	if (!log_walk(fs, i->ino, i->slot, i->log.head, true, NULL, NULL, &l, &end))
		for (size_t k = 0; k < l.fixes; k++) {
			uint64_t block = l.fix[k].to / PMEMFS_BLOCK_SIZE;

			if (block == i->slot / PMEMFS_BLOCK_SIZE ||
			    block == (i->slot + fs->mirror) / PMEMFS_BLOCK_SIZE)
				continue; /* a table's */
			bad_note(fs, block);
			restored = false;
		}
	log_free(&l);
	return restored;
}

/*
 * The log as it stands on the medium must be what was read or written. Under the lock. 1: it is
 * to be stated anew, elsewhere.
 */
static int scrub_log(struct pmemfs *fs, const struct inode *i, struct pmemfs_scrub *s)
{
	enum log_end end;
	struct log l;
	int err = log_walk(fs, i->ino, i->slot, i->log.head, true, NULL, NULL, &l, &end);
	uint64_t head[2];
	int heads = head_read(fs, i->slot, true, head, NULL);

	if (!err && (end != LOG_CLEAN || l.seq != i->log.seq || l.pos != i->log.pos ||
		     heads < 1 || (head[0] != i->log.head && head[heads - 1] != i->log.head)))
		err = -EIO;
	if (!err)
		err = log_note_tail(fs, &l);
	if (!err)
		log_note_heads(fs, i->slot, &l);
	if (!err && l.fixes) {
		err = fs->mirror ? inode_mend(fs, i, &l) : -EIO;
		s->repaired += !err;
		if (!err && !is_restored(fs, i))
			err = 1;
	}
	s->bytes += l.bytes * fs->copies;
	log_free(&l);
	return err;
}

/* Blocks that are as they should be have parity. */
static void cover(struct pmemfs *fs, uint64_t block, uint64_t n, struct pmemfs_scrub *s)
{
	uint64_t adopted = 0;

	if (fs->parity && !atomic_load(&fs->readonly) && !parity_covers(fs, block, n))
		parity_adopt(fs, block, n, &adopted);
	s->repaired += adopted != 0;
}

/* The written blocks from b on, CHUNK at most. *b is where to go on; 0: that was all. */
static int scrub_blocks(struct pmemfs *fs, const struct inode *i, struct pmemfs_scrub *s,
			uint64_t *b)
{
	struct range_cursor c;
	const struct range *r = rangemap_find(&i->extents, *b, &c);
	uint64_t left = CHUNK;
	int err = 0;

	for (; r && left; r = rangemap_next(&i->extents, &c)) {
		uint64_t from = MAX(r->start, *b), end = MIN(range_end(r), from + left);
		uint64_t stop = DIV_UP(i->attr.size, PMEMFS_BLOCK_SIZE);

		*b = end;
		if (range_flags(r) || from >= MIN(end, stop))
			continue;
		left -= end - from;
		s->bytes += (end - from) * PMEMFS_BLOCK_SIZE;
		if (file_verify(fs, i, r, from, MIN(end, stop)))
			err = -EIO; /* it was reported; the others are looked at too */
		else
			cover(fs, range_block(r) + (from - r->start), MIN(end, stop) - from, s);
		if (end < range_end(r))
			return err;
	}
	if (!r)
		*b = 0;
	return err;
}

/* Not 0: there is damage, and it was reported. */
static int scrub_data(struct pmemfs *fs, struct inode *i, struct pmemfs_scrub *s)
{
	uint64_t b = 0;
	int bad = 0;

	do {
		int err = inode_lock(i, false);

		if (err)
			return bad;
		bad |= S_ISREG(i->attr.mode) ? scrub_blocks(fs, i, s, &b) : 0;
		inode_unlock(i);
	} while (b);
	return bad;
}

/* File blocks of i on bad blocks of the device, at most max. */
static unsigned find_bad(struct pmemfs *fs, const struct inode *i, uint64_t *ret, unsigned max)
{
	uint64_t stop = DIV_UP(i->attr.size, PMEMFS_BLOCK_SIZE);
	struct range_cursor c;
	unsigned n = 0;

	for (const struct range *r = rangemap_find(&i->extents, 0, &c); r && r->start < stop;
	     r = rangemap_next(&i->extents, &c)) {
		uint64_t first = range_block(r);
		uint64_t end = first + MIN(range_end(r), stop) - r->start;

		for (uint64_t k = bad_next(fs, first, end);
		     k < end && n < max && !range_flags(r); k = bad_next(fs, k + 1, end))
			ret[n++] = r->start + (k - first);
	}
	return n;
}

/* What parity has of bad blocks goes elsewhere. True: something did. */
static bool move_bad(struct pmemfs *fs, struct inode *i, struct pmemfs_scrub *s)
{
	uint64_t b[PMEMFS_BAD_MAX];
	bool moved = false;
	unsigned n;

	if (!fs->parity || atomic_load(&fs->readonly) || inode_lock(i, true))
		return false;
	n = find_bad(fs, i, b, PMEMFS_BAD_MAX);
	for (unsigned k = 0; k < n; k++) {
		if (file_move_block(fs, i, b[k], false))
			continue;
		fs_report(fs, 1, "inode %llu: block %llu left a bad block of the device",
			  (unsigned long long)i->ino, (unsigned long long)b[k]);
		s->repaired++;
		moved = true;
	}
	inode_unlock(i);
	return moved;
}

/* The log leaves a bad block: as when it is compacted. */
static int move_log(struct pmemfs *fs, struct inode *i)
{
	int err = inode_lock(i, true);

	if (!err) {
		err = inode_compact(fs, i);
		inode_unlock(i);
	}
	return err;
}

static void scrub_inode(struct pmemfs *fs, uint64_t ino, struct pmemfs_scrub *s)
{
	struct inode *i;
	int err = inode_get(fs, ino, &i), bad = 0;

	if (err == -EIO) /* and was reported */
		s->damaged++;
	if (err)
		return;
	s->inodes++;
	err = inode_lock(i, false);
	if (!err) {
		err = scrub_log(fs, i, s);
		inode_unlock(i);
		if (err < 0 || (err && move_log(fs, i)))
			damaged(fs, s, ino, "its log is damaged");
		bad = scrub_data(fs, i, s);
		if (bad && move_bad(fs, i, s))
			bad = scrub_data(fs, i, s);
	}
	s->damaged += bad != 0;
	inode_put(fs, i, 1);
}

/* Of an inode that nobody can open; its lock is held. */
static int scrub_inner(struct pmemfs *fs, struct inode *i, struct pmemfs_scrub *s)
{
	int err = scrub_log(fs, i, s);

	return err > 0 ? inode_compact(fs, i) : err;
}

/* What is not an inode that somebody could open. */
static void scrub_frame(struct pmemfs *fs, struct pmemfs_scrub *s)
{
	struct pmemfs_super sb;
	unsigned ok = 0;
	const char *why;

	if (super_read(fs->media, &sb, &ok, &why) || ok != 3) {
		s->damaged++;
		fs_report(fs, 0,
			  "a copy of the superblock is damaged: unmount and run fsck.pmemfs");
	}
	s->bytes += 2 * sizeof(sb);
	for (unsigned k = 0; k < fs->shards; k++) {
		struct itable *t = &fs->shard[k].table;
		int err;

		pthread_mutex_lock(&t->lock);
		err = scrub_inner(fs, t->inode, s);
		pthread_mutex_unlock(&t->lock);
		if (err)
			damaged(fs, s, PMEMFS_INO_TABLE | k,
				"the log of the inode table is damaged");
	}
}

/* The limits of quotas are a file, too. */
static void scrub_limits(struct pmemfs *fs, struct pmemfs_scrub *s)
{
	struct quota *q = &fs->quota;
	uint64_t b = 0;
	int bad = 0;

	pthread_mutex_lock(&q->lock);
	if (q->inode) {
		if (scrub_inner(fs, q->inode, s))
			damaged(fs, s, PMEMFS_INO_QUOTA,
				"the log of the limits of quotas is damaged");
		do
			bad |= scrub_blocks(fs, q->inode, s, &b);
		while (b);
	}
	pthread_mutex_unlock(&q->lock);
	s->damaged += bad != 0;
}

static void remake(struct pmemfs *fs, uint64_t stripe, struct pmemfs_scrub *s)
{
	int r = parity_remake(fs, stripe);

	fs_report(fs, r != 0, "the parity of blocks %llu to %llu was not theirs, and %s",
		  (unsigned long long)stripe * PMEMFS_STRIPE,
		  (unsigned long long)stripe * PMEMFS_STRIPE + PMEMFS_STRIPE - 1,
		  r ? "cannot be made anew" : "is made anew");
	s->repaired += !r;
	s->damaged += r != 0;
}

static void scrub_stripe(struct pmemfs *fs, uint64_t stripe, bool before,
			 struct pmemfs_scrub *s)
{
	bool wrong;

	if (!before && !parity_is_marked(fs, stripe))
		return;
	wrong = parity_check(fs, stripe) == 1; /* what cannot be read needs it as it is */
	s->bytes += (uint64_t)PMEMFS_STRIPE * PMEMFS_BLOCK_SIZE;
	parity_mark(fs, stripe, before && wrong);
	if (!before && wrong && !atomic_load(&fs->readonly))
		remake(fs, stripe, s);
}

/* Goes on with stripes. When there are no more, `next` is `then`. */
static void scrub_stripes(struct pmemfs *fs, struct pmemfs_scrub *s, uint64_t stop,
			  uint64_t then)
{
	uint64_t phase = s->next & (BEFORE | AFTER), stripe = s->next & ~phase;

	for (; s->bytes < stop && stripe < parity_stripes(fs); stripe++)
		scrub_stripe(fs, stripe, phase & BEFORE, s);
	s->next = stripe < parity_stripes(fs) ? phase | stripe : then;
}

int pmemfs_scrub(struct pmemfs *fs, struct pmemfs_scrub *s, uint64_t bytes)
{
	uint64_t stop = s->bytes + bytes;

	if (!s->next) {
		*s = (struct pmemfs_scrub){.next = BEFORE};
		scrub_frame(fs, s);
		scrub_limits(fs, s);
	}
	if (s->next & BEFORE)
		scrub_stripes(fs, s, stop, PMEMFS_ROOT_INO);
	while (s->bytes < stop && !(s->next & (BEFORE | AFTER))) {
		uint64_t ino = itable_next_used(fs, s->next);

		s->next = ino ? ino + 1 : AFTER;
		if (ino)
			scrub_inode(fs, ino, s);
	}
	if (s->next & AFTER)
		scrub_stripes(fs, s, stop, 0);
	return s->next != 0;
}
