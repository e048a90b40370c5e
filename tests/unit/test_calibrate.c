/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calibration: what it finds on simulated devices, with and without noise, that it is the same
 * each time, what it does where there is little time or room; and the table's life in the
 * superblock of a filesystem.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "calibrate.h"
#include "cpu.h"
#include "fs.h"
#include "media_impl.h"

#define SIZE (64u << 20)

static struct media *open_anonymous(void)
{
	void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct media *m;

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(media_open_memory(p, SIZE, 0, &m), 0);
	return m;
}

static void close_anonymous(struct media *m)
{
	void *p = m->base;

	media_close(m);
	munmap(p, SIZE);
}

/* ---- simulated devices ---- */

static struct sim {
	size_t border;	 /* cached stores are faster from here on */
	double gain;	 /* by so much */
	double noise;	 /* times vary by so much */
	unsigned spikes; /* one in so many takes ten times as long; 0: none */
	double best;	 /* the kernel `favourite` takes so much of the others' time */
	unsigned favourite;
	unsigned split; /* from so many writers on the favourite is another */
	uint64_t random;
	unsigned long calls;
} sim;

static double uniform(void)
{
	return (double)(unit_random(&sim.random) >> 11) / (1ull << 53);
}

/* Non-temporal and cached stores, each kind equally fast whatever its width. */
static int simulate(void *arg, unsigned number, bool clear, size_t bytes, unsigned writers,
		    double *ret_ns)
{
	const struct copy_kernel *k = copy_by_number(number);
	double t = 100 + bytes * 0.5;

	sim.calls++;
	if (!k->nontemporal == (bytes < sim.border))
		t *= sim.gain;
	if (number == sim.favourite && (!sim.split || writers >= sim.split))
		t *= sim.best;
	t *= 1 + sim.noise * (uniform() - 0.5);
	if (sim.spikes && unit_random(&sim.random) % sim.spikes == 0)
		t *= 10;
	*ret_ns = t;
	return 0;
}

static void calibrate_sim(struct media *m, struct calibrate_result *ret)
{
	const struct calibrate_options o = {.len = SIZE,
					    .budget_ns = 1ull << 40,
					    .rounds = 15,
					    .max_writers = 8,
					    .measure = simulate};

	assert_int_equal(calibrate(m, &o, ret), 0);
	assert_int_equal(media_set_flush(m, "auto", NULL), 0);
	assert_int_equal(media_set_table(m, &ret->table), 0);
}

/* Non-temporal stores below the border, cached ones from there, with any number of writers. */
static void expect_border(const struct media *m, size_t border)
{
	for (unsigned row = 0; row < MEDIA_WRITERS; row++)
		for (int clear = 0; clear < 2; clear++)
			for (size_t len = 64; len <= 2u << 20; len *= 2) {
				const char *name = media_kernel_for(m, clear, len, row);

				if (copy_find(name)->nontemporal != (len < border))
					fail_msg("%zu bytes, row %u, clear %d: %s", len, row,
						 clear, name);
			}
}

static void test_borders(void **state)
{
	struct media *m = open_anonymous();
	struct calibrate_result r;

	for (size_t border = 64; border <= 4u << 20; border *= 2)
		for (int noise = 0; noise < 2; noise++) {
			sim = (struct sim){.border = border, .gain = 1.5, .random = border};
			if (noise) {
				sim.noise = 0.3;
				sim.spikes = 10;
			}
			calibrate_sim(m, &r);
			expect_border(m, border);
		}
	close_anonymous(m);
}

/* The device of which the issue speaks: cached stores and clwb from 1 KiB on. */
static void test_clwb_from_1k(void **state)
{
	struct media *m = open_anonymous();
	const char *small = copy_best_nontemporal()->name;
	const char *large = copy_best_cached(false)->name;
	struct calibrate_result r;

	sim = (struct sim){.border = 1024, .gain = 1.4, .random = 3, .best = 0.8, .noise = 0.2};
	sim.favourite = copy_best_cached(false)->number;
	calibrate_sim(m, &r);
	for (unsigned row = 0; row < MEDIA_WRITERS; row++)
		for (size_t len = 64; len <= 2u << 20; len *= 2)
			assert_string_equal(media_kernel_for(m, false, len, row),
					    len < 1024 ? small : large);
	assert_int_equal(r.classes, MEDIA_CLASSES);
	assert_int_equal(r.writers[0], 1);
	assert_int_equal(r.writers[1], 2);
	assert_int_equal(r.writers[2], 4);
	assert_int_equal(r.writers[3], 8);
	close_anonymous(m);
}

