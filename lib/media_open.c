/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening: what is it, may we have it, where is it mapped.
 *
 * 1. Nothing is opened before stat() has said that it is a regular file or a DAX device:
 * opening a FIFO blocks, and opening some devices does things. What was opened must then be
 * what stat() saw.
 * 2. The size is read after the lock was taken, so that whoever made the file has finished.
 * 3. A device is locked twice, by its node and by its attribute in sysfs, of which there is one
 *    however many nodes it has. Both locks are flock(2): they go with the descriptors, also
 *    when the process is killed.
 * 4. Nothing on the way changes what the user named: no creation, no resizing.
 */
#include "media_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <libpmem.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define PAGE	     4096u
#define MIN_SIZE     4096u
#define HUGE_PAGE    (2ull << 20)
#define WAIT_MS	     5000
#define WAIT_STEP_MS 20

/* ---- saying why ---- */

static const char *why_open(int error)
{
	switch (error) {
	case ENOENT:
		return "does not exist: `ndctl list -NX` shows the DAX devices, and "
		       "mkfs.pmemfs --size makes an image file";
	case EACCES:
	case EPERM:
		return "may not be opened: run as root, or as a user who may read and write it";
	case EROFS:
		return "is on a read-only filesystem: remount that for writing, or use it "
		       "read-only";
	case ENXIO:
	case ENODEV:
		return "has no driver that maps it (it may be in use as ordinary memory): "
		       "`daxctl reconfigure-device -f -m devdax DEVICE` changes that";
	case ETXTBSY:
		return "is a program that is running: name an image file or a DAX device";
	default:
		return NULL;
	}
}

/* "cannot be <what>: <error>", in a string of the thread's. */
static const char *why_errno(const char *what, int error)
{
	static _Thread_local char text[160];
	char buf[80];

	snprintf(text, sizeof(text), "cannot be %s: %s", what,
		 strerror_r(error, buf, sizeof(buf)));
	return text;
}

/* ---- what it is ---- */

/* A number in an attribute of a device. */
static int sysfs_number(dev_t rdev, const char *attribute, uint64_t *ret)
{
	char path[80], text[32];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/%s", major(rdev), minor(rdev),
		 attribute);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -EIO;
	text[n] = 0;
	*ret = strtoull(text, NULL, 0);
	return 0;
}

/* Whether a character device belongs to the dax subsystem. */
static bool device_is_dax(dev_t rdev)
{
	char path[80], target[PATH_MAX];
	const char *name;
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/subsystem", major(rdev), minor(rdev));
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = 0;
	name = strrchr(target, '/');
	return name && !strcmp(name, "/dax");
}

