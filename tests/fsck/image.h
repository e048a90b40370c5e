/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small filesystem in memory with one of everything, and ways to damage it: raw bytes,
 * records forged with right checksums, and operations of the core that no user could ask for.
 */
#ifndef PMEMFS_TEST_FSCK_IMAGE_H
#define PMEMFS_TEST_FSCK_IMAGE_H

#include "../unit/unit.h"
#include "fs.h"

#define IMAGE_SIZE   (16u << 20)
#define IMAGE_SHARDS 3u

struct image {
	uint8_t *mem;
	uint64_t size;
	struct media *m;
	/* inode numbers */
	uint64_t dir, sub, other, file, small, hard, link, fifo, lone;
};

void image_make(struct image *img);
void image_make_parity(struct image *img); /* with parity of the data */
void image_free(struct image *img);

/* Mounts it; unmounts cleanly; drops it as a crash would. */
struct pmemfs *image_mount(struct image *img);
void image_unmount(struct pmemfs *fs);

/* The filesystem with its tables loaded, for looking things up; nothing is written. */
struct pmemfs *image_look(struct image *img);
uint64_t image_slot(struct image *img, uint64_t ino);
/* Reads an inode without the cache. */
struct inode *image_inode(struct pmemfs *fs, uint64_t ino);

/* The k-th record of an inode's log (0: the first): its place; its length in ret_len. */
uint64_t image_record(struct image *img, uint64_t ino, unsigned k, uint32_t *ret_len);
/* Gives the record at off a right checksum after it was changed in place. */
void image_reseal(struct image *img, uint64_t ino, uint64_t off);
/* Seals both copies of the superblock anew after the primary was changed. */
void image_reseal_super(struct image *img);
struct pmemfs_super *image_super(struct image *img);

/* Commits a record on a mounted filesystem as the core would. */
void image_commit(struct pmemfs *fs, uint64_t ino, struct pmemfs_rec *rec);
/* A record that sets the link count or the parent. */
void image_set(struct pmemfs *fs, uint64_t ino, unsigned mask, uint64_t value);
/* A record that adds (name) or removes (NULL: the one with that name) a directory entry. */
void image_add_entry(struct pmemfs *fs, uint64_t dir, const char *name, uint64_t ino,
		     unsigned type);
void image_del_entry(struct pmemfs *fs, uint64_t dir, const char *name);
/* A record that maps a block of a file to a block of the device, unwritten. */
void image_map(struct pmemfs *fs, uint64_t ino, uint64_t fblock, uint64_t block);
/* The same, written, with the checksum that the block has now, or another; the file ends there.
 */
void image_map_written(struct pmemfs *fs, uint64_t ino, uint64_t fblock, uint64_t block,
		       bool right);
/* The device block of a file's block. */
uint64_t image_block_of(struct image *img, uint64_t ino, uint64_t fblock);

/* Makes a page of the memory fail as a poisoned line does. */
void image_poison(struct image *img, uint64_t off);

#endif
