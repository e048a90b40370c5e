/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inodes in DRAM, by number.
 *
 * An inode is here while somebody holds a reference: memory follows what is in use. The last
 * directory of each part that nobody holds stays too, for who works in a large one without
 * holding it would read its log each time. refs is under the part's lock. Work that the last
 * reference brings with it (freeing an orphan, tidying a log) is done while that reference is
 * still held, so that nobody can load the same inode a second time meanwhile.
 */
#include <errno.h>

#include "fs.h"

#define BUCKETS_MIN 64

/* Each shard's inodes have parts of their own, so that those who make files do not meet. */
static struct icache_part *part_of(struct pmemfs *fs, uint64_t ino)
{
	unsigned each = MAX(ICACHE_PARTS / fs->shards, 1u);
	unsigned k = (ino * 0x9e3779b97f4a7c15ull) >> 58;

	return &fs->icache[(ino % fs->shards * each + k % each) % ICACHE_PARTS];
}

static struct inode **bucket_of(struct icache_part *c, uint64_t ino)
{
	return &c->bucket[(ino * 0x9e3779b97f4a7c15ull >> 20) & (c->buckets - 1)];
}

void icache_init(struct pmemfs *fs)
{
	for (unsigned k = 0; k < ICACHE_PARTS; k++) {
		struct icache_part *c = &fs->icache[k];

		short_mutex_init(&c->lock);
		c->buckets = BUCKETS_MIN;
		c->bucket = xcalloc(c->buckets, sizeof(c->bucket[0]));
		c->count = 0;
	}
}

void icache_drop(struct pmemfs *fs, void (*fn)(struct pmemfs *fs, struct inode *i))
{
	for (unsigned k = 0; k < ICACHE_PARTS; k++) {
		struct icache_part *c = &fs->icache[k];

		c->idle = NULL;
		for (size_t b = 0; b < c->buckets; b++) {
			while (c->bucket[b]) {
				struct inode *i = c->bucket[b];

				if (fn)
					fn(fs, i);
				c->bucket[b] = i->next;
				c->count--;
				inode_delete(i);
			}
		}
	}
}

void icache_done(struct pmemfs *fs)
{
	for (unsigned k = 0; k < ICACHE_PARTS; k++) {
		free(fs->icache[k].bucket);
		pthread_mutex_destroy(&fs->icache[k].lock);
	}
}

static void grow_part(struct icache_part *c)
{
	struct inode **old = c->bucket;
	size_t n = c->buckets;

	c->buckets *= 2;
	c->bucket = xcalloc(c->buckets, sizeof(c->bucket[0]));
	for (size_t b = 0; b < n; b++) {
		while (old[b]) {
			struct inode *i = old[b], **to = bucket_of(c, i->ino);

			old[b] = i->next;
			i->next = *to;
			*to = i;
		}
	}
	free(old);
}

static struct inode *find(struct icache_part *c, uint64_t ino)
{
	struct inode *i = *bucket_of(c, ino);

	while (i && i->ino != ino)
		i = i->next;
	return i;
}

static void insert(struct icache_part *c, struct inode *i)
{
	struct inode **to;

	if (c->count++ > c->buckets)
		grow_part(c);
	to = bucket_of(c, i->ino);
	i->next = *to;
	*to = i;
}

void icache_insert(struct pmemfs *fs, struct inode *i)
{
	struct icache_part *c = part_of(fs, i->ino);

	pthread_mutex_lock(&c->lock);
	insert(c, i);
	pthread_mutex_unlock(&c->lock);
}

/* Reads the inode's log, once. */
static int load(struct pmemfs *fs, struct inode *i)
{
	enum log_end end = LOG_CLEAN;
	int err;

	pthread_rwlock_wrlock(&i->lock);
	if (!i->loaded && !i->error) {
		err = inode_read(fs, i, false, &end);
		if (!err && end != LOG_CLEAN)
			err = -EUCLEAN; /* recovery cleared what a crash tears */
		if (err == -EUCLEAN || err == -EIO) {
			fs_report(
			    fs, 0,
			    "inode %llu (block %llu) is damaged: unmount and run fsck.pmemfs",
			    (unsigned long long)i->ino,
			    (unsigned long long)(i->slot / PMEMFS_BLOCK_SIZE));
			err = -EIO;
		}
		if (err) {
			inode_clear(i);
			i->loaded = false;
			i->error = err;
		} else {
			inode_mend(fs, i, &i->log);
		}
	}
	err = i->freed ? -ESTALE : i->error;
	pthread_rwlock_unlock(&i->lock);
	return err;
}

