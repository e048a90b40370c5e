/* SPDX-License-Identifier: BSD-3-Clause */
/* What is done to devices and files besides filesystem operations. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "vmx.h"

#define HUGE_PAGE (2ul << 20)
#define BLOCK	  4096

/* 2 MiB of a device at an offset that is a multiple of them. */
static char *map_huge(const char *device, off_t off, int prot)
{
	int fd = open(device, prot & PROT_WRITE ? O_RDWR : O_RDONLY);
	char *p = MAP_FAILED;

	if (fd >= 0)
		p = mmap(NULL, HUGE_PAGE, prot, MAP_SHARED, fd, off);
	if (p != MAP_FAILED)
		return p;
	perror(device);
	exit(1);
}

/* Another program that has the device mapped, and reads it, for so long. */
int map_main(int argc, char **argv)
{
	char *p;
	unsigned sum = 0;

	if (argc != 3)
		return 2;
	p = map_huge(argv[1], 0, PROT_READ);
	for (size_t i = 0; i < HUGE_PAGE; i += 64)
		sum += (unsigned char)p[i];
	printf("mapped (%u)\n", sum);
	sleep(atoi(argv[2]));
	return 0;
}

static void told(int sig)
{
	static const char text[] = "SIGBUS, as it should be\n";

	_exit(write(STDOUT_FILENO, text, sizeof(text) - 1) < 0);
}

/* Has the kernel treat a range of the device as memory with errors. */
int poison_main(int argc, char **argv)
{
	off_t off;
	char *p;

	if (argc != 4)
		return 2;
	off = strtoll(argv[2], NULL, 0);
	p = map_huge(argv[1], off / HUGE_PAGE * HUGE_PAGE, PROT_READ | PROT_WRITE);
	p += off % HUGE_PAGE;
	/* The kernel tells whoever maps the page with SIGBUS, this process at once. */
	signal(SIGBUS, told);
	*(volatile char *)p;
	if (madvise(p, strtoul(argv[3], NULL, 0), MADV_HWPOISON)) {
		perror("madvise");
		return 1;
	}
	puts("no SIGBUS");
	return 1;
}

/* Whether the file can be mapped so that a flush is all that durability needs. */
int mapsync_main(int argc, char **argv)
{
	int fd;
	void *p;

	if (argc != 2)
		return 2;
	fd = open(argv[1], O_RDWR);
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
	if (p == MAP_FAILED) {
		perror("MAP_SYNC");
		return 1;
	}
	puts("MAP_SYNC works");
	return 0;
}

/* Where on its block device the byte of a file is. */
static long long physical(int fd, long long off)
{
	union {
		struct fiemap map;
		char room[sizeof(struct fiemap) + sizeof(struct fiemap_extent)];
	} f = {.map = {.fm_start = off, .fm_length = 1, .fm_extent_count = 1}};
	const struct fiemap_extent *e = f.map.fm_extents;

	if (ioctl(fd, FS_IOC_FIEMAP, &f) || f.map.fm_mapped_extents != 1) {
		perror("FIEMAP");
		exit(1);
	}
	return e->fe_physical + (off - e->fe_logical);
}

/*
 * Where the medium (a device of that size, or an image file) has the block of the file that
 * begins at OFFSET: prints that, and for an image the place on the block device below.
 */
int locate_main(int argc, char **argv)
{
	char want[BLOCK];
	struct stat st;
	size_t size;
	int fd, from;
	char *p;

	if (argc != 5)
		return 2;
	from = open(argv[3], O_RDONLY);
	if (from < 0 || pread(from, want, BLOCK, strtoll(argv[4], NULL, 0)) != BLOCK) {
		perror(argv[3]);
		return 1;
	}
	size = strtoul(argv[2], NULL, 0);
	fd = open(argv[1], O_RDONLY);
	p = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED || fstat(fd, &st)) {
		perror(argv[1]);
		return 1;
	}
	for (size_t off = 0; off < size; off += BLOCK) {
		if (memcmp(p + off, want, BLOCK))
			continue;
		printf("%zu", off);
		if (S_ISREG(st.st_mode))
			printf(" %lld", physical(fd, off));
		putchar('\n');
		return 0;
	}
	fprintf(stderr, "the block is not there\n");
	return 1;
}

/* One reading of the file; returns how many pieces could not be read. */
static int read_pieces(int fd, char *buf, size_t chunk, long long size)
{
	int bad = 0;

	for (long long off = 0; off < size; off += chunk) {
		if (pread(fd, buf, chunk, off) >= 0)
			continue;
		printf("%lld %zu %s\n", off, chunk, strerrorname_np(errno));
		bad++;
	}
	return bad;
}

/*
 * Reads a file in pieces, past the page cache, and prints those that cannot be read: "OFFSET
 * LENGTH ERROR" a line. With a number of seconds, again and again until there is one.
 */
int readx_main(int argc, char **argv)
{
	time_t end;
	size_t chunk;
	struct stat st;
	char *buf;
	int fd;

	if (argc < 3)
		return 2;
	end = time(NULL) + (argc > 3 ? atoi(argv[3]) : 0);
	chunk = strtoul(argv[2], NULL, 0);
	fd = open(argv[1], O_RDONLY | O_DIRECT);
	if (fd < 0 || fstat(fd, &st) || posix_memalign((void **)&buf, BLOCK, chunk)) {
		perror(argv[1]);
		return 1;
	}
	while (!read_pieces(fd, buf, chunk, st.st_size) && time(NULL) < end)
		;
	return 0;
}
