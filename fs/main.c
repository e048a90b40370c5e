/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mount.pmemfs: what mount(8) calls for "mount -t pmemfs", and what people type. Checks the
 * command line and the mount point before anything else is touched, then goes into the
 * background and serves (serve.c), or remounts what is mounted (remount.c).
 */
#include <errno.h>
#include <fuse_lowlevel.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon.h"
#include "mounts.h"
#include "options.h"
#include "remount.h"
#include "report.h"
#include "serve.h"

#define USAGE                                                                             \
	"usage: mount.pmemfs DEVICE DIR [-o OPTIONS] [-f] [-r] [-w] [-n] [-s] [-v] [-V] " \
	"[-h]\n"

static const char help[] = USAGE
    "\n"
    "Mounts the pmemfs filesystem on DEVICE, a DAX device such as /dev/dax0.0 or an image "
    "file,\n"
    "on the directory DIR. Also: mount -t pmemfs DEVICE DIR. End it with umount DIR.\n"
    "\n"
    "  -o OPTIONS  comma-separated, see below\n"
    "  -f          stay in the foreground, messages on the terminal; ^C unmounts\n"
    "  -r, -w      the same as -o ro, -o rw\n"
    "  -s          pass over unknown options\n"
    "  -n          accepted, means nothing (there is no /etc/mtab)\n"
    "  -v          say what was mounted\n"
    "  -V, -h      print the version, this help\n"
    "\n"
    "Options of pmemfs:\n"
    "  flush=HOW           how data is copied: auto (default), rule, rule:BYTES, or the name\n"
    "                      of one store kernel (pmemfs calibrate lists them)\n"
    "  noacl               no POSIX access control lists\n"
    "  transport=HOW       how requests arrive: threads (default) or uring\n"
    "  threads=N           threads that serve requests, 1 to 1024 (also: max_threads=)\n"
    "  poll_us=N           look for a request so long before sleeping, 0 to 1000 (30)\n"
    "  recovery_threads=N  threads that recover after a crash, 1 to 1024\n"
    "  fsname=NAME         what the mount table shows as the source, instead of DEVICE\n"
    "  writeback           writes are kept in memory until close, fsync or later\n"
    "  nonempty            mount on DIR although something is mounted there\n"
    "  nosandbox           do not confine the daemon, for debuggers and profilers\n"
    "  silent              no notes, only errors\n"
    "  remount             change ro, rw and the options below of what is mounted on DIR\n"
    "and those that every filesystem has: ro rw suid nosuid dev nodev exec noexec sync async\n"
    "dirsync atime noatime relatime nodiratime strictatime lazytime nosymfollow defaults user\n"
    "users owner group context= auto noauto nofail _netdev comment= x-*\n";

struct command {
	struct mount_options options;
	bool foreground, verbose;
	char *device, *dir; /* canonical */
};

static int usage_error(void)
{
	fputs(USAGE, stderr);
	return EXIT_USAGE;
}

static void print_version(void)
{
	printf("mount.pmemfs %s (libfuse %s)\n", PMEMFS_VERSION_STRING, fuse_pkgversion());
}

/* As many threads as can do something at once, and a few for those that wait for a lock. */
static unsigned default_threads(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus < 4 ? 8 : cpus > 128 ? 256 : 2 * cpus;
}

/* Returns -1 to go on, or the exit code. */
static int parse_switch(struct command *c, int opt)
{
	switch (opt) {
	case 'o':
		return options_parse(&c->options, optarg) ? EXIT_USAGE : -1;
	case 'f':
		c->foreground = true;
		return -1;
	case 'r':
		return options_parse(&c->options, "ro") ? EXIT_USAGE : -1;
	case 'w':
		return options_parse(&c->options, "rw") ? EXIT_USAGE : -1;
	case 's':
		c->options.sloppy = true;
		return -1;
	case 'v':
		c->verbose = true;
		return -1;
	case 'n':
	case 't': /* mount(8) repeats the type */
		return -1;
	case 'N':
		report(REPORT_ERROR, "mounting in another namespace (-N) is not supported: use "
				     "nsenter(1)");
		return EXIT_USAGE;
	case 'V':
		print_version();
		return EXIT_OK;
	case 'h':
		fputs(help, stdout);
		return EXIT_OK;
	default:
		return usage_error();
	}
}

