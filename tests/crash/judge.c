/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The judge of a crash state: fsck -n of the raw image is clean; it mounts, without a reported
 * error; its tree is legal; fsck -n is clean again; every directory can be used; a clean
 * remount shows the same tree; everything can be deleted, and then all space is free.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "trial.h"
#include "view.h"

void memo_set(struct memo *m, struct model *model)
{
	model_free(m->model);
	*m = (struct memo){.model = model};
}

bool memo_has(const struct memo *m, uint64_t digest)
{
	for (unsigned i = 0; i < m->n; i++) {
		if (m->digest[i] == digest)
			return true;
	}
	return false;
}

void memo_add(struct memo *m, uint64_t digest)
{
	m->digest[m->next] = digest;
	m->next = (m->next + 1) % (sizeof(m->digest) / sizeof(m->digest[0]));
	if (m->n < sizeof(m->digest) / sizeof(m->digest[0]))
		m->n++;
}

/* What stands for the tree of an image that does not mount. */
#define DIGEST_NONE 0x6e6f6e65u

bool trial_legal(void *arg, uint64_t digest, bool inside)
{
	const struct trial *t = arg;
	if (digest == DIGEST_NONE)
		return t->formatting && inside;
	if (memo_has(&t->after, digest))
		return true;
	for (unsigned i = 0; i < t->alts && inside; i++) {
		if (!(t->alt[i].forbidden & t->x.returned) && memo_has(&t->alt[i].memo, digest))
			return true;
	}
	return inside && !t->alts && memo_has(&t->before, digest);
}

