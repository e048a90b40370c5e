/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tools ask the daemon of a mounted filesystem: ioctls on its root. */
#ifndef PMEMFS_FS_CONTROL_H
#define PMEMFS_FS_CONTROL_H

#include <stdint.h>
#include <sys/ioctl.h>

/*
 * mount -o remount: stop (1) or start (0) writing to the medium. Root only. EROFS: the medium
 * or damage forbid it.
 */
#define PMEMFS_IOC_SET_READONLY _IOW(0xf2, 1, uint32_t)

#define CONTROL_OPCODES 64 /* FUSE's; those that are higher count as 0 */
#define CONTROL_TIMES	32 /* [i]: 2^i ns and more, less than twice that */

enum control_kind { CONTROL_READ, CONTROL_WRITE, CONTROL_OTHER, CONTROL_KINDS };

/* Since the filesystem was mounted, but for the last group. */
struct control_stats {
	uint64_t uptime_ns;
	uint64_t count[CONTROL_OPCODES], ns[CONTROL_OPCODES]; /* requests of the kernel */
	uint64_t took[CONTROL_KINDS][CONTROL_TIMES];
	uint64_t read_bytes, written_bytes; /* as they were asked for */
	uint64_t sleeps, polls;		    /* requests that were slept for, and polled for */
	uint64_t fences, flushed_lines, nt_lines, media_bytes;
	/* now */
	uint64_t threads, busy, longest_ns; /* being served, and the oldest of them */
	uint64_t blocks, free_blocks, available_blocks, files, free_files; /* of 4 KiB */
	char transport[32];
};

/*
 * Verifies from inode `next` on (0: from the beginning) about `budget` bytes, 16 MiB at most,
 * and adds to the counters. next is where to go on; 0: that was all. Root only.
 */
struct control_scrub {
	uint64_t next, budget;
	uint64_t inodes, bytes, damaged, repaired; /* as in struct pmemfs_scrub */
	uint64_t all;				   /* inodes in use */
};
#define PMEMFS_IOC_SCRUB _IOWR(0xf2, 3, struct control_scrub)

/* Whoever may open the root directory for reading. ENOTTY: a daemon of another version. */
#define PMEMFS_IOC_STATS _IOR(0xf2, 2, struct control_stats)

#endif
