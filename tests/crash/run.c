/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running, replaying and shrinking workloads. A replay file is a list of settings and
 * operations; the exploration of a workload depends on these alone, so that it fails again.
 */
#include "run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "pair.h"
#include "sym.h"

const struct run_options run_defaults = {
    .model = PERSIST_STRICT,
    .limit = ENUM_LIMIT,
    .pairs = ENUM_PAIRS,
    .random = ENUM_RANDOM,
    .depth = 2,
    .nested_limit = 256,
    .alike = 3,
    .checks = CHECK_USE,
    .fill_every = 2000,
    .fsck_every = 20,
    .seed = 1,
    .steps = 8,
};

static const struct op_profile exploring = {
    .weight = {[OP_CREATE] = 40,      [OP_MKDIR] = 20,	[OP_MKNOD] = 5,	    [OP_SYMLINK] = 10,
	       [OP_LINK] = 25,	      [OP_UNLINK] = 40, [OP_RMDIR] = 15,    [OP_RENAME] = 80,
	       [OP_WRITE] = 80,	      [OP_APPEND] = 40, [OP_TRUNCATE] = 40, [OP_FALLOCATE] = 30,
	       [OP_CHMOD] = 15,	      [OP_CHOWN] = 10,	[OP_UTIMENS] = 15,  [OP_SETXATTR] = 30,
	       [OP_REMOVEXATTR] = 15, [OP_OPEN] = 20,	[OP_CLOSE] = 20,    [OP_TMPFILE] = 10,
	       [OP_REMOUNT] = 3},
    .depth = 2,
    .names = 5,
    .odd_names = 30,
    .sparse = 5,
    .file_size = 24 << 10,
    .write_size = 9 << 10,
    .trusted = true,
};

void run_configure(struct trial *t, const struct run_options *o)
{
	t->x.o = (struct explore_options){
	    .model = o->model,
	    .plan = {o->limit, o->pairs, o->random, o->seed},
	    .depth = o->depth,
	    .nested_limit = o->nested_limit,
	    .reads = o->reads,
	    .alike = o->alike,
	    .fsck_every = o->fsck_every,
	};
	t->checks = o->checks;
	t->fill_every = o->fill_every;
}

static bool model_would(const struct model *m, const struct op *op)
{
	struct model *c = model_clone(m);
	bool ok = model_apply(c, op, NULL) >= 0;
	model_free(c);
	return ok;
}

/* The seed of the interleaving: with the place in the workload, so that each is another. */
static int run_one(struct trial *t, const struct workload *w, unsigned *i, bool judge)
{
	const struct work_op *o = &w->ops[*i];
	bool pair = o->pair && *i + 1 < w->n && !w->ops[*i + 1].setup;
	if (!pair)
		return trial_op(t, &o->op, judge, NULL);
	++*i;
	return pair_run(t, &o->op, &w->ops[*i].op, w->seed + *i, judge);
}

static int run_ops(struct trial *t, const struct workload *w, const struct run_options *run,
		   unsigned *ret_op)
{
	for (unsigned i = 0; i < w->n; i++) {
		const struct work_op *o = &w->ops[i];
		*ret_op = i;
		if (o->setup && !model_would(t->model, &o->op))
			continue;
		if (run_one(t, w, &i, !o->setup && !run->dry))
			return -1;
	}
	return 0;
}

static int run_random(struct trial *t, struct workload *w, const struct run_options *o,
		      unsigned *ret_op)
{
	struct op_rng r = {.s = w->seed};
	for (unsigned i = 0; i < o->steps; i++) {
		struct work_op *op = workload_add(w, false);
		op_random(&r, t->model, &exploring, &op->op);
		*ret_op = w->n - 1;
		if (w->mirror && i < WORKLOAD_STEPS)
			w->mirror[i] = *op;
		if (trial_op(t, &op->op, !o->dry, NULL))
			return -1;
	}
	return 0;
}

/* mkfs over the start image, then a mount of the new filesystem. */
static int run_format(struct trial *t, const struct start *s, bool judge)
{
	static struct start made;
	if (trial_format(t, s, judge))
		return -1;
	if (made.fd > 0)
		close(made.fd);
	model_free(made.model);
	made = *s;
	made.full = false;
	if (trial_save(t, &made))
		return -1;
	return trial_begin(t, &made, judge);
}

static int run_inside(struct trial *t, const struct starts *st, struct workload *w,
		      const struct run_options *o, unsigned *ret_op)
{
	const struct start *s = &st->s[w->start];
	bool first = !o->dry && (w->n == 0 || w->seed % 97 == 0);
	int r = w->format ? run_format(t, s, !o->dry) : trial_begin(t, s, first);
	if (r == 0 && w->random && w->n == 0)
		r = run_random(t, w, o, ret_op);
	else if (r == 0)
		r = run_ops(t, w, o, ret_op);
	if (r == 0)
		*ret_op = w->n;
	if (r == 0 && w->unmount)
		r = trial_end(t, true, !o->dry);
	return r;
}

