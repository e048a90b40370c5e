/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is tried with an image. Whatever it holds, nothing may crash, hang, or read or store
 * outside of it, and what fsck says it has repaired must stand a second look.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs.h"
#include "fuzz.h"
#include "view.h"

#define DEPTH	4  /* of directories: a damaged one may contain itself */
#define ENTRIES 64 /* looked at in each */

static void must(bool holds, const char *else_what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", else_what);
	abort();
}

static struct media *open_media(struct fuzz_image *i, unsigned flags)
{
	struct media *m;

	if (media_open_memory(i->at, FUZZ_SIZE, flags, &m))
		abort();
	if (!(flags & MEDIA_SHADOW))
		media_set_hook(m, fuzz_image_hook, i);
	return m;
}

static struct pmemfs *mount_image(struct media *m)
{
	const struct pmemfs_options o = {.recovery_threads = 1};
	const char *why;
	struct pmemfs *fs;

	return pmemfs_mount(m, &o, &fs, &why) ? NULL : fs;
}

/* ---- looking at all there is ---- */

struct found {
	struct {
		char name[PMEMFS_NAME_MAX + 1];
		uint64_t ino;
		uint32_t mode;
	} v[ENTRIES];
	unsigned n;
};

static int note(void *arg, const char *name, const struct pmemfs_attr *a, uint64_t cookie)
{
	struct found *f = arg;

	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return 0;
	if (f->n == ENTRIES)
		return 1;
	snprintf(f->v[f->n].name, sizeof(f->v[0].name), "%s", name);
	f->v[f->n].ino = a->nlink ? a->ino : 0;
	f->v[f->n++].mode = a->mode;
	return 0;
}

static void look_at_file(struct pmemfs *fs, uint64_t ino)
{
	static char buf[32768], value[65536];
	struct pmemfs_attr a;
	ssize_t n;

	pmemfs_getattr(fs, ino, &a);
	for (uint64_t off = 0; off < 200000; off += sizeof(buf)) {
		n = pmemfs_read(fs, ino, off, buf, sizeof(buf));
		if (n > (ssize_t)sizeof(buf))
			abort();
	}
	pmemfs_seek(fs, ino, 0, SEEK_HOLE);
	pmemfs_seek(fs, ino, 1, SEEK_DATA);
	n = pmemfs_listxattr(fs, ino, buf, sizeof(buf));
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(buf + at) + 1)
		pmemfs_getxattr(fs, ino, buf + at, value, sizeof(value));
	pmemfs_readlink(fs, ino, buf, sizeof(buf));
}

static void walk(struct pmemfs *fs, uint64_t dir, unsigned depth)
{
	struct found *f = calloc(1, sizeof(*f));

	pmemfs_readdir(fs, dir, 0, PMEMFS_READDIR_PLUS, note, f);
	for (unsigned k = 0; k < f->n; k++) {
		struct pmemfs_attr a;

		if (!pmemfs_lookup(fs, dir, f->v[k].name, &a))
			pmemfs_forget(fs, a.ino, 1);
		if (!f->v[k].ino)
			continue;
		if (S_ISDIR(f->v[k].mode) && depth)
			walk(fs, f->v[k].ino, depth - 1);
		look_at_file(fs, f->v[k].ino);
		pmemfs_forget(fs, f->v[k].ino, 1);
	}
	free(f);
}

/* What says something of all of it, and reads what nobody else does. */
static void look_at_all(struct pmemfs *fs)
{
	struct pmemfs_quota list[16];
	struct pmemfs_scrub s = {0};
	struct pmemfs_statfs st;

	pmemfs_statfs(fs, &st);
	pmemfs_quota_list(fs, 1, 0, list, 16);
	pmemfs_quota_list(fs, 2, 100, list, 16);
	for (unsigned k = 0; k < 1000 && pmemfs_scrub(fs, &s, 1 << 20) > 0; k++)
		;
}

