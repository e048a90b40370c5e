/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limit of FUSE: the face of pmemfs (fs/, the same options, caching and transport) over a
 * library that does next to nothing. It knows names, attributes and sizes, so that its answers
 * agree with one another; what is written is dropped, and zeros are read. With NULLFS_KEEP=1 in
 * the environment contents are kept in memory, for programs that want their data back. With
 * NULLFS_BUSY=A:B every write takes A ns, and B ns more for each KiB: the limit of FUSE for a
 * server whose writes take that long.
 *
 *	nullfs FILE DIR [-o OPTIONS]	FILE is looked at and left alone
 *
 * Lock: one for names and attributes; writes to a file that only knows its size take none.
 * Inode numbers are addresses, and the number 1 is the root.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "pmemfs.h"

#define BUCKETS (1u << 20)
#define ZEROS	(1u << 20)

struct node {
	struct pmemfs_attr a; /* but for the size */
	_Atomic uint64_t size;
	uint64_t refs;
	struct node *parent; /* of a directory */
	char *target;	     /* of a symlink */
	char *data;	     /* NULLFS_KEEP: `room` bytes */
	uint64_t room;
	/* of a directory: in the order of making; a removed name leaves NULL */
	struct name **list;
	uint64_t used, space, live;
};

struct name {
	struct name *next; /* in the bucket */
	struct node *dir, *node;
	uint64_t place; /* in the directory's list */
	char text[];
};

