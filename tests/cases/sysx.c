/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * System calls that no shell command makes, for the cases beside this file: `sysx CALL ARG...`.
 *
 * Prints what the call returned, if it is of interest, and exits 0; when a call fails, prints
 * the name of its errno and exits 1; exits 2 when it was called wrongly. Nothing here knows
 * pmemfs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "ackload.h"

/* A failed call ends the program: the name of its errno is the result. */
static void __attribute__((noreturn)) fail(void)
{
	puts(strerrorname_np(errno));
	exit(1);
}

static long check(long result)
{
	if (result < 0)
		fail();
	return result;
}

static void __attribute__((noreturn, format(printf, 1, 2))) wrong(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
	exit(1);
}

struct word {
	const char *name;
	int value;
};

/* Adds up a comma-separated list of words. */
static int parse_words(const struct word *words, const char *list)
{
	char copy[256], *save = NULL;
	int sum = 0;

	snprintf(copy, sizeof(copy), "%s", list);
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		const struct word *p = words;

		while (p->name && strcmp(p->name, w))
			p++;
		if (!p->name) {
			fprintf(stderr, "sysx: unknown word '%s'\n", w);
			exit(2);
		}
		sum |= p->value;
	}
	return sum;
}

static const struct word open_words[] = {
    {"rdonly", O_RDONLY},	{"wronly", O_WRONLY},
    {"rdwr", O_RDWR},		{"creat", O_CREAT},
    {"excl", O_EXCL},		{"trunc", O_TRUNC},
    {"append", O_APPEND},	{"direct", O_DIRECT},
    {"directory", O_DIRECTORY}, {"nofollow", O_NOFOLLOW},
    {"path", O_PATH},		{"sync", O_SYNC},
    {"noatime", O_NOATIME},	{NULL, 0},
};

static const struct word fallocate_words[] = {
    {"alloc", 0},
    {"keep", FALLOC_FL_KEEP_SIZE},
    {"punch", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
    {"zero", FALLOC_FL_ZERO_RANGE},
    {"collapse", FALLOC_FL_COLLAPSE_RANGE},
    {"insert", FALLOC_FL_INSERT_RANGE},
    {NULL, 0},
};

static const struct word rename_words[] = {
    {"plain", 0},
    {"noreplace", RENAME_NOREPLACE},
    {"exchange", RENAME_EXCHANGE},
    {"whiteout", RENAME_WHITEOUT},
    {NULL, 0},
};

static const struct word xattr_words[] = {
    {"any", 0}, {"create", XATTR_CREATE}, {"replace", XATTR_REPLACE}, {NULL, 0}};

static int64_t number(const char *s)
{
	char *end;
	int64_t v = strtoll(s, &end, 0);
	static const char units[] = "KMGTP";
	const char *u = *end ? strchr(units, *end) : NULL;

	if (u)
		v <<= 10 * (u - units + 1);
	return v;
}

/* ---- files and names ----------------------------------------------------------------------
 */

/* open FLAGS FILE [MODE] */
static void cmd_open(char **a)
{
	check(open(a[1], parse_words(open_words, a[0]), a[2] ? strtoul(a[2], NULL, 8) : 0644));
}

/* rename FLAGS OLD NEW */
static void cmd_rename(char **a)
{
	check(renameat2(AT_FDCWD, a[1], AT_FDCWD, a[2], parse_words(rename_words, a[0])));
}

/* unlink, rmdir, mkdir PATH: the bare call, without what rm and mkdir check before */
static void cmd_unlink(char **a)
{
	check(unlink(a[0]));
}
static void cmd_rmdir(char **a)
{
	check(rmdir(a[0]));
}
static void cmd_mkdir(char **a)
{
	check(mkdir(a[0], 0755));
}

/* link OLD NEW */
static void cmd_link(char **a)
{
	check(link(a[0], a[1]));
}

/* links FILE PREFIX COUNT: COUNT more names for FILE */
static void cmd_links(char **a)
{
	char name[4096];

	for (long n = number(a[2]), i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s%ld", a[1], i);
		check(link(a[0], name));
	}
}

/* create PREFIX COUNT: COUNT empty files */
static void cmd_create(char **a)
{
	char name[4096];

	for (long n = number(a[1]), i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s%ld", a[0], i);
		close(check(open(name, O_CREAT | O_EXCL | O_WRONLY, 0644)));
	}
}

/* socket PATH */
static void cmd_socket(char **a)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = check(socket(AF_UNIX, SOCK_STREAM, 0));

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", a[0]);
	check(bind(fd, (struct sockaddr *)&sun, sizeof(sun)));
}

