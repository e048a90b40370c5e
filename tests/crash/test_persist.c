/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model of persistence and the enumeration, on hand-made traces whose states are known, and
 * on random ones against a machine that evicts one atom at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "enumerate.h"
#include "image.h"
#include "persist.h"

#define SIZE 4096u

static uint8_t base[SIZE];
static struct persist p;
static struct assignment a;
static unsigned flags[RULES];

static void count_flag(void *arg, enum persist_rule rule, const struct event *ev, uint32_t line)
{
	(void)arg;
	(void)ev;
	(void)line;
	flags[rule]++;
}

static void begin(enum persist_model model)
{
	memset(base, 0, sizeof(base));
	memset(flags, 0, sizeof(flags));
	p.model = model;
	p.flag = count_flag;
	persist_reset(&p, image_hash(base, SIZE));
}

static void ev(enum media_event type, uint64_t off, size_t len, unsigned char fill, unsigned th)
{
	uint8_t bytes[SIZE];
	memset(bytes, fill, sizeof(bytes));
	struct event e = {
	    .type = type, .off = off, .len = len, .bytes = bytes, .thread = (uint16_t)th};
	assert_int_equal(persist_event(&p, &e), 0);
}
#define STORE8(off, fill)     ev(MEDIA_EV_STORE8, off, 8, fill, 0)
#define STORE(off, len, fill) ev(MEDIA_EV_STORE, off, len, fill, 0)
#define NT(off, len, fill)    ev(MEDIA_EV_NT, off, len, fill, 0)
#define FLUSH(off, len)	      ev(MEDIA_EV_FLUSH, off, len, 0, 0)
#define FENCE()		      ev(MEDIA_EV_FENCE, 0, 0, 0, 0)

/* ---- the states of a trace -----------------------------------------------------------------
 */

struct found {
	uint64_t *hash;
	size_t n, cap, visits;
};

static void found_add(struct found *f, uint64_t hash)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->hash[i] == hash)
			return;
	}
	if (f->n == f->cap) {
		f->cap = f->cap ? 2 * f->cap : 64;
		f->hash = realloc(f->hash, f->cap * sizeof(*f->hash));
	}
	f->hash[f->n++] = hash;
}

static bool found_has(const struct found *f, uint64_t hash)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->hash[i] == hash)
			return true;
	}
	return false;
}

/* The image of the assignment, made from scratch. */
static void build(const struct assignment *as, uint8_t *image)
{
	memcpy(image, base, SIZE);
	for (size_t i = 0; i < as->n; i++) {
		uint64_t words[LINE_WORDS];
		persist_content(as->p, &as->vars[i], as->choice[i], words);
		memcpy(image + as->vars[i].pl->line * LINE_SIZE, words, LINE_SIZE);
	}
}

static int visit(void *arg, const struct assignment *as)
{
	struct found *f = arg;
	uint8_t image[SIZE];
	build(as, image);
	uint64_t hash = image_hash(image, SIZE);
	assert_true(hash == assignment_hash(as)); /* the differences add up */
	f->visits++;
	found_add(f, hash);
	return 0;
}

static bool explore_limit(struct found *f, uint64_t limit)
{
	struct enum_options o = {.limit = limit, .random = ENUM_RANDOM, .seed = 1};
	enum enum_cover cover;
	memset(f, 0, sizeof(*f));
	assignment_load(&a, &p);
	assert_int_equal(enumerate(&a, &o, visit, f, &cover), 0);
	return cover != COVER_ALL;
}

static void states(size_t visits, size_t distinct)
{
	struct found f;
	assert_false(explore_limit(&f, 1u << 20));
	assert_int_equal(f.visits, visits);
	assert_int_equal(f.n, distinct);
	free(f.hash);
}

/* ---- hand-made traces ----------------------------------------------------------------------
 */

static void one_word(void **state)
{
	for (enum persist_model m = PERSIST_STRICT; m <= PERSIST_ADVERSARIAL; m++) {
		begin(m);
		states(1, 1);
		STORE8(64, 1);
		states(2, 2);
		FLUSH(64, 8);
		states(2, 2);
		FENCE();
		states(1, 1);
		assert_int_equal(base[64], 1);
		assert_int_equal(p.n, 0);
	}
	(void)state;
}

