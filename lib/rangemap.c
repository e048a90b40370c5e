/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ordered ranges in an array of leaves, each a sorted array of at most LEAF_MAX ranges.
 *
 * Invariants: no leaf is empty; index[i].end is where leaf i's last range ends; leaves and
 * their ranges ascend and do not overlap; leaf->maxlen is at least the longest range in the
 * leaf. A map of a million ranges is two binary searches and one memmove of at most 2 KiB; the
 * array of leaves moves only when a leaf splits or empties. Small maps stay small: a leaf grows
 * with use.
 */
#include "rangemap.h"

#include "format.h"
#include "util.h"

#define LEAF_MAX 64u

struct range_leaf {
	unsigned n, cap;
	uint64_t maxlen;
	struct range r[];
};

static size_t leaf_bytes(unsigned cap)
{
	return sizeof(struct range_leaf) + cap * sizeof(struct range);
}

void rangemap_free(struct rangemap *m)
{
	for (size_t i = 0; i < m->leaves; i++)
		free(m->index[i].leaf);
	free(m->index);
	*m = (struct rangemap){0};
}

/* The first leaf whose last range ends after key; m->leaves if none. */
static size_t find_leaf(const struct rangemap *m, uint64_t key)
{
	size_t lo = 0, hi = m->leaves;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->index[mid].end > key)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* After any change of a leaf. */
static void note_end(struct rangemap *m, size_t at)
{
	const struct range_leaf *l = m->index[at].leaf;

	m->index[at].end = range_end(&l->r[l->n - 1]);
}

