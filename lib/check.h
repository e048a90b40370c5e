/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of the checker (fsck): its problem table and what the passes share.
 *
 * Passes: 1 superblock, 2 journal, 3 inodes and their logs, 4 names, 5 blocks, 6 file data, 7
 * bad blocks, if that is asked for. Each reads with the functions of the core that mount and
 * recovery use. What passes 3 and 4 decide to repair is carried out after pass 4, by ordinary
 * transactions, once it is known which blocks are free.
 */
#ifndef PMEMFS_CHECK_H
#define PMEMFS_CHECK_H

#include "fs.h"

/* Hundreds are the pass. Never renumbered: scripts and tests know them. */
enum check_code {
	CHECK_SB_PRIMARY = 101, /* damaged; the replica is good */
	CHECK_SB_REPLICA = 102,
	CHECK_SB_DIFFER = 103, /* both valid, same sequence, not the same */

	CHECK_TABLE = 201,	/* a shard's inode table cannot be read */
	CHECK_JOURNAL = 202,	/* a committed record makes no sense */
	CHECK_JOURNAL_IO = 203, /* the medium failed */

	CHECK_HEAD = 301,	   /* head word damaged */
	CHECK_LOG_DAMAGED = 302,   /* a record in the middle does not verify */
	CHECK_LOG_SENSE = 303,	   /* a record verifies and makes no sense */
	CHECK_LOG_EMPTY = 304,	   /* no first record */
	CHECK_LOG_TAIL = 305,	   /* clean, but bytes after the log's end */
	CHECK_INODE_IO = 306,	   /* the medium failed */
	CHECK_SLOT_RESERVED = 307, /* reserved bytes of the slot */
	CHECK_REC_RESERVED = 308,  /* reserved bytes of a record */
	CHECK_TIME = 309,	   /* nanoseconds of a second or more */
	CHECK_SIZE = 310,	   /* a size where none belongs */
	CHECK_DIR_NLINK = 311,	   /* a directory stores a link count other than 0 and 1 */
	CHECK_ORPHAN = 312,	   /* clean, but an inode without names or users */
	CHECK_HEADER = 313,	   /* bytes beside the table inode in a shard header */
	CHECK_TABLE_KIND = 314,	   /* a table inode is no plain file */
	CHECK_TABLE_IO = 315,	   /* a block of an inode table cannot be read */
	CHECK_LIMITS_KIND = 316,   /* the file of quota limits is no such file */
	CHECK_LIMIT = 317,	   /* an entry of it makes no sense */
	CHECK_LIMIT_TWICE = 318,   /* a second entry of one identity */
	CHECK_LIMIT_DATA = 319,	   /* a block of it cannot be read */
	CHECK_COPY = 320,	   /* one copy of a log or head word is damaged */
	CHECK_NO_ROOT = 321,	   /* its slot is free */
	CHECK_BAD_WORD = 322,	   /* an entry of the list of bad blocks is damaged */

	CHECK_ROOT = 401,	   /* there is no usable root directory */
	CHECK_DANGLING = 402,	   /* an entry names an inode that is not there */
	CHECK_ENTRY_TYPE = 403,	   /* an entry's type is not its inode's */
	CHECK_SECOND_NAME = 404,   /* a directory has a second name */
	CHECK_NAMES_ROOT = 405,	   /* an entry names the root */
	CHECK_PARENT = 406,	   /* a directory's parent is not the one that names it */
	CHECK_NLINK = 407,	   /* link count */
	CHECK_UNREACHABLE = 408,   /* no name leads here */
	CHECK_LOOP = 409,	   /* a directory inside itself */
	CHECK_REMOVED_NAMED = 410, /* a name leads to an inode that was removed */

	CHECK_SHARED = 501,	/* blocks of two logs, or of what else cannot move */
	CHECK_SAVED_LIST = 502, /* the saved free list cannot be read */
	CHECK_SAVED_USED = 503, /* it says free what is not */
	CHECK_SAVED_LEAK = 504, /* it misses free blocks */
	CHECK_FREE_COUNT = 505,
	CHECK_INODE_COUNT = 506,
	CHECK_DENTRY_COUNT = 507,
	CHECK_USAGE = 508,	 /* the saved usage of a user or group */
	CHECK_SHARED_DATA = 509, /* blocks of a file that something else owns too */

