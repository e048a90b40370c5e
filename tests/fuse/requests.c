/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which FUSE requests, and how many fences, an operation on a mounted pmemfs causes: one line
 * for each operation, in the order in which they are made, for they share files and caches.
 *
 *	requests MOUNTPOINT
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "control.h"
#include "opcodes.h"

#define MIB (1 << 20)

static int root, fd, direct;
static char *block; /* page-aligned, 1 MiB */

#define DO(call)                                                        \
	do {                                                            \
		if ((intptr_t)(call) == -1)                             \
			err(1, "%s:%d: %s", __func__, __LINE__, #call); \
	} while (0)

static int open_again(const char *name, int flags)
{
	int r = openat(root, name, flags, 0644);

	DO(r);
	return r;
}

static void create_and_write(const char *name)
{
	int f = open_again(name, O_CREAT | O_EXCL | O_WRONLY);

	DO(write(f, block, 4096));
	DO(close(f));
}

/* ---- the operations ---- */

static void create(void)
{
	fd = open_again("f", O_CREAT | O_EXCL | O_RDWR);
}
static void first_write(void)
{
	DO(pwrite(fd, block, 4096, 0));
}
static void small_write(void)
{
	DO(pwrite(fd, block, 100, 50));
}
static void append(void)
{
	DO(pwrite(fd, block, 4096, 4096));
}
static void large_write(void)
{
	DO(pwrite(fd, block, MIB, 0));
}
static void read_own(void)
{
	DO(pread(fd, block, 4096, 0));
}
static void do_fsync(void)
{
	DO(fsync(fd));
}
static void do_fdatasync(void)
{
	DO(fdatasync(fd));
}
static void drop_and_read(void)
{
	DO(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	DO(pread(fd, block, MIB, 0));
}
static void read_again(void)
{
	DO(pread(fd, block, MIB, 0));
}
static void stat_it(void)
{
	struct stat st;

	DO(fstatat(root, "f", &st, 0));
}
static void stat_fd(void)
{
	struct stat st;

	DO(fstat(fd, &st));
}
static void look_for_none(void)
{
	if (faccessat(root, "none", F_OK, 0) == 0 || errno != ENOENT)
		errx(1, "none exists");
}
static void close_it(void)
{
	DO(close(fd));
}
static void open_close(void)
{
	DO(close(open_again("f", O_RDONLY)));
}
static void open_read_close(void)
{
	int f = open_again("f", O_RDONLY);

	DO(read(f, block, 4096));
	DO(close(f));
}
static void open_truncate(void)
{
	DO(close(open_again("f", O_WRONLY | O_TRUNC)));
}
static void write_new(void)
{
	create_and_write("new");
}
static void write_known(void)
{
	create_and_write("none");
}
static void open_direct(void)
{
	direct = open_again("new", O_RDWR | O_DIRECT);
}
static void write_direct(void)
{
	DO(pwrite(direct, block, 4096, 0));
}
static void read_direct(void)
{
	DO(pread(direct, block, 4096, 0));
}
static void close_direct(void)
{
	DO(close(direct));
}
static void make_dir(void)
{
	DO(mkdirat(root, "d", 0755));
}
static void rename_it(void)
{
	DO(renameat(root, "new", root, "renamed"));
}
static void rename_over(void)
{
	DO(renameat(root, "renamed", root, "none"));
}
static void link_it(void)
{
	DO(linkat(root, "none", root, "link", 0));
}
static void unlink_it(void)
{
	DO(unlinkat(root, "link", 0));
}
static void remove_dir(void)
{
	DO(unlinkat(root, "d", AT_REMOVEDIR));
}
static void make_symlink(void)
{
	DO(symlinkat("f", root, "s"));
}
static void read_symlink(void)
{
	char target[16];

	DO(readlinkat(root, "s", target, sizeof(target)));
}
static void change_mode(void)
{
	DO(fchmodat(root, "f", 0600, 0));
}
static void change_times(void)
{
	DO(utimensat(root, "f", NULL, 0));
}
static void truncate_it(void)
{
	int f = openat(root, ".", O_RDONLY);

	DO(fchdir(f));
	DO(truncate("f", 5000));
	DO(close(f));
}
static void set_attribute(void)
{
	DO(fsetxattr(fd, "user.a", "b", 1, 0));
}
static void get_attribute(void)
{
	char value[8];

	DO(fgetxattr(fd, "user.a", value, sizeof(value)));
}
static void write_after_stat(void)
{
	stat_fd();
	small_write();
}
static void allocate(void)
{
	DO(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, MIB));
}
static void seek_data(void)
{
	DO(lseek(fd, 0, SEEK_DATA));
}
static void copy_range(void)
{
	loff_t in = 0, out = 65536;

	DO(copy_file_range(fd, &in, fd, &out, 4096, 0));
}
static void map_and_change(void)
{
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	DO(p);
	p[0]++;
	DO(msync(p, 4096, MS_SYNC));
	DO(munmap(p, 4096));
}
static void space(void)
{
	struct statvfs v;

	DO(fstatvfs(root, &v));
}
static void listed(const char *name)
{
	DIR *d = fdopendir(open_again(name, O_RDONLY | O_DIRECTORY));

	if (!d)
		err(1, "opendir");
	while (readdir(d))
		;
	closedir(d);
}
static void list_dir(void)
{
	listed("many");
}
static void list_and_stat(void)
{
	DIR *d = fdopendir(open_again("many", O_RDONLY | O_DIRECTORY));
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d)))
		DO(fstatat(dirfd(d), e->d_name, &st, 0));
	closedir(d);
}
static void make_many(void)
{
	char name[32];

	DO(mkdirat(root, "many", 0755));
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "many/%d", i);
		DO(close(open_again(name, O_CREAT | O_WRONLY)));
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} steps[] = {
    {"create a file", create},
    {"its first write", first_write},
    {"overwrite 4 KiB", first_write},
    {"overwrite 100 bytes", small_write},
    {"append 4 KiB", append},
    {"write 1 MiB", large_write},
    {"read what was written", read_own},
    {"fsync, the first ever", do_fsync},
    {"fsync", do_fsync},
    {"fdatasync", do_fdatasync},
    {"stat after a write", stat_it},
    {"stat", stat_it},
    {"fstat", stat_fd},
    {"write after a stat", write_after_stat},
    {"read 1 MiB, not cached", drop_and_read},
    {"read it again", read_again},
    {"close", close_it},
    {"open and close", open_close},
    {"open, read, close", open_read_close},
    {"a name that is not there", look_for_none},
    {"the same again", look_for_none},
    {"create, write, close", write_new},
    {"the same, known not to exist", write_known},
    {"open O_DIRECT", open_direct},
    {"write 4 KiB O_DIRECT", write_direct},
    {"the same again", write_direct},
    {"read 4 KiB O_DIRECT", read_direct},
    {"close it", close_direct},
    {"mkdir", make_dir},
    {"rename", rename_it},
    {"rename over a file", rename_over},
    {"link", link_it},
    {"unlink", unlink_it},
    {"rmdir", remove_dir},
    {"symlink", make_symlink},
    {"readlink", read_symlink},
    {"readlink again", read_symlink},
    {"chmod", change_mode},
    {"set times to now", change_times},
    {"open O_TRUNC", open_truncate},
    {"truncate", truncate_it},
    {"statfs", space},
    {"make 100 files", make_many},
    {"list 100 files", list_dir},
    {"list them again", list_dir},
    {"list and stat them", list_and_stat},
    {"open for what follows", create},
    {"setxattr", set_attribute},
    {"getxattr", get_attribute},
    {"fallocate", allocate},
    {"write", first_write},
    {"SEEK_DATA", seek_data},
    {"copy_file_range", copy_range},
    {"change by mmap, msync", map_and_change},
    {"close", close_it},
};

