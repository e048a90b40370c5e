/* SPDX-License-Identifier: BSD-3-Clause */
/* Comparing two models with one another, and printing one. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model_priv.h"

/* Runs of unwritten blocks may be cut differently. */
static bool equal_segs(const struct minode *a, const struct minode *b)
{
	uint64_t pos = 0, end_a, end_b, from_a, from_b;
	size_t i = 0, j = 0;

	while (i < a->n_segs && j < b->n_segs) {
		const struct seg *s = &a->segs[i], *t = &b->segs[j];

		from_a = s->start > pos ? s->start : pos;
		from_b = t->start > pos ? t->start : pos;
		if (from_a != from_b || !s->page != !t->page)
			return false;
		if (s->page && s->page != t->page && memcmp(s->page->b, t->page->b, M_BLOCK))
			return false;
		end_a = s->start + s->count;
		end_b = t->start + t->count;
		pos = end_a < end_b ? end_a : end_b;
		i += end_a == pos;
		j += end_b == pos;
	}
	return i == a->n_segs && j == b->n_segs;
}

static bool equal_inode(const struct minode *a, const struct minode *b)
{
	size_t k;

	if (a->mode != b->mode || a->uid != b->uid || a->gid != b->gid ||
	    a->nlink != b->nlink || a->size != b->size || a->major != b->major ||
	    a->minor != b->minor || a->n_xattrs != b->n_xattrs ||
	    a->targetlen != b->targetlen || a->n_dents != b->n_dents)
		return false;
	if (a->targetlen && memcmp(a->target, b->target, a->targetlen))
		return false;
	for (k = 0; k < a->n_xattrs; k++)
		if (strcmp(a->xattrs[k].name, b->xattrs[k].name) ||
		    a->xattrs[k].len != b->xattrs[k].len ||
		    memcmp(a->xattrs[k].value, b->xattrs[k].value, a->xattrs[k].len))
			return false;
	return equal_segs(a, b);
}

/* pairs[id of a] = id of b, 0 unknown: both trees must share objects in the same places. */
static bool equal_tree(const struct model *a, uint64_t i, const struct model *b, uint64_t j,
		       uint64_t *pairs, uint64_t *back)
{
	const struct minode *x = m_get(a, i), *y = m_get(b, j);
	size_t k;

	if (pairs[i] || back[j])
		return pairs[i] == j && back[j] == i;
	pairs[i] = j;
	back[j] = i;
	if (x != y && !equal_inode(x, y))
		return false;
	for (k = 0; k < x->n_dents; k++)
		if (strcmp(x->dents[k].name, y->dents[k].name) ||
		    !equal_tree(a, x->dents[k].id, b, y->dents[k].id, pairs, back))
			return false;
	return true;
}

bool model_equal(const struct model *a, const struct model *b)
{
	uint64_t *pairs = m_alloc(a->n_inodes * sizeof(*pairs));
	uint64_t *back = m_alloc(b->n_inodes * sizeof(*back));
	bool ok = equal_tree(a, M_ROOT, b, M_ROOT, pairs, back);
	int k;

	for (k = 0; ok && k < OP_FDS; k++) {
		ok = !a->handle[k] == !b->handle[k];
		if (ok && a->handle[k])
			ok = equal_tree(a, a->handle[k], b, b->handle[k], pairs, back);
	}
	free(pairs);
	free(back);
	return ok;
}

static int print_one(void *arg, const char *path, const struct model_attr *a)
{
	fprintf(arg, "%06o %3u %5u:%-5u %12" PRIu64 " %8" PRIu64 " #%-5" PRIu64 " /%s\n",
		a->mode, a->nlink, a->uid, a->gid, a->size, a->blocks, a->id, path);
	return 0;
}

void model_print(const struct model *m, FILE *out)
{
	int k;

	model_walk(m, print_one, out);
	for (k = 0; k < OP_FDS; k++)
		if (m->handle[k])
			fprintf(out, "fd %d: #%" PRIu64 "\n", k, m->handle[k]);
}
