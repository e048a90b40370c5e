/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fsck.pmemfs on a terminal: it asks, and does what it is told.
 *
 * Usage: test_ask MKFS FSCK
 */
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/unit.h"
#include "format.h"

static const char *mkfs, *fsck;
static char image[64];

struct talk {
	pid_t pid;
	int fd;
	char said[16384];
	size_t n;
};

static void start(struct talk *t, const char *option)
{
	*t = (struct talk){0};
	t->pid = forkpty(&t->fd, NULL, NULL, NULL);
	assert_true(t->pid >= 0);
	if (t->pid)
		return;
	execl(fsck, "fsck.pmemfs", image, option, NULL);
	_exit(127);
}

/* Reads until the program says this, or (NULL) until it has said all. */
static void listen_for(struct talk *t, const char *text)
{
	size_t from = t->n;

	for (;;) {
		struct pollfd p = {.fd = t->fd, .events = POLLIN};
		ssize_t n;

		if (text && strstr(t->said + from, text))
			return;
		assert_int_equal(poll(&p, 1, 60000), 1);
		n = read(t->fd, t->said + t->n, sizeof(t->said) - 1 - t->n);
		if (n <= 0)
			break;
		t->n += (size_t)n;
		t->said[t->n] = 0;
	}
	if (text)
		fail_msg("did not say '%s' but: %s", text, t->said);
}

static void answer(struct talk *t, const char *line)
{
	listen_for(t, "<yes/no/all>?");
	assert_int_equal(write(t->fd, line, strlen(line)), strlen(line));
}

static int finish(struct talk *t)
{
	int status;

	listen_for(t, NULL);
	assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
	close(t->fd);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void flip(off_t off)
{
	int fd = open(image, O_RDWR);
	unsigned char byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, off), 1);
	byte ^= 0x55;
	assert_int_equal(pwrite(fd, &byte, 1, off), 1);
	close(fd);
}

/* Damages both the superblock and the room beside a table inode. */
static int setup(void **state)
{
	char command[512];

	snprintf(image, sizeof(image), "/dev/shm/pmemfs-ask-%d", (int)getpid());
	snprintf(command, sizeof(command), "'%s' -q --size 64M %s", mkfs, image);
	assert_int_equal(system(command), 0);
	flip(100);
	flip(PMEMFS_BLOCK_SIZE + 1200);
	return 0;
}

static int teardown(void **state)
{
	return unlink(image);
}

static void test_no(void **state)
{
	struct talk t;

	start(&t, "-v");
	answer(&t, "n\n");
	answer(&t, "no\n");
	assert_int_equal(finish(&t), 4);
	assert_non_null(strstr(t.said, "still has errors"));
	start(&t, "-v"); /* and they are still there */
	answer(&t, "n\n");
	answer(&t, "n\n");
	assert_int_equal(finish(&t), 4);
}

static void test_yes(void **state)
{
	struct talk t;

	start(&t, "-f");
	answer(&t, "what?\n"); /* is asked again */
	answer(&t, "\n");
	answer(&t, "Y\n");
	assert_int_equal(finish(&t), 1);
	assert_non_null(strstr(t.said, "FILE SYSTEM WAS MODIFIED"));
	start(&t, "-f");
	assert_int_equal(finish(&t), 0);
}

static void test_all(void **state)
{
	struct talk t;

	start(&t, "-f");
	answer(&t, "a\n");
	assert_int_equal(finish(&t), 1);
	start(&t, "-f");
	assert_int_equal(finish(&t), 0);
}

/* One repair refused: the other is made, the first stays. */
static void test_mixed(void **state)
{
	struct talk t;

	start(&t, "-f");
	answer(&t, "y\n");
	answer(&t, "n\n");
	assert_int_equal(finish(&t), 4);
	start(&t, "-f");
	answer(&t, "y\n");
	assert_int_equal(finish(&t), 1);
	assert_null(strstr(t.said, "superblock is damaged"));
}

static void test_cancel(void **state)
{
	struct talk t;

	start(&t, "-f");
	listen_for(&t, "<yes/no/all>?");
	assert_int_equal(write(t.fd, "\003", 1), 1); /* ^C */
	assert_int_equal(finish(&t), 32);
	start(&t, "-n");
	assert_int_equal(finish(&t), 4);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_no), TEST(test_yes), TEST(test_all), TEST(test_mixed), TEST(test_cancel),
	};

	if (argc != 3) {
		fprintf(stderr, "usage: test_ask MKFS FSCK\n");
		return 2;
	}
	mkfs = argv[1];
	fsck = argv[2];
	return cmocka_run_group_tests_name("ask", tests, NULL, NULL);
}