static void probe(struct media *m)
{
	struct pmemfs_info info;
	const char *why;

	pmemfs_probe(m, &info, &why);
}

static void mount_and_walk(struct fuzz_image *i)
{
	struct media *m = open_media(i, 0);
	struct pmemfs *fs = mount_image(m);

	probe(m);
	if (fs) {
		walk(fs, PMEMFS_ROOT_INO, DEPTH);
		look_at_all(fs);
		pmemfs_unmount(fs);
	}
	media_close(m);
}

/* ---- changing it ---- */

static void change(struct pmemfs *fs, uint64_t dir, unsigned depth)
{
	static const char buf[9000];
	const struct pmemfs_cred cred = {1, 2};
	struct found *f = calloc(1, sizeof(*f));
	struct pmemfs_attr a = {.size = 5000};

	pmemfs_readdir(fs, dir, 0, PMEMFS_READDIR_PLUS, note, f);
	for (unsigned k = 0; k < f->n; k++) {
		uint64_t ino = f->v[k].ino;

		if (ino) {
			pmemfs_write(fs, ino, 100, buf, sizeof(buf), 0);
			pmemfs_write(fs, ino, 0, buf, 10, PMEMFS_WRITE_APPEND);
			pmemfs_fallocate(fs, ino, 0, 50000, 10000);
			pmemfs_setattr(fs, ino, PMEMFS_SET_SIZE | PMEMFS_SET_MODE, &a, NULL);
			pmemfs_setxattr(fs, ino, "user.b", buf, 300, 0);
			if (S_ISDIR(f->v[k].mode) && depth)
				change(fs, ino, depth - 1);
			pmemfs_forget(fs, ino, 1);
		}
		if (k % 3 == 0)
			pmemfs_unlink(fs, dir, f->v[k].name);
		else if (k % 3 == 1)
			pmemfs_rename(fs, dir, f->v[k].name, PMEMFS_ROOT_INO, "renamed", 0);
		pmemfs_rmdir(fs, dir, f->v[k].name);
	}
	if (!pmemfs_make(fs, dir, "new", S_IFREG | 0644, 0, 0, NULL, &cred, &a)) {
		pmemfs_write(fs, a.ino, 0, buf, sizeof(buf), 0);
		pmemfs_forget(fs, a.ino, 1);
	}
	free(f);
}

static void mount_and_change(struct fuzz_image *i)
{
	struct media *m = open_media(i, 0);
	struct pmemfs *fs = mount_image(m);

	if (fs) {
		change(fs, PMEMFS_ROOT_INO, DEPTH);
		pmemfs_unmount(fs);
		fs = mount_image(m);
	}
	if (fs) {
		walk(fs, PMEMFS_ROOT_INO, DEPTH);
		pmemfs_abandon(fs);
	}
	media_close(m);
}

/* ---- recovery ---- */

/* As a crash would have left it. */
static void forget_unmount(struct fuzz_image *i)
{
	static const uint64_t copies[] = {PMEMFS_SB_BLOCK, PMEMFS_SB_REPLICA};

	for (unsigned k = 0; k < 2; k++) {
		struct pmemfs_super *sb = (void *)(i->at + copies[k] * PMEMFS_BLOCK_SIZE);
		uint64_t sum = hash64(sb, offsetof(struct pmemfs_super, checksum), 0);

		fuzz_image_touch(i, copies[k] * PMEMFS_BLOCK_SIZE, sizeof(*sb));
		sb->state = put32(get32(sb->state) & ~PMEMFS_STATE_CLEAN);
		if (sum == get64(sb->checksum))
			sb->checksum =
			    put64(hash64(sb, offsetof(struct pmemfs_super, checksum), 0));
	}
}

static bool recover(struct fuzz_image *i)
{
	struct media *m = open_media(i, 0);
	struct pmemfs *fs = mount_image(m);
	bool whole = fs && !pmemfs_is_readonly(fs);

	if (fs)
		pmemfs_abandon(fs);
	media_close(m);
	return whole;
}

