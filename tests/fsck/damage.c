/* SPDX-License-Identifier: BSD-3-Clause */
/* One function for each kind of damage; the table at the end says what fsck has to find. */
#include <dirent.h>

#include "check.h"
#include "damage.h"

static void flip(struct image *img, uint64_t off)
{
	img->mem[off] ^= 0x55;
}

/* ---- superblock ----------------------------------------------------------------------- */

static void sb_primary(struct image *img)
{
	flip(img, 100);
}

static void sb_replica(struct image *img)
{
	flip(img, PMEMFS_SB_REPLICA * PMEMFS_BLOCK_SIZE + 60);
}

static void sb_replica_gone(struct image *img)
{
	memset(img->mem + PMEMFS_SB_REPLICA * PMEMFS_BLOCK_SIZE, 0, PMEMFS_BLOCK_SIZE);
}

static void sb_differ(struct image *img)
{
	uint8_t replica[PMEMFS_BLOCK_SIZE];
	uint8_t *at = img->mem + PMEMFS_SB_REPLICA * PMEMFS_BLOCK_SIZE;

	memcpy(replica, at, sizeof(replica));
	image_super(img)->label[0] = 'x';
	image_reseal_super(img);
	memcpy(at, replica, sizeof(replica));
}

/* ---- tables and journal --------------------------------------------------------------- */

static void table_record(struct image *img)
{
	flip(img, image_record(img, PMEMFS_INO_TABLE | 1, 0, NULL) + 20);
}

static void table_header(struct image *img)
{
	flip(img, super_table_slot(image_super(img), 1) + 700);
}

static void table_reserved(struct image *img)
{
	flip(img, super_table_slot(image_super(img), 2) + 9);
}

static void table_kind(struct image *img)
{
	struct pmemfs_format_options o = {.shards = IMAGE_SHARDS};
	struct pmemfs_perm *perm;
	uint64_t off;

	assert_int_equal(pmemfs_format(img->m, &o), 0);
	off = image_record(img, PMEMFS_INO_TABLE | 1, 0, NULL);
	perm = (void *)(img->mem + off + sizeof(struct pmemfs_update) + 8);
	perm->mode = put32(S_IFIFO | 0600);
	image_reseal(img, PMEMFS_INO_TABLE | 1, off);
}

static void journal_record(struct image *img)
{
	struct pmemfs *fs = image_mount(img);
	uint64_t off = fs->shard[1].journal[3].off;
	struct pmemfs_journal *j = (void *)(img->mem + off);
	struct pmemfs_jentry *e = (void *)(j + 1);

	*j = (struct pmemfs_journal){.magic = put32(PMEMFS_JOURNAL_MAGIC),
				     .len = put32(sizeof(*e)),
				     .entries = put32(1),
				     .mounts = fs->sb.mounts};
	*e = (struct pmemfs_jentry){.ino = put64(img->file), .type = put16(9)};
	j->checksum = put64(hash64((char *)j + 8, sizeof(*j) - 8 + sizeof(*e), fs->seed ^ off));
	pmemfs_abandon(fs);
}

/* ---- logs ----------------------------------------------------------------------------- */

static void head_word(struct image *img)
{
	flip(img, image_slot(img, img->file) + 1);
}

/* A slot that was never used has a head word too: zeros are what a medium lost. */
static void head_zero(struct image *img)
{
	memset(img->mem + image_slot(img, img->file), 0, PMEMFS_SLOT_SIZE);
}

static void log_middle(struct image *img)
{
	flip(img, image_record(img, img->sub, 20, NULL) + 30);
}

static void log_sense(struct image *img)
{
	uint64_t off = image_record(img, img->sub, 20, NULL);

	((struct pmemfs_rec *)(img->mem + off))->type = 9;
	image_reseal(img, img->sub, off);
}

/* A symlink whose target stands in a segment, behind the first record, as if torn by a crash.
 */
static void log_no_target(struct image *img)
{
	static const struct pmemfs_cred cred;
	struct pmemfs *fs = image_mount(img);
	struct pmemfs_attr attr;
	char target[400];

	memset(target, 't', sizeof(target));
	target[sizeof(target) - 1] = 0;
	assert_int_equal(
	    pmemfs_make(fs, img->other, "long", S_IFLNK | 0777, 0, 0, target, &cred, &attr), 0);
	pmemfs_abandon(fs);
	flip(img, image_record(img, attr.ino, 1, NULL) + 100);
}

/* A record, right in itself, up to where the area must have room for a link. */
static void log_no_room(struct image *img)
{
	uint32_t len, size;
	uint64_t off = image_record(img, img->fifo, 0, &len) + len;
	struct pmemfs_xattr *x = (void *)(img->mem + off);

	size = PMEMFS_AREA_SIZE - len - 8;
	*x = (struct pmemfs_xattr){.h.len = put16(size / 8),
				   .h.type = REC_XATTR,
				   .h.seq = put32(2),
				   .namelen = 6,
				   .valuelen = put32(size - sizeof(*x) - 6)};
	memcpy(x + 1, "user.x", 6);
	image_reseal(img, img->fifo, off);
}

static void log_first(struct image *img)
{
	flip(img, image_record(img, img->small, 0, NULL) + 30);
}

/* Where the log ends. */
static uint64_t log_end_of(struct image *img, uint64_t ino)
{
	struct pmemfs *fs = image_look(img);
	struct inode *i = image_inode(fs, ino);
	uint64_t pos = i->log.pos;

	assert_true(pos + 64 <= i->log.end);
	inode_delete(i);
	fs_delete(fs);
	return pos;
}

