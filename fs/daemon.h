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

/* SIGTERM, SIGINT and SIGHUP wait from here on. Before the first other thread is made. */
void daemon_hold_signals(void);

/* Has a signal come? For the phases of setting up. */
bool daemon_stopping(void);

/*
 * stop(arg) is called for each signal, in a thread that daemon_catch_signals makes; NULL ends
 * that, after a call that is under way has returned.
 */
void daemon_on_stop(void (*stop)(void *arg), void *arg);
int daemon_catch_signals(void);

#endif
