/* SPDX-License-Identifier: BSD-3-Clause */
/* How requests come from the kernel to the handlers. */
#ifndef PMEMFS_FS_TRANSPORT_H
#define PMEMFS_FS_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

struct control_stats;
struct fuse_session;
struct transport;

struct transport_options {
	unsigned threads; /* at most */
	unsigned poll_us; /* how long to look for a request before sleeping; 0: never */
	size_t max_write;
	bool slow_medium; /* any request may wait for a disk */
};

/* NULL: no memory, no descriptor. The session is mounted and greeted. */
struct transport *transport_new(struct fuse_session *session,
				const struct transport_options *o);

/* Serves in this thread and others until the mount or the session ends. 0 or -errno. */
int transport_run(struct transport *t);

/* Ends transport_run, from any thread. */
void transport_stop(struct transport *t);

void transport_free(struct transport *t);

/* Adds what the threads counted. */
void transport_stats(struct transport *t, struct control_stats *ret);

#endif
