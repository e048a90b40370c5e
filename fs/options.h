/* SPDX-License-Identifier: BSD-3-Clause */
/* What mount(8), fstab, systemd and people put behind -o. */
#ifndef PMEMFS_FS_OPTIONS_H
#define PMEMFS_FS_OPTIONS_H

#include <stdbool.h>

#define OPTIONS_POLL_US 30

struct mount_options {
	unsigned long flags; /* MS_* */
	unsigned long named; /* those of them that some option was about */
	bool remount;
	bool nonempty;	 /* the mount point may be one already */
	bool noacl;	 /* no access control lists */
	bool silent;	 /* no notes, only errors */
	bool nosandbox;	 /* the daemon is not confined */
	bool writeback;	 /* write() is durable later */
	bool sloppy;	 /* unknown options are passed over */
	char *source;	 /* fsname=, or NULL */
	char *flush;	 /* flush=, or NULL: auto */
	char *transport; /* transport=, or NULL: threads */
	char *kernel; /* options that the kernel parses (context= ...), comma-separated, or NULL
		       */
	unsigned max_threads;
	unsigned poll_us;
	unsigned recovery_threads;
};

void options_init(struct mount_options *o);
void options_done(struct mount_options *o);

/*
 * Adds a comma-separated list, as behind -o; a later option wins. What is wrong with it is
 * reported. -EINVAL, -ENOMEM.
 */
int options_parse(struct mount_options *o, const char *list);

/* The generic flags as words that fusermount3 understands, comma-separated. */
void options_flags_text(unsigned long flags, char *buf, unsigned size);

#endif
