/* SPDX-License-Identifier: BSD-3-Clause */
/* The image that the fsck tests damage, and the ways to do it. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image.h"

static const struct pmemfs_cred cred = {1000, 1000};

static uint64_t make(struct pmemfs *fs, uint64_t dir, const char *name, uint32_t mode,
		     const char *target)
{
	struct pmemfs_attr attr;

	assert_int_equal(pmemfs_make(fs, dir, name, mode, 0, 0, target, &cred, &attr), 0);
	pmemfs_forget(fs, attr.ino, 1);
	return attr.ino;
}

static void write_file(struct pmemfs *fs, uint64_t ino, uint64_t off, size_t len)
{
	char *buf = malloc(len);

	unit_fill(buf, len, ino + off);
	assert_int_equal(pmemfs_write(fs, ino, off, buf, len, 0), len);
	free(buf);
}

static void fill(struct image *img, struct pmemfs *fs)
{
	struct pmemfs_attr attr;
	char name[64];

	img->dir = make(fs, PMEMFS_ROOT_INO, "dir", S_IFDIR | 0755, NULL);
	img->sub = make(fs, img->dir, "sub", S_IFDIR | 0755, NULL);
	img->other = make(fs, PMEMFS_ROOT_INO, "other", S_IFDIR | 0700, NULL);
	img->file = make(fs, img->sub, "file", S_IFREG | 0644, NULL);
	img->small = make(fs, img->dir, "small", S_IFREG | 0600, NULL);
	img->hard = make(fs, img->dir, "hard", S_IFREG | 0644, NULL);
	img->link = make(fs, img->other, "symlink", S_IFLNK | 0777, "../dir/small");
	img->fifo = make(fs, img->other, "fifo", S_IFIFO | 0600, NULL);
	img->lone = make(fs, PMEMFS_ROOT_INO, "lone", S_IFREG | 0644, NULL);
	write_file(fs, img->file, 0, 300000);
	write_file(fs, img->file, 1 << 20, 5000);
	write_file(fs, img->small, 0, 100);
	write_file(fs, img->hard, 0, 4096);
	assert_int_equal(pmemfs_link(fs, img->hard, img->other, "second", &attr), 0);
	pmemfs_forget(fs, img->hard, 1);
	assert_int_equal(pmemfs_fallocate(fs, img->lone, 0, 0, 20000), 0);
	assert_int_equal(pmemfs_setxattr(fs, img->small, "user.note", "hello", 5, 0), 0);
	for (int k = 0; k < 60; k++) { /* a log in blocks, and inodes in every shard */
		snprintf(name, sizeof(name), "a-file-with-a-rather-long-name-%d", k);
		make(fs, img->sub, name, S_IFREG | 0644, NULL);
	}
}