/* The journal and every log is read, what is torn mended. A second time changes nothing. */
static void replay(struct fuzz_image *i)
{
	struct view first, second;

	forget_unmount(i);
	if (!recover(i) || !view_image(i->at, &first))
		return;
	must(recover(i) && view_image(i->at, &second), "a second recovery fails");
	must(first.digest == second.digest, "a second recovery shows another tree");
}

/* ---- fsck ---- */

static bool quiet(void *arg, unsigned code, const char *message, bool fixable)
{
	return true;
}

/* What fsck finds nothing wrong with can be mounted and read. */
static void must_be_whole(struct fuzz_image *i)
{
	struct view v;

	must(view_image(i->at, &v), "fsck finds nothing, and it does not mount");
	must(!v.errors, "fsck finds nothing, and reading shows errors");
}

static void check(struct fuzz_image *i)
{
	const struct pmemfs_check_options o = {.force = true, .problem = quiet};
	struct media *m = open_media(i, MEDIA_SHADOW);
	struct pmemfs_check_result r = {0};
	int err = pmemfs_check(m, &o, &r);

	media_close(m);
	if (!err && !r.problems)
		must_be_whole(i);
}

static int repair_once(struct fuzz_image *i, struct pmemfs_check_result *r)
{
	const struct pmemfs_check_options o = {
	    .fix = PMEMFS_FIX_ALL, .force = true, .problem = quiet};
	struct media *m = open_media(i, 0);
	int err;

	*r = (struct pmemfs_check_result){0};
	err = pmemfs_check(m, &o, r);
	media_close(m);
	return err;
}

/* After two runs there is nothing that a third would repair. */
static void repair(struct fuzz_image *i)
{
	struct pmemfs_check_result r;
	int err = 0;

	for (unsigned k = 0; k < 3 && !err; k++)
		err = repair_once(i, &r);
	must(!r.fixed, "the third fsck -y still repairs");
	if (!err && !r.problems)
		must_be_whole(i);
	mount_and_walk(i);
}

/* ---- an image that changes meanwhile ---- */

/* fsck is not tried so: it has the device for itself, as the daemon has, but asks for more. */
static void use_changing(struct fuzz_image *i)
{
	struct media *m = open_media(i, 0);
	struct pmemfs *fs = mount_image(m);

	if (fs) {
		walk(fs, PMEMFS_ROOT_INO, 1);
		change(fs, PMEMFS_ROOT_INO, 0);
		pmemfs_unmount(fs);
	}
	media_close(m);
}

static void turn(struct fuzz_image *i)
{
	fuzz_turn_begin(i);
	use_changing(i);
	fuzz_turn_end();
}

static void race(struct fuzz_image *i)
{
	fuzz_race_begin(i);
	use_changing(i);
	fuzz_race_end();
}

const struct fuzz_target fuzz_targets[] = {
    {"walk", mount_and_walk}, {"change", mount_and_change},
    {"replay", replay},	      {"check", check},
    {"repair", repair},	      {"turn", turn},
    {"race", race},	      {NULL},
};

const struct fuzz_target *fuzz_target_find(const char *name)
{
	const struct fuzz_target *t = fuzz_targets;

	while (t->name && strcmp(t->name, name))
		t++;
	return t->name ? t : NULL;
}

void fuzz_one(const struct fuzz_target *t, const uint8_t *data, size_t size)
{
	static struct fuzz_image *image[FUZZ_SEEDS];
	unsigned n;

	if (!size)
		return;
	n = (data[0] & 0x7f) % FUZZ_SEEDS;
	if (!image[n])
		image[n] = fuzz_image_new(&fuzz_seeds()[n]);
	fuzz_edit(&fuzz_seeds()[n], data, size, image[n]);
	t->run(image[n]);
	fuzz_image_restore(image[n]);
}