/* tmpfile DIR TEXT [NAME]: a file without a name, and then with one */
static void cmd_tmpfile(char **a)
{
	char proc[64];
	int fd = check(open(a[0], O_TMPFILE | O_RDWR, 0640));
	struct stat st;

	check(write(fd, a[1], strlen(a[1])));
	check(fstat(fd, &st));
	if (st.st_nlink != 0)
		wrong("nlink of a file without a name is %ju", (uintmax_t)st.st_nlink);
	if (!a[2])
		return;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	check(linkat(AT_FDCWD, proc, AT_FDCWD, a[2], AT_SYMLINK_FOLLOW));
	check(fstat(fd, &st));
	printf("nlink %ju size %jd\n", (uintmax_t)st.st_nlink, (intmax_t)st.st_size);
}

/* orphan FILE: makes it, unlinks it while open, and goes on using it */
static void cmd_orphan(char **a)
{
	static char out[100000], in[sizeof(out)];
	int fd = check(open(a[0], O_CREAT | O_EXCL | O_RDWR, 0600));
	struct stat st;

	memset(out, 'o', sizeof(out));
	check(write(fd, out, 50000));
	check(unlink(a[0]));
	if (access(a[0], F_OK) == 0)
		wrong("the name is still there");
	check(pwrite(fd, out + 50000, 50000, 50000));
	check(fchmod(fd, 0400));
	if (check(pread(fd, in, sizeof(in), 0)) != sizeof(in) || memcmp(in, out, sizeof(in)))
		wrong("reads something else than was written");
	check(ftruncate(fd, 123));
	check(fstat(fd, &st));
	printf("nlink %ju size %jd mode %o\n", (uintmax_t)st.st_nlink, (intmax_t)st.st_size,
	       st.st_mode & 07777);
}

/* orphan-hold FILE SECONDS: writes 1 MiB to it, unlinks it, prints "held", keeps it open */
static void cmd_orphan_hold(char **a)
{
	static char buf[1 << 20];
	int fd = check(open(a[0], O_CREAT | O_EXCL | O_RDWR, 0600));

	check(write(fd, buf, sizeof(buf)));
	check(unlink(a[0]));
	puts("held");
	fflush(stdout);
	sleep(atoi(a[1]));
}

union handle {
	struct file_handle h;
	char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
};

/* handle-of FILE: its handle, as type and hexadecimal digits */
static void cmd_handle_of(char **a)
{
	union handle u = {.h.handle_bytes = MAX_HANDLE_SZ};
	int mount_id;

	check(name_to_handle_at(AT_FDCWD, a[0], &u.h, &mount_id, 0));
	printf("%d:", u.h.handle_type);
	for (unsigned i = 0; i < u.h.handle_bytes; i++)
		printf("%02x", u.h.f_handle[i]);
	putchar('\n');
}

/* by-handle HANDLE DIR-ON-THE-MOUNT: opens it and prints its first line, or a directory's path
 */
