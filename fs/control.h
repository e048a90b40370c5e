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

/*
 * What users (kind 1) or groups (2) use, and may use: those with ids from `from` on, ascending,
 * a part; more says whether to ask again, from after the last one. Others than root get what
 * concerns themselves: their user and their groups. ESRCH: there are no quotas.
 */
#define CONTROL_QUOTAS 128
struct control_quota {
	uint32_t kind, id;
	uint64_t blocks, block_limit; /* of 4 KiB; limit 0: none */
	uint64_t inodes, inode_limit;
};
struct control_quotas {
	uint32_t kind, from;
	uint32_t n, more;
	struct control_quota v[CONTROL_QUOTAS];
};
#define PMEMFS_IOC_QUOTAS _IOWR(0xf2, 4, struct control_quotas)

/* Sets the limits that the mask names (1 blocks, 2 inodes). Root only. */
struct control_quota_set {
	struct control_quota quota;
	uint32_t mask, reserved;
};
#define PMEMFS_IOC_QUOTA_SET _IOW(0xf2, 5, struct control_quota_set)

/* Switches quotas on (1) or off (0). Root only. */
#define PMEMFS_IOC_QUOTA_SWITCH _IOW(0xf2, 6, uint32_t)

/* Whoever may open the root directory for reading. ENOTTY: a daemon of another version. */
#define PMEMFS_IOC_STATS _IOR(0xf2, 2, struct control_stats)

#endif
