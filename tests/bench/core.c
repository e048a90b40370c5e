/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the core costs in time and memory, in this process, one thread:
 *
 *  - durable overwrite and append of 4 KiB, against a bare flushcache copy of 4 KiB and a fence
 *    on the same medium, measured in turns; medians over the rounds;
 *  - create and unlink of empty files;
 *  - crash recovery of an image with many small files, and the memory it takes with none open;
 *  - mkfs of the medium, and of a sparse tebibyte.
 *
 * The medium is memory shared with nobody, so that it can be told from what the library needs.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "pmemfs.h"

#define LARGE	(1u << 20)
#define BLOCK	4096u
#define AREA	(64ull << 20) /* what is copied over in turns */
#define ROUNDS	9
#define PER_DIR 10000u

struct options {
	uint64_t ops;	/* copies in one round */
	uint64_t names; /* creations in one round */
	uint64_t files; /* of the image to be recovered */
	uint64_t bytes; /* in each of them */
	bool json;
};

static void die(const char *what, int64_t rc)
{
	fprintf(stderr, "core: %s: %s\n", what, rc < 0 ? strerror((int)-rc) : "failed");
	exit(1);
}

#define MUST(what, rc)                  \
	do {                            \
		int64_t rc_ = (rc);     \
		if (rc_ < 0)            \
			die(what, rc_); \
	} while (0)

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* ---- what is printed ---- */

struct row {
	const char *key, *what, *unit;
	double value;
};

static struct row rows[32];
static unsigned n_rows;

static void report(const char *key, const char *what, double value, const char *unit)
{
	rows[n_rows++] = (struct row){key, what, unit, value};
}

static void print_rows(bool json)
{
	for (unsigned k = 0; k < n_rows; k++) {
		const struct row *r = &rows[k];

		if (json)
			printf("%s  \"%s\": %.6g", k ? ",\n" : "{\n", r->key, r->value);
		else
			printf("%-52s %14.*f %s\n", r->what, r->value < 100 ? 3 : 0, r->value,
			       r->unit);
	}
	if (json)
		printf("\n}\n");
}

/* ---- filesystems ---- */

struct image {
	void *mem;
	uint64_t size;
	struct media *media;
	struct pmemfs *fs;
};

static bool replica, parity;

/* The filesystem leaves the last AREA of the medium to the bare copy. */
static void image_make(struct image *m, uint64_t size)
{
	const struct pmemfs_format_options o = {
	    .size = size, .replica = replica, .parity = parity};
	const char *why = NULL;
	int rc;

	m->size = size + AREA;
	m->mem = mmap(NULL, m->size, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->mem == MAP_FAILED)
		die("mmap", -errno);
	MUST("media", media_open_memory(m->mem, m->size, 0, &m->media));
	MUST("format", pmemfs_format(m->media, &o));
	rc = pmemfs_mount(m->media, NULL, &m->fs, &why);
	if (rc)
		die(why ? why : "mount", rc);
}

static void image_drop(struct image *m)
{
	MUST("unmount", pmemfs_unmount(m->fs));
	media_close(m->media);
	munmap(m->mem, m->size);
}

static uint64_t make(struct image *m, uint64_t dir, const char *name, uint32_t mode)
{
	const struct pmemfs_cred cred = {0, 0};
	struct pmemfs_attr a;

	MUST("make", pmemfs_make(m->fs, dir, name, mode, 0, 0, NULL, &cred, &a));
	return a.ino;
}

/* ---- copies ---- */

static uint64_t next(uint64_t *s)
{
	*s = *s * 6364136223846793005ull + 1442695040888963407ull;
	return *s >> 33;
}

static double bare_copy(struct image *m, const void *buf, uint64_t ops)
{
	uint64_t base = m->size - AREA, s = 1;
	double t = now();

	for (uint64_t k = 0; k < ops; k++) {
		media_copy(m->media, base + next(&s) % (AREA / BLOCK) * BLOCK, buf, BLOCK);
		MUST("fence", media_fence(m->media));
	}
	return (double)ops / (now() - t);
}

