/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which store kernel runs for which size, and why.
 *
 * 1. There is always a policy that is right on this CPU and durable on this medium: the
 *    starting rule. Everything else is checked before it replaces the rule, as a whole.
 * 2. A kernel that flushes nothing is chosen only where caches are durable.
 * 3. What the user forces outranks what was measured, in whatever order the two are said.
 *
 * Locks: none; the policy is constant while several threads use the media.
 */
#include "media_impl.h"

#include <errno.h>
#include <stdio.h>

#include "cpu.h"

/* ---- the starting rule ---- */

static void set_rule(struct media *m, size_t border)
{
	m->policy = (struct media_policy){
	    .border = border,
	    .small = copy_best_nontemporal(),
	    .large = copy_best_cached(m->eadr),
	};
}

void media_policy_reset(struct media *m)
{
	set_rule(m, MEDIA_RULE_BYTES);
}

const struct copy_kernel *media_policy_rule(const struct media *m, unsigned size_class)
{
	return (size_t)COPY_LINE << size_class < MEDIA_RULE_BYTES ? copy_best_nontemporal()
								  : copy_best_cached(m->eadr);
}

/* ---- what was measured ---- */

/* The kernel of one cell, NULL if it must not run here. */
static const struct copy_kernel *cell_kernel(const struct media *m, uint8_t number,
					     unsigned size_class)
{
	const struct copy_kernel *k =
	    number ? copy_by_number(number) : media_policy_rule(m, size_class);

	return k && k->eadr_only && !m->eadr ? NULL : k;
}

int media_set_table(struct media *m, const struct media_table *t)
{
	struct media_policy p;

	if (!t) {
		if (!m->policy.forced)
			media_policy_reset(m);
		return 0;
	}
	p = m->policy;
	p.by_writers = false;
	for (unsigned w = 0; w < MEDIA_WRITERS; w++)
		for (unsigned c = 0; c < MEDIA_CLASSES; c++) {
			p.copy[w][c] = cell_kernel(m, t->copy[w][c], c);
			p.clear[w][c] = cell_kernel(m, t->clear[w][c], c);
			if (!p.copy[w][c] || !p.clear[w][c])
				return -ENOTSUP;
			p.by_writers |= p.copy[w][c] != p.copy[0][c];
			p.by_writers |= p.clear[w][c] != p.clear[0][c];
		}
	p.measured = true;
	if (!m->policy.forced)
		m->policy = p;
	return 0;
}

/* ---- what the user says ---- */

static int why_kernel(const char *name, const char **ret_why)
{
	static _Thread_local char why[400];
	const struct copy_kernel *k;
	size_t n = 0;

	if (copy_known(name)) {
		*ret_why = "names a store kernel that this CPU lacks: `flush=auto` chooses "
			   "among those that it has";
		return -ENOTSUP;
	}
	n = snprintf(why, sizeof(why), "must be auto, rule, rule:BYTES or one of");
	for (k = copy_kernels; k->name; k++)
		if (k == copy_kernels || strcmp(k->name, k[-1].name))
			n += snprintf(why + n, sizeof(why) - n, " %s", k->name);
	*ret_why = why;
	return -EINVAL;
}

static int set_kernel(struct media *m, const char *name, const char **ret_why)
{
	const struct copy_kernel *k = copy_find(name);

	if (!k)
		return why_kernel(name, ret_why);
	if (k->eadr_only && !m->eadr) {
		*ret_why = "names stores without a flush, which are durable only where caches "
			   "are (eADR)";
		return -ENOTSUP;
	}
	m->policy = (struct media_policy){.small = k, .large = k};
	return 0;
}

static int set_border(struct media *m, const char *bytes, const char **ret_why)
{
	unsigned long long border;
	char *end;

	errno = 0;
	border = strtoull(bytes, &end, 10);
	if (errno || *bytes < '0' || *bytes > '9' || *end) {
		*ret_why = "needs a number of bytes behind rule:";
		return -EINVAL;
	}
	set_rule(m, border);
	return 0;
}

int media_set_flush(struct media *m, const char *how, const char **ret_why)
{
	int r = 0;

	if (!strcmp(how, "auto") || !strcmp(how, "rule"))
		media_policy_reset(m);
	else if (!strncmp(how, "rule:", 5))
		r = set_border(m, how + 5, ret_why);
	else
		r = set_kernel(m, how, ret_why);
	if (!r)
		m->policy.forced = strcmp(how, "auto") != 0;
	return r;
}

/* ---- what runs ---- */

const char *media_kernel_for(const struct media *m, bool clear, size_t len, unsigned row)
{
	return media_policy_choose(&m->policy, clear, len, MIN(row, MEDIA_WRITERS - 1u))->name;
}

const char *media_kernel_name(const struct media *m, size_t len)
{
	return media_kernel_for(m, false, len, 0);
}

const char *media_policy_name(const struct media *m)
{
	return m->policy.forced ? "forced" : m->policy.measured ? "measured" : "rule";
}

/* "96 KiB", "1.5 KiB" */
static int size_words(char *buf, size_t size, size_t bytes)
{
	static const char *const unit[] = {"bytes", "KiB", "MiB"};
	double v = bytes;
	unsigned u = 0;

	for (; u < 2 && v >= 1024; u++)
		v /= 1024;
	return snprintf(buf, size, "%g %s", v, unit[u]);
}

void media_policy_text(const struct media *m, bool clear, unsigned row, char *buf, size_t size)
{
	const char *now = media_kernel_for(m, clear, 0, row);
	size_t n = 0, border = m->policy.border;

	*buf = 0;
	for (unsigned c = 0; c < MEDIA_CLASSES && n < size; c++) {
		size_t from = m->policy.measured ? (size_t)48 << c : border;
		const char *next = media_kernel_for(m, clear, from, row);

		if (next == now)
			continue;
		n += snprintf(buf + n, size - n, "%s below ", now);
		if (n < size)
			n += size_words(buf + n, size - n, from);
		if (n < size)
			n += snprintf(buf + n, size - n, ", ");
		now = next;
	}
	if (n < size)
		snprintf(buf + n, size - n, "%s%s", now, n ? " from there" : "");
}
