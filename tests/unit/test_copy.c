/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The store kernels: each alone on whole lines, and each forced by name under media_copy and
 * media_clear at every offset in a line, for lengths around several lines, from aligned and
 * unaligned sources, with the bytes around watched.
 */
#include "unit.h"

#include "copy.h"
#include "cpu.h"
#include "media.h"
#include "media_impl.h"

#define MEDIUM	8192
#define LENGTHS 258
#define GUARD	0xa5

static unsigned char medium[MEDIUM] __attribute__((aligned(4096)));
static unsigned char expected[MEDIUM];
static unsigned char source[MEDIUM + 64] __attribute__((aligned(64)));

static const char *const names[] = {"movnti", "movnt128",   "movnt256", "movnt512", "movdir64b",
				    "clwb",   "clflushopt", "clflush",	"cached",   "libpmem"};
#define NAMES (sizeof(names) / sizeof(*names))

/* Ends the test as skipped, saying so, when this CPU cannot run the kernel. */
static const struct copy_kernel *need(const char *name)
{
	const struct copy_kernel *k = copy_find(name);

	assert_true(copy_known(name));
	if (!k) {
		print_message("this CPU lacks what kernel %s needs\n", name);
		skip();
	}
	assert_string_equal(k->name, name);
	return k;
}

static struct media *open_forced(const struct copy_kernel *k)
{
	struct media *m;

	assert_int_equal(media_open_memory(medium, MEDIUM, 0, &m), 0);
	media_set_eadr(m, k->eadr_only);
	m->policy.small = m->policy.large = k;
	for (size_t len = 0; len < 2 * MEDIA_RULE_BYTES; len++)
		assert_string_equal(media_kernel_name(m, len), k->name);
	return m;
}

/* Compares all that a call near the start may have touched, and a line more. */
static void check(const char *what, unsigned off, unsigned len, unsigned at)
{
	if (memcmp(medium, expected, 128 + off + len + 128))
		fail_msg("%s: offset %u, length %u, source at %u", what, off, len, at);
}

static void test_copy(void **state)
{
	static const unsigned ats[] = {0, 1, 8, 61};
	const struct copy_kernel *k = need(*state);
	struct media *m = open_forced(k);

	for (unsigned off = 0; off < 64; off++)
		for (unsigned len = 0; len < LENGTHS; len++)
			for (unsigned a = 0; a < 4; a++) {
				unsigned at = ats[a];

				memset(medium, GUARD, 64 + off + len + 192);
				memset(expected, GUARD, 64 + off + len + 192);
				memcpy(expected + 64 + off, source + at, len);
				media_copy(m, 64 + off, source + at, len);
				assert_int_equal(media_fence(m), 0);
				check("copy", off, len, at);
			}
	media_close(m);
}

static void test_clear(void **state)
{
	const struct copy_kernel *k = need(*state);
	struct media *m = open_forced(k);

	for (unsigned off = 0; off < 64; off++)
		for (unsigned len = 0; len < LENGTHS; len++) {
			memset(medium, GUARD, 64 + off + len + 192);
			memset(expected, GUARD, 64 + off + len + 192);
			memset(expected + 64 + off, 0, len);
			media_clear(m, 64 + off, len);
			assert_int_equal(media_fence(m), 0);
			check("clear", off, len, 0);
		}
	media_close(m);
}

/* Every row, also the narrow ones that never get chosen on this CPU. */
static void test_rows(void **state)
{
	const struct copy_kernel *k;

	for (k = copy_kernels; k->name; k++) {
		if (k->needs & ~cpu_features()) {
			print_message("this CPU lacks what row %td (%s) needs\n",
				      k - copy_kernels, k->name);
			continue;
		}
		for (unsigned lines = 0; lines < 40; lines++)
			for (unsigned at = 0; at < 64; at += 7) {
				memset(medium, GUARD, MEDIUM);
				memset(expected, GUARD, MEDIUM);
				memcpy(expected + 64, source + at, lines * 64);
				assert_int_equal(k->copy(medium + 64, source + at, lines), 0);
				copy_fence();
				assert_memory_equal(medium, expected, MEDIUM);
				memset(expected + 64, 0, lines * 64);
				assert_int_equal(k->clear(medium + 64, lines), 0);
				copy_fence();
				assert_memory_equal(medium, expected, MEDIUM);
			}
	}
}

