/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands of the pmemfs tool. */
#ifndef PMEMFS_FS_TOOL_H
#define PMEMFS_FS_TOOL_H

enum tool_exit {
	TOOL_OK = 0,
	TOOL_USAGE = 1,
	TOOL_FAILED = 1, /* it cannot be done */
};

/* One line on stderr, with the tool's and the subcommand's name in front. */
void tool_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An ioctl of control.h on the open mount point. -1: failed, and it was said why. */
int tool_ask(int fd, const char *point, unsigned long request, void *arg);

/* 4096 -> "4 KiB", 1536 -> "1.5 KiB"; in a buffer of 32 bytes. */
const char *tool_size(unsigned long long bytes, char *buf);

/* argv[0] is the subcommand's name. Each returns an exit code. */
int tool_info(int argc, char **argv);
int tool_calibrate(int argc, char **argv);
int tool_top(int argc, char **argv);
int tool_scrub(int argc, char **argv);
int tool_quota(int argc, char **argv);

#endif