static void a_line(void **state)
{
	(void)state;
	begin(PERSIST_STRICT);
	STORE(0, 64, 1);
	states(9, 9); /* prefixes */
	STORE(64, 64, 1);
	states(81, 81);
	begin(PERSIST_LINE);
	STORE(0, 64, 1);
	STORE(64, 64, 1);
	states(4, 4);
	begin(PERSIST_ADVERSARIAL);
	STORE(0, 64, 1);
	states(256, 256);
}

static void nontemporal(void **state)
{
	(void)state;
	begin(PERSIST_STRICT);
	NT(0, 64, 1);
	states(256, 256);
	FENCE();
	states(1, 1);
	assert_int_equal(base[63], 1);
	begin(PERSIST_LINE);
	NT(0, 128, 1);
	states(4, 4);
}

static void fence_alone_flushes_nothing(void **state)
{
	(void)state;
	begin(PERSIST_STRICT);
	STORE8(0, 1);
	FENCE();
	FENCE();
	states(2, 2);
	STORE8(64, 2);
	FLUSH(64, 8);
	FENCE();
	states(2, 2); /* the first stays optional in all later crashes */
	assert_int_equal(base[0], 0);
	assert_int_equal(base[64], 2);
	FLUSH(0, 8);
	FENCE();
	states(1, 1);
	assert_int_equal(base[0], 1);
}

static void store_after_flush(void **state)
{
	(void)state;
	begin(PERSIST_STRICT);
	STORE8(0, 1);
	FLUSH(0, 8);
	STORE8(8, 2);
	states(3, 3);
	FENCE();
	states(2, 2);
	assert_int_equal(base[0], 1);
	assert_int_equal(base[8], 0);
}

static void same_word_twice(void **state)
{
	(void)state;
	begin(PERSIST_STRICT);
	STORE8(0, 1);
	STORE8(0, 2);
	states(3, 3);
	STORE8(0, 1);
	states(4, 3);
}

static void what_changes_nothing(void **state)
{
	(void)state;
	begin(PERSIST_STRICT);
	NT(0, 64, 0);
	STORE(64, 64, 0);
	states(1, 1);
	STORE8(64, 3);
	STORE(128, 8, 3);
	states(6, 4); /* word 64: zero, then 3: both count, since the order of them matters */
}

static void bytes_of_words(void **state)
{
	(void)state;
	begin(PERSIST_STRICT);
	STORE(5, 6, 7);
	states(3, 3);
	FLUSH(5, 6);
	FENCE();
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(base[i], i >= 5 && i < 11 ? 7 : 0);
}

static void a_fence_is_its_threads(void **state)
{
	(void)state;
	begin(PERSIST_STRICT);
	NT(0, 64, 1);
	ev(MEDIA_EV_FENCE, 0, 0, 0, 1);
	states(256, 256);
	STORE8(64, 1);
	FLUSH(64, 8);
	ev(MEDIA_EV_FENCE, 0, 0, 0, 1);
	states(512, 512);
	FENCE();
	states(1, 1);
}

static void nontemporal_over_dirty(void **state)
{
	(void)state;
	begin(PERSIST_STRICT);
	STORE8(0, 1);
	NT(0, 8, 2);
	states(4, 3);
	FENCE();
	states(1, 1);
	assert_int_equal(base[0], 2); /* the older cached store cannot come back */
}

static void rules(void **state)
{
	(void)state;
	begin(PERSIST_STRICT);
	FENCE();
	assert_int_equal(flags[RULE_FENCE_EMPTY], 1);
	FLUSH(0, 128);
	assert_int_equal(flags[RULE_FLUSH_CLEAN], 2);
	STORE8(0, 1);
	FLUSH(0, 8);
	assert_int_equal(flags[RULE_FLUSH_AGAIN], 0);
	FLUSH(0, 8);
	assert_int_equal(flags[RULE_FLUSH_AGAIN], 1);
	NT(64, 64, 1);
	FLUSH(64, 64);
	assert_int_equal(flags[RULE_FLUSH_NT], 1);
	persist_end(&p);
	assert_int_equal(flags[RULE_DIRTY_AT_END], 2);
	FENCE();
	assert_int_equal(flags[RULE_FENCE_EMPTY], 1);
	flags[RULE_DIRTY_AT_END] = 0;
	persist_end(&p);
	assert_int_equal(flags[RULE_DIRTY_AT_END], 0);
}

