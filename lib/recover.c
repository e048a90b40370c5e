/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recovery after a crash: every inode's log is read, by several threads, to find out which
 * blocks are used. What a crash can leave is put right on the way: an append that was torn is
 * cleared, an inode without a name is freed. Both are idempotent and change nothing that an
 * operation which returned had made.
 *
 * Memory is one bit a block while it runs, and one inode a thread. Everything that does not fit
 * (a damaged log, a block with two owners) is reported, and the filesystem is read-only until
 * fsck has looked at it: blocks that a damaged log may own must not be given to others.
 */
#include <errno.h>
#include <unistd.h>

#include "fs.h"

#define BATCH 16u /* table blocks that a thread takes at a time */

struct scan {
	struct pmemfs *fs;
	uint64_t *map; /* a bit for each used block; changed atomically */
	pthread_mutex_t lock;
	unsigned shard; /* under the lock: the next batch to scan */
	size_t next;
	struct log mend; /* under the lock, of all logs: torn appends, copies that differ */
	_Atomic uint64_t inodes, dentry_bytes, orphans;
};

/* Marks blocks as used, up to the first that was already; reports whether there was one. */
static bool mark(struct scan *s, uint64_t block, uint64_t n)
{
	bool twice = false;

	while (n && !twice) {
		unsigned bit = block % 64, part = MIN(n, 64 - bit);
		uint64_t mask = (part == 64 ? ~0ull : (1ull << part) - 1) << bit;

		twice = __atomic_fetch_or(&s->map[block / 64], mask, __ATOMIC_RELAXED) & mask;
		block += part;
		n -= part;
	}
	return twice;
}

static void mark_inode(struct scan *s, const struct inode *i)
{
	struct extvec x;
	bool twice = false;

	extvec_init(&x);
	inode_runs(i, &x);
	for (size_t k = 0; k < x.n && !twice; k++)
		twice = mark(s, x.v[k].block, x.v[k].len);
	extvec_done(&x);
	if (twice)
		fs_damage(s->fs, "inode %llu owns blocks that another owns too",
			  (unsigned long long)i->ino);
}

/* Takes over what of the log is to be mended. */
static void note_fixes(struct scan *s, const struct log *l)
{
	if (!l->fixes)
		return;
	pthread_mutex_lock(&s->lock);
	for (size_t k = 0; k < l->fixes; k++)
		log_note_fix(&s->mend, l->fix[k].to, l->fix[k].from, l->fix[k].len);
	pthread_mutex_unlock(&s->lock);
}

/* It is mended when every block is known to have one owner, not before. */
static int mend(struct scan *s)
{
	int err = atomic_load(&s->fs->damaged) ? 0 : log_mend(s->fs, &s->mend);

	log_free(&s->mend);
	return err;
}

/* An inode without a name: its slot becomes free; its blocks were never marked. */
static int free_slot(struct scan *s, const struct inode *i)
{
	meta_head(s->fs, i->slot, head_make(HEAD_FREE, head_id(i->log.head) + 1));
	atomic_fetch_add(&s->orphans, 1);
	return media_fence(s->fs->media);
}

static void scan_inode(struct scan *s, uint64_t ino, uint64_t slot)
{
	struct inode *i = inode_new(ino, slot);
	enum log_end end = LOG_CLEAN;
	int err = inode_read(s->fs, i, true, &end);

	if (!err && (end == LOG_DAMAGED || (end == LOG_TORN && s->fs->was_clean)))
		err = -EUCLEAN;
	if (!err)
		err = log_note_tail(s->fs, &i->log);
	if (err == -ESTALE) {
		note_fixes(s, &i->log);
		goto out;
	}
	if (err) {
		fs_damage(s->fs, "inode %llu (block %llu) is damaged: %s",
			  (unsigned long long)ino,
			  (unsigned long long)(slot / PMEMFS_BLOCK_SIZE),
			  err == -EUCLEAN ? "its log makes no sense" : strerror(-err));
	} else if (!i->attr.nlink) {
		if (free_slot(s, i))
			fs_damage(s->fs, "inode %llu cannot be freed: the medium failed",
				  (unsigned long long)ino);
		goto out;
	} else {
		note_fixes(s, &i->log);
		mark_inode(s, i);
		if (s->fs->quota.inode)
			quota_count(s->fs, i);
		atomic_fetch_add(&s->dentry_bytes, i->dir.bytes);
	}
	itable_set_used(s->fs, ino);
	atomic_fetch_add(&s->inodes, 1);
out:
	inode_delete(i);
}

