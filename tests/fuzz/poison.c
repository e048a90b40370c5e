/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every 512 bytes of an image that hold something, poisoned: reading them fails, storing
 * to them does not mend them. A mount shows the same tree, or errors, but never another
 * tree; every operation works, or fails with EIO or (once the daemon writes no more)
 * EROFS; fsck -n runs to its end. Once the poison is gone, fsck -y has nothing to give up,
 * unless it was met by writing.
 *
 * With replicas no poison in metadata that has a copy may be noticed by a reader or a
 * writer; with parity, none in file data.
 *
 *	poison [-n PIECES] [-s START] SEED|all
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs.h"
#include "fuzz.h"
#include "poison.h"
#include "view.h"

#define PIECE 512u

static uint64_t poison; /* where it is now, or was last */

/* ---- operations ---- */

static struct counts {
	uint64_t pieces, unread, refused, errors, failed, given_up, wrong;
} sum;

static void wrong(const char *what, int64_t r)
{
	sum.wrong++;
	printf("WRONG: poison at byte %" PRIu64 " (block %" PRIu64 "): %s (%s)\n", poison,
	       poison / PMEMFS_BLOCK_SIZE, what, r < 0 ? strerror((int)-r) : "");
}

/* False: the operation failed as it may. */
static bool worked(const char *what, int64_t r)
{
	if (r == -EIO || r == -EROFS)
		sum.failed++;
	else if (r < 0)
		wrong(what, r);
	return r >= 0;
}

#define DO(call) worked(#call, (call))

/* Everything that one can do with a name, in the root and in a directory. */
static void use_names(struct pmemfs *fs, uint64_t dir, const char *old)
{
	const struct pmemfs_cred root = {0, 0};
	struct pmemfs_attr a, b;

	if (DO(pmemfs_make(fs, dir, "new", S_IFREG | 0600, 0, 0, NULL, &root, &a))) {
		DO(pmemfs_write(fs, a.ino, 5000, "new", 3, 0));
		DO(pmemfs_link(fs, a.ino, dir, "another", &b));
		DO(pmemfs_setxattr(fs, a.ino, "user.n", "v", 1, 0));
		DO(pmemfs_rename(fs, dir, "new", 1, old[0] == 'f' ? "newer" : "moved up", 0));
		pmemfs_forget(fs, a.ino, 1);
	}
	if (!DO(pmemfs_lookup(fs, dir, old, &a)))
		return;
	if (S_ISREG(a.mode)) {
		/* What is written may come to lie on the poison, so it is not read again. */
		a.size = 50;
		DO(pmemfs_setattr(fs, a.ino, PMEMFS_SET_SIZE, &a, NULL));
		DO(pmemfs_write(fs, a.ino, 100, "changed", 7, 0));
	}
	pmemfs_forget(fs, a.ino, 1);
	DO(pmemfs_unlink(fs, dir, old));
}

static void use(uint8_t *image)
{
	struct pmemfs_attr a;
	struct media *m;
	struct pmemfs *fs;
	const char *why;

	if (media_open_memory(image, FUZZ_SIZE, 0, &m))
		abort();
	if (pmemfs_mount(m, NULL, &fs, &why)) {
		media_close(m);
		return;
	}
	use_names(fs, PMEMFS_ROOT_INO, "file");
	if (DO(pmemfs_lookup(fs, PMEMFS_ROOT_INO, "dir", &a))) {
		use_names(fs, a.ino, "long");
		pmemfs_forget(fs, a.ino, 1);
	}
	if (pmemfs_unmount(fs))
		sum.failed++;
	media_close(m);
}

/* ---- one piece ---- */

static uint8_t *map(const struct fuzz_seed *s)
{
	uint8_t *image = mmap(NULL, FUZZ_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, s->fd, 0);

	if (image == MAP_FAILED)
		abort();
	return image;
}

static void try_piece(const struct fuzz_seed *s, uint8_t *image, uint64_t off, bool twin,
		      const struct view *before)
{
	uint64_t failed = sum.failed;
	uint8_t *used;
	struct view v;
	bool mounts;

	sum.pieces++;
	poison_met = false;
	poison = off;
	poison_add(off, PIECE);
	poison_stays = true;
	mounts = view_image(image, &v);
	view_fsck_finds(image);
	sum.refused += !mounts;
	sum.errors += mounts && v.errors;
	if (mounts && !v.errors && v.digest != before->digest)
		wrong("another tree, and no error", 0);
	if (twin && (!mounts || v.errors))
		wrong("the other copy is good, and there are errors", 0);
	if (!poison_met) {
		sum.unread++;
		poison_end();
		return;
	}
	used = map(s);
	use(used);
	if (twin && sum.failed != failed)
		wrong("the other copy is good, and an operation failed", 0);
	poison_end();
	if (!view_fsck_repairs(used, NULL, NULL))
		sum.given_up++;
	else if (view_fsck_finds(used))
		wrong("fsck -y says that it mended all, and fsck -n finds more", 0);
	munmap(used, FUZZ_SIZE);
}

/* Is there metadata in the piece, and all of it in two copies? */
static bool has_twin(const struct fuzz_seed *s, uint64_t off)
{
	bool any = false, all = true;

	for (size_t k = 0; k < s->lines; k++) {
		if (s->line[k] < off || s->line[k] >= off + PIECE)
			continue;
		any = true;
		all &= s->twin[k] != 0;
	}
	return any && all;
}

static void try_seed(const struct fuzz_seed *s, uint64_t first, uint64_t pieces)
{
	uint8_t *image = map(s);
	struct view before;

	sum = (struct counts){0};
	if (!view_image(image, &before) || before.errors)
		abort();
	for (uint64_t off = first * PIECE; off < FUZZ_SIZE && off < (first + pieces) * PIECE;
	     off += PIECE)
		try_piece(s, image, off, has_twin(s, off), &before);
	munmap(image, FUZZ_SIZE);
	printf("%s: %" PRIu64 " pieces of %u bytes; nobody reads %" PRIu64
	       "; a mount is refused for %" PRIu64 ", shows errors for %" PRIu64 "; %" PRIu64
	       " operations failed; without the poison fsck -y gives something up in %" PRIu64
	       "; wrong: %" PRIu64 "\n",
	       s->name, sum.pieces, PIECE, sum.unread, sum.refused, sum.errors, sum.failed,
	       sum.given_up, sum.wrong);
}

int main(int argc, char **argv)
{
	const struct fuzz_seed *seeds = fuzz_seeds();
	uint64_t first = 0, pieces = FUZZ_SIZE / PIECE, bad = 0;
	bool any = false;
	int c;

	while ((c = getopt(argc, argv, "n:s:")) != -1) {
		if (c == 'n')
			pieces = strtoull(optarg, NULL, 0);
		else if (c == 's')
			first = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	if (optind != argc - 1) {
		fprintf(stderr, "usage: poison [-n PIECES] [-s START] SEED|all\n");
		return 2;
	}
	for (unsigned k = 1; k < FUZZ_SEEDS; k++) { /* the empty one has nothing to use */
		if (strcmp(argv[optind], k < FUZZ_ALL ? "all" : "") &&
		    strcmp(argv[optind], seeds[k].name))
			continue;
		any = true;
		try_seed(&seeds[k], first, pieces);
		bad += sum.wrong;
	}
	return any && !bad ? 0 : 1;
}
