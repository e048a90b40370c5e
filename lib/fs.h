/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The structures of a mounted filesystem and the interfaces between the library's modules, in
 * the order of the layers: each uses only what stands above it.
 *
 * Lock order (outer first): quota.lock > rename mutex > directory inode > its child inode
 * (parents before children, then by inode number) > quota.gate > inode table inode's mutex
 * (itable.lock) > table inode > journal slot > shard (space) lock. The inode cache's locks are
 * taken inside inode locks and outside of itable.lock.
 */
#ifndef PMEMFS_FS_H
#define PMEMFS_FS_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "format.h"
#include "hash.h"
#include "media.h"
#include "pmemfs.h"
#include "rangemap.h"
#include "util.h"

struct pmemfs;
struct inode;

/* ---- superblock (super.c) ---- */

/*
 * Reads both copies and chooses the valid one with the higher sequence. Errors and ret_why as
 * pmemfs_probe. ret_ok (may be NULL): bit 0 primary valid, bit 1 replica valid.
 */
int super_read(struct media *m, struct pmemfs_super *ret, unsigned *ret_ok,
	       const char **ret_why);

/*
 * Raises the sequence, seals and writes both copies, the one that does not count at present
 * first, each durable before the next store. A crash in between, or a row of such crashes,
 * leaves one valid copy, the old or the new one.
 */
int super_write(struct media *m, struct pmemfs_super *sb);

/* Makes an empty root directory in the slot at byte off, whose log has that id; durable. */
int super_write_root(struct pmemfs *fs, uint64_t off, uint64_t id);

/* The seed of everything that belongs to this filesystem. */
uint64_t super_seed(const struct pmemfs_super *sb);

/* The log id that new slots of this mount begin with. */
uint64_t super_first_id(const struct pmemfs_super *sb);

/* Copies of metadata: 1, or 2 with replicas. */
unsigned super_copies(const struct pmemfs_super *sb);

/* First block of a shard's header, and the number of blocks that one shard's space spans. */
uint64_t super_shard_header(const struct pmemfs_super *sb, unsigned shard);
uint64_t super_shard_span(const struct pmemfs_super *sb);
/* The blocks of words and parity; 0 blocks: there is no parity. */
uint64_t super_parity_start(const struct pmemfs_super *sb);
uint64_t super_parity_blocks(const struct pmemfs_super *sb);
/* True for blocks that are never free: superblocks, shard headers and parity. */
bool super_is_reserved(const struct pmemfs_super *sb, uint64_t block);
/* Byte offset of the table inode's slot of a shard. */
uint64_t super_table_slot(const struct pmemfs_super *sb, unsigned shard);
/* Of the file of quota limits. */
uint64_t super_quota_slot(const struct pmemfs_super *sb);
/* Of the list of bad blocks. */
uint64_t super_bad_list(const struct pmemfs_super *sb);
uint64_t super_journal_slot(const struct pmemfs_super *sb, unsigned shard, unsigned slot);

/* Has the media copy as the superblock's table says; see pmemfs_use_calibration. (tune.c) */
int tune_apply(struct media *m, const struct pmemfs_super *sb);

/* ---- parity of data (parity.c) ---- */

struct parity; /* NULL: the filesystem has none; every function then does nothing */

/* What file data cannot do without an answer to: is this the content of the block? */
typedef bool (*parity_judge)(void *arg, const void *bytes);

void parity_init(struct pmemfs *fs);
void parity_done(struct pmemfs *fs); /* what was not flushed is left for recovery */
/*
 * Stores data as media_copy does, and notes the change for the parity of its stripes. Whoever
 * stores owns the blocks. The fence is the caller's; opening a stripe has one of its own.
 */
void parity_copy(struct pmemfs *fs, uint64_t off, const void *src, size_t len);
/* The blocks become metadata: from now on they may be stored to without a word. */
void parity_forget(struct pmemfs *fs, uint64_t block, uint64_t n);
/*
 * Blocks of data, verified and held by the caller, of which some may be no members (their
 * stripe's word was damaged): they become such. ret_adopted (may be NULL): how many.
 */
void parity_adopt(struct pmemfs *fs, uint64_t block, uint64_t n, uint64_t *ret_adopted);
/* Is every one of the blocks a member? */
bool parity_covers(struct pmemfs *fs, uint64_t block, uint64_t n);
/*
 * Content of a block from the others of its stripe, first of only those lines that cannot be
 * read, then of all; the first that judge finds right is in ret (4 KiB). -EIO: none is. judge
 * is asked without locks. Who calls sees to it that the block keeps its owner.
 */
int parity_rebuild(struct pmemfs *fs, uint64_t block, parity_judge judge, void *arg, void *ret);
/* Is the stripe's parity that of its members? 1: it is not; -EIO: a member cannot be read. */
int parity_check(struct pmemfs *fs, uint64_t stripe);
/*
 * Makes the parity anew of what the members hold; what cannot be read is a member no more.
 * Durable on return; negative errno: the medium takes no parity here.
 */
int parity_remake(struct pmemfs *fs, uint64_t stripe);
uint64_t parity_stripes(const struct pmemfs *fs);
/* A bit of each stripe for a scrub, or for fsck, between looking at it and looking again. */
void parity_mark(struct pmemfs *fs, uint64_t stripe, bool is);
bool parity_is_marked(const struct pmemfs *fs, uint64_t stripe);
/* Brings all parity to the medium; durable on return. Others may store meanwhile. */
int parity_flush(struct pmemfs *fs);
/* After a crash: makes anew what was on its way. */
void parity_recover(struct pmemfs *fs);