static void cmd_by_handle(char **a)
{
	union handle u = {.h.handle_type = atoi(a[0])};
	const char *hex = strchr(a[0], ':') + 1;
	int dir = check(open(a[1], O_RDONLY | O_DIRECTORY)), fd;
	char line[4096] = "", proc[64];
	struct stat st;

	for (; hex[0] && hex[1]; hex += 2)
		sscanf(hex, "%2hhx", &u.h.f_handle[u.h.handle_bytes++]);
	fd = check(open_by_handle_at(dir, &u.h, O_RDONLY));
	check(fstat(fd, &st));
	if (S_ISDIR(st.st_mode)) {
		snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
		check(readlink(proc, line, sizeof(line) - 1));
		puts(line);
	} else {
		check(read(fd, line, sizeof(line) - 1));
		fputs(line, stdout);
	}
}

/* btime FILE: birth time in seconds */
static void cmd_btime(char **a)
{
	struct statx sx;

	check(statx(AT_FDCWD, a[0], AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &sx));
	if (!(sx.stx_mask & STATX_BTIME))
		wrong("no birth time");
	printf("%jd\n", (intmax_t)sx.stx_btime.tv_sec);
}

static struct timespec time_of(const char *word)
{
	struct timespec t = {0};
	char *nsec;

	if (!strcmp(word, "now"))
		return (struct timespec){.tv_nsec = UTIME_NOW};
	if (!strcmp(word, "omit"))
		return (struct timespec){.tv_nsec = UTIME_OMIT};
	t.tv_sec = strtoll(word, &nsec, 10);
	t.tv_nsec = *nsec ? strtol(nsec + 1, NULL, 10) : 0;
	return t;
}

/* utimens ATIME MTIME FILE: now, omit, or SECONDS[.NANOSECONDS], all nine digits */
static void cmd_utimens(char **a)
{
	struct timespec times[2] = {time_of(a[0]), time_of(a[1])};

	check(utimensat(AT_FDCWD, a[2], times, AT_SYMLINK_NOFOLLOW));
}

/* setxattr HOW FILE NAME VALUE | setxattr HOW FILE NAME =LENGTH */
static void cmd_setxattr(char **a)
{
	static char big[1 << 20];
	size_t len = strlen(a[3]);

	if (a[3][0] == '=') {
		len = number(a[3] + 1);
		memset(big, 'x', len);
	} else {
		memcpy(big, a[3], len);
	}
	check(lsetxattr(a[1], a[2], big, len, parse_words(xattr_words, a[0])));
}

/* getxattr FILE NAME SIZE: the length of the value, read into SIZE bytes (0: only asks) */
static void cmd_getxattr(char **a)
{
	static char big[1 << 20];

	printf("%ld\n", check(lgetxattr(a[0], a[1], big, number(a[2]))));
}

/* removexattr FILE NAME */
static void cmd_removexattr(char **a)
{
	check(lremovexattr(a[0], a[1]));
}

/* ---- contents -----------------------------------------------------------------------------
 */

/* fallocate MODE OFFSET LENGTH FILE */
static void cmd_fallocate(char **a)
{
	int fd = check(open(a[3], O_RDWR));

	check(fallocate(fd, parse_words(fallocate_words, a[0]), number(a[1]), number(a[2])));
}

/* fallocate-beyond OFFSET LENGTH FILE: ZERO_RANGE | KEEP_SIZE */
static void cmd_zero_keep(char **a)
{
	int fd = check(open(a[2], O_RDWR));

	check(fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, number(a[0]),
			number(a[1])));
}

/* seek data|hole OFFSET FILE */
static void cmd_seek(char **a)
{
	int fd = check(open(a[2], O_RDONLY));

	printf("%ld\n",
	       check(lseek(fd, number(a[1]), strcmp(a[0], "hole") ? SEEK_DATA : SEEK_HOLE)));
}

