/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leaves out of a failing sequence what the failure does not need: pieces of halving size, then
 * single operations, until nothing more can go; then smaller numbers. Each try is a run of its
 * own. Only the same kind of failure counts: the same words, whatever path and numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "diff.h"

#define SHORT 20 /* seconds for one try */

/* Copies the words of a message without paths and digits. */
static void words_of(const char *why, char *ret)
{
	while (*why) {
		if (*why == '/') {
			why += strcspn(why, ":");
		} else if (*why >= '0' && *why <= '9') {
			why++;
		} else {
			*ret++ = *why++;
		}
	}
	*ret = 0;
}

static bool same_kind(const char *a, const char *b)
{
	char wa[WHY_MAX], wb[WHY_MAX];

	words_of(a, wa);
	words_of(b, wb);
	return !strcmp(wa, wb);
}

static bool still_fails(const struct config *c, struct sequence *try, struct sequence *q,
			char *why)
{
	char reason[WHY_MAX];
	struct outcome outcome;

	if (run_sequence(c, try, false, reason, &outcome) != 1 || !same_kind(reason, why))
		return false;
	memcpy(q->ops, try->ops, try->n * sizeof(*q->ops));
	q->n = try->n;
	strcpy(why, reason);
	return true;
}

static void without(const struct sequence *q, size_t from, size_t n, struct sequence *ret)
{
	ret->n = 0;
	memcpy(ret->ops, q->ops, from * sizeof(*q->ops));
	memcpy(ret->ops + from, q->ops + from + n, (q->n - from - n) * sizeof(*q->ops));
	ret->n = q->n - n;
}

/* One sweep with pieces of that size, from the end. True if something went. */
static bool sweep(const struct config *c, struct sequence *q, size_t piece, char *why)
{
	struct sequence try = {malloc((q->n + 1) * sizeof(*q->ops)), 0, q->n + 1};
	size_t at = q->n;
	bool any = false;

	if (!try.ops)
		abort();
	while (at > 0) {
		size_t n = piece < at ? piece : at;

		at -= n;
		if (at + n > q->n)
			n = at < q->n ? q->n - at : 0;
		if (!n)
			continue;
		without(q, at, n, &try);
		any |= still_fails(c, &try, q, why);
	}
	free(try.ops);
	return any;
}

/* Halves offsets and lengths of single operations. */
static void simplify(const struct config *c, struct sequence *q, char *why)
{
	struct sequence try = {malloc((q->n + 1) * sizeof(*q->ops)), 0, q->n + 1};
	size_t k;

	if (!try.ops)
		abort();
	for (k = 0; k < q->n; k++) {
		uint64_t *field[] = {&try.ops[k].off, &try.ops[k].len};
		size_t f;

		for (f = 0; f < 2; f++) {
			do {
				without(q, 0, 0, &try);
				if (!*field[f])
					break;
				*field[f] /= 2;
			} while (still_fails(c, &try, q, why) && k < q->n);
			if (k >= q->n)
				break;
		}
	}
	free(try.ops);
}

void shrink(const struct config *given, struct sequence *q, char *why)
{
	struct config config = *given, *c = &config;
	size_t piece;

	c->hang = SHORT;
	for (piece = q->n / 2; piece > 1; piece /= 2) {
		sweep(c, q, piece, why);
		fprintf(stderr, "\r%zu operations ", q->n);
	}
	while (sweep(c, q, 1, why))
		fprintf(stderr, "\r%zu operations ", q->n);
	simplify(c, q, why);
	fprintf(stderr, "\r                  \r");
}
