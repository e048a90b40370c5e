/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of the medium: a file that is truncated under its mapping. Loads say -EIO, stores make
 * the media's error stick, and faults that are not the medium's go where they would have gone.
 */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copy.h"
#include "cpu.h"
#include "hash.h"
#include "media.h"
#include "media_impl.h"

#define SIZE (64u << 10)

static unsigned char buf[SIZE];

/* A memfd, opened as a medium. */
static struct media *open_memfd(unsigned flags, int *ret_fd)
{
	int fd = memfd_create("guard", 0);
	const char *why = NULL;
	struct media *m;
	char path[40];

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(media_open(path, flags, &m, &why), 0);
	*ret_fd = fd;
	return m;
}

static void test_loads(void **state)
{
	uint64_t hash = 42;
	int fd;
	struct media *m = open_memfd(0, &fd);

	unit_fill(buf, SIZE, 1);
	media_copy(m, 0, buf, SIZE);
	assert_int_equal(media_fence(m), 0);
	assert_int_equal(ftruncate(fd, 8192), 0);
	for (int i = 0; i < 100; i++) {
		static unsigned char got[SIZE];

		assert_int_equal(media_read(m, 8192, got, 1), -EIO);
		assert_int_equal(media_read(m, 8191, got, 2), -EIO);
		assert_int_equal(media_read(m, 0, got, SIZE), -EIO);
		assert_int_equal(media_hash(m, 0, SIZE, 1, &hash), -EIO);
		assert_int_equal(media_hash(m, 9000, 16, 1, &hash), -EIO);
		assert_int_equal(hash, 42);
		assert_int_equal(media_read(m, 0, got, 8192), 0);
		assert_memory_equal(got, buf, 8192);
	}
	assert_int_equal(media_hash(m, 0, 8192, 1, &hash), 0);
	assert_true(hash == hash64(buf, 8192, 1));
	assert_int_equal(media_fence(m), 0); /* no store has failed */
	media_close(m);
	close(fd);
}

enum store { COPY, CLEAR, STORE8, FLUSH };

/* Makes one store that faults, after one that does not. */
static void faulting(const struct copy_kernel *k, enum store how, size_t off, size_t len)
{
	int fd;
	struct media *m = open_memfd(0, &fd);

	if (k)
		m->policy.small = m->policy.large = k;
	media_clear(m, 0, SIZE);
	assert_int_equal(media_fence(m), 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	media_copy(m, 0, buf, 4096);
	assert_int_equal(media_fence(m), 0);
	switch (how) {
	case COPY:
		media_copy(m, off, buf, len);
		break;
	case CLEAR:
		media_clear(m, off, len);
		break;
	case STORE8:
		media_store8(m, off, 1);
		break;
	case FLUSH:
		media_flush(m, off, len);
		break;
	}
	if (how == FLUSH && media_fence(m) == 0)
		goto out; /* an emulated CPU may do nothing for a flush */
	assert_int_equal(media_fence(m), -EIO);
	/* it sticks, although the pages are back and the next store is good */
	assert_int_equal(ftruncate(fd, SIZE), 0);
	media_copy(m, 0, buf, 64);
	assert_int_equal(media_fence(m), -EIO);
out:
	media_close(m);
	close(fd);
}

static void test_stores(void **state)
{
	faulting(NULL, STORE8, 4096, 8);
	faulting(NULL, FLUSH, 4096, 64);
	for (size_t len = 1; len < 16; len++) {
		faulting(NULL, COPY, 4096 + 17, len);
		faulting(NULL, CLEAR, 4096 + 17, len);
	}
}

/* Every kernel, on the border and beyond it, in head, body and tail. */
static void test_kernels(void **state)
{
	static const struct {
		size_t off, len;
	} ranges[] = {{4096, 64}, {4096, 4096}, {4000, 200},
		      {4095, 2},  {4095, 800},	{9000, 3000}};
	const struct copy_kernel *k;

	for (k = copy_kernels; k->name; k++)
		for (size_t i = 0; i < 6; i++) {
			if (k->needs & ~cpu_features())
				break;
			faulting(k, COPY, ranges[i].off, ranges[i].len);
			faulting(k, CLEAR, ranges[i].off, ranges[i].len);
		}
}

static void test_shadow(void **state)
{
	int fd;
	struct media *m = open_memfd(MEDIA_SHADOW | MEDIA_NOLOCK, &fd);

	assert_int_equal(ftruncate(fd, 4096), 0);
	media_copy(m, 8192, buf, 4096); /* a whole page needs nothing of the original */
	assert_int_equal(media_fence(m), 0);
	assert_int_equal(media_read(m, 8192, buf, 4096), 0);
	assert_int_equal(media_read(m, 8192, buf, 4097), -EIO);
	media_copy(m, 4096, buf, 1);
	assert_int_equal(media_fence(m), -EIO);
	media_close(m);
	close(fd);
}

/* ---- many at once ---- */

static void *many(void *arg)
{
	struct media *m = arg;
	unsigned char got[256];
	long wrong = 0;
	uint64_t hash;

	for (int i = 0; i < 2000; i++) {
		wrong += media_read(m, 0, got, 256) != 0;
		wrong += media_read(m, 8192, got, 256) != -EIO;
		wrong += media_hash(m, 8192, 256, 0, &hash) != -EIO;
		wrong += media_read(m, SIZE, got, 1) != -ERANGE;
		media_copy(m, 8192 + i, got, 256);
		wrong += media_fence(m) != -EIO;
	}
	return (void *)wrong;
}

static void test_threads(void **state)
{
	struct media *m[3];
	pthread_t thread[6];
	int fd[3];
	void *wrong;

	for (int i = 0; i < 3; i++) {
		m[i] = open_memfd(0, &fd[i]);
		assert_int_equal(ftruncate(fd[i], 4096), 0);
	}
	for (int i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, many, m[i % 3]), 0);
	/* others come and go meanwhile */
	for (int i = 0; i < 200; i++) {
		int other;
		struct media *o = open_memfd(0, &other);

		assert_int_equal(media_read(o, 0, buf, 4096), 0);
		media_close(o);
		close(other);
	}
	for (int i = 0; i < 6; i++) {
		pthread_join(thread[i], &wrong);
		assert_int_equal((long)wrong, 0);
	}
	for (int i = 0; i < 3; i++) {
		media_close(m[i]);
		close(fd[i]);
	}
}