int inode_get(struct pmemfs *fs, uint64_t ino, struct inode **ret)
{
	struct icache_part *c = part_of(fs, ino);
	struct inode *i;
	uint64_t slot;
	bool ready;
	int err = 0;

	pthread_mutex_lock(&c->lock);
	i = find(c, ino);
	if (!i) {
		err = ino & PMEMFS_INO_TABLE ? -ESTALE : itable_find(fs, ino, &slot);
		if (!err) {
			i = inode_new(ino, slot);
			insert(c, i);
		}
	}
	if (i) {
		i->refs++;
		if (c->idle == i)
			c->idle = NULL;
	}
	ready = i && i->loaded;
	pthread_mutex_unlock(&c->lock);
	if (err)
		return err;
	/* loaded never goes back; freed and error are looked at under the inode's lock */
	err = ready ? 0 : load(fs, i);
	if (err) {
		inode_put(fs, i, 1);
		return err;
	}
	*ret = i;
	return 0;
}

struct inode *icache_find(struct pmemfs *fs, uint64_t ino)
{
	struct icache_part *c = part_of(fs, ino);
	struct inode *i;

	pthread_mutex_lock(&c->lock);
	i = find(c, ino);
	pthread_mutex_unlock(&c->lock);
	return i;
}

/* All inodes of a part, with a reference each. */
static size_t hold_part(struct icache_part *c, struct inode ***ret)
{
	struct inode **v = NULL;
	size_t n = 0, cap = 0;

	pthread_mutex_lock(&c->lock);
	for (size_t b = 0; b < c->buckets; b++) {
		for (struct inode *i = c->bucket[b]; i; i = i->next) {
			v = grow_array(v, &cap, n + 1, sizeof(*v));
			v[n++] = i;
			i->refs++;
		}
	}
	c->idle = NULL;
	pthread_mutex_unlock(&c->lock);
	*ret = v;
	return n;
}

void icache_settle(struct pmemfs *fs)
{
	for (unsigned k = 0; k < ICACHE_PARTS; k++) {
		struct inode **v;
		size_t n = hold_part(&fs->icache[k], &v);

		for (size_t j = 0; j < n; j++) {
			pthread_rwlock_wrlock(&v[j]->lock);
			pthread_rwlock_unlock(&v[j]->lock);
			inode_put(fs, v[j], 1);
		}
		free(v);
	}
}

/* Under the part's lock. */
static void unhash(struct icache_part *c, struct inode *i)
{
	struct inode **at = bucket_of(c, i->ino);

	if (i->unhashed)
		return;
	while (*at != i)
		at = &(*at)->next;
	*at = i->next;
	c->count--;
	i->unhashed = true;
}

void icache_remove(struct pmemfs *fs, struct inode *i)
{
	struct icache_part *c = part_of(fs, i->ino);

	pthread_mutex_lock(&c->lock);
	unhash(c, i);
	pthread_mutex_unlock(&c->lock);
}

bool inode_is_sole(struct pmemfs *fs, struct inode *i)
{
	struct icache_part *c = part_of(fs, i->ino);
	bool sole;

	pthread_mutex_lock(&c->lock);
	sole = i->refs == 1;
	pthread_mutex_unlock(&c->lock);
	return sole;
}

/*
 * Frees an inode that has no name and no user. One store: before it, recovery finds an inode
 * with link count 0 and frees it; after it, a free slot and free blocks.
 */
static void free_orphan(struct pmemfs *fs, struct inode *i)
{
	struct txn t;

	txn_begin(&t, fs, ALLOC_RESERVE);
	txn_free(&t, i);
	if (txn_commit(&t))
		return; /* recovery or fsck will */
	icache_remove(fs, i);
	itable_free(fs, i->ino);
}

