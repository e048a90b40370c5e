/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seed images: empty; used and unmounted; used and left by a crash; left by a crash between a
 * journal's commit and what it describes; with replicas, used and unmounted. Which lines hold
 * metadata the media's hook says: those that were stored to in pieces of less than a block; and
 * the superblocks, the heads of all slots, the saved free list.
 */
#include <errno.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs.h"
#include "fuzz.h"

#define LINES (FUZZ_SIZE / 64)

static struct {
	struct media *m;
	struct pmemfs *fs;
	uint8_t *image;
	bool seen[LINES];
	uint64_t twin[LINES]; /* byte offset of the line in the other copy */
	unsigned fences;      /* until the image is frozen; 0: it is not going to be */
	int frozen;
} made;

static int copy_image(void)
{
	int fd = memfd_create("pmemfs-fuzz", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, FUZZ_SIZE) ||
	    pwrite(fd, made.image, FUZZ_SIZE, 0) != (ssize_t)FUZZ_SIZE)
		abort();
	return fd;
}

static void hook(void *arg, enum media_event ev, uint64_t off, const void *bytes, size_t len)
{
	if (ev == MEDIA_EV_FENCE && made.fences && !--made.fences)
		made.frozen = copy_image();
	if (ev == MEDIA_EV_FENCE || ev == MEDIA_EV_FLUSH || len >= PMEMFS_BLOCK_SIZE)
		return;
	for (uint64_t line = off / 64; line <= (off + len - 1) / 64; line++)
		made.seen[line] = true;
}

