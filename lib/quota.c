/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Quotas: who uses how many blocks and inodes, and who may not use more.
 *
 * Nothing of it is on the medium while mounted: usage is the sum over the inodes, as free space
 * is what they leave over. So no operation stores a line for it, and no crash can leave it
 * wrong. A filesystem without quotas pays a load and a branch a commit.
 *
 * 1. An inode that is counted is charged for what it had after its last commit (i->charge,
 * under its lock), to its user and its group; their counters are the sums of all charges, and
 * of what is claimed by commits under way.
 * 2. A commit claims what it will add before it changes anything, so that no moment has more in
 *    use than a limit allows, whoever else is at it. Afterwards it charges what the inode
 * really has, which gives back what it freed, once that is durable.
 * 3. What adds no data, no name, no attribute and no inode is never refused, nor is what frees
 *    (ALLOC_RESERVE): they are charged all the same. A log takes at most about twice its state,
 *    so that this is bounded.
 * 4. While the usage is counted, by ascending inode number, commits hold the gate: an inode
 * that the counter has not reached is not charged, for it will be seen as the commit leaves it;
 *    one behind it is in the sums as it was before the commit, whether anybody held it or not.
 *
 * A quota_id is never freed before the filesystem is unmounted, so pointers to it need no lock.
 */
#include <errno.h>

#include "fs.h"

void quota_init(struct pmemfs *fs)
{
	struct quota *q = &fs->quota;

	pthread_mutex_init(&q->lock, NULL);
	pthread_mutex_init(&q->gate, NULL);
	q->enforce = true;
	q->epoch = 1; /* no charge has 0 */
}

void quota_done(struct pmemfs *fs)
{
	struct quota *q = &fs->quota;

	for (size_t b = 0; q->bucket && b < QUOTA_BUCKETS; b++) {
		struct quota_id *next, *id = atomic_load(&q->bucket[b]);

		for (; id; id = next) {
			next = id->next;
			free(id);
		}
	}
	free(q->bucket);
	free(q->spare);
	free(q->saved);
	if (q->inode)
		inode_delete(q->inode);
	pthread_mutex_destroy(&q->lock);
	pthread_mutex_destroy(&q->gate);
}

/* ---- identities ---- */

static struct quota_id *find_in(struct quota_id *id, const struct quota_id *end, unsigned kind,
				uint32_t number)
{
	while (id != end && (id->kind != kind || id->id != number))
		id = id->next;
	return id == end ? NULL : id;
}

struct quota_id *quota_find(struct pmemfs *fs, unsigned kind, uint32_t id, bool make)
{
	struct quota *q = &fs->quota;
	uint64_t hash = (((uint64_t)kind << 32) + id + 1) * 0x9e3779b97f4a7c15ull;
	_Atomic(struct quota_id *) *bucket = &q->bucket[hash >> 40 & (QUOTA_BUCKETS - 1)];
	struct quota_id *first = atomic_load(bucket), *found = find_in(first, NULL, kind, id);
	struct quota_id *new;

	if (found || !make)
		return found;
	new = xcalloc(1, sizeof(*new));
	new->kind = kind;
	new->id = id;
	new->entry = QUOTA_NO_ENTRY;
	new->next = first;
	while (!atomic_compare_exchange_weak(bucket, &first, new)) {
		/* only what stands before the old first one is new */
		found = find_in(first, new->next, kind, id);
		if (found) {
			free(new);
			return found;
		}
		new->next = first;
	}
	return new;
}

