/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invariant: the nodes on the stack, the states visited, and the states that agree with a
 * visited one on all lines its judgement read, together are all states. A node decides some
 * lines; all others are at choice 0, until they are read.
 */
#include "lazy.h"

#include <stdlib.h>
#include <string.h>

struct decision {
	uint32_t var;
	uint64_t choice;
};

struct node {
	struct decision *v;
	uint32_t n;
};

struct lazy {
	struct assignment *a;
	struct node *stack;
	size_t n, cap;
	bool *decided;
	uint32_t *fresh; /* vars read and not decided, in the order of the reads */
};

static void push(struct lazy *z, const struct node *parent, uint32_t fresh, uint64_t choice)
{
	uint32_t n = parent->n + fresh + 1;
	struct node node = {.v = malloc(n * sizeof(*node.v)), .n = n};
	if (z->n == z->cap) {
		z->cap = z->cap ? 2 * z->cap : 64;
		z->stack = realloc(z->stack, z->cap * sizeof(*z->stack));
	}
	if (!node.v || !z->stack)
		abort();
	if (parent->n)
		memcpy(node.v, parent->v, parent->n * sizeof(*node.v));
	for (uint32_t k = 0; k <= fresh; k++)
		node.v[parent->n + k] = (struct decision){z->fresh[k], k < fresh ? 0 : choice};
	z->stack[z->n++] = node;
}

static void assign(struct lazy *z, const struct node *node)
{
	memset(z->decided, 0, z->a->n * sizeof(*z->decided));
	for (uint32_t k = 0; k < node->n; k++)
		z->decided[node->v[k].var] = true;
	for (size_t i = 0; i < z->a->n; i++) {
		if (!z->decided[i])
			assignment_set(z->a, i, 0);
	}
	for (uint32_t k = 0; k < node->n; k++)
		assignment_set(z->a, node->v[k].var, node->v[k].choice);
}

/* The var of the line, or -1. Vars are sorted by line. */
static long var_of(const struct assignment *a, uint32_t line)
{
	size_t lo = 0, hi = a->n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (a->vars[mid].pl->line < line)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < a->n && a->vars[lo].pl->line == line ? (long)lo : -1;
}

/* Pushes the node's children. False when there are more than the room. */
static bool branch(struct lazy *z, const struct node *node, const struct readset *reads,
		   uint64_t room)
{
	uint32_t n = 0;
	uint64_t children = 0;
	for (size_t i = 0; i < reads->read.n; i++) {
		long var = var_of(z->a, reads->read.list[i]);
		if (var < 0 || z->decided[var])
			continue;
		z->fresh[n++] = (uint32_t)var;
		children += z->a->vars[var].count - 1;
		if (children > room)
			return false;
	}
	for (uint32_t k = 0; k < n; k++) {
		for (uint64_t c = 1; c < z->a->vars[z->fresh[k]].count; c++)
			push(z, node, k, c);
	}
	return true;
}

int lazy_enumerate(struct assignment *a, const struct readset *reads, uint64_t limit,
		   enum_visit visit, void *arg, bool *ret_complete)
{
	struct lazy z = {.a = a,
			 .decided = calloc(a->n + 1, sizeof(bool)),
			 .fresh = calloc(a->n + 1, sizeof(uint32_t))};
	struct node node = {0};
	uint64_t visited = 0;
	bool complete = true;
	int r = 0;
	if (!z.decided || !z.fresh)
		abort();
	for (;;) {
		assign(&z, &node);
		r = visit(arg, a);
		visited++;
		complete = r == 0 && visited + z.n <= limit &&
			   branch(&z, &node, reads, limit - visited - z.n);
		free(node.v);
		if (!complete || z.n == 0)
			break;
		node = z.stack[--z.n];
	}
	*ret_complete = complete;
	while (z.n > 0)
		free(z.stack[--z.n].v);
	free(z.stack);
	free(z.decided);
	free(z.fresh);
	return r;
}