static void refuses_what_cannot_be(void **state)
{
	(void)state;
	uint8_t b[64] = {0};
	begin(PERSIST_STRICT);
	struct event bad[] = {
	    {.type = MEDIA_EV_STORE, .off = SIZE - 8, .len = 16, .bytes = b},
	    {.type = MEDIA_EV_STORE, .off = UINT64_MAX, .len = 16, .bytes = b},
	    {.type = MEDIA_EV_STORE8, .off = 4, .len = 8, .bytes = b},
	    {.type = MEDIA_EV_NT, .off = 0, .len = 4, .bytes = b},
	};
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(persist_event(&p, &bad[i]), -22);
	states(1, 1);
}

/* ---- enumeration ----------------------------------------------------------------------------
 */

static void the_limit(void **state)
{
	struct found f;
	(void)state;
	begin(PERSIST_STRICT);
	for (unsigned i = 0; i < 12; i++)
		STORE8(64 * i, 1);
	assert_false(explore_limit(&f, 4096));
	assert_int_equal(f.n, 4096);
	free(f.hash);
	STORE8(64 * 12, 1);
	assert_true(explore_limit(&f, 4096));
	assert_in_range(f.n, 100, 8191);
	free(f.hash);
}

/* A capped plan has none, all, each alone, all but each, all pairs, and cuts inside lines. */
static void the_plan(void **state)
{
	enum { LINES = 20 };
	struct found f;
	(void)state;
	begin(PERSIST_STRICT);
	for (unsigned i = 0; i < LINES; i++)
		STORE(128 * i, 64, (unsigned char)(i + 1));
	assert_true(explore_limit(&f, 4096));
	uint64_t all = 0, sum[LINES];
	for (unsigned i = 0; i < LINES; i++)
		all += sum[i] = persist_delta(&p, &a.vars[i], a.vars[i].count - 1);
	assert_true(found_has(&f, p.base_hash));
	assert_true(found_has(&f, p.base_hash + all));
	for (unsigned i = 0; i < LINES; i++) {
		assert_true(found_has(&f, p.base_hash + sum[i]));
		assert_true(found_has(&f, p.base_hash + all - sum[i]));
		for (unsigned j = 0; j < i; j++)
			assert_true(found_has(&f, p.base_hash + sum[i] + sum[j]));
		for (uint64_t c = 0; c < a.vars[i].count; c++) {
			uint64_t d = persist_delta(&p, &a.vars[i], c);
			assert_true(found_has(&f, p.base_hash + d));
			assert_true(found_has(&f, p.base_hash + all - sum[i] + d));
		}
	}
	free(f.hash);
}

/* Two copies that share a line are units: one may be there without the other. */
static void stores_as_units(void **state)
{
	struct found f;
	(void)state;
	begin(PERSIST_STRICT);
	NT(0, 64 * 10, 1);
	NT(1024, 64 * 10, 2);
	assert_true(explore_limit(&f, 4096));
	uint64_t first = 0, second = 0;
	for (size_t i = 0; i < a.n; i++) {
		uint64_t d = persist_delta(&p, &a.vars[i], a.vars[i].count - 1);
		*(a.vars[i].pl->line < 16 ? &first : &second) += d;
	}
	assert_true(found_has(&f, p.base_hash + first));
	assert_true(found_has(&f, p.base_hash + second));
	free(f.hash);
}

/* ---- against a machine that evicts atom by atom
 * ----------------------------------------------- */

#define WORDS 16 /* two lines */
#define ATOMS 8

struct atom {
	unsigned word, line;
	uint64_t value;
	bool nt, flushed, out;
};
struct machine {
	struct atom atom[ATOMS];
	unsigned n;
	uint64_t mem[WORDS];
	int owner[WORDS]; /* atom whose value it is: coherence never goes back */
};

static struct found reached;
static struct event script[ATOMS * 2];
static uint64_t script_value[ATOMS * 2];
static unsigned script_n;

static bool may_leave(const struct machine *m, unsigned i)
{
	for (unsigned j = 0; j < i && !m->atom[i].nt; j++) {
		const struct atom *b = &m->atom[j];
		if (!b->nt && !b->out && b->line == m->atom[i].line)
			return false;
	}
	return !m->atom[i].out;
}

static void leave(struct machine *m, unsigned i)
{
	const struct atom *b = &m->atom[i];
	m->atom[i].out = true;
	if (m->owner[b->word] > (int)i)
		return;
	m->mem[b->word] = b->value;
	m->owner[b->word] = (int)i;
}

