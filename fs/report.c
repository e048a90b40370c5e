/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where messages go: to the terminal of who typed the command while there is one, to syslog
 * afterwards. Switched once, by the thread that daemonizes; messages may come from any thread.
 */
#include "report.h"

#include <fuse_lowlevel.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "monitor.h"

#define MESSAGE_MAX 1024

static _Atomic(const char *) syslog_subject;

static void report_line(int level, const char *line)
{
	const char *subject = atomic_load(&syslog_subject);

	if (subject)
		monitor_log(level, subject, line);
	else
		fprintf(stderr, "mount.pmemfs: %s\n", line);
}

void report(int level, const char *format, ...)
{
	char line[MESSAGE_MAX];
	va_list ap;

	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	report_line(level, line);
}

void report_to_syslog(const char *subject)
{
	atomic_store(&syslog_subject, subject);
}

static void report_from_libfuse(enum fuse_log_level level, const char *format, va_list ap)
{
	char line[MESSAGE_MAX];
	size_t n;

	if (level > FUSE_LOG_INFO)
		return;
	vsnprintf(line, sizeof(line), format, ap);
	n = strlen(line);
	if (n > 0 && line[n - 1] == '\n')
		line[n - 1] = '\0';
	report_line(level <= FUSE_LOG_ERR	? REPORT_ERROR
		    : level == FUSE_LOG_WARNING ? REPORT_WARNING
						: REPORT_INFO,
		    line);
}

void report_libfuse(void)
{
	fuse_set_log_func(report_from_libfuse);
}
