/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistence of media_copy, media_clear and media_store8, as seen through the hook.
 *
 * A small simulator replays the events into an image of its own and keeps a state for each
 * line. It fails on a line that is still dirty at the fence, on cached and non-temporal stores
 * to one line between fences, on a flush of a line that is not dirty, and on a non-temporal
 * store of anything but whole lines. The image must end up as the medium, so that no store
 * can be made without an event or with another one's bytes.
 */
#include "unit.h"

#include "copy.h"
#include "media.h"
#include "media_impl.h"

#define MEDIUM 16384
#define LINES  (MEDIUM / 64)

enum line { CLEAN, DIRTY, FLUSHED, NONTEMPORAL };

static struct sim {
	unsigned char image[MEDIUM];
	enum line line[LINES];
	unsigned long events[MEDIA_EV_FENCE + 1];
	bool eadr;
	const char *wrong; /* the first rule that was broken */
	/* the operation, for messages */
	const char *kernel;
	size_t off, len;
} sim;

static unsigned char medium[MEDIUM] __attribute__((aligned(4096)));
static unsigned char source[MEDIUM];

static void sim_check(bool holds, const char *rule)
{
	if (!holds && !sim.wrong)
		sim.wrong = rule;
}
#define CHECK(condition) sim_check(condition, #condition)

static void sim_store(uint64_t off, const void *bytes, size_t len)
{
	memcpy(sim.image + off, bytes, len);
	for (size_t i = off / 64; i <= (off + len - 1) / 64; i++) {
		CHECK(sim.line[i] != NONTEMPORAL);
		sim.line[i] = DIRTY;
	}
}

static void sim_nt(uint64_t off, const void *bytes, size_t len)
{
	CHECK(off % 64 == 0 && len % 64 == 0);
	memcpy(sim.image + off, bytes, len);
	for (size_t i = off / 64; i < (off + len) / 64; i++) {
		CHECK(sim.line[i] == CLEAN);
		sim.line[i] = NONTEMPORAL;
	}
}

static void sim_flush(uint64_t off, size_t len)
{
	CHECK(!sim.eadr);
	for (size_t i = off / 64; i <= (off + len - 1) / 64; i++) {
		CHECK(sim.line[i] == DIRTY);
		sim.line[i] = FLUSHED;
	}
}

static void sim_fence(void)
{
	for (size_t i = 0; i < LINES; i++) {
		CHECK(sim.line[i] != DIRTY || sim.eadr);
		sim.line[i] = CLEAN;
	}
}

static void hook(void *arg, enum media_event ev, uint64_t off, const void *bytes, size_t len)
{
	assert_ptr_equal(arg, &sim);
	CHECK(ev == MEDIA_EV_FENCE ? !off && !len : len && off + len <= MEDIUM);
	sim.events[ev]++;
	switch (ev) {
	case MEDIA_EV_STORE8:
		CHECK(off % 8 == 0 && len == 8);
		sim_store(off, bytes, len);
		break;
	case MEDIA_EV_STORE:
		sim_store(off, bytes, len);
		break;
	case MEDIA_EV_NT:
		sim_nt(off, bytes, len);
		break;
	case MEDIA_EV_FLUSH:
		sim_flush(off, len);
		break;
	case MEDIA_EV_FENCE:
		sim_fence();
		break;
	}
}

static struct media *begin(bool eadr)
{
	struct media *m;

	unit_fill(medium, MEDIUM, 3);
	memset(&sim, 0, sizeof(sim));
	memcpy(sim.image, medium, MEDIUM);
	sim.eadr = eadr;
	sim.kernel = "rule";
	assert_int_equal(media_open_memory(medium, MEDIUM, 0, &m), 0);
	media_set_eadr(m, eadr);
	media_set_hook(m, hook, &sim);
	return m;
}

/* The hook's image is the medium, around what the last operation may have touched. */
static void check_image(void)
{
	size_t start = sim.off > 128 ? sim.off - 128 : 0;
	size_t end = MIN(sim.off + sim.len + 128, (size_t)MEDIUM);

	CHECK(!memcmp(medium + start, sim.image + start, end - start));
}

static void expect_right(void)
{
	if (sim.wrong)
		fail_msg("%s: offset %zu, length %zu: not so: %s", sim.kernel, sim.off, sim.len,
			 sim.wrong);
}

/* One operation with its fence; `clear` before, so that equal bytes cannot hide a lost store.
 */
