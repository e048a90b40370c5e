/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations whose every state is known: the n-th one follows from the seed and the
 * operations before it, so that a power cut needs nothing but the number of the last one that
 * was acknowledged. After it exactly its effects must be there, and the next one may be there,
 * whole, or not.
 *
 *	load DIR SEED N			operations 0 to N - 1, each answer compared with the
 *model's cut DIR SEED WRITERS [N]	the same by several processes in DIR/0, DIR/1, ..., each
 *					operation acknowledged on the serial line as "WRITER N"
 *	verify DIR SEED LAST [whole]	DIR is what operations 0 to LAST leave; unless whole is
 *					said, LAST + 1 may have happened too, or the first of
 *the two pieces that the kernel makes of some writes
 *
 * Writers share nothing but the filesystem and the serial line, which a mutex guards.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.h"
#include "view.h"
#include "vmx.h"

#define COMPARE (MODEL_CMP_BLOCKS | MODEL_CMP_NO_TIMES)
#define WHY_MAX 600

/* Where the next operation comes from. The directory begins empty, as mkdir of root makes it.
 */
struct source {
	struct op_rng rng;
	struct model *model;
	struct op_profile profile;
};

static void source_init(struct source *s, uint64_t seed)
{
	static const struct model_options o = {.root_mode = 0755, .loose_atime = true};

	s->rng.s = seed * 1000003;
	s->model = model_new(&o);
	s->profile = op_profile_default;
	/* What only looks is left to other tests, and the guest's kernel may have no tmpfile.
	 */
	for (int kind = OP_READ; kind < OP_KINDS; kind++)
		s->profile.weight[kind] = 0;
	s->profile.weight[OP_READ] = 20;
	s->profile.weight[OP_TMPFILE] = 0;
	/* Every second writer makes few but large writes. */
	if (seed % 2) {
		s->profile.write_size = 512 << 10;
		s->profile.file_size = 1 << 20;
	}
}

static void next(struct source *s, struct op *ret)
{
	op_random(&s->rng, s->model, &s->profile, ret);
}

/* Does the next one in the directory and in the model; 0 if both answer the same. */
static int step(struct source *s, struct driver *d, uint64_t n)
{
	struct op_result want, got;
	char line[OP_LINE_MAX], why[WHY_MAX];
	struct op op;
	bool same;

	next(s, &op);
	drive_apply(d, &op, &got);
	model_apply(s->model, &op, &want);
	/* Which of several reasons an operation is refused for is compared by tests/diff. */
	same = (want.ret < 0 && got.ret < 0) || op_result_equal(&want, &got, why, sizeof(why));
	op_result_clear(&want);
	op_result_clear(&got);
	if (same)
		return 0;
	op_print(&op, line, sizeof(line));
	printf("operation %llu: %s\n%s\n", (unsigned long long)n, line, why);
	return -1;
}

/* ---- running --------------------------------------------------------------------------------
 */

static int compare(const struct model *m, struct driver *d, char *why)
{
	struct view v;
	int rc = drive_view(d, NULL, &v);

	if (rc) {
		snprintf(why, WHY_MAX, "the root cannot be read: %s", strerror(-rc));
		return -1;
	}
	rc = model_compare(m, &v, COMPARE, why, WHY_MAX) ? 0 : -1;
	view_clear(&v);
	return rc;
}

static struct driver *drive(const char *dir)
{
	struct driver *d = drive_posix_new(dir);

	if (d)
		return d;
	perror(dir);
	exit(1);
}

struct shared {
	pthread_mutex_t lock;
};

static struct shared *shared_make(void)
{
	struct shared *s =
	    mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t a;

	if (s == MAP_FAILED)
		abort();
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&s->lock, &a);
	return s;
}

static void acknowledge(struct shared *s, unsigned writer, uint64_t n)
{
	char line[40];

	snprintf(line, sizeof(line), "%u %llu\n", writer, (unsigned long long)n);
	pthread_mutex_lock(&s->lock);
	serial_say(line);
	pthread_mutex_unlock(&s->lock);
}

/* Operations 0 to n - 1; s is NULL unless they are to be acknowledged. */
static int run(const char *dir, uint64_t seed, uint64_t n, struct shared *s, unsigned writer)
{
	struct driver *d = drive(dir);
	char why[WHY_MAX];
	struct source src;

	source_init(&src, seed);
	for (uint64_t k = 0; k < n; k++) {
		if (step(&src, d, k))
			return 1;
		if (s)
			acknowledge(s, writer, k);
	}
	if (compare(src.model, d, why)) {
		printf("after %llu operations: %s\n", (unsigned long long)n, why);
		return 1;
	}
	drive_free(d);
	model_free(src.model);
	return 0;
}

