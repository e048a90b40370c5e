/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of one mount:
 *
 *	fork the monitor -> open the medium, look at its superblock -> mount in the kernel ->
 *	drop capabilities -> greet the kernel -> enter the sandbox -> mount the filesystem in
 *	this process (recovery, too) -> ready -> serve requests -> end -> unmount the filesystem
 *	-> close the medium
 *
 * So but for the superblock nothing of the medium is read outside of the sandbox. What asks the
 * kernel for a file meanwhile waits. With io_uring libfuse serves as soon as the kernel was
 * greeted: then the filesystem is mounted before.
 *
 * What was set up is taken down in the opposite order, whatever step fails. The filesystem in
 * this process is unmounted cleanly in every case but one: the process is killed.
 *
 * It ends when the kernel has no mount of it left (umount, fusermount3 -u), or on a signal. On
 * the first signal a thread of its own unmounts, while requests are still served, so that the
 * kernel can write back what programs have mapped and changed; if the mount is busy, that is
 * written back and the mount detached. On the second signal serving ends at once.
 */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "control_serve.h"
#include "daemon.h"
#include "ident.h"
#include "monitor.h"
#include "mounts.h"
#include "ops.h"
#include "report.h"
#include "sandbox.h"
#include "transport.h"
#include "writeback.h"

#define READAHEAD_KIB 1024

/* How long other mounts of the connection (in other namespaces) may keep a stopped one alive.
 */
#define STOP_GRACE_MS 1000
#define STOP_STEP_MS  20

struct server {
	const struct serve_args *args;
	struct media *media;
	struct pmemfs *fs;
	struct ops ops;
	struct fuse_session *session;
	struct transport *transport;
	bool mounted;  /* in the kernel */
	bool readonly; /* what is on the medium asks for it */
	bool uring;    /* libfuse's threads serve, by io_uring */
	unsigned cpus; /* the sandbox does not let it be asked */
	pthread_t stopper;
	bool stopper_runs; /* signal thread only, until the loop has ended */
	atomic_bool loop_ended;
};

/* The exit code for a failure of mounting. */
static int exit_for(int error)
{
	switch (-error) {
	case EPERM:
		return EXIT_USAGE;
	case ENOMEM:
	case EMFILE:
	case ENFILE:
	case EAGAIN:
		return EXIT_SYSTEM;
	default:
		return EXIT_MOUNT;
	}
}

/* ---- the medium ---- */

static int fail_open(const struct server *s, int error, const char *why)
{
	struct mount_found other;

	mounts_find_source(s->args->source, &other);
	if (error == -EBUSY && other.found)
		report(REPORT_ERROR, "%s is mounted on %s already: unmount it there first",
		       s->args->device, other.point);
	else
		report(REPORT_ERROR, "%s %s", s->args->device, why ? why : strerror(-error));
	return exit_for(error);
}

/*
 * For a read-only mount. If it was unmounted cleanly, the library does not write, and the
 * medium is opened for writing all the same if it can be, so that it can be remounted. After a
 * crash recovery has to write; it then does so to private copies, and there is no remounting.
 */
static int open_readonly(struct server *s, unsigned flags, const char **ret_why)
{
	const char *device = s->args->device;
	struct pmemfs_info info = {0};
	int r = media_open(device, flags, &s->media, ret_why);

	if (r == -EROFS || r == -EACCES || r == -EPERM)
		r = media_open(device, flags | MEDIA_READONLY, &s->media, ret_why);
	if (r || (pmemfs_probe(s->media, &info, ret_why) == 0 && info.clean))
		return r;
	media_close(s->media);
	s->media = NULL;
	return media_open(device, flags | MEDIA_READONLY | MEDIA_SHADOW, &s->media, ret_why);
}

/*
 * The daemon of the last mount may still be ending, so there is a wait for it; but none if a
 * mount is plainly there.
 */
