/* SPDX-License-Identifier: BSD-3-Clause */
/* The media layer: opening, locking, bounds, counts, shadow copies. Faults: test_guard.c. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "hash.h"
#include "media.h"
#include "media_impl.h"

#define SIZE (1u << 20)

static char dir[] = "media-test-XXXXXX"; /* in the working directory */

static int enter(void **state)
{
	return mkdtemp(dir) && !chdir(dir) ? 0 : -1;
}

static int leave(void **state)
{
	return !chdir("..") && !rmdir(dir) ? 0 : -1;
}

/* A file of that size, filled from the seed, or sparse if that is 0. */
static void make_file(const char *name, size_t size, uint64_t seed)
{
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	if (seed) {
		void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		assert_true(p != MAP_FAILED);
		unit_fill(p, size, seed);
		munmap(p, size);
	}
	close(fd);
}

static struct media *open_ok(const char *path, unsigned flags)
{
	const char *why = NULL;
	struct media *m = NULL;
	int r = media_open(path, flags, &m, &why);

	if (r)
		fail_msg("%s: %s (%d)", path, why, r);
	return m;
}

static void open_fails(const char *path, unsigned flags, int error, const char *words)
{
	struct media *m = NULL;
	const char *why = NULL;
	int r = media_open(path, flags, &m, &why);

	if (r != error)
		fail_msg("%s: %d instead of %d", path, r, error);
	assert_null(m);
	assert_non_null(why);
	if (!strstr(why, words))
		fail_msg("%s: \"%s\" does not say \"%s\"", path, why, words);
	assert_null(strstr(why, dir)); /* the caller names the path */
	assert_null(strchr(why, '\n'));
}

/* ---- kinds ---- */

static void test_kind_file(void **state)
{
	struct statfs fs;
	struct media *m;

	make_file("f", SIZE + 1000, 1);
	assert_int_equal(statfs("f", &fs), 0);
	m = open_ok("f", 0);
	assert_int_equal(media_size(m), SIZE);
	if (fs.f_type == TMPFS_MAGIC)
		assert_int_equal(media_kind(m), MEDIA_VOLATILE);
	else
		assert_true(media_kind(m) == MEDIA_FILE || media_kind(m) == MEDIA_FSDAX);
	assert_true(media_fd(m) >= 0);
	assert_false(media_readonly(m));
	assert_true((uintptr_t)media_ptr(m, 0, 1) % (2 << 20) == 0);
	media_store8(m, 4096, 77);
	media_flush(m, 4096, 8);
	assert_int_equal(media_fence(m), 0);
	assert_int_equal(media_sync(m), 0);
	media_close(m);
	unlink("f");
}

static void test_kind_memfd(void **state)
{
	int fd = memfd_create("media", 0);
	struct media *m;
	char path[40];

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	m = open_ok(path, 0);
	assert_int_equal(media_kind(m), MEDIA_VOLATILE);
	assert_string_equal(media_kind_name(media_kind(m)), "volatile");
	assert_int_equal(media_sync(m), 0);
	media_copy(m, 100, "abc", 3);
	media_close(m);
	assert_int_equal(pread(fd, path, 3, 100), 3);
	assert_memory_equal(path, "abc", 3);
	close(fd);
}

static void test_kind_hugetlb(void **state)
{
	int fd = memfd_create("media", MFD_HUGETLB);
	struct media *m = NULL;
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || ftruncate(fd, 2 << 20) ||
	    media_open(path, 0, &m, &(const char *){NULL})) {
		print_message("this machine has no huge pages set aside\n");
		skip();
	}
	assert_int_equal(media_kind(m), MEDIA_VOLATILE);
	media_copy(m, 0, "abc", 3);
	assert_int_equal(media_fence(m), 0);
	media_close(m);
	close(fd);
}

static void test_kind_memory(void **state)
{
	static char memory[8192] __attribute__((aligned(4096)));
	struct media *m = NULL;

	assert_int_equal(media_open_memory(memory + 8, 4096, 0, &m), -EINVAL);
	assert_int_equal(media_open_memory(memory, 4097, 0, &m), -EINVAL);
	assert_int_equal(media_open_memory(memory, 0, 0, &m), -EFBIG);
	assert_null(m);
	assert_int_equal(media_open_memory(memory, 8192, 0, &m), 0);
	assert_int_equal(media_kind(m), MEDIA_MEMORY);
	assert_int_equal(media_fd(m), -1);
	assert_int_equal(media_size(m), 8192);
	assert_ptr_equal(media_ptr(m, 0, 8192), memory);
	media_close(m);
	media_close(NULL);
}