/* Less than 10% better, however surely: the rule stays. More: it goes. */
static void test_clear_win_only(void **state)
{
	struct media *m = open_anonymous();
	struct calibrate_result r;
	unsigned movnti = copy_find("movnti")->number;

	for (int wins = 0; wins < 2; wins++) {
		sim = (struct sim){.border = 768, .gain = 1.5, .noise = 0.04, .random = 9};
		sim.favourite = movnti;
		sim.best = wins ? 0.85 : 0.94;
		calibrate_sim(m, &r);
		for (unsigned c = 0; c < MEDIA_CLASSES; c++)
			for (unsigned row = 0; row < MEDIA_WRITERS; row++)
				assert_int_equal(r.table.copy[row][c],
						 wins && 64u << c < 768 ? movnti : 0);
	}
	close_anonymous(m);
}

/* A win in half of the rounds is chance. */
static unsigned coin_calls;

static int coin(void *arg, unsigned number, bool clear, size_t bytes, unsigned writers,
		double *ret_ns)
{
	bool lucky = number == copy_find("movnti")->number && coin_calls++ / MEDIA_CLASSES % 2;

	*ret_ns = lucky ? 50 : 100;
	return 0;
}

static void test_half_is_not_most(void **state)
{
	struct media *m = open_anonymous();
	struct calibrate_options o = {.len = SIZE,
				      .budget_ns = 1ull << 40,
				      .rounds = 14,
				      .max_writers = 1,
				      .measure = coin};
	struct calibrate_result *r = calloc(1, sizeof(*r));
	const struct media_table none = {0};

	assert_int_equal(calibrate(m, &o, r), 0);
	assert_memory_equal(&r->table, &none, sizeof(none));
	free(r);
	close_anonymous(m);
}

/* What is best for many writers only, is chosen for many only. */
static void test_writers(void **state)
{
	struct media *m = open_anonymous();
	unsigned movnti = copy_find("movnti")->number;
	struct calibrate_result r;

	sim = (struct sim){.border = 1 << 30, .gain = 2, .random = 5, .best = 0.7, .split = 4};
	sim.favourite = movnti;
	calibrate_sim(m, &r);
	for (unsigned c = 0; c < MEDIA_CLASSES; c++) {
		assert_int_not_equal(r.table.copy[0][c], movnti);
		assert_int_not_equal(r.table.copy[1][c], movnti);
		assert_int_equal(r.table.copy[2][c], movnti);
		assert_int_equal(r.table.copy[3][c], movnti);
	}
	close_anonymous(m);
}

/* Twenty times under noise: the same, or off by one size class at a border. */
static void test_repeats_simulated(void **state)
{
	struct media *m = open_anonymous();
	struct calibrate_result r;

	for (unsigned i = 0; i < 20; i++) {
		sim = (struct sim){.border = 8192, .gain = 1.3, .noise = 0.3, .spikes = 8};
		sim.random = 1000 + i;
		calibrate_sim(m, &r);
		expect_border(m, 8192);
	}
	close_anonymous(m);
}

static int fail_measure(void *arg, unsigned number, bool clear, size_t bytes, unsigned writers,
			double *ret_ns)
{
	*ret_ns = 1;
	return coin_calls++ == 100 ? -EIO : 0;
}

static int slow_measure(void *arg, unsigned number, bool clear, size_t bytes, unsigned writers,
			double *ret_ns)
{
	struct timespec t = {.tv_nsec = 3000000};

	nanosleep(&t, NULL);
	*ret_ns = 3e6;
	sim.calls++;
	return 0;
}

