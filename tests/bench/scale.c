/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What more threads gain in the library itself: the same work by one thread and by several,
 * which share a file, a directory, or nothing.
 *
 * Three rows are the machine's limits: "memory" copies in memory of the threads' own, which
 * share nothing but the processors; "copy 64K" stores and fences 64 KiB by the medium's policy
 * and nothing else; "line" takes turns at writing one cache line, so that its rate with several
 * threads says how often a second anything at all can go from one of them to another.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "pmemfs.h"
#include "util.h"

#define MEDIUM (512ull << 20)
#define AREA   (4u << 20) /* of a file that is overwritten */
#define BLOCK  4096
#define NAMES  64

static struct pmemfs *fs;
static struct media *bare; /* for rows without a filesystem */
static unsigned running;   /* threads of the row */
static _Alignas(128) atomic_uint turn;
static const struct pmemfs_cred cred;

struct job {
	const struct row *row;
	uint64_t dir, file, off; /* off: where its part of the file begins */
	unsigned number;
	double until;
	uint64_t done, idle;
	char *memory;
	pthread_t thread;
	pthread_barrier_t *start;
};

/* Each does a fixed piece of work, and says how many operations that was. */

static unsigned do_memory(struct job *j, uint64_t i)
{
	memcpy(j->memory + BLOCK, j->memory, BLOCK);
	memcpy(j->memory, j->memory + BLOCK, BLOCK);
	return 2;
}

static unsigned do_copy(struct job *j, uint64_t i)
{
	media_copy(bare, (uint64_t)j->number * AREA + i * 65536 % AREA, j->memory, 65536);
	MUST("copy", media_fence(bare));
	return 1;
}

/* Waits for its turn, not beyond its time: others may be gone. */
static unsigned do_line(struct job *j, uint64_t i)
{
	while (atomic_load_explicit(&turn, memory_order_acquire) % running != j->number)
		if (!(++j->idle % 1024) && bench_now() > j->until)
			return 0;
	atomic_fetch_add_explicit(&turn, 1, memory_order_release);
	return 1;
}

static unsigned do_write(struct job *j, uint64_t i)
{
	MUST("write",
	     pmemfs_write(fs, j->file, j->off + i * BLOCK % AREA, j->memory, BLOCK, 0));
	return 1;
}

static unsigned do_write_large(struct job *j, uint64_t i)
{
	MUST("write",
	     pmemfs_write(fs, j->file, j->off + i * 65536 % AREA, j->memory, 65536, 0));
	return 1;
}

static unsigned do_read(struct job *j, uint64_t i)
{
	MUST("read", pmemfs_read(fs, j->file, j->off + i * BLOCK % AREA, j->memory, BLOCK));
	return 1;
}

static unsigned do_create(struct job *j, uint64_t i)
{
	struct pmemfs_attr a;
	char name[32];

	for (unsigned n = 0; n < NAMES; n++) {
		snprintf(name, sizeof(name), "%u-%u", j->number, n);
		MUST("create",
		     pmemfs_make(fs, j->dir, name, S_IFREG | 0644, 0, 0, NULL, &cred, &a));
		pmemfs_forget(fs, a.ino, 1);
	}
	for (unsigned n = 0; n < NAMES; n++) {
		snprintf(name, sizeof(name), "%u-%u", j->number, n);
		MUST("unlink", pmemfs_unlink(fs, j->dir, name));
	}
	return 2 * NAMES;
}

static unsigned do_lookup(struct job *j, uint64_t i)
{
	struct pmemfs_attr a;

	MUST("lookup", pmemfs_lookup(fs, j->dir, "known", &a));
	pmemfs_forget(fs, a.ino, 1);
	return 1;
}

static const struct row {
	const char *name;
	unsigned (*work)(struct job *j, uint64_t i);
	bool one_file, one_dir;
} rows[] = {
    {"memory", do_memory, false, false},
    {"copy 64K", do_copy, false, false},
    {"line", do_line, false, false},
    {"write 4K, files", do_write, false, false},
    {"write 4K, one", do_write, true, false},
    {"write 64K, files", do_write_large, false, false},
    {"write 64K, one", do_write_large, true, false},
    {"read 4K, files", do_read, false, false},
    {"read 4K, one", do_read, true, false},
    {"create, dirs", do_create, false, false},
    {"create, one", do_create, false, true},
    {"lookup, dirs", do_lookup, false, false},
    {"lookup, one", do_lookup, false, true},
};

static void *run_job(void *arg)
{
	struct job *j = arg;

	pthread_barrier_wait(j->start);
	j->until += bench_now();
	for (uint64_t i = 0; bench_now() < j->until; i++)
		j->done += j->row->work(j, i);
	return NULL;
}

