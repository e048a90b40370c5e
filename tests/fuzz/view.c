/* SPDX-License-Identifier: BSD-3-Clause */
/* What a reader of everything gets from an image, and what fsck says of it. */
#include "view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs.h"
#include "fuzz.h"

static void add(struct view *v, const void *p, size_t len)
{
	v->digest = hash64(p, len, v->digest);
}

static void add_number(struct view *v, int64_t n)
{
	v->errors += n == -EIO;
	add(v, &n, sizeof(n));
}

struct names {
	struct view *v;
	struct {
		char name[PMEMFS_NAME_MAX + 1];
		uint64_t ino;
		bool dir;
	} list[64];
	unsigned n;
};

static int name_found(void *arg, const char *name, const struct pmemfs_attr *a, uint64_t cookie)
{
	struct names *l = arg;

	add(l->v, name, strlen(name));
	add_number(l->v, (int64_t)cookie);
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return 0;
	if (!a->nlink) { /* its inode is damaged */
		l->v->errors++;
		return 0;
	}
	if (l->n < 64) {
		snprintf(l->list[l->n].name, sizeof(l->list[0].name), "%s", name);
		l->list[l->n].ino = a->ino;
		l->list[l->n++].dir = S_ISDIR(a->mode);
	}
	return 0;
}

static void view_inode(struct pmemfs *fs, uint64_t ino, struct view *v)
{
	static char buf[262144];
	struct pmemfs_attr a = {0};
	ssize_t n;
	int r = pmemfs_getattr(fs, ino, &a);

	add_number(v, r);
	if (r)
		return;
	add(v, &a, sizeof(a));
	if (S_ISREG(a.mode)) {
		n = pmemfs_read(fs, ino, 0, buf, sizeof(buf));
		add_number(v, n);
		add(v, buf, n > 0 ? (size_t)n : 0);
	}
	if (S_ISLNK(a.mode)) {
		n = pmemfs_readlink(fs, ino, buf, sizeof(buf));
		add_number(v, n);
		add(v, buf, n > 0 ? (size_t)n : 0);
	}
	n = pmemfs_listxattr(fs, ino, buf, 1000);
	add_number(v, n);
	for (char *x = buf; x < buf + n; x += strlen(x) + 1) {
		ssize_t len = pmemfs_getxattr(fs, ino, x, buf + 1000, 1000);

		add(v, x, strlen(x));
		add_number(v, len);
		add(v, buf + 1000, len > 0 ? (size_t)len : 0);
	}
}

static void view_dir(struct pmemfs *fs, uint64_t dir, unsigned depth, struct view *v)
{
	struct names *l = calloc(1, sizeof(*l));

	l->v = v;
	add_number(v, pmemfs_readdir(fs, dir, 0, PMEMFS_READDIR_PLUS, name_found, l));
	for (unsigned k = 0; k < l->n; k++) {
		view_inode(fs, l->list[k].ino, v);
		if (l->list[k].dir && depth)
			view_dir(fs, l->list[k].ino, depth - 1, v);
		pmemfs_forget(fs, l->list[k].ino, 1);
	}
	free(l);
}

static void said(void *arg, int level, const char *message)
{
	*(unsigned *)arg += level < 1; /* errors */
}

/* Mounted for reading, so that the image stays as it is. False: it does not mount. */
bool view_image(uint8_t *image, struct view *ret)
{
	unsigned reports = 0;
	const struct pmemfs_options o = {
	    .recovery_threads = 1, .readonly = true, .report = said, .report_arg = &reports};
	const char *why;
	struct media *m;
	struct pmemfs *fs;

	*ret = (struct view){0};
	if (media_open_memory(image, FUZZ_SIZE, MEDIA_SHADOW, &m))
		abort();
	if (pmemfs_mount(m, &o, &fs, &why)) {
		media_close(m);
		return false;
	}
	view_inode(fs, PMEMFS_ROOT_INO, ret);
	view_dir(fs, PMEMFS_ROOT_INO, 4, ret);
	pmemfs_abandon(fs);
	media_close(m);
	ret->errors += reports;
	return true;
}

static bool no_fix(void *arg, unsigned code, const char *message, bool fixable)
{
	return false;
}

bool view_fsck_finds(uint8_t *image)
{
	const struct pmemfs_check_options o = {.force = true, .problem = no_fix};
	struct pmemfs_check_result r = {0};
	struct media *m;
	int err;

	if (media_open_memory(image, FUZZ_SIZE, MEDIA_SHADOW, &m))
		abort();
	err = pmemfs_check(m, &o, &r);
	media_close(m);
	return err || r.problems;
}

bool view_fsck_repairs(uint8_t *image, media_hook hook, void *arg)
{
	const struct pmemfs_check_options o = {
	    .force = true, .fix = PMEMFS_FIX_ALL, .problem = no_fix};
	struct pmemfs_check_result r = {0};
	struct media *m;
	int err;

	if (media_open_memory(image, FUZZ_SIZE, 0, &m))
		abort();
	media_set_hook(m, hook, arg);
	err = pmemfs_check(m, &o, &r);
	media_close(m);
	return !err && r.problems == r.fixed;
}
