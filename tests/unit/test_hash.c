/* SPDX-License-Identifier: BSD-3-Clause */
/* hash64: every variant that this machine can run gives what the xxHash library gives. */
#include "unit.h"

#include <xxhash.h>

#include "cpu.h"
#include "hash.h"

#define BUF 20000

static const uint64_t seeds[] = {0, 1, 0x9e3779b185ebca87ull, UINT64_MAX};
static unsigned char buf[BUF + 64];

static void compare(hash_function hash, const unsigned char *p, size_t len)
{
	for (size_t s = 0; s < sizeof(seeds) / sizeof(*seeds); s++)
		if (hash(p, len, seeds[s]) != XXH3_64bits_withSeed(p, len, seeds[s]))
			fail_msg("length %zu, seed %zu", len, s);
}

static void compare_all(hash_function hash)
{
	for (size_t len = 0; len < 1400; len++)
		compare(hash, buf + len % 64, len);
	for (size_t len = 1400; len < BUF; len += 997)
		compare(hash, buf + len % 64, len);
	for (size_t at = 0; at < 64; at++)
		compare(hash, buf + at, 4096);
}

static void test_variant(void **state)
{
	const struct hash_variant *v = *state;

	if (v->needs & ~cpu_features()) {
		print_message("this CPU lacks what %s needs\n", v->name);
		skip();
	}
	compare_all(v->hash);
}

static void test_chosen(void **state)
{
	compare_all(hash64);
}

/* The published value of no bytes, so that the format does not hang on one library's version.
 */
static void test_fixed(void **state)
{
	assert_true(hash64(buf, 0, 0) == 0x2d06800538d394c2ull);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_prestate(test_variant, (void *)(uintptr_t)&hash_variants[0]),
	    cmocka_unit_test_prestate(test_variant, (void *)(uintptr_t)&hash_variants[1]),
	    cmocka_unit_test_prestate(test_variant, (void *)(uintptr_t)&hash_variants[2]),
	    cmocka_unit_test(test_chosen),
	    cmocka_unit_test(test_fixed),
	};

	unit_fill(buf, sizeof(buf), 1);
	return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