/* ---- not ours ---- */

/* A page that faults and belongs to no medium. */
static volatile char *foreign_page(void)
{
	int fd = memfd_create("foreign", 0);

	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static sigjmp_buf foreign_target;

static void foreign_info(int sig, siginfo_t *info, void *context)
{
	siglongjmp(foreign_target, info->si_code == BUS_ADRERR ? 1 : 2);
}

static void foreign_plain(int sig)
{
	siglongjmp(foreign_target, 1);
}

/* Runs f with that SIGBUS handler in a child that then opens a medium; its wait status. */
static int in_child(const struct sigaction *sa, void (*f)(void))
{
	const struct sigaction deadly = {.sa_handler = SIG_DFL};
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		sigaction(SIGBUS, sa ? sa : &deadly, NULL);
		f();
		_exit(9);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void child_handled(void)
{
	volatile char *p = foreign_page();
	int fd;
	struct media *m = open_memfd(0, &fd);

	for (int i = 0; i < 3; i++) {
		int r = sigsetjmp(foreign_target, 1);

		if (!r) {
			*p = 1;
			_exit(8);
		}
		if (r != 1)
			_exit(7);
	}
	/* and the medium's are still its own */
	if (ftruncate(fd, 0) || media_read(m, 0, buf, 1) != -EIO)
		_exit(6);
	_exit(0);
}

/* The source of a copy is no part of the medium. */
static void child_source(void)
{
	volatile char *p = foreign_page();
	int fd;
	struct media *m = open_memfd(0, &fd);

	media_copy(m, 0, (const void *)(uintptr_t)p, 64);
}

/* Nor is it for the kernel whose one instruction loads and stores. */
static void child_source_movdir64b(void)
{
	const struct copy_kernel *k = copy_find("movdir64b");
	int fd = memfd_create("guard", 0);
	struct media *m;
	char *p;

	if (!k)
		raise(SIGBUS);
	if (ftruncate(fd, SIZE))
		_exit(5);
	/* the page after the medium is there, but not backed */
	p = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED || media_open_memory(p, SIZE, 0, &m))
		_exit(5);
	m->policy.small = m->policy.large = k;
	media_copy(m, 0, p + SIZE, 64);
}

static void child_touch(void)
{
	volatile char *p = foreign_page();
	int fd;

	open_memfd(0, &fd);
	*p = 1;
}

/* A pointer into the medium, used outside the guarded functions, is the caller's own risk. */
static void child_unguarded(void)
{
	int fd;
	struct media *m = open_memfd(0, &fd);
	volatile const char *p = media_ptr(m, 0, 1);

	if (ftruncate(fd, 0) || media_read(m, 0, buf, 1) != -EIO)
		_exit(5);
	(void)*p;
}

static void child_kill(void)
{
	int fd;

	open_memfd(0, &fd);
	raise(SIGBUS);
}

/* A machine check's signal, which comes with a system call that met poison, or on its own. */
static void machine_check(int code, const void *addr)
{
	siginfo_t info = {.si_signo = SIGBUS, .si_code = code};

	info.si_addr = (void *)(uintptr_t)addr;
	info.si_addr_lsb = 12;
	if (syscall(SYS_rt_sigqueueinfo, getpid(), SIGBUS, &info))
		_exit(4);
}

static void child_machine_check(void)
{
	int fd;
	struct media *m = open_memfd(0, &fd);

	machine_check(BUS_MCEERR_AO, media_ptr(m, 4096, 1));
	machine_check(BUS_MCEERR_AR, media_ptr(m, 4096, 1));
	if (media_read(m, 4096, buf, 4096) || ftruncate(fd, 0) ||
	    media_read(m, 4096, buf, 4096) != -EIO)
		_exit(5);
	_exit(0);
}

static void child_foreign_machine_check(void)
{
	int fd;

	open_memfd(0, &fd);
	machine_check(BUS_MCEERR_AR, buf);
}

static void test_machine_check(void **state)
{
	int status;

	assert_int_equal(in_child(NULL, child_machine_check), 0);
	status = in_child(NULL, child_foreign_machine_check);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void test_foreign(void **state)
{
	struct sigaction info = {.sa_sigaction = foreign_info, .sa_flags = SA_SIGINFO};
	struct sigaction plain = {.sa_handler = foreign_plain};
	void (*const deadly[])(void) = {child_source, child_source_movdir64b, child_touch,
					child_unguarded, child_kill};

	assert_int_equal(in_child(&info, child_handled), 0);
	assert_int_equal(in_child(&plain, child_handled), 0);
	for (size_t i = 0; i < sizeof(deadly) / sizeof(*deadly); i++) {
		int status = in_child(NULL, deadly[i]);

		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGBUS)
			fail_msg("child %zu: status %#x instead of SIGBUS", i, status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_foreign), cmocka_unit_test(test_machine_check),
	    cmocka_unit_test(test_loads),   cmocka_unit_test(test_stores),
	    cmocka_unit_test(test_kernels), cmocka_unit_test(test_shadow),
	    cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
