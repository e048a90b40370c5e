/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exploration by reads, against visiting all states: judgements that read lines depending on
 * what they read before give the same verdicts, from fewer states.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "lazy.h"

#define SIZE  4096u
#define LINES 5u

static uint8_t base[SIZE];
static struct persist p;
static struct assignment a;
static struct readset reads;

struct verdicts {
	uint64_t *v;
	size_t n, cap, visits;
	unsigned program;
};

static bool has(const struct verdicts *s, uint64_t v)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i] == v)
			return true;
	}
	return false;
}

static void add(struct verdicts *s, uint64_t v)
{
	s->visits++;
	if (has(s, v))
		return;
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->v = realloc(s->v, s->cap * sizeof(*s->v));
	}
	s->v[s->n++] = v;
}

/* Reads line after line; which is next depends on what was read. The verdict is what was seen.
 */
static int judge(void *arg, const struct assignment *as)
{
	struct verdicts *s = arg;
	uint64_t verdict = s->program, next = s->program % LINES;
	readset_start(&reads);
	for (unsigned step = 0; step < 3; step++) {
		uint64_t words[LINE_WORDS];
		const struct persist_var *v = &as->vars[next];
		persist_content(as->p, v, as->choice[next], words);
		readset_note_read(&reads, (uint64_t)v->pl->line * LINE_SIZE, 8 * (1 + step));
		for (unsigned w = 0; w <= step; w++)
			verdict = word_mix(verdict * 31 + words[w]);
		/* Some go on only if the line is there. */
		if (s->program % 3 == 0 && words[0] == 0)
			break;
		next = (next + 1 + verdict % 2) % LINES;
	}
	readset_stop(&reads);
	add(s, verdict);
	return 0;
}

static void begin(void)
{
	uint8_t bytes[LINE_SIZE];
	persist_reset(&p, image_hash(base, SIZE));
	for (unsigned l = 0; l < LINES; l++) {
		memset(bytes, (int)l + 1, sizeof(bytes));
		struct event ev = {
		    .type = MEDIA_EV_STORE, .off = 128 * l, .len = 32, .bytes = bytes};
		assert_int_equal(persist_event(&p, &ev), 0);
	}
	assignment_load(&a, &p);
	assert_int_equal(a.n, LINES);
}

static void the_same_verdicts(void **state)
{
	(void)state;
	for (unsigned program = 0; program < 30; program++) {
		struct verdicts all = {.program = program}, some = {.program = program};
		struct enum_options o = {.limit = 1u << 20};
		enum enum_cover cover;
		bool complete;
		begin();
		assert_int_equal(enumerate(&a, &o, judge, &all, &cover), 0);
		assert_int_equal(cover, COVER_ALL);
		begin();
		assert_int_equal(lazy_enumerate(&a, &reads, 100000, judge, &some, &complete),
				 0);
		assert_true(complete);
		assert_int_equal(all.n, some.n);
		for (size_t i = 0; i < all.n; i++)
			assert_true(has(&some, all.v[i]));
		assert_true(some.visits * 4 < all.visits);
		free(all.v);
		free(some.v);
	}
}

static int judge_nothing(void *arg, const struct assignment *as)
{
	(void)as;
	readset_start(&reads);
	readset_stop(&reads);
	++*(unsigned *)arg;
	return 0;
}

static void one_state_when_nothing_is_read(void **state)
{
	unsigned visits = 0;
	bool complete;
	(void)state;
	begin();
	assert_int_equal(lazy_enumerate(&a, &reads, 10, judge_nothing, &visits, &complete), 0);
	assert_true(complete);
	assert_int_equal(visits, 1);
}

static void the_limit_is_told(void **state)
{
	struct verdicts some = {.program = 1};
	bool complete;
	(void)state;
	begin();
	assert_int_equal(lazy_enumerate(&a, &reads, 20, judge, &some, &complete), 0);
	assert_false(complete);
	assert_true(some.visits <= 20);
	free(some.v);
}

static void reads_of_own_stores_do_not_count(void **state)
{
	(void)state;
	readset_start(&reads);
	readset_note_write(&reads, 60, 8);
	readset_note_read(&reads, 60, 8);
	assert_int_equal(reads.read.n, 0);
	readset_note_read(&reads, 59, 2);
	assert_int_equal(reads.read.n, 1);
	assert_true(lineset_has(&reads.read, 0));
	readset_note_write(&reads, 64, 64);
	readset_note_read(&reads, 64, 64);
	assert_false(lineset_has(&reads.read, 1));
	readset_forget_writes(&reads);
	readset_note_read(&reads, 100, 1);
	assert_true(lineset_has(&reads.read, 1));
	readset_stop(&reads);
	readset_note_read(&reads, 200, 1);
	assert_int_equal(reads.read.n, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_same_verdicts),
	    cmocka_unit_test(one_state_when_nothing_is_read),
	    cmocka_unit_test(the_limit_is_told),
	    cmocka_unit_test(reads_of_own_stores_do_not_count),
	};
	if (persist_open(&p, PERSIST_STRICT, base, SIZE) || readset_open(&reads, SIZE))
		return 1;
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	persist_close(&p);
	assignment_close(&a);
	readset_close(&reads);
	return r;
}