static void note(const struct machine *m)
{
	uint8_t image[SIZE] = {0};
	memcpy(image, m->mem, sizeof(m->mem));
	found_add(&reached, image_hash(image, SIZE));
}

/* Before each event any atoms may leave, and a fence waits until what it must has left. */
static void run(struct machine *m, unsigned at)
{
	for (unsigned i = 0; i < m->n; i++) {
		if (!may_leave(m, i))
			continue;
		struct machine next = *m;
		leave(&next, i);
		run(&next, at);
	}
	if (at == script_n) {
		note(m);
		return;
	}
	const struct event *e = &script[at];
	struct machine next = *m;
	if (e->type == MEDIA_EV_FENCE) {
		for (unsigned i = 0; i < m->n; i++) {
			if (!m->atom[i].out && (m->atom[i].nt || m->atom[i].flushed))
				return;
		}
	} else if (e->type == MEDIA_EV_FLUSH) {
		for (unsigned i = 0; i < m->n; i++)
			next.atom[i].flushed |= m->atom[i].line == e->off / LINE_SIZE;
	} else {
		next.atom[next.n++] = (struct atom){
		    .word = (unsigned)(e->off / 8),
		    .line = (unsigned)(e->off / LINE_SIZE),
		    .value = script_value[at],
		    .nt = e->type == MEDIA_EV_NT,
		};
	}
	run(&next, at + 1);
}

static unsigned rnd(unsigned n)
{
	static uint64_t s = 88172645463325252ull;
	s ^= s << 13;
	s ^= s >> 7;
	s ^= s << 17;
	return (unsigned)(s >> 33) % n;
}

static void make_script(void)
{
	unsigned stores = 0;
	script_n = 3 + rnd(5);
	for (unsigned i = 0; i < script_n; i++) {
		static const enum media_event kinds[] = {MEDIA_EV_STORE8, MEDIA_EV_STORE,
							 MEDIA_EV_NT,	  MEDIA_EV_FLUSH,
							 MEDIA_EV_FENCE,  MEDIA_EV_STORE8};
		struct event *e = &script[i];
		*e = (struct event){.type =
					kinds[rnd(stores < 5 ? 6 : 2) + (stores < 5 ? 0 : 3)]};
		if (e->type == MEDIA_EV_FENCE)
			continue;
		e->len = 8;
		e->off = 64 * rnd(2) + 8 * rnd(2);
		script_value[i] = 1 + rnd(3);
		e->bytes = (const uint8_t *)&script_value[i];
		stores += e->type != MEDIA_EV_FLUSH;
	}
}

/* The states at the end of the script, and those before it as far as fences allow. */
static void the_machine_agrees(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 400; round++) {
		struct machine m = {0};
		struct found f;
		make_script();
		for (unsigned i = 0; i < WORDS; i++)
			m.owner[i] = -1;
		memset(&reached, 0, sizeof(reached));
		run(&m, 0);
		begin(PERSIST_STRICT);
		for (unsigned i = 0; i < script_n; i++)
			assert_int_equal(persist_event(&p, &script[i]), 0);
		assert_false(explore_limit(&f, 1u << 20));
		assert_int_equal(f.n, reached.n);
		for (size_t i = 0; i < f.n; i++)
			assert_true(found_has(&reached, f.hash[i]));
		free(f.hash);
		free(reached.hash);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_word),
	    cmocka_unit_test(a_line),
	    cmocka_unit_test(nontemporal),
	    cmocka_unit_test(fence_alone_flushes_nothing),
	    cmocka_unit_test(store_after_flush),
	    cmocka_unit_test(same_word_twice),
	    cmocka_unit_test(what_changes_nothing),
	    cmocka_unit_test(bytes_of_words),
	    cmocka_unit_test(a_fence_is_its_threads),
	    cmocka_unit_test(nontemporal_over_dirty),
	    cmocka_unit_test(rules),
	    cmocka_unit_test(refuses_what_cannot_be),
	    cmocka_unit_test(the_limit),
	    cmocka_unit_test(the_plan),
	    cmocka_unit_test(stores_as_units),
	    cmocka_unit_test(the_machine_agrees),
	};
	if (persist_open(&p, PERSIST_STRICT, base, SIZE))
		return 1;
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	persist_close(&p);
	assignment_close(&a);
	return r;
}
