/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of mkfs.pmemfs: what it accepts, and in what words it refuses. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uuid.h>

#include "format.h"
#include "options.h"
#include "util.h"

enum { OPT_SIZE = 256, OPT_SHARDS, OPT_NO_CALIBRATE };

static const struct option longopts[] = {
    {"label", required_argument, NULL, 'L'},
    {"uuid", required_argument, NULL, 'U'},
    {"dry-run", no_argument, NULL, 'n'},
    {"quiet", no_argument, NULL, 'q'},
    {"force", no_argument, NULL, 'f'},
    {"size", required_argument, NULL, OPT_SIZE},
    {"shards", required_argument, NULL, OPT_SHARDS},
    {"no-calibrate", no_argument, NULL, OPT_NO_CALIBRATE},
    {"features", required_argument, NULL, 'O'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static const char help[] =
    "Usage: mkfs.pmemfs [OPTION]... DEVICE-OR-IMAGE\n"
    "Makes a pmemfs filesystem on a devdax device or in an image file.\n"
    "\n"
    "  -L, --label=LABEL    name of the filesystem, up to 32 bytes\n"
    "  -U, --uuid=UUID      its UUID; without this or with 'random' a new one\n"
    "  -O, --features=LIST  features, with commas between; ^ before one: without it.\n"
    "                       replica: two copies of all metadata (default: off)\n"
    "      --size=SIZE      make the image file, or set its size; on a device, how much\n"
    "                       of it to use (suffixes K, M, G, T)\n"
    "      --shards=N       pieces that work in parallel, 1 to 256 (default: by CPUs)\n"
    "      --no-calibrate   do not measure which instructions copy fastest\n"
    "  -f, --force          format although something else is there\n"
    "  -n, --dry-run        say what would be done, write nothing\n"
    "  -q, --quiet          say nothing when all goes well\n"
    "  -V, --version        print the version\n"
    "  -h, --help           print this\n";

static int usage(const char *what, const char *arg)
{
	fprintf(stderr, "mkfs.pmemfs: %s%s%s\nTry 'mkfs.pmemfs --help'.\n", what,
		arg ? ": " : "", arg ? arg : "");
	return -EINVAL;
}

static int parse_size(const char *s, uint64_t *ret)
{
	static const char suffixes[] = "KMGTP";
	const char *suffix;
	char *end;
	unsigned shift = 0;
	unsigned long long v;

	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno || end == s || !isdigit((unsigned char)*s))
		return usage("--size needs a number with K, M, G or T", s);
	if (*end) {
		suffix = strchr(suffixes, toupper((unsigned char)*end));
		if (!suffix || (end[1] && strcmp(end + 1, "iB")))
			return usage("--size needs a number with K, M, G or T", s);
		shift = 10 * (unsigned)(suffix - suffixes + 1);
	}
	if (v > (UINT64_MAX >> 1) >> shift)
		return usage("--size is too large", s);
	v <<= shift;
	if (v < PMEMFS_MIN_SIZE)
		return usage("--size is too small, pmemfs needs 16M at least", s);
	if (v % PMEMFS_BLOCK_SIZE)
		return usage("--size must be a multiple of 4096 bytes", s);
	if (v / PMEMFS_BLOCK_SIZE > PMEMFS_MAX_BLOCKS)
		return usage("--size is too large, pmemfs knows up to 64 PiB", s);
	*ret = v;
	return 0;
}

static int parse_shards(const char *s, unsigned *ret)
{
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(s, &end, 10);
	if (errno || end == s || *end || !isdigit((unsigned char)*s) || !v ||
	    v > PMEMFS_MAX_SHARDS)
		return usage("--shards needs a number from 1 to 256", s);
	*ret = (unsigned)v;
	return 0;
}

static int parse_uuid(const char *s, uint8_t ret[16])
{
	uuid_t uuid;

	if (!strcmp(s, "random")) {
		memset(ret, 0, 16);
		return 0;
	}
	if (uuid_parse(s, uuid) || uuid_is_null(uuid))
		return usage("--uuid needs a UUID like "
			     "3e6be9de-8139-11d1-9106-a43f08d823a6, or 'random'",
			     s);
	memcpy(ret, uuid, 16);
	return 0;
}

static int check_label(const char *s, const char **ret)
{
	if (strlen(s) > PMEMFS_LABEL_MAX)
		return usage("--label is too long, it may have 32 bytes", s);
	for (const char *p = s; *p; p++)
		if (iscntrl((unsigned char)*p))
			return usage("--label must not have control characters", NULL);
	*ret = s;
	return 0;
}

/* A list of features, "^" before one turns it off. */
static int parse_features(char *list, struct pmemfs_format_options *ret)
{
	char *save, *word;

	for (word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		bool on = *word != '^';

		if (!strcmp(word + !on, "replica"))
			ret->replica = on;
		else if (!strcmp(word + !on, "parity"))
			ret->parity = on;
		else
			return usage("--features knows no such feature", word);
	}
	return 0;
}

/* One option; 1: it ends the program, all right. */
static int parse_one(int c, struct mkfs_options *o)
{
	switch (c) {
	case 'L':
		return check_label(optarg, &o->format.label);
	case 'U':
		return parse_uuid(optarg, o->format.uuid);
	case 'O':
		return parse_features(optarg, &o->format);
	case 'n':
		o->dry = true;
		return 0;
	case 'q':
		o->quiet = true;
		return 0;
	case 'f':
		o->force = true;
		return 0;
	case OPT_SIZE:
		return parse_size(optarg, &o->format.size);
	case OPT_SHARDS:
		return parse_shards(optarg, &o->format.shards);
	case OPT_NO_CALIBRATE:
		o->no_calibrate = true;
		return 0;
	case 'V':
		puts("mkfs.pmemfs " PMEMFS_VERSION_STRING);
		return 1;
	case 'h':
		fputs(help, stdout);
		return 1;
	default:
		fputs("Try 'mkfs.pmemfs --help'.\n", stderr);
		return -EINVAL;
	}
}

int mkfs_options_parse(int argc, char **argv, struct mkfs_options *ret, int *ret_code)
{
	int c, r = 0;

	*ret = (struct mkfs_options){0};
	while (!r && (c = getopt_long(argc, argv, "L:U:O:nqfVh", longopts, NULL)) != -1)
		r = parse_one(c, ret);
	if (!r && optind == argc)
		r = usage("a device or an image file must be named", NULL);
	if (!r && optind + 1 < argc)
		r = usage("unexpected argument, only one device or image file is made",
			  argv[optind + 1]);
	*ret_code = r < 0;
	if (!r)
		ret->path = argv[optind];
	return r;
}

const char *mkfs_size_words(uint64_t bytes, char *buf, size_t size)
{
	static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
	unsigned u = 0;
	double v = (double)bytes;

	for (; v >= 1024 && u + 1 < ARRAY_LEN(unit); u++)
		v /= 1024;
	snprintf(buf, size, bytes % (1ull << (10 * u)) ? "%.1f %s" : "%.0f %s", v, unit[u]);
	return buf;
}
