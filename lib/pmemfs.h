/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmemfs in a process: the one interface that mkfs, fsck, the FUSE face and the tests use.
 *
 * Objects are named by inode number. Functions return 0 (or a count) or a negative errno, and
 * leave their ret_ arguments untouched on failure. All of them may be called from any thread.
 * Each call is atomic, and durable when it returns (the FILE kind of media: see media.h).
 * Permissions are the caller's business (the kernel checks them); everything else that POSIX
 * asks of the operation is checked here.
 *
 * References: pmemfs_lookup, pmemfs_make, pmemfs_link, pmemfs_tmpfile and each entry that
 * pmemfs_readdir hands out with PMEMFS_READDIR_PLUS give the caller one reference on the inode;
 * pmemfs_forget gives references back. An inode that has no name left lives until its last
 * reference goes. Operations need no reference to be held (the root always exists), but only a
 * reference keeps an unlinked inode alive.
 */
#ifndef PMEMFS_H
#define PMEMFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "media.h"

struct pmemfs;

/* Told what an administrator should know: level 0 error, 1 warning, 2 information. One line. */
typedef void (*pmemfs_report)(void *arg, int level, const char *message);

struct pmemfs_options {
	bool readonly;
	bool noacl;		   /* no access control lists: see pmemfs_setxattr */
	unsigned recovery_threads; /* 0: one per CPU */
	pmemfs_report report;	   /* may be NULL */
	void *report_arg;
};

struct pmemfs_attr {
	uint64_t ino;
	uint32_t generation;
	uint32_t mode; /* with type */
	uint32_t uid, gid;
	uint32_t nlink;
	uint32_t rdev_major, rdev_minor;
	uint32_t flags; /* those of chattr(1), as FS_IOC_GETFLAGS has them */
	uint64_t size;
	uint64_t blocks; /* of 512 bytes */
	struct timespec atime, mtime, ctime, btime;
};

/* ---- format ---- */

struct pmemfs_format_options {
	uint8_t uuid[16];  /* all zero: a random one is made */
	const char *label; /* NULL or up to 32 bytes */
	uint64_t size;	   /* bytes of the medium to use; 0: all */
	unsigned shards;   /* 0: chosen from CPUs and size */
	bool replica;	   /* two copies of all metadata */
	bool parity;	   /* of the data of files */
	uint32_t root_uid, root_gid;
	uint32_t root_mode; /* permission bits; 0: 0755 */
	int64_t now;	    /* seconds; for reproducible images; 0: the clock */
	uint64_t seed;	    /* of all checksums; for the same; 0: a random one */
};

/*
 * Makes an empty filesystem. Constant time. A crash inside leaves either what was there before
 * or something that does not mount. -EFBIG: medium too small, -EINVAL: bad option.
 */
int pmemfs_format(struct media *m, const struct pmemfs_format_options *o);

/* What a superblock says, for mkfs, info and probing. */
struct pmemfs_info {
	uint32_t version;
	uint8_t uuid[16];
	char label[33];
	uint64_t size; /* bytes */
	uint32_t shards;
	uint64_t compat, incompat, ro_compat;
	bool only_readonly; /* it has features that forbid writing */
	bool replica;	    /* metadata has two copies */
	bool parity;	    /* lost data can be rebuilt */
	int64_t created, mounted, checked;
	uint32_t mounts;
	bool clean, error;
	bool primary_ok, replica_ok;
	bool counters_valid; /* clean: the next three are true */
	uint64_t free_blocks, used_inodes, dentry_bytes;
	bool calibrated;
	int64_t calibrated_when;
	uint32_t calibrated_cpu; /* CPUID leaf 1 EAX of where that was */
};

/*
 * Reads and checks the superblock. -EINVAL: not pmemfs, -EUCLEAN: both copies are damaged,
 * -EPROTONOSUPPORT: another version of the format, -ENOSPC: medium smaller than the filesystem.
 * ret_why as in media_open. ret is filled as far as known for the last two.
 */
int pmemfs_probe(struct media *m, struct pmemfs_info *ret, const char **ret_why);

/*
 * The list of bad blocks, ascending; PMEMFS_BAD_BLOCKS at most. Their number, or an error of
 * pmemfs_probe.
 */
#define PMEMFS_BAD_BLOCKS 384u
int pmemfs_bad_blocks(struct media *m, uint64_t ret[PMEMFS_BAD_BLOCKS]);

/* ---- store kernels ---- */

struct calibrate_result;
struct pmemfs_calibrate_options {
	uint64_t budget_ns; /* how long to measure; 0: one second */
	/* done of total steps; may be NULL */
	void (*progress)(void *arg, unsigned done, unsigned total);
	void *arg;
};

