/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The on-media format, version 4. lib/FORMAT.md explains every field and is changed in the same
 * commit as this file.
 *
 * All integers are little-endian and wear a wrapper type, so that one cannot be used without
 * being converted. Everything is addressed by byte offset from the start of the device, or by
 * block number (4 KiB blocks). Nothing here is trusted before it was validated.
 */
#ifndef PMEMFS_FORMAT_H
#define PMEMFS_FORMAT_H

#include <endian.h>
#include <stdint.h>

typedef struct {
	uint16_t raw;
} le16;
typedef struct {
	uint32_t raw;
} le32;
typedef struct {
	uint64_t raw;
} le64;

static inline uint16_t get16(le16 v)
{
	return le16toh(v.raw);
}
static inline uint32_t get32(le32 v)
{
	return le32toh(v.raw);
}
static inline uint64_t get64(le64 v)
{
	return le64toh(v.raw);
}
static inline le16 put16(uint16_t v)
{
	return (le16){htole16(v)};
}
static inline le32 put32(uint32_t v)
{
	return (le32){htole32(v)};
}
static inline le64 put64(uint64_t v)
{
	return (le64){htole64(v)};
}

#define PMEMFS_BLOCK_SHIFT 12
#define PMEMFS_BLOCK_SIZE  4096u
#define PMEMFS_MIN_SIZE	   (16ull << 20) /* smallest device */
#define PMEMFS_MAX_BLOCKS  (1ull << 44)
#define PMEMFS_MAX_SHARDS  256u
#define PMEMFS_NAME_MAX	   255u
#define PMEMFS_SYMLINK_MAX 4095u
#define PMEMFS_XATTR_MAX   65536u
#define PMEMFS_FBLOCK_MAX  (1ull << 44) /* blocks in a file: 64 PiB */
#define PMEMFS_LINK_MAX	   0x7fffffffu

/* ---- superblock: block 0, replica in block 511 (2 MiB - 4 KiB) ---- */

#define PMEMFS_MAGIC	  0x31303053464d4550ull /* "PEMFS001" on media */
#define PMEMFS_VERSION	  4u
#define PMEMFS_SB_BLOCK	  0u
#define PMEMFS_SB_REPLICA 511u
#define PMEMFS_LABEL_MAX  32
/* Every block of metadata has a copy; see pmemfs_link, and FORMAT.md. */
#define PMEMFS_INCOMPAT_REPLICA 1ull
#define PMEMFS_INCOMPAT_KNOWN	PMEMFS_INCOMPAT_REPLICA
/* Data has parity, which who does not know it would let go stale; see pmemfs_parity. */
#define PMEMFS_ROCOMPAT_PARITY 1ull
#define PMEMFS_ROCOMPAT_KNOWN  PMEMFS_ROCOMPAT_PARITY
#define PMEMFS_COMPAT_KNOWN    0ull

/* sb.state */
#define PMEMFS_STATE_CLEAN 1u /* unmounted; the saved counters and free list are true */
#define PMEMFS_STATE_ERROR 2u /* corruption was seen while mounted: fsck wanted */

/* One row of the flushcache copy's table: which kernel for which size class and writer count.
 */
#define PMEMFS_CAL_CLASSES 16 /* 64 B << class, up to 2 MiB */
#define PMEMFS_CAL_WRITERS 4  /* 1, 2, 3-4, 5 and more concurrent writers */
struct pmemfs_calibration {
	le32 valid;	/* 0: nothing was measured, the starting rule holds */
	le32 cpu_model; /* CPUID leaf 1 EAX it was measured on */
	le64 when;	/* seconds since the epoch */
	uint8_t copy[PMEMFS_CAL_WRITERS][PMEMFS_CAL_CLASSES];
	uint8_t clear[PMEMFS_CAL_WRITERS][PMEMFS_CAL_CLASSES];
};

