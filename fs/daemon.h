/* SPDX-License-Identifier: BSD-3-Clause */
/* Going into the background, and being told to stop. */
#ifndef PMEMFS_FS_DAEMON_H
#define PMEMFS_FS_DAEMON_H

#include <stdbool.h>

/*
 * Forks. Returns 0 in the child. The parent waits until the child says daemon_ready, or ends;
 * then *ret_exit is its exit code and 1 is returned. Negative errno: cannot fork.
 */
int daemon_fork(int *ret_exit);

/* The child is done with setting up: the command returns, and the terminal is let go. */
void daemon_ready(const char *subject);

/*
 * SIGTERM, SIGINT and SIGHUP go to a thread of their own from here on, which counts them and
 * calls what daemon_on_stop has set. Before the first other thread is made.
 */
int daemon_catch_signals(void);

/* Has a signal come? For the phases of setting up. */
bool daemon_stopping(void);

/*
 * stop(arg, n) is called in the signal thread for each further signal, the n-th in all; NULL
 * ends that, after a call that is under way has returned. Returns daemon_stopping().
 */
bool daemon_on_stop(void (*stop)(void *arg, int n), void *arg);

#endif