/* ---- bad blocks (bad.c) ---- */

struct bad_blocks {
	pthread_mutex_t lock; /* a leaf; the list is stored under it */
	_Atomic unsigned n;
	uint64_t block[PMEMFS_BAD_MAX]; /* 0: the entry is free */
};
void bad_init(struct pmemfs *fs);
void bad_done(struct pmemfs *fs);
/* At mount: reads the list; what cannot be read, or does not verify, names nothing. */
void bad_load(struct pmemfs *fs);
/* Entry k of the list, as it stands on the medium. block 0: nothing. */
uint64_t bad_word(const struct pmemfs *fs, unsigned k, uint64_t block);
/* Entry k on the medium, in each copy that can be read, against what it is in DRAM. */
enum bad_word_state {
	BAD_WORD_RIGHT,
	BAD_WORD_MISSING, /* nothing in one copy, as a crash may leave it */
	BAD_WORD_DAMAGED,
};
enum bad_word_state bad_word_state(struct pmemfs *fs, unsigned k);
/* Makes all entries so; durable on return. */
int bad_mend(struct pmemfs *fs);
/*
 * The block, which is not free (its owner's lock is held, shared at least) or not yet known to
 * be, goes on the list, or leaves it; durable on return. -ENOSPC: the list is full; -EROFS:
 * nothing may be stored, or the block is one that has no owner. Fences what the thread stored.
 */
int bad_note(struct pmemfs *fs, uint64_t block);
int bad_forget(struct pmemfs *fs, uint64_t block);
/* The first bad block in [from, end), or end. Costs a load where there are none. */
uint64_t bad_find(struct pmemfs *fs, uint64_t from, uint64_t end);
#define bad_next(fs, from, end)                                             \
	(unlikely(atomic_load_explicit(&(fs)->bad.n, memory_order_relaxed)) \
	     ? bad_find(fs, from, end)                                      \
	     : (end))

/* ---- space (alloc.c) ---- */

struct extvec {
	struct run {
		uint64_t block, len;
	} * v;
	size_t n, cap;
	struct run fixed[4]; /* v points here until there are more */
};
void extvec_init(struct extvec *x);
void extvec_add(struct extvec *x, uint64_t block, uint64_t len);
void extvec_done(struct extvec *x);

#define ALLOC_RESERVE 1u /* may use the reserve: for what frees space in the end */

/*
 * All or nothing: n blocks as few runs as can be had, beginning at goal if that is free (0: no
 * wish). Appends to ret. -ENOSPC.
 */
int alloc_blocks(struct pmemfs *fs, uint64_t n, uint64_t goal, unsigned flags,
		 struct extvec *ret);
/* n blocks in one run, for anything but data of files. -ENOSPC. */
int alloc_contig(struct pmemfs *fs, uint64_t n, unsigned flags, uint64_t *ret_block);
/* But for bad ones, which nobody gets any more. */
void free_blocks(struct pmemfs *fs, uint64_t block, uint64_t n);
void free_runs(struct pmemfs *fs, const struct extvec *x);
/* Adds free space at mount: not counted against anything. */
void alloc_add(struct pmemfs *fs, uint64_t block, uint64_t n);
void alloc_clear(struct pmemfs *fs);		 /* nothing is free; nobody else is here */
uint64_t alloc_free(const struct pmemfs *fs);	 /* blocks that nobody has claimed */
uint64_t alloc_reserve(const struct pmemfs *fs); /* blocks kept for deleting and compacting */
/* Bytes of dentries come or go: the reserve follows. */
void alloc_count_dentries(struct pmemfs *fs, int64_t bytes);
uint64_t alloc_dentry_bytes(const struct pmemfs *fs);

/* ---- log (log.c, logwrite.c) ---- */

/* The head word of an inode slot. */
#define HEAD_FREE   0u
#define HEAD_ID_MAX ((1ull << 48) - 1)
static inline unsigned head_where(uint64_t head)
{
	return head & 3;
}
static inline uint64_t head_id(uint64_t head)
{
	return head >> 16;
}
uint64_t head_make(unsigned where, uint64_t id);
bool head_valid(uint64_t head); /* its CRC is right, reserved bits are 0, where is 0 to 2 */
static inline uint64_t slot_area(uint64_t slot, unsigned where)
{
	return slot + 16 + (where - 1) * (uint64_t)PMEMFS_AREA_SIZE;
}

#define LOG_LINK_SIZE ((uint32_t)sizeof(struct pmemfs_link))

struct log {
	uint64_t head;	 /* the word in the slot */
	uint64_t seed;	 /* of the records' checksums */
	uint64_t pos;	 /* byte offset where the next record goes */
	uint64_t end;	 /* end of the segment, room for the link included */
	uint64_t mirror; /* bytes from pos to the same place in the copy, 0: there is none */
	uint64_t bytes;	 /* of records so far */
	uint64_t more;	 /* the last record that was read, if it says REC_MORE, else 0 */
	uint32_t seq;	 /* of the next record */
	uint32_t nseg;
	struct log_seg {
		uint64_t block;
		uint32_t blocks; /* all, copy included */
	} * seg;
	size_t segcap;
	struct log_fix { /* what a walk found to be bad in one copy, and good in the other */
		uint64_t to, from; /* from 0: zeros belong there */
		uint64_t len;
	} * fix;
	size_t fixes, fixcap;
};