static int bad(struct crash_state *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int bad(struct crash_state *s, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	vsnprintf(s->why, sizeof(s->why), format, ap);
	va_end(ap);
	return -1;
}

/* ---- mounting ---------------------------------------------------------------------------- */

static void report(void *arg, int level, const char *message)
{
	struct trial *t = arg;
	if (level == 0 && !t->report[0])
		snprintf(t->report, sizeof(t->report), "%s", message);
}

static int mount_quiet(struct trial *t, struct media *m, struct pmemfs **ret, const char **why)
{
	struct pmemfs_options o = {
	    .recovery_threads = 1,
	    .report = report,
	    .report_arg = t,
	};
	t->report[0] = '\0';
	return pmemfs_mount(m, &o, ret, why);
}

int trial_mount(struct trial *t, struct media *m, struct pmemfs **ret, char *why, size_t len)
{
	const char *said = "";
	int r = mount_quiet(t, m, ret, &said);
	if (r) {
		snprintf(why, len, "it does not mount: %s (%s)", strerror(-r), said);
		return -1;
	}
	if (!t->report[0] && !pmemfs_is_readonly(*ret))
		return 0;
	snprintf(why, len, "mounting reported damage: %s%s", t->report,
		 pmemfs_is_readonly(*ret) ? " (read-only)" : "");
	pmemfs_abandon(*ret);
	*ret = NULL;
	return -1;
}

/* ---- fsck ----------------------------------------------------------------------------------
 */

/* Numbers of fsck's problems, which are never changed. */
#define FSCK_SB_PRIMARY 101
#define FSCK_SB_REPLICA 102

struct fsck {
	struct crash_state *s;
	bool raw; /* the image was not recovered yet */
	uint64_t excused;
};

/* Until the next mount, one copy of the superblock may be torn: there are two for that. */
static bool fsck_excuses(const struct fsck *f, unsigned code)
{
	return f->raw && (code == FSCK_SB_PRIMARY || code == FSCK_SB_REPLICA);
}

static bool fsck_problem(void *arg, unsigned code, const char *message, bool fixable)
{
	struct fsck *f = arg;
	(void)fixable;
	if (fsck_excuses(f, code))
		f->excused++;
	else if (!f->s->why[0])
		bad(f->s, "fsck -n finds %u: %s", code, message);
	return false;
}

/* fsck -y of the image itself. */
static int fsck_repair(struct crash_state *s)
{
	struct pmemfs_check_result res;
	struct pmemfs_check_options o = {.fix = PMEMFS_FIX_ALL, .force = true};
	int r = pmemfs_check(s->media, &o, &res);
	if (r)
		return bad(s, "fsck -y failed: %s", strerror(-r));
	if (res.problems != res.fixed)
		return bad(s, "fsck -y found %llu problems and repaired %llu",
			   (unsigned long long)res.problems, (unsigned long long)res.fixed);
	return 0;
}

/* fsck -n of the image as it is, on shadow pages. */
static int fsck_clean(struct crash_state *s, bool raw, const char *when,
		      struct pmemfs_check_result *ret)
{
	struct fsck f = {.s = s, .raw = raw};
	struct pmemfs_check_options o = {
	    .fix = PMEMFS_FIX_NONE,
	    .force = true,
	    .problem = fsck_problem,
	    .arg = &f,
	};
	struct media *m;
	int r = media_open_memory(s->image->mem, s->image->size, MEDIA_SHADOW, &m);
	if (r)
		return bad(s, "no memory for fsck");
	r = pmemfs_check(m, &o, ret);
	media_close(m);
	if (r)
		return bad(s, "fsck -n %s failed: %s", when, strerror(-r));
	if (s->why[0] || ret->problems > f.excused) {
		size_t n = strlen(s->why);
		snprintf(s->why + n, sizeof(s->why) - n, " (%s)", when);
		return -1;
	}
	return 0;
}

/* ---- the tree
 * -------------------------------------------------------------------------------- */

static int view_take(struct trial *t, struct crash_state *s, struct pmemfs *fs, struct view *v)
{
	struct view_options o = {.full_read = 256 << 10};
	if (t->crash_driver)
		drive_core_set(t->crash_driver, fs);
	else
		t->crash_driver = drive_core_new(fs);
	int r = drive_view(t->crash_driver, &o, v);
	if (r)
		return bad(s, "the tree cannot be read: %s", strerror(-r));
	if (v->problem) {
		bad(s, "the tree contradicts itself: %s", v->problem);
		view_clear(v);
		return -1;
	}
	return 0;
}

static bool is_model(struct memo *m, struct crash_state *s, const struct view *v, char *why,
		     size_t len)
{
	if (!m->model || !model_compare(m->model, v, MODEL_CMP_BLOCKS, why, len))
		return false;
	memo_add(m, s->digest);
	return true;
}

/* Of two concurrent operations: one, the other, both or none, as far as they returned. */
static int compare_pair(struct trial *t, struct crash_state *s, const struct view *v)
{
	char why[1024] = "";
	for (unsigned i = 0; i < t->alts; i++) {
		if (!(t->alt[i].forbidden & t->x.returned) &&
		    is_model(&t->alt[i].memo, s, v, why, sizeof(why)))
			return 0;
	}
	return bad(
	    s,
	    "the tree is none that some order of the two operations (returned: %s%s) gives; "
	    "the last one: %s",
	    t->x.returned & 1 ? "first " : "", t->x.returned & 2 ? "second" : "", why);
}

/* Is the tree one of the legal ones? */
static int compare(struct trial *t, struct crash_state *s, const struct view *v)
{
	char why_after[1024] = "", why_before[1024] = "";
	s->digest = view_digest(v, true);
	if (trial_legal(t, s->digest, s->inside))
		return 0;
	if (is_model(&t->after, s, v, why_after, sizeof(why_after)))
		return 0;
	if (!s->inside)
		return bad(s,
			   "the operation had returned, but the tree is not the one after "
			   "it: %s",
			   why_after);
	if (t->alts)
		return compare_pair(t, s, v);
	if (is_model(&t->before, s, v, why_before, sizeof(why_before)))
		return 0;
	return bad(s,
		   "the tree is neither the one before the operation (%s) nor the one after it "
		   "(%s)",
		   why_before, why_after);
}

/* ---- using it
 * ---------------------------------------------------------------------------------- */

#define PROBE	"\x01probe"
#define PROBE_2 "\x01probe2"
#define PROBE_3 "\x01probe3"

struct use {
	struct trial *t;
	struct crash_state *s;
	struct pmemfs *fs;
	bool full;
};

/* On a full filesystem -ENOSPC is an answer too. */
static int use_failed(const struct use *u, const char *what, uint64_t dir, int64_t r)
{
	if (r >= 0)
		return 0;
	if (u->full && r == -ENOSPC)
		return 1;
	return bad(u->s, "after recovery, in directory inode %llu, %s fails: %s",
		   (unsigned long long)dir, what, strerror((int)-r));
}

static int use_file(const struct use *u, uint64_t dir, uint64_t ino)
{
	static uint8_t out[5000], in[5000];
	int r;
	op_fill(77, out, sizeof(out));
	int64_t n = pmemfs_write(u->fs, ino, 0, out, sizeof(out), 0);
	if ((r = use_failed(u, "writing", dir, n)))
		return r < 0 ? -1 : 0;
	n = pmemfs_read(u->fs, ino, 0, in, sizeof(in));
	if (n != sizeof(in) || memcmp(in, out, sizeof(in)) != 0)
		return bad(u->s, "after recovery, a new file reads back other bytes");
	return 0;
}

/* Creates, writes, links, renames and removes in the directory; leaves nothing there. */
static int use_directory(const struct use *u, uint64_t dir)
{
	struct pmemfs_cred cred = {0, 0};
	struct pmemfs_attr a, b;
	int r = pmemfs_make(u->fs, dir, PROBE, S_IFREG | 0644, 0, 0, NULL, &cred, &a);
	if ((r = use_failed(u, "creating a file", dir, r)))
		return r < 0 ? -1 : 0;
	if (use_file(u, dir, a.ino))
		return -1;
	r = pmemfs_link(u->fs, a.ino, dir, PROBE_2, &b);
	if ((r = use_failed(u, "linking", dir, r)) < 0)
		return -1;
	bool linked = r == 0;
	pmemfs_forget(u->fs, a.ino, 1 + linked);
	r = pmemfs_rename(u->fs, dir, PROBE, dir, PROBE_3, 0);
	if ((r = use_failed(u, "renaming", dir, r)) < 0)
		return -1;
	r = pmemfs_unlink(u->fs, dir, r ? PROBE : PROBE_3);
	if (r == 0 && linked)
		r = pmemfs_unlink(u->fs, dir, PROBE_2);
	if (r)
		return bad(u->s, "after recovery, unlinking fails: %s", strerror(-r));
	r = pmemfs_make(u->fs, dir, PROBE, S_IFDIR | 0755, 0, 0, NULL, &cred, &a);
	if ((r = use_failed(u, "making a directory", dir, r)))
		return r < 0 ? -1 : 0;
	pmemfs_forget(u->fs, a.ino, 1);
	r = pmemfs_rmdir(u->fs, dir, PROBE);
	return r ? bad(u->s, "after recovery, rmdir fails: %s", strerror(-r)) : 0;
}

static int use_all(const struct use *u, const struct view *v)
{
	for (size_t i = 0; i < v->n_inodes; i++) {
		if (S_ISDIR(v->inodes[i].mode) && use_directory(u, v->inodes[i].ino))
			return -1;
	}
	return 0;
}

static int delete_below(const struct use *u, const struct view *v, size_t dir)
{
	const struct view_inode *d = &v->inodes[dir];
	for (size_t i = 0; i < d->n_dents; i++) {
		const struct view_inode *c = &v->inodes[d->dents[i].inode];
		bool is_dir = S_ISDIR(c->mode);
		if (is_dir && delete_below(u, v, d->dents[i].inode))
			return -1;
		int r = is_dir ? pmemfs_rmdir(u->fs, d->ino, d->dents[i].name)
			       : pmemfs_unlink(u->fs, d->ino, d->dents[i].name);
		if (r)
			return bad(u->s, "after recovery, %s cannot be removed: %s",
				   d->dents[i].name, strerror(-r));
	}
	return 0;
}

/* Writes a file until there is no space, and deletes it. */
static int fill(const struct use *u)
{
	struct pmemfs_cred cred = {0, 0};
	struct pmemfs_attr a;
	static uint8_t buf[1 << 18];
	uint64_t off = 0;
	int64_t n;
	int r = pmemfs_make(u->fs, 1, PROBE, S_IFREG | 0644, 0, 0, NULL, &cred, &a);
	if ((r = use_failed(u, "creating a file", 1, r)))
		return r < 0 ? -1 : 0;
	for (size_t size = sizeof(buf); size >= 512;) {
		n = pmemfs_write(u->fs, a.ino, off, buf, size, 0);
		if (n == -ENOSPC)
			size /= 2;
		else if (n != (int64_t)size)
			return bad(u->s, "filling up: writing fails: %s", strerror((int)-n));
		else
			off += size;
	}
	pmemfs_forget(u->fs, a.ino, 1);
	r = pmemfs_unlink(u->fs, 1, PROBE);
	u->t->fills++;
	return r ? bad(u->s, "rm on a full filesystem fails: %s", strerror(-r)) : 0;
}

static int remount(const struct use *u, struct pmemfs **ret)
{
	struct pmemfs *fs = *ret;
	*ret = NULL;
	int r = pmemfs_unmount(fs);
	if (r)
		return bad(u->s, "the clean unmount fails: %s", strerror(-r));
	return trial_mount(u->t, u->s->media, ret, u->s->why, sizeof(u->s->why));
}

/* What is seen after use is v but for times; what a clean remount then shows is all the same.
 */
static int remount_same(struct use *u, struct pmemfs **fs, const struct view *v)
{
	struct view w;
	if (view_take(u->t, u->s, u->fs, &w))
		return -1;
	uint64_t used = view_digest(&w, true);
	bool same = view_digest(v, false) == view_digest(&w, false);
	view_clear(&w);
	if (!same)
		return bad(u->s,
			   "files and directories that were made and removed left traces");
	if (remount(u, fs))
		return -1;
	u->fs = *fs;
	if (view_take(u->t, u->s, u->fs, &w))
		return -1;
	same = used == view_digest(&w, true);
	view_clear(&w);
	return same ? 0 : bad(u->s, "a clean remount shows another tree");
}

/*
 * What stays when all is deleted is the root directory's log, of a few blocks. That no block is
 * lost otherwise says fsck, whose count of free blocks must be that of the mounted filesystem.
 */
#define ROOT_LOG_BLOCKS 4u

static int all_free(const struct use *u)
{
	struct pmemfs_statfs st;
	pmemfs_statfs(u->fs, &st);
	uint64_t fresh = u->t->start->fresh_free;
	if (st.bfree <= fresh && st.bfree + ROOT_LOG_BLOCKS >= fresh)
		return 0;
	return bad(u->s, "all was deleted, but %llu blocks are free, not %llu",
		   (unsigned long long)st.bfree, (unsigned long long)fresh);
}

static int use_and_delete(struct use *u, struct pmemfs **fs, const struct view *v)
{
	struct trial *t = u->t;
	struct pmemfs_check_result res;
	if (use_all(u, v))
		return -1;
	if (t->fill_every && u->s->hash % t->fill_every == 0 && fill(u))
		return -1;
	if (remount_same(u, fs, v) ||
	    fsck_clean(u->s, false, "after use and a clean remount", &res))
		return -1;
	if (delete_below(u, v, 0) || remount(u, fs))
		return -1;
	u->fs = *fs;
	return all_free(u);
}

/* ---- read-only ---- */

#define READONLY_EVERY 32u

/* A read-only mount of a medium that cannot be written: the digest of what it shows. */
static int judge_readonly(struct trial *t, struct crash_state *s, uint64_t *ret_digest)
{
	struct pmemfs_options o = {
	    .readonly = true, .recovery_threads = 1, .report = report, .report_arg = t};
	const char *why = "";
	struct media *m;
	struct pmemfs *fs;
	struct view v;
	if (media_open_memory(s->image->mem, s->image->size, MEDIA_SHADOW, &m))
		return bad(s, "no memory for a read-only mount");
	t->report[0] = '\0';
	int r = pmemfs_mount(m, &o, &fs, &why);
	if (r) {
		media_close(m);
		return bad(s, "it does not mount read-only: %s (%s)", strerror(-r), why);
	}
	r = view_take(t, s, fs, &v);
	if (r == 0) {
		*ret_digest = view_digest(&v, true);
		view_clear(&v);
	}
	if (r == 0 && t->report[0])
		r = bad(s, "mounting read-only reported damage: %s", t->report);
	pmemfs_abandon(fs);
	media_close(m);
	return r;
}

/* ---- the whole
 * --------------------------------------------------------------------------------- */

/* What an image under mkfs may be: one without a superblock. */
static int judge_unmountable(struct trial *t, struct crash_state *s, int r, const char *why)
{
	struct pmemfs_info info;
	const char *none;

	explore_recovered(s);
	s->digest = DIGEST_NONE;
	if (t->formatting && s->inside && pmemfs_probe(s->media, &info, &none))
		return 0;
	return bad(s, "it does not mount: %s (%s)", strerror(-r), why);
}

static int judge_mounted(struct trial *t, struct crash_state *s, struct pmemfs **fs)
{
	struct pmemfs_check_result res;
	struct pmemfs_statfs st;
	struct view v;
	if (t->report[0] || pmemfs_is_readonly(*fs))
		return bad(s, "mounting reported damage: %s", t->report);
	if (view_take(t, s, *fs, &v))
		return -1;
	pmemfs_statfs(*fs, &st); /* giving inodes back may have tidied their logs */
	int r = compare(t, s, &v);
	bool rest = r == 0 && !s->known && t->checks >= CHECK_FSCK;
	if (rest)
		r = fsck_clean(s, false, "after recovery", &res);
	if (r == 0 && rest && res.free_blocks != st.bfree)
		r = bad(s, "statfs says %llu blocks are free, fsck %llu",
			(unsigned long long)st.bfree, (unsigned long long)res.free_blocks);
	if (r == 0 && st.files - st.ffree != v.n_inodes)
		r = bad(s, "statfs says %llu inodes are used, but %zu can be seen",
			(unsigned long long)(st.files - st.ffree), v.n_inodes);
	struct use u = {t, s, *fs, t->start->full};
	if (r == 0 && rest && t->checks >= CHECK_USE)
		r = use_and_delete(&u, fs, &v);
	view_clear(&v);
	if (r == 0 && t->report[0])
		r = bad(s, "using it reported damage: %s", t->report);
	return r;
}

/* Keeps the image as the crash left it. */
static bool capture_image(struct trial *t, struct crash_state *s)
{
	if (!t->capture || t->capture_left == 0 || --t->capture_left > 0)
		return false;
	t->capture->fd = image_start_copy(s->image);
	t->capture->hash = s->hash;
	return t->capture->fd >= 0;
}

static void capture_model(struct trial *t, const struct crash_state *s)
{
	const struct memo *m = memo_has(&t->after, s->digest) ? &t->after : &t->before;
	t->capture->model = model_clone(m->model);
}

int trial_judge(void *arg, struct crash_state *s)
{
	struct trial *t = arg;
	struct pmemfs_check_result raw = {0};
	struct pmemfs *fs = NULL;
	const char *why = "";
	struct timespec then = crash_clock();
	bool fsck = !s->known && t->checks >= CHECK_FSCK && !(t->formatting && s->inside);
	uint64_t shown = 0;
	bool captured = capture_image(t, s);
	int r = 0;
	/* Nothing that recovery does may look like the time of an operation. */
	crash_clock_set(CRASH_EPOCH + 1000000, 5);
	if (fsck)
		r = fsck_clean(s, true, "of the crashed image", &raw);
	bool readonly = fsck && s->hash % READONLY_EVERY == 0;
	if (r == 0 && readonly)
		r = judge_readonly(t, s, &shown);
	if (r)
		goto out;
	if (s->by_fsck && !(t->formatting && s->inside)) {
		r = fsck_repair(s);
		explore_recovered(s);
	}
	if (r)
		goto out;
	r = mount_quiet(t, s->media, &fs, &why);
	if (r) {
		fs = NULL;
		r = judge_unmountable(t, s, r, why);
		goto out;
	}
	explore_recovered(s);
	r = judge_mounted(t, s, &fs);
	if (r == 0 && readonly && shown != s->digest)
		r = bad(s, "mounted read-only it showed another tree than mounted");
	if (r == 0 && captured)
		capture_model(t, s);
out:
	if (fs)
		pmemfs_abandon(fs);
	crash_clock_set(then.tv_sec, then.tv_nsec);
	return r;
}