static void one(struct media *m, size_t off, size_t len)
{
	sim.off = off;
	sim.len = len;
	media_clear(m, off, len);
	CHECK(media_fence(m) == 0);
	check_image();
	for (size_t i = 0; i < len; i += 61)
		CHECK(medium[off + i] == 0);
	media_copy(m, off, source + off % 7, len);
	CHECK(media_fence(m) == 0);
	check_image();
	CHECK(!memcmp(medium + off, source + off % 7, len));
	expect_right();
}

static void sizes(struct media *m, size_t step)
{
	for (size_t off = 0; off < 64; off++) {
		for (size_t len = off % step; len <= 1100; len += step)
			one(m, 4096 + off, len);
		for (size_t len = 1100 + off; len <= 8192; len += 509)
			one(m, 4096 + off, len);
		one(m, 4096 + off, 8192);
	}
}

static void test_rule(void **state)
{
	struct media *m = begin(false);

	for (size_t off = 0; off < 64; off++)
		for (size_t len = 0; len <= 8192; len++)
			one(m, 4096 + off, len);
	assert_true(sim.events[MEDIA_EV_NT] && sim.events[MEDIA_EV_STORE] &&
		    sim.events[MEDIA_EV_FLUSH]);
	media_close(m);
}

static void test_rule_eadr(void **state)
{
	struct media *m = begin(true);

	sizes(m, 3);
	assert_true(sim.events[MEDIA_EV_NT] && sim.events[MEDIA_EV_STORE]);
	assert_int_equal(sim.events[MEDIA_EV_FLUSH], 0);
	media_close(m);
}

static void test_kernels(void **state)
{
	const struct copy_kernel *k;

	for (k = copy_kernels; k->name; k++) {
		struct media *m;

		if (copy_find(k->name) != k)
			continue;
		m = begin(k->eadr_only);
		sim.kernel = k->name;
		m->policy.small = m->policy.large = k;
		sizes(m, 17);
		assert_true(sim.events[k->nontemporal ? MEDIA_EV_NT : MEDIA_EV_STORE]);
		media_close(m);
	}
}

static void test_store8(void **state)
{
	struct media *m = begin(false);
	uint64_t value = 0x1122334455667788ull;

	for (uint64_t off = 0; off < 256; off += 8) {
		value += off;
		sim.off = off;
		sim.len = 8;
		media_store8(m, off, value);
		media_flush(m, off, 8);
		assert_int_equal(media_fence(m), 0);
		check_image();
		expect_right();
		assert_memory_equal(medium + off, &value, 8);
	}
	media_close(m);
}

/* Records appended one after another share lines, with and without a fence between them. */
static void test_appends(void **state)
{
	struct media *m = begin(false);
	uint64_t seed = 4;

	for (size_t off = 0, len; off < MEDIUM; off += len) {
		len = MIN(8 + unit_random(&seed) % 200 / 8 * 8, MEDIUM - off);
		media_copy(m, off, source + off, len);
		if (unit_random(&seed) % 2)
			assert_int_equal(media_fence(m), 0);
		expect_right();
	}
	assert_int_equal(media_fence(m), 0);
	expect_right();
	assert_memory_equal(medium, source, MEDIUM);
	assert_memory_equal(sim.image, source, MEDIUM);
	media_close(m);
}

/* The simulator itself sees what it is there for. */
static void test_simulator(void **state)
{
	struct media *m = begin(false);

	media_store8(m, 128, 1); /* not flushed */
	assert_null(sim.wrong);
	media_fence(m);
	assert_non_null(sim.wrong);

	sim.wrong = NULL;
	media_flush(m, 128, 8); /* nothing to flush */
	assert_non_null(sim.wrong);

	sim.wrong = NULL;
	media_copy(m, 256, source, 64); /* non-temporal, then cached */
	assert_null(sim.wrong);
	media_store8(m, 256, 1);
	assert_non_null(sim.wrong);

	sim.wrong = NULL;
	sim.off = sim.len = 512;
	medium[520] ^= 1; /* behind the media layer's back */
	check_image();
	assert_non_null(sim.wrong);
	media_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_simulator), cmocka_unit_test(test_rule),
	    cmocka_unit_test(test_rule_eadr), cmocka_unit_test(test_kernels),
	    cmocka_unit_test(test_store8),    cmocka_unit_test(test_appends),
	};

	unit_fill(source, sizeof(source), 5);
	return cmocka_run_group_tests_name("persist", tests, NULL, NULL);
}
