/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each operation costs: fences, lines flushed, lines stored non-temporally and bytes:
 * usually (the middle one of a row of 200), for the whole row, in which logs grow and are
 *stated anew, and the fences of the dearest one; and how often memory was allocated. The table
 *is kept in fences.golden, which a change must update knowingly:
 *
 *	PMEMFS_GOLDEN=tests/unit/fences.golden build/tests/unit/test_fences --update
 *
 * Fences and allocations must always be as in the table, and within the budgets of operations
 *that have one, usually and on average. The other columns depend on the store kernels of the
 *processor; they are compared where the table was made with the same ones.
 */
#include "corefs.h"

#include <fcntl.h>
#include <linux/falloc.h>

#define ROW    200
#define GOLDEN "fences.golden"

static const struct pmemfs_cred cred = {0, 0};

/* ---- allocations ---- */

static unsigned long allocations;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	allocations++;
	return __real_malloc(size);
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
	allocations++;
	return __real_calloc(n, size);
}

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size)
{
	allocations++;
	return __real_realloc(p, size);
}

void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size)
{
	allocations++;
	return __real_aligned_alloc(align, size);
}

/* A filesystem with a directory, another one, and a file of 1 MiB, all held. */
struct stage {
	struct corefs c;
	uint64_t dir, other, file;
	char block[4096];
};

static uint64_t held(struct corefs *c, uint64_t dir, const char *name, uint32_t mode)
{
	struct pmemfs_attr a;

	assert_int_equal(pmemfs_make(c->fs, dir, name, mode, 0, 0, NULL, &cred, &a), 0);
	return a.ino;
}

static void stage_set(struct stage *s)
{
	corefs_new(&s->c, 64 << 20, 1);
	s->dir = held(&s->c, ROOT, "dir", S_IFDIR | 0755);
	s->other = held(&s->c, ROOT, "other", S_IFDIR | 0755);
	s->file = held(&s->c, s->dir, "file", S_IFREG | 0644);
	unit_fill(s->block, sizeof(s->block), 1);
	put_seed(&s->c, s->file, 0, 1 << 20, 1);
}

static const char *name_of(unsigned k)
{
	static char name[4][24];
	static unsigned turn;

	turn = (turn + 1) % 4;
	snprintf(name[turn], sizeof(name[0]), "name-%04u", k);
	return name[turn];
}

static void make(struct stage *s, uint64_t dir, const char *name, uint32_t mode,
		 const char *target)
{
	struct pmemfs_attr a;

	assert_int_equal(pmemfs_make(s->c.fs, dir, name, mode, 1, 3, target, &cred, &a), 0);
	pmemfs_forget(s->c.fs, a.ino, 1);
}

/* ---- the operations; k counts up in a row ---- */

static void files_to_go(struct stage *s, unsigned n)
{
	for (unsigned k = 0; k < n; k++)
		make(s, s->dir, name_of(k), S_IFREG | 0644, NULL);
}

static void dirs_to_go(struct stage *s, unsigned n)
{
	for (unsigned k = 0; k < n; k++)
		make(s, s->dir, name_of(k), S_IFDIR | 0755, NULL);
}

static void files_with_data(struct stage *s, unsigned n)
{
	files_to_go(s, n);
	for (unsigned k = 0; k < n; k++)
		put_seed(&s->c, find(&s->c, s->dir, name_of(k)), 0, 10000, k);
}

static void pairs_to_go(struct stage *s, unsigned n)
{
	files_to_go(s, n);
	for (unsigned k = 0; k < n; k++)
		make(s, s->other, name_of(k), S_IFREG | 0644, NULL);
}

static void links_to_go(struct stage *s, unsigned n)
{
	struct pmemfs_attr a;

	for (unsigned k = 0; k < n; k++) {
		assert_int_equal(pmemfs_link(s->c.fs, s->file, s->other, name_of(k), &a), 0);
		pmemfs_forget(s->c.fs, s->file, 1);
	}
}

static void op_create(struct stage *s, unsigned k)
{
	make(s, s->dir, name_of(k), S_IFREG | 0644, NULL);
}

static void op_mkdir(struct stage *s, unsigned k)
{
	make(s, s->dir, name_of(k), S_IFDIR | 0755, NULL);
}

static void op_mknod(struct stage *s, unsigned k)
{
	make(s, s->dir, name_of(k), S_IFCHR | 0644, NULL);
}

static void op_symlink(struct stage *s, unsigned k)
{
	make(s, s->dir, name_of(k), S_IFLNK | 0777, "where/it/points");
}

static void op_tmpfile(struct stage *s, unsigned k)
{
	struct pmemfs_attr a;

	/* its reference is kept, so that it is not freed in this count */
	assert_int_equal(pmemfs_tmpfile(s->c.fs, s->dir, 0600, &cred, &a), 0);
}