/*
 * A log whose state would fit into the slot, or is less than half of it. As with any compaction
 * the log must double before the next, so that one who comes and goes does not cause many.
 */
static bool wants_tidy(const struct inode *i)
{
	uint64_t size;

	if (!i->log.nseg)
		return false;
	size = inode_state_size(i);
	return size <= PMEMFS_AREA_SIZE - LOG_LINK_SIZE || i->log.bytes > 2 * size;
}

static bool has_last_work(const struct pmemfs *fs, const struct inode *i)
{
	return i->loaded && !i->error && !i->freed && !atomic_load(&fs->readonly) &&
	       (!i->attr.nlink || wants_tidy(i));
}

void inode_last_work(struct pmemfs *fs, struct inode *i)
{
	pthread_rwlock_wrlock(&i->lock);
	if (has_last_work(fs, i)) {
		if (!i->attr.nlink)
			free_orphan(fs, i);
		else
			inode_compact(fs, i);
	}
	pthread_rwlock_unlock(&i->lock);
}

static void put(struct pmemfs *fs, struct inode *i, uint64_t n, bool work)
{
	struct icache_part *c = part_of(fs, i->ino);

	pthread_mutex_lock(&c->lock);
	n = MIN(n, i->refs);
	if (i->refs > n) {
		i->refs -= n;
		pthread_mutex_unlock(&c->lock);
		return;
	}
	/* Twice: while the log was being tidied the last name may have gone. */
	for (unsigned k = 0; work && k < 2 && i->refs == n && has_last_work(fs, i); k++) {
		pthread_mutex_unlock(&c->lock);
		inode_last_work(fs, i);
		pthread_mutex_lock(&c->lock);
	}
	i->refs -= n;
	if (i->refs) {
		pthread_mutex_unlock(&c->lock);
		return;
	}
	if (i->loaded && inode_is_dir(i) && !i->error && !i->unhashed) {
		struct inode *old = c->idle;

		c->idle = i;
		i = old;
	}
	if (i)
		unhash(c, i);
	pthread_mutex_unlock(&c->lock);
	if (i)
		inode_delete(i);
}

void inode_put(struct pmemfs *fs, struct inode *i, uint64_t n)
{
	put(fs, i, n, true);
}

void inode_put_unworked(struct pmemfs *fs, struct inode *i)
{
	put(fs, i, 1, false);
}

/* What stands in the way of using the inode, which is then unlocked again. */
static int locked(struct inode *i)
{
	int err = i->freed ? -ESTALE : i->error;

	if (err)
		pthread_rwlock_unlock(&i->lock);
	return err;
}

/* Most operations take less time than falling asleep: tries for some 10 microseconds. */
static bool lock_soon(struct inode *i, bool exclusive)
{
	for (unsigned k = 0; k < 256; k++) {
		if (!(exclusive ? pthread_rwlock_trywrlock(&i->lock)
				: pthread_rwlock_tryrdlock(&i->lock)))
			return true;
		for (unsigned n = 0; n < 4; n++)
			__builtin_ia32_pause();
	}
	return false;
}

int inode_lock(struct inode *i, bool exclusive)
{
	if (!lock_soon(i, exclusive)) {
		if (exclusive)
			pthread_rwlock_wrlock(&i->lock);
		else
			pthread_rwlock_rdlock(&i->lock);
	}
	return locked(i);
}

int inode_trylock(struct inode *i)
{
	return pthread_rwlock_trywrlock(&i->lock) ? -EBUSY : locked(i);
}

int inode_open(struct pmemfs *fs, uint64_t ino, bool exclusive, struct inode **ret)
{
	struct inode *i;
	int err = inode_get(fs, ino, &i);

	if (err)
		return err;
	err = inode_lock(i, exclusive);
	if (err) {
		inode_put(fs, i, 1);
		return err;
	}
	*ret = i;
	return 0;
}

void inode_close(struct pmemfs *fs, struct inode *i)
{
	inode_unlock(i);
	inode_put(fs, i, 1);
}
