/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmemfs scrub: has the daemon of a mounted filesystem verify everything, a little at a time.
 * Rate, pauses and progress are this program's; the daemon keeps no state, so a scrub that was
 * ended goes on from the inode that it names.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <json.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "tool.h"

#define STEP  (4u << 20) /* bytes in one request */
#define FOUND 4		 /* exit code: there is damage, as of fsck */

static volatile sig_atomic_t ended;

struct options {
	const char *point;
	uint64_t from;
	double rate; /* bytes a second; 0: as fast as can be */
	bool json, quiet;
};

static int print_help(FILE *to, int code)
{
	fputs("usage: pmemfs scrub [-jq] [-r MIB] [-f INODE] MOUNTPOINT\n\n"
	      "Verifies the superblock, the log of every inode and all data of a mounted "
	      "filesystem\n"
	      "against their checksums. Damaged copies of metadata are restored from the other "
	      "one; what\nelse is damaged is counted here and named in the system's log.\n\n"
	      "  -r, --rate=MIB    so many MiB a second at most (default: no limit)\n"
	      "  -f, --from=INODE  go on there, as an interrupted scrub says\n"
	      "  -q, --quiet       no progress\n"
	      "  -j, --json        the result as one JSON object\n"
	      "  -h, --help        this text\n\n"
	      "It can be stopped (^Z) and continued. Exit code: 0 no damage, 4 damage, 1 it "
	      "cannot be done.\n",
	      to);
	return code;
}

static void on_signal(int sig)
{
	ended = 1;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void wait_until(double when)
{
	double left = when - now();
	struct timespec t = {.tv_sec = (time_t)left,
			     .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};

	if (left > 0 && !ended)
		nanosleep(&t, NULL);
}

static void progress(const struct control_scrub *s)
{
	char bytes[32];

	fprintf(stderr, "\r%5.1f%%  %" PRIu64 " of %" PRIu64 " inodes, %s\033[K",
		100 * (double)s->inodes / (double)(s->all > s->inodes ? s->all : s->inodes + 1),
		s->inodes, s->all, tool_size(s->bytes, bytes));
}

static void print_result(const struct options *o, const struct control_scrub *s, double took)
{
	char bytes[32];

	if (o->json) {
		json_object *r = json_object_new_object();

		json_object_object_add(r, "mountpoint", json_object_new_string(o->point));
		json_object_object_add(r, "complete", json_object_new_boolean(!s->next));
		json_object_object_add(r, "next", json_object_new_uint64(s->next));
		json_object_object_add(r, "inodes", json_object_new_uint64(s->inodes));
		json_object_object_add(r, "bytes", json_object_new_uint64(s->bytes));
		json_object_object_add(r, "damaged", json_object_new_uint64(s->damaged));
		json_object_object_add(r, "repaired", json_object_new_uint64(s->repaired));
		json_object_object_add(r, "seconds", json_object_new_double(took));
		puts(json_object_to_json_string_ext(r, JSON_C_TO_STRING_PRETTY |
							   JSON_C_TO_STRING_NOSLASHESCAPE));
		json_object_put(r);
		return;
	}
	printf("%s: %" PRIu64 " inodes, %s verified in %.1f s, ", o->point, s->inodes,
	       tool_size(s->bytes, bytes), took);
	if (s->repaired)
		printf("copies of %" PRIu64 " inodes' metadata restored, ", s->repaired);
	if (s->damaged)
		printf("%" PRIu64 " damaged: the system's log names them; unmount and run "
		       "fsck.pmemfs\n",
		       s->damaged);
	else
		puts("no damage");
	if (s->next)
		printf("it was ended early: pmemfs scrub --from=%" PRIu64 " %s goes on\n",
		       s->next, o->point);
}

static int scrub(const struct options *o)
{
	struct control_scrub s = {.next = o->from};
	int fd = open(o->point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool show = !o->quiet && !o->json && isatty(STDERR_FILENO);
	double start = now();

	if (fd < 0) {
		tool_error("%s: %s", o->point, strerror(errno));
		return TOOL_FAILED;
	}
	do {
		uint64_t before = s.bytes;
		double began = now();

		s.budget = STEP;
		if (tool_ask(fd, o->point, PMEMFS_IOC_SCRUB, &s)) {
			close(fd);
			return TOOL_FAILED;
		}
		if (show)
			progress(&s);
		if (o->rate > 0)
			wait_until(began + (double)(s.bytes - before) / o->rate);
	} while (s.next && !ended);
	close(fd);
	if (show)
		fputs("\r\033[K", stderr);
	print_result(o, &s, now() - start);
	return s.damaged ? FOUND : s.next ? TOOL_FAILED : TOOL_OK;
}

int tool_scrub(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"json", no_argument, NULL, 'j'},	    {"quiet", no_argument, NULL, 'q'},
	    {"rate", required_argument, NULL, 'r'}, {"from", required_argument, NULL, 'f'},
	    {"help", no_argument, NULL, 'h'},	    {0}};
	struct options o = {.from = 0};
	char *end = NULL;
	int opt;

	while ((opt = getopt_long(argc, argv, "jqr:f:h", longs, NULL)) != -1) {
		if (opt == 'j')
			o.json = true;
		else if (opt == 'q')
			o.quiet = true;
		else if (opt == 'r')
			o.rate = strtod(optarg, &end) * (1 << 20);
		else if (opt == 'f')
			o.from = strtoull(optarg, &end, 10);
		else
			return print_help(opt == 'h' ? stdout : stderr,
					  opt == 'h' ? TOOL_OK : TOOL_USAGE);
		if (end && (*end || end == optarg || o.rate < 0)) {
			tool_error("\"%s\" is no number", optarg);
			return TOOL_USAGE;
		}
	}
	if (argc - optind != 1) {
		tool_error("one mount point is needed");
		return TOOL_USAGE;
	}
	o.point = argv[optind];
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	return scrub(&o);
}