static void make_image(struct image *img, bool parity)
{
	struct pmemfs_format_options o = {.shards = IMAGE_SHARDS,
					  .label = "fsck",
					  .now = 1700000000,
					  .uuid = {7},
					  .seed = 7,
					  .parity = parity};
	struct pmemfs *fs;

	*img = (struct image){.size = IMAGE_SIZE};
	img->mem =
	    mmap(NULL, img->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(img->mem, MAP_FAILED);
	assert_int_equal(media_open_memory(img->mem, img->size, 0, &img->m), 0);
	assert_int_equal(pmemfs_format(img->m, &o), 0);
	fs = image_mount(img);
	fill(img, fs);
	image_unmount(fs);
}

void image_make(struct image *img)
{
	make_image(img, false);
}

void image_make_parity(struct image *img)
{
	make_image(img, true);
}

void image_free(struct image *img)
{
	media_close(img->m);
	munmap(img->mem, img->size);
}

struct pmemfs *image_mount(struct image *img)
{
	struct pmemfs *fs;
	const char *why = NULL;
	int r = pmemfs_mount(img->m, NULL, &fs, &why);

	if (r)
		print_error("mount: %s\n", why);
	assert_int_equal(r, 0);
	return fs;
}

void image_unmount(struct pmemfs *fs)
{
	assert_int_equal(pmemfs_unmount(fs), 0);
}

struct pmemfs *image_look(struct image *img)
{
	static const struct pmemfs_options options;
	struct pmemfs_super sb;
	struct pmemfs *fs;
	const char *why;

	assert_int_equal(super_read(img->m, &sb, NULL, &why), 0);
	fs = fs_new(img->m, &sb, &options);
	for (unsigned s = 0; s < fs->shards; s++)
		assert_int_equal(itable_load(fs, s), 0);
	return fs;
}

uint64_t image_slot(struct image *img, uint64_t ino)
{
	struct pmemfs *fs = image_look(img);
	uint64_t slot;

	assert_int_equal(itable_find(fs, ino, &slot), 0);
	fs_delete(fs);
	return slot;
}

struct inode *image_inode(struct pmemfs *fs, uint64_t ino)
{
	enum log_end end;
	struct inode *i;
	uint64_t slot;

	assert_int_equal(itable_find(fs, ino, &slot), 0);
	i = inode_new(ino, slot);
	assert_int_equal(inode_read(fs, i, true, &end), 0);
	return i;
}

/* ---- records -------------------------------------------------------------------------- */

struct pick {
	unsigned left;
	uint64_t off;
	uint32_t len;
};

static int pick_record(void *arg, const struct pmemfs_rec *rec, uint64_t off)
{
	struct pick *p = arg;

	if (p->left-- == 0) {
		p->off = off;
		p->len = rec_len(rec);
	}
	return 0;
}

static uint64_t head_of(struct image *img, uint64_t slot)
{
	le64 head;

	memcpy(&head, img->mem + slot, sizeof(head));
	return get64(head);
}

uint64_t image_record(struct image *img, uint64_t ino, unsigned k, uint32_t *ret_len)
{
	struct pick p = {.left = k};
	struct pmemfs *fs = image_look(img);
	enum log_end end;
	struct log log;
	uint64_t slot;

	assert_int_equal(itable_find(fs, ino, &slot), 0);
	assert_int_equal(
	    log_walk(fs, ino, slot, head_of(img, slot), false, pick_record, &p, &log, &end), 0);
	assert_true(p.off); /* there are so many records */
	log_free(&log);
	fs_delete(fs);
	if (ret_len)
		*ret_len = p.len;
	return p.off;
}

void image_reseal(struct image *img, uint64_t ino, uint64_t off)
{
	static const struct pmemfs_options options;
	struct pmemfs_rec *rec = (void *)(img->mem + off);
	bool table = ino & PMEMFS_INO_TABLE; /* cannot be loaded now */
	struct pmemfs *fs =
	    table ? fs_new(img->m, image_super(img), &options) : image_look(img);
	uint64_t slot;

	assert_int_equal(itable_find(fs, ino, &slot), 0);
	rec_seal(rec, log_seed(fs, ino, head_of(img, slot)), get32(rec->seq), rec_more(rec));
	fs_delete(fs);
}

struct pmemfs_super *image_super(struct image *img)
{
	return (void *)img->mem;
}

void image_reseal_super(struct image *img)
{
	struct pmemfs_super *sb = image_super(img);

	sb->checksum = put64(hash64(sb, offsetof(struct pmemfs_super, checksum), 0));
	memcpy(img->mem + PMEMFS_SB_REPLICA * PMEMFS_BLOCK_SIZE, sb, sizeof(*sb));
}

/* ---- operations that no user could ask for -------------------------------------------- */

void image_commit(struct pmemfs *fs, uint64_t ino, struct pmemfs_rec *rec)
{
	struct inode *i;
	struct txn t;

	assert_int_equal(inode_open(fs, ino, true, &i), 0);
	txn_begin(&t, fs, 0);
	txn_add(&t, i, rec);
	assert_int_equal(txn_commit(&t), 0);
	inode_close(fs, i);
}

void image_set(struct pmemfs *fs, uint64_t ino, unsigned mask, uint64_t value)
{
	struct {
		struct pmemfs_update u;
		le64 value;
	} rec = {.u.h = {.type = REC_UPDATE, .len = put16(sizeof(rec) / 8)},
		 .u.mask = put16(mask),
		 .u.ctime_sec = put64(1700000001),
		 .value = put64(value)};

	image_commit(fs, ino, &rec.u.h);
}

void image_add_entry(struct pmemfs *fs, uint64_t dir, const char *name, uint64_t ino,
		     unsigned type)
{
	struct {
		struct pmemfs_dirup u;
		uint8_t data[PMEMFS_DENTRY_SIZE(PMEMFS_NAME_MAX)] __attribute__((aligned(8)));
	} rec = {.u.h.type = REC_DIR, .u.adds = 1};
	struct pmemfs_dentry *e = (void *)rec.data;
	size_t len = strlen(name);
	struct inode *i;

	assert_int_equal(inode_open(fs, dir, false, &i), 0);
	*e = (struct pmemfs_dentry){put64(ino), put64(i->dir.next_cookie), type, len};
	memcpy(e->name, name, len);
	inode_close(fs, i);
	rec.u.time_sec = put64(1700000002);
	rec.u.h.len = put16((sizeof(rec.u) + PMEMFS_DENTRY_SIZE(len)) / 8);
	image_commit(fs, dir, &rec.u.h);
}

void image_del_entry(struct pmemfs *fs, uint64_t dir, const char *name)
{
	struct {
		struct pmemfs_dirup u;
		le64 cookie;
	} rec = {.u.h.type = REC_DIR, .u.h.len = put16(sizeof(rec) / 8), .u.dels = 1};
	struct inode *i;

	assert_int_equal(inode_open(fs, dir, false, &i), 0);
	rec.cookie = put64(dir_find(&i->dir, name, strlen(name))->cookie);
	inode_close(fs, i);
	rec.u.time_sec = put64(1700000003);
	image_commit(fs, dir, &rec.u.h);
}

void image_map(struct pmemfs *fs, uint64_t ino, uint64_t fblock, uint64_t block)
{
	struct {
		struct pmemfs_update u;
		struct pmemfs_extent e;
	} rec = {.u.h = {.type = REC_UPDATE, .len = put16(sizeof(rec) / 8)},
		 .u.extents = put16(1)};

	rec.e.where = put64(fblock << 20 | 1);
	rec.e.what = put64((uint64_t)PMEMFS_EXT_UNWRITTEN << RANGE_FLAG_SHIFT | block);
	image_commit(fs, ino, &rec.u.h);
}

void image_map_written(struct pmemfs *fs, uint64_t ino, uint64_t fblock, uint64_t block,
		       bool right)
{
	struct {
		struct pmemfs_update u;
		le64 size;
		struct pmemfs_extent e;
		le64 csum;
	} rec = {.u.h = {.type = REC_UPDATE, .len = put16(sizeof(rec) / 8)},
		 .u.mask = put16(UP_SIZE),
		 .u.extents = put16(1)};
	uint64_t hash;

	assert_int_equal(media_hash(fs->media, block * PMEMFS_BLOCK_SIZE, PMEMFS_BLOCK_SIZE,
				    data_seed(fs, block), &hash),
			 0);
	rec.size = put64((fblock + 1) * PMEMFS_BLOCK_SIZE);
	rec.e.where = put64(fblock << 20 | 1);
	rec.e.what = put64(block);
	rec.csum = put64(hash + !right);
	image_commit(fs, ino, &rec.u.h);
}

uint64_t image_block_of(struct image *img, uint64_t ino, uint64_t fblock)
{
	struct pmemfs *fs = image_look(img);
	struct inode *i = image_inode(fs, ino);
	struct range_cursor c;
	const struct range *r = rangemap_find(&i->extents, fblock, &c);
	uint64_t block;

	assert_non_null(r);
	assert_true(r->start <= fblock);
	block = range_block(r) + fblock - r->start;
	inode_delete(i);
	fs_delete(fs);
	return block;
}

void image_poison(struct image *img, uint64_t off)
{
	uint64_t page = off / PMEMFS_BLOCK_SIZE * PMEMFS_BLOCK_SIZE;
	int fd = memfd_create("hole", MFD_CLOEXEC);
	void *p;

	assert_true(fd >= 0);
	/* Behind the end of an empty file: SIGBUS on every access. */
	p = mmap(img->mem + page, PMEMFS_BLOCK_SIZE, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, fd, 0);
	assert_ptr_equal(p, img->mem + page);
	close(fd);
}