struct pmemfs {
	struct media *media;
	struct node root;
	struct name *bucket[BUCKETS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pmemfs the;
static bool keep;
static uint64_t busy, busy_kib; /* ns */
static const char zeros[ZEROS];

static struct node *node_of(uint64_t ino)
{
	return ino == 1 ? &the.root : (struct node *)(uintptr_t)ino; // NOLINT
}

static void attr_of(struct node *n, struct pmemfs_attr *ret)
{
	if (!ret)
		return;
	*ret = n->a;
	ret->size = atomic_load_explicit(&n->size, memory_order_relaxed);
	ret->blocks = (ret->size + 511) / 512;
}

static struct node *node_new(uint32_t mode, const struct pmemfs_cred *cred)
{
	struct node *n = calloc(1, sizeof(*n));
	struct timespec now;

	if (!n)
		return NULL;
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	n->a.ino = (uint64_t)(uintptr_t)n;
	n->a.mode = mode;
	n->a.uid = cred->uid;
	n->a.gid = cred->gid;
	n->a.nlink = S_ISDIR(mode) ? 2 : 1;
	n->a.atime = n->a.mtime = n->a.ctime = n->a.btime = now;
	return n;
}

static void node_drop(struct node *n)
{
	if (n == &the.root || n->refs || n->a.nlink)
		return;
	free(n->target);
	free(n->list);
	if (n->data)
		munmap(n->data, n->room);
	free(n);
}

/* ---- names ---- */

static struct name **find(struct node *dir, const char *text)
{
	uint64_t h = (uint64_t)(uintptr_t)dir * 0x9e3779b97f4a7c15u;
	struct name **at;

	for (const char *p = text; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3u;
	at = &the.bucket[(h ^ h >> 29) % BUCKETS];
	while (*at && ((*at)->dir != dir || strcmp((*at)->text, text) != 0))
		at = &(*at)->next;
	return at;
}

static int add(struct node *dir, const char *text, struct node *n)
{
	struct name **at = find(dir, text), *e;

	if (*at)
		return -EEXIST;
	if (dir->used == dir->space) {
		uint64_t space = dir->space ? 2 * dir->space : 16;
		struct name **list = realloc(dir->list, space * sizeof(struct name *));

		if (!list)
			return -ENOMEM;
		dir->list = list;
		dir->space = space;
	}
	e = malloc(sizeof(*e) + strlen(text) + 1);
	if (!e)
		return -ENOMEM;
	*e = (struct name){.dir = dir, .node = n, .place = dir->used};
	strcpy(e->text, text);
	*at = e;
	dir->list[dir->used++] = e;
	dir->live++;
	if (S_ISDIR(n->a.mode)) {
		n->parent = dir;
		dir->a.nlink++;
	}
	return 0;
}

/* The name goes, the node stays. */
static struct node *take(struct node *dir, struct name **at)
{
	struct name *e = *at;
	struct node *n = e->node;

	dir->list[e->place] = NULL;
	if (--dir->live == 0)
		dir->used = 0;
	*at = e->next;
	free(e);
	if (S_ISDIR(n->a.mode))
		dir->a.nlink--;
	return n;
}

static void unlinked(struct node *n)
{
	n->a.nlink = S_ISDIR(n->a.mode) ? 0 : n->a.nlink - 1;
	node_drop(n);
}

#define LOCKED(call)                         \
	({                                   \
		pthread_mutex_lock(&lock);   \
		int r_ = (call);             \
		pthread_mutex_unlock(&lock); \
		r_;                          \
	})

static int give(struct node *n, struct pmemfs_attr *ret)
{
	n->refs++;
	attr_of(n, ret);
	return 0;
}

static int lookup(struct node *dir, const char *text, struct pmemfs_attr *ret)
{
	struct name *e;

	if (strcmp(text, ".") == 0)
		return give(dir, ret);
	if (strcmp(text, "..") == 0)
		return give(dir->parent ? dir->parent : dir, ret);
	e = *find(dir, text);
	return e ? give(e->node, ret) : -ENOENT;
}

int pmemfs_lookup(struct pmemfs *fs, uint64_t dir, const char *name, struct pmemfs_attr *ret)
{
	return LOCKED(lookup(node_of(dir), name, ret));
}

void pmemfs_forget(struct pmemfs *fs, uint64_t ino, uint64_t n)
{
	struct node *node = node_of(ino);

	pthread_mutex_lock(&lock);
	node->refs -= n;
	node_drop(node);
	pthread_mutex_unlock(&lock);
}

int pmemfs_make(struct pmemfs *fs, uint64_t dir, const char *name, uint32_t mode,
		uint32_t rdev_major, uint32_t rdev_minor, const char *target,
		const struct pmemfs_cred *cred, struct pmemfs_attr *ret)
{
	struct node *n = node_new(mode, cred);
	int r;

	if (!n)
		return -ENOMEM;
	n->a.rdev_major = rdev_major;
	n->a.rdev_minor = rdev_minor;
	if (target) {
		n->target = strdup(target);
		n->size = strlen(target);
	}
	pthread_mutex_lock(&lock);
	r = add(node_of(dir), name, n);
	if (r) {
		n->a.nlink = 0;
		node_drop(n);
	} else {
		give(n, ret);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

int pmemfs_tmpfile(struct pmemfs *fs, uint64_t dir, uint32_t mode,
		   const struct pmemfs_cred *cred, struct pmemfs_attr *ret)
{
	struct node *n = node_new(mode, cred);

	if (!n)
		return -ENOMEM;
	n->a.nlink = 0;
	return LOCKED(give(n, ret));
}

static int link_node(struct node *n, struct node *dir, const char *name,
		     struct pmemfs_attr *ret)
{
	int r = add(dir, name, n);

	if (r)
		return r;
	n->a.nlink++;
	return give(n, ret);
}

int pmemfs_link(struct pmemfs *fs, uint64_t ino, uint64_t dir, const char *name,
		struct pmemfs_attr *ret)
{
	return LOCKED(link_node(node_of(ino), node_of(dir), name, ret));
}

static int drop_name(struct node *dir, const char *name)
{
	struct name **at = find(dir, name);

	if (!*at)
		return -ENOENT;
	if (S_ISDIR((*at)->node->a.mode) && (*at)->node->live)
		return -ENOTEMPTY;
	unlinked(take(dir, at));
	return 0;
}

int pmemfs_unlink(struct pmemfs *fs, uint64_t dir, const char *name)
{
	return LOCKED(drop_name(node_of(dir), name));
}

int pmemfs_rmdir(struct pmemfs *fs, uint64_t dir, const char *name)
{
	return LOCKED(drop_name(node_of(dir), name));
}

static int move(struct node *dir, const char *name, struct node *newdir, const char *newname,
		unsigned flags)
{
	struct name **from = find(dir, name), **to = find(newdir, newname);
	struct node *n = *from ? (*from)->node : NULL, *other = *to ? (*to)->node : NULL;

	if (!n || (!other && (flags & RENAME_EXCHANGE)))
		return -ENOENT;
	if (other && (flags & RENAME_NOREPLACE))
		return -EEXIST;
	if (n == other)
		return 0;
	if (other && !(flags & RENAME_EXCHANGE) && S_ISDIR(other->a.mode) && other->live)
		return -ENOTEMPTY;
	take(dir, from);
	if (other) {
		take(newdir, find(newdir, newname));
		if (flags & RENAME_EXCHANGE)
			add(dir, name, other);
		else
			unlinked(other);
	}
	return add(newdir, newname, n);
}

int pmemfs_rename_by(struct pmemfs *fs, uint64_t dir, const char *name, uint64_t newdir,
		     const char *newname, unsigned flags, const struct pmemfs_cred *by)
{
	return LOCKED(move(node_of(dir), name, node_of(newdir), newname, flags));
}

ssize_t pmemfs_readlink(struct pmemfs *fs, uint64_t ino, char *buf, size_t size)
{
	const char *target = node_of(ino)->target;
	size_t n = target ? strlen(target) : 0;

	if (!target)
		return -EINVAL;
	n = n < size ? n : size;
	memcpy(buf, target, n);
	return (ssize_t)n;
}

/* Cookies: 1 and 2 for the dots, then 3 + the place in the list. */
static int list(struct node *dir, uint64_t cookie, unsigned flags, pmemfs_emit emit, void *arg)
{
	struct node *up = dir->parent ? dir->parent : dir;
	struct pmemfs_attr a;

	for (; cookie < 2; cookie++) {
		attr_of(cookie == 0 ? dir : up, &a);
		a.size = dir->used + 3; /* the next cookie, with "." */
		if (emit(arg, cookie == 0 ? "." : "..", &a, cookie + 1))
			return 0;
	}
	for (uint64_t i = cookie - 2; i < dir->used; i++) {
		struct name *e = dir->list[i];

		if (!e)
			continue;
		attr_of(e->node, &a);
		if (emit(arg, e->text, &a, i + 3))
			return 0;
		if (flags & PMEMFS_READDIR_PLUS)
			e->node->refs++;
	}
	return 0;
}

int pmemfs_readdir(struct pmemfs *fs, uint64_t dir, uint64_t cookie, unsigned flags,
		   pmemfs_emit emit, void *arg)
{
	return LOCKED(list(node_of(dir), cookie, flags, emit, arg));
}

/* ---- files ---- */

/* Room for that many bytes of contents, behind which and beyond the size all is zero. */
static int make_room(struct node *n, uint64_t size)
{
	uint64_t room = n->room ? n->room : 4096;
	char *data;

	while (room < size)
		room *= 2;
	if (n->data && room == n->room)
		return 0;
	data = n->data ? mremap(n->data, n->room, room, MREMAP_MAYMOVE)
		       : mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
	if (data == MAP_FAILED)
		return -ENOSPC;
	n->data = data;
	n->room = room;
	return 0;
}

static void set_size(struct node *n, uint64_t size)
{
	if (n->data && size < n->size && size < n->room)
		memset(n->data + size, 0, (n->size < n->room ? n->size : n->room) - size);
	n->size = size;
}

static int keep_contents(struct node *n, uint64_t off, const void *buf, size_t size)
{
	int r = make_room(n, off + size);

	if (r)
		return r;
	memcpy(n->data + off, buf, size);
	if (n->size < off + size)
		n->size = off + size;
	return 0;
}

static void compute(uint64_t ns)
{
	struct timespec t;
	uint64_t start = 0, now = 0;

	while (now - start < ns) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
		start = start ? start : now;
	}
}

ssize_t pmemfs_write(struct pmemfs *fs, uint64_t ino, uint64_t off, const void *buf,
		     size_t size, unsigned flags)
{
	struct node *n = node_of(ino);
	uint64_t old = atomic_load_explicit(&n->size, memory_order_relaxed);

	if (keep) {
		int r = LOCKED(keep_contents(n, off, buf, size));

		return r ? r : (ssize_t)size;
	}
	while (old < off + size && !atomic_compare_exchange_weak(&n->size, &old, off + size))
		;
	if (busy)
		compute(busy + busy_kib * size / 1024);
	return (ssize_t)size;
}

ssize_t pmemfs_read(struct pmemfs *fs, uint64_t ino, uint64_t off, void *buf, size_t size)
{
	struct node *n = node_of(ino);
	uint64_t end, have;

	pthread_mutex_lock(&lock);
	end = n->size;
	size = off >= end ? 0 : size < end - off ? size : end - off;
	have = !n->data || off >= n->room ? 0 : size < n->room - off ? size : n->room - off;
	if (have)
		memcpy(buf, n->data + off, have);
	memset((char *)buf + have, 0, size - have);
	pthread_mutex_unlock(&lock);
	return (ssize_t)size;
}

int pmemfs_read_iov(struct pmemfs *fs, uint64_t ino, uint64_t off, size_t size,
		    pmemfs_consume fn, void *arg)
{
	uint64_t end = node_of(ino)->size;
	struct iovec iov = {.iov_base = (void *)(uintptr_t)zeros};

	if (keep)
		return -ENOTSUP;
	size = off >= end ? 0 : size < end - off ? size : end - off;
	iov.iov_len = size < ZEROS ? size : ZEROS;
	return fn(arg, &iov, 1, iov.iov_len);
}

int pmemfs_scrub(struct pmemfs *fs, struct pmemfs_scrub *s, uint64_t bytes)
{
	s->next = 0;
	return 0;
}

int pmemfs_quota_on(struct pmemfs *fs)
{
	return -ENOTSUP;
}

int pmemfs_quota_off(struct pmemfs *fs)
{
	return -ENOTSUP;
}

int pmemfs_quota_set(struct pmemfs *fs, const struct pmemfs_quota *q, unsigned mask)
{
	return -ENOTSUP;
}

ssize_t pmemfs_quota_list(struct pmemfs *fs, uint32_t kind, uint32_t from,
			  struct pmemfs_quota *ret, size_t max)
{
	return -ESRCH;
}

int pmemfs_fallocate(struct pmemfs *fs, uint64_t ino, int mode, uint64_t off, uint64_t len)
{
	struct node *n = node_of(ino);

	pthread_mutex_lock(&lock);
	if (!(mode & FALLOC_FL_KEEP_SIZE) && n->size < off + len)
		n->size = off + len;
	if ((mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) && n->data && off < n->room)
		memset(n->data + off, 0, len < n->room - off ? len : n->room - off);
	pthread_mutex_unlock(&lock);
	return 0;
}

int64_t pmemfs_seek(struct pmemfs *fs, uint64_t ino, uint64_t off, int whence)
{
	uint64_t end = node_of(ino)->size;

	return off >= end ? -ENXIO : whence == SEEK_DATA ? (int64_t)off : (int64_t)end;
}

/* ---- attributes ---- */

int pmemfs_getattr(struct pmemfs *fs, uint64_t ino, struct pmemfs_attr *ret)
{
	pthread_mutex_lock(&lock);
	attr_of(node_of(ino), ret);
	pthread_mutex_unlock(&lock);
	return 0;
}

int pmemfs_setattr(struct pmemfs *fs, uint64_t ino, unsigned mask, const struct pmemfs_attr *a,
		   struct pmemfs_attr *ret)
{
	struct node *n = node_of(ino);
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	pthread_mutex_lock(&lock);
	if (mask & PMEMFS_SET_MODE)
		n->a.mode = (n->a.mode & S_IFMT) | (a->mode & ~S_IFMT);
	if (mask & PMEMFS_SET_UID)
		n->a.uid = a->uid;
	if (mask & PMEMFS_SET_GID)
		n->a.gid = a->gid;
	if (mask & PMEMFS_SET_SIZE)
		set_size(n, a->size);
	if (mask & PMEMFS_SET_ATIME)
		n->a.atime = a->atime;
	if (mask & PMEMFS_SET_MTIME)
		n->a.mtime = a->mtime;
	if (mask & PMEMFS_SET_ATIME_NOW)
		n->a.atime = now;
	if (mask & PMEMFS_SET_MTIME_NOW)
		n->a.mtime = now;
	n->a.ctime = mask & PMEMFS_SET_CTIME ? a->ctime : now;
	attr_of(n, ret);
	pthread_mutex_unlock(&lock);
	return 0;
}

int pmemfs_setxattr(struct pmemfs *fs, uint64_t ino, const char *name, const void *value,
		    size_t size, int flags)
{
	return -ENOTSUP;
}

ssize_t pmemfs_getxattr(struct pmemfs *fs, uint64_t ino, const char *name, void *value,
			size_t size)
{
	return -ENODATA;
}

ssize_t pmemfs_listxattr(struct pmemfs *fs, uint64_t ino, char *names, size_t size)
{
	return 0;
}

int pmemfs_removexattr(struct pmemfs *fs, uint64_t ino, const char *name)
{
	return -ENODATA;
}

/* ---- the filesystem ---- */

int pmemfs_probe(struct media *m, struct pmemfs_info *ret, const char **ret_why)
{
	ret->clean = true;
	return 0;
}

int pmemfs_mount(struct media *m, const struct pmemfs_options *o, struct pmemfs **ret,
		 const char **ret_why)
{
	const struct pmemfs_cred root = {0, 0};
	struct node *n = node_new(S_IFDIR | 0777, &root);

	if (!n)
		return -ENOMEM;
	keep = getenv("NULLFS_KEEP");
	if (getenv("NULLFS_BUSY") &&
	    sscanf(getenv("NULLFS_BUSY"), "%" SCNu64 ":%" SCNu64, &busy, &busy_kib) != 2)
		return -EINVAL;
	the.media = m;
	the.root = *n;
	the.root.a.ino = 1;
	free(n);
	*ret = &the;
	return 0;
}

int pmemfs_unmount(struct pmemfs *fs)
{
	return 0;
}

bool pmemfs_is_readonly(const struct pmemfs *fs)
{
	return false;
}

int pmemfs_set_readonly(struct pmemfs *fs, bool readonly)
{
	return 0;
}

struct media *pmemfs_media(struct pmemfs *fs)
{
	return fs->media;
}

void pmemfs_statfs(struct pmemfs *fs, struct pmemfs_statfs *ret)
{
	*ret = (struct pmemfs_statfs){1u << 28, 1u << 28, 1u << 28, 1u << 28, 1u << 28};
}

int pmemfs_sync(struct pmemfs *fs)
{
	return 0;
}