uint64_t log_seed(const struct pmemfs *fs, uint64_t ino, uint64_t head);

/* What a record's checksum has to be; more: REC_MORE, or 0. */
uint64_t rec_sum(const struct pmemfs_rec *rec, uint64_t seed, uint64_t more);
/* Sets seq and checksum of a record whose len and type are set; more: REC_MORE, or 0. */
void rec_seal(struct pmemfs_rec *rec, uint64_t seed, uint32_t seq, uint64_t more);
static inline uint64_t rec_more(const struct pmemfs_rec *rec)
{
	return get64(rec->checksum) & REC_MORE;
}
static inline uint32_t rec_len(const struct pmemfs_rec *rec)
{
	return get16(rec->len) * 8u;
}

/* How a log ended. */
enum log_end {
	LOG_CLEAN,   /* at zeros */
	LOG_TORN,    /* at bytes that are no record: a torn append, if there was a crash */
	LOG_DAMAGED, /* more was there: a later record verifies, or the last says REC_MORE */
};

/*
 * Reads the log of the slot whose head word is `head` and calls fn with each record that
 * verifies (a copy in DRAM; off: where it stands); fn's negative errno ends the walk and is
 * returned. Fills *ret so that the log can be appended to. -EIO: the medium failed. -EUCLEAN: a
 * link leads nowhere. Bounded by the size of the medium.
 *
 * With replicas a record counts if one of its copies verifies. The second is looked at where
 * the first does not, so always at the end; `both`: everywhere. What is to be mended is in
 * ret->fix.
 */
typedef int (*log_fn)(void *arg, const struct pmemfs_rec *rec, uint64_t off);
int log_walk(struct pmemfs *fs, uint64_t ino, uint64_t slot, uint64_t head, bool both,
	     log_fn fn, void *arg, struct log *ret, enum log_end *ret_end);
void log_free(struct log *l);
/*
 * The record at byte offset off of the slot's log becomes the last of its state: one word, in
 * both copies; flushed, not fenced. Negative errno: it cannot be read, in no copy.
 */
int log_end_state(struct pmemfs *fs, uint64_t slot, const struct log *l, uint64_t off);
/* Notes that one of the copies is to be mended. */
void log_note_fix(struct log *l, uint64_t to, uint64_t from, uint64_t len);
/*
 * Mends copies as a walk noted, and forgets that. Durable on return. A crash in between leaves
 * them as they were or mended. Negative errno: the medium failed.
 */
int log_mend(struct pmemfs *fs, struct log *l);
/* Are there only zeros from the log's end to its segment's, in the copy `shift` bytes on? */
int log_tail_is_clear(struct pmemfs *fs, const struct log *l, uint64_t shift, bool *ret);
/* Notes for log_mend: zeros from the log's end to its segment's, where there are none. */
int log_note_tail(struct pmemfs *fs, struct log *l);
/* The same for a copy of the head word that is not l->head; the other one is. */
void log_note_heads(struct pmemfs *fs, uint64_t slot, struct log *l);
/* The other copy of what stands at byte offset off of the inode's log; 0: there is none. */
uint64_t log_other_copy(const struct pmemfs *fs, uint64_t slot, const struct log *l,
			uint64_t off);

/*
 * The valid head words of a slot, the one that counts first: the newer, where the copies
 * differ. `both`: looks at the copy also where the first is valid. ret_alike (may be NULL): all
 * that were looked at are valid and the same. Their number, or negative errno: -EUCLEAN if none
 * is valid, -EIO.
 */
int head_read(struct pmemfs *fs, uint64_t slot, bool both, uint64_t ret[2], bool *ret_alike);
bool blocks_valid(const struct pmemfs *fs, uint64_t block, uint64_t n);

/* ---- inode (inode.c, icache.c)
 * --------------------------------------------------------------- */

struct xattr {
	char *name;
	uint32_t namelen, valuelen;
	char *value;
};

struct dent {
	uint64_t ino, cookie;
	uint32_t hash;
	uint8_t type, namelen;
	char name[];
};

/* A directory's index. Entries ascend by cookie; deleted ones leave NULL until it is repacked.
 */
struct dir {
	struct dir_entry {
		uint64_t cookie;
		struct dent *e;
	} * vec;
	size_t n, cap, live;
	struct dent **hash; /* open addressing; a power of two of places */
	size_t places;
	uint64_t next_cookie;
	uint64_t bytes; /* of all entries on the medium */
	uint32_t subdirs;
};

/* ---- quotas: who uses what (quota.c) ---- */

#define QUOTA_KINDS	2u /* users, groups: PMEMFS_LIMIT_* - 1 */
#define QUOTA_BUCKETS	4096u
#define QUOTA_NO_ENTRY	UINT64_MAX
#define QUOTA_UNLIMITED 2u /* flag of a transaction: quotas do not stop it */

/* A user or a group. Lives as long as the filesystem is mounted. */
struct quota_id {
	struct quota_id *next;
	unsigned kind; /* index */
	uint32_t id;
	_Atomic uint64_t blocks, inodes;	   /* used, and claimed by who is at it */
	_Atomic uint64_t block_limit, inode_limit; /* 0: none; changed under quota.lock */
	uint64_t entry; /* quota.lock: its place in the file of limits, or QUOTA_NO_ENTRY */
};