/*
 * Measures which store kernel is fastest for what, in free space of the filesystem on m, which
 * is not mounted, and stores the table in the superblock. ret (calibrate.h) may be NULL. A
 * crash inside leaves a filesystem that the next mount recovers. -ENOSPC: no free space in one
 * piece to measure in; -EIO: the medium failed there; other errors as pmemfs_mount. ret_why as
 * in media_open.
 */
int pmemfs_calibrate(struct media *m, const struct pmemfs_calibrate_options *o,
		     struct calibrate_result *ret, const char **ret_why);

/*
 * Has the media copy as the table in its superblock says, as mounting does: 0, -ENOENT: there
 * is none, -EXDEV: it was measured on another model of CPU, -ENOTSUP: it has a kernel that this
 * CPU lacks or that is not durable here. The starting rule stays then. Errors of pmemfs_probe.
 */
int pmemfs_use_calibration(struct media *m);

/* ---- mount ---- */

/*
 * Mounts the filesystem on m (which stays the caller's, and open). Recovers after a crash.
 * Errors as pmemfs_probe; -EROFS: the medium is read-only and options ask for writing;
 * -EUCLEAN: damaged beyond mounting. A filesystem whose recovery found damage is mounted
 * read-only and reports so. ret_why as in media_open.
 */
int pmemfs_mount(struct media *m, const struct pmemfs_options *o, struct pmemfs **ret,
		 const char **ret_why);

/* Frees orphans, saves the free list, marks it clean. All references are gone afterwards. */
int pmemfs_unmount(struct pmemfs *fs);

/* Drops everything in DRAM and writes nothing: what a killed daemon leaves. For tests. */
void pmemfs_abandon(struct pmemfs *fs);

/* True for a filesystem that was mounted read-only or became so by an error. */
bool pmemfs_is_readonly(const struct pmemfs *fs);
/* Switches between read-only and writing (remount). -EROFS if damage or medium forbid writing.
 */
int pmemfs_set_readonly(struct pmemfs *fs, bool readonly);

struct media *pmemfs_media(struct pmemfs *fs);

struct pmemfs_statfs {
	uint64_t blocks, bfree, bavail; /* of 4096 bytes */
	uint64_t files, ffree;
};
void pmemfs_statfs(struct pmemfs *fs, struct pmemfs_statfs *ret);

/* Everything that returned is durable already; on FILE media msyncs. */
int pmemfs_sync(struct pmemfs *fs);

/* ---- names ---- */

/* The owner of what is made; the umask counts where the directory has no default ACL. */
struct pmemfs_cred {
	uint32_t uid, gid;
	uint32_t umask;
};

/* "." (of anything) and ".." are allowed. -ENOENT, -ENOTDIR, -ENAMETOOLONG, -EIO. */
int pmemfs_lookup(struct pmemfs *fs, uint64_t dir, const char *name, struct pmemfs_attr *ret);

/* Gives back n references. */
void pmemfs_forget(struct pmemfs *fs, uint64_t ino, uint64_t n);

/*
 * Makes a regular file, directory, fifo, socket, device (mode has the type) or, with S_IFLNK, a
 * symlink to `target`. A set-group-id directory passes on its gid, and to directories the bit;
 * a default ACL becomes the new one's, and the mode what both allow. -EEXIST, -ENOSPC, -EROFS,
 * ...
 */
int pmemfs_make(struct pmemfs *fs, uint64_t dir, const char *name, uint32_t mode,
		uint32_t rdev_major, uint32_t rdev_minor, const char *target,
		const struct pmemfs_cred *cred, struct pmemfs_attr *ret);

/* A regular file without a name (O_TMPFILE); pmemfs_link can give it one. */
int pmemfs_tmpfile(struct pmemfs *fs, uint64_t dir, uint32_t mode,
		   const struct pmemfs_cred *cred, struct pmemfs_attr *ret);

int pmemfs_link(struct pmemfs *fs, uint64_t ino, uint64_t dir, const char *name,
		struct pmemfs_attr *ret);
int pmemfs_unlink(struct pmemfs *fs, uint64_t dir, const char *name);
int pmemfs_rmdir(struct pmemfs *fs, uint64_t dir, const char *name);

/*
 * flags: 0, RENAME_NOREPLACE, RENAME_EXCHANGE; RENAME_WHITEOUT, also with NOREPLACE, makes a
 * character device 0/0 of mode 0, root's, under the old name.
 */
int pmemfs_rename(struct pmemfs *fs, uint64_t dir, const char *name, uint64_t newdir,
		  const char *newname, unsigned flags);
/* The same; a whiteout belongs to `by`. */
int pmemfs_rename_by(struct pmemfs *fs, uint64_t dir, const char *name, uint64_t newdir,
		     const char *newname, unsigned flags, const struct pmemfs_cred *by);