struct pmemfs_super {
	le64 magic;
	le32 version;
	le32 block_size;
	le64 compat;	/* unknown bits: ignore */
	le64 incompat;	/* unknown bits: refuse */
	le64 ro_compat; /* unknown bits: mount read-only */
	uint8_t uuid[16];
	char label[PMEMFS_LABEL_MAX]; /* not NUL-terminated when full */
	le64 blocks;		      /* size of the filesystem */
	le32 shards;
	le32 shard_start; /* first block of shard header 0 */
	le64 created;	  /* seconds since the epoch */
	/* mutable: rewritten at mount and unmount, never during operations */
	le64 sequence; /* higher wins between primary and replica */
	le32 state;    /* PMEMFS_STATE_* */
	le32 mounts;   /* how often mounted for writing; seeds log ids */
	le64 mounted;  /* last mount for writing */
	le64 checked;  /* last full fsck */
	/* valid when CLEAN */
	le64 saved_list; /* first block of the saved free list, 0: none was saved */
	le64 free_blocks;
	le64 used_inodes;
	le64 dentry_bytes; /* sum of the sizes of all live directory entries */
	struct pmemfs_calibration calibration;
	le64 seed; /* random, not 0: what every other checksum of this filesystem is bound to */
	uint8_t reserved[3760];
	le64 checksum; /* XXH3-64 of all that stands before it, seed 0 */
};

/* ---- shard header: 9 blocks each (with replicas 18), one after another from sb.shard_start
 * ---- */

#define PMEMFS_JOURNAL_SLOTS 8u
#define PMEMFS_SHARD_BLOCKS  (1u + PMEMFS_JOURNAL_SLOTS) /* first the inode table's inode */

/* ---- parity: behind the shard headers and block 511 ---- */

/*
 * Stripe s is the blocks from 32 s to 32 s + 31. A word for each stripe, 512 in a block; then,
 * for each, the block that is the exclusive or of its members. Of a word:
 *
 *   - bits 0-23: checksum, the low bits of XXH3-64 of the word with these bits 0, seeded with
 *     the filesystem and the stripe; a word that fails it counts as one without members
 *   - bits 24-31: 1 if changes of members are on their way to the parity block, else 0
 *   - bits 32-63: members, a bit for each block
 */
#define PMEMFS_STRIPE		  32u
#define PMEMFS_PARITY_OPEN	  1u
#define PMEMFS_PARITY_WORDS	  (PMEMFS_BLOCK_SIZE / 8)
#define PMEMFS_PARITY_TAG_MASK	  0xffffffull
#define PMEMFS_PARITY_STATE_SHIFT 24
#define PMEMFS_PARITY_SET_SHIFT	  32

/* ---- inode slot ---- */

/*
 * Slot i of a shard's inode table holds inode number 1 + i * shards + shard. The root directory
 * is inode 1: slot 0 of shard 0. The table itself is a file whose inode is slot 0 of the shard
 * header's first block, numbered PMEMFS_INO_TABLE | shard. Slot 1 of shard 0's is that of the
 * file of quota limits, PMEMFS_INO_QUOTA; free: there are no quotas. Behind it is the list of
 * bad blocks.
 *
 * The head word is the only thing in a slot that is ever changed in place:
 *   bits 0-1   where the log starts: 0 = slot is free, 1 = area 0, 2 = area 1
 *   bits 2-7   0
 *   bits 8-15  CRC-8 (polynomial 0x07) of the other 56 bits
 *   bits 16-63 log id: grows with every change of the word, unique for this slot for ever
 * No word is 0: a new slot is free and has a log id too.
 */
#define PMEMFS_ROOT_INO	       1ull
#define PMEMFS_INO_TABLE       (1ull << 63)
#define PMEMFS_INO_QUOTA       (PMEMFS_INO_TABLE | 1ull << 32) /* the limits of quotas */
#define PMEMFS_SLOT_SIZE       512u
#define PMEMFS_AREA_SIZE       248u
#define PMEMFS_SLOTS_PER_BLOCK (PMEMFS_BLOCK_SIZE / PMEMFS_SLOT_SIZE)
struct pmemfs_slot {
	le64 head;
	le64 reserved; /* 0 */
	uint8_t area[2][PMEMFS_AREA_SIZE];
};