/* ---- counting ---- */

static void sample(struct control_stats *s)
{
	if (ioctl(root, PMEMFS_IOC_STATS, s) < 0)
		err(1, "PMEMFS_IOC_STATS");
}

/* What is asked for whenever the kernel likes. */
static int counts(unsigned opcode)
{
	return strcmp(opcode_name(opcode), "FORGET") != 0 &&
	       strcmp(opcode_name(opcode), "BATCH_FORGET") != 0 &&
	       strcmp(opcode_name(opcode), "IOCTL") != 0;
}

static uint64_t sum(const struct control_stats *s)
{
	uint64_t n = s->fences;

	for (unsigned i = 0; i < CONTROL_OPCODES; i++)
		n += counts(i) ? s->count[i] : 0;
	return n;
}

/* Closing is told to the daemon without waiting: until nothing has come for a while. */
static void settle(struct control_stats *s)
{
	uint64_t last;
	int quiet = 0;

	sample(s);
	while (quiet < 4) {
		last = sum(s);
		usleep(2000);
		sample(s);
		quiet = sum(s) == last ? quiet + 1 : 0;
	}
}

static void print(const char *name, const struct control_stats *a,
		  const struct control_stats *b)
{
	printf("%s:", name);
	for (unsigned i = 0; i < CONTROL_OPCODES; i++)
		if (counts(i) && b->count[i] != a->count[i])
			printf(" %s %llu", opcode_name(i),
			       (unsigned long long)(b->count[i] - a->count[i]));
	if (b->fences != a->fences)
		printf(" (%llu fences)", (unsigned long long)(b->fences - a->fences));
	putchar('\n');
}

int main(int argc, char **argv)
{
	struct control_stats before, after;

	if (argc != 2)
		errx(2, "usage: requests MOUNTPOINT");
	block = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	DO(block);
	memset(block, 'x', MIB);
	root = open(argv[1], O_RDONLY | O_DIRECTORY);
	DO(root);
	settle(&before);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (strcmp(steps[i].name, "open for what follows") == 0) {
			DO(unlinkat(root, "f", 0));
			settle(&before);
		}
		steps[i].run();
		settle(&after);
		print(steps[i].name, &before, &after);
		before = after;
	}
	return 0;
}
