/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start images. Each is formatted in memory that is full of a secret pattern, which must never
 * be seen through a file: whatever a file shows is compared byte by byte with the model. The
 * aged ones have had hundreds of operations, so that free space and log segments hold stale
 * records.
 */
#include "starts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

#define AGE_STEPS   400
#define AGE_OBJECTS 14 /* the tree that is left: a state's cost grows with it */

static const struct op_profile aging = {
    .weight = {[OP_CREATE] = 60,
	       [OP_MKDIR] = 15,
	       [OP_MKNOD] = 5,
	       [OP_SYMLINK] = 10,
	       [OP_LINK] = 20,
	       [OP_UNLINK] = 60,
	       [OP_RMDIR] = 15,
	       [OP_RENAME] = 60,
	       [OP_WRITE] = 120,
	       [OP_APPEND] = 60,
	       [OP_TRUNCATE] = 40,
	       [OP_FALLOCATE] = 30,
	       [OP_CHMOD] = 30,
	       [OP_CHOWN] = 15,
	       [OP_UTIMENS] = 15,
	       [OP_SETXATTR] = 30,
	       [OP_REMOVEXATTR] = 15,
	       [OP_REMOUNT] = 4},
    .depth = 2,
    .names = 10,
    .odd_names = 40,
    .file_size = 48 << 10,
    .write_size = 16 << 10,
    .trusted = true,
};

/* A start image that holds nothing but the secret. */
static int secret_start(void)
{
	uint8_t page[PAGE_BYTES];
	int fd = image_start_create(TRIAL_SIZE);
	memset(page, STARTS_SECRET, sizeof(page));
	for (size_t off = 0; fd >= 0 && off < TRIAL_SIZE; off += sizeof(page)) {
		if (pwrite(fd, page, sizeof(page), (off_t)off) != (ssize_t)sizeof(page))
			abort();
	}
	return fd;
}

static int save(struct trial *t, struct start *s, const char *name, const struct start *from)
{
	*s = *from;
	s->name = name;
	int r = trial_save(t, s);
	if (r)
		snprintf(t->why, sizeof(t->why), "no memory for a start image");
	return r;
}

/* Blocks that are free when nothing is there. */
static int measure_free(struct trial *t, struct start *s)
{
	struct pmemfs_statfs st;
	if (trial_begin(t, s, false))
		return -1;
	pmemfs_statfs(t->fs, &st);
	s->fresh_free = st.bfree;
	return trial_end(t, false, false);
}

static int make_fresh(struct trial *t, struct start *s, const char *name, unsigned shards,
		      bool replica)
{
	struct start blank = {
	    .name = "blank", .shards = shards, .replica = replica, .fd = secret_start()};
	if (blank.fd < 0)
		return -1;
	blank.hash = image_start_hash(blank.fd, TRIAL_SIZE);
	int r = trial_format(t, &blank, false);
	if (r == 0)
		r = save(t, s, name, &blank);
	close(blank.fd);
	return r ? r : measure_free(t, s);
}

/* ---- aged
 * ------------------------------------------------------------------------------------ */

static int step(struct trial *t, const char *line)
{
	struct op op;
	if (op_parse(line, &op))
		abort();
	return trial_op(t, &op, false, NULL);
}

/* Deletes leaves until the tree is small. */
static int prune(struct trial *t, struct op_rng *r)
{
	struct op op;
	for (unsigned tries = 0; tries < 1000 && model_count(t->model) > AGE_OBJECTS; tries++) {
		struct model *m = model_clone(t->model);
		op_init(&op, OP_UNLINK);
		struct model_attr a;
		bool found = model_pick(m, r, 0, op.path);
		if (found && model_stat(m, op.path, OP_NOFD, &a) == 0 && S_ISDIR(a.mode))
			op.kind = OP_RMDIR;
		bool can = found && model_apply(m, &op, NULL) >= 0;
		model_free(m);
		if (can && trial_op(t, &op, false, NULL))
			return -1;
	}
	return 0;
}

static int age(struct trial *t, const struct start *from, uint64_t seed)
{
	struct op_rng r = {.s = seed};
	struct op op;
	if (trial_begin(t, from, false))
		return -1;
	for (unsigned i = 0; i < AGE_STEPS; i++) {
		op_random(&r, t->model, &aging, &op);
		if (trial_op(t, &op, false, NULL))
			return -1;
	}
	return prune(t, &r);
}

static int make_aged(struct trial *t, struct start *s, const struct start *fresh)
{
	if (age(t, fresh, 20241) || trial_end(t, true, false))
		return -1;
	return save(t, s, "aged", fresh);
}

static int make_reformat(struct trial *t, struct start *s, const struct start *aged)
{
	if (trial_format(t, aged, false))
		return -1;
	int r = save(t, s, "reformat", aged);
	return r ? r : measure_free(t, s);
}

/* ---- full
 * ------------------------------------------------------------------------------------ */

/* Preallocates until there is no space, then gives a few blocks back. */
static int fill_up(struct trial *t)
{
	struct op op;
	uint64_t off = 0;
	int64_t ret;
	op_init(&op, OP_FALLOCATE);
	strcpy(op.path, "filler");
	for (uint64_t len = 8u << 20; len >= PAGE_BYTES;) {
		op.off = off;
		op.len = len;
		if (trial_op(t, &op, false, &ret))
			return -1;
		if (ret == -ENOSPC)
			len /= 2;
		else
			off += len;
	}
	op_init(&op, OP_TRUNCATE);
	strcpy(op.path, "filler");
	op.off = off - 6 * PAGE_BYTES;
	return trial_op(t, &op, false, &ret);
}