/* ---- bad paths ---- */

static void test_bad_paths(void **state)
{
	make_file("empty", 0, 0);
	make_file("small", 4095, 0);
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_int_equal(symlink("loop", "loop"), 0);
	open_fails("nothing", 0, -ENOENT, "mkfs.pmemfs --size");
	open_fails(".", 0, -EISDIR, "directory");
	open_fails("fifo", 0, -EINVAL, "neither a DAX device nor a regular file");
	open_fails("fifo", MEDIA_READONLY, -EINVAL, "neither");
	open_fails("/dev/null", 0, -EINVAL, "not a DAX device");
	open_fails("empty", 0, -EFBIG, "4 KiB");
	open_fails("small", MEDIA_READONLY, -EFBIG, "4 KiB");
	open_fails("loop", 0, -ELOOP, "symbolic links");
	open_fails("empty/x", 0, -ENOTDIR, "opened");
	assert_int_equal(media_open("nothing", 0, &(struct media *){NULL}, NULL), -ENOENT);
	unlink("empty");
	unlink("small");
	unlink("fifo");
	unlink("loop");
}

static void test_bad_block_device(void **state)
{
	if (mknod("block", S_IFBLK | 0600, makedev(7, 255))) {
		print_message("block devices can only be made by root\n");
		skip();
	}
	open_fails("block", 0, -ENOTBLK, "-m devdax");
	unlink("block");
}

/* Runs f in a child, which passes by returning. */
static void in_child(void (*f)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		f();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* In a child an assertion of cmocka's would return into the parent's test: exit instead. */
#define CHILD_CHECK(condition)                                                          \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                       \
		}                                                                       \
	} while (0)

static void child_no_permission(void)
{
	struct media *m;
	const char *why = "";

	if (!geteuid() && setuid(65534))
		_exit(1);
	CHILD_CHECK(media_open("secret", 0, &m, &why) == -EACCES);
	CHILD_CHECK(strstr(why, "root"));
	CHILD_CHECK(media_open("public", 0, &m, &why) == -EACCES);
	CHILD_CHECK(media_open("public", MEDIA_READONLY, &m, &why) == 0);
}

static void test_no_permission(void **state)
{
	make_file("secret", 8192, 0);
	make_file("public", 8192, 0);
	assert_int_equal(chmod("secret", 0), 0);
	assert_int_equal(chmod("public", 0444), 0);
	/* both directories are searchable by the child */
	assert_int_equal(chmod(".", 0755), 0);
	in_child(child_no_permission);
	unlink("secret");
	unlink("public");
}