/* What an inode is charged for. Of another epoch it means nothing. inode->lock */
struct quota_charge {
	uint32_t epoch;
	uint32_t inodes; /* 0: not yet made */
	uint64_t blocks;
	struct quota_id *id[QUOTA_KINDS];
};

/* Of a transaction's part: who will be charged, and what was claimed from them. */
struct quota_part {
	bool counted;
	struct quota_id *to[QUOTA_KINDS];
	uint64_t blocks[QUOTA_KINDS], inodes[QUOTA_KINDS];
};

/* A row of the saved usage. */
struct quota_usage {
	uint32_t kind, id; /* PMEMFS_LIMIT_* */
	uint64_t blocks, inodes;
};

enum quota_state { QUOTA_OFF, QUOTA_COUNTING, QUOTA_ON };

struct quota {
	_Atomic(enum quota_state) state;
	bool enforce;	/* fsck's repairs are counted only */
	uint32_t epoch; /* of the charges that hold; constant while the state is not OFF */
	_Atomic(struct quota_id *) *bucket;
	pthread_mutex_t gate;	  /* held by every commit while the usage is being counted */
	_Atomic uint64_t counted; /* gate: inodes below are in the sums */
	pthread_mutex_t lock;	  /* outermost: the file of limits, and switching on and off */
	struct inode *inode;	  /* lock: that file; NULL: there are no quotas */
	uint64_t *spare;	  /* lock: its free entries */
	size_t spares, sparecap;
	uint64_t entries;	   /* lock: behind the last one */
	struct quota_usage *saved; /* what the last unmount has saved, from saved_read on */
	size_t saveds, savedcap;
};

struct inode {
	/* icache lock */
	struct inode *next;
	uint64_t refs;
	bool unhashed; /* freed: its number may be another's */
	/* constant */
	uint64_t ino;
	uint64_t slot; /* byte offset */
	/* Who waits for the lock looks at its line again and again: nothing else is in it. */
	_Alignas(64) pthread_rwlock_t lock;
	/* lock */
	_Alignas(64) atomic_bool loaded; /* never goes back while others can see it */
	atomic_uchar met;		 /* so many next writes expect another writer; a hint */
	bool freed;			 /* it is gone from the medium */
	int error;		 /* its log could not be read: what every operation gets */
	struct pmemfs_attr attr; /* nlink of directories is derived; blocks is not kept */
	uint64_t parent;	 /* of a directory */
	struct log log;
	struct rangemap extents; /* regular files and inode tables */
	uint64_t written;	 /* blocks with checksums */
	struct dir dir;
	char *target; /* symlink */
	struct xattr *xattr;
	size_t xattrs, xattrcap;
	const void *pending; /* record being committed that is not yet on the medium */
	bool tmpfile;	     /* made without a name: may still get one */
	struct quota_charge charge;
};

/* A checksum location that means: in the inode's pending record, at that offset. */
#define CSUM_PENDING (1ull << 63)

static inline bool inode_is_dir(const struct inode *i)
{
	return S_ISDIR(i->attr.mode);
}
static inline bool inode_is_table(const struct inode *i)
{
	return i->ino & PMEMFS_INO_TABLE && i->ino != PMEMFS_INO_QUOTA;
}
/* One that has no number for the world outside. */
static inline bool inode_is_internal(const struct inode *i)
{
	return i->ino & PMEMFS_INO_TABLE;
}

/*
 * Begins a REC_UPDATE: header, ctime, and the fields that mask names, from a and parent.
 * Returns their end, which is what its len says. Room for sizeof(struct pmemfs_update) + 104.
 */
void *update_put(struct pmemfs_update *u, unsigned mask, const struct pmemfs_attr *a,
		 uint64_t parent);
/* Bytes of the fields that the mask of a REC_UPDATE names. */
uint32_t update_fields_size(unsigned mask);
/* -EPERM for what is immutable or (append) append-only, else 0. */
static inline int inode_frozen(const struct inode *i, bool append)
{
	unsigned stop = PMEMFS_FLAG_IMMUTABLE | (append ? PMEMFS_FLAG_APPEND : 0);

	return i->attr.flags & stop ? -EPERM : 0;
}

/*
 * Applies a record to the inode in DRAM: the same function at load and at run time. off is
 * where the record stands (or CSUM_PENDING). Blocks that lose their mapping go to freed (may be
 * NULL). -EUCLEAN: the record makes no sense. Exclusive lock.
 */
int inode_apply(struct pmemfs *fs, struct inode *i, const struct pmemfs_rec *rec, uint64_t off,
		struct extvec *freed);
/* Bytes that the inode's whole state takes as records, without links; an upper bound. */
uint64_t inode_state_size(const struct inode *i);
/* Releases what the inode holds in DRAM. */
void inode_clear(struct inode *i);
struct inode *inode_new(uint64_t ino, uint64_t slot);
void inode_delete(struct inode *i);
/*
 * Reads the log into a new inode; what of its copies is to be mended is in i->log.fix, also for
 * a slot that is free (-ESTALE). both and ret_end as log_walk. 0 or negative errno.
 */
int inode_read(struct pmemfs *fs, struct inode *i, bool both, enum log_end *ret_end);
/*
 * Mends what a read or walk of the inode's log noted in l, and says so. Others may read
 * meanwhile: what they verify is the good copy, or the same bytes in this one. 0; -EROFS: it
 * was only said; what log_mend returns, and read-only from then on.
 */