#define MUST(call)                                                                    \
	do {                                                                          \
		int64_t r_ = (call);                                                  \
		if (r_ < 0) {                                                         \
			fprintf(stderr, "fuzz: %s: %s\n", #call, strerror(-(int)r_)); \
			abort();                                                      \
		}                                                                     \
	} while (0)

static uint64_t make(uint64_t dir, const char *name, uint32_t mode, const char *target)
{
	const struct pmemfs_cred cred = {0, 0};
	struct pmemfs_attr a;

	MUST(pmemfs_make(made.fs, dir, name, mode, 1, 2, target, &cred, &a));
	return a.ino;
}

static void fill(uint64_t ino, uint64_t off, size_t len)
{
	char *buf = malloc(len);

	memset(buf, 'x', len);
	MUST(pmemfs_write(made.fs, ino, off, buf, len, 0));
	free(buf);
}

/* A little of everything that a log can say. */
static void use(void)
{
	uint64_t d = make(1, "dir", S_IFDIR | 0755, NULL), f, g;
	char name[32];

	f = make(1, "file", S_IFREG | 0644, NULL);
	fill(f, 0, 100);
	fill(f, 8192, 10000);
	fill(f, 40000, 50);
	MUST(pmemfs_setxattr(made.fs, f, "user.a", "value", 5, 0));
	MUST(pmemfs_fallocate(made.fs, f, FALLOC_FL_KEEP_SIZE, 100000, 20000));
	MUST(pmemfs_fallocate(made.fs, f, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 9000,
			      5000));
	g = make(d, "long", S_IFREG | 0600, NULL);
	for (unsigned k = 0; k < 40; k++)
		fill(g, (uint64_t)(k * 7 % 40) * 4096, 4096);
	for (unsigned k = 0; k < 30; k++) {
		snprintf(name, sizeof(name), "entry %u", k);
		pmemfs_forget(made.fs, make(d, name, S_IFREG | 0644, NULL), 1);
		if (k % 3 == 0)
			MUST(pmemfs_unlink(made.fs, d, name));
	}
	pmemfs_forget(made.fs, make(1, "link", S_IFLNK | 0777, "dir/long"), 1);
	pmemfs_forget(made.fs, make(1, "dev", S_IFCHR | 0600, NULL), 1);
	pmemfs_forget(made.fs, make(d, "sub", S_IFDIR | 0700, NULL), 1);
	MUST(pmemfs_link(made.fs, f, d, "other", &(struct pmemfs_attr){0}));
	pmemfs_forget(made.fs, f, 1);
	MUST(pmemfs_rename(made.fs, d, "entry 1", 1, "moved", 0));
	MUST(pmemfs_quota_on(made.fs));
	for (uint32_t k = 0; k < 150; k++)
		MUST(pmemfs_quota_set(
		    made.fs,
		    &(struct pmemfs_quota){.kind = 1 + k % 2, .id = 1 + k, .block_limit = 1000},
		    PMEMFS_QUOTA_BLOCKS));
	pmemfs_forget(made.fs, f, 1);
	pmemfs_forget(made.fs, g, 1);
	pmemfs_forget(made.fs, d, 1);
}

static void note_slot(struct fuzz_seed *s, uint64_t ino, uint64_t off)
{
	s->slot = realloc(s->slot, (s->slots + 1) * sizeof(s->slot[0]));
	s->slot[s->slots++] = (struct fuzz_slot){ino, off};
}

static void note_slots(struct fuzz_seed *s)
{
	uint64_t off;

	for (unsigned k = 0; k < made.fs->shards; k++)
		note_slot(s, PMEMFS_INO_TABLE | k, super_table_slot(&made.fs->sb, k));
	note_slot(s, PMEMFS_INO_QUOTA, super_quota_slot(&made.fs->sb));
	for (uint64_t ino = 1; ino < 200; ino++)
		if (!itable_find(made.fs, ino, &off))
			note_slot(s, ino, off);
}

/* [off, off + len) has a copy `mirror` bytes on. */
static void note_twin(uint64_t off, uint64_t len, uint64_t mirror)
{
	for (uint64_t at = off; mirror && at < off + len; at += 64) {
		made.twin[at / 64] = at + mirror;
		made.twin[(at + mirror) / 64] = at;
	}
}

static void note_twins(const struct fuzz_seed *s)
{
	const struct pmemfs_options o = {.recovery_threads = 1, .readonly = true};
	enum log_end end;
	struct media *m;
	const char *why;
	struct pmemfs *fs;

	MUST(media_open_memory(made.image, FUZZ_SIZE, MEDIA_SHADOW, &m));
	MUST(pmemfs_mount(m, &o, &fs, &why));
	for (size_t k = 0; k < s->slots; k++) {
		struct inode *i = inode_new(s->slot[k].ino, s->slot[k].off);

		note_twin(i->slot, PMEMFS_SLOT_SIZE, fs->mirror);
		if (!inode_read(fs, i, true, &end))
			for (uint32_t n = 0; n < i->log.nseg; n++)
				note_twin(i->log.seg[n].block * PMEMFS_BLOCK_SIZE,
					  seg_bytes(fs, i->log.seg[n].blocks),
					  seg_mirror(fs, i->log.seg[n].blocks));
		inode_delete(i);
	}
	pmemfs_abandon(fs);
	media_close(m);
}

static void see_block(uint64_t block)
{
	const uint8_t *p = made.image + block * PMEMFS_BLOCK_SIZE;

	for (unsigned at = 0; at < PMEMFS_BLOCK_SIZE; at += 64)
		if (p[at] || memcmp(p + at, p + at + 1, 63))
			made.seen[block * (PMEMFS_BLOCK_SIZE / 64) + at / 64] = true;
}

static void note_lines(struct fuzz_seed *s)
{
	const struct pmemfs_super *sb = (const void *)made.image;

	see_block(PMEMFS_SB_BLOCK);
	see_block(PMEMFS_SB_REPLICA);
	if (get64(sb->saved_list))
		see_block(get64(sb->saved_list));
	for (size_t k = 0; k < s->slots; k++) /* those of free slots too */
		made.seen[s->slot[k].off / 64] = true;
	for (uint64_t line = 0; line < LINES; line++) {
		if (!made.seen[line])
			continue;
		s->line = realloc(s->line, (s->lines + 1) * sizeof(s->line[0]));
		s->twin = realloc(s->twin, (s->lines + 1) * sizeof(s->twin[0]));
		s->twin[s->lines] = made.twin[line];
		s->line[s->lines++] = line * 64;
	}
}

static void mount_it(void)
{
	const struct pmemfs_options o = {.recovery_threads = 1};
	const char *why = "";

	MUST(pmemfs_mount(made.m, &o, &made.fs, &why));
}

static void make_seed(struct fuzz_seed *s, unsigned number)
{
	static const char *const names[FUZZ_SEEDS] = {"empty", "unmounted", "crashed",
						      "journal", "replica"};
	const struct pmemfs_format_options format = {
	    .shards = 2, .now = 1, .seed = 1, .replica = number == 4};

	memset(&made, 0, sizeof(made));
	made.image =
	    mmap(NULL, FUZZ_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (made.image == MAP_FAILED)
		abort();
	MUST(media_open_memory(made.image, FUZZ_SIZE, 0, &made.m));
	media_set_hook(made.m, hook, NULL);
	MUST(pmemfs_format(made.m, &format));
	mount_it();
	if (number)
		use();
	note_slots(s);
	if (number == 3) {
		made.fences = 2; /* of a rename: the journal is committed with the first */
		MUST(pmemfs_rename(made.fs, 1, "moved", 1, "again", 0));
	}
	if (number < 2 || number == 4)
		MUST(pmemfs_unmount(made.fs));
	else
		pmemfs_abandon(made.fs);
	if (number == 4)
		note_twins(s);
	note_lines(s);
	s->name = names[number];
	s->fd = made.frozen ? made.frozen : copy_image();
	media_close(made.m);
	munmap(made.image, FUZZ_SIZE);
}

const struct fuzz_seed *fuzz_seeds(void)
{
	static struct fuzz_seed seeds[FUZZ_SEEDS];

	if (!seeds[0].lines)
		for (unsigned k = 0; k < FUZZ_SEEDS; k++)
			make_seed(&seeds[k], k);
	return seeds;
}