	CHECK_DATA = 601,      /* checksum */
	CHECK_DATA_IO = 602,   /* the medium failed */
	CHECK_CSUM_IO = 603,   /* the checksums themselves cannot be read */
	CHECK_REBUILD = 604,   /* as 601 and 602, and parity has what is lost */
	CHECK_PARITY = 605,    /* the parity of a stripe is not that of its members */
	CHECK_UNCOVERED = 606, /* blocks of a file have no parity */

	CHECK_BAD_NEW = 701,  /* blocks cannot be read, and are not on the list */
	CHECK_BAD_GOOD = 702, /* one is on the list, and can be read */

	CHECK_REPAIR_FAILED = 901,
	CHECK_REPAIRS_LEFT = 902, /* nothing was repaired, for want of knowing what is free */
};

/* What a message can speak of; which it does says the table. */
struct problem {
	enum check_code code;
	uint64_t ino;	  /* %i */
	uint64_t ino2;	  /* %j */
	uint64_t off;	  /* %o: a byte offset; %b: its block */
	uint64_t num;	  /* %n */
	uint64_t want;	  /* %w */
	const char *name; /* %s */
};

/* What is known of an inode. */
struct check_inode {
	uint64_t parent; /* a directory: what its log says */
	uint64_t named;	 /* the directory that names it (the first one found) */
	uint32_t nlink;	 /* what its log says */
	uint32_t names;	 /* entries that name it */
	uint8_t type;	 /* DT_*, 0: no inode here */
	uint8_t flags;
};
#define CI_BAD	   0x01u /* used, but its log cannot be read */
#define CI_ORPHAN  0x02u /* nlink 0 and no name: will be freed */
#define CI_ONPATH  0x04u
#define CI_REACHED 0x08u /* a path from the root, or from where it will be reconnected */
#define CI_DATA	   0x10u /* has blocks with checksums */
#define CI_FULL	   0x20u /* a directory with entries */
#define CI_PARENT  0x40u /* `named` is the directory that its log calls its parent */
#define CI_KEPT	   0x80u /* the one entry of several that stays was seen */

/* The inodes of a shard: a run of table blocks follows another in v. */
struct check_table {
	struct check_run {
		uint64_t start, len, base; /* logical blocks; index into v / slots per block */
	} * run;
	size_t runs, cap;
	struct check_inode *v;
	uint64_t n; /* slots */
};

/* A repair that was agreed to. */
enum fix_kind {		      /* in the order in which they are carried out */
		FIX_RESERVED, /* clear the reserved bytes of the slot at `arg` */
		FIX_HEADER, /* clear what stands beside the table inode in the block at `arg` */
		FIX_BAD_LIST, /* store the list of bad blocks as it was understood */
		FIX_TAIL, /* clear what stands after the log's end, restore damaged copies */
		FIX_IN_PLACE = FIX_TAIL, /* up to here no space is needed */
		FIX_RESTATE,		 /* write the log anew, with what is wrong corrected */
		FIX_LIMIT,		 /* erase entry `arg` of the file of limits */
		FIX_LIMITS,		 /* erase the block that begins with it */
		FIX_ENTRY,	/* remove the entry with cookie `arg` of directory ino */
		FIX_ENTRY_TYPE, /* give it the type of its inode */
		FIX_PARENT,	/* ino's parent is `arg` */
		FIX_NLINK,	/* ino's link count is `arg` */
		FIX_RECONNECT,	/* name it in lost+found */
		FIX_FREE,	/* free the inode */
		FIX_MOVE,	/* file block `arg` leaves a bad block */
		FIX_UNSHARE,	/* it leaves a block that is another's too; before all others */
		FIX_KINDS,
};
struct fix {
	enum fix_kind kind;
	bool quiet; /* no problem was counted for it */
	uint64_t ino, arg;
};

struct check {
	struct media *m;
	const struct pmemfs_check_options *o;
	struct pmemfs_check_result *res;
	struct pmemfs_super sb;
	struct pmemfs *fs;
	struct check_table *table;
	bool was_clean;
	bool blocks_unknown; /* an inode's blocks are not known: nothing may be allocated */
	bool names_unknown;  /* a directory cannot be read: what it names is not known */
	bool quotas_unknown; /* their limits' log is damaged: nothing was summed up */
	bool no_root;
	bool unsound;	  /* damage to the structure stays: not to be marked clean */
	bool refused;	  /* a repair was: what it would have changed stays as it is */
	bool changed;	  /* the medium was written by a repair */
	bool recount;	  /* what was saved at unmount is to be written anew */
	uint64_t *owned;  /* a bit for each block */
	uint64_t *shared; /* blocks with a second owner; NULL: none */
	uint64_t *firm, *firm_twice;  /* those of them that an owner, or two, cannot leave */
	bool stuck;		      /* some stay shared */
	bool unshared;		      /* none is any more: to be checked again */
	bool again;		      /* this is that */
	uint64_t shares;	      /* problems agreed to of data that is shared */
	bool bad_own[PMEMFS_BAD_MAX]; /* bad blocks that nobody else owns */
	uint64_t used_blocks, inodes, dentry_bytes, written;
	uint64_t data_done; /* blocks */
	uint64_t agreed;    /* problems of passes 3 and 4 that are to be repaired */
	struct fix *fix;
	size_t fixes, fixcap;
};

