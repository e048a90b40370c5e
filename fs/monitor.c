/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 1. The monitor does what is listed here and nothing that the daemon could name: no path, no
 *    command, no mount but the one it was told of before the first request was served.
 * 2. It holds neither the medium nor /dev/fuse, so that both go with the daemon.
 * 3. One message is one packet, answered by an int if it is a question. Only one question is on
 *    its way at a time.
 *
 * Lock: `lock` makes a question and its answer one; for unmounting and writing back, during
 * which others must not wait, `away` stands for it. A leaf.
 */
#include "monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

#include "mounts.h"
#include "report.h"
#include "sandbox.h"

/* Mounts of one connection that are unmounted at most: bind mounts, one on another. */
#define UNMOUNT_MAX 64

enum op { SET_MOUNT, READY, UNMOUNT, SYNC, IN_GROUP, LOG };

struct message {
	uint32_t op;
	uint32_t arg[2];
	char text[REPORT_MAX]; /* LOG: as much of it as is used */
};

#define HEAD_SIZE offsetof(struct message, text)

static int channel = -1; /* the daemon's end, non-blocking */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool away;

/* ---- the monitor ---- */

/* A line of /proc/.../status: "Groups:\t4 24 27 " */
static bool group_listed(const char *line, unsigned long gid)
{
	char *end;

	for (const char *s = line + strlen("Groups:");; s = end) {
		unsigned long n = strtoul(s, &end, 10);

		if (end == s)
			return false;
		if (n == gid)
			return true;
	}
}

static bool thread_in_group(unsigned tid, unsigned gid)
{
	char path[40], *line = NULL;
	bool found = false;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/status", tid, tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (getline(&line, &size, f) > 0)
		if (strncmp(line, "Groups:", strlen("Groups:")) == 0)
			found = group_listed(line, gid);
	free(line);
	fclose(f);
	return found;
}

static void write_log(const struct message *m)
{
	static const int priority[] = {LOG_ERR, LOG_WARNING, LOG_INFO};

	if (m->arg[0] < sizeof(priority) / sizeof(priority[0]))
		syslog(priority[m->arg[0]], "%s", m->text);
}

static unsigned mount_major, mount_minor; /* of the mount; 0, 0: not known */
static bool setting_up; /* it is there, and the command that made it has not ended */

/* The answer to a question; of others nobody takes note. */
static int32_t obey(const struct message *m)
{
	switch (m->op) {
	case SET_MOUNT:
		if (mount_major || mount_minor)
			return -EPERM;
		mount_major = m->arg[0];
		mount_minor = m->arg[1];
		setting_up = true;
		return 0;
	case READY:
		setting_up = false;
		return 0;
	case UNMOUNT:
		setting_up = false;
		return mounts_unmount_top(mount_major, mount_minor, m->arg[0]);
	case SYNC:
		mounts_sync(mount_major, mount_minor);
		return 0;
	case IN_GROUP:
		return thread_in_group(m->arg[0], m->arg[1]);
	case LOG:
		write_log(m);
		return 0;
	default:
		return -ENOSYS;
	}
}

static _Noreturn void be_monitor(int fd)
{
	struct message m;
	int32_t answer;
	ssize_t n;

	for (;;) {
		n = read(fd, &m, sizeof(m) - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < (ssize_t)HEAD_SIZE) { /* the daemon is gone */
			if (setting_up)
				mounts_unmount_top(mount_major, mount_minor, MNT_DETACH);
			_exit(0);
		}
		((char *)&m)[n] = '\0';
		answer = obey(&m);
		if (m.op != LOG && write(fd, &answer, sizeof(answer)) < 0)
			_exit(0);
	}
}