/* No time, no room, a failure: no more than the rule, and soon. */
static void test_limits(void **state)
{
	struct media *m = open_anonymous();
	const struct media_table none = {0};
	struct calibrate_options o = {
	    .len = SIZE, .budget_ns = 40000000, .measure = slow_measure};
	struct calibrate_result *r = calloc(1, sizeof(*r));
	struct timespec before, after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(calibrate(m, &o, r), 0);
	clock_gettime(CLOCK_MONOTONIC, &after);
	assert_memory_equal(&r->table, &none, sizeof(none));
	assert_true(after.tv_sec - before.tv_sec < 5);
	coin_calls = 0;
	o.measure = fail_measure;
	assert_int_equal(calibrate(m, &o, r), -EIO);
	o = (struct calibrate_options){.budget_ns = 1000, .len = 32768};
	assert_int_equal(calibrate(m, &o, r), -ENOSPC);
	free(r);
	close_anonymous(m);
}

/* ---- real stores ---- */

/* Only the scratch area is written to, all of what was chosen can run, and it is in time. */
static void test_real(void **state)
{
	struct media *m = open_anonymous();
	struct calibrate_options o = {
	    .off = 1 << 20, .len = 16 << 20, .budget_ns = 300000000, .max_writers = 3};
	struct calibrate_result *r = calloc(1, sizeof(*r));
	struct timespec before, after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(calibrate(m, &o, r), 0);
	clock_gettime(CLOCK_MONOTONIC, &after);
	/* a loaded machine or a sanitizer takes longer, but not for ever */
	assert_true(after.tv_sec - before.tv_sec < 30);
	for (uint64_t at = 0; at < SIZE; at++)
		if (at < o.off || at >= o.off + o.len)
			assert_int_equal(m->base[at], 0);
	assert_int_equal(media_set_table(m, &r->table), 0);
	for (unsigned row = 0; row < MEDIA_WRITERS; row++)
		for (unsigned c = 0; c < MEDIA_CLASSES; c++)
			assert_int_not_equal(r->table.copy[row][c],
					     copy_find("cached")->number);
	free(r);
	close_anonymous(m);
}

/* A scratch area that faults is an error, and the media itself has not failed. */
static void test_fault(void **state)
{
	struct calibrate_options o = {.len = 16 << 20, .budget_ns = 10000000};
	struct calibrate_result *r = calloc(1, sizeof(*r));
	int fd = memfd_create("calibrate", 0);
	struct media *m;
	void *p;

	assert_int_equal(ftruncate(fd, SIZE), 0);
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_int_equal(media_open_memory(p, SIZE, 0, &m), 0);
	assert_int_equal(ftruncate(fd, 8 << 20), 0);
	assert_int_equal(calibrate(m, &o, r), -EIO);
	assert_int_equal(media_fence(m), 0);
	media_close(m);
	munmap(p, SIZE);
	close(fd);
	free(r);
}

/* ---- in the superblock ---- */

static void read_super(struct media *m, struct pmemfs_super *ret)
{
	unsigned ok;
	const char *why;

	assert_int_equal(super_read(m, ret, &ok, &why), 0);
	assert_int_equal(ok, 3);
}

static void format(struct media *m)
{
	const struct pmemfs_format_options o = {.shards = 2};

	assert_int_equal(pmemfs_format(m, &o), 0);
}