static void log_tail(struct image *img)
{
	memset(img->mem + log_end_of(img, img->sub), 0xa5, 24);
}

static void log_tail_behind(struct image *img)
{
	flip(img, log_end_of(img, img->file) + 40);
}

static void log_tail_table(struct image *img)
{
	flip(img, log_end_of(img, PMEMFS_INO_TABLE) + 40);
}

static void log_poison(struct image *img)
{
	image_poison(img, image_record(img, img->sub, 40, NULL));
}

static void slot_reserved(struct image *img)
{
	flip(img, image_slot(img, img->link) + 12);
}

/* The first record's fields: size, perm, nlink, atime. */
static struct pmemfs_time *atime_of(struct image *img, uint64_t off)
{
	return (void *)(img->mem + off + sizeof(struct pmemfs_update) + 8 +
			sizeof(struct pmemfs_perm) + 8);
}

static void rec_reserved(struct image *img)
{
	uint64_t off = image_record(img, img->fifo, 0, NULL);

	atime_of(img, off)->reserved = put32(1);
	image_reseal(img, img->fifo, off);
}

static void rec_time(struct image *img)
{
	uint64_t off = image_record(img, img->fifo, 0, NULL);

	atime_of(img, off)->nsec = put32(2000000000);
	image_reseal(img, img->fifo, off);
}

static void set_nlink(struct image *img, uint64_t ino, uint64_t nlink)
{
	uint64_t off = image_record(img, ino, 0, NULL);
	le64 *field = (void *)(img->mem + off + sizeof(struct pmemfs_update) + 8 +
			       sizeof(struct pmemfs_perm));

	*field = put64(nlink);
	image_reseal(img, ino, off);
}

static void fifo_size(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_set(fs, img->fifo, UP_SIZE, 5);
	image_unmount(fs);
}

static void dir_nlink(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_set(fs, img->other, UP_NLINK, 3);
	image_unmount(fs);
}

static void orphan(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_del_entry(fs, PMEMFS_ROOT_INO, "lone");
	image_unmount(fs);
	set_nlink(img, img->lone, 0);
}

/* A file whose log is damaged in the middle hides its blocks; what else is wrong stays. */
static void log_hides_blocks(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_set(fs, img->hard, UP_NLINK, 7);
	image_unmount(fs);
	flip(img, image_slot(img, img->link) + 12);
	flip(img, image_record(img, img->file, 1, NULL) + 30);
}

/* ---- names ---------------------------------------------------------------------------- */

static void root_missing(struct image *img)
{
	le64 *head = (void *)(img->mem + image_slot(img, PMEMFS_ROOT_INO));

	*head = put64(head_make(HEAD_FREE, head_id(get64(*head)) + 1));
}

static void root_damaged(struct image *img)
{
	flip(img, image_record(img, PMEMFS_ROOT_INO, 0, NULL) + 30);
}

static void root_parent(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_set(fs, PMEMFS_ROOT_INO, UP_PARENT, img->dir);
	image_unmount(fs);
}

static void dangling(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_add_entry(fs, img->dir, "nowhere", 999999, DT_REG);
	image_add_entry(fs, img->other, "table", PMEMFS_INO_TABLE | 1, DT_REG);
	image_unmount(fs);
}

static void entry_type(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_del_entry(fs, img->dir, "small");
	image_add_entry(fs, img->dir, "small", img->small, DT_FIFO);
	image_unmount(fs);
}

static void second_name(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_add_entry(fs, img->other, "sub-again", img->sub, DT_DIR);
	image_unmount(fs);
}

/* The name that comes first is not the one that the directory calls its parent. */
static void second_name_first(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_add_entry(fs, PMEMFS_ROOT_INO, "sub-again", img->sub, DT_DIR);
	image_unmount(fs);
}

static void names_root(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_add_entry(fs, img->other, "root", PMEMFS_ROOT_INO, DT_DIR);
	image_unmount(fs);
}

static void parent(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_set(fs, img->sub, UP_PARENT, img->other);
	image_unmount(fs);
}

static void nlink_high(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_set(fs, img->hard, UP_NLINK, 7);
	image_unmount(fs);
}

static void nlink_low(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_set(fs, img->hard, UP_NLINK, 1);
	image_unmount(fs);
}

static void unreachable(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_del_entry(fs, PMEMFS_ROOT_INO, "lone");
	image_del_entry(fs, img->dir, "sub");
	image_unmount(fs);
}

static void loop(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_del_entry(fs, PMEMFS_ROOT_INO, "dir");
	image_add_entry(fs, img->sub, "dir", img->dir, DT_DIR);
	image_unmount(fs);
}

static void loop_self(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_del_entry(fs, PMEMFS_ROOT_INO, "other");
	image_add_entry(fs, img->other, "other", img->other, DT_DIR);
	image_set(fs, img->other, UP_PARENT, img->other);
	image_unmount(fs);
}

static void removed_named(struct image *img)
{
	set_nlink(img, img->fifo, 0);
}

static void removed_full(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_del_entry(fs, img->dir, "sub");
	image_unmount(fs);
	set_nlink(img, img->sub, 0);
}

/* Other repairs of a directory come before its link count is right: it must not be freed then.
 */