/* Copies the target, without a NUL, returns its length (at most size). -EINVAL: no symlink. */
ssize_t pmemfs_readlink(struct pmemfs *fs, uint64_t ino, char *buf, size_t size);

/*
 * Calls emit for each entry whose cookie is greater than `cookie` (0 starts; "." and ".." come
 * first) until it returns non-zero, which is not an error. With PLUS, attr is filled and the
 * caller gets a reference (but for "." and "..") unless emit returned non-zero; otherwise only
 * attr->ino and the type bits of attr->mode are set. An entry whose inode is damaged comes,
 * with PLUS too, without a reference and with attr->nlink 0. "." comes with attr->size, the
 * cookie of the next name that will be added. emit must not call back into pmemfs.
 */
#define PMEMFS_READDIR_PLUS 1u
typedef int (*pmemfs_emit)(void *arg, const char *name, const struct pmemfs_attr *attr,
			   uint64_t cookie);
int pmemfs_readdir(struct pmemfs *fs, uint64_t dir, uint64_t cookie, unsigned flags,
		   pmemfs_emit emit, void *arg);

/* ---- attributes ---- */

int pmemfs_getattr(struct pmemfs *fs, uint64_t ino, struct pmemfs_attr *ret);

#define PMEMFS_SET_MODE	     0x01u
#define PMEMFS_SET_UID	     0x02u
#define PMEMFS_SET_GID	     0x04u
#define PMEMFS_SET_SIZE	     0x08u
#define PMEMFS_SET_ATIME     0x10u
#define PMEMFS_SET_MTIME     0x20u
#define PMEMFS_SET_CTIME     0x40u
#define PMEMFS_SET_ATIME_NOW 0x80u
#define PMEMFS_SET_MTIME_NOW 0x100u
#define PMEMFS_SET_KILL_PRIV 0x200u /* also clear suid, and sgid when group-executable */
#define PMEMFS_SET_FLAGS     0x400u
#define PMEMFS_SET_UNLIMITED 0x800u /* the new owner's quota does not stop it */
/*
 * Sets what the mask names, from a; ctime becomes now unless given. ret may be NULL. -EPERM: it
 * is immutable or append-only; -EOPNOTSUPP: an unknown flag.
 */
int pmemfs_setattr(struct pmemfs *fs, uint64_t ino, unsigned mask, const struct pmemfs_attr *a,
		   struct pmemfs_attr *ret);

/*
 * name is "user.x" and so on. flags: XATTR_CREATE, XATTR_REPLACE.
 *
 * "system.posix_acl_access" and "system.posix_acl_default" are access control lists in the form
 * of Linux; setting the first sets the mode too, and the mode is always what it says. Removing
 * one that is not there is no error. With the mount option noacl they are neither seen nor
 * inherited: -EOPNOTSUPP.
 */
#define PMEMFS_XATTR_KILL_SGID                                         \
	0x100 /* flag: with an access list, clear the set-group-id bit \
	       */
int pmemfs_setxattr(struct pmemfs *fs, uint64_t ino, const char *name, const void *value,
		    size_t size, int flags);
/* size 0 asks for the length. -ENODATA, -ERANGE. */
ssize_t pmemfs_getxattr(struct pmemfs *fs, uint64_t ino, const char *name, void *value,
			size_t size);
ssize_t pmemfs_listxattr(struct pmemfs *fs, uint64_t ino, char *list, size_t size);
int pmemfs_removexattr(struct pmemfs *fs, uint64_t ino, const char *name);

/* ---- quotas ---- */

#define PMEMFS_QUOTA_USER  1u
#define PMEMFS_QUOTA_GROUP 2u

/* What a user or a group uses, and may use at most. */
struct pmemfs_quota {
	uint32_t kind, id;
	uint64_t blocks, block_limit; /* of 4096 bytes, data and logs; limit 0: none */
	uint64_t inodes, inode_limit;
};

/*
 * Without quotas nothing is counted. Switching them on sums up what is used, while others go on
 * (commits wait for one another meanwhile); they stay on for later mounts, until they are
 * switched off, which drops the limits. What would exceed a limit fails with -EDQUOT and
 * changes nothing. Refused is only what grows: a file's blocks, a directory, attributes, the
 * number of inodes; what an overwrite or a chmod adds to a log is counted, not refused, and so
 * are removals. Of id 0 usage is counted, and never limited. -EROFS.
 */
int pmemfs_quota_on(struct pmemfs *fs);
int pmemfs_quota_off(struct pmemfs *fs);