/*
 * The list of bad blocks: words in the rest of shard 0's table inode's block. 0: nothing. Else
 * bits 20-63 are the block's number; bits 0-19 the low bits of XXH3-64 of the word with these
 * bits 0, seeded with the filesystem and the word's index. One that fails it is nothing, too.
 */
#define PMEMFS_BAD_MAX	       ((PMEMFS_BLOCK_SIZE - 2 * PMEMFS_SLOT_SIZE) / 8)
#define PMEMFS_BAD_TAG_MASK    0xfffffull
#define PMEMFS_BAD_BLOCK_SHIFT 20

/* ---- log records ---- */

/*
 * A log is a row of records, each 8-aligned, starting in an area of the inode slot and going on
 * in segments of whole blocks, each named by the REC_LINK that ends the segment before. It ends
 * at the first 16 bytes that are zero. The checksum is XXH3-64 of the record from `len` on,
 * with a seed made from filesystem seed, inode number and log id, plus 1 if the state that the
 * record is part of goes on behind it; its bit 0 says that. So one store of the word ends it.
 */
#define REC_MORE 1ull /* in the checksum: a log that ends behind this record is damaged */
struct pmemfs_rec {
	le64 checksum;
	le16 len; /* whole record, in units of 8 bytes, 2 or more */
	uint8_t type;
	uint8_t flags; /* 0 */
	le32 seq;      /* 1, 2, 3 ... within one log id */
};

enum pmemfs_rec_type {
	REC_UPDATE = 1,	 /* attributes and extents: struct pmemfs_update */
	REC_DIR = 2,	 /* directory entries removed and added: struct pmemfs_dirup */
	REC_XATTR = 3,	 /* extended attribute set or removed: struct pmemfs_xattr */
	REC_SYMLINK = 4, /* target: struct pmemfs_symlink */
	REC_LINK = 5,	 /* where the log goes on: struct pmemfs_link */
};

#define PMEMFS_REC_MAX (65535u * 8u)

/* REC_LINK. Each segment keeps room for one at its end. */
struct pmemfs_link {
	struct pmemfs_rec h;
	le64 block;  /* first block of the next segment */
	le32 blocks; /* its length */
	le32 reserved;
};

struct pmemfs_time {
	le64 sec; /* signed */
	le32 nsec;
	le32 reserved;
};

/*
 * REC_UPDATE. The fields that the mask names follow in the order of the bits, then `extents`
 * extents, then one checksum for each written block of them, in their order. Applying one sets
 * ctime, then the fields (a smaller UP_SIZE drops every mapping past it), then the extents.
 */
struct pmemfs_update {
	struct pmemfs_rec h;
	le16 mask;
	le16 extents;
	le32 ctime_nsec;
	le64 ctime_sec;
};
#define UP_SIZE	  0x0001u /* le64: file size; a directory: its next cookie */
#define UP_PERM	  0x0002u /* struct pmemfs_perm */
#define UP_NLINK  0x0004u /* le64; directories derive theirs and store 0 or 1 (0: removed) */
#define UP_ATIME  0x0008u /* struct pmemfs_time */
#define UP_MTIME  0x0010u /* struct pmemfs_time */
#define UP_MNOW	  0x0020u /* nothing follows: mtime = ctime */
#define UP_PARENT 0x0040u /* le64: a directory's parent */
#define UP_BASE	  0x0080u /* struct pmemfs_base: always in a log's first record, nowhere else */
#define UP_KNOWN  0x00ffu