int inode_mend(struct pmemfs *fs, const struct inode *i, struct log *l);
/* All blocks that the inode owns, data and log. */
void inode_runs(const struct inode *i, struct extvec *ret);
void inode_fill_attr(const struct inode *i, struct pmemfs_attr *ret);

/*
 * The inode, with a reference, loaded. -ESTALE: there is none; -EIO: its log is damaged. Takes
 * and gives back inode->lock.
 */
int inode_get(struct pmemfs *fs, uint64_t ino, struct inode **ret);
/*
 * Gives back n references; the last one frees an orphan and tidies a long log, under the
 * inode's lock: so not while a lock is held that comes after it.
 */
void inode_put(struct pmemfs *fs, struct inode *i, uint64_t n);
/* The same for one reference to what has a name, leaving such work to the next; takes no lock.
 */
void inode_put_unworked(struct pmemfs *fs, struct inode *i);
/* The inode if it is in DRAM, without a reference: for one that the caller holds already. */
struct inode *icache_find(struct pmemfs *fs, uint64_t ino);
/* What the last reference brings with it, where there is such work. Takes the inode's lock. */
void inode_last_work(struct pmemfs *fs, struct inode *i);
/* True when only the caller holds a reference. */
bool inode_is_sole(struct pmemfs *fs, struct inode *i);
/* Enters a new inode (refs 1) that was just made. */
void icache_insert(struct pmemfs *fs, struct inode *i);
/* Its slot was freed: who holds a reference still has it, nobody finds it any more. */
void icache_remove(struct pmemfs *fs, struct inode *i);
void icache_init(struct pmemfs *fs);
/* Returns when whoever had an inode locked at the call has let it go. No lock is held. */
void icache_settle(struct pmemfs *fs);
/* Drops all inodes; calls fn (may be NULL) with each first. */
void icache_drop(struct pmemfs *fs, void (*fn)(struct pmemfs *fs, struct inode *i));
void icache_done(struct pmemfs *fs);

/* ---- directories in DRAM (dir.c) ---- */

uint32_t dir_hash(const char *name, size_t len);
struct dent *dir_find(const struct dir *d, const char *name, size_t len);
struct dent *dir_find_cookie(const struct dir *d, uint64_t cookie);
/* Index of the first entry with a greater cookie. */
size_t dir_after(const struct dir *d, uint64_t cookie);
int dir_add(struct dir *d, const char *name, unsigned len, uint64_t ino, unsigned type,
	    uint64_t cookie);
void dir_remove(struct dir *d, struct dent *e);
void dir_clear(struct dir *d);

/* ---- transactions (txn.c, rewrite.c, journal.c)
 * ------------------------------------------------ */

#define TXN_PARTS 6

enum txn_how { TXN_APPEND, TXN_SEGMENT, TXN_SWITCH, TXN_FREE };

struct txn_part {
	struct inode *inode;
	struct pmemfs_rec *rec; /* NULL: state the inode anew, or free it */
	enum txn_how how;
	/* found by txn_place */
	uint64_t head;	    /* SWITCH, FREE: the new word */
	uint64_t seg;	    /* SEGMENT: the new segment's first block */
	uint32_t segblocks; /* all, copy included */
	uint64_t at;	    /* APPEND, SEGMENT: where the record goes */
	struct pmemfs_link link;
	struct log newlog; /* SWITCH */
	struct rangemap newmap;
	uint8_t area[PMEMFS_AREA_SIZE];
	struct quota_part quota; /* set if the transaction is counted */
};

/* An operation: its records, one for each inode it changes, become true together. */
/* Data for blocks or bytes that nothing refers to until a record of the transaction does. */
struct txn_data {
	uint64_t off;
	const void *src;
	size_t len;
};

/* Stores it; the fence is the caller's. */
void txn_store_data(struct pmemfs *fs, const struct txn_data *data, size_t n);

struct txn {
	struct pmemfs *fs;
	unsigned n;
	unsigned flags; /* ALLOC_RESERVE, QUOTA_UNLIMITED */
	bool counted;	/* there are quotas */
	bool gated;	/* and the gate is held */
	bool dirty;	/* cleared or new log blocks were stored and not yet fenced */
	const struct txn_data *data; /* the caller's; stored and fenced before any record */
	size_t datas;
	struct extvec freed; /* blocks to free once it is durable */
	struct txn_part part[TXN_PARTS];
};

void txn_begin(struct txn *t, struct pmemfs *fs, unsigned flags);
/* The inode gets this record (which the caller owns until the commit). One for each inode. */
void txn_add(struct txn *t, struct inode *i, struct pmemfs_rec *rec);
/* A new inode whose state in DRAM is complete: it is written and its slot becomes used. */
void txn_create(struct txn *t, struct inode *i);
/* The inode's slot becomes free; its blocks too. */
void txn_free(struct txn *t, struct inode *i);
/*
 * Finds room, applies the records in DRAM, makes them durable together and frees what they
 * freed. On failure (-ENOSPC before anything changed; -EIO: the medium failed, and the
 * filesystem is read-only from now on) frees nothing. Ends the transaction either way.
 */
int txn_commit(struct txn *t);
/* Ends a transaction that was not committed. */
void txn_abort(struct txn *t);

/*
 * Writes the inode's state as a fresh log for head word `head`: into area (248 bytes, zero
 * padded) and, if it may, segments of new blocks (stored, not fenced). -ENOSPC: no blocks, or
 * no segments allowed and it does not fit. The caller installs log and map.
 */