static void child_readonly_filesystem(void)
{
	struct media *m;
	const char *why = "";
	int fd;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", ".", "tmpfs", 0, "size=1m") || chdir("../") || chdir(dir))
		_exit(77);
	fd = open("f", O_RDWR | O_CREAT, 0600);
	CHILD_CHECK(fd >= 0 && ftruncate(fd, 65536) == 0);
	close(fd);
	CHILD_CHECK(mount(NULL, ".", NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
	CHILD_CHECK(media_open("f", 0, &m, &why) == -EROFS);
	CHILD_CHECK(strstr(why, "read-only filesystem"));
	CHILD_CHECK(media_open("f", MEDIA_SHADOW, &m, &why) == 0);
}

static void test_readonly_filesystem(void **state)
{
	in_child(child_readonly_filesystem);
}

/* ---- locks ---- */

#define BUSY "is in use (mounted, or being checked)"

static void test_lock(void **state)
{
	struct media *m, *other;

	make_file("f", SIZE, 0);
	m = open_ok("f", 0);
	open_fails("f", 0, -EBUSY, BUSY);
	open_fails("f", MEDIA_READONLY, -EBUSY, BUSY);
	open_fails("f", MEDIA_SHADOW, -EBUSY, BUSY);
	media_close(open_ok("f", MEDIA_NOLOCK));
	media_close(open_ok("f", MEDIA_NOLOCK | MEDIA_READONLY));
	open_fails("f", 0, -EBUSY, BUSY);
	media_close(m);
	m = open_ok("f", MEDIA_READONLY);
	other = open_ok("f", MEDIA_SHADOW);
	open_fails("f", 0, -EBUSY, BUSY);
	media_close(other);
	open_fails("f", 0, -EBUSY, BUSY);
	media_close(m);
	/* another name of the same file */
	assert_int_equal(link("f", "g"), 0);
	m = open_ok("f", 0);
	open_fails("g", 0, -EBUSY, BUSY);
	media_close(m);
	media_close(open_ok("g", 0));
	unlink("f");
	unlink("g");
}

/* A child that opens f, says so, and keeps it until it is killed or the time is over. */
static pid_t holder(unsigned ms)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct media *m;

		CHILD_CHECK(media_open("f", 0, &m, &(const char *){NULL}) == 0);
		CHILD_CHECK(write(ready[1], "x", 1) == 1);
		usleep(ms * 1000);
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void test_lock_processes(void **state)
{
	pid_t pid;

	make_file("f", SIZE, 0);
	pid = holder(60000);
	open_fails("f", 0, -EBUSY, BUSY);
	open_fails("f", MEDIA_SHADOW, -EBUSY, BUSY);
	kill(pid, SIGKILL); /* the lock goes with the process */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	media_close(open_ok("f", 0));
	unlink("f");
}

static void test_lock_wait(void **state)
{
	double start = seconds();
	pid_t pid;

	make_file("f", SIZE, 0);
	pid = holder(300);
	media_close(open_ok("f", MEDIA_WAIT));
	assert_true(seconds() - start >= 0.3);
	assert_int_equal(waitpid(pid, NULL, 0), pid);

	pid = holder(60000);
	start = seconds();
	open_fails("f", MEDIA_WAIT, -EBUSY, BUSY);
	assert_true(seconds() - start > 4.5);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	unlink("f");
}

/* ---- bounds, refusals ---------------------------------------------------------------------
 */

static void test_bounds(void **state)
{
	static const struct {
		uint64_t off;
		size_t len;
	} bad[] = {
	    {SIZE, 1},	     {SIZE - 1, 2},    {0, SIZE + 1},	{UINT64_MAX, 1},
	    {UINT64_MAX, 2}, {UINT64_MAX, 0},  {1, SIZE_MAX},	{64, SIZE_MAX - 63},
	    {1ull << 63, 8}, {SIZE, SIZE_MAX}, {SIZE + 64, 64}, {SIZE + 1, 0},
	};
	char buf[64] = "x";
	uint64_t hash = 42;
	struct media *m;

	make_file("f", SIZE, 6);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		uint64_t off = bad[i].off;
		size_t len = bad[i].len;

		m = open_ok("f", 0);
		assert_int_equal(media_read(m, off, buf, len), -ERANGE);
		assert_int_equal(media_hash(m, off, len, 0, &hash), -ERANGE);
		assert_null(media_ptr(m, off, len));
		assert_int_equal(media_fence(m), 0);
		media_copy(m, off, buf, len);
		assert_int_equal(media_fence(m), len ? -EIO : 0);
		media_close(m);
		m = open_ok("f", 0);
		media_clear(m, off, len);
		assert_int_equal(media_fence(m), len ? -EIO : 0);
		media_flush(m, off, len);
		media_close(m);
	}
	assert_int_equal(hash, 42);
	m = open_ok("f", 0);
	assert_int_equal(media_read(m, SIZE, buf, 0), 0);
	assert_int_equal(media_read(m, SIZE - 64, buf, 64), 0);
	assert_int_equal(media_hash(m, 0, SIZE, 0, &hash), 0);
	assert_int_equal(hash, hash64(media_ptr(m, 0, SIZE), SIZE, 0));
	media_copy(m, SIZE, buf, 0);
	media_copy(m, SIZE - 1, buf, 1);
	media_store8(m, SIZE - 8, 1);
	assert_int_equal(media_fence(m), 0);
	media_store8(m, SIZE, 1);
	assert_int_equal(media_fence(m), -EIO);
	media_close(m);
	m = open_ok("f", 0);
	media_store8(m, 12, 1); /* not aligned */
	assert_int_equal(media_fence(m), -EIO);
	media_close(m);
	unlink("f");
}

static void test_readonly(void **state)
{
	uint64_t before, after;
	struct media *m;

	make_file("f", SIZE, 7);
	m = open_ok("f", MEDIA_READONLY);
	assert_true(media_readonly(m));
	assert_int_equal(media_hash(m, 0, SIZE, 0, &before), 0);
	assert_int_equal(media_fence(m), 0);
	media_flush(m, 0, 64);
	assert_int_equal(media_sync(m), 0);
	media_copy(m, 0, "abc", 3);
	assert_int_equal(media_fence(m), -EIO);
	media_clear(m, 0, 4096);
	media_store8(m, 8, 1);
	assert_int_equal(media_hash(m, 0, SIZE, 0, &after), 0);
	assert_int_equal(before, after);
	media_close(m);
	unlink("f");
}

/* ---- shadow ---- */

/* A random store or load, on the medium and on what it should be. */
static void shadow_step(struct media *m, unsigned char *expected, uint64_t *seed)
{
	uint64_t off = unit_random(seed) % SIZE, hash;
	size_t len = unit_random(seed) % MIN(SIZE - off + 1, 20000u);
	static unsigned char buf[20000];

	switch (unit_random(seed) % 5) {
	case 0:
		unit_fill(buf, len, off);
		media_copy(m, off, buf, len);
		memcpy(expected + off, buf, len);
		break;
	case 1:
		media_clear(m, off, len);
		memset(expected + off, 0, len);
		break;
	case 2:
		off &= ~7ull;
		media_store8(m, off, hash = unit_random(seed));
		memcpy(expected + off, &hash, 8);
		break;
	case 3:
		assert_int_equal(media_read(m, off, buf, len), 0);
		assert_memory_equal(buf, expected + off, len);
		break;
	case 4:
		assert_int_equal(media_hash(m, off, len, off, &hash), 0);
		assert_true(hash == hash64(expected + off, len, off));
		break;
	}
	assert_int_equal(media_fence(m), 0);
}

static void test_shadow(void **state)
{
	unsigned char *expected = malloc(SIZE);
	uint64_t before, after, seed = 9;
	struct media *m, *plain;
	char c;

	make_file("f", SIZE, 8);
	plain = open_ok("f", MEDIA_READONLY);
	m = open_ok("f", MEDIA_SHADOW);
	assert_int_equal(media_hash(plain, 0, SIZE, 0, &before), 0);
	assert_int_equal(media_read(m, 0, expected, SIZE), 0);

	media_copy(m, 5000, "abc", 3);
	memcpy(expected + 5000, "abc", 3);
	assert_null(media_ptr(m, 4096, 4096));
	assert_null(media_ptr(m, 0, 4097));
	assert_non_null(media_ptr(m, 0, 4096));
	assert_non_null(media_ptr(m, 8192, SIZE - 8192));
	assert_int_equal(media_read(m, 5002, &c, 1), 0);
	assert_int_equal(c, 'c');
	for (int i = 0; i < 3000; i++)
		shadow_step(m, expected, &seed);
	assert_int_equal(media_sync(m), 0);
	assert_int_equal(media_hash(plain, 0, SIZE, 0, &after), 0);
	assert_true(before == after);
	media_close(m);

	m = open_ok("f", MEDIA_SHADOW); /* the copies went with the other one */
	assert_int_equal(media_hash(m, 0, SIZE, 0, &after), 0);
	assert_true(before == after);
	media_copy(m, SIZE - 1, "ab", 2);
	assert_int_equal(media_fence(m), -EIO);
	media_close(m);
	media_close(plain);
	free(expected);
	unlink("f");
}

/* ---- counts ---- */

static struct media *open_memory(void)
{
	static char memory[SIZE] __attribute__((aligned(4096)));
	struct media *m;

	assert_int_equal(media_open_memory(memory, SIZE, 0, &m), 0);
	return m;
}

static void expect_counts(struct media *m, struct media_counts expected)
{
	struct media_counts c;

	media_count(m, &c);
	assert_int_equal(c.fences, expected.fences);
	assert_int_equal(c.flushes, expected.flushes);
	assert_int_equal(c.nt_lines, expected.nt_lines);
	assert_int_equal(c.stores8, expected.stores8);
	assert_int_equal(c.bytes, expected.bytes);
}

static void test_counts(void **state)
{
	struct media *m = open_memory();
	struct media_counts c = {0};
	static char buf[4096];

	expect_counts(m, c);
	media_copy(m, 4096, buf, 4096); /* lines written back */
	c.flushes += 64, c.bytes += 4096;
	expect_counts(m, c);
	media_copy(m, 0, buf, 64); /* one line, non-temporal */
	c.nt_lines += 1, c.bytes += 64;
	expect_counts(m, c);
	media_copy(m, 8, buf, 48); /* a part of a line */
	c.flushes += 1, c.bytes += 48;
	expect_counts(m, c);
	media_clear(m, 60, 100); /* head, line, tail */
	c.flushes += 2, c.nt_lines += 1, c.bytes += 100;
	expect_counts(m, c);
	media_copy(m, 8192 - 1, buf, 800); /* head, 12 lines and a tail, all written back */
	c.flushes += 14, c.bytes += 800;
	expect_counts(m, c);
	media_store8(m, 64, 1);
	c.stores8 += 1, c.bytes += 8;
	expect_counts(m, c);
	media_flush(m, 64, 8);
	c.flushes += 1;
	media_flush(m, 63, 2);
	c.flushes += 2;
	media_flush(m, 0, 0);
	assert_int_equal(media_fence(m), 0);
	c.fences += 1;
	media_copy(m, 0, buf, 0);
	media_clear(m, 0, 0);
	expect_counts(m, c);

	media_set_eadr(m, true);
	assert_true(media_eadr(m));
	media_copy(m, 1, buf, 4096);
	media_flush(m, 0, 64);
	c.bytes += 4096;
	expect_counts(m, c);
	media_close(m);
}

struct worker {
	struct media *m;
	uint64_t off;
	pthread_barrier_t *barrier; /* NULL: none */
	int slot;		    /* which counters it had */
	pthread_t thread;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	char buf[128] = "x";

	for (int i = 0; i < 100; i++) {
		media_copy(w->m, w->off, buf, 128);
		media_store8(w->m, w->off, i);
		media_flush(w->m, w->off, 8);
		media_fence(w->m);
	}
	w->slot = media_slot_index;
	if (w->barrier)
		pthread_barrier_wait(w->barrier);
	return NULL;
}

/* Returns how many had to share counters. */
static unsigned run_workers(struct media *m, unsigned n, bool together)
{
	struct worker *w = calloc(n, sizeof(*w));
	pthread_barrier_t barrier;
	pthread_attr_t attr;
	unsigned shared = 0;

	pthread_barrier_init(&barrier, NULL, n);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 << 10);
	for (unsigned i = 0; i < n; i++) {
		w[i] = (struct worker){m, i * 128, together ? &barrier : NULL};
		assert_int_equal(pthread_create(&w[i].thread, &attr, work, &w[i]), 0);
		if (!together)
			pthread_join(w[i].thread, NULL);
	}
	for (unsigned i = 0; together && i < n; i++)
		pthread_join(w[i].thread, NULL);
	for (unsigned i = 0; i < n; i++)
		shared += w[i].slot == 0;
	pthread_attr_destroy(&attr);
	pthread_barrier_destroy(&barrier);
	free(w);
	return shared;
}