struct pmemfs_perm {
	le32 mode; /* with the file type */
	le32 uid;
	le32 gid;
	le32 flags; /* PMEMFS_FLAG_* */
};
/* The same bits as Linux has for them in FS_IOC_SETFLAGS. */
#define PMEMFS_FLAG_SYNC      0x00000008u
#define PMEMFS_FLAG_IMMUTABLE 0x00000010u
#define PMEMFS_FLAG_APPEND    0x00000020u
#define PMEMFS_FLAG_NODUMP    0x00000040u
#define PMEMFS_FLAG_NOATIME   0x00000080u
#define PMEMFS_FLAG_DIRSYNC   0x00010000u
#define PMEMFS_FLAGS_KNOWN    0x000100f8u
struct pmemfs_base {
	struct pmemfs_time btime;
	le32 generation;
	le32 rdev; /* new_encode_dev() form: minor 0-7, major, minor 8- */
};

/* 16 bytes: fblock << 20 | blocks, flags << 48 | pblock */
struct pmemfs_extent {
	le64 where;
	le64 what;
};
#define PMEMFS_EXTENT_MAX    ((1u << 20) - 1) /* blocks in one extent record */
#define PMEMFS_EXT_UNWRITTEN 0x1u	      /* allocated, reads as zeros, no checksums */
#define PMEMFS_EXT_HOLE	     0x2u	      /* unmaps the range; pblock is 0 */
#define PMEMFS_EXT_NOCSUM    0x4u	      /* inode tables: contents certify themselves */

/* REC_DIR: `dels` cookies (le64), then `adds` entries, each padded to 8 bytes. ctime = mtime.
 */
struct pmemfs_dirup {
	struct pmemfs_rec h;
	le64 time_sec;
	le32 time_nsec;
	uint8_t dels;
	uint8_t adds; /* a compacted log states as many as fit */
	le16 reserved;
};
struct pmemfs_dentry {
	le64 ino;
	le64 cookie;	 /* unique in this directory for ever; readdir's offset; 3 and more */
	uint8_t type;	 /* DT_* */
	uint8_t namelen; /* 1 to 255 */
	char name[];
};
#define PMEMFS_DENTRY_SIZE(namelen) ((18u + (namelen) + 7u) & ~7u)
#define PMEMFS_COOKIE_FIRST	    3u /* 1 and 2 are "." and ".." */

/* REC_XATTR: name (namelen bytes), then value, padded to 8 bytes. */
struct pmemfs_xattr {
	struct pmemfs_rec h;
	le64 ctime_sec;
	le32 ctime_nsec;
	uint8_t namelen;
	uint8_t remove; /* 1: the attribute goes away */
	le16 reserved;
	le32 valuelen;
	le32 mode; /* with the file type: becomes the inode's; 0: that stays */
	char data[];
};

/* REC_SYMLINK */
struct pmemfs_symlink {
	struct pmemfs_rec h;
	le32 targetlen; /* 1 to 4095 */
	le32 reserved;
	char target[];
};

/* ---- journal slot: one block ---- */

/*
 * One redo record of an operation on several inodes. `checksum` is XXH3-64 from `magic` to the
 * end of the entries, seeded with the filesystem and the slot's offset. It counts in the mount
 * that wrote it only. An entry is replayed only while its inode's head still has the entry's
 * log id (for a switch: is the old or new word).
 */
#define PMEMFS_JOURNAL_MAGIC 0x4a4d5046u
struct pmemfs_journal {
	le64 checksum;
	le32 magic;
	le32 len; /* bytes of entries */
	le32 entries;
	le32 mounts; /* sb.mounts when it was written: at any other it is of the past */
};
enum pmemfs_jtype {
	JOURNAL_APPEND = 1, /* a record goes to byte offset `where` */
	JOURNAL_SWITCH =
	    2, /* bytes fill the area that `to` names (rest zero), then head = `to` */
};
struct pmemfs_jentry {
	le64 ino;
	le64 from;  /* the inode's head word before (append: and after) */
	le64 where; /* append: byte offset; switch: the new head word */
	le32 len;   /* bytes that follow, padded to 8 */
	le16 type;
	le16 mirror; /* append: blocks from `where` to its copy, 0: there is none */
};

