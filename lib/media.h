/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The media layer: maps a device or image and is the only writer of it.
 *
 * Everything above addresses the medium by byte offset. Reads go through media_read (a copy) or
 * media_hash; both are bounds-checked and survive a poisoned or vanished page with -EIO. Writes
 * go through media_store8, media_copy and media_clear; none of them is durable before the
 * calling thread's next media_fence. A store that faults sets the media's sticky error, which
 * media_fence reports.
 */
#ifndef PMEMFS_MEDIA_H
#define PMEMFS_MEDIA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum media_kind {
	MEDIA_DEVDAX,	/* character device: flush + fence is durable */
	MEDIA_FSDAX,	/* file on fsdax, MAP_SYNC: flush + fence is durable */
	MEDIA_VOLATILE, /* file on tmpfs, hugetlbfs, ramfs or a memfd: lasts as long as the
			   machine's power */
	MEDIA_FILE,   /* file on a disk filesystem: survives a killed process; msync for more */
	MEDIA_MEMORY, /* anonymous memory given by a test */
};

/* What the trace hook is told. The hook runs in the storing thread, after the store was made.
 */
enum media_event {
	MEDIA_EV_STORE8, /* atomic 8-byte cached store; durable after FLUSH + FENCE */
	MEDIA_EV_STORE, /* cached stores of len bytes, in address order; not yet written back */
	MEDIA_EV_NT,	/* non-temporal stores of whole lines; durable after FENCE */
	MEDIA_EV_FLUSH, /* the lines of [off, off + len) are being written back */
	MEDIA_EV_FENCE, /* off = len = 0 */
};
typedef void (*media_hook)(void *arg, enum media_event ev, uint64_t off, const void *bytes,
			   size_t len);

struct media_counts {
	uint64_t fences;
	uint64_t flushes;  /* lines written back by clwb, clflushopt or clflush */
	uint64_t nt_lines; /* lines stored non-temporally */
	uint64_t stores8;
	uint64_t bytes; /* bytes given to copy, clear and store8 */
};

#define MEDIA_READONLY 0x1u /* no stores at all */
#define MEDIA_SHADOW   0x2u /* opened read-only; stores go to private copies in DRAM */
#define MEDIA_NOLOCK   0x4u /* do not lock: for tools that only look at the superblock */
#define MEDIA_WAIT     0x8u /* wait up to 5 s for a lock that another process holds */

struct media;

/*
 * Maps `path` whole. ret_why, on failure, is a static or per-thread string that says in words
 * what is wrong and what to do, without the path ("is a block device: pmemfs needs ...").
 * Errors: -ENOENT, -EACCES, -ENOTBLK (block device), -EISDIR, -EINVAL (not a kind of memory),
 * -EBUSY (in use: flock or, devdax, a lock on the character device), -EROFS, -EFBIG (smaller
 * than 4 KiB), -ENOMEM and whatever mmap says. The device is locked exclusively (shared with
 * MEDIA_READONLY and MEDIA_SHADOW) until media_close.
 */
int media_open(const char *path, unsigned flags, struct media **ret, const char **ret_why);

/* Uses `size` bytes of memory at `base` (page-aligned, owned by the caller) as the medium. */
int media_open_memory(void *base, uint64_t size, unsigned flags, struct media **ret);

/* Unmaps and unlocks. The caller made everything durable before. NULL is allowed. */
void media_close(struct media *m);

uint64_t media_size(const struct media *m); /* bytes */
enum media_kind media_kind(const struct media *m);
const char *media_kind_name(enum media_kind kind);
bool media_readonly(const struct media *m);
bool media_shadowed(const struct media *m); /* MEDIA_SHADOW: stores leave the medium alone */
/*
 * Name of the kernel that runs for a copy of len bytes by a single writer, e.g. "movnt512",
 * "clwb".
 */
const char *media_kernel_name(const struct media *m, size_t len);
bool media_eadr(const struct media *m);

/* ---- which kernel runs for what ---- */

#define MEDIA_CLASSES 16 /* sizes around 64 B << class: the last holds all from 1.5 MiB on */
#define MEDIA_WRITERS 4	 /* 1, 2, 3 or 4, 5 and more threads between a store and its fence */

/* Class c has the lengths from 48 << c to 96 << c, so that 768 bytes is where one begins. */
static inline unsigned media_class(size_t len)
{
	unsigned bits = 63 - __builtin_clzll((len + len / 3) | 64);

	return bits - 6 < MEDIA_CLASSES ? bits - 6 : MEDIA_CLASSES - 1;
}