static void removed_named_more(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_add_entry(fs, img->sub, "nowhere", 999999, DT_REG);
	image_set(fs, img->sub, UP_PARENT, img->other);
	image_unmount(fs);
	set_nlink(img, img->sub, 0);
}

static void removed_full_more(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	image_add_entry(fs, img->sub, "nowhere", 999999, DT_REG);
	image_unmount(fs);
	removed_full(img);
}

/* ---- blocks --------------------------------------------------------------------------- */

static void shared(struct image *img)
{
	uint64_t block = image_block_of(img, img->file, 5);
	struct pmemfs *fs = image_mount(img);

	image_map(fs, img->lone, 100, block);
	image_unmount(fs);
}

/* Both have the right checksum for it. */
static void shared_written(struct image *img)
{
	uint64_t block = image_block_of(img, img->file, 5);
	struct pmemfs *fs = image_mount(img);

	image_map_written(fs, img->lone, 100, block, true);
	image_unmount(fs);
}

/* Twice by one file, which has it reserved, too. */
static void shared_twice(struct image *img)
{
	uint64_t block = image_block_of(img, img->file, 5);
	struct pmemfs *fs = image_mount(img);

	image_map(fs, img->file, 200, block);
	image_map_written(fs, img->file, 201, block, true);
	image_unmount(fs);
}

/* With the log of a directory, which stays. */
static void shared_log(struct image *img)
{
	struct pmemfs *fs = image_mount(img);
	struct inode *i = image_inode(fs, img->sub);
	uint64_t block = i->log.seg[i->log.nseg - 1].block;

	inode_delete(i);
	image_map(fs, img->lone, 100, block);
	image_unmount(fs);
}

static struct pmemfs_saved *saved_of(struct image *img)
{
	return (void *)(img->mem + get64(image_super(img)->saved_list) * PMEMFS_BLOCK_SIZE);
}

static void reseal_saved(struct image *img)
{
	uint64_t block = get64(image_super(img)->saved_list);
	struct pmemfs_saved *s = saved_of(img);

	s->checksum =
	    put64(hash64((char *)s + 8, sizeof(*s) - 8, super_seed(image_super(img)) ^ block));
}

/* Changes the last extent of the list, and the sum with it. */
static void change_saved(struct image *img, int64_t start, int64_t blocks)
{
	struct pmemfs_saved *s = saved_of(img);
	struct pmemfs_super *sb = image_super(img);
	uint32_t n = get32(s->count) - 1;

	s->extent[n].start = put64(get64(s->extent[n].start) + start);
	s->extent[n].blocks = put64(get64(s->extent[n].blocks) + blocks);
	reseal_saved(img);
	sb->free_blocks = put64(get64(sb->free_blocks) + blocks);
	image_reseal_super(img);
}

static void saved_list(struct image *img)
{
	flip(img, get64(image_super(img)->saved_list) * PMEMFS_BLOCK_SIZE + 50);
}

static void saved_leak(struct image *img)
{
	change_saved(img, 0, -5);
}

/* An extent is made to begin one block earlier, with a block that is in use. */
static void saved_used(struct image *img)
{
	struct pmemfs_saved *s = saved_of(img);
	struct pmemfs_super *sb = image_super(img);
	uint64_t start, after = 0;

	for (uint32_t k = 0; k < get32(s->count); k++) {
		start = get64(s->extent[k].start);
		if (start > after && !super_is_reserved(sb, start - 1)) {
			s->extent[k].start = put64(start - 1);
			s->extent[k].blocks = put64(get64(s->extent[k].blocks) + 1);
			reseal_saved(img);
			sb->free_blocks = put64(get64(sb->free_blocks) + 1);
			image_reseal_super(img);
			return;
		}
		after = start + get64(s->extent[k].blocks);
	}
	fail_msg("no extent to enlarge");
}

static void inode_count(struct image *img)
{
	struct pmemfs_super *sb = image_super(img);

	sb->used_inodes = put64(get64(sb->used_inodes) + 1);
	image_reseal_super(img);
}

static void dentry_count(struct image *img)
{
	image_super(img)->dentry_bytes = put64(12345);
	image_reseal_super(img);
}

static void free_count(struct image *img)
{
	struct pmemfs_super *sb = image_super(img);

	sb->free_blocks = put64(get64(sb->free_blocks) - 1);
	image_reseal_super(img);
}

/* ---- quotas ---------------------------------------------------------------------------- */

static void set_limit(struct pmemfs *fs, uint32_t kind, uint32_t id)
{
	const struct pmemfs_quota q = {
	    .kind = kind, .id = id, .block_limit = 10, .inode_limit = 20};

	assert_int_equal(pmemfs_quota_set(fs, &q, PMEMFS_QUOTA_BLOCKS | PMEMFS_QUOTA_INODES),
			 0);
}

/* Mounted, with quotas, 200 limits, and files of somebody who is over his. */
static struct pmemfs *quotas(struct image *img)
{
	const struct pmemfs_attr a = {.uid = 1000, .gid = 1000};
	struct pmemfs *fs = image_mount(img);

	assert_int_equal(pmemfs_setattr(fs, img->file, PMEMFS_SET_UID, &a, NULL), 0);
	assert_int_equal(pmemfs_setattr(fs, img->sub, PMEMFS_SET_UID, &a, NULL), 0);
	assert_int_equal(pmemfs_setattr(fs, img->lone, PMEMFS_SET_GID, &a, NULL), 0);
	assert_int_equal(pmemfs_quota_on(fs), 0);
	for (uint32_t k = 0; k < 200; k++)
		set_limit(fs, 1 + k % 2, 999 + k / 2);
	return fs;
}

