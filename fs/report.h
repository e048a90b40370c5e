/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the mount command and its daemon, and the exit codes of mount(8). */
#ifndef PMEMFS_FS_REPORT_H
#define PMEMFS_FS_REPORT_H

#include <stdbool.h>

enum exit_code {
	EXIT_OK = 0,
	EXIT_USAGE = 1,	 /* wrong use of the command, or not permitted */
	EXIT_SYSTEM = 2, /* out of memory, cannot fork, ... */
	EXIT_BUG = 4,	 /* the daemon died by itself */
	EXIT_SIGNAL = 8, /* interrupted by the user */
	EXIT_MOUNT = 32, /* the mount failed */
};

#define REPORT_MAX 1280 /* bytes of a line, with what is put before it */

enum report_level { REPORT_ERROR, REPORT_WARNING, REPORT_INFO };

/* One line, without its newline, on stderr; in a daemon that lost its terminal, to syslog. */
void report(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* From now on messages go to syslog, by way of the monitor, each beginning with `subject`,
 * which must stay. */
void report_to_syslog(const char *subject);

/* libfuse's own messages take the same way. */
void report_libfuse(void);

#endif