/* ---- saved free list: blocks in free space, a chain from sb.saved_list ---- */

#define PMEMFS_SAVED_MAGIC 0x56534650u
#define PMEMFS_SAVED_MAX   254u
struct pmemfs_saved {
	le64 checksum; /* XXH3-64 of the block from `magic` on, seeded with filesystem and block
			*/
	le32 magic;
	le32 count;
	le64 next;     /* block, 0 ends */
	le64 sequence; /* sb.sequence it belongs to */
	struct {
		le64 start;
		le64 blocks;
	} extent[PMEMFS_SAVED_MAX];
};

/*
 * In the same chain, behind the free list: what is used, by whom, ascending; where there are
 * quotas. Without it, usage is summed up from the inodes.
 */
#define PMEMFS_USAGE_MAGIC 0x55534650u
#define PMEMFS_USAGE_MAX   169u
struct pmemfs_usage {
	le64 checksum; /* these five as in struct pmemfs_saved */
	le32 magic;
	le32 count;
	le64 next;
	le64 sequence;
	struct {
		le32 kind; /* PMEMFS_LIMIT_* */
		le32 id;
		le64 blocks; /* of data and logs */
		le64 inodes;
	} of[PMEMFS_USAGE_MAX];
	le64 reserved;
};

/* ---- the file of quota limits: entries one behind the other; all zero: one that is free ----
 */

#define PMEMFS_LIMIT_USER  1u
#define PMEMFS_LIMIT_GROUP 2u
#define PMEMFS_LIMITS_MAX  (1ull << 30) /* bytes of the file */
struct pmemfs_limit {
	le32 kind;
	le32 id;     /* not 0: root is not limited; no two alike */
	le64 blocks; /* 0: no limit; one of the two is there */
	le64 inodes;
	le64 reserved;
};

#define ASSERT_SIZE(t, n)  _Static_assert(sizeof(t) == (n), "size of " #t)
#define ASSERT_AT(t, f, n) _Static_assert(__builtin_offsetof(t, f) == (n), #t "." #f)
ASSERT_SIZE(struct pmemfs_super, 4096);
ASSERT_AT(struct pmemfs_super, blocks, 88);
ASSERT_AT(struct pmemfs_super, sequence, 112);
ASSERT_AT(struct pmemfs_super, saved_list, 144);
ASSERT_AT(struct pmemfs_super, calibration, 176);
ASSERT_AT(struct pmemfs_super, seed, 320);
ASSERT_AT(struct pmemfs_super, checksum, 4088);
ASSERT_SIZE(struct pmemfs_slot, 512);
ASSERT_SIZE(struct pmemfs_rec, 16);
ASSERT_SIZE(struct pmemfs_link, 32);
ASSERT_SIZE(struct pmemfs_time, 16);
ASSERT_SIZE(struct pmemfs_update, 32);
ASSERT_SIZE(struct pmemfs_perm, 16);
ASSERT_SIZE(struct pmemfs_base, 24);
ASSERT_SIZE(struct pmemfs_extent, 16);
ASSERT_SIZE(struct pmemfs_dirup, 32);
ASSERT_AT(struct pmemfs_dentry, name, 18);
ASSERT_AT(struct pmemfs_xattr, data, 40);
ASSERT_AT(struct pmemfs_symlink, target, 24);
ASSERT_SIZE(struct pmemfs_journal, 24);
ASSERT_SIZE(struct pmemfs_jentry, 32);
ASSERT_AT(struct pmemfs_saved, extent, 32);
ASSERT_SIZE(struct pmemfs_saved, 4096);
ASSERT_AT(struct pmemfs_usage, of, 32);
ASSERT_SIZE(struct pmemfs_usage, 4096);
ASSERT_SIZE(struct pmemfs_limit, 32);

#endif
