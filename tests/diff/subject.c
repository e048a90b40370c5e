/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A filesystem under test beside its model. The in-process one lives in anonymous memory, is
 * remounted and killed (abandoned) by operations of the sequence, and checked by pmemfs_check
 * each time; directories are driven through system calls.
 *
 * -ENOSPC is no difference: the operation then stays out of the model, so that the comparison
 * shows whether it left anything behind.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "diff.h"
#include "pmemfs.h"

struct subject {
	const char *name;
	struct driver *driver;
	struct model *model;
	unsigned flags; /* MODEL_CMP_* */
	int64_t answer;
	/* in-process */
	void *memory;
	uint64_t size;
	struct media *media;
	struct pmemfs *fs;
	uint64_t bfree; /* of the empty filesystem */
	char report[256];
	/* directory */
	char *dir;
};

const struct model *subject_model(const struct subject *s)
{
	return s->model;
}

int64_t subject_answer(const struct subject *s)
{
	return s->answer;
}

/* ---- in-process ---- */

static void on_report(void *arg, int level, const char *message)
{
	struct subject *s = arg;

	if (level == 0)
		snprintf(s->report, sizeof(s->report), "%s", message);
}

static int mount_core(struct subject *s, char *why)
{
	const struct pmemfs_options o = {.report = on_report, .report_arg = s};
	const char *reason = NULL;
	int rc = pmemfs_mount(s->media, &o, &s->fs, &reason);

	if (rc)
		snprintf(why, WHY_MAX, "mounting gave %s: %s", strerrorname_np(-rc),
			 reason ? reason : "no reason");
	else if (pmemfs_is_readonly(s->fs))
		snprintf(why, WHY_MAX, "mounted read-only: %s", s->report);
	else
		return 0;
	return -1;
}

struct found {
	char *why;
	unsigned n;
};

static bool on_problem(void *arg, unsigned code, const char *message, bool fixable)
{
	struct found *f = arg;
	size_t len = strlen(f->why);

	if (f->n++ < 5)
		snprintf(f->why + len, WHY_MAX - len, "\n    %u: %s", code, message);
	return false;
}

/* The image is not mounted; nothing must be wrong with it. */
static int check_core(struct subject *s, const char *when, char *why)
{
	struct found f = {why, 0};
	const struct pmemfs_check_options o = {
	    .fix = PMEMFS_FIX_NONE, .force = true, .problem = on_problem, .arg = &f};
	struct pmemfs_check_result r = {0};
	struct media *m;
	int rc;

	snprintf(why, WHY_MAX, "check after %s: ", when);
	rc = media_open_memory(s->memory, s->size, MEDIA_SHADOW, &m);
	if (!rc) {
		rc = pmemfs_check(m, &o, &r);
		media_close(m);
	}
	if (rc)
		snprintf(why + strlen(why), 64, "%s", strerrorname_np(-rc));
	return rc || r.problems || f.n ? -1 : 0;
}

static int remount_core(struct subject *s, bool kill, char *why)
{
	int rc;

	if (kill) {
		pmemfs_abandon(s->fs);
	} else {
		drive_close_all(s->driver);
		rc = pmemfs_unmount(s->fs);
		if (rc) {
			snprintf(why, WHY_MAX, "unmounting gave %s", strerrorname_np(-rc));
			s->fs = NULL;
			return -1;
		}
	}
	s->fs = NULL;
	if (check_core(s, kill ? "kill" : "unmount", why) || mount_core(s, why))
		return -1;
	drive_core_set(s->driver, s->fs);
	return 0;
}

struct subject *subject_new_core(const struct config *c)
{
	const struct pmemfs_format_options fo = {
	    .shards = c->shards, .replica = c->replica, .parity = c->parity};
	struct subject *s = calloc(1, sizeof(*s));
	struct pmemfs_statfs st;
	char why[WHY_MAX];
	int rc;

