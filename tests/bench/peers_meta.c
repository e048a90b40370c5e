/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on names and small files for tests/bench/peers:
 *
 *	peers_meta ROW DIR COUNT JOBS [sync]	prints operations a second
 *
 * Each job is a thread with a directory of its own. What a row needs is made before the clock
 * runs and removed after it. With "sync" what is made or changed is fsync'd, directories too:
 * for filesystems on which a return alone makes nothing durable.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SMALL 2048

struct job {
	const struct row *row;
	char dir[4096];
	unsigned count;
	int dirfd;
	double began, ended;
	pthread_t thread;
};

static bool synced;
static pthread_barrier_t start, end; /* of the jobs */

static void die(const char *what)
{
	fprintf(stderr, "peers_meta: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int must(int r, const char *what)
{
	if (r < 0)
		die(what);
	return r;
}

static const char *name(char buf[32], const char *prefix, unsigned i)
{
	snprintf(buf, 32, "%s%06u", prefix, i);
	return buf;
}

static void done(int fd, struct job *j, bool named)
{
	if (synced) {
		must(fsync(fd), "fsync");
		if (named)
			must(fsync(j->dirfd), "fsync of a directory");
	}
	must(close(fd), "close");
}

static int make(struct job *j, unsigned i)
{
	char n[32];

	return must(openat(j->dirfd, name(n, "f", i), O_CREAT | O_EXCL | O_WRONLY, 0644),
		    "create");
}

static void write_small(int fd)
{
	static const char data[SMALL] = "small";

	if (write(fd, data, SMALL) != SMALL)
		die("write");
}

/* ---- before and after ---- */

static void with_files(struct job *j)
{
	for (unsigned i = 0; i < j->count; i++) {
		int fd = make(j, i);

		write_small(fd);
		close(fd);
	}
}

static void with_names(struct job *j)
{
	for (unsigned i = 0; i < j->count; i++)
		close(make(j, i));
}

static void with_one(struct job *j)
{
	close(make(j, 0));
}

/* Not by d_type, which some filesystems do not tell. */
static void remove_name(int dirfd, const char *n)
{
	if (unlinkat(dirfd, n, 0))
		must(errno == EISDIR ? unlinkat(dirfd, n, AT_REMOVEDIR) : -1, "unlink");
}

static void empty_dir(struct job *j)
{
	DIR *d = fdopendir(must(dup(j->dirfd), "dup"));
	struct dirent *e;
	unsigned removed;

	if (!d)
		die("opendir");
	do { /* again: some filesystems forget names of a listing in which others go */
		removed = 0;
		rewinddir(d);
		for (; (e = readdir(d)); removed += e->d_name[0] != '.')
			if (e->d_name[0] != '.')
				remove_name(j->dirfd, e->d_name);
	} while (removed);
	closedir(d);
}

/* ---- the rows ---- */

static void do_create(struct job *j, unsigned i)
{
	done(make(j, i), j, true);
}

static void do_small_write(struct job *j, unsigned i)
{
	int fd = make(j, i);

	write_small(fd);
	done(fd, j, true);
}

static void do_small_read(struct job *j, unsigned i)
{
	char n[32], data[SMALL + 1];
	int fd = must(openat(j->dirfd, name(n, "f", i), O_RDONLY), "open");

	if (read(fd, data, sizeof(data)) != SMALL)
		die("read");
	close(fd);
}

static void do_open(struct job *j, unsigned i)
{
	close(must(openat(j->dirfd, "f000000", O_RDONLY), "open"));
}

static void do_stat(struct job *j, unsigned i)
{
	struct stat st;

	must(fstatat(j->dirfd, "f000000", &st, 0), "stat");
}

/* A name that nobody has asked for: what a cold lookup costs. */
static void do_lookup(struct job *j, unsigned i)
{
	char n[32];

	if (faccessat(j->dirfd, name(n, "none", i), F_OK, 0) == 0 || errno != ENOENT)
		die("lookup");
}

static void do_rename(struct job *j, unsigned i)
{
	char from[32], to[32];

	must(renameat(j->dirfd, name(from, "f", i), j->dirfd, name(to, "g", i)), "rename");
	if (synced)
		must(fsync(j->dirfd), "fsync of a directory");
}

static void do_unlink(struct job *j, unsigned i)
{
	char n[32];

	must(unlinkat(j->dirfd, name(n, "f", i), 0), "unlink");
	if (synced)
		must(fsync(j->dirfd), "fsync of a directory");
}

static void do_mkdir(struct job *j, unsigned i)
{
	char n[32];

	must(mkdirat(j->dirfd, name(n, "d", i), 0755), "mkdir");
	if (synced)
		must(fsync(j->dirfd), "fsync of a directory");
}

/* One file of 4 KiB pieces; the descriptor is kept for the next piece. */
static void do_append(struct job *j, unsigned i)
{
	static __thread int fd = -1;
	static const char data[4096] = "appended";

	if (fd < 0)
		fd = must(openat(j->dirfd, "log", O_CREAT | O_WRONLY | O_APPEND, 0644), "open");
	if (write(fd, data, sizeof(data)) != sizeof(data))
		die("append");
	must(fsync(fd), "fsync");
}

static void do_name(struct job *j, unsigned i)
{
	close(make(j, i));
}

/* An operation is one name listed. */
static void do_readdir(struct job *j, unsigned i)
{
	static __thread DIR *d;

	if (!d) {
		d = fdopendir(must(openat(j->dirfd, ".", O_RDONLY | O_DIRECTORY), "open"));
		if (!d)
			die("opendir");
	}
	if (!readdir(d))
		die("readdir");
	if (i + 1 == j->count)
		closedir(d);
}

static const struct row {
	const char *name;
	void (*before)(struct job *j);
	void (*op)(struct job *j, unsigned i);
	bool stay; /* in a directory that stays as it is, for later rows */
} rows[] = {
    {"create", NULL, do_create},
    {"small-write", NULL, do_small_write},
    {"small-read", with_files, do_small_read},
    {"open-close", with_one, do_open},
    {"stat-warm", with_one, do_stat},
    {"stat-cold", NULL, do_lookup},
    {"rename", with_names, do_rename},
    {"unlink", with_names, do_unlink},
    {"mkdir", NULL, do_mkdir},
    {"append-fsync", NULL, do_append},
    {"names", NULL, do_name, true},
    {"readdir", NULL, do_readdir, true}, /* what "names" made */
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *run(void *arg)
{
	struct job *j = arg;

	if (j->row->before)
		j->row->before(j);
	pthread_barrier_wait(&start);
	j->began = now();
	for (unsigned i = 0; i < j->count; i++)
		j->row->op(j, i);
	j->ended = now();
	pthread_barrier_wait(&end);
	if (!j->row->stay)
		empty_dir(j);
	close(j->dirfd);
	if (!j->row->stay)
		rmdir(j->dir); /* some filesystems cannot; the next run makes others */
	return NULL;
}

static const struct row *row_of(const char *text)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(rows[i].name, text) == 0)
			return &rows[i];
	fprintf(stderr, "peers_meta: no row \"%s\"\n", text);
	exit(2);
}

int main(int argc, char **argv)
{
	unsigned count, jobs;
	struct job *all;
	double began = 0, ended = 0;

	if (argc < 5) {
		fputs("usage: peers_meta ROW DIR COUNT JOBS [sync]\n", stderr);
		return 2;
	}
	count = (unsigned)atoi(argv[3]);
	jobs = (unsigned)atoi(argv[4]);
	synced = argc > 5;
	all = calloc(jobs ? jobs : 1, sizeof(*all));
	if (!all || !jobs || !count)
		return 2;
	pthread_barrier_init(&start, NULL, jobs);
	pthread_barrier_init(&end, NULL, jobs);
	for (struct job *j = all; j < all + jobs; j++) {
		j->row = row_of(argv[1]);
		j->count = count;
		snprintf(j->dir, sizeof(j->dir), "%s/job%d-%u", argv[2],
			 j->row->stay ? 0 : getpid(), (unsigned)(j - all));
		if (mkdir(j->dir, 0755) && !(j->row->stay && errno == EEXIST))
			die(j->dir);
		j->dirfd = must(open(j->dir, O_RDONLY | O_DIRECTORY), j->dir);
		pthread_create(&j->thread, NULL, run, j);
	}
	for (struct job *j = all; j < all + jobs; j++) {
		pthread_join(j->thread, NULL);
		began = j == all || j->began < began ? j->began : began;
		ended = j == all || j->ended > ended ? j->ended : ended;
	}
	printf("%.1f\n", (double)count * jobs / (ended - began));
	free(all);
	return 0;
}