int log_rewrite(struct pmemfs *fs, struct inode *i, uint64_t head, bool segments,
		unsigned flags, uint8_t area[PMEMFS_AREA_SIZE], struct log *ret_log,
		struct rangemap *ret_map);
/* States the log anew where its dead part outweighs the live one. Exclusive lock. */
int inode_compact(struct pmemfs *fs, struct inode *i);
bool inode_wants_compact(const struct inode *i);

/* One journal record: entries are collected, then written to a slot by journal_commit. */
struct journal_buf {
	uint32_t len, entries;
	uint8_t data[PMEMFS_BLOCK_SIZE - sizeof(struct pmemfs_journal)]
	    __attribute__((aligned(8)));
};
void journal_add(struct journal_buf *b, uint64_t ino, uint64_t from, unsigned type,
		 uint64_t where, uint64_t mirror, const void *bytes, uint32_t len);
/* Takes a slot and writes the record; durable on return. The slot is the caller's. */
int journal_commit(struct pmemfs *fs, struct journal_buf *b, void **ret_slot);
/* What the record describes was applied and fenced. */
void journal_release(struct pmemfs *fs, void *slot);
/* At mount, before anything else reads inodes: replays what this mount number wrote; fences. */
int journal_replay(struct pmemfs *fs, uint64_t *ret_replayed);

/* ---- inode tables (itable.c)
 * ------------------------------------------------------------------- */

struct itable {
	pthread_mutex_t lock;
	struct inode *inode; /* the table's own */
	struct itblock {
		uint64_t block; /* 0: not there */
		uint8_t used;	/* bit for each slot */
		bool known;	/* used was read */
		bool listed;	/* on the list of blocks with room */
	} * v;
	size_t n, cap;
	size_t scanned; /* blocks below are known or were never unknown */
	uint32_t *room; /* blocks with free slots */
	size_t nroom, roomcap;
	uint64_t empty; /* known blocks with no used slot */
	/* lock: inodes given out, less those taken back, since the mount; the first shard's
	 * begins with those there were */
	_Atomic int64_t inodes;
};
/* In all tables. */
uint64_t itable_inodes(const struct pmemfs *fs);
void itable_set_inodes(struct pmemfs *fs, uint64_t n);

int itable_load(struct pmemfs *fs, unsigned shard); /* reads the table inode */
void itable_done(struct pmemfs *fs, unsigned shard);
/* Where the inode's slot is. -ESTALE: no such inode. */
int itable_find(struct pmemfs *fs, uint64_t ino, uint64_t *ret_slot);
/* The smallest used inode number that is not below `from`; 0: none. */
uint64_t itable_next_used(struct pmemfs *fs, uint64_t from);
/* A free slot in or near the shard, marked used in DRAM; ret_head is its present word. */
int itable_alloc(struct pmemfs *fs, unsigned shard, uint64_t *ret_ino, uint64_t *ret_slot,
		 uint64_t *ret_head);
void itable_free(struct pmemfs *fs, uint64_t ino);
/* A table block of free slots, whose log id is `id`. */
void itable_free_slots(struct pmemfs_slot ret[PMEMFS_SLOTS_PER_BLOCK], uint64_t id);
/* Gives table blocks without inodes back to the free space. all: keep none. */
int itable_trim(struct pmemfs *fs, unsigned shard, bool all);
/* At recovery: the scan saw a used slot; it saw them all. */
void itable_set_used(struct pmemfs *fs, uint64_t ino);
void itable_scanned(struct pmemfs *fs, unsigned shard);

/* ---- the filesystem (mount.c, recover.c, saved.c)
 * ------------------------------------------------ */

struct shard {
	pthread_mutex_t space; /* guards small and huge */
	struct rangemap small; /* free ranges that hold no whole aligned 2 MiB */
	struct rangemap huge;  /* whole aligned 2 MiB units */
	uint64_t hint;
	_Atomic uint64_t credit;      /* see alloc.c */
	_Atomic int64_t dentry_bytes; /* not yet in the common sum */
	struct itable table;
	struct journal_slot {
		pthread_mutex_t lock;
		uint64_t off;
		struct pmemfs *fs;
	} journal[PMEMFS_JOURNAL_SLOTS];
} __attribute__((aligned(64)));

#define ICACHE_PARTS 64
struct icache_part {
	pthread_mutex_t lock;
	struct inode **bucket;
	size_t buckets, count;
	struct inode *idle; /* a directory without references that is kept */
} __attribute__((aligned(64)));

struct pmemfs {
	/* What each operation reads and few write */
	struct media *media;
	uint64_t seed;
	uint64_t blocks;
	unsigned shards;
	unsigned copies; /* of metadata: 1 or 2 */
	uint64_t mirror; /* bytes from a slot or journal slot to its copy; 0: there is none */
	struct shard *shard;
	atomic_bool readonly;
	atomic_bool damaged; /* seen corruption: no writing until fsck */
	bool was_clean;
	bool keep_freed; /* fsck: what is freed is given to nobody */
	bool both; /* tables and limits are read from both copies: after a crash, and by fsck */
	_Atomic uint64_t free;	      /* see alloc.c; shards change it seldom */
	_Atomic int64_t dentry_bytes; /* the same */
	struct quota quota;
	struct bad_blocks bad;
	struct parity *parity; /* NULL: there is none */
	struct pmemfs_options options;
	struct pmemfs_super sb; /* constant but for the mutable part, at mount and unmount */
	/* What operations write */
	_Atomic uint64_t
	    next_id; /* log id of the next new slot: greater than any it ever had */
	pthread_mutex_t rename;
	struct icache_part icache[ICACHE_PARTS];
};