static int parse_command(struct command *c, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
	static const char shorts[] = "o:frwnsvt:N:Vh";
	int opt, code = -1;

	/* -s must be known before the options that it is about. */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, shorts, longs, NULL)) != -1)
		if (opt == 's')
			c->options.sloppy = true;
	opterr = 1;
	optind = 0;
	while (code < 0 && (opt = getopt_long(argc, argv, shorts, longs, NULL)) != -1)
		code = parse_switch(c, opt);
	if (code >= 0)
		return code;
	if (argc - optind != 2) {
		report(REPORT_ERROR,
		       argc - optind < 2 ? "a device and a directory are needed"
					 : "too many arguments: \"%s\"",
		       argc - optind < 2 ? "" : argv[optind + 2]);
		return usage_error();
	}
	return -1;
}

/* ---- checks before anything is touched ---- */

static int fail_dir(const char *dir, int error)
{
	switch (error) {
	case ENOENT:
		report(REPORT_ERROR, "mount point %s does not exist: make it with mkdir", dir);
		return EXIT_MOUNT;
	case ENOTCONN:
	case ECONNABORTED:
		report(REPORT_ERROR,
		       "mount point %s has the mount of a daemon that died: clear it away with "
		       "\"umount %s\" first",
		       dir, dir);
		return EXIT_MOUNT;
	default:
		report(REPORT_ERROR, "mount point %s: %s", dir, strerror(error));
		return EXIT_MOUNT;
	}
}

/* Is something mounted there already? A trigger of automount is there to be mounted upon. */
static int check_busy(const struct command *c)
{
	struct mount_found found;

	mounts_find_point(c->dir, &found);
	if (!found.found || strcmp(found.type, "autofs") == 0 || c->options.nonempty)
		return EXIT_OK;
	report(REPORT_ERROR,
	       "mount point %s is busy: %s is mounted there; unmount it, choose another "
	       "directory, "
	       "or mount on top with -o nonempty",
	       c->dir, found.source);
	return EXIT_MOUNT;
}

static int check_dir(struct command *c, const char *dir)
{
	struct stat st;

	c->dir = realpath(dir, NULL);
	if (!c->dir)
		return fail_dir(dir, errno);
	if (stat(c->dir, &st) < 0)
		return fail_dir(dir, errno);
	if (!S_ISDIR(st.st_mode)) {
		report(REPORT_ERROR, "mount point %s is not a directory", dir);
		return EXIT_MOUNT;
	}
	return check_busy(c);
}

static int check_device(struct command *c, const char *device)
{
	c->device = realpath(device, NULL);
	if (c->device)
		return EXIT_OK;
	if (errno == ENOENT)
		report(
		    REPORT_ERROR,
		    "%s does not exist: name a DAX device (daxctl list shows them) or an image "
		    "made by mkfs.pmemfs",
		    device);
	else
		report(REPORT_ERROR, "%s: %s", device, strerror(errno));
	return EXIT_MOUNT;
}

static int do_mount(struct command *c, const char *device, const char *dir)
{
	struct serve_args args = {.options = &c->options, .verbose = c->verbose};
	int code = check_device(c, device), r;

	if (code == EXIT_OK)
		code = check_dir(c, dir);
	if (code)
		return code;
	args.device = c->device;
	args.dir = c->dir;
	args.source = c->options.source ? c->options.source : c->device;
	r = c->foreground ? 0 : daemon_fork(&code);
	if (r < 0) {
		report(REPORT_ERROR, "cannot go into the background: %s", strerror(-r));
		return EXIT_SYSTEM;
	}
	return r == 0 ? serve(&args) : code;
}

int main(int argc, char **argv)
{
	const char *flush = getenv("PMEMFS_FLUSH");
	struct command c = {0};
	int code;

	options_init(&c.options);
	c.options.max_threads = default_threads();
	code = parse_command(&c, argc, argv);
	if (code < 0 && !c.options.flush && flush) /* for tests only */
		c.options.flush = strdup(flush);
	if (code < 0)
		code = c.options.remount ? remount(argv[optind + 1], &c.options)
					 : do_mount(&c, argv[optind], argv[optind + 1]);
	options_done(&c.options);
	free(c.device);
	free(c.dir);
	return code;
}