static void op_link(struct stage *s, unsigned k)
{
	struct pmemfs_attr a;

	assert_int_equal(pmemfs_link(s->c.fs, s->file, s->other, name_of(k), &a), 0);
	pmemfs_forget(s->c.fs, s->file, 1);
}

static void op_unlink(struct stage *s, unsigned k)
{
	assert_int_equal(pmemfs_unlink(s->c.fs, s->dir, name_of(k)), 0);
}

static void op_unlink_other(struct stage *s, unsigned k)
{
	assert_int_equal(pmemfs_unlink(s->c.fs, s->other, name_of(k)), 0);
}

static void op_rmdir(struct stage *s, unsigned k)
{
	assert_int_equal(pmemfs_rmdir(s->c.fs, s->dir, name_of(k)), 0);
}

static void op_rename(struct stage *s, unsigned k)
{
	assert_int_equal(
	    pmemfs_rename(s->c.fs, s->dir, name_of(k), s->dir, name_of(k + 5000), 0), 0);
}

static void op_rename_away(struct stage *s, unsigned k)
{
	assert_int_equal(pmemfs_rename(s->c.fs, s->dir, name_of(k), s->other, "new", 0), 0);
	assert_int_equal(pmemfs_rename(s->c.fs, s->other, "new", s->dir, name_of(k), 0), 0);
}

static void op_rename_over(struct stage *s, unsigned k)
{
	assert_int_equal(pmemfs_rename(s->c.fs, s->dir, name_of(k), s->other, name_of(k), 0),
			 0);
}

static void op_exchange(struct stage *s, unsigned k)
{
	assert_int_equal(
	    pmemfs_rename(s->c.fs, s->dir, name_of(k), s->other, name_of(k), RENAME_EXCHANGE),
	    0);
}

static void op_overwrite(struct stage *s, unsigned k)
{
	put_bytes(&s->c, s->file, (uint64_t)(k * 37 % 256) * 4096, s->block, 4096);
}

static void op_overwrite_small(struct stage *s, unsigned k)
{
	put_bytes(&s->c, s->file, (uint64_t)(k * 37 % 256) * 4096 + 1000, s->block, 100);
}

static void op_overwrite_two(struct stage *s, unsigned k)
{
	put_bytes(&s->c, s->file, (uint64_t)(k * 37 % 255) * 4096 + 2048, s->block, 4096);
}

static void op_append(struct stage *s, unsigned k)
{
	assert_int_equal(pmemfs_write(s->c.fs, s->file, 0, s->block, 4096, PMEMFS_WRITE_APPEND),
			 4096);
}

static void op_append_small(struct stage *s, unsigned k)
{
	assert_int_equal(pmemfs_write(s->c.fs, s->file, 0, s->block, 100, PMEMFS_WRITE_APPEND),
			 100);
}

static void op_write_hole(struct stage *s, unsigned k)
{
	put_bytes(&s->c, s->file, (1ull << 30) + k * 8192ull, s->block, 4096);
}

static void op_write_first(struct stage *s, unsigned k)
{
	/* the first bytes of an empty file */
	put_bytes(&s->c, find(&s->c, s->dir, name_of(k)), 0, s->block, 4096);
}

static void op_truncate_down(struct stage *s, unsigned k)
{
	set_size(&s->c, s->file, (1 << 20) - 100 - 1000ull * k);
}

static void op_truncate_up(struct stage *s, unsigned k)
{
	set_size(&s->c, s->file, (1 << 20) + 1000ull * (k + 1));
}

static void setattr(struct stage *s, unsigned mask, unsigned k)
{
	const struct pmemfs_attr a = {
	    .mode = 0600 + k % 64, .uid = k, .gid = k, .mtime = {k, k}};

	assert_int_equal(pmemfs_setattr(s->c.fs, s->file, mask, &a, NULL), 0);
}

static void op_chmod(struct stage *s, unsigned k)
{
	setattr(s, PMEMFS_SET_MODE, k);
}

static void op_chown(struct stage *s, unsigned k)
{
	setattr(s, PMEMFS_SET_UID | PMEMFS_SET_GID, k);
}

static void op_utimens(struct stage *s, unsigned k)
{
	setattr(s, PMEMFS_SET_ATIME_NOW | PMEMFS_SET_MTIME, k);
}

static void op_setxattr(struct stage *s, unsigned k)
{
	assert_int_equal(pmemfs_setxattr(s->c.fs, s->file, "user.name", &k, sizeof(k), 0), 0);
}