/* ---- metadata, which may have a copy ---- */

/* How much of a segment of that many blocks holds records, in bytes, and how far its copy is.
 */
static inline uint64_t seg_bytes(const struct pmemfs *fs, uint64_t blocks)
{
	return blocks / fs->copies * PMEMFS_BLOCK_SIZE;
}
static inline uint64_t seg_mirror(const struct pmemfs *fs, uint64_t blocks)
{
	return fs->copies == 1 ? 0 : seg_bytes(fs, blocks);
}

/*
 * Stores into both copies, in one epoch: a crash leaves each of them old, new or torn, and one
 * that is whole counts. mirror: bytes to the copy, 0 if there is none.
 */
static inline void meta_copy(struct pmemfs *fs, uint64_t off, uint64_t mirror, const void *src,
			     size_t len)
{
	media_copy(fs->media, off, src, len);
	if (mirror)
		media_copy(fs->media, off + mirror, src, len);
}
static inline void meta_clear(struct pmemfs *fs, uint64_t off, uint64_t mirror, size_t len)
{
	media_clear(fs->media, off, len);
	if (mirror)
		media_clear(fs->media, off + mirror, len);
}
/* The head word of a slot; flushed. */
static inline void meta_head(struct pmemfs *fs, uint64_t slot, uint64_t head)
{
	media_store8(fs->media, slot, head);
	media_flush(fs->media, slot, 8);
	if (fs->mirror) {
		media_store8(fs->media, slot + fs->mirror, head);
		media_flush(fs->media, slot + fs->mirror, 8);
	}
}

static inline bool quota_is_on(const struct pmemfs *fs)
{
	return atomic_load_explicit(&fs->quota.state, memory_order_acquire) != QUOTA_OFF;
}
void quota_init(struct pmemfs *fs);
void quota_done(struct pmemfs *fs);
/* NULL: nothing is known of it (make: never). kind is the index. */
struct quota_id *quota_find(struct pmemfs *fs, unsigned kind, uint32_t id, bool make);
/* Blocks of data and log. */
uint64_t quota_blocks(const struct inode *i);
/* Adds an inode, as it is on the medium, to the sums. */
void quota_count(struct pmemfs *fs, const struct inode *i);
/* All usage that is not nothing, ascending by kind and id; the array is the caller's to free.
 */
size_t quota_collect(struct pmemfs *fs, struct quota_usage **ret);
/* Sets all usage to nothing; charges of inodes do not hold any more. State OFF. */
void quota_clear(struct pmemfs *fs);

/*
 * In a commit, while quota_is_on: before its parts are placed; when they are (-EDQUOT: nothing
 * was claimed then); at its end, whether it was done or not.
 */
void quota_begin(struct txn *t);
int quota_claim(struct txn *t);
void quota_end(struct txn *t, bool done);
/* How long a log's new segment should be: n blocks, or `need` where quotas leave less. */
uint64_t quota_segment(const struct txn *t, const struct txn_part *p, uint64_t n,
		       uint64_t need);

/* ---- quotas: the file of limits (limits.c) ---- */

/* Is the entry one that counts, or free? */
bool limit_valid(const struct pmemfs_limit *e);
bool limit_is_free(const struct pmemfs_limit *e);
/*
 * Calls fn with each entry; or, e NULL, with the first entry of a block that cannot be read. A
 * last one that is cut off comes with the bytes that are there, and zeros.
 */
typedef void (*limit_fn)(void *arg, uint64_t index, const struct pmemfs_limit *e);
void limits_walk(struct pmemfs *fs, const struct inode *i, limit_fn fn, void *arg);
/*
 * At mount: reads the file, if there is one. Entries that make no sense are reported and do not
 * count. -EUCLEAN, -EIO: its log is damaged. The state stays OFF.
 */
int limits_load(struct pmemfs *fs);
/* Afterwards: sums up the usage, if that is not done (known), and switches quotas on. */
void limits_start(struct pmemfs *fs, bool known);
/* Overwrites an entry (whole: all of its block) with zeros. For fsck. */
int limits_erase(struct pmemfs *fs, uint64_t index, bool whole);

/*
 * The seed of a data block's checksum binds it to filesystem and place. The block that holds
 * the end of the file is checksummed up to there only: what follows in it is never believed.
 */
static inline uint64_t data_seed(const struct pmemfs *fs, uint64_t block)
{
	return fs->seed ^ (block * 0x9e3779b97f4a7c15ull);
}
static inline uint32_t data_valid(uint64_t size, uint64_t fblock)
{
	uint64_t start = fblock << PMEMFS_BLOCK_SHIFT;

	if (start >= size)
		return 0;
	return size - start < PMEMFS_BLOCK_SIZE ? (uint32_t)(size - start) : PMEMFS_BLOCK_SIZE;
}

/*
 * Takes the inode's lock; fails (without it) where the inode is gone or damaged. inode_get and
 * lock in one: inode_open_*; inode_close unlocks and gives the reference back.
 */
int inode_lock(struct inode *i, bool exclusive);
int inode_trylock(struct inode *i); /* exclusive; -EBUSY: somebody has it */
static inline void inode_unlock(struct inode *i)
{
	pthread_rwlock_unlock(&i->lock);
}
int inode_open(struct pmemfs *fs, uint64_t ino, bool exclusive, struct inode **ret);
void inode_close(struct pmemfs *fs, struct inode *i);