static int by_id(const void *a, const void *b)
{
	const struct quota_usage *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

size_t quota_collect(struct pmemfs *fs, struct quota_usage **ret)
{
	struct quota_usage *v = NULL;
	size_t n = 0, cap = 0;

	for (size_t b = 0; b < QUOTA_BUCKETS; b++) {
		const struct quota_id *id = atomic_load(&fs->quota.bucket[b]);

		for (; id; id = id->next) {
			struct quota_usage u = {id->kind + 1, id->id, atomic_load(&id->blocks),
						atomic_load(&id->inodes)};

			if (!u.blocks && !u.inodes)
				continue;
			v = grow_array(v, &cap, n + 1, sizeof(*v));
			v[n++] = u;
		}
	}
	if (n)
		qsort(v, n, sizeof(*v), by_id);
	*ret = v;
	return n;
}

void quota_clear(struct pmemfs *fs)
{
	for (size_t b = 0; b < QUOTA_BUCKETS; b++) {
		struct quota_id *id = atomic_load(&fs->quota.bucket[b]);

		for (; id; id = id->next) {
			atomic_store(&id->blocks, 0);
			atomic_store(&id->inodes, 0);
		}
	}
	fs->quota.epoch++;
	if (!fs->quota.epoch)
		fs->quota.epoch = 1;
}

/* ---- what an inode has ---- */

static uint64_t log_blocks(const struct log *l)
{
	uint64_t n = 0;

	for (uint32_t k = 0; k < l->nseg; k++)
		n += l->seg[k].blocks;
	return n;
}

uint64_t quota_blocks(const struct inode *i)
{
	return i->extents.total + log_blocks(&i->log);
}

static struct quota_id *owner(struct pmemfs *fs, unsigned kind, uint32_t uid, uint32_t gid)
{
	return quota_find(fs, kind, kind == PMEMFS_LIMIT_USER - 1 ? uid : gid, true);
}

void quota_count(struct pmemfs *fs, const struct inode *i)
{
	for (unsigned k = 0; k < QUOTA_KINDS; k++) {
		struct quota_id *id = owner(fs, k, i->attr.uid, i->attr.gid);

		atomic_fetch_add(&id->blocks, quota_blocks(i));
		atomic_fetch_add(&id->inodes, 1);
	}
}

/* ---- what a record changes ---- */

static uint64_t mapped(const struct inode *i, uint64_t start, uint64_t end)
{
	struct range_cursor c;
	const struct range *r = rangemap_find(&i->extents, start, &c);
	uint64_t n = 0;

	for (; r && r->start < end; r = rangemap_next(&i->extents, &c))
		n += MIN(range_end(r), end) - MAX(r->start, start);
	return n;
}

static const struct pmemfs_update *update_of(const struct txn_part *p)
{
	return p->rec && p->rec->type == REC_UPDATE ? (const void *)p->rec : NULL;
}

/* Data blocks that the record adds. (A change that cuts the file shorter claims nothing.) */
static int64_t data_growth(const struct txn_part *p)
{
	const struct pmemfs_update *u = update_of(p);
	const struct pmemfs_extent *e;
	int64_t n = 0;

	if (!u)
		return 0;
	e = (const void *)((const char *)(u + 1) + update_fields_size(get16(u->mask)));
	for (unsigned k = 0; k < get16(u->extents); k++) {
		uint64_t start = get64(e[k].where) >> 20;
		uint64_t len = get64(e[k].where) & PMEMFS_EXTENT_MAX;

		if (!(get64(e[k].what) >> RANGE_FLAG_SHIFT & PMEMFS_EXT_HOLE))
			n += (int64_t)len;
		n -= (int64_t)mapped(p->inode, start, start + len);
	}
	return n;
}

static bool is_new(const struct txn_part *p)
{
	return p->how == TXN_SWITCH && !p->rec && !p->inode->loaded;
}

/* Does it add data, a name, an attribute or an inode? */
static bool grows(const struct txn_part *p, int64_t data)
{
	const struct pmemfs_dirup *d = (const void *)p->rec;
	const struct pmemfs_xattr *x = (const void *)p->rec;

	if (!p->rec)
		return is_new(p);
	switch (p->rec->type) {
	case REC_DIR:
		return d->adds > d->dels;
	case REC_XATTR:
		return !x->remove;
	default:
		return data > 0;
	}
}

static int64_t log_growth(const struct txn_part *p)
{
	if (p->how == TXN_SEGMENT)
		return p->segblocks;
	if (p->how == TXN_SWITCH && !p->rec)
		return (int64_t)log_blocks(&p->newlog) - (int64_t)log_blocks(&p->inode->log);
	return 0;
}

/* ---- a commit ---- */

/* The inode is charged for what it has, from now on. */
static void charge_first(struct pmemfs *fs, const struct txn_part *p)
{
	struct inode *i = p->inode;

	i->charge = (struct quota_charge){.epoch = fs->quota.epoch};
	if (is_new(p))
		return;
	i->charge.blocks = quota_blocks(i);
	i->charge.inodes = 1;
	for (unsigned k = 0; k < QUOTA_KINDS; k++)
		i->charge.id[k] = owner(fs, k, i->attr.uid, i->attr.gid);
}

static void find_owners(struct pmemfs *fs, struct txn_part *p)
{
	const struct pmemfs_update *u = update_of(p);
	uint32_t uid = p->inode->attr.uid, gid = p->inode->attr.gid;
	const struct pmemfs_perm *perm;

	if (u && get16(u->mask) & UP_PERM) {
		perm =
		    (const void *)((const char *)(u + 1) + (get16(u->mask) & UP_SIZE ? 8 : 0));
		uid = get32(perm->uid);
		gid = get32(perm->gid);
	}
	for (unsigned k = 0; k < QUOTA_KINDS; k++) {
		struct quota_id *now = p->inode->charge.id[k];
		uint32_t id = k == PMEMFS_LIMIT_USER - 1 ? uid : gid;

		p->quota.to[k] = now && now->id == id ? now : quota_find(fs, k, id, true);
	}
}

void quota_begin(struct txn *t)
{
	struct quota *q = &t->fs->quota;

	/* Such a one is alone in its commit, and a table's lock is held, which follows the
	 * gate. */
	if (inode_is_internal(t->part[0].inode))
		return;
	t->counted = true;
	t->gated = atomic_load(&q->state) == QUOTA_COUNTING;
	if (t->gated)
		pthread_mutex_lock(&q->gate);
	for (unsigned k = 0; k < t->n; k++) {
		struct txn_part *p = &t->part[k];

		p->quota = (struct quota_part){.counted = false};
		if (t->gated && p->inode->ino >= atomic_load(&q->counted))
			continue;
		p->quota.counted = true;
		if (p->inode->charge.epoch != q->epoch)
			charge_first(t->fs, p);
		find_owners(t->fs, p);
	}
}

static int take(_Atomic uint64_t *used, uint64_t limit, uint64_t n)
{
	uint64_t old = atomic_load(used);

	if (!n)
		return 0;
	do {
		if (limit && (old + n > limit || old + n < n))
			return -EDQUOT;
	} while (!atomic_compare_exchange_weak(used, &old, old + n));
	return 0;
}

/* Root is not limited. */
static uint64_t limit_of(const struct quota_id *id, const _Atomic uint64_t *limit)
{
	return id->id ? atomic_load_explicit(limit, memory_order_relaxed) : 0;
}

static int claim_part(struct txn_part *p)
{
	const struct quota_charge *c = &p->inode->charge;
	int64_t data = data_growth(p), all = (int64_t)c->blocks + data + log_growth(p);
	uint64_t after = MAX(all, 0);
	bool more = grows(p, data) && after > c->blocks;
	int err = 0;

	for (unsigned k = 0; k < QUOTA_KINDS && !err; k++) {
		struct quota_id *to = p->quota.to[k];
		bool moves = to != c->id[k];
		uint64_t n = moves ? after : more ? after - c->blocks : 0;

		err = take(&to->blocks, limit_of(to, &to->block_limit), n);
		if (!err) {
			p->quota.blocks[k] = n;
			err = take(&to->inodes, limit_of(to, &to->inode_limit), moves);
		}
		if (!err)
			p->quota.inodes[k] = moves;
	}
	return err;
}

static bool is_limited(const struct txn *t)
{
	return !(t->flags & (ALLOC_RESERVE | QUOTA_UNLIMITED)) && t->fs->quota.enforce &&
	       atomic_load(&t->fs->quota.state) == QUOTA_ON;
}

int quota_claim(struct txn *t)
{
	int err = 0;

	if (!is_limited(t))
		return 0;
	for (unsigned k = 0; k < t->n && !err; k++)
		if (t->part[k].quota.counted)
			err = claim_part(&t->part[k]);
	return err; /* quota_end gives back what was claimed */
}

uint64_t quota_segment(const struct txn *t, const struct txn_part *p, uint64_t n, uint64_t need)
{
	uint64_t more = n;
	int64_t data;

	if (!is_limited(t) || !p->quota.counted)
		return n;
	data = data_growth(p);
	if (data > 0)
		more += (uint64_t)data;
	for (unsigned k = 0; k < QUOTA_KINDS; k++) {
		struct quota_id *id = p->inode->charge.id[k];
		uint64_t limit = id ? limit_of(id, &id->block_limit) : 0;

		if (limit && atomic_load(&id->blocks) + more > limit)
			return need;
	}
	return n;
}

static void add(struct quota_id *id, uint64_t blocks, uint64_t inodes)
{
	if (blocks)
		atomic_fetch_add(&id->blocks, blocks);
	if (inodes)
		atomic_fetch_add(&id->inodes, inodes);
}

/* Charges the inode for what it has now: the differences, which may be negative. */
static void settle_part(struct txn_part *p)
{
	struct inode *i = p->inode;
	struct quota_charge *c = &i->charge;
	uint64_t blocks = i->freed ? 0 : quota_blocks(i), inodes = i->freed ? 0 : 1;

	for (unsigned k = 0; k < QUOTA_KINDS; k++) {
		struct quota_id *to = p->quota.to[k], *from = c->id[k];

		if (to == from) {
			add(to, blocks - p->quota.blocks[k] - c->blocks,
			    inodes - p->quota.inodes[k] - c->inodes);
			continue;
		}
		add(to, blocks - p->quota.blocks[k], inodes - p->quota.inodes[k]);
		if (from)
			add(from, -c->blocks, -(uint64_t)c->inodes);
		c->id[k] = to;
	}
	c->blocks = blocks;
	c->inodes = inodes;
}

static void unclaim_part(struct txn_part *p)
{
	for (unsigned k = 0; k < QUOTA_KINDS; k++)
		add(p->quota.to[k], -p->quota.blocks[k], -p->quota.inodes[k]);
}

void quota_end(struct txn *t, bool done)
{
	for (unsigned k = 0; k < t->n; k++) {
		if (!t->part[k].quota.counted)
			continue;
		if (done)
			settle_part(&t->part[k]);
		else
			unclaim_part(&t->part[k]);
	}
	if (t->gated)
		pthread_mutex_unlock(&t->fs->quota.gate);
}
