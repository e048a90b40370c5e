/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The explorer, on a tiny log: what is right passes, with the number of states that can be
 * counted by hand; what is broken in a known way is caught, and so is the right one when the
 * tracer leaves out a flush or fence. And the parts: images, line sets, the table of seen
 * states.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "tiny.h"

#define SIZE (1u << 20)
#define OPS  4

static struct explorer x;
static struct seen seen;
static struct stacks stacks;

/* Runs OPS operations; 0 or -1. depth 1: no crashes in recovery. */
static int run(enum tiny_fault fault, enum persist_model model, unsigned depth,
	       struct mutation *mutation, unsigned *ret_judged)
{
	struct tiny t;
	int start, r = 0;
	memset(&x.stats, 0, sizeof(x.stats));
	seen_clear(&seen);
	x.o = (struct explore_options){
	    .model = model,
	    .depth = depth,
	    .plan = {.limit = 4096, .random = ENUM_RANDOM, .seed = 1},
	};
	tiny_begin(&t, &x, fault, &start);
	x.trace.mutation = mutation;
	x.trace.stacks = mutation ? &stacks : NULL;
	x.trace.frame_top = (uintptr_t)__builtin_frame_address(0);
	for (unsigned k = 0; k < OPS && r == 0; k++) {
		explore_op_begin(&x);
		tiny_op(&t);
		r = explore_op_end(&x, true);
	}
	x.trace.mutation = NULL;
	x.trace.stacks = NULL;
	close(start);
	if (ret_judged)
		*ret_judged = t.judged;
	return r;
}

static void what_is_right_passes(void **state)
{
	unsigned judged;
	(void)state;
	for (enum persist_model m = PERSIST_STRICT; m <= PERSIST_ADVERSARIAL; m++) {
		assert_int_equal(run(TINY_RIGHT, m, 1, NULL, &judged), 0);
		assert_int_equal(run(TINY_CHECKED, m, 1, NULL, &judged), 0);
		assert_int_equal(run(TINY_RECOVERS_RIGHT, m, 2, NULL, &judged), 0);
	}
}

/*
 * Two lines of 8 ordered words: 81 states before the first fence; the tail: 2 before the
 * second, 1 at the end. The last state of one point is the first of the next: 82 images an
 * operation, and the first of an operation is the last of the one before.
 */
static void states_as_counted_by_hand(void **state)
{
	unsigned judged;
	(void)state;
	assert_int_equal(run(TINY_RIGHT, PERSIST_STRICT, 1, NULL, &judged), 0);
	assert_int_equal(x.stats.points, 3 * OPS);
	assert_int_equal(x.stats.cover[COVER_ALL], 3 * OPS);
	assert_int_equal(x.stats.states, OPS * (81 + 2 + 1));
	assert_int_equal(x.stats.distinct, OPS * 81 + 1);
	assert_int_equal(judged, OPS * 81 + 1);
	assert_int_equal(run(TINY_RIGHT, PERSIST_LINE, 1, NULL, &judged), 0);
	assert_int_equal(x.stats.states, OPS * (4 + 2 + 1));
	assert_int_equal(judged, OPS * 4 + 1);
	assert_int_equal(run(TINY_RIGHT, PERSIST_ADVERSARIAL, 1, NULL, &judged), 0);
	assert_int_equal(x.stats.cover[COVER_LINES], OPS);
	assert_int_equal(x.stats.cover[COVER_ALL], 2 * OPS);
}

static void each_fault_is_caught(void **state)
{
	(void)state;
	for (enum tiny_fault f = TINY_NO_FLUSH; f < TINY_RECOVERS_RIGHT; f++) {
		int r = run(f, PERSIST_STRICT, 2, NULL, NULL);
		print_message("%-45s %s\n", tiny_names[f], r ? "caught" : "MISSED");
		assert_int_equal(r, -1);
		assert_true(x.why[0]);
	}
}

static void recovery_faults_need_the_second_crash(void **state)
{
	(void)state;
	assert_int_equal(run(TINY_RECOVERY_ORDER, PERSIST_STRICT, 1, NULL, NULL), 0);
	assert_int_equal(run(TINY_RECOVERY_ORDER, PERSIST_STRICT, 2, NULL, NULL), -1);
}

/* Leaves out each flush and fence of the right log in turn, or lets it come late: all are
 * caught. */