/* Threads that come and go, and more at once than have counters of their own. */
static void test_counts_threads(void **state)
{
	static const struct {
		unsigned n;
		bool together;
	} runs[] = {{8, true}, {2000, false}, {MEDIA_SLOTS + 100, true}, {8, true}};
	struct media *m = open_memory(), *other;
	static char memory[4096] __attribute__((aligned(4096)));
	uint64_t n = 0;

	assert_int_equal(media_open_memory(memory, 4096, 0, &other), 0);
	for (size_t i = 0; i < 4; i++) {
		unsigned shared = run_workers(m, runs[i].n, runs[i].together);

		assert_int_equal(shared > 0, runs[i].n > MEDIA_SLOTS && runs[i].together);
		n += runs[i].n;
		expect_counts(m, (struct media_counts){n * 100, n * 100, n * 200, n * 100,
						       n * 100 * 136});
	}
	expect_counts(other, (struct media_counts){0});
	media_close(other);
	media_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_kind_file),	  cmocka_unit_test(test_kind_memfd),
	    cmocka_unit_test(test_kind_hugetlb),  cmocka_unit_test(test_kind_memory),
	    cmocka_unit_test(test_bad_paths),	  cmocka_unit_test(test_bad_block_device),
	    cmocka_unit_test(test_no_permission), cmocka_unit_test(test_readonly_filesystem),
	    cmocka_unit_test(test_lock),	  cmocka_unit_test(test_lock_processes),
	    cmocka_unit_test(test_lock_wait),	  cmocka_unit_test(test_bounds),
	    cmocka_unit_test(test_readonly),	  cmocka_unit_test(test_shadow),
	    cmocka_unit_test(test_counts),	  cmocka_unit_test(test_counts_threads),
	};

	return cmocka_run_group_tests_name("media", tests, enter, leave);
}