static double overwrite(struct image *m, uint64_t ino, const void *buf, uint64_t ops)
{
	uint64_t s = 1;
	double t = now();

	for (uint64_t k = 0; k < ops; k++)
		MUST("write", pmemfs_write(m->fs, ino, next(&s) % (AREA / BLOCK) * BLOCK, buf,
					   BLOCK, 0));
	return (double)ops / (now() - t);
}

static double append(struct image *m, uint64_t ino, const void *buf, uint64_t ops)
{
	const struct pmemfs_attr empty = {.size = 0};
	double t, sum = 0;
	uint64_t k, n;

	/* the file is never larger than what the bare copy goes over */
	for (; ops; ops -= n) {
		n = ops < AREA / BLOCK ? ops : AREA / BLOCK;
		MUST("truncate", pmemfs_setattr(m->fs, ino, PMEMFS_SET_SIZE, &empty, NULL));
		t = now();
		for (k = 0; k < n; k++)
			MUST("append",
			     pmemfs_write(m->fs, ino, 0, buf, BLOCK, PMEMFS_WRITE_APPEND));
		sum += now() - t;
	}
	return sum;
}

/* Overwrites of 1 MiB, as many bytes as ops blocks, in MiB a second. */
static double large(struct image *m, uint64_t ino, const void *buf, uint64_t ops)
{
	uint64_t s = 1, n = ops * BLOCK / LARGE + 1;
	double t = now();

	for (uint64_t k = 0; k < n; k++)
		MUST("write", pmemfs_write(m->fs, ino, next(&s) % (AREA / LARGE) * LARGE, buf,
					   LARGE, 0));
	return (double)(n * LARGE >> 20) / (now() - t);
}

static void bench_copies(const struct options *o)
{
	double bare[ROUNDS], over[ROUNDS], app[ROUNDS], big[ROUNDS];
	double over_ratio[ROUNDS], app_ratio[ROUNDS];
	struct image m;
	uint64_t f, g;
	char *buf = aligned_alloc(BLOCK, LARGE);

	memset(buf, 0x5a, LARGE);
	image_make(&m, 512ull << 20);
	f = make(&m, 1, "overwrite", S_IFREG | 0644);
	g = make(&m, 1, "append", S_IFREG | 0644);
	/* every page is there before it is measured */
	for (uint64_t off = 0; off < m.size - AREA; off += BLOCK)
		((volatile char *)m.mem)[off] = ((volatile char *)m.mem)[off];
	for (uint64_t k = 0; k < AREA / BLOCK; k++)
		MUST("write", pmemfs_write(m.fs, f, k * BLOCK, buf, BLOCK, 0));
	for (int r = -2; r < ROUNDS; r++) {
		double b = bare_copy(&m, buf, o->ops);
		double w = overwrite(&m, f, buf, o->ops);
		double a = (double)o->ops / append(&m, g, buf, o->ops);
		double l = large(&m, f, buf, o->ops);

		if (r < 0) /* to warm up */
			continue;
		bare[r] = b;
		over[r] = w;
		app[r] = a;
		big[r] = l;
		over_ratio[r] = w / b;
		app_ratio[r] = a / b;
	}
	image_drop(&m);
	free(buf);
	report("bare_copy_4k_per_s", "bare copy of 4 KiB + fence", median(bare, ROUNDS), "/s");
	report("overwrite_4k_per_s", "durable overwrite of 4 KiB", median(over, ROUNDS), "/s");
	report("overwrite_ratio", "  of the bare copy's rate", median(over_ratio, ROUNDS), "");
	report("append_4k_per_s", "durable append of 4 KiB", median(app, ROUNDS), "/s");
	report("append_ratio", "  of the bare copy's rate", median(app_ratio, ROUNDS), "");
	report("overwrite_1m_mib_per_s", "durable overwrite of 1 MiB", median(big, ROUNDS),
	       "MiB/s");
}

/* ---- names ---- */

static void unlink_all(struct image *m, uint64_t dir, uint64_t n)
{
	char name[32];

	for (uint64_t k = 0; k < n; k++) {
		snprintf(name, sizeof(name), "f%" PRIu64, k);
		MUST("unlink", pmemfs_unlink(m->fs, dir, name));
	}
}