static void quotas_are_on(struct image *img)
{
	image_unmount(quotas(img));
}

static void quotas_were_off(struct image *img)
{
	struct pmemfs *fs = quotas(img);

	assert_int_equal(pmemfs_quota_off(fs), 0);
	image_unmount(fs);
}

static void quota_crash(struct image *img)
{
	struct pmemfs *fs = quotas(img);
	struct pmemfs_attr attr;

	assert_int_equal(pmemfs_lookup(fs, img->dir, "small", &attr), 0);
	assert_int_equal(pmemfs_unlink(fs, img->dir, "small"), 0);
	pmemfs_abandon(fs);
	memset(img->mem + log_end_of(img, img->sub), 0xa5, 24);
}

/* Other damage: the usage follows its repair. */
static void quota_log_middle(struct image *img)
{
	quotas_are_on(img);
	log_middle(img);
}

static void quota_head_word(struct image *img)
{
	quotas_are_on(img);
	head_word(img);
}

static void quota_orphan(struct image *img)
{
	quotas_are_on(img);
	orphan(img);
}

static void quota_unreachable(struct image *img)
{
	quotas_are_on(img);
	unreachable(img);
}

static struct pmemfs *mount_replica(struct image *img)
{
	struct pmemfs_format_options o = {.shards = IMAGE_SHARDS, .replica = true};

	assert_int_equal(pmemfs_format(img->m, &o), 0);
	return image_mount(img);
}

/* Lists two blocks of a file as bad. */
static uint64_t list_bad(struct image *img)
{
	uint64_t block = image_block_of(img, img->file, 0);
	struct pmemfs *fs = image_mount(img);

	assert_int_equal(bad_note(fs, block), 0);
	assert_int_equal(bad_note(fs, block + 1), 0);
	image_unmount(fs);
	return super_bad_list(image_super(img));
}

static void bad_listed(struct image *img)
{
	list_bad(img);
}

static void bad_free_word(struct image *img)
{
	flip(img, list_bad(img) + 8 * 5 + 4);
}

static void bad_entry(struct image *img)
{
	flip(img, list_bad(img) + 3);
}

static void bad_twice(struct image *img)
{
	uint64_t off = list_bad(img);
	struct pmemfs *fs = image_mount(img);
	uint64_t word = bad_word(fs, 7, fs->bad.block[1]);

	image_unmount(fs);
	memcpy(img->mem + off + 8 * 7, &word, 8);
}

/* One that has no owner: no block of the filesystem, or one of the superblock's. */
static void bad_reserved(struct image *img)
{
	uint64_t off = list_bad(img);
	struct pmemfs *fs = image_mount(img);
	uint64_t word[2] = {bad_word(fs, 2, PMEMFS_SB_REPLICA), bad_word(fs, 3, fs->blocks)};

	image_unmount(fs);
	memcpy(img->mem + off + 8 * 2, word, sizeof(word));
}

/* The saved list of free blocks has it. */
static void bad_saved(struct image *img)
{
	uint64_t off = list_bad(img);
	struct pmemfs *fs = image_look(img);
	uint64_t word = bad_word(fs, 2, img->size / PMEMFS_BLOCK_SIZE - 2);

	fs_delete(fs);
	memcpy(img->mem + off + 8 * 2, &word, sizeof(word));
}

static void bad_one_copy_left(struct image *img, bool crash)
{
	struct pmemfs *fs = mount_replica(img);
	uint64_t block;

	assert_int_equal(alloc_contig(fs, 1, 0, &block), 0); /* and nobody has it */
	assert_int_equal(bad_note(fs, block), 0);
	if (crash)
		pmemfs_abandon(fs);
	else
		image_unmount(fs);
	memset(img->mem + super_bad_list(image_super(img)), 0, 8);
}

static void bad_one_copy(struct image *img)
{
	bad_one_copy_left(img, false);
}

static void crash_bad_one_copy(struct image *img)
{
	bad_one_copy_left(img, true);
}

static void limits_head(struct image *img)
{
	quotas_are_on(img);
	flip(img, super_quota_slot(image_super(img)) + 1);
}

static void limits_head_off(struct image *img)
{
	flip(img, super_quota_slot(image_super(img)) + 3);
}

static void limits_log(struct image *img)
{
	quotas_are_on(img);
	flip(img, image_record(img, PMEMFS_INO_QUOTA, 0, NULL) + 30);
}

static void limits_tail(struct image *img)
{
	quotas_are_on(img);
	memset(img->mem + log_end_of(img, PMEMFS_INO_QUOTA), 0xa5, 24);
}

static void limits_reserved(struct image *img)
{
	quotas_are_on(img);
	flip(img, super_quota_slot(image_super(img)) + 9);
}

static void limits_kind(struct image *img)
{
	struct pmemfs *fs = image_mount(img);
	struct pmemfs_perm *perm;
	uint64_t off;

	assert_int_equal(pmemfs_quota_on(fs), 0);
	image_unmount(fs);
	off = image_record(img, PMEMFS_INO_QUOTA, 0, NULL);
	perm = (void *)(img->mem + off + sizeof(struct pmemfs_update) + 8);
	perm->mode = put32(S_IFIFO | 0600);
	image_reseal(img, PMEMFS_INO_QUOTA, off);
}