static void op_fallocate(struct stage *s, unsigned k)
{
	assert_int_equal(pmemfs_fallocate(s->c.fs, s->file, 0, (2 << 20) + 65536ull * k, 65536),
			 0);
}

static void op_punch(struct stage *s, unsigned k)
{
	assert_int_equal(pmemfs_fallocate(s->c.fs, s->file,
					  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					  4096ull * (k * 37 % 256), 4096),
			 0);
}

static void op_look(struct stage *s, unsigned k)
{
	char buf[64];

	assert_int_equal(find(&s->c, s->dir, "file"), s->file);
	count_entries(&s->c, s->dir);
	assert_int_equal(pmemfs_read(s->c.fs, s->file, k, buf, sizeof(buf)), sizeof(buf));
	pmemfs_listxattr(s->c.fs, s->file, NULL, 0);
	pmemfs_sync(s->c.fs);
}

static const struct probe {
	const char *name;
	unsigned budget; /* fences an operation; 0: none was set */
	void (*prepare)(struct stage *s, unsigned n);
	void (*run)(struct stage *s, unsigned k);
} probes[] = {
    {"create", 2, NULL, op_create},
    {"mkdir", 2, NULL, op_mkdir},
    {"mknod", 2, NULL, op_mknod},
    {"symlink", 2, NULL, op_symlink},
    {"tmpfile", 2, NULL, op_tmpfile},
    {"link", 2, NULL, op_link},
    {"unlink (last name, empty file)", 2, files_to_go, op_unlink},
    {"unlink (last name, 3 blocks)", 2, files_with_data, op_unlink},
    {"unlink (one of several names)", 2, links_to_go, op_unlink_other},
    {"rmdir", 2, dirs_to_go, op_rmdir},
    {"rename (same directory)", 2, files_to_go, op_rename},
    {"rename (away and back: two)", 4, files_to_go, op_rename_away},
    {"rename (over a file)", 2, pairs_to_go, op_rename_over},
    {"exchange", 2, pairs_to_go, op_exchange},
    {"overwrite 4096", 2, NULL, op_overwrite},
    {"overwrite 100", 2, NULL, op_overwrite_small},
    {"overwrite 4096 in two blocks", 2, NULL, op_overwrite_two},
    {"append 4096", 2, NULL, op_append},
    {"append 100", 2, NULL, op_append_small},
    {"write 4096 into a hole", 2, NULL, op_write_hole},
    {"write 4096 to an empty file", 2, files_to_go, op_write_first},
    {"truncate down", 2, NULL, op_truncate_down},
    {"truncate up", 2, NULL, op_truncate_up},
    {"chmod", 2, NULL, op_chmod},
    {"chown", 2, NULL, op_chown},
    {"utimens", 2, NULL, op_utimens},
    {"setxattr", 2, NULL, op_setxattr},
    {"fallocate 64 KiB", 2, NULL, op_fallocate},
    {"punch 4096", 2, NULL, op_punch},
    {"lookup, readdir, read, sync", 0, NULL, op_look},
};
#define PROBES (sizeof(probes) / sizeof(probes[0]))

/* What a row of operations cost. */
struct cost {
	struct media_counts usual; /* the middle one of them */
	struct media_counts all;
	uint64_t worst; /* fences of the dearest one */
	unsigned long usual_allocs, all_allocs;
};

static struct media_counts minus(const struct media_counts *b, const struct media_counts *a)
{
	return (struct media_counts){b->fences - a->fences, b->flushes - a->flushes,
				     b->nt_lines - a->nt_lines, b->stores8 - a->stores8,
				     b->bytes - a->bytes};
}

static int by_cost(const void *x, const void *y)
{
	const struct media_counts *a = x, *b = y;

	if (a->fences != b->fences)
		return a->fences < b->fences ? -1 : 1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	return a->flushes < b->flushes ? -1 : a->flushes > b->flushes;
}

static int by_number(const void *x, const void *y)
{
	const unsigned long *a = x, *b = y;

	return *a < *b ? -1 : *a > *b;
}

static void measure(const struct probe *p, struct cost *ret)
{
	struct media_counts at[ROW + 1], each[ROW];
	unsigned long allocs[ROW];
	struct stage s;

	stage_set(&s);
	if (p->prepare)
		p->prepare(&s, ROW);
	media_count(s.c.media, &at[0]);
	for (unsigned k = 0; k < ROW; k++) {
		allocations = 0;
		p->run(&s, k);
		allocs[k] = allocations;
		media_count(s.c.media, &at[k + 1]);
		each[k] = minus(&at[k + 1], &at[k]);
	}
	corefs_done(&s.c);
	qsort(each, ROW, sizeof(each[0]), by_cost);
	qsort(allocs, ROW, sizeof(allocs[0]), by_number);
	ret->usual = each[ROW / 2];
	ret->worst = each[ROW - 1].fences;
	ret->all = minus(&at[ROW], &at[0]);
	ret->usual_allocs = allocs[ROW / 2];
	ret->all_allocs = 0;
	for (unsigned k = 0; k < ROW; k++)
		ret->all_allocs += allocs[k];
}