/* Partial lines: just their bytes, wherever they stand. */
static void test_bytes(void **state)
{
	for (unsigned off = 0; off < 64; off++)
		for (unsigned len = 0; len < 130; len++) {
			memset(medium, GUARD, 512);
			memset(expected, GUARD, 512);
			memcpy(expected + 64 + off, source + 3, len);
			assert_int_equal(copy_bytes(medium + 64 + off, source + 3, len), 0);
			assert_memory_equal(medium, expected, 512);
			if (len > 64)
				continue; /* zeros come from one line of them */
			memset(expected + 64 + off, 0, len);
			assert_int_equal(copy_zeros(medium + 64 + off, len), 0);
			assert_memory_equal(medium, expected, 512);
		}
}

static void test_table(void **state)
{
	const struct copy_kernel *k;
	const struct copy_flush *f;
	size_t i = 0;

	/* The names above are all there are, in the table's order. */
	for (k = copy_kernels; k->name; k++) {
		if (i && !strcmp(k->name, names[i - 1]))
			continue;
		assert_true(i < NAMES);
		assert_string_equal(k->name, names[i++]);
	}
	assert_int_equal(i, NAMES);
	/* Numbers are on media: one for each name, and for ever. */
	for (k = copy_kernels; k->name; k++) {
		assert_string_equal(k->name, names[k->number - 1]);
		assert_true(k->number < COPY_NUMBERS);
		assert_ptr_equal(copy_by_number(k->number), copy_find(k->name));
	}
	assert_null(copy_by_number(0));
	assert_null(copy_by_number(COPY_NUMBERS));
	assert_null(copy_find("memcpy"));
	assert_false(copy_known("memcpy"));
	assert_true(copy_best_nontemporal()->nontemporal);
	assert_false(copy_best_cached(false)->eadr_only);
	assert_false(copy_best_cached(false)->nontemporal);
	assert_true(copy_best_cached(true)->eadr_only);
	assert_true(copy_best_flush(true)->none);
	assert_string_equal(copy_best_flush(false)->name, copy_best_cached(false)->name);
	for (f = copy_flushes; f->name; f++)
		if (!(f->needs & ~cpu_features()))
			assert_int_equal(f->flush(medium, 4), 0);
}

/* What was chosen is the best that the CPU has, by the features it shows. */
static void test_rule(void **state)
{
	unsigned has = cpu_features();
	struct media *m;

	assert_int_equal(media_open_memory(medium, MEDIUM, 0, &m), 0);
	assert_string_equal(media_kernel_name(m, 767), has & CPU_AVX512F ? "movnt512"
						       : has & CPU_AVX2	 ? "movnt256"
									 : "movnt128");
	assert_string_equal(media_kernel_name(m, 1), media_kernel_name(m, 767));
	assert_string_equal(media_kernel_name(m, 768), has & CPU_CLWB	      ? "clwb"
						       : has & CPU_CLFLUSHOPT ? "clflushopt"
									      : "clflush");
	assert_string_equal(media_kernel_name(m, 1 << 20), media_kernel_name(m, 768));
	media_close(m);
}

int main(void)
{
	struct CMUnitTest tests[2 * NAMES + 4];
	char titles[2 * NAMES][32];
	size_t n = 0;

	unit_fill(source, sizeof(source), 2);
	for (size_t i = 0; i < NAMES; i++) {
		void *name = (void *)(uintptr_t)names[i];

		snprintf(titles[n], sizeof(titles[n]), "copy %s", names[i]);
		tests[n] = (struct CMUnitTest){titles[n], test_copy, NULL, NULL, name};
		n++;
		snprintf(titles[n], sizeof(titles[n]), "clear %s", names[i]);
		tests[n] = (struct CMUnitTest){titles[n], test_clear, NULL, NULL, name};
		n++;
	}
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_rows);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_bytes);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_table);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_rule);
	assert_int_equal(n, sizeof(tests) / sizeof(*tests));
	return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}