	if (!s)
		abort();
	s->name = "pmemfs in-process";
	s->size = c->image;
	s->flags = MODEL_CMP_BLOCKS;
	s->model = model_new(NULL);
	s->memory =
	    mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->memory == MAP_FAILED)
		abort();
	rc = media_open_memory(s->memory, s->size, 0, &s->media);
	if (!rc)
		rc = pmemfs_format(s->media, &fo);
	if (rc)
		snprintf(why, sizeof(why), "formatting gave %s", strerrorname_np(-rc));
	if (rc || mount_core(s, why)) {
		fprintf(stderr, "%s\n", why);
		subject_free(s);
		return NULL;
	}
	pmemfs_statfs(s->fs, &st);
	s->bfree = st.bfree;
	s->driver = drive_core_new(s->fs);
	return s;
}

/* ---- directories ---- */

struct subject *subject_new_dir(const struct config *c, const char *dir, bool pmemfs)
{
	struct model_options mo = {.loose_atime = true, .loose_fallocate_times = !pmemfs};
	struct subject *s = calloc(1, sizeof(*s));
	struct stat st;

	if (!s)
		abort();
	s->name = dir;
	s->flags = pmemfs ? MODEL_CMP_BLOCKS : 0;
	if (asprintf(&s->dir, "%s/diff-%d", dir, (int)getpid()) < 0)
		abort();
	if (!mkdir(s->dir, 0755) && !stat(s->dir, &st))
		s->driver = drive_posix_new(s->dir);
	if (!s->driver) {
		perror(s->dir);
		subject_free(s);
		return NULL;
	}
	mo.root_mode = st.st_mode & 07777;
	mo.root_uid = st.st_uid;
	mo.root_gid = st.st_gid;
	s->model = model_new(&mo);
	return s;
}

/* ---- steps ---- */

static bool whole(struct subject *s, char *why)
{
	struct view v;
	int rc = drive_view(s->driver, NULL, &v);
	bool ok;

	if (rc) {
		snprintf(why, WHY_MAX, "the root cannot be looked at: %s",
			 strerrorname_np(-rc));
		return false;
	}
	ok = model_compare(s->model, &v, s->flags, why, WHY_MAX);
	if (ok)
		model_learn(s->model, &v);
	view_clear(&v);
	return ok;
}

static bool one(struct subject *s, const char *path, int fd, char *why)
{
	struct view v;
	int rc = drive_view_one(s->driver, path, fd, NULL, &v);
	bool ok;

	if (rc) {
		snprintf(why, WHY_MAX, "/%s: looking at it gave %s", path,
			 strerrorname_np(-rc));
		return false;
	}
	ok = model_compare_one(s->model, path, fd, &v, s->flags, why, WHY_MAX);
	if (ok)
		model_learn_one(s->model, path, fd, &v);
	view_clear(&v);
	return ok;
}

static bool one_and_parent(struct subject *s, const char *path, char *why)
{
	char dir[OP_PATH_MAX];
	char *slash;

	if (!one(s, path, OP_NOFD, why))
		return false;
	strcpy(dir, path);
	slash = strrchr(dir, '/');
	if (slash)
		*slash = 0;
	else
		dir[0] = 0;
	return one(s, dir, OP_NOFD, why);
}

/* What the operation names. */
static bool touched(struct subject *s, const struct op *op, char *why)
{
	bool two = op->kind == OP_LINK || op->kind == OP_RENAME;
	int k;

	if (!one_and_parent(s, op->path, why) || (two && !one_and_parent(s, op->to, why)))
		return false;
	/* a handle may be the last way to what the operation changed */
	for (k = 0; k < OP_FDS; k++)
		if (model_fd_used(s->model, k) && !one(s, "", k, why))
			return false;
	return true;
}

static bool results_fit(struct subject *s, const struct op *op, const struct op_result *got,
			char *why)
{
	struct op_result want;
	struct op short_op = *op;
	bool seek_ok = op->kind == OP_SEEK && model_seek_ok(s->model, op, got->ret);
	bool ok;

	if (got->ret == -ENOSPC && op_changes(op->kind))
		return true;
	/* a full disk may cut a write(2) short, never one in-process */
	if ((op->kind == OP_WRITE || op->kind == OP_APPEND) && s->dir && got->ret > 0 &&
	    (uint64_t)got->ret < op->len)
		short_op.len = (uint64_t)got->ret;
	model_apply(s->model, &short_op, &want);
	if (seek_ok)
		want.ret = got->ret;
	ok = op_result_equal(&want, got, why, WHY_MAX);
	op_result_clear(&want);
	return ok;
}

