/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mount -o remount. For FUSE the kernel changes the flags of its own superblock, which alone is
 * enough to stop writes, and tells the daemon nothing. The daemon has to know all the same: to
 * leave the medium marked clean when it becomes read-only, and to refuse writing where the
 * medium or damage forbid it. So it is told by an ioctl: after the kernel has stopped writers,
 * before it lets them begin.
 */
#include "remount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "control.h"
#include "mounts.h"
#include "report.h"

/* Tells the daemon. Returns 0 or a negative errno. */
static int set_readonly(const char *dir, bool readonly)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint32_t value = readonly;
	int r;

	if (fd < 0)
		return -errno;
	r = ioctl(fd, PMEMFS_IOC_SET_READONLY, &value) < 0 ? -errno : 0;
	close(fd);
	return r;
}

static int fail(const char *dir, int error)
{
	switch (-error) {
	case EBUSY:
		report(REPORT_ERROR, "%s is busy: files on it are open for writing", dir);
		return EXIT_MOUNT;
	case EROFS:
		report(REPORT_ERROR,
		       "%s cannot become writable: its medium is read-only, or it is damaged, "
		       "or it "
		       "was mounted read-only after a crash; unmount it, and mount or check it "
		       "anew",
		       dir);
		return EXIT_MOUNT;
	case EPERM:
	case EACCES:
		report(REPORT_ERROR, "only root can remount %s", dir);
		return EXIT_USAGE;
	default:
		report(REPORT_ERROR, "cannot remount %s: %s", dir, strerror(-error));
		return EXIT_MOUNT;
	}
}

/* What no option was about stays as it is. */
static unsigned long new_flags(const struct mount_found *now, const struct mount_options *o)
{
	struct mount_options old;
	unsigned long flags;

	options_init(&old);
	old.flags = 0; /* the table names those that are set */
	old.sloppy = old.silent = true;
	options_parse(&old, now->options);
	flags = (old.flags & ~o->named) | (o->flags & o->named);
	options_done(&old);
	return flags;
}

static int remount_at(const char *dir, unsigned long flags)
{
	bool readonly = flags & MS_RDONLY;
	int r = 0;

	if (!readonly)
		r = set_readonly(dir, false);
	if (r == 0 && mount("none", dir, NULL, MS_REMOUNT | flags, NULL) < 0)
		r = -errno;
	if (r == 0 && readonly)
		r = set_readonly(dir, true);
	return r ? fail(dir, r) : EXIT_OK;
}

int remount(const char *dir, const struct mount_options *options)
{
	char *path = realpath(dir, NULL);
	struct mount_found found;
	int code;

	if (!path) {
		report(REPORT_ERROR, "mount point %s: %s", dir, strerror(errno));
		return EXIT_MOUNT;
	}
	mounts_find_point(path, &found);
	if (found.found && strcmp(found.type, MOUNTS_TYPE) == 0) {
		code = remount_at(path, new_flags(&found, options));
	} else {
		report(REPORT_ERROR, "%s is not the mount point of a pmemfs", path);
		code = EXIT_MOUNT;
	}
	free(path);
	return code;
}