static void bench_names(const struct options *o)
{
	double create[ROUNDS], del[ROUNDS], both[ROUNDS], pair[ROUNDS];
	double n = (double)o->names;
	struct image m;
	uint64_t dir;
	char name[32];

	image_make(&m, 512ull << 20);
	dir = make(&m, 1, "dir", S_IFDIR | 0755);
	for (int r = -1; r < ROUNDS; r++) {
		double t0 = now(), t1, t2, t3;

		for (uint64_t k = 0; k < o->names; k++) {
			snprintf(name, sizeof(name), "f%" PRIu64, k);
			pmemfs_forget(m.fs, make(&m, dir, name, S_IFREG | 0644), 1);
		}
		t1 = now();
		unlink_all(&m, dir, o->names);
		t2 = now();
		for (uint64_t k = 0; k < o->names; k++) {
			pmemfs_forget(m.fs, make(&m, dir, "one", S_IFREG | 0644), 1);
			MUST("unlink", pmemfs_unlink(m.fs, dir, "one"));
		}
		t3 = now();
		if (r < 0)
			continue;
		create[r] = n / (t1 - t0);
		del[r] = n / (t2 - t1);
		both[r] = 2 * n / (t2 - t0);
		pair[r] = 2 * n / (t3 - t2);
	}
	image_drop(&m);
	report("create_per_s", "create of an empty file", median(create, ROUNDS), "/s");
	report("unlink_per_s", "unlink of an empty file", median(del, ROUNDS), "/s");
	report("create_unlink_ops_per_s", "create all, then unlink all: operations",
	       median(both, ROUNDS), "/s");
	report("create_unlink_pair_ops_per_s", "create and unlink one by one: operations",
	       median(pair, ROUNDS), "/s");
}

/* ---- recovery and memory ---- */

/* Memory of this process that is not the medium, in bytes. */
static double own_memory(void)
{
	char line[128];
	double kib = -1;
	FILE *f = fopen("/proc/self/status", "re");

	malloc_trim(0);
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "RssAnon:", 8))
			kib = atof(line + 8);
	if (f)
		fclose(f);
	if (kib < 0)
		die("no RssAnon in /proc/self/status", 0);
	return kib * 1024;
}

static void fill(struct image *m, const struct options *o)
{
	char name[32], *buf = calloc(1, o->bytes + 1);
	uint64_t dir = 0;

	memset(buf, 'x', o->bytes);
	for (uint64_t k = 0; k < o->files; k++) {
		uint64_t f;

		if (k % PER_DIR == 0) {
			if (dir)
				pmemfs_forget(m->fs, dir, 1);
			snprintf(name, sizeof(name), "d%" PRIu64, k / PER_DIR);
			dir = make(m, 1, name, S_IFDIR | 0755);
		}
		snprintf(name, sizeof(name), "file-%" PRIu64, k);
		f = make(m, dir, name, S_IFREG | 0644);
		if (o->bytes)
			MUST("write", pmemfs_write(m->fs, f, 0, buf, o->bytes, 0));
		pmemfs_forget(m->fs, f, 1);
	}
	if (dir)
		pmemfs_forget(m->fs, dir, 1);
	free(buf);
}

static double mount_time(struct image *m)
{
	const char *why = NULL;
	double t = now();
	int rc = pmemfs_mount(m->media, NULL, &m->fs, &why);

	if (rc)
		die(why ? why : "mount", rc);
	return now() - t;
}