static void each_mutant_is_caught(void **state)
{
	struct mutation m = {.kind = MUT_NONE};
	unsigned dropped = 0, delayed = 0;
	(void)state;
	assert_int_equal(run(TINY_RIGHT, PERSIST_STRICT, 1, &m, NULL), 0);
	uint32_t n = stacks.n;
	for (uint32_t i = 1; i < n; i++) {
		/* Innermost is the media layer, then the log. */
		m = (struct mutation){.type = stacks.list[i].type,
				      .caller = stacks.list[i].ret[1]};
		if (m.type != MEDIA_EV_FLUSH && m.type != MEDIA_EV_FENCE)
			continue;
		m.kind = MUT_DROP;
		assert_int_equal(run(TINY_RIGHT, PERSIST_STRICT, 1, &m, NULL), -1);
		assert_true(m.fired > 0);
		dropped++;
		m.kind = MUT_DELAY;
		m.fired = 0;
		int r = run(TINY_RIGHT, PERSIST_STRICT, 1, &m, NULL);
		assert_true(m.fired == 0 || r == -1);
		delayed += m.fired > 0;
	}
	assert_int_equal(dropped, 4); /* two flushes and two fences */
	assert_int_equal(delayed, 3); /* behind the last fence comes nothing */
}

static void the_images_come_back(void **state)
{
	(void)state;
	assert_int_equal(run(TINY_RECOVERS_RIGHT, PERSIST_STRICT, 2, NULL, NULL), 0);
	assert_true(x.stats.distinct2 > 0);
	for (unsigned d = 0; d < EXPLORE_DEPTH; d++) {
		struct level *l = &x.level[d];
		assert_memory_equal(l->crash.mem, x.level[0].base.mem, SIZE);
		assert_memory_equal(l->base.mem, x.level[0].base.mem, SIZE);
		assert_int_equal(l->touched.n, 0);
		assert_int_equal(l->moved.n, 0);
	}
	assert_memory_equal(x.live.mem, x.shadow.mem, SIZE);
	assert_memory_equal(x.live.mem, x.level[0].base.mem, SIZE);
	assert_true(image_hash(x.live.mem, SIZE) == x.level[0].p.base_hash);
}

static void pages_that_were_written(void **state)
{
	struct image im;
	uint32_t pages[4];
	(void)state;
	int start = image_start_create(SIZE);
	assert_int_equal(image_open(&im, start, SIZE), 0);
	volatile uint8_t sink = im.mem[PAGE_BYTES * 9];
	(void)sink;
	assert_int_equal(image_written(&im, pages, 4), 0);
	im.mem[PAGE_BYTES * 5 + 7] = 1;
	im.mem[PAGE_BYTES * 77] = 0; /* a store that changes nothing is a store */
	assert_int_equal(image_written(&im, pages, 4), 2);
	assert_int_equal(pages[0], 5);
	assert_int_equal(pages[1], 77);
	image_reset(&im);
	assert_int_equal(im.mem[PAGE_BYTES * 5 + 7], 0);
	assert_int_equal(image_written(&im, pages, 4), 0);
	image_close(&im);
	close(start);
}

static void sets_of_lines(void **state)
{
	struct lineset s;
	(void)state;
	assert_int_equal(lineset_open(&s, SIZE), 0);
	lineset_add(&s, 63, 2);
	lineset_add(&s, 0, 64);
	lineset_add(&s, 100, 0);
	assert_int_equal(s.n, 2);
	assert_true(lineset_has(&s, 1));
	assert_false(lineset_has(&s, 2));
	lineset_clear(&s);
	assert_false(lineset_has(&s, 1));
	lineset_close(&s);
}

static void the_table_of_seen_states(void **state)
{
	struct seen s;
	uint64_t digest;
	unsigned kept = 0;
	(void)state;
	assert_int_equal(seen_open(&s, 1024), 0);
	for (uint64_t i = 1; i <= 2048; i++)
		seen_put(&s, word_mix(i), i);
	for (uint64_t i = 1; i <= 2048; i++) {
		if (!seen_get(&s, word_mix(i), &digest))
			continue;
		assert_true(digest == i);
		kept++;
	}
	assert_int_equal(kept + s.dropped, 2048);
	assert_in_range(kept, 900, 1024);
	seen_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_right_passes),
	    cmocka_unit_test(states_as_counted_by_hand),
	    cmocka_unit_test(each_fault_is_caught),
	    cmocka_unit_test(recovery_faults_need_the_second_crash),
	    cmocka_unit_test(each_mutant_is_caught),
	    cmocka_unit_test(the_images_come_back),
	    cmocka_unit_test(pages_that_were_written),
	    cmocka_unit_test(sets_of_lines),
	    cmocka_unit_test(the_table_of_seen_states),
	};
	if (seen_open(&seen, 1 << 16) || explore_open(&x, SIZE, &seen))
		return 1;
	int r = cmocka_run_group_tests(tests, NULL, NULL);
	explore_close(&x);
	seen_close(&seen);
	stacks_close(&stacks);
	return r;
}
