/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies in DRAM of the pages that were stored to on a medium that must not change.
 *
 * A hash table with open addressing from page number to copy; pages are added and never
 * removed. The copy of a page begins as what the medium holds.
 *
 * Locks: the table's rwlock; a leaf. Copying data is done under it, since this serves fsck -n
 * and not speed.
 */
#include "media_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

struct entry {
	uint64_t page;
	char *copy; /* NULL: free */
};

struct media_shadow {
	pthread_rwlock_t lock;
	size_t used, size; /* entries; size is 0 or a power of two */
	struct entry *table;
};

int media_shadow_make(struct media *m)
{
	struct media_shadow *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	if (pthread_rwlock_init(&s->lock, NULL)) {
		free(s);
		return -ENOMEM;
	}
	m->shadow = s;
	return 0;
}

void media_shadow_free(struct media_shadow *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->size; i++)
		free(s->table[i].copy);
	free(s->table);
	pthread_rwlock_destroy(&s->lock);
	free(s);
}

/* The entry of the page, or the free one where it belongs. There is a free one. */
static struct entry *table_slot(struct entry *table, size_t size, uint64_t page)
{
	size_t i = page * 0x9e3779b97f4a7c15ull >> 32;

	while (table[i & (size - 1)].copy && table[i & (size - 1)].page != page)
		i++;
	return &table[i & (size - 1)];
}

static char *find(const struct media_shadow *s, uint64_t page)
{
	return s->size ? table_slot(s->table, s->size, page)->copy : NULL;
}

static int table_grow(struct media_shadow *s)
{
	size_t size = s->size ? s->size * 2 : 64;
	struct entry *table = calloc(size, sizeof(*table));

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < s->size; i++)
		if (s->table[i].copy)
			*table_slot(table, size, s->table[i].page) = s->table[i];
	free(s->table);
	s->table = table;
	s->size = size;
	return 0;
}

/* The copy of the page, made if it was not there; `whole`: all of it will be overwritten. */
static int page_get(struct media *m, uint64_t page, bool whole, char **ret)
{
	struct media_shadow *s = m->shadow;
	char *copy = find(s, page);
	int r = 0;

	if (copy) {
		*ret = copy;
		return 0;
	}
	if (s->used * 2 >= s->size)
		r = table_grow(s);
	if (r)
		return r;
	copy = malloc(PAGE);
	if (!copy)
		return -ENOMEM;
	if (!whole)
		r = guard_read(copy, m->base + page * PAGE, PAGE);
	if (r) {
		free(copy);
		return r;
	}
	*table_slot(s->table, s->size, page) = (struct entry){page, copy};
	s->used++;
	*ret = copy;
	return 0;
}

/* Stores len bytes of src, or zeros if it is NULL. */
static int shadow_store(struct media *m, uint64_t off, const char *src, size_t len)
{
	int r = 0;

	pthread_rwlock_wrlock(&m->shadow->lock);
	while (len && !r) {
		size_t at = off % PAGE, n = MIN(len, PAGE - at);
		char *copy;

		r = page_get(m, off / PAGE, n == PAGE, &copy);
		if (r)
			break;
		if (src) {
			memcpy(copy + at, src, n);
			src += n;
		} else {
			memset(copy + at, 0, n);
		}
		off += n;
		len -= n;
	}
	pthread_rwlock_unlock(&m->shadow->lock);
	return r;
}

int media_shadow_write(struct media *m, uint64_t off, const void *src, size_t len)
{
	return shadow_store(m, off, src, len);
}

int media_shadow_clear(struct media *m, uint64_t off, size_t len)
{
	return shadow_store(m, off, NULL, len);
}

int media_shadow_read(const struct media *m, uint64_t off, void *dst, size_t len)
{
	char *to = dst;
	int r = 0;

	pthread_rwlock_rdlock(&m->shadow->lock);
	while (len && !r) {
		size_t at = off % PAGE, n = MIN(len, PAGE - at);
		const char *copy = find(m->shadow, off / PAGE);

		if (copy)
			memcpy(to, copy + at, n);
		else
			r = guard_read(to, m->base + off, n);
		to += n;
		off += n;
		len -= n;
	}
	pthread_rwlock_unlock(&m->shadow->lock);
	return r;
}

bool media_shadow_touches(const struct media *m, uint64_t off, size_t len)
{
	bool touches = false;

	if (!len)
		return false;
	pthread_rwlock_rdlock(&m->shadow->lock);
	if (m->shadow->used)
		for (uint64_t page = off / PAGE; page <= (off + len - 1) / PAGE && !touches;
		     page++)
			touches = find(m->shadow, page);
	pthread_rwlock_unlock(&m->shadow->lock);
	return touches;
}
