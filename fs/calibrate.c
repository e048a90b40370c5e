/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmemfs calibrate: measures which store kernel is fastest for which size and number of writers
 * on this device, keeps that in the superblock, and shows what it measured. It is what
 * mkfs.pmemfs does too, for longer. The device must not be mounted; free space is overwritten.
 */
#include <errno.h>
#include <getopt.h>
#include <json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calibrate.h"
#include "pmemfs.h"
#include "tool.h"

#define SECONDS 10

struct request {
	const char *device;
	unsigned seconds;
	bool json, quiet;
};

static int print_help(FILE *to, int code)
{
	fputs("usage: pmemfs calibrate [-jq] [-t SECONDS] DEVICE\n\n"
	      "Measures in free space of the filesystem on DEVICE, which must not be mounted, "
	      "by\n"
	      "which instructions it is written to fastest, and keeps the result in the\n"
	      "filesystem. Prints what was measured in GB/s; * marks what was chosen.\n\n"
	      "  -t, --seconds=N  how long to measure, 1 to 600 (default 10)\n"
	      "  -j, --json       as one JSON object, times in nanoseconds\n"
	      "  -q, --quiet      print nothing when all goes well\n"
	      "  -h, --help       this text\n",
	      to);
	return code;
}

static bool was_measured(const struct calibrate_time *t)
{
	return t->rounds > 0;
}

/* The number of the kernel that the table has in that cell. */
static bool is_chosen(const struct media *m, bool clear, unsigned row, unsigned c, unsigned n)
{
	return !strcmp(media_kernel_for(m, clear, (size_t)64 << c, row),
		       copy_by_number(n)->name);
}

/* Whether the kernel was measured for any size. */
static bool column_exists(const struct calibrate_result *r, bool clear, unsigned row,
			  unsigned n)
{
	for (unsigned c = 0; c < MEDIA_CLASSES; c++)
		if (was_measured(&r->time[clear][row][c][n]))
			return true;
	return false;
}

/* ---- text ---- */

static void print_line(const struct media *m, const struct calibrate_result *r, bool clear,
		       unsigned row, unsigned c)
{
	char buf[32];

	printf("%12s", tool_size(64ull << c, buf));
	for (unsigned n = 1; n < COPY_NUMBERS; n++) {
		const struct calibrate_time *t = &r->time[clear][row][c][n];

		if (!column_exists(r, clear, row, n))
			continue;
		if (was_measured(t))
			printf(" %10.2f%c", (64ull << c) / t->ns,
			       is_chosen(m, clear, row, c, n) ? '*' : ' ');
		else
			printf(" %10s ", "slow");
	}
	putchar('\n');
}

static void print_table(const struct media *m, const struct calibrate_result *r, bool clear,
			unsigned row)
{
	unsigned rounds = 0;

	for (unsigned n = 1; n < COPY_NUMBERS; n++)
		if (r->time[clear][row][0][n].rounds > rounds)
			rounds = r->time[clear][row][0][n].rounds;
	if (!r->writers[row] || !rounds)
		return;
	printf("%s by %u writer%s, GB/s of each, %u rounds\n%12s", clear ? "zeroing" : "copies",
	       r->writers[row], r->writers[row] == 1 ? "" : "s", rounds, "");
	for (unsigned n = 1; n < COPY_NUMBERS; n++)
		if (column_exists(r, clear, row, n))
			printf(" %10s ", copy_by_number(n)->name);
	putchar('\n');
	for (unsigned c = 0; c < r->classes; c++)
		print_line(m, r, clear, row, c);
	putchar('\n');
}

static void print_text(const struct media *m, const struct calibrate_result *r)
{
	char text[512];

	for (unsigned row = 0; row < MEDIA_WRITERS; row++)
		for (int clear = 0; clear < 2; clear++)
			print_table(m, r, clear, row);
	media_policy_text(m, false, 0, text, sizeof(text));
	printf("copies: %s\n", text);
	media_policy_text(m, true, 0, text, sizeof(text));
	printf("zeroing: %s\n", text);
}

/* ---- JSON ---- */