static void bench_recovery(const struct options *o)
{
	uint64_t per_file = (o->bytes + BLOCK - 1) / BLOCK * BLOCK + 512 + 128;
	double before, filling, crash[3], clean[3], with_files,
	    millions = (double)o->files / 1e6;
	struct pmemfs_statfs st;
	struct image m;

	image_make(&m, (o->files * per_file * 5 / 4 + (64u << 20)) & ~(uint64_t)(BLOCK - 1));
	madvise(m.mem, m.size, MADV_POPULATE_WRITE); /* faults would be most of the time */
	before = own_memory();
	filling = now();
	fill(&m, o);
	filling = now() - filling;
	for (int k = 0; k < 3; k++) {
		pmemfs_abandon(m.fs);
		crash[k] = mount_time(&m);
	}
	pmemfs_statfs(m.fs, &st);
	if (st.files - st.ffree < o->files)
		die("files are missing after recovery", 0);
	with_files = own_memory();
	for (int k = 0; k < 3; k++) {
		MUST("unmount", pmemfs_unmount(m.fs));
		clean[k] = mount_time(&m);
	}
	image_drop(&m);
	report("files", "small files in the image", (double)o->files, "");
	report("fill_per_s", "create + write + close of one", (double)o->files / filling, "/s");
	report("recovery_ms", "crash recovery (mount)", median(crash, 3) * 1e3, "ms");
	report("clean_mount_ms", "mount after a clean unmount", median(clean, 3) * 1e3, "ms");
	report("memory_mib_per_million", "memory for each million files, none open",
	       (with_files - before) / millions / (1 << 20), "MiB");
}

/* ---- mkfs ---- */

static void bench_mkfs(void)
{
	const uint64_t size = 1ull << 40;
	const struct pmemfs_format_options o = {.replica = replica, .parity = parity};
	struct media_counts counts;
	struct media *media;
	double t;
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (mem == MAP_FAILED)
		die("mmap of 1 TiB", -errno);
	MUST("media", media_open_memory(mem, size, 0, &media));
	t = now();
	MUST("format", pmemfs_format(media, &o));
	t = now() - t;
	media_count(media, &counts);
	media_close(media);
	munmap(mem, size);
	report("mkfs_1tib_ms", "mkfs of a sparse TiB", t * 1e3, "ms");
	report("mkfs_1tib_mib", "  bytes stored by it", (double)counts.bytes / (1 << 20),
	       "MiB");
}

static const char usage[] =
    "usage: core [--quick] [--json] [--ops N] [--names N] [--files N] "
    "[--bytes N] [--replica] [--parity]\n"
    "  --ops N    4 KiB copies in a round (16384)\n"
    "  --names N  files made and removed in a round (20000)\n"
    "  --files N  small files to be recovered (1000000: 5 GiB of memory)\n"
    "  --bytes N  in each of them (100)\n"
    "  --replica  with two copies of the metadata (mkfs -O replica)\n"
    "  --parity   with parity of the data (mkfs -O parity)\n"
    "  --quick    only that it works: a little of everything\n"
    "  --json     one JSON object instead of a table\n";

static struct options parse(int argc, char **argv)
{
	static const struct option long_options[] = {
	    {"ops", 1, NULL, 'o'},     {"names", 1, NULL, 'n'},
	    {"files", 1, NULL, 'f'},   {"bytes", 1, NULL, 'b'},
	    {"quick", 0, NULL, 'q'},   {"json", 0, NULL, 'j'},
	    {"replica", 0, NULL, 'r'}, {"parity", 0, NULL, 'p'},
	    {"help", 0, NULL, 'h'},    {0}};
	struct options o = {16384, 20000, 1000000, 100, false};
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		uint64_t n = optarg ? strtoull(optarg, NULL, 0) : 0;

		if (c == 'o')
			o.ops = n;
		else if (c == 'n')
			o.names = n;
		else if (c == 'f')
			o.files = n;
		else if (c == 'b')
			o.bytes = n;
		else if (c == 'q')
			o = (struct options){256, 500, 5000, o.bytes, o.json};
		else if (c == 'r')
			replica = true;
		else if (c == 'p')
			parity = true;
		else if (c == 'j')
			o.json = true;
		else {
			fputs(usage, c == 'h' ? stdout : stderr);
			exit(c != 'h');
		}
	}
	if (!o.ops || !o.names || !o.files || o.bytes > 1 << 20 || optind < argc) {
		fputs(usage, stderr);
		exit(1);
	}
	return o;
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);

	bench_copies(&o);
	bench_names(&o);
	bench_recovery(&o);
	bench_mkfs();
	print_rows(o.json);
	return 0;
}
