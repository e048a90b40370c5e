/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limits of quotas, and switching quotas on and off.
 *
 * Limits are an internal file, an array of entries of 32 bytes; its slot stands beside that of
 * shard 0's table. Quotas are on as long as there is that file. Every change is one commit:
 *
 *	on	the slot becomes used, with an empty file. Crash before: no quotas; after it:
 *the next mount sums up the usage. set	a write of one entry; a free one or one at the end, for
 *an identity that had none. Crash before: the old limit, after it: the new one. off	the slot
 *becomes free. Crash: all limits, or no quotas.
 *
 * Usage is not there: see quota.c. It is read from what a clean unmount has saved (saved.c),
 * counted by recovery, which reads every log anyway, or counted here: at mount, where nothing
 * was saved; or while the filesystem is in use, when quotas are switched on.
 *
 * Everything here is under quota.lock; it comes before all locks of inodes.
 */
#include <errno.h>

#include "fs.h"

#define ENTRY	  ((uint32_t)sizeof(struct pmemfs_limit))
#define PER_BLOCK (PMEMFS_BLOCK_SIZE / ENTRY)

/* ---- entries ---- */

bool limit_is_free(const struct pmemfs_limit *e)
{
	static const struct pmemfs_limit zero;

	return !memcmp(e, &zero, sizeof(zero));
}

bool limit_valid(const struct pmemfs_limit *e)
{
	uint32_t kind = get32(e->kind);

	if (limit_is_free(e))
		return true;
	return (kind == PMEMFS_LIMIT_USER || kind == PMEMFS_LIMIT_GROUP) && get32(e->id) &&
	       (get64(e->blocks) || get64(e->inodes)) && !get64(e->reserved);
}

static void walk_block(struct pmemfs *fs, const struct inode *i, uint64_t b, limit_fn fn,
		       void *arg)
{
	struct pmemfs_limit e[PER_BLOCK];
	uint64_t entries = DIV_UP(data_valid(i->attr.size, b), ENTRY);

	if (file_read_block(fs, i, b, sizeof(e), e)) {
		fn(arg, b * PER_BLOCK, NULL);
		return;
	}
	for (uint64_t k = 0; k < entries; k++)
		fn(arg, b * PER_BLOCK + k, &e[k]);
}

void limits_walk(struct pmemfs *fs, const struct inode *i, limit_fn fn, void *arg)
{
	uint64_t end = DIV_UP(i->attr.size, PMEMFS_BLOCK_SIZE);
	struct range_cursor c;

	for (const struct range *r = rangemap_find(&i->extents, 0, &c); r && r->start < end;
	     r = rangemap_next(&i->extents, &c))
		if (!range_flags(r)) /* what was never written is zeros: free */
			for (uint64_t b = r->start; b < MIN(range_end(r), end); b++)
				walk_block(fs, i, b, fn, arg);
}

/* ---- at mount ---- */

static void add_spare(struct quota *q, uint64_t index)
{
	q->spare = grow_array(q->spare, &q->sparecap, q->spares + 1, sizeof(q->spare[0]));
	q->spare[q->spares++] = index;
}

struct loading {
	struct pmemfs *fs;
	uint64_t bad;
};

static void load_entry(void *arg, uint64_t index, const struct pmemfs_limit *e)
{
	struct loading *l = arg;
	struct quota_id *id;

	if (!e || !limit_valid(e)) {
		l->bad++;
		return;
	}
	if (limit_is_free(e)) {
		add_spare(&l->fs->quota, index);
		return;
	}
	id = quota_find(l->fs, get32(e->kind) - 1, get32(e->id), true);
	if (id->entry != QUOTA_NO_ENTRY) { /* a second one */
		l->bad++;
		return;
	}
	id->entry = index;
	atomic_store(&id->block_limit, get64(e->blocks));
	atomic_store(&id->inode_limit, get64(e->inodes));
}

static void make_buckets(struct quota *q)
{
	if (!q->bucket)
		q->bucket = xcalloc(QUOTA_BUCKETS, sizeof(q->bucket[0]));
}

static int read_file(struct pmemfs *fs, struct inode *i)
{
	enum log_end end = LOG_CLEAN;
	int err = inode_read(fs, i, fs->both, &end);

	i->log.fixes = 0; /* who mends copies reads it again */
	if (!err && (end == LOG_DAMAGED || (end == LOG_TORN && fs->was_clean)))
		err = -EUCLEAN;
	if (!err &&
	    (!S_ISREG(i->attr.mode) || i->attr.nlink != 1 || i->attr.size > PMEMFS_LIMITS_MAX))
		err = -EUCLEAN;
	return err; /* a torn append is cleared by recovery, or fsck */
}

