/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which kernel runs for what: size classes, the starting rule, what the user forces, measured
 * tables and what is refused of them, and the count of concurrent writers.
 */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "copy.h"
#include "cpu.h"
#include "media.h"
#include "media_impl.h"

#define MEDIUM (4u << 20)

static unsigned char medium[MEDIUM] __attribute__((aligned(4096)));
static unsigned char source[MEDIUM];

static struct media *begin(bool eadr)
{
	struct media *m;

	assert_int_equal(media_open_memory(medium, MEDIUM, 0, &m), 0);
	media_set_eadr(m, eadr);
	return m;
}

static unsigned number_of(const char *name)
{
	const struct copy_kernel *k = copy_find(name);

	assert_non_null(k);
	return k->number;
}

static void test_classes(void **state)
{
	for (unsigned c = 0; c < MEDIA_CLASSES; c++) {
		size_t first = c ? (size_t)48 << c : 0, end = (size_t)96 << c;

		assert_int_equal(media_class(first), c);
		assert_int_equal(media_class((size_t)64 << c), c);
		assert_int_equal(media_class(end - 1), c);
		assert_int_equal(media_class(end), MIN(c + 1, MEDIA_CLASSES - 1u));
	}
	assert_int_equal(media_class(1ull << 40), MEDIA_CLASSES - 1);
	assert_int_equal(media_class(767), 3);
	assert_int_equal(media_class(768), 4);
}

/* Every kernel by name, and what runs then is that kernel. */
static void test_forced(void **state)
{
	const struct copy_kernel *k;
	const char *why;

	for (k = copy_kernels; k->name; k++) {
		struct media *m = begin(k->eadr_only);

		if (!copy_find(k->name)) {
			why = NULL;
			assert_int_equal(media_set_flush(m, k->name, &why), -ENOTSUP);
			assert_non_null(strstr(why, "lacks"));
			media_close(m);
			continue;
		}
		assert_int_equal(media_set_flush(m, k->name, &why), 0);
		for (size_t len = 1; len <= MEDIUM; len *= 2) {
			assert_string_equal(media_kernel_for(m, false, len, 3), k->name);
			assert_string_equal(media_kernel_for(m, true, len, 0), k->name);
		}
		assert_string_equal(media_policy_name(m), "forced");
		media_close(m);
	}
}

static void test_rule(void **state)
{
	struct media *m = begin(false);
	const char *small = copy_best_nontemporal()->name;
	const char *large = copy_best_cached(false)->name, *why;
	char text[200], expected[200];

	assert_string_equal(media_policy_name(m), "rule");
	assert_string_equal(media_kernel_name(m, 767), small);
	assert_string_equal(media_kernel_name(m, 768), large);
	media_policy_text(m, false, 0, text, sizeof(text));
	snprintf(expected, sizeof(expected), "%s below 768 bytes, %s from there", small, large);
	assert_string_equal(text, expected);
	assert_int_equal(media_set_flush(m, "rule:5000", &why), 0);
	assert_string_equal(media_kernel_name(m, 4999), small);
	assert_string_equal(media_kernel_for(m, true, 5000, 2), large);
	assert_int_equal(media_set_flush(m, "rule:0", &why), 0);
	assert_string_equal(media_kernel_name(m, 1), large);
	assert_int_equal(media_set_flush(m, "rule", &why), 0);
	assert_string_equal(media_kernel_name(m, 767), small);
	assert_string_equal(media_policy_name(m), "forced");
	assert_int_equal(media_set_flush(m, "auto", &why), 0);
	assert_string_equal(media_policy_name(m), "rule");
	media_close(m);
}

static void test_refused(void **state)
{
	static const char *const wrong[] = {"",
					    "rules",
					    "rule:",
					    "rule:x",
					    "rule:-1",
					    "rule:1k",
					    "memcpy",
					    "auto ",
					    "CLWB",
					    "rule:1 ",
					    "rule:99999999999999999999999"};
	struct media *m = begin(false);
	const char *before = media_kernel_name(m, 4096), *why;

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		why = NULL;
		assert_int_equal(media_set_flush(m, wrong[i], &why), -EINVAL);
		assert_non_null(why);
	}
	/* Stores without a flush would be lost here. */
	assert_int_equal(media_set_flush(m, "cached", &why), -ENOTSUP);
	assert_non_null(strstr(why, "eADR"));
	assert_string_equal(media_kernel_name(m, 4096), before);
	assert_string_equal(media_policy_name(m), "rule");
	media_close(m);
}

/* Each cell of a table by itself. */
static void test_table(void **state)
{
	struct media_table t = {0};
	struct media *m = begin(false);
	unsigned movnti = number_of("movnti"), clflush = number_of("clflush");
	char text[200];

	t.copy[0][6] = movnti;
	t.copy[1][6] = clflush;
	t.clear[2][0] = clflush;
	assert_int_equal(media_set_table(m, &t), 0);
	assert_string_equal(media_policy_name(m), "measured");
	for (unsigned w = 0; w < MEDIA_WRITERS; w++)
		for (unsigned c = 0; c < MEDIA_CLASSES; c++)
			for (int clear = 0; clear < 2; clear++) {
				unsigned n = (clear ? t.clear : t.copy)[w][c];
				const char *name =
				    n ? copy_by_number(n)->name : media_policy_rule(m, c)->name;

				assert_string_equal(
				    media_kernel_for(m, clear, (size_t)64 << c, w), name);
			}
	assert_string_equal(media_kernel_for(m, false, 3 << 10, 0), "movnti");
	assert_string_equal(media_kernel_for(m, false, (6 << 10) - 1, 0), "movnti");
	assert_string_not_equal(media_kernel_for(m, false, 6 << 10, 0), "movnti");
	media_policy_text(m, false, 0, text, sizeof(text));
	assert_non_null(strstr(text, "movnti below 6 KiB"));
	/* What was forced stays; without the force the next table counts. */
	assert_int_equal(media_set_flush(m, "clflush", NULL), 0);
	assert_int_equal(media_set_table(m, &t), 0);
	assert_string_equal(media_kernel_name(m, 4096), "clflush");
	assert_int_equal(media_set_flush(m, "auto", NULL), 0);
	assert_int_equal(media_set_table(m, &t), 0);
	assert_string_equal(media_kernel_name(m, 4096), "movnti");
	media_close(m);
}