/* Lets go of everything that it was born with. */
static _Noreturn void begin(int fd, pid_t daemon)
{
	static const int needed[] = {CAP_SYS_ADMIN, CAP_DAC_READ_SEARCH, -1};
	static char ident[32]; /* syslog keeps the pointer */
	int null = open("/dev/null", O_RDWR);

	for (int i = 0; i <= STDERR_FILENO; i++)
		if (null < 0 || dup2(null, i) < 0)
			close(i);
	if (dup2(fd, STDERR_FILENO + 1) < 0 || chdir("/") < 0)
		_exit(1);
	close_range(STDERR_FILENO + 2, ~0u, 0);
	/* It is the daemon that signals are for. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_NAME, "pmemfs-monitor");
	snprintf(ident, sizeof(ident), "pmemfs[%d]", (int)daemon);
	openlog(ident, 0, LOG_DAEMON);
	sandbox_keep_capabilities(needed);
	be_monitor(STDERR_FILENO + 1);
}

int monitor_start(void)
{
	pid_t daemon = getpid(), pid;
	int fd[2], r = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		begin(fd[1], daemon);
	if (pid < 0 || fcntl(fd[0], F_SETFL, O_NONBLOCK) < 0)
		r = -errno;
	close(fd[1]);
	if (r)
		close(fd[0]);
	else
		channel = fd[0];
	return r;
}

/* ---- the daemon ---- */

static bool wait_for(short what)
{
	struct pollfd p = {.fd = channel, .events = what};

	while (poll(&p, 1, -1) < 0)
		if (errno != EINTR)
			return false;
	return p.revents & what;
}

/* With the lock, or `away`. -EPIPE: there is no monitor. */
static int send_question(enum op op, uint32_t arg0, uint32_t arg1)
{
	struct message m = {.op = op, .arg = {arg0, arg1}};
	ssize_t n;

	do
		n = wait_for(POLLOUT) ? write(channel, &m, HEAD_SIZE) : 0;
	while (n < 0 && (errno == EAGAIN || errno == EINTR));
	return n == (ssize_t)HEAD_SIZE ? 0 : -EPIPE;
}

static int receive_answer(void)
{
	int32_t answer;
	ssize_t n;

	do
		n = wait_for(POLLIN) ? read(channel, &answer, sizeof(answer)) : 0;
	while (n < 0 && (errno == EAGAIN || errno == EINTR));
	return n == sizeof(answer) ? answer : -EPIPE;
}

/* During `away` the answer is no error. */
static int ask(enum op op, uint32_t arg0, uint32_t arg1)
{
	int r = 0;

	pthread_mutex_lock(&lock);
	if (!away)
		r = send_question(op, arg0, arg1);
	if (!away && r == 0)
		r = receive_answer();
	pthread_mutex_unlock(&lock);
	return r;
}

static void set_away(bool now)
{
	pthread_mutex_lock(&lock);
	away = now;
	pthread_mutex_unlock(&lock);
}

static int send_away(enum op op, uint32_t arg)
{
	int r;

	set_away(true);
	r = send_question(op, arg, 0);
	if (r == 0)
		r = receive_answer();
	set_away(false);
	return r;
}

void monitor_set_mount(unsigned major, unsigned minor)
{
	ask(SET_MOUNT, major, minor);
}

void monitor_ready(void)
{
	ask(READY, 0, 0);
}

/* The kernel says so on the descriptor when no mount of a connection is left. */
static bool is_connected(int fd)
{
	struct pollfd p = {.fd = fd};

	return poll(&p, 1, 0) == 0 || !(p.revents & POLLERR);
}

int monitor_unmount(int fd, int flags)
{
	/* Once it is disconnected, the numbers may be those of somebody else's mount. */
	for (int i = 0; i < UNMOUNT_MAX && is_connected(fd); i++) {
		int r = send_away(UNMOUNT, flags);

		if (r)
			return r == -ENOENT ? 0 : r;
	}
	return is_connected(fd) ? -EBUSY : 0;
}

void monitor_sync(void)
{
	send_away(SYNC, 0);
}

bool monitor_in_group(pid_t tid, gid_t gid)
{
	return ask(IN_GROUP, tid, gid) == 1;
}

void monitor_log(int level, const char *subject, const char *line)
{
	struct message m = {.op = LOG, .arg = {level}};

	snprintf(m.text, sizeof(m.text) - 1, "%s: %s", subject, line);
	if (write(channel, &m, HEAD_SIZE + strlen(m.text)) < 0)
		return; /* nowhere to say that it could not be said */
}