/* Writes an entry as the core would. */
static void put_limit(struct image *img, uint64_t index, const struct pmemfs_limit *e)
{
	struct pmemfs *fs = quotas(img);

	assert_int_equal(file_put(fs, fs->quota.inode, index * sizeof(*e), e, sizeof(*e)), 0);
	image_unmount(fs);
}

static void limit_kind(struct image *img)
{
	put_limit(img, 150, &(struct pmemfs_limit){put32(3), put32(7), put64(1)});
}

static void limit_root(struct image *img)
{
	put_limit(img, 3, &(struct pmemfs_limit){put32(1), put32(0), put64(1)});
}

static void limit_none(struct image *img)
{
	put_limit(img, 199, &(struct pmemfs_limit){put32(1), put32(5)});
}

static void limit_reserved(struct image *img)
{
	put_limit(img, 200,
		  &(struct pmemfs_limit){put32(1), put32(5), .inodes = put64(1),
					 .reserved = put64(1)});
}

static void limit_twice(struct image *img)
{
	put_limit(img, 300, &(struct pmemfs_limit){put32(1), put32(1000), put64(1)});
}

/* The block after the first is the last one, and not full. */
static void limits_data(struct image *img)
{
	quotas_are_on(img);
	flip(img, image_block_of(img, PMEMFS_INO_QUOTA, 1) * PMEMFS_BLOCK_SIZE + 5);
}

static void limits_shared(struct image *img)
{
	uint64_t block;
	struct pmemfs *fs;

	quotas_are_on(img);
	block = image_block_of(img, PMEMFS_INO_QUOTA, 0);
	fs = image_mount(img);
	fs->quota.enforce = false;
	image_map(fs, img->small, 100, block);
	image_unmount(fs);
}

/*
 * Two head words that look good: the first copy's is an old one, whose log is still there and
 * has room for the record of a repair (else that would state the log anew, as what the newer
 * word names). Unmounts.
 */
static void leave_two_heads(struct image *img, struct pmemfs *fs, struct inode *i)
{
	uint64_t slot = i->slot;
	le64 old;

	assert_int_equal(inode_compact(fs, i), 0);
	memcpy(&old, img->mem + slot, sizeof(old));
	assert_int_equal(inode_compact(fs, i), 0);
	image_unmount(fs);
	memcpy(img->mem + slot, &old, sizeof(old));
}

static void limits_two_heads(struct image *img)
{
	const struct pmemfs_limit root = {put32(1), put32(0), put64(1)};
	struct pmemfs *fs = mount_replica(img);

	assert_int_equal(pmemfs_quota_on(fs), 0);
	assert_int_equal(file_put(fs, fs->quota.inode, 0, &root, sizeof(root)), 0);
	leave_two_heads(img, fs, fs->quota.inode);
}

static void table_two_heads(struct image *img)
{
	struct pmemfs *fs = mount_replica(img);

	leave_two_heads(img, fs, fs->shard[0].table.inode);
}

/* The block of usage is the second of the chain. */
static struct pmemfs_usage *usage_of(struct image *img, uint64_t *ret_block)
{
	*ret_block = get64(saved_of(img)->next);
	return (void *)(img->mem + *ret_block * PMEMFS_BLOCK_SIZE);
}

static void reseal_usage(struct image *img, struct pmemfs_usage *u, uint64_t block)
{
	u->checksum =
	    put64(hash64((char *)u + 8, sizeof(*u) - 8, super_seed(image_super(img)) ^ block));
}

static void usage_wrong(struct image *img)
{
	struct pmemfs_usage *u;
	uint64_t block;

	quotas_are_on(img);
	u = usage_of(img, &block);
	u->of[1].blocks = put64(get64(u->of[1].blocks) + 1);
	reseal_usage(img, u, block);
}

static void usage_missing(struct image *img)
{
	struct pmemfs_usage *u;
	uint64_t block;

	quotas_are_on(img);
	u = usage_of(img, &block);
	u->of[0].id = put32(500); /* instead of 0 */
	reseal_usage(img, u, block);
}

static void usage_order(struct image *img)
{
	struct pmemfs_usage *u;
	uint64_t block;

	quotas_are_on(img);
	u = usage_of(img, &block);
	u->of[1].id = put32(0);
	reseal_usage(img, u, block);
}

static void usage_block(struct image *img)
{
	uint64_t block;

	quotas_are_on(img);
	usage_of(img, &block);
	flip(img, block * PMEMFS_BLOCK_SIZE + 100);
}

/* ---- data ----------------------------------------------------------------------------- */

static void data(struct image *img)
{
	flip(img, image_block_of(img, img->file, 3) * PMEMFS_BLOCK_SIZE + 9);
	flip(img, image_block_of(img, img->file, 4) * PMEMFS_BLOCK_SIZE + 4095);
	flip(img, image_block_of(img, img->file, 9) * PMEMFS_BLOCK_SIZE);
}

static void data_end(struct image *img)
{
	/* 300000 bytes: the last block has 992 valid ones */
	flip(img, image_block_of(img, img->small, 0) * PMEMFS_BLOCK_SIZE + 99);
}

static void data_behind_end(struct image *img)
{
	flip(img, image_block_of(img, img->small, 0) * PMEMFS_BLOCK_SIZE + 100);
}

static void data_poison(struct image *img)
{
	image_poison(img, image_block_of(img, img->file, 7) * PMEMFS_BLOCK_SIZE);
}

/* ---- parity --------------------------------------------------------------------------- */

