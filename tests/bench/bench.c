/* SPDX-License-Identifier: BSD-3-Clause */
/* The benchmarks' command line and medium; see bench.h. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pmemfs.h"

static const char *program = "bench";

void bench_die(const char *what, int64_t error)
{
	fprintf(stderr, "%s: %s: %s\n", program, what,
		error < 0 ? strerror((int)-error) : "failed");
	exit(1);
}

double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

uint64_t bench_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

const char *bench_size(uint64_t bytes, char buf[24])
{
	static const char *const unit[] = {"B", "KiB", "MiB", "GiB"};
	unsigned u = 0;

	for (; u < 3 && bytes >= 1024 && bytes % 1024 == 0; u++)
		bytes /= 1024;
	snprintf(buf, 24, "%llu %s", (unsigned long long)bytes, unit[u]);
	return buf;
}

static void usage(FILE *to, const struct bench *b, unsigned takes, const char *what)
{
	fprintf(to,
		"usage: %s [OPTION]... [DEVICE-OR-IMAGE]\n%s\n\n"
		"A filesystem is made on the device, which must hold nothing or be forced; "
		"without\n"
		"one, on a file in memory.\n\n"
		"      --json         tables as JSON\n"
		"      --plot=FILE    also a picture, SVG, by gnuplot\n"
		"      --rounds=N     medians of so many rounds (default %u)\n"
		"      --quick        small numbers: only to see that it works\n"
		"%s%s"
		"  -f, --force        destroy what is on the device\n"
		"  -h, --help         this text\n",
		b->name, what, b->rounds,
		takes & BENCH_MOUNT ? "      --mount        on a mount too (needs FUSE)\n" : "",
		takes & BENCH_THREADS
		    ? "      --threads=N    up to so many (default: CPUs, 4 at most)\n"
		    : "");
}

static unsigned number(const char *s)
{
	char *end;
	unsigned long v = strtoul(s, &end, 10);

	if (*end || v < 1 || v > 64) {
		fprintf(stderr, "%s: \"%s\" is no number from 1 to 64\n", program, s);
		exit(2);
	}
	return (unsigned)v;
}

void bench_begin(struct bench *b, int argc, char **argv, unsigned takes, const char *what)
{
	enum { JSON = 256, PLOT, ROUNDS, QUICK, MOUNT, THREADS };
	static const struct option longs[] = {
	    {"json", no_argument, NULL, JSON},
	    {"plot", required_argument, NULL, PLOT},
	    {"rounds", required_argument, NULL, ROUNDS},
	    {"quick", no_argument, NULL, QUICK},
	    {"mount", no_argument, NULL, MOUNT},
	    {"threads", required_argument, NULL, THREADS},
	    {"force", no_argument, NULL, 'f'},
	    {"help", no_argument, NULL, 'h'},
	    {0},
	};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned rounds = 0;
	int opt;

	*b = (struct bench){.rounds = 5, .threads = cpus < 4 ? cpus : 4};
	b->last = &b->tables;
	program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	b->name = program;
	while ((opt = getopt_long(argc, argv, "fh", longs, NULL)) != -1) {
		if (opt == JSON)
			b->json = true;
		else if (opt == PLOT)
			b->plot = optarg;
		else if (opt == ROUNDS)
			rounds = number(optarg);
		else if (opt == QUICK)
			b->quick = true;
		else if (opt == 'f')
			b->force = true;
		else if (opt == MOUNT && takes & BENCH_MOUNT)
			b->mounted = true;
		else if (opt == THREADS && takes & BENCH_THREADS)
			b->threads = number(optarg);
		else {
			usage(opt == 'h' ? stdout : stderr, b, takes, what);
			exit(opt == 'h' ? 0 : 2);
		}
	}
	if (argc - optind > 1) {
		usage(stderr, b, takes, what);
		exit(2);
	}
	b->device = argv[optind];
	b->rounds = rounds ? rounds : b->quick ? 1 : b->rounds;
}

/* ---- the medium ---- */

const char *bench_mounted;
static const char *scratch;

/* Interrupted: nothing of ours stays. */
static void on_signal(int sig)
{
	if (bench_mounted) {
		umount2(bench_mounted, MNT_DETACH);
		rmdir(bench_mounted);
	}
	if (scratch)
		unlink(scratch);
	_exit(128 + sig);
}

static void make_scratch(struct bench *b, uint64_t bytes)
{
	static char path[] = "/dev/shm/pmemfs-bench.XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		bench_die(path, -errno);
	close(fd);
	b->device = b->scratch = path;
	scratch = path;
}

static void remove_scratch(struct bench *b)
{
	if (b->scratch)
		unlink(b->scratch);
}

void bench_reopen(struct bench *b)
{
	const char *why = NULL;

	if (media_open(b->device, MEDIA_WAIT, &b->media, &why)) {
		fprintf(stderr, "%s: %s %s\n", program, b->device, why);
		remove_scratch(b);
		exit(1);
	}
	pmemfs_use_calibration(b->media);
}

void bench_close(struct bench *b)
{
	media_close(b->media);
	b->media = NULL;
}

static bool is_blank(struct media *m)
{
	static char buf[1 << 16];
	struct pmemfs_info info;
	const char *why;

	MUST("reading", media_read(m, 0, buf, sizeof(buf)));
	return pmemfs_probe(m, &info, &why) == -EINVAL && !buf[0] &&
	       !memcmp(buf, buf + 1, sizeof(buf) - 1);
}

void bench_open(struct bench *b, uint64_t bytes)
{
	const struct pmemfs_format_options format = {0};
	const struct pmemfs_calibrate_options calibrate = {
	    .budget_ns = b->quick ? 100000000 : 3000000000ull};
	const char *why = "";

	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	if (!b->device)
		make_scratch(b, bytes);
	bench_reopen(b);
	if (!b->force && !is_blank(b->media)) {
		fprintf(stderr, "%s: %s holds something: -f destroys it\n", program, b->device);
		exit(1);
	}
	MUST("formatting", pmemfs_format(b->media, &format));
	if (pmemfs_calibrate(b->media, &calibrate, NULL, &why))
		fprintf(stderr, "%s: %s %s\n", program, b->device, why);
}

/* ---- the end ---- */

void tables_print(const struct bench *b);
void tables_print_json(const struct bench *b);
int tables_plot(const struct bench *b);
void tables_free(struct bench *b);

int bench_end(struct bench *b)
{
	int r = 0;

	if (b->json)
		tables_print_json(b);
	else
		tables_print(b);
	if (b->plot)
		r = tables_plot(b);
	tables_free(b);
	if (b->media)
		bench_close(b);
	remove_scratch(b);
	return r ? 1 : 0;
}