/* ---- what operations build (edit.c, used by file.c and attr.c)
 * -------------------------------- */

/* A change of a file's mapping that is being built: new extents and their checksums. */
struct edit {
	struct pmemfs *fs;
	struct inode *inode;
	uint64_t size;	     /* the file's new size */
	struct extvec taken; /* blocks to give back if it fails */
	struct txn_data *data;
	size_t datas, datacap;
	struct pmemfs_extent *e;
	size_t n, cap;
	le64 *csum;
	size_t csums, csumcap;
	struct pmemfs_extent efixed[4]; /* these arrays begin here, until there are more */
	le64 csumfixed[64];
	struct txn_data datafixed[4];
	unsigned partial; /* of these buffers are in use: head, tail and old end at most */
	char partials[3][PMEMFS_BLOCK_SIZE] __attribute__((aligned(64)));
};
void edit_begin(struct edit *ed, struct pmemfs *fs, struct inode *i, uint64_t size);
/* Blocks [b, b + n) take whole blocks from src, which stays as it is until the edit ends. */
int edit_full(struct edit *ed, uint64_t b, uint64_t n, const void *src);
/*
 * The same, stored and fenced at once in new blocks; the inode need not be locked. A crash
 * leaves them free: nothing refers to them before the commit. On failure the edit is as it was.
 */
int edit_ahead(struct edit *ed, uint64_t b, uint64_t n, const void *src);
/* Bytes [from, to) of block b take src (NULL: zeros). */
int edit_partial(struct edit *ed, uint64_t b, uint32_t from, uint32_t to, const void *src);
/*
 * Block b, which is written, goes elsewhere as it is; or, lost: with a checksum that nothing
 * matches, so that it stays lost.
 */
int edit_move(struct edit *ed, uint64_t b, bool lost);
/* The block that holds the old end of the file: zeros up to the new one, or a new checksum. */
int edit_old_end(struct edit *ed);
/* Unmaps what is mapped in the blocks [b, end). */
void edit_hole(struct edit *ed, uint64_t b, uint64_t end);
/* Allocates what is not mapped in the blocks [b, end); zero: and makes the rest read as zeros.
 */
int edit_reserve(struct edit *ed, uint64_t b, uint64_t end, bool zero);
/*
 * Commits: mask and fields as in struct pmemfs_update (UP_SIZE is added when the size changes),
 * values from attr. Ends the edit either way.
 */
int edit_commit(struct edit *ed, unsigned mask, const struct pmemfs_attr *attr, unsigned flags);
void edit_abort(struct edit *ed);
/* Writes bytes of a file that the caller has locked; 0 or a negative errno. (file.c) */
int file_put(struct pmemfs *fs, struct inode *i, uint64_t off, const void *buf, size_t size);
/*
 * Block b, which is written, goes elsewhere, by copy-on-write as any other change: a crash
 * leaves it where it was or where it goes. lost: as edit_move. The exclusive lock; nothing else
 * changes.
 */
int file_move_block(struct pmemfs *fs, struct inode *i, uint64_t b, bool lost);
/* Checks blocks [b, end) of the written range r on the medium. -EIO, and it is reported. */
int file_verify(struct pmemfs *fs, const struct inode *i, const struct range *r, uint64_t b,
		uint64_t end);
/*
 * Is `hash` the checksum of block b of the written range r? Else -EILSEQ; or the error of
 * reading that. A damaged checksum whose copy is right is mended.
 */
int file_judge(struct pmemfs *fs, const struct inode *i, const struct range *r, uint64_t b,
	       uint64_t hash);
/*
 * Block b of the written range r cannot be read (error says why), or is not what it should be
 * (-EILSEQ): rebuilds it from parity in ret (4 KiB) and, with `store`, on the medium, if that
 * takes it (ret_stored); else the block is bad, and goes on the list. -EIO: it is lost. Either
 * is reported. The inode's lock, shared at least.
 */
int file_rebuild(struct pmemfs *fs, const struct inode *i, const struct range *r, uint64_t b,
		 int error, bool store, void *ret, bool *ret_stored);
/* Copies block b's first len bytes, verified, to dst; zeros where it is not written. */
int file_read_block(struct pmemfs *fs, const struct inode *i, uint64_t b, uint32_t len,
		    void *dst);

/* Tells the administrator. */
void fs_report(struct pmemfs *fs, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Corruption or a failed medium: no writing any more; says why once. */
void fs_damage(struct pmemfs *fs, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The shard that the calling thread prefers. */
unsigned fs_home_shard(const struct pmemfs *fs);
struct timespec fs_now(void);

/* Allocates DRAM structures for a superblock that was read; no recovery, no inode is read. */
struct pmemfs *fs_new(struct media *m, const struct pmemfs_super *sb,
		      const struct pmemfs_options *o);
void fs_delete(struct pmemfs *fs);

/*
 * Finds all free space, counts inodes, frees orphans, clears torn tails, by reading every log
 * in parallel. Damage is reported and makes the filesystem read-only.
 */
int fs_recover(struct pmemfs *fs);

/* The saved free list: written at a clean unmount into free space, read at mount. */
int saved_write(struct pmemfs *fs);
int saved_read(struct pmemfs *fs); /* -EUCLEAN: not usable, recover instead */

#endif