/* One bad cell anywhere, and the whole table is refused. */
static void test_table_refused(void **state)
{
	struct media *m = begin(false);
	unsigned bad[] = {number_of("cached"), COPY_NUMBERS, 255};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		for (int clear = 0; clear < 2; clear++) {
			struct media_table t = {0};

			t.copy[0][4] = number_of("movnti");
			(clear ? t.clear : t.copy)[3][15] = bad[i];
			assert_int_equal(media_set_table(m, &t), -ENOTSUP);
			assert_string_equal(media_policy_name(m), "rule");
			assert_string_equal(media_kernel_name(m, 1024),
					    copy_best_cached(false)->name);
		}
	media_close(m);
	/* With eADR a table may name it. */
	m = begin(true);
	struct media_table t = {0};

	t.copy[0][4] = number_of("cached");
	assert_int_equal(media_set_table(m, &t), 0);
	assert_string_equal(media_kernel_name(m, 1024), "cached");
	media_close(m);
}

/* ---- writers ---- */

#define THREADS 8

static struct {
	struct media *m;
	atomic_bool end;
	pthread_barrier_t ready;
} writers;

/* Stores and never fences until the end: always in the middle of a store. */
static void *write_on(void *arg)
{
	uint64_t off = (uintptr_t)arg * 65536;

	media_copy(writers.m, off, source, 64);
	pthread_barrier_wait(&writers.ready);
	while (!atomic_load(&writers.end))
		sched_yield();
	assert_int_equal(media_fence(writers.m), 0);
	return NULL;
}

/* A table with other kernels in each row; returns the row that this thread's stores go by. */
static unsigned row_with(unsigned others)
{
	struct media_table t = {0};
	struct media_slot *slot;
	pthread_t thread[THREADS];
	unsigned row;

	for (unsigned w = 0; w < MEDIA_WRITERS; w++)
		memset(t.copy[w], w % 2 ? number_of("movnti") : number_of("clflush"),
		       MEDIA_CLASSES);
	writers.m = begin(false);
	assert_int_equal(media_set_table(writers.m, &t), 0);
	atomic_store(&writers.end, false);
	pthread_barrier_init(&writers.ready, NULL, others + 1);
	for (unsigned i = 0; i < others; i++)
		assert_int_equal(
		    pthread_create(&thread[i], NULL, write_on, (void *)(uintptr_t)(i + 1)), 0);
	pthread_barrier_wait(&writers.ready);
	for (unsigned i = 0; i < 64 * MEDIA_LOOK_EVERY; i++)
		media_copy(writers.m, 0, source, 64);
	slot = media_slot_get(writers.m);
	row = slot->row;
	atomic_store(&writers.end, true);
	for (unsigned i = 0; i < others; i++)
		pthread_join(thread[i], NULL);
	/* Alone again, it soon notices. */
	for (unsigned i = 0; i < 64 * MEDIA_LOOK_EVERY; i++)
		media_copy(writers.m, 0, source, 64);
	assert_int_equal(slot->row, 0);
	assert_int_equal(media_fence(writers.m), 0);
	pthread_barrier_destroy(&writers.ready);
	media_close(writers.m);
	return row;
}

static void test_writers(void **state)
{
	static const unsigned rows[THREADS] = {0, 1, 2, 2, 3, 3, 3, 3};

	for (unsigned others = 0; others < THREADS; others++)
		assert_int_equal(row_with(others), rows[others]);
}

/* The row decides which instructions run: flushes are counted, non-temporal lines too. */
static void test_row_runs(void **state)
{
	struct media_table t = {0};
	struct media *m = begin(false);
	struct media_counts before, after;

	for (unsigned w = 0; w < MEDIA_WRITERS; w++)
		memset(t.copy[w], w ? number_of("clflush") : number_of("movnti"),
		       MEDIA_CLASSES);
	assert_int_equal(media_set_table(m, &t), 0);
	for (unsigned row = 0; row < MEDIA_WRITERS; row++) {
		media_count(m, &before);
		media_copy(m, 0, source, 64); /* the thread has its slot */
		media_slot_get(m)->row = row;
		media_slot_get(m)->ticks = 0;
		media_copy(m, 0, source, 4096);
		media_count(m, &after);
		assert_true((after.nt_lines - before.nt_lines >= 64) == (row == 0));
		assert_true((after.flushes - before.flushes >= 64) == (row != 0));
	}
	assert_int_equal(media_fence(m), 0);
	media_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_classes), cmocka_unit_test(test_forced),
	    cmocka_unit_test(test_rule),    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_table),   cmocka_unit_test(test_table_refused),
	    cmocka_unit_test(test_writers), cmocka_unit_test(test_row_runs),
	};

	unit_fill(source, sizeof(source), 7);
	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
