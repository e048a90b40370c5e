/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of FUSE's requests. Numbers, since a system's header may be older than its kernel. */
#ifndef PMEMFS_FS_OPCODES_H
#define PMEMFS_FS_OPCODES_H

static inline const char *opcode_name(unsigned opcode)
{
	static const char *const name[] = {
	    [1] = "LOOKUP",	   [2] = "FORGET",
	    [3] = "GETATTR",	   [4] = "SETATTR",
	    [5] = "READLINK",	   [6] = "SYMLINK",
	    [8] = "MKNOD",	   [9] = "MKDIR",
	    [10] = "UNLINK",	   [11] = "RMDIR",
	    [12] = "RENAME",	   [13] = "LINK",
	    [14] = "OPEN",	   [15] = "READ",
	    [16] = "WRITE",	   [17] = "STATFS",
	    [18] = "RELEASE",	   [20] = "FSYNC",
	    [21] = "SETXATTR",	   [22] = "GETXATTR",
	    [23] = "LISTXATTR",	   [24] = "REMOVEXATTR",
	    [25] = "FLUSH",	   [26] = "INIT",
	    [27] = "OPENDIR",	   [28] = "READDIR",
	    [29] = "RELEASEDIR",   [30] = "FSYNCDIR",
	    [31] = "GETLK",	   [32] = "SETLK",
	    [33] = "SETLKW",	   [34] = "ACCESS",
	    [35] = "CREATE",	   [36] = "INTERRUPT",
	    [37] = "BMAP",	   [38] = "DESTROY",
	    [39] = "IOCTL",	   [40] = "POLL",
	    [42] = "BATCH_FORGET", [43] = "FALLOCATE",
	    [44] = "READDIRPLUS",  [45] = "RENAME2",
	    [46] = "LSEEK",	   [47] = "COPY_FILE_RANGE",
	    [50] = "SYNCFS",	   [51] = "TMPFILE",
	    [52] = "STATX",	   [53] = "COPY_FILE_RANGE",
	};

	return opcode < sizeof(name) / sizeof(name[0]) && name[opcode] ? name[opcode] : "?";
}

#endif
