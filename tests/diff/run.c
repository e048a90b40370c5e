/* SPDX-License-Identifier: BSD-3-Clause */
/* Running a sequence of operations on fresh subjects, in a process of its own. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "diff.h"

void sequence_add(struct sequence *q, const struct op *op)
{
	if (q->n == q->cap) {
		q->cap = q->cap ? 2 * q->cap : 256;
		q->ops = reallocarray(q->ops, q->cap, sizeof(*q->ops));
		if (!q->ops)
			abort();
	}
	q->ops[q->n++] = *op;
}

int sequence_load(struct sequence *q, const char *path)
{
	char line[OP_LINE_MAX];
	FILE *f = fopen(path, "re");
	struct op op;
	int rc = 0;

	if (!f)
		return -errno;
	while (!rc && fgets(line, sizeof(line), f)) {
		rc = op_parse(line, &op);
		if (!rc && op.kind != OP_NONE)
			sequence_add(q, &op);
	}
	fclose(f);
	return rc;
}

void sequence_print(const struct sequence *q, size_t from, FILE *out)
{
	char line[OP_LINE_MAX];
	size_t k;

	for (k = from; k < q->n; k++) {
		op_print(&q->ops[k], line, sizeof(line));
		fprintf(out, "%s\n", line);
	}
}

#define SUBJECTS 3
struct subjects {
	struct subject *s[SUBJECTS];
	int n;
};

static bool add(struct subjects *all, struct subject *s)
{
	if (s)
		all->s[all->n++] = s;
	return s;
}

static bool start(const struct config *c, struct subjects *all)
{
	all->n = 0;
	return (c->no_core || add(all, subject_new_core(c))) &&
	       (!c->mount || add(all, subject_new_dir(c, c->mount, true))) &&
	       (!c->tmpfs || add(all, subject_new_dir(c, c->tmpfs, false)));
}

static void next_op(const struct config *c, struct op_rng *rng, const struct model *m,
		    struct op *ret)
{
	struct op_profile profile = op_profile_default;

	profile.file_size = c->file_size;
	profile.write_size = c->file_size / 4;
	if (c->remount_every && op_rng_one_in(rng, c->remount_every))
		op_init(ret, OP_REMOUNT);
	else if (c->kill_every && op_rng_one_in(rng, c->kill_every))
		op_init(ret, OP_CRASH);
	else
		op_random(rng, m, &profile, ret);
}

static bool step_all(struct subjects *all, const struct op *op, bool full, char *why)
{
	bool ok = true;
	int k;

	for (k = 0; ok && k < all->n; k++)
		ok = subject_step(all->s[k], op, full, why);
	return ok;
}

/* What the process of a run tells through shared memory. */
struct told {
	int rc;	  /* -1: did not come to an end */
	size_t n; /* operations begun */
	struct outcome outcome;
	char why[WHY_MAX];
	struct op ops[];
};

static void run(const struct config *c, struct told *t, size_t steps, bool make)
{
	struct op_rng rng = {c->seed};
	struct subjects all;
	bool ok = start(c, &all);
	size_t k;
	int i;

	if (!ok) {
		snprintf(t->why, WHY_MAX, "cannot start");
		t->rc = 2;
	}
	for (k = 0; ok && k < steps; k++) {
		struct sequence last = {&t->ops[k], 1, 1};

		if (make)
			next_op(c, &rng, subject_model(all.s[0]), &t->ops[k]);
		t->n = k + 1;
		if (c->verbose) {
			sequence_print(&last, 0, stdout);
			fflush(stdout);
		}
		ok = step_all(&all, &t->ops[k], !((k + 1) % c->full_every), t->why);
		t->outcome.succeeded += subject_answer(all.s[0]) >= 0;
		t->outcome.no_space += subject_answer(all.s[0]) == -ENOSPC;
	}
	for (i = 0; ok && i < all.n; i++)
		ok = subject_finish(all.s[i], t->why);
	for (i = 0; i < all.n; i++)
		subject_free(all.s[i]);
	if (t->rc < 0)
		t->rc = !ok;
}

/* The process did not say how it went. */
static int died(int status, char *why)
{
	if (WIFSIGNALED(status))
		snprintf(why, WHY_MAX, "%s (SIG%s)",
			 WTERMSIG(status) == SIGALRM ? "hangs" : "crashes",
			 sigabbrev_np(WTERMSIG(status)));
	else
		snprintf(why, WHY_MAX, "ends with exit code %d", WEXITSTATUS(status));
	return 1;
}

int run_sequence(const struct config *c, struct sequence *q, bool make, char *why,
		 struct outcome *ret)
{
	size_t steps = make ? c->steps : q->n,
	       size = sizeof(struct told) + steps * sizeof(struct op);
	struct told *t =
	    mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status, rc;
	size_t k;
	pid_t pid;

	if (t == MAP_FAILED)
		abort();
	t->rc = -1;
	for (k = 0; k < q->n && !make; k++)
		t->ops[k] = q->ops[k];
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		abort();
	if (!pid) {
		alarm(c->hang + (unsigned)steps / 20);
		run(c, t, steps, make);
		/* exit, so that leaks are found where that is compiled in */
		exit(0);
	}
	waitpid(pid, &status, 0);
	rc = t->rc;
	if (rc < 0 || status)
		rc = died(status, why);
	else
		strcpy(why, t->why);
	q->n = 0;
	for (k = 0; k < t->n; k++)
		sequence_add(q, &t->ops[k]);
	*ret = t->outcome;
	munmap(t, size);
	return rc;
}