static json_object *json_cell(const struct media *m, const struct calibrate_result *r,
			      bool clear, unsigned row, unsigned c)
{
	json_object *o = json_object_new_object(), *ns = json_object_new_object();

	json_object_object_add(o, "bytes", json_object_new_uint64(64ull << c));
	json_object_object_add(
	    o, "chosen",
	    json_object_new_string(media_kernel_for(m, clear, (size_t)64 << c, row)));
	for (unsigned n = 1; n < COPY_NUMBERS; n++)
		if (was_measured(&r->time[clear][row][c][n]))
			json_object_object_add(
			    ns, copy_by_number(n)->name,
			    json_object_new_double(r->time[clear][row][c][n].ns));
	json_object_object_add(o, "ns", ns);
	return o;
}

static void print_json(const struct media *m, const struct calibrate_result *r)
{
	json_object *all = json_object_new_object(), *rows = json_object_new_array();

	for (unsigned row = 0; row < MEDIA_WRITERS; row++)
		for (int clear = 0; clear < 2 && r->writers[row]; clear++) {
			json_object *o = json_object_new_object();
			json_object *cells = json_object_new_array();

			json_object_object_add(
			    o, "operation", json_object_new_string(clear ? "clear" : "copy"));
			json_object_object_add(o, "writers",
					       json_object_new_uint64(r->writers[row]));
			for (unsigned c = 0; c < r->classes; c++)
				json_object_array_add(cells, json_cell(m, r, clear, row, c));
			json_object_object_add(o, "sizes", cells);
			json_object_array_add(rows, o);
		}
	json_object_object_add(all, "measured", rows);
	puts(json_object_to_json_string_ext(all, JSON_C_TO_STRING_PRETTY |
						     JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(all);
}

/* ---- doing it ---- */

static void show_progress(void *arg, unsigned done, unsigned total)
{
	fprintf(stderr, "\rmeasuring: %3u%%%s", 100 * done / total,
		done == total ? "\r               \r" : "");
	fflush(stderr);
}

static int calibrate_device(const struct request *q)
{
	struct pmemfs_calibrate_options o = {.budget_ns = q->seconds * 1000000000ull};
	struct calibrate_result *r = calloc(1, sizeof(*r));
	const char *why = "no memory";
	struct media *m = NULL;
	int err = r ? media_open(q->device, MEDIA_WAIT, &m, &why) : -ENOMEM;

	if (!q->quiet && isatty(STDERR_FILENO))
		o.progress = show_progress;
	if (!err)
		err = pmemfs_calibrate(m, &o, r, &why);
	if (err)
		tool_error("%s %s", q->device, why);
	else if (q->json)
		print_json(m, r);
	else if (!q->quiet)
		print_text(m, r);
	media_close(m);
	free(r);
	return err ? TOOL_FAILED : TOOL_OK;
}

static int parse_seconds(const char *s, unsigned *ret)
{
	char *end;
	unsigned long v = strtoul(s, &end, 10);

	if (*s < '0' || *s > '9' || *end || v < 1 || v > 600) {
		tool_error("-t needs a number of seconds from 1 to 600, not \"%s\"", s);
		return -EINVAL;
	}
	*ret = v;
	return 0;
}

int tool_calibrate(int argc, char **argv)
{
	static const struct option longs[] = {{"json", no_argument, NULL, 'j'},
					      {"quiet", no_argument, NULL, 'q'},
					      {"seconds", required_argument, NULL, 't'},
					      {"help", no_argument, NULL, 'h'},
					      {0}};
	struct request q = {.seconds = SECONDS};
	int opt;

	while ((opt = getopt_long(argc, argv, "jqt:h", longs, NULL)) != -1) {
		if (opt == 'h')
			return print_help(stdout, TOOL_OK);
		if (opt == 'j')
			q.json = true;
		else if (opt == 'q')
			q.quiet = true;
		else if (opt != 't')
			return print_help(stderr, TOOL_USAGE);
		else if (parse_seconds(optarg, &q.seconds))
			return TOOL_USAGE;
	}
	if (argc - optind != 1)
		return print_help(stderr, TOOL_USAGE);
	q.device = argv[optind];
	return calibrate_device(&q);
}