int run_workload(struct trial *t, const struct starts *st, struct workload *w,
		 const struct run_options *o, unsigned *ret_op)
{
	*ret_op = 0;
	int r = run_inside(t, st, w, o, ret_op);
	trial_end(t, false, false);
	return r;
}

static struct stacks explain_stacks;
static struct syms *explain_syms;

static const char *explain_name(void *arg, uint32_t stack)
{
	const struct stack *k = &explain_stacks.list[stack];
	(void)arg;
	return sym_stack(explain_syms, k->ret, k->n);
}

void run_explain(struct trial *t)
{
	if (!explain_syms)
		explain_syms = sym_open();
	if (!explain_syms)
		return;
	explore_stacks(&t->x, &explain_stacks);
	t->x.stack_name = explain_name;
}

/* ---- in a child
 * ------------------------------------------------------------------------------- */

static void child(struct trial *t, const struct starts *st, const struct workload *w,
		  const struct run_options *o, int out)
{
	struct workload copy = {0};
	unsigned op;
	workload_copy(&copy, w);
	run_explain(t);
	seen_clear(&t->seen);
	seen_clear(&t->x.alike);
	memset(&t->x.stats, 0, sizeof(t->x.stats));
	int r = run_workload(t, st, &copy, o, &op);
	if (r && write(out, t->why, strlen(t->why)) < 0)
		_exit(2);
	_exit(r ? 1 : 0);
}

/* Collects what the child says until it ends or the time is over. */
static bool listen_to(int in, double until, char *why, size_t len)
{
	size_t n = 0;
	for (;;) {
		struct pollfd p = {.fd = in, .events = POLLIN};
		double left = until - crash_clock_real();
		if (left <= 0 || poll(&p, 1, (int)(left * 1000) + 1) <= 0)
			return false;
		ssize_t got = read(in, why + n, len - 1 - n);
		if (got <= 0)
			break;
		n += (size_t)got;
		why[n] = '\0';
	}
	return true;
}