/* map FILE: its ranges of data as FROM-TO, in one line */
static void cmd_map(char **a)
{
	int fd = check(open(a[0], O_RDONLY));
	off_t at = 0;

	for (;;) {
		off_t data = lseek(fd, at, SEEK_DATA);

		if (data < 0 && errno == ENXIO)
			break;
		check(data);
		at = check(lseek(fd, data, SEEK_HOLE));
		printf("%jd-%jd ", (intmax_t)data, (intmax_t)at);
	}
	putchar('\n');
}

/* truncate SIZE FILE: ftruncate on an open file, so that errno is its own */
static void cmd_truncate(char **a)
{
	int fd = check(open(a[1], O_WRONLY));

	check(ftruncate(fd, number(a[0])));
}

/* pwrite OFFSET TEXT FILE */
static void cmd_pwrite(char **a)
{
	int fd = check(open(a[2], O_WRONLY | O_CREAT, 0644));

	if (check(pwrite(fd, a[1], strlen(a[1]), number(a[0]))) != (long)strlen(a[1]))
		wrong("short write");
}

/* append-many FILE PROCESSES LINES: concurrent O_APPEND writers of whole lines */
static void cmd_append_many(char **a)
{
	int processes = atoi(a[1]), lines = atoi(a[2]), status;

	for (int p = 0; p < processes; p++) {
		if (check(fork()) > 0)
			continue;
		int fd = check(open(a[0], O_WRONLY | O_CREAT | O_APPEND, 0644));
		for (int i = 0; i < lines; i++) {
			char line[64];
			int n = snprintf(line, sizeof(line), "process %d line %d\n", p, i);

			if (write(fd, line, n) != n)
				fail();
		}
		exit(0);
	}
	while (wait(&status) > 0)
		if (status)
			wrong("a writer failed");
}

static void *aligned_buffer(size_t size)
{
	void *p = NULL;

	if (posix_memalign(&p, 4096, size))
		fail();
	return p;
}

/* direct-write FILE OFFSET LENGTH BYTE, direct-read the same: it checks every byte */
static void cmd_direct_write(char **a)
{
	size_t len = number(a[2]);
	char *buf = aligned_buffer(len);
	int fd = check(open(a[0], O_WRONLY | O_CREAT | O_DIRECT, 0644));

	memset(buf, a[3][0], len);
	if (check(pwrite(fd, buf, len, number(a[1]))) != (long)len)
		wrong("short write");
	free(buf);
}
static void cmd_direct_read(char **a)
{
	size_t len = number(a[2]);
	char *buf = aligned_buffer(len);
	int fd = check(open(a[0], O_RDONLY | O_DIRECT));
	long got = check(pread(fd, buf, len, number(a[1])));

	for (long i = 0; i < got; i++)
		if (buf[i] != a[3][0])
			wrong("byte %ld is 0x%02x", i, (unsigned char)buf[i]);
	printf("%ld\n", got);
	free(buf);
}

/* mmap-write FILE OFFSET TEXT: through a shared mapping of the whole file */
static void cmd_mmap_write(char **a)
{
	int fd = check(open(a[0], O_RDWR));
	struct stat st;
	char *p;

	check(fstat(fd, &st));
	p = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		fail();
	memcpy(p + number(a[1]), a[2], strlen(a[2]));
	check(msync(p, st.st_size, MS_SYNC));
	check(munmap(p, st.st_size));
}

/* mmap-read FILE OFFSET LENGTH */
static void cmd_mmap_read(char **a)
{
	int fd = check(open(a[0], O_RDONLY));
	struct stat st;
	char *p;

	check(fstat(fd, &st));
	p = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		fail();
	printf("%.*s\n", (int)number(a[2]), p + number(a[1]));
}

/* copy-range FROM OFFSET LENGTH TO OFFSET */
static void cmd_copy_range(char **a)
{
	int in = check(open(a[0], O_RDONLY)), out = check(open(a[3], O_WRONLY | O_CREAT, 0644));
	off_t from = number(a[1]), to = number(a[4]);
	long left = number(a[2]), n;

	while (left > 0 && (n = check(copy_file_range(in, &from, out, &to, left, 0))) > 0)
		left -= n;
	printf("%ld\n", left);
}

