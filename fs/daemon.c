/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parent process is the command that somebody typed: it lives until the filesystem answers,
 * so that its exit code and the child's messages on the shared stderr tell the whole story.
 *
 * Lock: stop_lock guards the function that is told of signals.
 */
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

static int ready_fd = -1;    /* child: the pipe to the parent */
static int null_fd = -1;     /* child: what takes the terminal's place */
static volatile pid_t child; /* parent: whom signals are passed on to */

static pthread_mutex_t stop_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*stop_fn)(void *arg);
static void *stop_arg;

static void pass_on(int sig)
{
	int saved = errno;

	if (child > 0)
		kill(child, sig);
	errno = saved;
}

/* Exit code of a child that ended without saying that it is ready. */
static int exit_of(int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	report(REPORT_ERROR, "the daemon was ended by signal %d (%s) before it was ready",
	       WTERMSIG(status), strsignal(WTERMSIG(status)));
	return EXIT_BUG;
}

static int wait_for_child(int fd)
{
	char byte;
	ssize_t n;
	int status;

	do
		n = read(fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		return EXIT_OK;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_SYSTEM;
	return exit_of(status);
}

static void signals_of_stop(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGHUP);
}

/* The parent's part, with the signals still blocked. */
static int be_parent(pid_t pid, int fd, const sigset_t *set)
{
	struct sigaction sa = {.sa_handler = pass_on};

	child = pid;
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	sigprocmask(SIG_UNBLOCK, set, NULL);
	return wait_for_child(fd);
}

int daemon_fork(int *ret_exit)
{
	sigset_t set;
	int fd[2], r;
	pid_t pid;

	/* Whatever was inherited (a lock of a script, say) must not live as long as the mount.
	 */
	close_range(STDERR_FILENO + 1, ~0u, 0);
	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	signals_of_stop(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pid = fork();
	if (pid < 0) {
		r = -errno;
		close(fd[0]);
		close(fd[1]);
		return r;
	}
	if (pid == 0) {
		close(fd[0]);
		ready_fd = fd[1];
		setsid(); /* the terminal's signals come through the parent, once */
		null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (null_fd < 0 || chdir("/") < 0)
			report(REPORT_WARNING, "cannot leave the terminal and directory: %m");
		return 0;
	}
	close(fd[1]);
	*ret_exit = be_parent(pid, fd[0], &set);
	return 1;
}

void daemon_ready(const char *subject)
{
	if (ready_fd < 0)
		return;
	report_to_syslog(subject);
	for (int i = 0; i <= STDERR_FILENO; i++)
		dup2(null_fd, i);
	close(null_fd);
	while (write(ready_fd, "", 1) < 0 && errno == EINTR)
		;
	close(ready_fd);
	ready_fd = -1;
}

static void *signal_thread(void *unused)
{
	sigset_t set;
	int sig;

	signals_of_stop(&set);
	for (;;) {
		if (sigwait(&set, &sig) != 0)
			continue;
		pthread_mutex_lock(&stop_lock);
		if (stop_fn)
			stop_fn(stop_arg);
		pthread_mutex_unlock(&stop_lock);
	}
	return NULL;
}

void daemon_hold_signals(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	signals_of_stop(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

bool daemon_stopping(void)
{
	sigset_t set;

	sigpending(&set);
	return sigismember(&set, SIGTERM) || sigismember(&set, SIGINT) ||
	       sigismember(&set, SIGHUP);
}

int daemon_catch_signals(void)
{
	pthread_t thread;

	return -pthread_create(&thread, NULL, signal_thread, NULL);
}

void daemon_on_stop(void (*stop)(void *arg), void *arg)
{
	pthread_mutex_lock(&stop_lock);
	stop_fn = stop;
	stop_arg = arg;
	pthread_mutex_unlock(&stop_lock);
}