/* ---- the table ---- */

static const char columns[] =
    "# operation                    | one, usually: fences flushed "
    "nt lines   bytes | 200: fences "
    "flushed nt lines   bytes | worst: fences | allocations: one  200\n";

static int print_row(char *buf, size_t size, const struct probe *p, const struct cost *c)
{
	return snprintf(
	    buf, size,
	    "%-30s | %20llu %7llu %8llu %7llu | %11llu %7llu %8llu %7llu | %13llu | %16lu "
	    "%4lu\n",
	    p->name, (unsigned long long)c->usual.fences, (unsigned long long)c->usual.flushes,
	    (unsigned long long)c->usual.nt_lines, (unsigned long long)c->usual.bytes,
	    (unsigned long long)c->all.fences, (unsigned long long)c->all.flushes,
	    (unsigned long long)c->all.nt_lines, (unsigned long long)c->all.bytes,
	    (unsigned long long)c->worst, c->usual_allocs, c->all_allocs);
}

/* Which store kernels the columns behind the fences belong to. */
static void print_kernels(char *buf, size_t size)
{
	struct media *m;
	void *p = aligned_alloc(4096, 1 << 20);

	assert_int_equal(media_open_memory(p, 1 << 20, 0, &m), 0);
	snprintf(buf, size, "# kernels: 64 bytes %s, 512 bytes %s, 4096 bytes %s%s\n",
		 media_kernel_name(m, 64), media_kernel_name(m, 512),
		 media_kernel_name(m, 4096), media_eadr(m) ? ", eADR" : "");
	media_close(m);
	free(p);
}

static const char *golden_path;
static bool update;

static void expect_row(const char *want, const char *got, const struct cost *c,
		       bool same_kernels)
{
	unsigned long long usual, all, worst;
	unsigned long one_alloc, all_allocs;

	if (same_kernels) {
		if (strcmp(want, got))
			print_error("table: %snow:   %s", want, got);
		assert_string_equal(got, want);
		return;
	}
	assert_int_equal(sscanf(strchr(want, '|'),
				"| %llu %*u %*u %*u | %llu %*u %*u %*u | %llu | %lu %lu",
				&usual, &all, &worst, &one_alloc, &all_allocs),
			 5);
	assert_int_equal(c->usual.fences, usual);
	assert_int_equal(c->all.fences, all);
	assert_int_equal(c->worst, worst);
	assert_int_equal(c->usual_allocs, one_alloc);
	assert_int_equal(c->all_allocs, all_allocs);
}

static void table(void **state)
{
	char kernels[256], line[256], want[256];
	struct cost c;
	bool same_kernels = false;
	FILE *f = fopen(golden_path, update ? "we" : "re");

	assert_non_null(f);
	print_kernels(kernels, sizeof(kernels));
	if (update) {
		fprintf(f, "%s%s", kernels, columns);
	} else {
		assert_non_null(fgets(want, sizeof(want), f));
		same_kernels = !strcmp(want, kernels);
		if (!same_kernels)
			print_message("only fences are compared: %s", kernels);
		assert_non_null(fgets(want, sizeof(want), f));
	}
	for (size_t k = 0; k < PROBES; k++) {
		measure(&probes[k], &c);
		print_row(line, sizeof(line), &probes[k], &c);
		if (update) {
			fputs(line, f);
			continue;
		}
		assert_non_null(fgets(want, sizeof(want), f));
		expect_row(want, line, &c, same_kernels);
	}
	fclose(f);
}

static void budgets(void **state)
{
	for (size_t k = 0; k < PROBES; k++) {
		const struct probe *p = &probes[k];
		struct cost c;

		measure(p, &c);
		if (c.usual.fences > p->budget || c.worst > p->budget + 3)
			print_error("%s: %llu fences, at worst %llu\n", p->name,
				    (unsigned long long)c.usual.fences,
				    (unsigned long long)c.worst);
		assert_true(c.usual.fences <= p->budget);
		/* stating a log anew takes three: its bytes, the record, the head word */
		assert_true(c.worst <= p->budget + 3);
		assert_true(c.all.fences <= p->budget * ROW * 17 / 16);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(table), cmocka_unit_test(budgets)};

	golden_path = getenv("PMEMFS_GOLDEN") ?: GOLDEN;
	update = argc > 1 && !strcmp(argv[1], "--update");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
