/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mount table is read from /proc, never by looking at a mounted path: a stat of one's own
 * mount would be a request to oneself. The one exception, mounts_sync, is for a process
 * that serves no requests.
 */
#include "mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Undoes the kernel's \040 for a space and the like, in place. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0');
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

/* "ID PARENT MAJ:MIN ROOT POINT OPTIONS [TAG...] - TYPE SOURCE SUPER-OPTIONS" */
static bool parse_line(char *line, struct mount_entry *ret)
{
	char *word[6], *save, *tail = strstr(line, " - ");
	char *type, *source;

	if (!tail)
		return false;
	*tail = '\0';
	for (int i = 0; i < 6; i++) {
		word[i] = strtok_r(i == 0 ? line : NULL, " ", &save);
		if (!word[i])
			return false;
	}
	type = strtok_r(tail + 3, " \n", &save);
	source = strtok_r(NULL, " \n", &save);
	if (!type || !source || sscanf(word[2], "%u:%u", &ret->major, &ret->minor) != 2)
		return false;
	unescape(word[4]);
	unescape(source);
	ret->point = word[4];
	ret->options = word[5];
	ret->type = type;
	ret->source = source;
	return true;
}

int mounts_each(mounts_fn fn, void *arg)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;
	int r = 0;

	if (!f)
		return -errno;
	while (r == 0 && getline(&line, &size, f) > 0) {
		struct mount_entry e;

		if (parse_line(line, &e))
			r = fn(arg, &e);
	}
	free(line);
	fclose(f);
	return r;
}

struct find {
	const char *point, *source;
	struct mount_found *ret;
};

static int find_one(void *arg, const struct mount_entry *e)
{
	const struct find *f = arg;

	if (f->point ? strcmp(e->point, f->point) != 0
		     : strcmp(e->source, f->source) != 0 || strcmp(e->type, MOUNTS_TYPE) != 0)
		return 0;
	f->ret->found = true;
	f->ret->major = e->major;
	f->ret->minor = e->minor;
	snprintf(f->ret->point, sizeof(f->ret->point), "%s", e->point);
	snprintf(f->ret->options, sizeof(f->ret->options), "%s", e->options);
	snprintf(f->ret->type, sizeof(f->ret->type), "%s", e->type);
	snprintf(f->ret->source, sizeof(f->ret->source), "%s", e->source);
	return 0; /* goes on: a later one lies on top */
}

void mounts_find_point(const char *point, struct mount_found *ret)
{
	struct find f = {.point = point, .ret = ret};

	ret->found = false;
	mounts_each(find_one, &f);
}

void mounts_find_source(const char *source, struct mount_found *ret)
{
	struct find f = {.source = source, .ret = ret};

	ret->found = false;
	mounts_each(find_one, &f);
}

int mounts_mount(const char *source, const char *point, unsigned long flags, const char *data,
		 int *ret_fd)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char *all = NULL;
	int r = 0;

	if (fd < 0)
		return errno == EACCES ? -EPERM : -errno;
	if (asprintf(
		&all,
		"fd=%d,rootmode=%o,user_id=%u,group_id=%u,default_permissions,allow_other%s%s",
		fd, S_IFDIR, getuid(), getgid(), data ? "," : "", data ? data : "") < 0) {
		close(fd);
		return -ENOMEM;
	}
	if (mount(source, point, MOUNTS_TYPE, flags, all) < 0)
		r = -errno;
	free(all);
	if (r)
		close(fd);
	else
		*ret_fd = fd;
	return r;
}

extern char **environ;

static int run_fusermount(char *point, bool lazy)
{
	char *argv[] = {"fusermount3", "-u", "-q", lazy ? "-z" : "--", point, NULL};
	int status;
	pid_t pid;

	if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0)
		return -EPERM;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

bool mounts_have_fusermount(void)
{
	char *argv[] = {"fusermount3", "-V", NULL};
	posix_spawn_file_actions_t quiet;
	int status = -1;
	pid_t pid;

	if (posix_spawn_file_actions_init(&quiet) != 0)
		return false;
	posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ) == 0)
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	posix_spawn_file_actions_destroy(&quiet);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct find_dev {
	unsigned major, minor;
	char point[4096];
};

static int find_dev(void *arg, const struct mount_entry *e)
{
	struct find_dev *f = arg;

	if (e->major == f->major && e->minor == f->minor && strcmp(e->type, MOUNTS_TYPE) == 0)
		snprintf(f->point, sizeof(f->point), "%s", e->point);
	return 0; /* the last one lies on top */
}

int mounts_unmount_top(unsigned major, unsigned minor, int flags)
{
	struct find_dev f = {major, minor, ""};
	int r = 0;

	mounts_each(find_dev, &f);
	if (f.point[0] == '\0')
		return -ENOENT;
	if (umount2(f.point, flags | UMOUNT_NOFOLLOW) < 0)
		r = -errno;
	return r == -EPERM ? run_fusermount(f.point, flags & MNT_DETACH) : r;
}

void mounts_sync(unsigned major, unsigned minor)
{
	struct find_dev f = {major, minor, ""};
	int fd;

	mounts_each(find_dev, &f);
	if (f.point[0] == '\0')
		return;
	fd = open(f.point, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	syncfs(fd);
	close(fd);
}

void mounts_set_readahead(unsigned major, unsigned minor, unsigned kib)
{
	char path[64], text[16];
	int fd, n;

	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", major, minor);
	n = snprintf(text, sizeof(text), "%u", kib);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, text, n) != n)
		errno = 0; /* a wish, no need */
	close(fd);
}
