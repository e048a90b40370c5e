/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A directory's index in DRAM: entries in the order of their cookies, and a hash table over
 * their names, which compares names: equal hashes are only slow.
 *
 * Invariants: vec ascends by cookie, e is NULL where an entry was removed; live is the number
 * of entries and at most 3/4 of the places. Between an entry's own place and where it stands
 * none is empty: linear probing, and removal closes the gap (Knuth, 6.4, algorithm R), for with
 * tombstones one name made and removed again and again would lengthen its own search.
 */
#include <dirent.h>
#include <errno.h>

#include "fs.h"

uint32_t dir_hash(const char *name, size_t len)
{
	return (uint32_t)hash64(name, len, 0x706d656d64697273ull);
}

static struct dent **find_place(const struct dir *d, const char *name, size_t len)
{
	uint32_t hash = dir_hash(name, len);

	if (!d->places)
		return NULL;
	for (size_t i = hash & (d->places - 1); d->hash[i]; i = (i + 1) & (d->places - 1)) {
		struct dent *e = d->hash[i];

		if (e->hash == hash && e->namelen == len && !memcmp(e->name, name, len))
			return &d->hash[i];
	}
	return NULL;
}

struct dent *dir_find(const struct dir *d, const char *name, size_t len)
{
	struct dent **place = find_place(d, name, len);

	return place ? *place : NULL;
}

size_t dir_after(const struct dir *d, uint64_t cookie)
{
	size_t lo = 0, hi = d->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (d->vec[mid].cookie > cookie)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

struct dent *dir_find_cookie(const struct dir *d, uint64_t cookie)
{
	size_t i = dir_after(d, cookie - 1);

	return i < d->n && d->vec[i].cookie == cookie ? d->vec[i].e : NULL;
}

static void place(struct dir *d, struct dent *e)
{
	size_t i = e->hash & (d->places - 1);

	while (d->hash[i])
		i = (i + 1) & (d->places - 1);
	d->hash[i] = e;
}

/* Empties the place and moves back what stands behind it only because it was taken. */
static void unplace(struct dir *d, size_t gap)
{
	size_t mask = d->places - 1;

	for (size_t i = (gap + 1) & mask; d->hash[i]; i = (i + 1) & mask) {
		if (((i - d->hash[i]->hash) & mask) >= ((i - gap) & mask)) {
			d->hash[gap] = d->hash[i];
			gap = i;
		}
	}
	d->hash[gap] = NULL;
}

static void rehash(struct dir *d)
{
	size_t places = 8;

	while (places < d->live * 2)
		places *= 2;
	free(d->hash);
	d->hash = xcalloc(places, sizeof(d->hash[0]));
	d->places = places;
	for (size_t i = 0; i < d->n; i++)
		if (d->vec[i].e)
			place(d, d->vec[i].e);
}

/* Takes the holes out of vec. */
static void repack(struct dir *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		if (d->vec[i].e)
			d->vec[n++] = d->vec[i];
	d->n = n;
}

int dir_add(struct dir *d, const char *name, unsigned len, uint64_t ino, unsigned type,
	    uint64_t cookie)
{
	struct dent *e;

	if (cookie < PMEMFS_COOKIE_FIRST || cookie >= INT64_MAX || dir_find(d, name, len))
		return -EUCLEAN;
	if (d->n && cookie < d->next_cookie &&
	    dir_after(d, cookie - 1) != d->n) /* cookies only grow */
		return -EUCLEAN;
	e = xcalloc(1, sizeof(*e) + len);
	e->ino = ino;
	e->cookie = cookie;
	e->hash = dir_hash(name, len);
	e->type = type;
	e->namelen = len;
	memcpy(e->name, name, len);
	if (d->n == d->cap && d->live < d->n / 2)
		repack(d);
	d->vec = grow_array(d->vec, &d->cap, d->n + 1, sizeof(d->vec[0]));
	d->vec[d->n++] = (struct dir_entry){cookie, e};
	d->live++;
	if (d->live * 4 > d->places * 3)
		rehash(d);
	else
		place(d, e);
	d->next_cookie = MAX(d->next_cookie, cookie + 1);
	d->bytes += PMEMFS_DENTRY_SIZE(len);
	d->subdirs += type == DT_DIR;
	return 0;
}

void dir_remove(struct dir *d, struct dent *e)
{
	d->vec[dir_after(d, e->cookie - 1)].e = NULL;
	unplace(d, find_place(d, e->name, e->namelen) - d->hash);
	d->live--;
	d->bytes -= PMEMFS_DENTRY_SIZE(e->namelen);
	d->subdirs -= e->type == DT_DIR;
	free(e);
	while (d->n && !d->vec[d->n - 1].e)
		d->n--;
	if (d->n > 32 && d->live < d->n / 4)
		repack(d);
}

void dir_clear(struct dir *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->vec[i].e);
	free(d->vec);
	free(d->hash);
	*d = (struct dir){0};
}