/* fsync, syncfs, fdatasync PATH */
static void cmd_fsync(char **a)
{
	check(fsync(check(open(a[0], O_RDONLY))));
}
static void cmd_fdatasync(char **a)
{
	check(fdatasync(check(open(a[0], O_RDONLY))));
}
static void cmd_syncfs(char **a)
{
	check(syncfs(check(open(a[0], O_RDONLY))));
}

/* ---- directories --------------------------------------------------------------------------
 */

/* What getdents64 fills in; glibc's readdir hides the size of the buffer. */
struct kernel_dirent {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

static void rename_anew(int dir, const char *name)
{
	static unsigned n;
	char to[64];

	snprintf(to, sizeof(to), "renamed-%u", n++);
	check(renameat(dir, name, dir, to));
}

/*
 * getdents DIR SIZE [remove|rename]: every name but "." and "..", read with a buffer of SIZE
 * bytes; each entry is unlinked, or gets another name, as soon as it was seen.
 */
static void cmd_getdents(char **a)
{
	int fd = check(open(a[0], O_RDONLY | O_DIRECTORY));
	size_t size = number(a[1]);
	char *buf = aligned_buffer(size);
	long n;

	while ((n = check(syscall(SYS_getdents64, fd, buf, size))) > 0) {
		for (long at = 0; at < n;) {
			struct kernel_dirent *d = (struct kernel_dirent *)(buf + at);

			at += d->reclen;
			if (!strcmp(d->name, ".") || !strcmp(d->name, ".."))
				continue;
			puts(d->name);
			if (a[2] && !strcmp(a[2], "remove"))
				check(unlinkat(fd, d->name, 0));
			else if (a[2])
				rename_anew(fd, d->name);
		}
	}
	free(buf);
}

/*
 * seekdir DIR [remove]: goes to each position that telldir told, and must find the same entry
 * there; when every second entry was unlinked meanwhile, the next one that is left.
 */
static void cmd_seekdir(char **a)
{
	DIR *d = opendir(a[0]);
	enum { MAX = 4096 };
	static long cookie[MAX];
	static char name[MAX][256];
	int n = 0, left;

	if (!d)
		fail();
	for (struct dirent *e; n < MAX; n++) {
		cookie[n] = telldir(d);
		if (!(e = readdir(d)))
			break;
		snprintf(name[n], sizeof(name[n]), "%s", e->d_name);
	}
	for (int i = 0; a[1] && i < n; i += 2)
		if (name[i][0] != '.') {
			check(unlinkat(dirfd(d), name[i], 0));
			name[i][0] = 0;
		}
	left = n;
	for (int i = n - 1; i >= 0; i--) {
		if (name[i][0])
			left = i;
		seekdir(d, cookie[i]);
		struct dirent *e = readdir(d);
		if (left == n ? !!e : !e || strcmp(e->d_name, name[left]))
			wrong("position %d was %s, is %s", i,
			      left == n ? "the end" : name[left], e ? e->d_name : "the end");
	}
	rewinddir(d);
	if (!readdir(d))
		wrong("nothing after rewinddir");
	printf("%d\n", n);
	closedir(d);
}

/* dtypes DIR: NAME=TYPE of all entries; checks that d_ino is st_ino */
static void cmd_dtypes(char **a)
{
	DIR *d = opendir(a[0]);

	if (!d)
		fail();
	for (struct dirent *e; (e = readdir(d));) {
		struct stat st;

		check(fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW));
		if (st.st_ino != e->d_ino && strcmp(e->d_name, ".."))
			wrong("%s: d_ino %ju, st_ino %ju", e->d_name, (uintmax_t)e->d_ino,
			      (uintmax_t)st.st_ino);
		if (e->d_type != IFTODT(st.st_mode))
			wrong("%s: d_type %d", e->d_name, e->d_type);
		if (e->d_name[0] != '.')
			printf("%s=%d\n", e->d_name, e->d_type);
	}
	closedir(d);
}

