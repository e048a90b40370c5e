/* SPDX-License-Identifier: BSD-3-Clause */
/* pmemfs: the administrator's tool. This file only finds the subcommand. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "tool.h"

static const struct subcommand {
	const char *name, *arguments, *what;
	int (*run)(int argc, char **argv);
} subcommands[] = {
    {"info", "[-j] DEVICE", "what a filesystem and its medium are like", tool_info},
    {"calibrate", "[-j] DEVICE", "measure how data is copied to it fastest", tool_calibrate},
    {"top", "[-j] MOUNTPOINT", "what a mounted filesystem is doing", tool_top},
    {"scrub", "[-j] MOUNTPOINT", "verify everything in a mounted filesystem", tool_scrub},
    {"quota", "[-j] MOUNTPOINT", "what users and groups use, and may use", tool_quota},
};

#define SUBCOMMANDS (sizeof(subcommands) / sizeof(subcommands[0]))

static const char *running; /* the subcommand's name */

void tool_error(const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "pmemfs%s%s: ", running ? " " : "", running ? running : "");
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
}

int tool_ask(int fd, const char *point, unsigned long request, void *arg)
{
	if (ioctl(fd, request, arg) == 0)
		return 0;
	if (errno == ENOTTY || errno == EINVAL)
		tool_error("%s is not the mount point of a pmemfs, or its daemon is of another "
			   "version",
			   point);
	else if (errno == ESRCH)
		tool_error("%s has no quotas: pmemfs quota on %s", point, point);
	else
		tool_error("%s: %s", point,
			   errno == EPERM ? "only root may do this" : strerror(errno));
	return -1;
}

const char *tool_size(unsigned long long bytes, char *buf)
{
	static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = bytes;
	size_t i = 0;

	while (value >= 1024 && i + 1 < sizeof(unit) / sizeof(unit[0])) {
		value /= 1024;
		i++;
	}
	snprintf(buf, 32, value == (unsigned long long)value ? "%.0f %s" : "%.1f %s", value,
		 unit[i]);
	return buf;
}

static void print_usage(FILE *to)
{
	fputs("usage: pmemfs SUBCOMMAND ...\n"
	      "       pmemfs --help | --version\n\n",
	      to);
	for (size_t i = 0; i < SUBCOMMANDS; i++)
		fprintf(to, "  pmemfs %s %-15s %s\n", subcommands[i].name,
			subcommands[i].arguments, subcommands[i].what);
	fputs("\npmemfs SUBCOMMAND --help tells more. See also mkfs.pmemfs(8), mount.pmemfs(8) "
	      "and "
	      "fsck.pmemfs(8).\n",
	      to);
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_usage(stderr);
		return TOOL_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		print_usage(stdout);
		return TOOL_OK;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		printf("pmemfs %s\n", PMEMFS_VERSION_STRING);
		return TOOL_OK;
	}
	for (size_t i = 0; i < SUBCOMMANDS; i++)
		if (strcmp(argv[1], subcommands[i].name) == 0) {
			running = argv[1];
			return subcommands[i].run(argc - 1, argv + 1);
		}
	tool_error("unknown subcommand \"%s\"; pmemfs --help lists them", argv[1]);
	return TOOL_USAGE;
}