/* Scans the inodes of one table block. */
static void scan_block(struct scan *s, unsigned shard, size_t k)
{
	struct itblock *b = &s->fs->shard[shard].table.v[k];

	if (!b->block)
		return;
	b->used = 0;
	for (unsigned n = 0; n < PMEMFS_SLOTS_PER_BLOCK; n++) {
		uint64_t slot = b->block * PMEMFS_BLOCK_SIZE + n * PMEMFS_SLOT_SIZE;
		uint64_t head[2];
		bool alike = false;

		if (head_read(s->fs, slot, true, head, &alike) > 0 && alike &&
		    head_where(head[0]) == HEAD_FREE)
			continue;
		scan_inode(
		    s, 1 + ((uint64_t)k * PMEMFS_SLOTS_PER_BLOCK + n) * s->fs->shards + shard,
		    slot);
	}
}

/* The next batch of table blocks; false: no more. */
static bool take_batch(struct scan *s, unsigned *shard, size_t *from, size_t *to)
{
	bool got = false;

	pthread_mutex_lock(&s->lock);
	while (!got && s->shard < s->fs->shards) {
		size_t n = s->fs->shard[s->shard].table.n;

		if (s->next < n) {
			*shard = s->shard;
			*from = s->next;
			*to = s->next = MIN(n, *from + BATCH);
			got = true;
		} else {
			s->shard++;
			s->next = 0;
		}
	}
	pthread_mutex_unlock(&s->lock);
	return got;
}

static void *scan_thread(void *arg)
{
	struct scan *s = arg;
	unsigned shard;
	size_t from, to;

	while (take_batch(s, &shard, &from, &to))
		for (size_t k = from; k < to; k++)
			scan_block(s, shard, k);
	return NULL;
}

static void scan_all(struct scan *s)
{
	unsigned want = s->fs->options.recovery_threads, n = 0;
	pthread_t thread[64];

	if (!want)
		want = (unsigned)MAX(1, sysconf(_SC_NPROCESSORS_ONLN));
	while (n + 1 < want && n < ARRAY_LEN(thread) &&
	       !pthread_create(&thread[n], NULL, scan_thread, s))
		n++;
	scan_thread(s);
	while (n)
		pthread_join(thread[--n], NULL);
}

/* The file of quota limits, if there is one: as any, but counted for nobody. */
static void scan_limits(struct scan *s)
{
	struct inode *i = inode_new(PMEMFS_INO_QUOTA, super_quota_slot(&s->fs->sb));
	enum log_end end;
	int err = inode_read(s->fs, i, true, &end);

	if (!err)
		err = log_note_tail(s->fs, &i->log);
	if (!err)
		mark_inode(s, i);
	if (!err || err == -ESTALE)
		note_fixes(s, &i->log);
	else
		fs_damage(s->fs, "the log of quota limits cannot be read");
	inode_delete(i);
}

/* Everything that belongs to no inode of a table. */
static void mark_fixed(struct scan *s)
{
	struct pmemfs *fs = s->fs;

	mark(s, PMEMFS_SB_BLOCK, 1);
	mark(s, PMEMFS_SB_REPLICA, 1);
	mark(s, super_shard_header(&fs->sb, 0),
	     fs->shards * (uint64_t)PMEMFS_SHARD_BLOCKS * fs->copies);
	mark(s, super_parity_start(&fs->sb), super_parity_blocks(&fs->sb));
	for (unsigned k = 0; k < fs->shards; k++)
		mark_inode(s, fs->shard[k].table.inode);
	scan_limits(s);
}

/* Gives every block that is not marked to the allocator. */
static void collect_free(struct scan *s)
{
	uint64_t start = 0, b = 0, blocks = s->fs->blocks;
	bool in = false;

	while (b < blocks) {
		uint64_t word = s->map[b / 64];
		bool used = word >> b % 64 & 1;

		if (used && in)
			alloc_add(s->fs, start, b - start);
		if (!used && !in)
			start = b;
		in = !used;
		if (b % 64 == 0 && blocks - b >= 64 && (word == 0 || word == ~0ull))
			b += 64;
		else
			b++;
	}
	if (in)
		alloc_add(s->fs, start, blocks - start);
}

int fs_recover(struct pmemfs *fs)
{
	struct scan s = {.fs = fs, .lock = PTHREAD_MUTEX_INITIALIZER};
	int err;

	s.map = xcalloc(fs->blocks / 64 + 1, sizeof(s.map[0]));
	mark_fixed(&s);
	scan_all(&s);
	err = mend(&s);
	if (!err)
		collect_free(&s);
	for (unsigned k = 0; k < fs->shards; k++)
		itable_scanned(fs, k);
	itable_set_inodes(fs, atomic_load(&s.inodes));
	atomic_store(&fs->dentry_bytes, atomic_load(&s.dentry_bytes));
	free(s.map);
	if (!err && !fs->was_clean)
		fs_report(fs, 2, "recovered after a crash: %llu inodes, %llu orphans freed",
			  (unsigned long long)atomic_load(&s.inodes),
			  (unsigned long long)atomic_load(&s.orphans));
	return err;
}