/* Where the parity of a file's block stands, or its stripe's word. */
static uint64_t parity_of(struct image *img, uint64_t fblock, bool word)
{
	const struct pmemfs_super *sb = image_super(img);
	uint64_t stripes = DIV_UP(get64(sb->blocks), PMEMFS_STRIPE);
	uint64_t stripe = image_block_of(img, img->file, fblock) / PMEMFS_STRIPE;
	uint64_t start = super_parity_start(sb);

	if (word)
		return start * PMEMFS_BLOCK_SIZE + stripe * 8;
	return (start + super_parity_blocks(sb) - stripes + stripe) * PMEMFS_BLOCK_SIZE;
}

static void parity_block(struct image *img)
{
	flip(img, parity_of(img, 3, false) + 1000);
}

static void parity_word(struct image *img)
{
	flip(img, parity_of(img, 40, true));
}

/* Of two stripes. */
static void parity_data(struct image *img)
{
	flip(img, image_block_of(img, img->file, 3) * PMEMFS_BLOCK_SIZE + 9);
	flip(img, image_block_of(img, img->file, 40) * PMEMFS_BLOCK_SIZE);
}

static void crash_parity(struct image *img)
{
	struct pmemfs *fs = image_mount(img);

	for (unsigned k = 0; k < 100; k++) /* more than are open */
		assert_int_equal(pmemfs_write(fs, img->file, k * 3000 % 290000, "new", 3, 0),
				 3);
	pmemfs_abandon(fs);
}

/* ---- no damage: what a crash leaves --------------------------------------------------- */

static void crash(struct image *img)
{
	pmemfs_abandon(image_mount(img));
}

static void crash_orphan(struct image *img)
{
	struct pmemfs *fs = image_mount(img);
	struct pmemfs_attr attr;

	assert_int_equal(pmemfs_lookup(fs, img->dir, "small", &attr), 0);
	assert_int_equal(pmemfs_unlink(fs, img->dir, "small"), 0);
	pmemfs_abandon(fs);
}

static void crash_tail(struct image *img)
{
	crash(img);
	log_tail(img);
	log_tail_behind(img);
}

static void crash_super(struct image *img)
{
	struct pmemfs_super sb;

	memcpy(&sb, img->mem, sizeof(sb));
	crash(img);
	memcpy(img->mem, &sb, sizeof(sb)); /* the replica is newer */
}

/* ---- after a crash, but no crash tears it ---------------------------------------------- */

/* Where the k-th record's predecessor ends: a link is there, if it is the first of a segment.
 */
static uint64_t link_before(struct image *img, uint64_t ino, unsigned k)
{
	uint32_t len;
	uint64_t off = image_record(img, ino, k - 1, &len);

	assert_true(image_record(img, ino, k, NULL) != off + len);
	return off + len;
}

/* Stated anew, in an area and a segment; then a crash. */
static void rewrite_sub(struct image *img)
{
	struct pmemfs *fs = image_mount(img);
	struct inode *i;

	assert_int_equal(inode_open(fs, img->sub, true, &i), 0);
	assert_int_equal(inode_compact(fs, i), 0);
	inode_close(fs, i);
	pmemfs_abandon(fs);
}

/* All of its entries are in the last record. */
static void crash_rewritten(struct image *img)
{
	rewrite_sub(img);
	flip(img, image_record(img, img->sub, 1, NULL) + 30);
}

static void crash_rewritten_link(struct image *img)
{
	rewrite_sub(img);
	memset(img->mem + link_before(img, img->sub, 1), 0, LOG_LINK_SIZE);
}

/* Where the first link that was appended stands. */
static uint64_t appended_link(struct image *img)
{
	unsigned k = 1;
	uint32_t len;
	uint64_t off;

	crash(img);
	do
		off = image_record(img, img->sub, k - 1, &len);
	while (image_record(img, img->sub, k++, NULL) == off + len);
	return off + len;
}

/* The header that a link has is known. */
static void crash_link_header(struct image *img)
{
	flip(img, appended_link(img) + offsetof(struct pmemfs_rec, seq));
}

/* Where it leads there is more than one record. */
static void crash_link_sum(struct image *img)
{
	flip(img, appended_link(img));
}

/* ---- the table ------------------------------------------------------------------------ */