int limits_load(struct pmemfs *fs)
{
	struct inode *i = inode_new(PMEMFS_INO_QUOTA, super_quota_slot(&fs->sb));
	struct loading l = {.fs = fs};
	struct quota *q = &fs->quota;
	int err = read_file(fs, i);

	if (err) {
		inode_delete(i);
		return err == -ESTALE ? 0 : err;
	}
	make_buckets(q);
	q->inode = i;
	q->entries = DIV_UP(i->attr.size, ENTRY);
	limits_walk(fs, i, load_entry, &l);
	if (l.bad)
		fs_report(fs, 0,
			  "%llu limits of quotas are damaged and do not count: run "
			  "fsck.pmemfs -f",
			  (unsigned long long)l.bad);
	return 0;
}

/* ---- usage ---- */

/* Adds the inode, if there is one, as it is on the medium. No commit is under way. */
static void count_one(struct pmemfs *fs, uint64_t ino)
{
	enum log_end end;
	struct inode *i;
	uint64_t slot;

	if (itable_find(fs, ino, &slot))
		return;
	i = inode_new(ino, slot);
	if (!inode_read(fs, i, false, &end))
		quota_count(fs, i);
	inode_delete(i);
}

/*
 * One inode after the other, and no commit beside one: what is allocated but not yet on the
 * medium will be charged by its commit, which finds its number passed.
 */
static void count_all(struct pmemfs *fs)
{
	struct quota *q = &fs->quota;
	uint64_t ino = 1;

	while (ino) {
		pthread_mutex_lock(&q->gate);
		ino = itable_next_used(fs, atomic_load(&q->counted));
		if (ino) {
			count_one(fs, ino);
			atomic_store(&q->counted, ino + 1);
		} else {
			atomic_store(&q->counted, UINT64_MAX);
			atomic_store(&q->state, QUOTA_ON);
		}
		pthread_mutex_unlock(&q->gate);
	}
}

/*
 * Who began a commit without quotas, or with those of before they were switched off, holds an
 * inode's lock (of a new inode: its directory's) until it is done: both waits see that end.
 */
static void start(struct pmemfs *fs)
{
	struct quota *q = &fs->quota;

	icache_settle(fs);
	quota_clear(fs);
	atomic_store(&q->counted, 1);
	atomic_store(&q->state, QUOTA_COUNTING);
	icache_settle(fs);
	count_all(fs);
}

static void take_saved(struct pmemfs *fs)
{
	struct quota *q = &fs->quota;

	for (size_t k = 0; k < q->saveds; k++) {
		struct quota_id *id =
		    quota_find(fs, q->saved[k].kind - 1, q->saved[k].id, true);

		atomic_store(&id->blocks, q->saved[k].blocks);
		atomic_store(&id->inodes, q->saved[k].inodes);
	}
	free(q->saved);
	q->saved = NULL;
	q->saveds = q->savedcap = 0;
}

void limits_start(struct pmemfs *fs, bool known)
{
	struct quota *q = &fs->quota;

	if (!q->inode) {
		q->saveds = 0;
		return;
	}
	take_saved(fs);
	atomic_store(&q->counted, known ? UINT64_MAX : 1);
	if (known)
		atomic_store(&q->state, QUOTA_ON);
	else
		count_all(fs);
}

/* ---- on, off ---- */

static int make_file(struct pmemfs *fs, struct inode **ret)
{
	struct inode *i = inode_new(PMEMFS_INO_QUOTA, super_quota_slot(&fs->sb));
	struct txn t;
	uint64_t head[2];
	int err = head_read(fs, i->slot, true, head, NULL);

	if (err >= 0) {
		i->log.head = head[0];
		i->attr.mode = S_IFREG | 0600;
		i->attr.nlink = 1;
		i->attr.atime = i->attr.mtime = i->attr.ctime = i->attr.btime = fs_now();
		txn_begin(&t, fs, 0);
		txn_create(&t, i);
		err = txn_commit(&t);
	}
	if (err)
		inode_delete(i);
	else
		*ret = i;
	return err;
}

int pmemfs_quota_on(struct pmemfs *fs)
{
	struct quota *q = &fs->quota;
	int err = 0;

	pthread_mutex_lock(&q->lock);
	if (!q->inode) {
		make_buckets(q);
		err = make_file(fs, &q->inode);
		if (!err)
			start(fs);
	}
	pthread_mutex_unlock(&q->lock);
	return err;
}

static void forget_limits(struct quota *q)
{
	for (size_t b = 0; b < QUOTA_BUCKETS; b++) {
		struct quota_id *id = atomic_load(&q->bucket[b]);

		for (; id; id = id->next) {
			atomic_store(&id->block_limit, 0);
			atomic_store(&id->inode_limit, 0);
			id->entry = QUOTA_NO_ENTRY;
		}
	}
	q->entries = q->spares = 0;
}

int pmemfs_quota_off(struct pmemfs *fs)
{
	struct quota *q = &fs->quota;
	struct txn t;
	int err = 0;

	pthread_mutex_lock(&q->lock);
	if (q->inode) {
		txn_begin(&t, fs, ALLOC_RESERVE);
		txn_free(&t, q->inode);
		err = txn_commit(&t);
		if (!err) {
			atomic_store(&q->state, QUOTA_OFF);
			forget_limits(q);
			inode_delete(q->inode);
			q->inode = NULL;
		}
	}
	pthread_mutex_unlock(&q->lock);
	return err;
}