static int open_medium(struct server *s)
{
	const char *why = NULL;
	struct mount_found other;
	unsigned flags;
	int r;

	mounts_find_source(s->args->source, &other);
	flags = other.found ? 0 : MEDIA_WAIT;
	if (s->args->options->flags & MS_RDONLY)
		r = open_readonly(s, flags, &why);
	else
		r = media_open(s->args->device, flags, &s->media, &why);
	if (r)
		return fail_open(s, r, why);
	if (s->args->options->flush &&
	    media_set_flush(s->media, s->args->options->flush, &why)) {
		report(REPORT_ERROR, "option \"flush=%s\" %s", s->args->options->flush, why);
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

static void report_from_library(void *arg, int level, const char *message)
{
	const struct server *s = arg;

	if (level < REPORT_INFO || !s->args->options->silent)
		report(level, "%s", message);
}

/* Why it cannot be mounted; if something else lies there, what that is. */
static int fail_mount(const struct server *s, int error, const char *why)
{
	char what[256];

	if (error == -EINVAL && ident_find(s->media, what, sizeof(what)) > 0)
		report(REPORT_ERROR, "%s holds %s, no pmemfs: mount it as what it is",
		       s->args->device, what);
	else
		report(REPORT_ERROR, "%s %s", s->args->device, why ? why : strerror(-error));
	return exit_for(error);
}

static int look_at_medium(struct server *s)
{
	struct pmemfs_info info = {0};
	const char *why = NULL;
	int r = pmemfs_probe(s->media, &info, &why);

	s->readonly = info.only_readonly;
	return r ? fail_mount(s, r, why) : EXIT_OK;
}

static int mount_filesystem(struct server *s)
{
	const struct mount_options *options = s->args->options;
	struct pmemfs_options o = {
	    .readonly = options->flags & MS_RDONLY,
	    .noacl = options->noacl,
	    .recovery_threads = options->recovery_threads ? options->recovery_threads : s->cpus,
	    .report = report_from_library,
	    .report_arg = s,
	};
	const char *why = NULL;
	int r;

	if (s->fs)
		return EXIT_OK;
	r = pmemfs_mount(s->media, &o, &s->fs, &why);
	if (r)
		return fail_mount(s, r, why);
	s->ops.fs = s->fs;
	if (pmemfs_is_readonly(s->fs) && !o.readonly)
		report(REPORT_WARNING, "%s is mounted read-only", s->args->device);
	return EXIT_OK;
}

static int mount_early(struct server *s)
{
	return s->uring ? mount_filesystem(s) : EXIT_OK;
}

static void report_durability(const struct server *s)
{
	if (s->args->options->silent)
		return;
	switch (media_kind(s->media)) {
	case MEDIA_VOLATILE:
		report(REPORT_INFO,
		       "note: %s lies in ordinary memory: what is written outlives the daemon, "
		       "but not a reboot or a loss of power",
		       s->args->device);
		break;
	case MEDIA_FILE:
		report(REPORT_INFO,
		       "note: %s is a file on a disk filesystem: what is written outlives the "
		       "daemon at once, a crash of the machine only after fsync",
		       s->args->device);
		break;
	default:
		break;
	}
}

static void report_verbose(const struct server *s)
{
	char copies[512];

	if (!s->args->verbose)
		return;
	media_policy_text(s->media, false, 0, copies, sizeof(copies));
	report(REPORT_INFO, "%s (%s, %llu MiB, copies (%s): %s%s) mounted on %s%s, %s %s",
	       s->args->device, media_kind_name(media_kind(s->media)),
	       (unsigned long long)(media_size(s->media) >> 20), media_policy_name(s->media),
	       copies, media_eadr(s->media) ? ", eADR" : "", s->args->dir,
	       pmemfs_is_readonly(s->fs) ? " read-only" : "", "libfuse", fuse_pkgversion());
}

/* ---- the kernel ---- */

/* May a user other than root let others see the mount? fusermount3 asks the same file. */
static bool user_allow_other(void)
{
	FILE *f = fopen("/etc/fuse.conf", "re");
	bool allowed = false;
	char line[256], word[64];

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%63s", word) == 1 && strcmp(word, "user_allow_other") == 0)
			allowed = true;
	fclose(f);
	return allowed;
}

/* Commas and backslashes of a value have to be escaped for libfuse. */
static char *escape(const char *value)
{
	char *all = malloc(2 * strlen(value) + 1), *to = all;

	if (!all)
		return NULL;
	for (; *value; value++) {
		if (*value == ',' || *value == '\\')
			*to++ = '\\';
		*to++ = *value;
	}
	*to = '\0';
	return all;
}

#define URING_SWITCH "/sys/module/fuse/parameters/enable_uring"

#ifdef PMEMFS_RINGS
static bool uring_offered(void)
{
	FILE *f = fopen(URING_SWITCH, "re");
	bool on = f && fgetc(f) == 'Y';

	if (f)
		fclose(f);
	return on;
}
#endif

/* -o transport=. What cannot be had here is said, and threads do it. */
static int choose_transport(struct server *s)
{
	const char *how = s->args->options->transport;

	if (!how || strcmp(how, "threads") == 0)
		return EXIT_OK;
	if (strcmp(how, "uring") != 0) {
		report(REPORT_ERROR,
		       "option \"transport=%s\": there are \"threads\" and \"uring\"", how);
		return EXIT_USAGE;
	}
#ifdef PMEMFS_RINGS
	s->uring = uring_offered();
	if (!s->uring && !s->args->options->silent)
		report(REPORT_INFO,
		       "note: transport=uring is off in this kernel (echo Y > %s): "
		       "threads serve instead",
		       URING_SWITCH);
#else
	if (!s->args->options->silent)
		report(REPORT_INFO, "note: transport=uring needs a build with libfuse 3.18 and "
				    "liburing: threads serve instead");
#endif
	return EXIT_OK;
}

static int make_session(struct server *s)
{
	char *list = NULL, *source = escape(s->args->source), flags[128];
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_lowlevel_ops handlers;
	bool others = geteuid() == 0 || user_allow_other();

	ops_init(&s->ops, s->media, &handlers);
	s->ops.fs = s->fs;
	control_add(&handlers);
	if (s->args->options->writeback)
		writeback_add(&handlers);
	s->ops.acl = !s->args->options->noacl;
	options_flags_text(s->args->options->flags, flags, sizeof(flags));
	if (source &&
	    asprintf(&list, "-o%s,fsname=%s,subtype=pmemfs,default_permissions%s%s", flags,
		     source, others ? ",allow_other" : "", s->uring ? ",io_uring" : "") > 0 &&
	    fuse_opt_add_arg(&args, "mount.pmemfs") == 0 && fuse_opt_add_arg(&args, list) == 0)
		s->session = fuse_session_new(&args, &handlers, sizeof(handlers), &s->ops);
	fuse_opt_free_args(&args);
	free(list);
	free(source);
	if (!s->session) {
		report(REPORT_ERROR, "cannot set up a FUSE session");
		return EXIT_SYSTEM;
	}
	s->ops.session = s->session;
	return EXIT_OK;
}

/* By fusermount3, for whoever may not call mount(2). It explains its refusals itself. */
static int mount_by_helper(struct server *s)
{
	if (!mounts_have_fusermount()) {
		report(REPORT_ERROR,
		       "only root can mount without fusermount3: install the package "
		       "fuse3");
		return EXIT_USAGE;
	}
	return fuse_session_mount(s->session, s->args->dir) == 0 ? EXIT_OK : EXIT_MOUNT;
}

static int mount_kernel(struct server *s)
{
	const struct mount_options *o = s->args->options;
	unsigned long flags = o->flags | (s->readonly ? MS_RDONLY : 0);
	char path[32];
	int fd = -1, r = -EPERM;

	if (geteuid() == 0)
		r = mounts_mount(s->args->source, s->args->dir, flags, o->kernel, &fd);
	if (r == -EPERM)
		return mount_by_helper(s);
	if (r == -ENOENT || r == -ENODEV || r == -ENXIO) {
		report(REPORT_ERROR, "the kernel offers no FUSE (/dev/fuse): load it with "
				     "\"modprobe fuse\"");
		return EXIT_MOUNT;
	}
	if (r == -EINVAL) {
		report(REPORT_ERROR, "%s: the kernel rejects the mount options%s%s",
		       s->args->dir, o->kernel ? ": " : "", o->kernel ? o->kernel : "");
		return EXIT_MOUNT;
	}
	if (r) {
		report(REPORT_ERROR, "cannot mount on %s: %s", s->args->dir, strerror(-r));
		return exit_for(r);
	}
	snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	return fuse_session_mount(s->session, path) == 0 ? EXIT_OK : EXIT_SYSTEM;
}

/* Serves the kernel's first request here, so that all that follows knows what was agreed. */
static int greet_kernel(struct server *s)
{
	struct fuse_buf buf = {0};
	int r = 1;

	while (!s->ops.ready && (r > 0 || r == -EINTR)) {
		r = fuse_session_receive_buf(s->session, &buf);
		if (r > 0)
			fuse_session_process_buf(s->session, &buf);
	}
	free(buf.mem);
	if (s->ops.ready && !fuse_session_exited(s->session))
		return EXIT_OK;
	report(REPORT_ERROR, "%s: the kernel's FUSE and this libfuse (%s) do not agree",
	       s->args->dir, fuse_pkgversion());
	return EXIT_MOUNT;
}

/* The last thing that they were for is the mount; threads that come now are born without. */
static int drop_capabilities(const struct server *s)
{
	static const int none[] = {-1};

	if (s->args->options->nosandbox || sandbox_keep_capabilities(none) == 0)
		return EXIT_OK;
	report(REPORT_ERROR, "cannot give up the capabilities of the daemon");
	return EXIT_SYSTEM;
}

static int connect_kernel(struct server *s)
{
	struct mount_found found;
	int code = make_session(s);

	if (code == EXIT_OK)
		code = mount_kernel(s);
	if (code)
		return code;
	s->mounted = true;
	mounts_find_point(s->args->dir, &found);
	if (found.found)
		monitor_set_mount(found.major, found.minor);
	code = drop_capabilities(s);
	if (code == EXIT_OK)
		code = greet_kernel(s);
	if (code == EXIT_OK && found.found)
		mounts_set_readahead(found.major, found.minor, READAHEAD_KIB);
	return code;
}

/* ---- the end ---- */

static bool loop_ends_within(struct server *s, int ms)
{
	for (; ms > 0 && !atomic_load(&s->loop_ended); ms -= STOP_STEP_MS)
		usleep(STOP_STEP_MS * 1000);
	return atomic_load(&s->loop_ended);
}

static void *stop_thread(void *arg)
{
	struct server *s = arg;
	int fd = fuse_session_fd(s->session), r = monitor_unmount(fd, 0);

	if (r == -EBUSY) {
		report(REPORT_WARNING, "%s is busy: it is written back and detached",
		       s->args->dir);
		monitor_sync();
		monitor_unmount(fd, MNT_DETACH);
	} else if (loop_ends_within(s, STOP_GRACE_MS)) {
		return NULL;
	}
	transport_stop(s->transport);
	return NULL;
}

static void on_signal(void *arg)
{
	struct server *s = arg;

	if (!s->stopper_runs)
		s->stopper_runs = pthread_create(&s->stopper, NULL, stop_thread, s) == 0;
	else
		transport_stop(s->transport);
}

static int make_transport(struct server *s)
{
	const struct mount_options *options = s->args->options;
	struct transport_options o = {
	    .threads = options->max_threads,
	    .poll_us = sysconf(_SC_NPROCESSORS_ONLN) > 1 && !s->uring ? options->poll_us : 0,
	    .max_write = OPS_MAX_WRITE,
	    .slow_medium = media_kind(s->media) == MEDIA_FILE,
	};

	s->transport = transport_new(s->session, &o);
	if (!s->transport) {
		report(REPORT_ERROR, "cannot set up threads: %m");
		return EXIT_SYSTEM;
	}
	control_set_transport(s->transport, s->uring ? "uring" : "threads");
	return EXIT_OK;
}

static int run_loop(struct server *s)
{
	int r;

	daemon_on_stop(on_signal, s);
	r = daemon_catch_signals();
	if (r == 0)
		r = transport_run(s->transport);
	atomic_store(&s->loop_ended, true);
	daemon_on_stop(NULL, NULL);
	if (s->stopper_runs)
		pthread_join(s->stopper, NULL);
	return r;
}

/* Takes down what is there, in the order opposite to setting up. */
static int take_down(struct server *s, int code)
{
	int r;

	if (s->mounted)
		monitor_unmount(fuse_session_fd(s->session), MNT_DETACH);
	transport_free(s->transport);
	if (s->session)
		fuse_session_destroy(s->session);
	r = s->fs ? pmemfs_unmount(s->fs) : 0;
	if (r) {
		report(REPORT_ERROR, "unmounting failed: %s; run fsck.pmemfs %s", strerror(-r),
		       s->args->device);
		code = code ? code : EXIT_SYSTEM;
	}
	if (s->media && media_sync(s->media) < 0)
		report(REPORT_ERROR, "writing back to %s failed", s->args->device);
	media_close(s->media);
	return code;
}

/* From here on the process can do what serving takes, and ending. */
static int enter_sandbox(struct server *s)
{
	const struct mount_options *o = s->args->options;
	int r;

	if (o->nosandbox) {
		report(REPORT_WARNING, "the daemon of %s is not confined (nosandbox)",
		       s->args->dir);
		return EXIT_OK;
	}
	r = sandbox_enter(s->uring);
	if (r == -ENOSYS) {
		report(REPORT_WARNING,
		       "this kernel has no seccomp filters: the daemon of %s "
		       "has given up its capabilities, but no system calls",
		       s->args->dir);
		return EXIT_OK;
	}
	if (r) {
		report(REPORT_ERROR, "cannot confine the daemon: %s", strerror(-r));
		return EXIT_SYSTEM;
	}
	return EXIT_OK;
}

static int set_up(struct server *s)
{
	static int (*const steps[])(struct server * s) = {
	    open_medium,    look_at_medium, choose_transport, mount_early,
	    connect_kernel, make_transport, enter_sandbox,    mount_filesystem};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		int code;

		if (daemon_stopping()) {
			report(REPORT_ERROR, "interrupted");
			return EXIT_SIGNAL;
		}
		code = steps[i](s);
		if (code)
			return code;
	}
	return EXIT_OK;
}

int serve(const struct serve_args *args)
{
	struct server s = {.args = args, .cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN)};
	int code, r = monitor_start();

	if (r) {
		report(REPORT_ERROR, "cannot make a process: %s", strerror(-r));
		return EXIT_SYSTEM;
	}
	daemon_hold_signals();
	/* The kernel may want pages back through us: our own allocations must not wait for
	 * that. */
	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	report_libfuse();
	code = set_up(&s);
	if (code)
		return take_down(&s, code);
	report_durability(&s);
	report_verbose(&s);
	monitor_ready();
	daemon_ready(args->device);
	r = run_loop(&s);
	if (r < 0)
		report(REPORT_ERROR, "serving ended: %s", strerror(-r));
	return take_down(&s, r < 0 ? EXIT_SYSTEM : EXIT_OK);
}