static void test_stored(void **state)
{
	const struct pmemfs_calibrate_options o = {.budget_ns = 100000000};
	struct pmemfs_check_options check = {.fix = PMEMFS_FIX_SAFE, .force = true};
	struct pmemfs_check_result result;
	struct calibrate_result *r = calloc(1, sizeof(*r));
	struct media *m = open_anonymous();
	struct pmemfs_info info;
	struct pmemfs_super sb;
	struct pmemfs_attr a;
	struct pmemfs *fs;
	const char *why;

	format(m);
	assert_int_equal(pmemfs_use_calibration(m), -ENOENT);
	assert_int_equal(pmemfs_probe(m, &info, &why), 0);
	assert_false(info.calibrated);
	assert_int_equal(pmemfs_calibrate(m, &o, r, &why), 0);
	read_super(m, &sb);
	assert_memory_equal(sb.calibration.copy, r->table.copy, sizeof(r->table.copy));
	assert_memory_equal(sb.calibration.clear, r->table.clear, sizeof(r->table.clear));
	assert_int_equal(pmemfs_probe(m, &info, &why), 0);
	assert_true(info.calibrated && info.clean && info.counters_valid);
	assert_int_equal(info.mounts, 0);
	assert_int_equal(info.calibrated_cpu, cpu_model());
	assert_int_equal(pmemfs_check(m, &check, &result), 0);
	assert_int_equal(result.problems, 0);
	/* It survives mounting, writing and unmounting, and the mount uses it. */
	assert_int_equal(media_set_flush(m, "auto", NULL), 0);
	assert_int_equal(pmemfs_mount(m, NULL, &fs, &why), 0);
	assert_string_equal(media_policy_name(m), "measured");
	assert_int_equal(
	    pmemfs_make(fs, 1, "f", S_IFREG | 0600, 0, 0, NULL, &(struct pmemfs_cred){0}, &a),
	    0);
	assert_int_equal(pmemfs_unmount(fs), 0);
	/* Again, with something in the filesystem, and after a crash. */
	assert_int_equal(pmemfs_calibrate(m, &o, r, &why), 0);
	assert_int_equal(pmemfs_mount(m, NULL, &fs, &why), 0);
	assert_int_equal(pmemfs_lookup(fs, 1, "f", &a), 0);
	pmemfs_abandon(fs);
	assert_int_equal(pmemfs_calibrate(m, &o, r, &why), 0);
	assert_int_equal(pmemfs_check(m, &check, &result), 0);
	assert_int_equal(result.problems, 0);
	assert_int_equal(result.files, 1);
	free(r);
	close_anonymous(m);
}

/* Stores a table by hand. */
static void put_table(struct media *m, unsigned cpu, unsigned valid, unsigned number)
{
	struct pmemfs_super sb;

	read_super(m, &sb);
	sb.calibration.valid = put32(valid);
	sb.calibration.cpu_model = put32(cpu);
	memset(sb.calibration.copy, number, sizeof(sb.calibration.copy));
	assert_int_equal(super_write(m, &sb), 0);
	assert_int_equal(media_set_flush(m, "auto", NULL), 0);
}

static void test_foreign(void **state)
{
	unsigned movnti = copy_find("movnti")->number;
	struct media *m = open_anonymous();
	struct pmemfs *fs;
	const char *why;

	format(m);
	put_table(m, cpu_model(), 1, movnti);
	assert_int_equal(pmemfs_use_calibration(m), 0);
	assert_string_equal(media_kernel_name(m, 4096), "movnti");
	put_table(m, cpu_model() + 1, 1, movnti);
	assert_int_equal(pmemfs_use_calibration(m), -EXDEV);
	put_table(m, cpu_model(), 2, movnti); /* a later kind of table */
	assert_int_equal(pmemfs_use_calibration(m), -ENOENT);
	put_table(m, cpu_model(), 1, 200); /* a kernel of a later version */
	assert_int_equal(pmemfs_use_calibration(m), -ENOTSUP);
	put_table(m, cpu_model(), 1, copy_find("cached")->number); /* of a machine with eADR */
	assert_int_equal(pmemfs_use_calibration(m), -ENOTSUP);
	assert_string_equal(media_policy_name(m), "rule");
	assert_int_equal(pmemfs_mount(m, NULL, &fs, &why), 0);
	assert_string_equal(media_kernel_name(m, 4096), copy_best_cached(false)->name);
	assert_int_equal(pmemfs_unmount(fs), 0);
	/* What the user forces counts for the mount. */
	put_table(m, cpu_model(), 1, movnti);
	assert_int_equal(media_set_flush(m, "clflush", &why), 0);
	assert_int_equal(pmemfs_mount(m, NULL, &fs, &why), 0);
	assert_string_equal(media_kernel_name(m, 4096), "clflush");
	assert_int_equal(pmemfs_unmount(fs), 0);
	close_anonymous(m);
}

/*
 * A crash while it measures, or rather at each of its fences: the medium as it is then mounts,
 * has its file, and nothing wrong with it.
 */
static struct {
	char *copy[8];
	unsigned n;
} crash;