/* What was measured, as numbers of kernels (copy.h); 0: what the starting rule has there. */
struct media_table {
	uint8_t copy[MEDIA_WRITERS][MEDIA_CLASSES];
	uint8_t clear[MEDIA_WRITERS][MEDIA_CLASSES];
};

/* The kernel for len bytes; row: of the table, see MEDIA_WRITERS. */
const char *media_kernel_for(const struct media *m, bool clear, size_t len, unsigned row);

/* The whole row in words: "movnt512 below 768 bytes, clwb from there". */
void media_policy_text(const struct media *m, bool clear, unsigned row, char *buf, size_t size);

/* How it came to that: "rule", "measured", or "forced". */
const char *media_policy_name(const struct media *m);

/*
 * How to choose: "auto" (the starting rule until a table is set), "rule", "rule:BYTES"
 * (non-temporal below so many bytes, cached stores from there), or always the kernel of that
 * name. -EINVAL: no such thing; -ENOTSUP: this CPU cannot, or what it stores would not be
 * durable here; ret_why as in media_open. Not while other threads use the media.
 */
int media_set_flush(struct media *m, const char *how, const char **ret_why);

/*
 * From now on by this table (NULL: the starting rule), unless media_set_flush said otherwise.
 * -ENOTSUP, and nothing changes: it names a kernel that this CPU lacks, or that is not durable
 * on this medium. Not while other threads use the media.
 */
int media_set_table(struct media *m, const struct media_table *t);

/* File descriptor of the device or image, -1 for memory. */
int media_fd(const struct media *m);

/*
 * Copies len bytes at off to dst. -ERANGE outside the medium, -EIO when a page is poisoned or
 * gone (dst is then undefined). Any thread, no locks.
 */
int media_read(const struct media *m, uint64_t off, void *dst, size_t len);

/* XXH3-64 of the len bytes at off with that seed. Errors as media_read. */
int media_hash(const struct media *m, uint64_t off, size_t len, uint64_t seed, uint64_t *ret);

/*
 * dst becomes its exclusive or with the len bytes at off, and with those at src unless that is
 * NULL. Errors as media_read; dst is undefined then.
 */
int media_xor(const struct media *m, uint64_t off, void *dst, const void *src, size_t len);

/*
 * The address of [off, off + len) for a reader that survives faults by itself (a system call).
 * NULL outside the medium, or where the range is shadowed (then use media_read).
 */
const void *media_ptr(const struct media *m, uint64_t off, size_t len);

/* Stores the 8-aligned word atomically. Needs media_flush and media_fence. */
void media_store8(struct media *m, uint64_t off, uint64_t value);

/*
 * The flushcache copy: copies and starts writing back, lines at the edges included. Durable
 * after the calling thread's next fence. src may be anywhere and unaligned; it must not
 * overlap.
 */
void media_copy(struct media *m, uint64_t off, const void *src, size_t len);

/*
 * The same for what can be done without: a store that faults is reported here, -EIO, and by no
 * fence. Non-temporal, which is what can mend a poisoned line.
 */
int media_copy_try(struct media *m, uint64_t off, const void *src, size_t len);

/*
 * A hint that media_copy of these bytes follows soon: where it would store them cached, their
 * lines are fetched meanwhile. Cached stores first read the line, which otherwise is what the
 * copy waits for.
 */
void media_expect_copy(struct media *m, uint64_t off, size_t len);

/* The same with zeros. */
void media_clear(struct media *m, uint64_t off, size_t len);

/* Starts writing back the lines of [off, off + len): after media_store8. */
void media_flush(struct media *m, uint64_t off, size_t len);

/*
 * Everything this thread stored and flushed is durable when it returns. Returns 0, or -EIO when
 * any store since the media was opened has faulted (sticky).
 */
int media_fence(struct media *m);

/*
 * What the calling thread has stored until now, for others to ask whether it has fenced since:
 * true only if it has.
 */
struct media_mark {
	const void *thread;
	uint64_t fences;
};
struct media_mark media_mark(const struct media *m);
bool media_mark_is_fenced(struct media_mark mark);

/* For MEDIA_FILE: msync of what may be dirty; 0 for the other kinds. 0 or negative errno. */
int media_sync(struct media *m);

/* Sums over all threads, since the media was opened. */
void media_count(const struct media *m, struct media_counts *ret);

/*
 * Is called before each store, with what it will change; unless it returns 0, nothing is stored
 * and the store has failed. In the storing thread. Not for shadowed media.
 */
typedef int (*media_before)(void *arg, uint64_t off, size_t len);
void media_set_before(struct media *m, media_before fn, void *arg);

/* Sets the hook (NULL: none). Not while other threads use the media. */
void media_set_hook(struct media *m, media_hook hook, void *arg);

#endif