static int run_writers(const char *dir, uint64_t seed, unsigned writers, uint64_t n)
{
	struct shared *s = shared_make();
	int status, code = 0;
	char sub[4096];

	if (serial_open()) {
		perror("ioperm");
		return 1;
	}
	for (unsigned w = 0; w < writers; w++) {
		snprintf(sub, sizeof(sub), "%s/%u", dir, w);
		switch (fork()) {
		case -1:
			perror("fork");
			return 1;
		case 0:
			exit(run(sub, seed + w, n, s, w));
		}
	}
	while (wait(&status) > 0)
		if (status)
			code = 1;
	return code;
}

int load_main(int argc, char **argv)
{
	bool cut = strcmp(argv[0], "cut") == 0;

	if (argc < 4)
		return 2;
	if (cut)
		return run_writers(argv[1], strtoull(argv[2], NULL, 0), atoi(argv[3]),
				   argc > 4 ? strtoull(argv[4], NULL, 0) : UINT64_MAX);
	return run(argv[1], strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0), NULL, 0);
}

/* ---- judging --------------------------------------------------------------------------------
 */

/* Whether the directory is what the model becomes by a crash. */
static int compare_crashed(const struct model *m, struct driver *d, char *why)
{
	struct model *after = model_clone(m);
	struct op crash;
	int rc;

	op_init(&crash, OP_CRASH);
	model_apply(after, &crash, NULL);
	rc = compare(after, d, why);
	model_free(after);
	return rc;
}

/*
 * A write that begins inside of a page that the kernel has not cached reaches the filesystem in
 * two pieces, of which the first ends with that page (fuse_fill_write_pages); each of them is
 * whole or absent. Returns false if the operation is none of these, or makes the first piece of
 * it.
 */
static bool first_piece(const struct model *m, const struct op *op, struct op *ret)
{
	uint64_t off = op->off, piece;
	struct model_attr a;

	if ((op->kind != OP_WRITE && op->kind != OP_APPEND) ||
	    model_stat(m, op->path, op->fd, &a))
		return false;
	if (op->kind == OP_APPEND)
		off = a.size;
	piece = VIEW_BLOCK - off % VIEW_BLOCK;
	if (piece == VIEW_BLOCK || piece >= op->len)
		return false;
	*ret = *op;
	ret->len = piece;
	return true;
}

/* Whether the directory is as that operation more leaves it. */
static bool is_after(const struct model *m, const struct op *op, struct driver *d, char *why)
{
	struct model *after = model_clone(m);
	bool same;

	model_apply(after, op, NULL);
	same = compare_crashed(after, d, why) == 0;
	model_free(after);
	return same;
}

/* The operation after the last acknowledged one: absent, whole, or its first piece. */
static int verify_next(struct source *src, struct driver *d, const char *dir, long long last)
{
	char why[WHY_MAX], line[OP_LINE_MAX];
	struct op op, piece;

	next(src, &op);
	op_print(&op, line, sizeof(line));
	if (is_after(src->model, &op, d, why)) {
		printf("%s: as %lld operations leave it, the last not acknowledged: %s\n", dir,
		       last + 2, line);
		return 0;
	}
	printf("not as with the next one, %s: %s\n", line, why);
	if (first_piece(src->model, &op, &piece) && is_after(src->model, &piece, d, why)) {
		printf(
		    "%s: as %lld operations leave it, and %llu bytes, to the end of a page, of "
		    "one not acknowledged\n",
		    dir, last + 1, (unsigned long long)piece.len);
		return 0;
	}
	return 1;
}

int verify_main(int argc, char **argv)
{
	char why[WHY_MAX];
	struct source src;
	struct driver *d;
	struct op op;
	long long last;

	if (argc < 4)
		return 2;
	last = strtoll(argv[3], NULL, 0);
	d = drive(argv[1]);
	source_init(&src, strtoull(argv[2], NULL, 0));
	for (long long k = 0; k <= last; k++) {
		next(&src, &op);
		model_apply(src.model, &op, NULL);
	}
	if (compare_crashed(src.model, d, why) == 0) {
		printf("%s: as %lld operations leave it\n", argv[1], last + 1);
		return 0;
	}
	printf("%s: not as %lld operations leave it: %s\n", argv[1], last + 1, why);
	return argc == 4 ? verify_next(&src, d, argv[1], last) : 1;
}