static void copy_at_fence(void *arg, enum media_event ev, uint64_t off, const void *bytes,
			  size_t len)
{
	struct media *m = arg;

	if (ev != MEDIA_EV_FENCE)
		return;
	assert_true(crash.n < ARRAY_LEN(crash.copy));
	crash.copy[crash.n] =
	    mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(crash.copy[crash.n++], m->base, SIZE);
}

static void test_crash(void **state)
{
	const struct pmemfs_calibrate_options o = {.budget_ns = 20000000};
	struct pmemfs_check_options check = {.fix = PMEMFS_FIX_SAFE, .force = true};
	struct pmemfs_check_result result;
	struct media *m = open_anonymous(), *copy;
	struct pmemfs_attr a;
	struct pmemfs *fs;
	const char *why;

	format(m);
	assert_int_equal(pmemfs_mount(m, NULL, &fs, &why), 0);
	assert_int_equal(
	    pmemfs_make(fs, 1, "f", S_IFREG | 0600, 0, 0, NULL, &(struct pmemfs_cred){0}, &a),
	    0);
	assert_int_equal(pmemfs_unmount(fs), 0);
	media_set_hook(m, copy_at_fence, m);
	assert_int_equal(pmemfs_calibrate(m, &o, NULL, &why), 0);
	media_set_hook(m, NULL, NULL);
	assert_int_equal(crash.n, 5); /* mark: 2, free list, table: 2 */
	for (unsigned i = 0; i < crash.n; i++) {
		assert_int_equal(media_open_memory(crash.copy[i], SIZE, 0, &copy), 0);
		assert_int_equal(pmemfs_check(copy, &check, &result), 0);
		assert_int_equal(result.problems, 0);
		assert_int_equal(result.files, 1);
		assert_int_equal(pmemfs_mount(copy, NULL, &fs, &why), 0);
		assert_int_equal(pmemfs_lookup(fs, 1, "f", &a), 0);
		assert_int_equal(pmemfs_unmount(fs), 0);
		assert_int_equal(pmemfs_check(copy, &check, &result), 0);
		assert_int_equal(result.problems, 0);
		close_anonymous(copy);
	}
	close_anonymous(m);
}

/* A full filesystem has no place to measure in; that is said, and nothing is lost. */
static void test_full(void **state)
{
	const struct pmemfs_calibrate_options o = {.budget_ns = 10000000};
	struct pmemfs_check_options check = {.fix = PMEMFS_FIX_SAFE, .force = true};
	struct pmemfs_check_result result;
	struct media *m = open_anonymous();
	struct pmemfs_attr a;
	struct pmemfs *fs;
	const char *why = "";
	char *buf = calloc(1, 1 << 20);
	uint64_t off = 0;
	ssize_t n;

	format(m);
	assert_int_equal(pmemfs_mount(m, NULL, &fs, &why), 0);
	assert_int_equal(
	    pmemfs_make(fs, 1, "f", S_IFREG | 0600, 0, 0, NULL, &(struct pmemfs_cred){0}, &a),
	    0);
	for (size_t size = 1 << 20; size >= 4096; size /= 2)
		while ((n = pmemfs_write(fs, a.ino, off, buf, size, 0)) > 0)
			off += n;
	assert_int_equal(pmemfs_unmount(fs), 0);
	assert_int_equal(pmemfs_calibrate(m, &o, NULL, &why), -ENOSPC);
	assert_non_null(strstr(why, "free space"));
	assert_int_equal(pmemfs_check(m, &check, &result), 0);
	assert_int_equal(result.problems, 0);
	free(buf);
	close_anonymous(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_borders),	   cmocka_unit_test(test_clwb_from_1k),
	    cmocka_unit_test(test_clear_win_only), cmocka_unit_test(test_half_is_not_most),
	    cmocka_unit_test(test_writers),	   cmocka_unit_test(test_repeats_simulated),
	    cmocka_unit_test(test_limits),	   cmocka_unit_test(test_real),
	    cmocka_unit_test(test_fault),	   cmocka_unit_test(test_stored),
	    cmocka_unit_test(test_foreign),	   cmocka_unit_test(test_crash),
	    cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests_name("calibrate", tests, NULL, NULL);
}
