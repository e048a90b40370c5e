/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmemfs top: what a mounted filesystem is doing. Asks its daemon for counters, again and
 * again, and shows what was added between; or once, as JSON, all since the mount.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "opcodes.h"
#include "tool.h"

#define KIBS 4	/* a block */
#define BAR  40 /* columns of the longest one */

static const char *const kinds[CONTROL_KINDS] = {"read", "write", "other"};

static int print_help(FILE *to, int code)
{
	fputs(
	    "usage: pmemfs top [-j] [-i SECONDS] [-n COUNT] MOUNTPOINT\n\n"
	    "Shows the requests that a mounted filesystem serves, how long they take, what is\n"
	    "written to the medium, and the space, until it is interrupted.\n\n"
	    "  -i, --interval=SECONDS  how often, 0.1 to 3600 (default 1)\n"
	    "  -n, --count=COUNT       so often, then end\n"
	    "  -j, --json              once, all since the mount, as one JSON object\n"
	    "  -h, --help              this text\n",
	    to);
	return code;
}

static int sample(int fd, const char *point, struct control_stats *ret)
{
	return tool_ask(fd, point, PMEMFS_IOC_STATS, ret);
}

/* ---- text ---- */

/* "850 ns", "12 us", "3.4 ms" */
static const char *time_text(double ns, char buf[32])
{
	static const char *const unit[] = {"ns", "us", "ms", "s"};
	size_t i = 0;

	for (; ns >= 1000 && i < 3; i++)
		ns /= 1000;
	snprintf(buf, 32, ns < 10 && i > 0 ? "%.1f %s" : "%.0f %s", ns, unit[i]);
	return buf;
}

/* The end of the class that holds so many of a thousand. */
static double quantile(const uint64_t took[CONTROL_TIMES], unsigned thousandths)
{
	uint64_t all = 0, n = 0;

	for (unsigned i = 0; i < CONTROL_TIMES; i++)
		all += took[i];
	for (unsigned i = 0; all && i < CONTROL_TIMES; i++) {
		n += took[i];
		if (n * 1000 >= all * thousandths)
			return 2.0 * (1ull << i);
	}
	return 0;
}

/* b - a of every counter; what is of the moment stays. */
static void subtract(struct control_stats *b, const struct control_stats *a)
{
	b->uptime_ns -= a->uptime_ns;
	for (unsigned i = 0; i < CONTROL_OPCODES; i++) {
		b->count[i] -= a->count[i];
		b->ns[i] -= a->ns[i];
	}
	for (unsigned k = 0; k < CONTROL_KINDS; k++)
		for (unsigned i = 0; i < CONTROL_TIMES; i++)
			b->took[k][i] -= a->took[k][i];
	b->read_bytes -= a->read_bytes;
	b->written_bytes -= a->written_bytes;
	b->sleeps -= a->sleeps;
	b->polls -= a->polls;
	b->fences -= a->fences;
	b->flushed_lines -= a->flushed_lines;
	b->nt_lines -= a->nt_lines;
	b->media_bytes -= a->media_bytes;
}

static void print_kinds(const struct control_stats *s, double seconds)
{
	const uint64_t bytes[CONTROL_KINDS] = {s->read_bytes, s->written_bytes, 0};
	char size[32], half[32], most[32];

	printf("\n%-14s %12s %14s %10s %10s\n", "", "requests/s", "bytes/s", "50% within",
	       "99% within");
	for (unsigned k = 0; k < CONTROL_KINDS; k++) {
		uint64_t n = 0;

		for (unsigned i = 0; i < CONTROL_TIMES; i++)
			n += s->took[k][i];
		printf("%-14s %12.0f %14s %10s %10s\n", kinds[k], n / seconds,
		       tool_size(bytes[k] / seconds, size),
		       time_text(quantile(s->took[k], 500), half),
		       time_text(quantile(s->took[k], 990), most));
	}
}

static void print_opcodes(const struct control_stats *s, double seconds)
{
	char mean[32];

	printf("\n%-14s %12s %14s\n", "", "requests/s", "mean");
	for (unsigned i = 0; i < CONTROL_OPCODES; i++)
		if (s->count[i])
			printf("%-14s %12.0f %14s\n", opcode_name(i), s->count[i] / seconds,
			       time_text((double)s->ns[i] / s->count[i], mean));
}

static void print_histogram(const struct control_stats *s)
{
	uint64_t n[CONTROL_TIMES] = {0}, most = 0;
	char from[32];

	for (unsigned i = 0; i < CONTROL_TIMES; i++) {
		for (unsigned k = 0; k < CONTROL_KINDS; k++)
			n[i] += s->took[k][i];
		most = n[i] > most ? n[i] : most;
	}
	if (most)
		puts("\ntook from");
	for (unsigned i = 0; i < CONTROL_TIMES; i++)
		if (n[i])
			printf("%14s %12" PRIu64 " %.*s\n", time_text(1ull << i, from), n[i],
			       (int)(1 + n[i] * (BAR - 1) / most),
			       "########################################");
}