/* ---- setting, listing ---- */

/* Where an entry can go that is not there yet. */
static uint64_t free_entry(const struct quota *q)
{
	return q->spares ? q->spare[q->spares - 1] : q->entries;
}

static void entry_taken(struct quota *q)
{
	if (q->spares)
		q->spares--;
	else
		q->entries++;
}

static int set_limits(struct pmemfs *fs, struct quota_id *id, uint64_t blocks, uint64_t inodes)
{
	struct quota *q = &fs->quota;
	bool had = id->entry != QUOTA_NO_ENTRY, has = blocks || inodes;
	uint64_t at = had ? id->entry : free_entry(q);
	struct pmemfs_limit e = {0};
	int err = 0;

	if (has) {
		e.kind = put32(id->kind + 1);
		e.id = put32(id->id);
		e.blocks = put64(blocks);
		e.inodes = put64(inodes);
	}
	if (at >= PMEMFS_LIMITS_MAX / ENTRY)
		return -ENOSPC;
	if (had || has)
		err = file_put(fs, q->inode, at * ENTRY, &e, sizeof(e));
	if (err)
		return err;
	if (has && !had)
		entry_taken(q);
	else if (had && !has)
		add_spare(q, at);
	id->entry = has ? at : QUOTA_NO_ENTRY;
	atomic_store(&id->block_limit, blocks);
	atomic_store(&id->inode_limit, inodes);
	return 0;
}

static bool kind_valid(uint32_t kind)
{
	return kind == PMEMFS_QUOTA_USER || kind == PMEMFS_QUOTA_GROUP;
}

int pmemfs_quota_set(struct pmemfs *fs, const struct pmemfs_quota *s, unsigned mask)
{
	struct quota *q = &fs->quota;
	struct quota_id *id;
	int err = -ESRCH;

	if (!kind_valid(s->kind) || !s->id ||
	    mask & ~(PMEMFS_QUOTA_BLOCKS | PMEMFS_QUOTA_INODES))
		return -EINVAL;
	pthread_mutex_lock(&q->lock);
	if (q->inode) {
		id = quota_find(fs, s->kind - 1, s->id, true);
		err = set_limits(fs, id,
				 mask & PMEMFS_QUOTA_BLOCKS ? s->block_limit
							    : atomic_load(&id->block_limit),
				 mask & PMEMFS_QUOTA_INODES ? s->inode_limit
							    : atomic_load(&id->inode_limit));
	}
	pthread_mutex_unlock(&q->lock);
	return err;
}

static int by_id(const void *a, const void *b)
{
	const struct pmemfs_quota *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static struct pmemfs_quota row_of(const struct quota_id *id)
{
	return (struct pmemfs_quota){
	    .kind = id->kind + 1,
	    .id = id->id,
	    .blocks = atomic_load(&id->blocks),
	    .inodes = atomic_load(&id->inodes),
	    .block_limit = atomic_load(&id->block_limit),
	    .inode_limit = atomic_load(&id->inode_limit),
	};
}

static size_t collect(struct quota *q, uint32_t kind, uint32_t from, struct pmemfs_quota **ret)
{
	struct pmemfs_quota *v = NULL;
	size_t n = 0, cap = 0;

	for (size_t b = 0; b < QUOTA_BUCKETS; b++) {
		const struct quota_id *id = atomic_load(&q->bucket[b]);

		for (; id; id = id->next) {
			struct pmemfs_quota r = row_of(id);

			if (r.kind != kind || r.id < from ||
			    !(r.blocks | r.inodes | r.block_limit | r.inode_limit))
				continue;
			v = grow_array(v, &cap, n + 1, sizeof(*v));
			v[n++] = r;
		}
	}
	if (n)
		qsort(v, n, sizeof(*v), by_id);
	*ret = v;
	return n;
}

ssize_t pmemfs_quota_list(struct pmemfs *fs, uint32_t kind, uint32_t from,
			  struct pmemfs_quota *ret, size_t max)
{
	struct quota *q = &fs->quota;
	struct pmemfs_quota *v;
	ssize_t n = -ESRCH;
	size_t all;

	if (!kind_valid(kind))
		return -EINVAL;
	pthread_mutex_lock(&q->lock);
	if (q->inode) {
		all = collect(q, kind, from, &v);
		n = (ssize_t)MIN(all, max);
		if (n)
			memcpy(ret, v, n * sizeof(*v));
		free(v);
	}
	pthread_mutex_unlock(&q->lock);
	return n;
}

int limits_erase(struct pmemfs *fs, uint64_t index, bool whole)
{
	static const char zeros[PMEMFS_BLOCK_SIZE];

	if (!fs->quota.inode)
		return -EIO;
	return file_put(fs, fs->quota.inode, index * ENTRY, zeros,
			whole ? sizeof(zeros) : ENTRY);
}
