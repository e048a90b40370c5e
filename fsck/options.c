/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of fsck.pmemfs: the options of fsck(8) and e2fsck(8) that make sense here,
 * and those that `fsck -t pmemfs` may hand on, which are accepted and do nothing.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "options.h"

enum { OPT_UNDO = 256 };

static const struct option longopts[] = {
    {"no", no_argument, NULL, 'n'},
    {"yes", no_argument, NULL, 'y'},
    {"preen", no_argument, NULL, 'p'},
    {"force", no_argument, NULL, 'f'},
    {"bad-blocks", no_argument, NULL, 'c'},
    {"verbose", no_argument, NULL, 'v'},
    {"progress", required_argument, NULL, 'C'},
    {"backup", required_argument, NULL, 'b'},
    {"undo", required_argument, NULL, OPT_UNDO},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static const char help[] =
    "Usage: fsck.pmemfs [-n|-y|-p|-a] [-f] [-c] [-v] [-C FD] [-b FILE] DEVICE-OR-IMAGE\n"
    "       fsck.pmemfs --undo=FILE DEVICE-OR-IMAGE\n"
    "Checks a pmemfs filesystem and repairs it. It must not be mounted.\n"
    "\n"
    "  -n, --no           change nothing, answer every question with no\n"
    "  -y, --yes          answer every question with yes\n"
    "  -p, -a, --preen    repair what is safe without asking\n"
    "  -f, --force        check although it is marked clean\n"
    "  -c, --bad-blocks   read every block, and put the list of bad ones right\n"
    "  -v, --verbose      say more\n"
    "  -C, --progress=FD  write progress to this descriptor; 0: a bar on the terminal\n"
    "  -b, --backup=FILE  save to this new file what is changed, before it is\n"
    "      --undo=FILE    make the device what it was before that\n"
    "  -V, --version      print the version\n"
    "  -h, --help         print this\n"
    "\n"
    "Exit code: 0 clean, 1 repaired, 4 errors left, 8 failed, 16 usage, 32 canceled.\n";

static int usage(const char *what)
{
	if (what)
		fprintf(stderr, "fsck.pmemfs: %s\n", what);
	fputs("Try 'fsck.pmemfs --help'.\n", stderr);
	return -EINVAL;
}

static int set_mode(struct fsck_options *o, enum pmemfs_fix fix)
{
	if (o->mode_given && o->fix != fix)
		return usage("only one of the options -n, -y, -p and -a may be given");
	o->mode_given = true;
	o->fix = fix;
	return 0;
}

static int parse_fd(const char *s, int *ret)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(s, &end, 10);
	if (errno || end == s || *end || v > INT_MAX || v < INT_MIN)
		return usage("-C needs the number of a file descriptor");
	*ret = v < 0 ? -1 : (int)v;
	return 0;
}

/* One option; 1: it ends the program, all right. */
static int parse_one(int c, struct fsck_options *o)
{
	switch (c) {
	case 'n':
		return set_mode(o, PMEMFS_FIX_NONE);
	case 'y':
		return set_mode(o, PMEMFS_FIX_ALL);
	case 'p':
	case 'a':
		return set_mode(o, PMEMFS_FIX_SAFE);
	case 'f':
		o->force = true;
		return 0;
	case 'c':
		o->force = o->bad_blocks = true;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	case 'C':
		return parse_fd(optarg, &o->progress_fd);
	case 'b':
		o->backup = optarg;
		return 0;
	case OPT_UNDO:
		o->undo = optarg;
		return 0;
	case 'r': /* ask; the default */
	case 'M':
	case 'T':
	case 'R':
	case 's':
	case 't':
		return 0;
	case 'V':
		puts("fsck.pmemfs " PMEMFS_VERSION_STRING);
		return 1;
	case 'h':
		fputs(help, stdout);
		return 1;
	default:
		return usage(NULL);
	}
}

int fsck_options_parse(int argc, char **argv, struct fsck_options *ret, int *ret_code)
{
	int c, r = 0;

	*ret = (struct fsck_options){.fix = PMEMFS_FIX_ASK, .progress_fd = -1};
	while (!r &&
	       (c = getopt_long(argc, argv, "nypafcvC:b:rMTRst:Vh", longopts, NULL)) != -1)
		r = parse_one(c, ret);
	if (!r && optind == argc)
		r = usage("usage: a device or an image file must be named");
	if (!r && optind + 1 < argc)
		r = usage("usage: one device or image file at a time");
	if (!r && ret->undo && (ret->mode_given || ret->backup))
		r = usage("--undo does not go with other options");
	*ret_code = r < 0 ? FSCK_USAGE : FSCK_OK;
	if (!r)
		ret->path = argv[optind];
	return r;
}