static void print_text(const char *point, const struct control_stats *s)
{
	double seconds = s->uptime_ns / 1e9;
	uint64_t polled = s->polls + s->sleeps;
	char a[32], b[32];

	printf("%s: %s of %s free, %" PRIu64 " files\n", point,
	       tool_size(s->available_blocks * KIBS << 10, a),
	       tool_size(s->blocks * KIBS << 10, b), s->files - s->free_files);
	printf("transport %s: %" PRIu64 " threads, %" PRIu64 " busy, the longest for %s; "
	       "%.0f%% of waits polled\n",
	       s->transport, s->threads, s->busy, time_text(s->longest_ns, a),
	       polled ? 100.0 * s->polls / polled : 0);
	printf("medium: %s/s, %.0f fences/s, lines/s: %.0f flushed, %.0f non-temporal\n",
	       tool_size(s->media_bytes / seconds, a), s->fences / seconds,
	       s->flushed_lines / seconds, s->nt_lines / seconds);
	print_kinds(s, seconds);
	print_opcodes(s, seconds);
	print_histogram(s);
	fflush(stdout);
}

static int watch(int fd, const char *point, double interval, unsigned long count)
{
	const struct timespec pause = {interval, (interval - (time_t)interval) * 1e9};
	bool terminal = isatty(STDOUT_FILENO);
	struct control_stats last, now, shown;

	if (sample(fd, point, &last))
		return TOOL_FAILED;
	for (unsigned long i = 0; count == 0 || i < count; i++) {
		nanosleep(&pause, NULL);
		if (sample(fd, point, &now))
			return TOOL_FAILED;
		shown = now;
		subtract(&shown, &last);
		last = now;
		fputs(terminal ? "\033[H\033[J" : i ? "\n" : "", stdout);
		print_text(point, &shown);
	}
	return TOOL_OK;
}

/* ---- JSON ---- */

static void add(json_object *o, const char *key, uint64_t value)
{
	json_object_object_add(o, key, json_object_new_uint64(value));
}

static json_object *json_requests(const struct control_stats *s)
{
	json_object *all = json_object_new_object(), *o;

	for (unsigned i = 0; i < CONTROL_OPCODES; i++) {
		if (!s->count[i])
			continue;
		o = json_object_new_object();
		add(o, "count", s->count[i]);
		add(o, "ns", s->ns[i]);
		json_object_object_add(all, opcode_name(i), o);
	}
	return all;
}

static json_object *json_latency(const struct control_stats *s)
{
	json_object *all = json_object_new_object(), *o;
	char from[32];

	for (unsigned k = 0; k < CONTROL_KINDS; k++) {
		o = json_object_new_object();
		for (unsigned i = 0; i < CONTROL_TIMES; i++) {
			snprintf(from, sizeof(from), "%llu", 1ull << i);
			if (s->took[k][i])
				add(o, from, s->took[k][i]);
		}
		json_object_object_add(all, kinds[k], o);
	}
	return all;
}

static void print_json(const char *point, const struct control_stats *s)
{
	json_object *o = json_object_new_object(), *medium = json_object_new_object();

	json_object_object_add(o, "mountpoint", json_object_new_string(point));
	add(o, "seconds", s->uptime_ns / 1000000000);
	json_object_object_add(o, "transport", json_object_new_string(s->transport));
	add(o, "threads", s->threads);
	add(o, "busy", s->busy);
	add(o, "longest_ns", s->longest_ns);
	json_object_object_add(o, "requests", json_requests(s));
	json_object_object_add(o, "latency_ns", json_latency(s));
	add(o, "read_bytes", s->read_bytes);
	add(o, "written_bytes", s->written_bytes);
	add(o, "waits_slept", s->sleeps);
	add(o, "waits_polled", s->polls);
	add(medium, "bytes", s->media_bytes);
	add(medium, "fences", s->fences);
	add(medium, "flushed_lines", s->flushed_lines);
	add(medium, "nt_lines", s->nt_lines);
	json_object_object_add(o, "medium", medium);
	add(o, "size_bytes", s->blocks * KIBS << 10);
	add(o, "free_bytes", s->free_blocks * KIBS << 10);
	add(o, "available_bytes", s->available_blocks * KIBS << 10);
	add(o, "files", s->files - s->free_files);
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
						   JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
}

static int show(const char *point, bool json, double interval, unsigned long count)
{
	int fd = open(point, O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = TOOL_OK;
	struct control_stats s;

	if (fd < 0) {
		tool_error("%s: %s", point, strerror(errno));
		return TOOL_FAILED;
	}
	if (!json)
		code = watch(fd, point, interval, count);
	else if (sample(fd, point, &s))
		code = TOOL_FAILED;
	else
		print_json(point, &s);
	close(fd);
	return code;
}

int tool_top(int argc, char **argv)
{
	static const struct option longs[] = {{"json", no_argument, NULL, 'j'},
					      {"interval", required_argument, NULL, 'i'},
					      {"count", required_argument, NULL, 'n'},
					      {"help", no_argument, NULL, 'h'},
					      {0}};
	unsigned long count = 0;
	double interval = 1;
	bool json = false;
	char *end = NULL;
	int opt;

	while ((opt = getopt_long(argc, argv, "ji:n:h", longs, NULL)) != -1) {
		if (opt == 'j')
			json = true;
		else if (opt == 'i')
			interval = strtod(optarg, &end);
		else if (opt == 'n')
			count = strtoul(optarg, &end, 10);
		else
			return print_help(opt == 'h' ? stdout : stderr,
					  opt == 'h' ? TOOL_OK : TOOL_USAGE);
		if (end && *end) {
			tool_error("\"%s\" is no number", optarg);
			return TOOL_USAGE;
		}
	}
	if (!(interval >= 0.1 && interval <= 3600)) {
		tool_error("the interval is from 0.1 to 3600 seconds");
		return TOOL_USAGE;
	}
	if (argc - optind != 1) {
		tool_error("one mount point is needed");
		return TOOL_USAGE;
	}
	return show(argv[optind], json, interval, count);
}