/* clang-format off */
const struct damage damages[] = {
	{"superblock", sb_primary, {CHECK_SB_PRIMARY}, SAFE},
	{"superblock-replica", sb_replica, {CHECK_SB_REPLICA}, SAFE},
	{"superblock-replica-gone", sb_replica_gone, {CHECK_SB_REPLICA}, SAFE},
	{"superblock-copies-differ", sb_differ, {CHECK_SB_DIFFER}, SAFE},
	{"table-record", table_record, {CHECK_TABLE}, NEVER},
	{"table-header", table_header, {CHECK_HEADER}, SAFE},
	{"table-reserved", table_reserved, {CHECK_SLOT_RESERVED}, SAFE},
	{"table-two-heads", table_two_heads, {CHECK_COPY}, SAFE},
	{"table-kind", table_kind, {CHECK_TABLE_KIND}, NEVER},
	{"journal-record", journal_record, {CHECK_JOURNAL}, NEVER},
	{"head-word", head_word, {CHECK_HEAD}, ASKED, .yes = {CHECK_HEAD, CHECK_DANGLING}},
	{"slot-zero", head_zero, {CHECK_HEAD}, ASKED, .yes = {CHECK_HEAD, CHECK_DANGLING}},
	{"log-middle", log_middle, {CHECK_LOG_DAMAGED}, ASKED,
	 .yes = {CHECK_LOG_DAMAGED, CHECK_UNREACHABLE}},
	{"log-sense", log_sense, {CHECK_LOG_SENSE}, ASKED,
	 .yes = {CHECK_LOG_SENSE, CHECK_UNREACHABLE}},
	{"log-first", log_first, {CHECK_LOG_EMPTY}, ASKED,
	 .yes = {CHECK_LOG_EMPTY, CHECK_DANGLING}},
	{"log-no-target", log_no_target, {CHECK_LOG_DAMAGED}, ASKED,
	 .yes = {CHECK_LOG_DAMAGED, CHECK_LOG_SENSE, CHECK_LOG_EMPTY, CHECK_DANGLING}},
	{"crash-rewritten", crash_rewritten, {CHECK_LOG_DAMAGED}, ASKED,
	 .yes = {CHECK_LOG_DAMAGED, CHECK_UNREACHABLE}},
	{"crash-rewritten-link", crash_rewritten_link, {CHECK_LOG_DAMAGED}, ASKED,
	 .yes = {CHECK_LOG_DAMAGED, CHECK_UNREACHABLE}},
	{"crash-link-header", crash_link_header, {CHECK_LOG_DAMAGED}, ASKED,
	 .yes = {CHECK_LOG_DAMAGED, CHECK_UNREACHABLE}},
	{"crash-link-sum", crash_link_sum, {CHECK_LOG_DAMAGED}, ASKED,
	 .yes = {CHECK_LOG_DAMAGED, CHECK_UNREACHABLE}},
	{"log-no-room", log_no_room, {CHECK_LOG_TAIL}, ASKED},
	{"log-tail", log_tail, {CHECK_LOG_TAIL}, ASKED},
	{"log-tail-behind-zeros", log_tail_behind, {CHECK_LOG_TAIL}, ASKED},
	{"log-tail-table", log_tail_table, {CHECK_LOG_TAIL}, ASKED},
	{"log-poison", log_poison, {CHECK_INODE_IO}, NEVER, .poison = true},
	{"log-hides-blocks", log_hides_blocks,
	 {CHECK_LOG_DAMAGED, CHECK_SLOT_RESERVED, CHECK_NLINK}, ASKED, .left = true},
	{"slot-reserved", slot_reserved, {CHECK_SLOT_RESERVED}, SAFE},
	{"record-reserved", rec_reserved, {CHECK_REC_RESERVED}, SAFE},
	{"record-time", rec_time, {CHECK_TIME}, SAFE},
	{"fifo-size", fifo_size, {CHECK_SIZE}, SAFE},
	{"directory-nlink", dir_nlink, {CHECK_DIR_NLINK}, SAFE},
	{"orphan", orphan, {CHECK_ORPHAN}, SAFE},
	{"root-missing", root_missing,
	 {CHECK_NO_ROOT, CHECK_SAVED_LEAK, CHECK_FREE_COUNT, CHECK_INODE_COUNT, CHECK_DENTRY_COUNT},
	 ASKED, .yes = {CHECK_NO_ROOT, CHECK_UNREACHABLE}},
	{"root-damaged", root_damaged, {CHECK_LOG_EMPTY, CHECK_ROOT}, ASKED,
	 .yes = {CHECK_LOG_EMPTY, CHECK_UNREACHABLE}},
	{"root-parent", root_parent, {CHECK_PARENT}, SAFE},
	{"dangling", dangling, {CHECK_DANGLING, CHECK_DANGLING}, ASKED},
	{"entry-type", entry_type, {CHECK_ENTRY_TYPE}, SAFE},
	{"second-name", second_name, {CHECK_SECOND_NAME}, ASKED},
	{"second-name-first", second_name_first, {CHECK_SECOND_NAME}, ASKED},
	{"names-root", names_root, {CHECK_NAMES_ROOT}, ASKED},
	{"parent", parent, {CHECK_PARENT}, SAFE},
	{"nlink-high", nlink_high, {CHECK_NLINK}, SAFE},
	{"nlink-low", nlink_low, {CHECK_NLINK}, SAFE},
	{"unreachable", unreachable, {CHECK_UNREACHABLE, CHECK_UNREACHABLE}, ASKED},
	{"loop", loop, {CHECK_PARENT, CHECK_LOOP}, ASKED},
	{"loop-self", loop_self, {CHECK_LOOP}, ASKED},
	{"removed-but-named", removed_named, {CHECK_REMOVED_NAMED}, ASKED},
	{"removed-but-full", removed_full, {CHECK_UNREACHABLE}, ASKED},
	{"removed-but-named-more", removed_named_more,
	 {CHECK_DANGLING, CHECK_REMOVED_NAMED, CHECK_PARENT}, ASKED},
	{"removed-but-full-more", removed_full_more, {CHECK_DANGLING, CHECK_UNREACHABLE}, ASKED},
	{"shared-block", shared, {CHECK_SHARED_DATA, CHECK_SHARED_DATA}, ASKED},
	{"bad-listed", bad_listed, {0}, SAFE},
	{"bad-free-word", bad_free_word, {CHECK_BAD_WORD}, SAFE},
	{"bad-entry", bad_entry, {CHECK_BAD_WORD}, SAFE},
	{"bad-twice", bad_twice, {CHECK_BAD_WORD}, SAFE},
	{"bad-reserved", bad_reserved, {CHECK_BAD_WORD, CHECK_BAD_WORD}, SAFE},
	{"bad-saved", bad_saved, {CHECK_FREE_COUNT}, SAFE},
	{"bad-one-copy", bad_one_copy, {CHECK_BAD_WORD}, SAFE},
	{"crash-bad-one-copy", crash_bad_one_copy, {0}, SAFE},
	{"shared-written", shared_written, {CHECK_SHARED_DATA, CHECK_SHARED_DATA}, ASKED},
	{"shared-twice", shared_twice,
	 {CHECK_SHARED_DATA, CHECK_SHARED_DATA, CHECK_SHARED_DATA}, ASKED},
	{"shared-log", shared_log, {CHECK_SHARED_DATA}, ASKED},
	{"saved-list", saved_list, {CHECK_SAVED_LIST}, SAFE},
	{"saved-leak", saved_leak, {CHECK_SAVED_LEAK, CHECK_FREE_COUNT}, SAFE},
	{"saved-used", saved_used, {CHECK_SAVED_USED, CHECK_FREE_COUNT}, SAFE},
	{"free-count", free_count, {CHECK_SAVED_LIST, CHECK_FREE_COUNT}, SAFE},
	{"inode-count", inode_count, {CHECK_INODE_COUNT}, SAFE},
	{"dentry-count", dentry_count, {CHECK_DENTRY_COUNT}, SAFE},
	{"quotas", quotas_are_on, {0}, SAFE},
	{"quotas-off", quotas_were_off, {0}, SAFE},
	{"quota-crash", quota_crash, {0}, SAFE},
	{"quota-log-middle", quota_log_middle, {CHECK_LOG_DAMAGED}, ASKED,
	 .yes = {CHECK_LOG_DAMAGED, CHECK_UNREACHABLE}},
	{"quota-head-word", quota_head_word, {CHECK_HEAD}, ASKED,
	 .yes = {CHECK_HEAD, CHECK_DANGLING}},
	{"quota-orphan", quota_orphan, {CHECK_ORPHAN}, SAFE},
	{"quota-unreachable", quota_unreachable, {CHECK_UNREACHABLE, CHECK_UNREACHABLE}, ASKED},
	{"limits-head", limits_head, {CHECK_HEAD}, ASKED},
	{"limits-head-off", limits_head_off, {CHECK_HEAD}, ASKED},
	{"limits-log", limits_log, {CHECK_LOG_EMPTY}, ASKED},
	{"limits-tail", limits_tail, {CHECK_LOG_TAIL}, ASKED},
	{"limits-reserved", limits_reserved, {CHECK_SLOT_RESERVED}, SAFE},
	{"limits-kind", limits_kind, {CHECK_LIMITS_KIND}, ASKED},
	{"limits-data", limits_data, {CHECK_LIMIT_DATA}, ASKED},
	{"limits-shared", limits_shared, {CHECK_SHARED_DATA, CHECK_SHARED_DATA}, ASKED},
	{"limits-two-heads", limits_two_heads, {CHECK_COPY, CHECK_LIMIT}, ASKED},
	{"limit-kind", limit_kind, {CHECK_LIMIT}, ASKED},
	{"limit-root", limit_root, {CHECK_LIMIT}, ASKED},
	{"limit-none", limit_none, {CHECK_LIMIT}, ASKED},
	{"limit-reserved", limit_reserved, {CHECK_LIMIT}, ASKED},
	{"limit-twice", limit_twice, {CHECK_LIMIT_TWICE}, ASKED},
	{"usage-wrong", usage_wrong, {CHECK_USAGE}, SAFE},
	{"usage-missing", usage_missing, {CHECK_USAGE, CHECK_USAGE}, SAFE},
	{"usage-order", usage_order, {CHECK_SAVED_LIST}, SAFE},
	{"usage-block", usage_block, {CHECK_SAVED_LIST}, SAFE},
	{"data", data, {CHECK_DATA, CHECK_DATA}, NEVER},
	{"data-end", data_end, {CHECK_DATA}, NEVER},
	{"data-behind-end", data_behind_end, {0}, SAFE},
	{"data-poison", data_poison, {CHECK_DATA_IO}, NEVER, .poison = true},
	{"parity-data", parity_data, {CHECK_REBUILD, CHECK_REBUILD}, SAFE, .parity = true},
	{"parity-data-end", data_end, {CHECK_REBUILD}, SAFE, .parity = true},
	{"parity-data-behind-end", data_behind_end, {CHECK_PARITY}, SAFE, .parity = true},
	{"parity-block", parity_block, {CHECK_PARITY}, SAFE, .parity = true},
	{"parity-word", parity_word, {CHECK_UNCOVERED}, SAFE, .parity = true},
	{"parity-too-much", data, {CHECK_DATA, CHECK_DATA, CHECK_PARITY}, NEVER,
	 .second = {CHECK_DATA, CHECK_DATA}, .parity = true},
	{"no-damage", NULL, {0}, SAFE},
	{"parity-no-damage", NULL, {0}, SAFE, .parity = true},
	{"crash-parity", crash_parity, {0}, SAFE, .parity = true},
	{"crash", crash, {0}, SAFE},
	{"crash-orphan", crash_orphan, {0}, SAFE},
	{"crash-tail", crash_tail, {0}, SAFE},
	{"crash-superblock", crash_super, {0}, SAFE},
	{NULL},
};
/* clang-format on */