int run_isolated(struct trial *t, const struct starts *st, const struct workload *w,
		 const struct run_options *o, unsigned seconds, char *why, size_t len)
{
	int fds[2], status = 0;
	why[0] = '\0';
	if (pipe(fds))
		abort();
	pid_t pid = fork();
	if (pid < 0)
		abort();
	if (pid == 0) {
		close(fds[0]);
		child(t, st, w, o, fds[1]);
	}
	close(fds[1]);
	bool ended = listen_to(fds[0], crash_clock_real() + seconds, why, len);
	close(fds[0]);
	if (!ended)
		kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (!ended)
		snprintf(why, len, "it does not end within %u seconds", seconds);
	else if (WIFSIGNALED(status))
		snprintf(why, len, "killed by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) > 1)
		snprintf(why, len, "the process exits with %d", WEXITSTATUS(status));
	return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* ---- shrinking
 * --------------------------------------------------------------------------------- */

struct shrinker {
	struct trial *t;
	const struct starts *st;
	const struct run_options *o;
	double until;
	char *why;
	size_t len;
};

/* Is the smaller one a failure too? Then it takes the place of w. */
static bool adopt(struct shrinker *k, struct workload *w, const struct workload *smaller)
{
	char why[EXPLORE_WHY];
	if (crash_clock_real() > k->until)
		return false;
	if (run_isolated(k->t, k->st, smaller, k->o, 120, why, sizeof(why)) == 0)
		return false;
	workload_copy(w, smaller);
	snprintf(k->why, k->len, "%s", why);
	return true;
}

static bool shrink_ops(struct shrinker *k, struct workload *w)
{
	struct workload s = {0};
	bool any = false;
	for (unsigned i = w->n; i-- > 0;) {
		workload_copy(&s, w);
		workload_drop(&s, i);
		any |= adopt(k, w, &s);
	}
	workload_free(&s);
	return any;
}

static bool shrink_number(struct shrinker *k, struct workload *w, unsigned i, size_t field)
{
	struct workload s = {0};
	uint64_t old, v;
	memcpy(&old, (char *)&w->ops[i].op + field, sizeof(old));
	const uint64_t try[] = {0, 1, 64, 4096, old / 2, old & ~4095ull, old & ~63ull};
	bool any = false;
	for (unsigned n = 0; n < sizeof(try) / sizeof(try[0]) && !any; n++) {
		v = try[n];
		if (v >= old)
			continue;
		workload_copy(&s, w);
		memcpy((char *)&s.ops[i].op + field, &v, sizeof(v));
		any = adopt(k, w, &s);
	}
	workload_free(&s);
	return any;
}

/* First of all: only the states of one operation are judged, which is much faster. */
static void shrink_judged(struct shrinker *k, struct workload *w)
{
	struct workload s = {0};
	for (unsigned i = w->n + 1; i-- > 0;) {
		workload_copy(&s, w);
		for (unsigned j = 0; j < w->n; j++)
			s.ops[j].setup |= j != i;
		if (i < w->n && w->ops[i].setup)
			continue;
		if (adopt(k, w, &s))
			break;
	}
	workload_free(&s);
}

static bool shrink_settings(struct shrinker *k, struct workload *w)
{
	struct workload s = {0};
	bool any = false;
	workload_copy(&s, w);
	s.start = START_FRESH;
	any |= w->start != START_FRESH && adopt(k, w, &s);
	workload_copy(&s, w);
	s.unmount = false;
	any |= w->unmount && adopt(k, w, &s);
	for (unsigned i = 0; i + 1 < w->n; i++) {
		workload_copy(&s, w);
		s.ops[i].setup = true;
		any |= !w->ops[i].setup && adopt(k, w, &s);
	}
	workload_free(&s);
	return any;
}

void run_shrink(struct trial *t, const struct starts *st, struct workload *w,
		const struct run_options *o, double seconds, char *why, size_t len)
{
	struct shrinker k = {t, st, o, crash_clock_real() + seconds, why, len};
	bool any = true;
	w->random = false;
	shrink_judged(&k, w);
	while (any && crash_clock_real() < k.until) {
		any = shrink_ops(&k, w);
		for (unsigned i = 0; i < w->n; i++) {
			any |= shrink_number(&k, w, i, offsetof(struct op, len));
			any |= shrink_number(&k, w, i, offsetof(struct op, off));
		}
		any |= shrink_settings(&k, w);
	}
}

/* ---- replay files
 * ------------------------------------------------------------------------------ */

static const char *const model_words[] = {"strict", "line", "adversarial"};

void replay_write(FILE *out, const struct workload *w, const struct run_options *o,
		  const char *why)
{
	fprintf(out, "# %s\n", w->name);
	for (const char *p = why; *p;) {
		size_t n = strcspn(p, "\n");
		fprintf(out, "# %.*s\n", (int)n, p);
		p += n + (p[n] == '\n');
	}
	fprintf(out,
		"model %s\nfsck %llu\nlimit %llu\npairs %u\nrandom %u\ndepth %u\nnested "
		"%llu\nalike "
		"%llu\nchecks %d\nseed %llu\n",
		model_words[o->model], (unsigned long long)o->fsck_every,
		(unsigned long long)o->limit, o->pairs, o->random, o->depth,
		(unsigned long long)o->nested_limit, (unsigned long long)o->alike, o->checks,
		(unsigned long long)o->seed);
	workload_print(w, out);
}

static int set_number(struct run_options *o, const char *key, uint64_t v)
{
	if (!strcmp(key, "limit"))
		o->limit = v;
	else if (!strcmp(key, "depth") && v >= 1 && v <= EXPLORE_DEPTH)
		o->depth = (unsigned)v;
	else if (!strcmp(key, "nested"))
		o->nested_limit = v;
	else if (!strcmp(key, "checks") && v <= CHECK_USE)
		o->checks = (enum trial_checks)v;
	else if (!strcmp(key, "fsck"))
		o->fsck_every = v;
	else if (!strcmp(key, "pairs"))
		o->pairs = (unsigned)v;
	else if (!strcmp(key, "random"))
		o->random = (unsigned)v;
	else if (!strcmp(key, "alike"))
		o->alike = v;
	else if (!strcmp(key, "seed"))
		o->seed = v;
	else
		return -EINVAL;
	return 0;
}

static int read_setting(struct workload *w, struct run_options *o, const char *line)
{
	char key[32] = "", value[64] = "";
	int n = sscanf(line, "%31s %63s", key, value);
	if (!strcmp(key, "format") || !strcmp(key, "unmount")) {
		*(key[0] == 'f' ? &w->format : &w->unmount) = true;
		return 0;
	}
	if (n != 2)
		return -EINVAL;
	for (unsigned i = 0; i < STARTS && !strcmp(key, "start"); i++) {
		if (!strcmp(value, start_names[i])) {
			w->start = (enum start_kind)i;
			return 0;
		}
	}
	for (unsigned i = 0; i < 3 && !strcmp(key, "model"); i++) {
		if (!strcmp(value, model_words[i])) {
			o->model = (enum persist_model)i;
			return 0;
		}
	}
	if (!strcmp(key, "order")) {
		w->seed = strtoull(value, NULL, 0);
		return 0;
	}
	return set_number(o, key, strtoull(value, NULL, 0));
}

int replay_read(FILE *in, struct workload *w, struct run_options *o, unsigned *ret_line)
{
	char line[OP_LINE_MAX + 8];
	int r = 0;
	workload_clear(w);
	snprintf(w->name, sizeof(w->name), "replay");
	for (*ret_line = 1; r == 0 && fgets(line, sizeof(line), in); ++*ret_line) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '#' || line[0] == '\0')
			continue;
		if (strchr("!.&", line[0])) {
			struct work_op *op = workload_add(w, line[0] == '.');
			op->pair = line[0] == '&';
			r = op_parse(line + 1, &op->op);
		} else {
			r = read_setting(w, o, line);
		}
	}
	--*ret_line;
	return r;
}