/*
 * Sets one limit or both; what is used already stays. -ESRCH: there are no quotas; -EINVAL: id
 * 0, or no such kind; -EROFS, -ENOSPC, -EIO.
 */
#define PMEMFS_QUOTA_BLOCKS 1u
#define PMEMFS_QUOTA_INODES 2u
int pmemfs_quota_set(struct pmemfs *fs, const struct pmemfs_quota *q, unsigned mask);

/*
 * Those of a kind with ids from `from` on that use anything or have a limit, ascending, max at
 * most; returns how many. -ESRCH: there are no quotas.
 */
ssize_t pmemfs_quota_list(struct pmemfs *fs, uint32_t kind, uint32_t from,
			  struct pmemfs_quota *ret, size_t max);

/* ---- files ---- */

#define PMEMFS_WRITE_KILL_PRIV 1u
#define PMEMFS_WRITE_APPEND    2u /* at the end of the file, whatever off is */
/*
 * All or nothing up to PMEMFS_WRITE_MAX bytes; more are cut off there. Returns the bytes
 * written. -EFBIG, -ENOSPC, -EIO (a block to be merged is damaged).
 */
#define PMEMFS_WRITE_MAX (16u << 20)
ssize_t pmemfs_write(struct pmemfs *fs, uint64_t ino, uint64_t off, const void *buf,
		     size_t size, unsigned flags);

/* Returns the bytes read, less than size only at the end of the file. */
ssize_t pmemfs_read(struct pmemfs *fs, uint64_t ino, uint64_t off, void *buf, size_t size);

/*
 * Reads without copying: calls fn once with an iov that points into the mapping (holes: zeros),
 * verified, while the file is locked against change. Returns fn's result or a negative errno.
 * -ENOTSUP where the medium cannot be pointed into: use pmemfs_read.
 */
typedef int (*pmemfs_consume)(void *arg, const struct iovec *iov, int n, size_t total);
int pmemfs_read_iov(struct pmemfs *fs, uint64_t ino, uint64_t off, size_t size,
		    pmemfs_consume fn, void *arg);

/* mode: 0, FALLOC_FL_KEEP_SIZE, with PUNCH_HOLE or ZERO_RANGE as in fallocate(2). */
int pmemfs_fallocate(struct pmemfs *fs, uint64_t ino, int mode, uint64_t off, uint64_t len);

/* whence SEEK_DATA or SEEK_HOLE. Returns the offset. -ENXIO. */
int64_t pmemfs_seek(struct pmemfs *fs, uint64_t ino, uint64_t off, int whence);

/* ---- scrub ---- */

/* How far a scrub has come; {0} begins one. */
struct pmemfs_scrub {
	uint64_t next;	  /* inode number, or more; 0: at the beginning, or at the end */
	uint64_t inodes;  /* looked at */
	uint64_t bytes;	  /* of logs and data, verified */
	uint64_t damaged; /* inodes, and copies of the superblock */
	/* inodes of whose metadata one copy was damaged, or whose data were rebuilt; stripes
	 * whose parity was not right */
	uint64_t repaired;
};

/*
 * Verifies the next inodes: their logs and data, about `bytes` of them. Restores damaged copies
 * of metadata; other damage is counted and reported. 1: there is more; 0: all was looked at.
 * Any thread, one at a time for each scrub; others may use the filesystem meanwhile.
 */
int pmemfs_scrub(struct pmemfs *fs, struct pmemfs_scrub *s, uint64_t bytes);

/* ---- check ---- */

/* What fsck does with the problems it finds. */
enum pmemfs_fix { PMEMFS_FIX_NONE, PMEMFS_FIX_SAFE, PMEMFS_FIX_ASK, PMEMFS_FIX_ALL };

struct pmemfs_check_options {
	enum pmemfs_fix fix; /* NONE: m should be open with MEDIA_SHADOW */
	bool force;	     /* check although it is clean */
	bool no_data;	     /* leave the checksums of file data out */
	bool bad_blocks;     /* read every block, and put the list of bad ones right */
	/* A problem, in words, with its number; returns whether to fix it (FIX_ASK). */
	bool (*problem)(void *arg, unsigned code, const char *message, bool fixable);
	void (*progress)(void *arg, unsigned pass, const char *what, uint64_t done,
			 uint64_t total);
	void *arg;
};
struct pmemfs_check_result {
	uint64_t problems, fixed;
	uint64_t files, dirs, others; /* inodes by kind */
	uint64_t used_blocks, free_blocks;
	bool was_clean, checked; /* checked: passes were run */
};
/* 0 when the check itself ran; result says what was found. -EUCLEAN: no usable superblock. */
int pmemfs_check(struct media *m, const struct pmemfs_check_options *o,
		 struct pmemfs_check_result *ret);

#endif