static unsigned find_slot(const struct range_leaf *l, uint64_t key)
{
	unsigned lo = 0, hi = l->n;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (range_end(&l->r[mid]) > key)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

const struct range *rangemap_find(const struct rangemap *m, uint64_t key,
				  struct range_cursor *ret)
{
	ret->leaf = find_leaf(m, key);
	ret->slot = 0;
	if (ret->leaf == m->leaves)
		return NULL;
	ret->slot = find_slot(m->index[ret->leaf].leaf, key);
	return &m->index[ret->leaf].leaf->r[ret->slot];
}

const struct range *rangemap_next(const struct rangemap *m, struct range_cursor *c)
{
	if (c->leaf >= m->leaves)
		return NULL;
	if (++c->slot == m->index[c->leaf].leaf->n) {
		c->slot = 0;
		if (++c->leaf == m->leaves)
			return NULL;
	}
	return &m->index[c->leaf].leaf->r[c->slot];
}

const struct range *rangemap_last(const struct rangemap *m)
{
	if (!m->leaves)
		return NULL;
	return &m->index[m->leaves - 1].leaf->r[m->index[m->leaves - 1].leaf->n - 1];
}

static bool has_csum(const struct range *r)
{
	return !(range_flags(r) & (PMEMFS_EXT_UNWRITTEN | PMEMFS_EXT_NOCSUM));
}

/* Does b continue a? */
static bool continues(const struct range *a, const struct range *b)
{
	return range_end(a) == b->start && a->what + a->len == b->what &&
	       (!has_csum(a) || a->csum + 8 * a->len == b->csum);
}

struct range range_clip(const struct range *r, uint64_t start, uint64_t end)
{
	struct range piece = *r;
	uint64_t skip = start > r->start ? start - r->start : 0;

	piece.start += skip;
	piece.what += skip;
	if (has_csum(r))
		piece.csum += 8 * skip;
	piece.len = MIN(range_end(r), end) - piece.start;
	return piece;
}

static void insert_leaf(struct rangemap *m, size_t at, struct range_leaf *l)
{
	m->index = grow_array(m->index, &m->cap, m->leaves + 1, sizeof(m->index[0]));
	memmove(m->index + at + 1, m->index + at, (m->leaves - at) * sizeof(m->index[0]));
	m->index[at].leaf = l;
	m->leaves++;
}

static struct range_leaf *new_leaf(unsigned cap)
{
	struct range_leaf *l = xrealloc(NULL, leaf_bytes(cap));

	l->n = 0;
	l->cap = cap;
	l->maxlen = 0;
	return l;
}

/* Makes room for one more range in leaf c->leaf; splits it in half when full. */
static void make_room(struct rangemap *m, struct range_cursor *c)
{
	struct range_leaf *l = m->index[c->leaf].leaf, *right;
	/* Ascending use (a log file, a copy) keeps leaves full: split off nothing at the end.
	 */
	unsigned keep = c->slot == LEAF_MAX ? LEAF_MAX : LEAF_MAX / 2;

	if (l->n < l->cap)
		return;
	if (l->cap < LEAF_MAX) {
		unsigned cap = MIN(l->cap * 4, LEAF_MAX);

		m->index[c->leaf].leaf = l = xrealloc(l, leaf_bytes(cap));
		l->cap = cap;
		return;
	}
	right = new_leaf(LEAF_MAX);
	right->n = l->n - keep;
	memcpy(right->r, l->r + keep, right->n * sizeof(right->r[0]));
	right->maxlen = l->maxlen;
	l->n = keep;
	insert_leaf(m, c->leaf + 1, right);
	note_end(m, c->leaf);
	if (right->n)
		note_end(m, c->leaf + 1);
	if (c->slot >= keep) {
		c->leaf++;
		c->slot -= keep;
	}
}

static void insert_at(struct rangemap *m, struct range_cursor *c, const struct range *r)
{
	struct range_leaf *l;

	if (!m->leaves)
		insert_leaf(m, 0, new_leaf(2));
	make_room(m, c);
	l = m->index[c->leaf].leaf;
	memmove(l->r + c->slot + 1, l->r + c->slot, (l->n - c->slot) * sizeof(l->r[0]));
	l->r[c->slot] = *r;
	l->n++;
	l->maxlen = MAX(l->maxlen, r->len);
	m->count++;
	note_end(m, c->leaf);
}

static void remove_at(struct rangemap *m, struct range_cursor c)
{
	struct range_leaf *l = m->index[c.leaf].leaf;

	l->n--;
	m->count--;
	memmove(l->r + c.slot, l->r + c.slot + 1, (l->n - c.slot) * sizeof(l->r[0]));
	if (l->n) {
		note_end(m, c.leaf);
		return;
	}
	free(l);
	m->leaves--;
	memmove(m->index + c.leaf, m->index + c.leaf + 1,
		(m->leaves - c.leaf) * sizeof(m->index[0]));
}

static struct range *range_at(struct rangemap *m, struct range_cursor c)
{
	return &m->index[c.leaf].leaf->r[c.slot];
}

/* The place before c, false at the beginning. */
static bool step_back(const struct rangemap *m, struct range_cursor *c)
{
	if (c->slot) {
		c->slot--;
		return true;
	}
	if (!c->leaf)
		return false;
	c->leaf--;
	c->slot = m->index[c->leaf].leaf->n - 1;
	return true;
}

/* Replaces the range at c by one that begins or ends elsewhere. */
static void set_range(struct rangemap *m, struct range_cursor c, const struct range *r)
{
	struct range_leaf *l = m->index[c.leaf].leaf;

	l->r[c.slot] = *r;
	l->maxlen = MAX(l->maxlen, r->len);
	note_end(m, c.leaf);
}

struct range rangemap_insert(struct rangemap *m, struct range r)
{
	struct range_cursor next, prev;
	const struct range *after = NULL;

	next.leaf = m->leaves; /* mostly maps are built in ascending order */
	next.slot = 0;
	if (m->leaves && m->index[m->leaves - 1].end > r.start)
		after = rangemap_find(m, r.start, &next);
	m->total += r.len;
	prev = next;
	if (step_back(m, &prev) && continues(range_at(m, prev), &r)) {
		struct range joined = *range_at(m, prev);
		bool both;

		joined.len += r.len;
		both = after && continues(&joined, after);
		joined.len += both ? after->len : 0;
		set_range(m, prev, &joined);
		if (both)
			remove_at(m, next);
		return joined;
	}
	if (after && continues(&r, after)) {
		r.len += after->len;
		set_range(m, next, &r);
		return r;
	}
	if (!after && m->leaves) { /* append to the last leaf */
		next.leaf = m->leaves - 1;
		next.slot = m->index[next.leaf].leaf->n;
	}
	insert_at(m, &next, &r);
	return r;
}

bool rangemap_replace(struct rangemap *m, const struct range *r, struct range *ret_old)
{
	struct range_cursor c;
	const struct range *found = rangemap_find(m, r->start, &c);

	if (!found || found->start != r->start || found->len != r->len)
		return false;
	*ret_old = *found;
	*range_at(m, c) = *r;
	return true;
}

void rangemap_cut(struct rangemap *m, uint64_t start, uint64_t end, range_fn fn, void *arg)
{
	struct range_cursor c;
	const struct range *found;

	while ((found = rangemap_find(m, start, &c)) && found->start < end) {
		struct range old = *found, piece = range_clip(found, start, end), rest;

		m->total -= piece.len;
		if (piece.start > old.start) {
			rest = range_clip(&old, 0, piece.start);
			set_range(m, c, &rest);
			if (range_end(&piece) < range_end(&old)) {
				rest = range_clip(&old, range_end(&piece), UINT64_MAX);
				c.slot++;
				insert_at(m, &c, &rest);
			}
		} else if (range_end(&piece) < range_end(&old)) {
			rest = range_clip(&old, range_end(&piece), UINT64_MAX);
			set_range(m, c, &rest);
		} else {
			remove_at(m, c);
		}
		if (fn)
			fn(arg, &piece);
	}
}

/*
 * Looks through one leaf from slot on for len; -1: none; then maxlen is tightened when it
 * looked at all of it.
 */
static int search_leaf(struct range_leaf *l, unsigned slot, uint64_t len, struct range *best)
{
	uint64_t longest = 0;

	for (unsigned i = slot; i < l->n; i++) {
		if (l->r[i].len >= len)
			return (int)i;
		longest = MAX(longest, l->r[i].len);
		if (best && l->r[i].len > best->len)
			*best = l->r[i];
	}
	if (slot == 0)
		l->maxlen = longest;
	return -1;
}

/* Cuts the first len off the range at c. */
static uint64_t take_front(struct rangemap *m, struct range_cursor c, uint64_t len)
{
	struct range r = *range_at(m, c), rest;

	m->total -= len;
	if (r.len == len) {
		remove_at(m, c);
	} else {
		rest = range_clip(&r, r.start + len, UINT64_MAX);
		set_range(m, c, &rest);
	}
	return r.start;
}

bool rangemap_take(struct rangemap *m, uint64_t len, uint64_t hint, uint64_t *ret_start,
		   struct range *ret_best)
{
	struct range_cursor c;

	if (ret_best)
		ret_best->len = 0;
	if (!m->leaves)
		return false;
	if (!rangemap_find(m, hint, &c))
		c = (struct range_cursor){0, 0};
	for (size_t i = 0; i <= m->leaves; i++) {
		size_t at = (c.leaf + i) % m->leaves;
		struct range_leaf *l = m->index[at].leaf;
		int slot;

		if (l->maxlen < len && (!ret_best || l->maxlen <= ret_best->len))
			continue;
		slot = search_leaf(l, i ? 0 : c.slot, len, ret_best);
		if (slot >= 0) {
			*ret_start =
			    take_front(m, (struct range_cursor){at, (unsigned)slot}, len);
			return true;
		}
	}
	return false;
}
