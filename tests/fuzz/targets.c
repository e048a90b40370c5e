/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is tried with an image. Whatever it holds, nothing may crash, hang, or read or store
 * outside of it, and what fsck says it has repaired must stand a second look.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "fs.h"
#include "fuzz.h"

#define DEPTH	4  /* of directories: a damaged one may contain itself */
#define ENTRIES 64 /* looked at in each */

static struct media *open_media(uint8_t *image, unsigned flags)
{
	struct media *m;

	if (media_open_memory(image, FUZZ_SIZE, flags, &m))
		abort();
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
	static char buf[32768];
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
		pmemfs_getxattr(fs, ino, buf + at, NULL, 0);
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

static void mount_and_walk(uint8_t *image)
{
	struct media *m = open_media(image, 0);
	struct pmemfs *fs = mount_image(m);

	if (fs) {
		walk(fs, PMEMFS_ROOT_INO, DEPTH);
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

static void mount_and_change(uint8_t *image)
{
	struct media *m = open_media(image, 0);
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

/* ---- fsck ---- */

static bool quiet(void *arg, unsigned code, const char *message, bool fixable)
{
	return true;
}

static void check(uint8_t *image)
{
	const struct pmemfs_check_options o = {.force = true, .problem = quiet};
	struct media *m = open_media(image, MEDIA_SHADOW);
	struct pmemfs_check_result r = {0};

	pmemfs_check(m, &o, &r);
	media_close(m);
}

static int repair_once(uint8_t *image, struct pmemfs_check_result *r)
{
	const struct pmemfs_check_options o = {
	    .fix = PMEMFS_FIX_ALL, .force = true, .problem = quiet};
	struct media *m = open_media(image, 0);
	int err;

	*r = (struct pmemfs_check_result){0};
	err = pmemfs_check(m, &o, r);
	media_close(m);
	return err;
}

/* After two runs there is nothing that a third would repair. */
static void repair(uint8_t *image)
{
	struct pmemfs_check_result r;

	for (unsigned k = 0; k < 3; k++)
		if (repair_once(image, &r))
			break;
	if (r.fixed) {
		fprintf(stderr, "the third fsck -y still repairs\n");
		abort();
	}
	mount_and_walk(image);
}

const struct fuzz_target fuzz_targets[] = {
    {"walk", mount_and_walk},
    {"change", mount_and_change},
    {"check", check},
    {"repair", repair},
    {NULL},
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
	const struct fuzz_seed *seeds = fuzz_seeds();
	static uint8_t *image[FUZZ_SEEDS];
	uint8_t **at;

	if (!size)
		return;
	at = &image[data[0] % FUZZ_SEEDS];
	if (!*at)
		*at = mmap(NULL, FUZZ_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE,
			   seeds[data[0] % FUZZ_SEEDS].fd, 0);
	if (*at == MAP_FAILED)
		abort();
	fuzz_edit(seeds, data, size, *at);
	t->run(*at);
	madvise(*at, FUZZ_SIZE, MADV_DONTNEED); /* the seed again */
}