/* Whether the device is an NVDIMM's, whose persistence domain libpmem can tell. */
static bool device_is_nvdimm(dev_t rdev)
{
	char path[80], target[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u", major(rdev), minor(rdev));
	return realpath(path, target) && strstr(target, "/ndbus");
}

/*
 * Whether the region of an NVDIMM is read-only: the kernel says so when the NVDIMM could not
 * save what is stored (it is not armed), or an administrator did. The device takes stores all
 * the same.
 */
static bool device_is_readonly(dev_t rdev)
{
	uint64_t readonly = 0;

	return !sysfs_number(rdev, "../../read_only", &readonly) && readonly;
}

/* Refuses what cannot be a medium. */
static int classify(const struct stat *st, const char **ret_why)
{
	switch (st->st_mode & S_IFMT) {
	case S_IFREG:
		return 0;
	case S_IFCHR:
		if (device_is_dax(st->st_rdev))
			return 0;
		*ret_why = "is a character device, but not a DAX device: name a /dev/daxX.Y "
			   "or an image file";
		return -EINVAL;
	case S_IFBLK:
		*ret_why = "is a block device: make a filesystem on it, mount that with -o dax "
			   "and name a file there, or turn it into a DAX device with `ndctl "
			   "create-namespace -f -e NAMESPACE -m devdax`";
		return -ENOTBLK;
	case S_IFDIR:
		*ret_why = "is a directory: name a DAX device or an image file";
		return -EISDIR;
	default:
		*ret_why = "is neither a DAX device nor a regular file: name one of these";
		return -EINVAL;
	}
}

/* Opens path if it can be a medium. */
static int open_target(struct media *m, const char *path, struct stat *ret_st,
		       const char **ret_why)
{
	bool writable = !(m->flags & (MEDIA_READONLY | MEDIA_SHADOW));
	struct stat before;
	int r;

	if (stat(path, &before))
		goto failed;
	r = classify(&before, ret_why);
	if (r)
		return r;
	m->fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (m->fd < 0 || fstat(m->fd, ret_st))
		goto failed;
	if (ret_st->st_dev != before.st_dev || ret_st->st_ino != before.st_ino ||
	    ret_st->st_mode != before.st_mode) {
		*ret_why = "was replaced while being opened: try again";
		return -EAGAIN;
	}
	if (writable && S_ISCHR(ret_st->st_mode) && device_is_readonly(ret_st->st_rdev)) {
		*ret_why = "is read-only: its NVDIMM cannot save what is written (`ndctl list "
			   "-DR` says more), or its region was set so; use it read-only";
		return -EROFS;
	}
	return 0;
failed:
	r = errno == EPERM ? EACCES : errno;
	*ret_why = why_open(r);
	if (!*ret_why)
		*ret_why = why_errno("opened", r);
	return -r;
}

/* ---- locks ---- */

static int lock_one(int fd, int how, int *wait_ms)
{
	const struct timespec step = {.tv_nsec = WAIT_STEP_MS * 1000000l};

	while (flock(fd, how | LOCK_NB)) {
		if (errno == EINTR)
			continue;
		if (errno != EWOULDBLOCK)
			return -errno;
		if (*wait_ms <= 0)
			return -EBUSY;
		nanosleep(&step, NULL);
		*wait_ms -= WAIT_STEP_MS;
	}
	return 0;
}

/* The lock that all nodes of a device share. A sysfs that is not there is no reason to fail. */
static int lock_device(struct media *m, dev_t rdev, int how, int *wait_ms)
{
	char path[80];

	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/size", major(rdev), minor(rdev));
	m->lock_fd = open(path, O_RDONLY | O_CLOEXEC);
	return m->lock_fd < 0 ? 0 : lock_one(m->lock_fd, how, wait_ms);
}

static int lock_target(struct media *m, const struct stat *st, const char **ret_why)
{
	int how = m->flags & (MEDIA_READONLY | MEDIA_SHADOW) ? LOCK_SH : LOCK_EX;
	int wait_ms = m->flags & MEDIA_WAIT ? WAIT_MS : 0;
	int r;

	if (m->flags & MEDIA_NOLOCK)
		return 0;
	r = lock_one(m->fd, how, &wait_ms);
	if (!r && S_ISCHR(st->st_mode))
		r = lock_device(m, st->st_rdev, how, &wait_ms);
	if (r == -EBUSY)
		*ret_why = "is in use (mounted, or being checked): unmount it, or wait";
	else if (r)
		*ret_why = why_errno("locked", -r);
	return r;
}

/* ---- mapping ---- */

/* The size, and to what the mapping must be aligned. */
static int measure(struct media *m, const struct stat *before, uint64_t *ret_align,
		   const char **ret_why)
{
	uint64_t align = HUGE_PAGE;
	struct statfs fs;
	struct stat st;

	if (S_ISCHR(before->st_mode)) {
		m->kind = MEDIA_DEVDAX;
		if (sysfs_number(before->st_rdev, "size", &m->size)) {
			*ret_why = "does not say its size: is /sys mounted?";
			return -ENODEV;
		}
		if (sysfs_number(before->st_rdev, "align", &align) || align < PAGE)
			align = HUGE_PAGE;
	} else {
		if (fstat(m->fd, &st) || fstatfs(m->fd, &fs)) {
			int r = -errno;

			*ret_why = why_errno("examined", -r);
			return r;
		}
		m->kind = MEDIA_FILE;
		if (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC ||
		    fs.f_type == HUGETLBFS_MAGIC)
			m->kind = MEDIA_VOLATILE;
		if (fs.f_type == HUGETLBFS_MAGIC)
			align = MAX(align, (uint64_t)fs.f_bsize);
		m->size = st.st_size / PAGE * PAGE;
	}
	if (m->size < MIN_SIZE) {
		*ret_why = "is smaller than 4 KiB: make it larger, or have mkfs.pmemfs --size "
			   "make an image file";
		return -EFBIG;
	}
	*ret_align = MAX(align, HUGE_PAGE);
	return 0;
}

/* Maps the medium over what was reserved. */
static void *map_over(struct media *m, void *at)
{
	int prot =
	    m->flags & (MEDIA_READONLY | MEDIA_SHADOW) ? PROT_READ : PROT_READ | PROT_WRITE;
	void *p = MAP_FAILED;

	if (m->kind != MEDIA_VOLATILE)
		p = mmap(at, m->size, prot, MAP_FIXED | MAP_SHARED_VALIDATE | MAP_SYNC, m->fd,
			 0);
	if (p != MAP_FAILED) {
		if (m->kind == MEDIA_FILE)
			m->kind = MEDIA_FSDAX;
		return p;
	}
	return mmap(at, m->size, prot, MAP_FIXED | MAP_SHARED, m->fd, 0);
}

/* Maps all of it at an aligned address, so that huge pages can be used. */
static int map_target(struct media *m, uint64_t align, const char **ret_why)
{
	size_t span = m->size + align;
	uintptr_t start, base;
	char *reserved;
	void *p;
	int r;

	if (span < m->size)
		goto too_large;
	reserved =
	    mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (reserved == MAP_FAILED)
		goto too_large;
	start = (uintptr_t)reserved;
	base = ROUND_UP(start, align);
	p = map_over(m, (void *)base);
	if (p == MAP_FAILED) {
		r = -errno;
		munmap(reserved, span);
		*ret_why = why_errno("mapped", -r);
		return r;
	}
	if (base > start)
		munmap(reserved, base - start);
	if (start + span > base + m->size)
		munmap((char *)base + m->size, start + span - (base + m->size));
	m->base = p;
	m->mapped = true;
	return 0;
too_large:
	*ret_why = "is larger than this process can map: raise the limit of address space "
		   "(ulimit -v)";
	return -ENOMEM;
}

/*
 * Huge pages where the filesystem leaves that to us. A core dump of the process is no place for
 * the medium. MADV_DONTFORK is not set: a daemon may fork after it opened its medium.
 */
static void advise(struct media *m)
{
	if (m->kind == MEDIA_VOLATILE)
		madvise(m->base, m->size, MADV_HUGEPAGE);
	madvise(m->base, m->size, MADV_DONTDUMP);
}

/*
 * Whether stores are durable once visible. libpmem answers for the machine's NVDIMMs; memory of
 * other kinds (CXL, for one) makes no such promise, and what is lost at power-off anyway is
 * treated like the memory it stands for.
 */
static bool caches_are_durable(const struct media *m, const struct stat *st)
{
	if (m->kind == MEDIA_DEVDAX && !device_is_nvdimm(st->st_rdev))
		return false;
	if (m->kind != MEDIA_DEVDAX && m->kind != MEDIA_FSDAX)
		return false;
	return pmem_has_auto_flush() == 1;
}

/* ---- open and close ---- */

static struct media *media_make(unsigned flags)
{
	struct media *m = calloc(1, sizeof(*m));
	void *slots;

	if (!m)
		return NULL;
	/* mmap: aligned, and no memory is used for threads that never come */
	slots = mmap(NULL, MEDIA_SLOTS * sizeof(*m->slots), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (slots == MAP_FAILED) {
		free(m);
		return NULL;
	}
	m->slots = slots;
	m->flags = flags;
	m->fd = m->lock_fd = -1;
	return m;
}

/* What is left to do once base, size and kind are known. */
static int media_finish(struct media *m, bool eadr)
{
	if (!(m->flags & (MEDIA_READONLY | MEDIA_SHADOW)))
		m->store_limit = m->size;
	media_set_eadr(m, eadr);
	m->range = guard_add(m->base, m->size);
	if (!m->range)
		return -ENOMEM;
	return m->flags & MEDIA_SHADOW ? media_shadow_make(m) : 0;
}

int media_open(const char *path, unsigned flags, struct media **ret, const char **ret_why)
{
	struct media *m = media_make(flags);
	const char *why = "cannot be opened: no memory";
	uint64_t align = 0;
	struct stat st;
	int r = -ENOMEM;

	if (!m)
		goto out;
	r = open_target(m, path, &st, &why);
	if (!r)
		r = lock_target(m, &st, &why);
	if (!r)
		r = measure(m, &st, &align, &why);
	if (!r)
		r = map_target(m, align, &why);
	if (r)
		goto out;
	advise(m);
	r = media_finish(m, caches_are_durable(m, &st));
out:
	if (r) {
		media_close(m);
		if (ret_why)
			*ret_why = why;
		return r;
	}
	*ret = m;
	return 0;
}

int media_open_memory(void *base, uint64_t size, unsigned flags, struct media **ret)
{
	struct media *m;
	int r;

	if ((uintptr_t)base % PAGE || size % PAGE)
		return -EINVAL;
	if (size < MIN_SIZE)
		return -EFBIG;
	m = media_make(flags);
	if (!m)
		return -ENOMEM;
	m->base = base;
	m->size = size;
	m->kind = MEDIA_MEMORY;
	r = media_finish(m, false);
	if (r) {
		media_close(m);
		return r;
	}
	*ret = m;
	return 0;
}

void media_close(struct media *m)
{
	if (!m)
		return;
	guard_remove(m->range);
	media_shadow_free(m->shadow);
	if (m->mapped)
		munmap(m->base, m->size);
	if (m->lock_fd >= 0)
		close(m->lock_fd);
	if (m->fd >= 0)
		close(m->fd);
	munmap(m->slots, MEDIA_SLOTS * sizeof(*m->slots));
	free(m);
}