static int make_full(struct trial *t, struct start *s, const struct start *fresh)
{
	struct start may = *fresh;
	may.full = true;
	if (trial_begin(t, &may, false))
		return -1;
	if (step(t, "create path=filler mode=0600") || step(t, "mkdir path=A mode=0755") ||
	    step(t, "create path=A/foo mode=0644") ||
	    step(t, "write path=A/foo off=0 len=3000 seed=5") || fill_up(t))
		return -1;
	if (trial_end(t, true, false))
		return -1;
	return save(t, s, "full", &may);
}

/* ---- after a crash
 * ----------------------------------------------------------------------------- */

static int captured(struct trial *t, struct start *s, const char *line, int r)
{
	trial_end(t, false, false);
	if (r || s->fd >= 0)
		return r;
	snprintf(t->why, sizeof(t->why), "%s does not get to the state wanted", line);
	return -1;
}

static void drop(struct start *s)
{
	if (s->fd >= 0)
		close(s->fd);
	model_free(s->model);
	s->fd = -1;
	s->model = NULL;
}

/* Makes the image by `make` with the first fence after which the operation counts as done. */
static int first_committed(struct trial *t, struct start *s, const struct start *fresh,
			   int (*make)(struct trial *, struct start *, const struct start *,
				       unsigned))
{
	for (unsigned fence = 1; fence <= 4; fence++) {
		if (make(t, s, fresh, fence))
			return -1;
		int r = trial_begin(t, s, false);
		trial_end(t, false, false);
		if (r == 0)
			return 0;
		drop(s);
	}
	return -1;
}

/* What is durable after so many fences of the operation. */
static int capture_fence(struct trial *t, struct start *s, const char *line, unsigned fence)
{
	t->x.captured = -1;
	t->x.capture_fence = fence;
	int r = step(t, line);
	t->x.capture_fence = 0;
	s->fd = t->x.captured;
	s->hash = t->x.captured_hash;
	s->model = model_clone(t->model);
	return captured(t, s, line, r);
}

/* The nth state that is judged while the operation runs. */
static int capture_state(struct trial *t, struct start *s, const char *line, unsigned nth)
{
	struct op op;
	if (op_parse(line, &op))
		abort();
	enum trial_checks checks = t->checks;
	t->checks = CHECK_TREE;
	seen_clear(&t->seen);
	t->capture = s;
	t->capture_left = nth;
	int r = trial_op(t, &op, true, NULL);
	t->capture = NULL;
	t->checks = checks;
	seen_clear(&t->seen);
	return captured(t, s, line, r);
}

static void like(struct start *s, const struct start *from, const char *name)
{
	*s = *from;
	s->name = name;
	s->fd = -1;
	s->model = NULL;
}

static int make_crashed(struct trial *t, struct start *s, const struct start *fresh,
			unsigned fence)
{
	like(s, fresh, "crashed");
	if (trial_begin(t, fresh, false) || step(t, "create path=foo mode=0644") ||
	    step(t, "write path=foo off=0 len=5000 seed=3") ||
	    step(t, "mkdir path=A mode=0755") || step(t, "create path=A/bar mode=0644") ||
	    step(t, "append path=A/bar len=4096 seed=4"))
		return -1;
	return capture_fence(t, s, "rename path=foo to=A/bar", fence);
}

static int make_crashed2(struct trial *t, struct start *s, const struct start *fresh,
			 unsigned fence)
{
	like(s, fresh, "crashed2");
	if (age(t, fresh, 777) || step(t, "mkdir path=zz mode=0755"))
		return -1;
	return capture_fence(t, s, "create path=zz/new mode=0644", fence);
}

static int make_torn(struct trial *t, struct start *s, const struct start *fresh)
{
	like(s, fresh, "torn");
	if (age(t, fresh, 4242) || step(t, "create path=zz mode=0644") ||
	    step(t, "append path=zz len=9000 seed=4"))
		return -1;
	return capture_state(t, s, "write path=zz off=3000 len=4000 seed=9", 25);
}

int starts_make(struct starts *st, struct trial *t)
{
	struct start *s = st->s;
	memset(st, 0, sizeof(*st));
	for (unsigned i = 0; i < STARTS; i++)
		s[i].fd = -1;
	if (make_fresh(t, &s[START_FRESH], "fresh", 1, false) ||
	    make_fresh(t, &s[START_SHARDS], "shards", 4, false) ||
	    make_fresh(t, &s[START_REPLICA], "replica", 1, true) ||
	    make_aged(t, &s[START_AGED], &s[START_FRESH]) ||
	    make_reformat(t, &s[START_REFORMAT], &s[START_AGED]) ||
	    make_full(t, &s[START_FULL], &s[START_FRESH]) ||
	    first_committed(t, &s[START_CRASHED], &s[START_FRESH], make_crashed) ||
	    first_committed(t, &s[START_CRASHED2], &s[START_REPLICA], make_crashed2) ||
	    make_torn(t, &s[START_TORN], &s[START_REPLICA]))
		return -1;
	memset(&t->x.stats, 0, sizeof(t->x.stats));
	return 0;
}

void starts_free(struct starts *st)
{
	for (unsigned i = 0; i < STARTS; i++) {
		if (st->s[i].fd >= 0)
			close(st->s[i].fd);
		model_free(st->s[i].model);
	}
}