static uint64_t make(uint64_t dir, const char *name, uint32_t mode)
{
	struct pmemfs_attr a;

	MUST(name, pmemfs_make(fs, dir, name, mode, 0, 0, NULL, &cred, &a));
	return a.ino;
}

static uint64_t make_file(const char *name, unsigned parts)
{
	static const char data[65536] = "data";
	uint64_t ino = make(1, name, S_IFREG | 0644);

	for (uint64_t off = 0; off < (uint64_t)parts * AREA; off += sizeof(data))
		MUST("write", pmemfs_write(fs, ino, off, data, sizeof(data), 0));
	return ino;
}

/* Operations a second of all. */
static double run(struct bench *b, const struct row *row, struct job *jobs, unsigned n)
{
	pthread_barrier_t start;
	double sum = 0, span = b->quick ? 0.01 : 0.25;

	pthread_barrier_init(&start, NULL, n);
	running = n;
	atomic_store(&turn, 0);
	for (struct job *j = jobs; j < jobs + n; j++) {
		j->row = row;
		j->start = &start;
		j->until = span;
		j->done = 0;
		if (pthread_create(&j->thread, NULL, run_job, j))
			bench_die("threads", -EAGAIN);
	}
	for (struct job *j = jobs; j < jobs + n; j++) {
		pthread_join(j->thread, NULL);
		sum += (double)j->done / span;
	}
	pthread_barrier_destroy(&start);
	return sum;
}

static void set_up(const struct row *row, struct job *jobs, const uint64_t *files,
		   const uint64_t *dirs, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		jobs[i].number = i;
		jobs[i].file = row->one_file ? files[n] : files[i];
		jobs[i].off = row->one_file ? (uint64_t)i * AREA : 0;
		jobs[i].dir = row->one_dir ? dirs[n] : dirs[i];
	}
}

int main(int argc, char **argv)
{
	unsigned counts[8], n = 0, most;
	uint64_t files[65], dirs[65];
	struct job jobs[64] = {0};
	const char *why = "";
	void *area;
	struct table *table;
	struct bench b;
	char name[32];

	bench_begin(&b, argc, argv, BENCH_THREADS,
		    "Operations a second by one and by more threads.");
	bench_open(&b, MEDIUM);
	MUST("mount", pmemfs_mount(b.media, NULL, &fs, &why));
	most = b.threads;
	area = mmap(NULL, (size_t)most * AREA, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (area == MAP_FAILED)
		bench_die("memory", -errno);
	MUST("memory", media_open_memory(area, (uint64_t)most * AREA, 0, &bare));
	media_set_flush(bare, media_kernel_name(b.media, 65536), &why);
	for (unsigned i = 1; i < most && n < 7; i *= 2)
		counts[n++] = i;
	counts[n++] = most;
	/* The last file has a part for each thread, the last directory is everybody's. */
	for (unsigned i = 0; i <= most; i++) {
		snprintf(name, sizeof(name), "file%u", i);
		files[i] = make_file(name, i < most ? 1 : most);
		snprintf(name, sizeof(name), "dir%u", i);
		dirs[i] = make(1, name, S_IFDIR | 0755);
		make(dirs[i], "known", S_IFREG | 0644);
		if (i < most)
			jobs[i].memory = xcalloc(1, 65536);
	}
	table = table_new(&b, "by threads", "1/s", "", ARRAY_LEN(rows), n);
	for (unsigned c = 0; c < n; c++) {
		snprintf(name, sizeof(name), "%u", counts[c]);
		table_col(table, c, name);
	}
	for (unsigned r = 0; r < ARRAY_LEN(rows); r++)
		table_row(table, r, rows[r].name);
	for (unsigned round = 0; round < b.rounds; round++)
		for (unsigned r = 0; r < ARRAY_LEN(rows); r++) {
			set_up(&rows[r], jobs, files, dirs, most);
			for (unsigned c = 0; c < n; c++)
				table_add(table, r, c, run(&b, &rows[r], jobs, counts[c]));
		}
	for (unsigned r = 0; r < ARRAY_LEN(rows) && !b.json; r++)
		printf("%-18s %u threads to one: %.2f\n", rows[r].name, most,
		       table_ratio(table, r, n - 1, 0));
	for (unsigned i = 0; i < most; i++)
		free(jobs[i].memory);
	media_close(bare);
	munmap(area, (size_t)most * AREA);
	MUST("unmount", pmemfs_unmount(fs));
	return bench_end(&b);
}