/* statfs PATH: block size, blocks, free, available, files, free files, longest name */
static void cmd_statfs(char **a)
{
	struct statfs s;

	check(statfs(a[0], &s));
	printf("%jd %ju %ju %ju %ju %ju %jd\n", (intmax_t)s.f_bsize, (uintmax_t)s.f_blocks,
	       (uintmax_t)s.f_bfree, (uintmax_t)s.f_bavail, (uintmax_t)s.f_files,
	       (uintmax_t)s.f_ffree, (intmax_t)s.f_namelen);
}

/* ---- loads for a killed daemon --------------------------------------------------------------
 */

/* ack-load DIR FROM MAX: see ackload.h; prints the number of each operation that returned */
static void cmd_ack_load(char **a)
{
	long max = number(a[2]);

	check(chdir(a[0]));
	for (long i = number(a[1]); i < max; i++) {
		if (ackload_step(i) < 0)
			fail();
		printf("%ld\n", i);
		fflush(stdout);
	}
}

/* ack-verify DIR LAST: what operations 0 to LAST left, LAST + 1 whole or not at all */
static void cmd_ack_verify(char **a)
{
	char why[256];

	check(chdir(a[0]));
	if (ackload_verify(number(a[1]), why, sizeof(why)) < 0)
		wrong("%s", why);
}

static const struct command {
	const char *name;
	int args;
	void (*run)(char **args);
} commands[] = {
    {"ack-load", 3, cmd_ack_load},
    {"ack-verify", 2, cmd_ack_verify},
    {"append-many", 3, cmd_append_many},
    {"btime", 1, cmd_btime},
    {"by-handle", 2, cmd_by_handle},
    {"copy-range", 5, cmd_copy_range},
    {"create", 2, cmd_create},
    {"direct-read", 4, cmd_direct_read},
    {"direct-write", 4, cmd_direct_write},
    {"dtypes", 1, cmd_dtypes},
    {"fallocate", 4, cmd_fallocate},
    {"fdatasync", 1, cmd_fdatasync},
    {"fsync", 1, cmd_fsync},
    {"getdents", 2, cmd_getdents},
    {"getxattr", 3, cmd_getxattr},
    {"handle-of", 1, cmd_handle_of},
    {"link", 2, cmd_link},
    {"links", 3, cmd_links},
    {"map", 1, cmd_map},
    {"mkdir", 1, cmd_mkdir},
    {"mmap-read", 3, cmd_mmap_read},
    {"mmap-write", 3, cmd_mmap_write},
    {"open", 2, cmd_open},
    {"orphan", 1, cmd_orphan},
    {"orphan-hold", 2, cmd_orphan_hold},
    {"pwrite", 3, cmd_pwrite},
    {"removexattr", 2, cmd_removexattr},
    {"rename", 3, cmd_rename},
    {"rmdir", 1, cmd_rmdir},
    {"seek", 3, cmd_seek},
    {"seekdir", 1, cmd_seekdir},
    {"setxattr", 4, cmd_setxattr},
    {"socket", 1, cmd_socket},
    {"statfs", 1, cmd_statfs},
    {"syncfs", 1, cmd_syncfs},
    {"tmpfile", 2, cmd_tmpfile},
    {"truncate", 2, cmd_truncate},
    {"unlink", 1, cmd_unlink},
    {"utimens", 3, cmd_utimens},
    {"zero-keep", 3, cmd_zero_keep},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (argc < 2 || strcmp(argv[1], commands[i].name))
			continue;
		if (argc - 2 < commands[i].args)
			break;
		commands[i].run(argv + 2);
		return fflush(stdout) ? 1 : 0;
	}
	fprintf(stderr, "sysx: see sysx.c for the calls and their arguments\n");
	return 2;
}