/* ---- check_problem.c ---- */

/* Counts and reports the problem; true: it shall be repaired now, and counts as fixed. */
bool check_problem(struct check *c, const struct problem *p);
/* Reports that a repair failed, and takes it back from the count. */
void check_repair_failed(struct check *c, const struct fix *f, int error);
/* Reports that what was agreed to in passes 3 and 4 is not done, and takes it back. */
void check_repairs_left(struct check *c);
/* The same without a word: it will be found again. */
void check_take_back(struct check *c);
void check_progress(struct check *c, unsigned pass, uint64_t done, uint64_t total);
/* Whether this problem has a repair at all. */
bool check_code_fixable(enum check_code code);

/* ---- check_map.c: inodes and blocks in DRAM ---- */

int check_map_make(struct check *c); /* after the tables were loaded */
void check_map_free(struct check *c);
/* NULL: no such slot. ret_slot (may be NULL) is its byte offset. */
struct check_inode *check_find(struct check *c, uint64_t ino, uint64_t *ret_slot);
/* Calls fn for each slot of all tables. A negative errno ends it. */
typedef int (*check_fn)(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci);
int check_each(struct check *c, unsigned pass, check_fn fn);
/* The blocks belong to somebody now. */
void check_own(struct check *c, uint64_t block, uint64_t n);
void check_disown(struct check *c, uint64_t block); /* its only owner gives it up */
bool check_is_owned(const struct check *c, uint64_t block);
/* The next run of blocks at or after *at that nobody owns. False: none. */
bool check_next_free(const struct check *c, uint64_t *at, uint64_t *ret_n);
/* The path of an inode as far as it is known, for messages. */
const char *check_path(struct check *c, uint64_t ino, char *buf, size_t size);

/* ---- the passes ---- */

/* Reads an inode as the core does. 0, or a negative errno: then *ret is NULL. */
int check_read(struct check *c, uint64_t ino, uint64_t slot, struct inode **ret);

int check_inodes(struct check *c); /* check_inode.c */
/* check_quota.c: an inode that was found, its limits once its log is in order, what was saved.
 */
int check_limits_kind(struct check *c, const struct inode *i);
void check_limits(struct check *c);
void check_usage(struct check *c);
/* check_bad.c: the list; its blocks that pass 3 saw no owner of; reads all blocks. */
void check_bad_list(struct check *c);
void check_bad_own(struct check *c);
void check_bad_blocks(struct check *c);
int check_names(struct check *c);  /* check_name.c */
int check_blocks(struct check *c); /* check_block.c */
int check_data(struct check *c);   /* check_data.c */

/* ---- check_fix.c ---- */

/* Before the first change: a crash from here on asks for recovery. */
int check_dirty(struct check *c);
void check_fix_later(struct check *c, enum fix_kind kind, uint64_t ino, uint64_t arg);
/* What a crash leaves: put right without a word when anything is. */
void check_fix_quietly(struct check *c, enum fix_kind kind, uint64_t ino);
/*
 * At once: ends a log at `off`, in an area or segment that ends at `end` and has its other copy
 * `mirror` bytes on (0: none), behind the record at `more`, whose state was to go on (0: it was
 * not); frees the slot of an inode whose log cannot be read (head: its
 * word, 0: it is damaged), or makes an empty root.
 */
int check_cut_log(struct check *c, const struct inode *i, uint64_t off, uint64_t end,
		  uint64_t mirror, uint64_t more);
int check_give_up(struct check *c, uint64_t ino, uint64_t slot, uint64_t head);
/* Bytes of the slots in a shard header's first block that are used. */
static inline uint64_t check_header_used(unsigned shard)
{
	return shard ? PMEMFS_SLOT_SIZE : PMEMFS_BLOCK_SIZE;
}
/* Carries out what was agreed to. */
int check_repair(struct check *c);

#endif