static bool remount(struct subject *s, const struct op *op, char *why)
{
	model_apply(s->model, op, NULL);
	if (!s->dir)
		return !remount_core(s, op->kind == OP_CRASH, why);
	drive_close_all(s->driver);
	return true;
}

bool subject_step(struct subject *s, const struct op *op, bool full, char *why)
{
	struct op_result got;
	struct timespec now;
	char reason[WHY_MAX];
	bool ok;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	model_clock(s->model, &now);
	if (op->kind == OP_REMOUNT || op->kind == OP_CRASH) {
		ok = remount(s, op, reason);
		s->answer = 0;
		full = true;
	} else {
		drive_apply(s->driver, op, &got);
		ok = results_fit(s, op, &got, reason);
		s->answer = got.ret;
		op_result_clear(&got);
	}
	if (ok)
		ok = full ? whole(s, reason) : touched(s, op, reason);
	if (!ok)
		snprintf(why, WHY_MAX, "%s: %.3800s", s->name, reason);
	return ok;
}

/* ---- the end ---- */

struct victim {
	char path[OP_PATH_MAX];
	uint32_t mode;
};

static int last_seen(void *arg, const char *path, const struct model_attr *a)
{
	struct victim *v = arg;

	strcpy(v->path, path);
	v->mode = a->mode;
	return 0;
}

static bool remove_root_xattrs(struct subject *s, char *why)
{
	struct op_result list;
	struct op op;
	const char *name;
	bool ok = true;

	op_init(&op, OP_LISTXATTR);
	model_apply(s->model, &op, &list);
	op_init(&op, OP_REMOVEXATTR);
	for (name = (char *)list.data; ok && name < (char *)list.data + list.len;
	     name += strlen(name) + 1) {
		strcpy(op.to, name);
		ok = subject_step(s, &op, false, why);
	}
	op_result_clear(&list);
	return ok;
}

/* Removes everything; the last path of a walk is never a directory with something in it. */
static bool remove_all(struct subject *s, char *why)
{
	struct victim v;
	struct op op;

	op_init(&op, OP_REMOUNT);
	if (!subject_step(s, &op, true, why))
		return false;
	for (;;) {
		model_walk(s->model, last_seen, &v);
		if (!*v.path)
			return remove_root_xattrs(s, why);
		op_init(&op, S_ISDIR(v.mode) ? OP_RMDIR : OP_UNLINK);
		strcpy(op.path, v.path);
		if (!subject_step(s, &op, false, why))
			return false;
	}
}

bool subject_finish(struct subject *s, char *why)
{
	struct pmemfs_statfs st;
	struct op op;

	if (!remove_all(s, why))
		return false;
	op_init(&op, OP_REMOUNT);
	if (!subject_step(s, &op, true, why))
		return false;
	if (s->dir)
		return true;
	pmemfs_statfs(s->fs, &st);
	if (st.bfree == s->bfree)
		return true;
	snprintf(why, WHY_MAX,
		 "%s: empty again, %" PRIu64 " blocks are free; %" PRIu64 " were after mkfs",
		 s->name, st.bfree, s->bfree);
	return false;
}

void subject_free(struct subject *s)
{
	if (!s)
		return;
	if (s->fs)
		pmemfs_abandon(s->fs);
	media_close(s->media);
	if (s->memory)
		munmap(s->memory, s->size);
	drive_free(s->driver);
	model_free(s->model);
	if (s->dir) {
		/* also after a difference: what is there is ours */
		char *argv[] = {"rm", "-rf", "--one-file-system", s->dir, NULL};
		pid_t pid = fork();

		if (!pid) {
			execvp(argv[0], argv);
			_exit(127);
		}
		waitpid(pid, NULL, 0);
		free(s->dir);
	}
	free(s);
}
