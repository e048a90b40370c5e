/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of bad blocks: those that cannot be read, and do not take what is stored to them.
 * Whoever owns one keeps it; when it is given up it does not become free space.
 *
 * The list is a row of words in shard 0's header, each of which certifies itself. An entry
 * becomes true by one store of 8 bytes: a crash before its fence leaves the list without it or
 * with it, and nothing else depends on that. A word that fails its checksum names no block. The
 * allocator never had a block that is listed: it is owned when it is noted, and left out where
 * free space is collected (fsck, which lists free blocks too, does that first).
 *
 * What lies on a bad block and is known all the same moves: see scrub.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "fs.h"

/* ---- words ---- */

static uint64_t word_off(const struct pmemfs *fs, unsigned k)
{
	return super_bad_list(&fs->sb) + k * sizeof(le64);
}

uint64_t bad_word(const struct pmemfs *fs, unsigned k, uint64_t block)
{
	uint64_t word = block << PMEMFS_BAD_BLOCK_SHIFT;
	le64 bytes = put64(word);

	return block ? word | (hash64(&bytes, sizeof(bytes), data_seed(fs, k)) &
			       PMEMFS_BAD_TAG_MASK)
		     : 0;
}

/* The block that the word names; 0: none. */
static uint64_t word_block(const struct pmemfs *fs, unsigned k, le64 raw)
{
	uint64_t block = get64(raw) >> PMEMFS_BAD_BLOCK_SHIFT;

	return blocks_valid(fs, block, 1) && !super_is_reserved(&fs->sb, block) &&
		       get64(raw) == bad_word(fs, k, block)
		   ? block
		   : 0;
}

/* Stores entry k as it is in DRAM, in each copy. */
static int store_word(struct pmemfs *fs, unsigned k)
{
	meta_head(fs, word_off(fs, k), bad_word(fs, k, fs->bad.block[k]));
	return media_fence(fs->media);
}

/* ---- at mount, and for fsck ---- */

void bad_init(struct pmemfs *fs)
{
	short_mutex_init(&fs->bad.lock);
}

void bad_done(struct pmemfs *fs)
{
	pthread_mutex_destroy(&fs->bad.lock);
}

/* The entry that has the block, or PMEMFS_BAD_MAX. block 0: one that is free. */
static unsigned find(const struct bad_blocks *bad, uint64_t block)
{
	unsigned k = 0;

	while (k < PMEMFS_BAD_MAX && bad->block[k] != block)
		k++;
	return k;
}

static void load_copy(struct pmemfs *fs, uint64_t shift)
{
	struct bad_blocks *bad = &fs->bad;
	le64 word[PMEMFS_BAD_MAX];

	if (media_read(fs->media, word_off(fs, 0) + shift, word, sizeof(word))) {
		fs_report(fs, 0, "the list of bad blocks cannot be read");
		return;
	}
	for (unsigned k = 0; k < PMEMFS_BAD_MAX; k++) {
		uint64_t block = bad->block[k] ? 0 : word_block(fs, k, word[k]);

		if (block && find(bad, block) == PMEMFS_BAD_MAX) {
			bad->block[k] = block;
			bad->n++;
		}
	}
}

void bad_load(struct pmemfs *fs)
{
	memset(fs->bad.block, 0, sizeof(fs->bad.block));
	fs->bad.n = 0;
	load_copy(fs, 0);
	if (fs->mirror)
		load_copy(fs, fs->mirror);
}

enum bad_word_state bad_word_state(struct pmemfs *fs, unsigned k)
{
	uint64_t want = bad_word(fs, k, fs->bad.block[k]);
	enum bad_word_state state = BAD_WORD_RIGHT;
	le64 word;

	for (unsigned copy = 0; copy < fs->copies; copy++) {
		uint64_t off = word_off(fs, k) + copy * fs->mirror;

		if (media_read(fs->media, off, &word, sizeof(word)) || get64(word) == want)
			continue;
		if (get64(word))
			return BAD_WORD_DAMAGED;
		state = BAD_WORD_MISSING;
	}
	return state;
}

int bad_mend(struct pmemfs *fs)
{
	int err = 0;

	for (unsigned k = 0; k < PMEMFS_BAD_MAX && !err; k++)
		if (bad_word_state(fs, k) != BAD_WORD_RIGHT)
			err = store_word(fs, k);
	return err;
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

int pmemfs_bad_blocks(struct media *m, uint64_t ret[PMEMFS_BAD_BLOCKS])
{
	static const struct pmemfs_options options;
	struct pmemfs_super sb;
	struct pmemfs *fs;
	const char *why;
	int err = super_read(m, &sb, NULL, &why), n = 0;

	_Static_assert(PMEMFS_BAD_BLOCKS == PMEMFS_BAD_MAX, "both are the length of the list");
	if (err)
		return err;
	fs = fs_new(m, &sb, &options);
	bad_load(fs);
	for (unsigned k = 0; k < PMEMFS_BAD_MAX; k++)
		if (fs->bad.block[k])
			ret[n++] = fs->bad.block[k];
	fs_delete(fs);
	qsort(ret, (size_t)n, sizeof(ret[0]), by_number);
	return n;
}

/* ---- while mounted ---- */

/* Entry k becomes `block`, or free. Under the lock. */
static int set_entry(struct pmemfs *fs, unsigned k, uint64_t block)
{
	if (k == PMEMFS_BAD_MAX)
		return -ENOSPC;
	fs->bad.n += block ? 1 : -1;
	fs->bad.block[k] = block;
	return store_word(fs, k);
}

int bad_note(struct pmemfs *fs, uint64_t block)
{
	struct bad_blocks *bad = &fs->bad;
	bool known;
	int err = 0;

	if (atomic_load(&fs->readonly) || super_is_reserved(&fs->sb, block))
		return -EROFS;
	pthread_mutex_lock(&bad->lock);
	known = find(bad, block) < PMEMFS_BAD_MAX;
	if (!known)
		err = set_entry(fs, find(bad, 0), block);
	pthread_mutex_unlock(&bad->lock);
	if (!known)
		fs_report(fs, err ? 0 : 1, "block %llu of the device is bad, and %s",
			  (unsigned long long)block,
			  !err ? "will not be used again"
			  : err == -ENOSPC
			      ? "the list of bad blocks is full: replace the device"
			      : "the list of bad blocks does not take it");
	return err;
}

int bad_forget(struct pmemfs *fs, uint64_t block)
{
	struct bad_blocks *bad = &fs->bad;
	unsigned k;
	int err = 0;

	if (!bad->n)
		return 0;
	pthread_mutex_lock(&bad->lock);
	k = find(bad, block);
	if (k < PMEMFS_BAD_MAX)
		err = set_entry(fs, k, 0);
	pthread_mutex_unlock(&bad->lock);
	return err;
}

uint64_t bad_find(struct pmemfs *fs, uint64_t from, uint64_t end)
{
	struct bad_blocks *bad = &fs->bad;

	pthread_mutex_lock(&bad->lock);
	for (unsigned k = 0; k < PMEMFS_BAD_MAX; k++)
		if (bad->block[k] >= from && bad->block[k] < end)
			end = bad->block[k];
	pthread_mutex_unlock(&bad->lock);
	return end;
}
