/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same work on two filesystems, for a ratio. Prints "WHAT MICROSECONDS-PER-OPERATION" a
 * line. One process, one operation at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "vmx.h"

#define BIG   (8u << 20)
#define PIECE (256u << 10)
#define SMALL 4096u

static char block[PIECE];
static int files;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static const char *name_of(int i)
{
	static char name[32];

	snprintf(name, sizeof(name), "f%d", i);
	return name;
}

static int opened(const char *name, int flags)
{
	int fd = open(name, flags, 0644);

	check(fd >= 0, name);
	return fd;
}

/* Makes a file of 4 KiB, as mail, objects and source files are made. */
static int make_files(bool sync)
{
	for (int i = 0; i < files; i++) {
		int fd = opened(name_of(i), O_CREAT | O_EXCL | O_WRONLY);

		check(write(fd, block, SMALL) == SMALL, "write");
		check(!sync || fsync(fd) == 0, "fsync");
		close(fd);
	}
	return files;
}

static int make_synced(void)
{
	return make_files(true);
}

static int make_plain(void)
{
	return make_files(false);
}

static int append_synced(void)
{
	int fd = opened("log", O_CREAT | O_WRONLY | O_APPEND);

	for (int i = 0; i < 4 * files; i++) {
		check(write(fd, block, 500) == 500, "write");
		check(fdatasync(fd) == 0, "fdatasync");
	}
	close(fd);
	return 4 * files;
}

static int overwrite(bool sync)
{
	int fd = opened("big", O_RDWR);

	for (int i = 0; i < 4 * files; i++) {
		off_t off = (off_t)(i * 7919 % (BIG / SMALL)) * SMALL;

		check(pwrite(fd, block, SMALL, off) == SMALL, "pwrite");
		check(!sync || fdatasync(fd) == 0, "fdatasync");
	}
	close(fd);
	return 4 * files;
}

static int overwrite_synced(void)
{
	return overwrite(true);
}

static int overwrite_plain(void)
{
	return overwrite(false);
}

static int write_big(void)
{
	int fd = opened("big", O_CREAT | O_TRUNC | O_WRONLY);

	for (unsigned done = 0; done < BIG; done += PIECE)
		check(write(fd, block, PIECE) == PIECE, "write");
	check(fsync(fd) == 0, "fsync");
	close(fd);
	return BIG / PIECE;
}

static int read_big(void)
{
	int fd = opened("big", O_RDONLY);
	static char buf[PIECE];

	check(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise");
	for (unsigned done = 0; done < BIG; done += PIECE)
		check(read(fd, buf, PIECE) == PIECE, "read");
	close(fd);
	return BIG / PIECE;
}

static int rename_files(void)
{
	char to[40];

	for (int i = 0; i < files; i++) {
		snprintf(to, sizeof(to), "g%d", i);
		check(rename(name_of(i), to) == 0, "rename");
		check(rename(to, name_of(i)) == 0, "rename");
	}
	return 2 * files;
}

static int unlink_files(void)
{
	for (int i = 0; i < files; i++)
		check(unlink(name_of(i)) == 0, "unlink");
	return files;
}

static const struct work {
	const char *name;
	int (*fn)(void); /* returns the number of operations */
} works[] = {
    {"create-4K-fsync", make_synced},
    {"unlink", unlink_files},
    {"create-4K", make_plain},
    {"rename", rename_files},
    {"append-500-fdatasync", append_synced},
    {"write-256K", write_big},
    {"overwrite-4K-fdatasync", overwrite_synced},
    {"overwrite-4K", overwrite_plain},
    {"read-256K", read_big},
    {"unlink-again", unlink_files},
};

int bench_main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	files = atoi(argv[2]);
	check(chdir(argv[1]) == 0, argv[1]);
	memset(block, 'x', sizeof(block));
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
		double start = now();
		int n = works[i].fn();

		printf("%s %.1f\n", works[i].name, (now() - start) / n);
	}
	check(unlink("big") == 0 && unlink("log") == 0, "unlink");
	return 0;
}
