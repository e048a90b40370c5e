/* SPDX-License-Identifier: BSD-3-Clause */
/* See target.h. Mounts by mount.pmemfs of this build, or of the PATH. */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copy.h"
#include "pmemfs.h"

extern char **environ;

struct variant variants[VARIANTS];

void variants_find(struct bench *b)
{
	const char *cached = copy_best_cached(false)->name;

	variants[0] = (struct variant){"movnti", "movnti"};
	variants[1] = (struct variant){cached, cached};
	variants[2] = (struct variant){"rule", "rule"};
	variants[3] = (struct variant){"auto", "auto"};
}

/* ---- mounting ---- */

static void run(char *const argv[])
{
	int status = 0, r;
	pid_t pid;

	r = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
	if (!r && waitpid(pid, &status, 0) < 0)
		r = errno;
	if (r || status)
		bench_die(argv[0], -r);
}

/* mount.pmemfs of this build: ../../fs from where this program is. */
static const char *mount_helper(void)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 40);
	char *slash;

	path[n > 0 ? n : 0] = 0;
	slash = strrchr(path, '/');
	if (slash)
		strcpy(slash, "/../../fs/mount.pmemfs");
	return slash && !access(path, X_OK) ? path : "mount.pmemfs";
}

static void mount_kernel(struct target *t, const char *flush)
{
	char helper[PATH_MAX], device[PATH_MAX], options[128];
	char *argv[] = {helper, device, NULL, (char[]){"-o"}, options, NULL};

	t->dir = strdup("/tmp/pmemfs-bench.XXXXXX");
	if (!t->dir || !mkdtemp(t->dir))
		bench_die("mkdtemp", -errno);
	argv[2] = t->dir;
	snprintf(helper, sizeof(helper), "%s", mount_helper());
	snprintf(device, sizeof(device), "%s", t->b->device);
	snprintf(options, sizeof(options), "silent,flush=%s", flush);
	bench_close(t->b);
	bench_mounted = t->dir;
	run(argv);
}

static void unmount_kernel(struct target *t)
{
	char *as_root[] = {(char[]){"umount"}, t->dir, NULL};
	char *as_user[] = {(char[]){"fusermount3"}, (char[]){"-u"}, t->dir, NULL};

	run(geteuid() ? as_user : as_root);
	bench_mounted = NULL;
	rmdir(t->dir);
	free(t->dir);
	bench_reopen(t->b); /* waits for the daemon's end */
}

void target_begin(struct target *t, struct bench *b, bool mounted, const char *flush)
{
	const char *why = "";

	*t = (struct target){.b = b, .mounted = mounted};
	if (mounted) {
		mount_kernel(t, flush);
		return;
	}
	MUST(flush, media_set_flush(b->media, flush, &why));
	MUST("mount", pmemfs_mount(b->media, NULL, &t->fs, &why));
}

void target_end(struct target *t)
{
	if (t->mounted)
		unmount_kernel(t);
	else
		MUST("unmount", pmemfs_unmount(t->fs));
}

/* ---- files ---- */

struct target_file target_make(struct target *t, const char *name, bool direct)
{
	const struct pmemfs_cred cred = {geteuid(), getegid()};
	struct target_file f = {.fd = -1};
	struct pmemfs_attr a;
	char path[PATH_MAX];

	if (!t->mounted) {
		MUST(name, pmemfs_make(t->fs, 1, name, S_IFREG | 0600, 0, 0, NULL, &cred, &a));
		f.ino = a.ino;
		return f;
	}
	snprintf(path, sizeof(path), "%s/%s", t->dir, name);
	f.fd = open(path, O_RDWR | O_CREAT | O_EXCL | (direct ? O_DIRECT : 0), 0600);
	if (f.fd < 0)
		bench_die(path, -errno);
	return f;
}

void target_write(struct target *t, const struct target_file *f, uint64_t off, const void *buf,
		  size_t len)
{
	ssize_t n = t->mounted ? pwrite(f->fd, buf, len, (off_t)off)
			       : pmemfs_write(t->fs, f->ino, off, buf, len, 0);

	if (n != (ssize_t)len)
		bench_die("write", n < 0 ? (t->mounted ? -errno : n) : -ENOSPC);
}

void target_done(struct target *t, struct target_file *f)
{
	if (t->mounted)
		close(f->fd);
	else
		pmemfs_forget(t->fs, f->ino, 1);
}

void target_unlink(struct target *t, const char *name)
{
	char path[PATH_MAX];

	if (!t->mounted) {
		MUST(name, pmemfs_unlink(t->fs, 1, name));
		return;
	}
	snprintf(path, sizeof(path), "%s/%s", t->dir, name);
	if (unlink(path))
		bench_die(path, -errno);
}
