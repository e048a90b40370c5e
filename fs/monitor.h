/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process beside the daemon that does the few things which the daemon, once in its sandbox,
 * cannot: unmount, tell who is in a group, write to syslog.
 */
#ifndef PMEMFS_FS_MONITOR_H
#define PMEMFS_FS_MONITOR_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Forks it. Before there are threads, and before the medium and /dev/fuse are open, which must
 * not outlive the daemon. It ends when the daemon does. 0 or a negative errno. The other calls
 * may come from any thread; without a monitor they fail.
 */
int monitor_start(void);

/* The one mount that it unmounts and writes back, as the mount table has it. Counts once. */
void monitor_set_mount(unsigned major, unsigned minor);

/* That mount is served. Until it is said, it goes if the daemon dies. */
void monitor_ready(void);

/*
 * Unmounts every mount of the connection fd in this mount namespace; flags as for umount2(2).
 * Waits as long as that takes, while requests have to be served. By one thread at a time.
 * -EBUSY, other negative errnos; 0 when none is left.
 */
int monitor_unmount(int fd, int flags);

/* Writes back what the kernel still has dirty of the mount. Waits, as monitor_unmount. */
void monitor_sync(void);

/*
 * Has that thread the supplementary group? While the monitor unmounts or writes back, which
 * could be waiting for who asks, it has not.
 */
bool monitor_in_group(pid_t tid, gid_t gid);

/* A line for syslog, of level REPORT_*. Never waits: what cannot be taken is dropped. */
void monitor_log(int level, const char *subject, const char *line);

#endif
