/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The superblock and its replica, and making a new filesystem.
 *
 * Invariants:
 *  1. A copy counts only when its checksum holds and every field makes sense.
 *  2. Of two valid copies the one with the higher sequence is the filesystem; the primary when
 *     they are equal, and when they belong to different filesystems.
 *  3. Writing makes the copy durable that is not the filesystem now before the other one is
 *     touched, so that at any instant, also after a write that was cut short, one is valid.
 *  4. Formatting destroys both copies durably before it stores anything else, and writes them
 *     last: what lies in between does not mount.
 *
 * No locks: the superblock is read and written by one thread, at mount and unmount.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "fs.h"

#define WHY_MAX 160

static const uint64_t super_place[2] = {
    PMEMFS_SB_BLOCK * (uint64_t)PMEMFS_BLOCK_SIZE,
    PMEMFS_SB_REPLICA *(uint64_t)PMEMFS_BLOCK_SIZE,
};

/* ---- geometry ---- */

unsigned super_copies(const struct pmemfs_super *sb)
{
	return get64(sb->incompat) & PMEMFS_INCOMPAT_REPLICA ? 2 : 1;
}

static uint64_t shard_blocks(const struct pmemfs_super *sb)
{
	return (uint64_t)PMEMFS_SHARD_BLOCKS * super_copies(sb);
}

static uint64_t shard_start_for(const struct pmemfs_super *sb, unsigned shards)
{
	uint64_t headers = shards * shard_blocks(sb);

	return headers + 1 <= PMEMFS_SB_REPLICA ? 1 : PMEMFS_SB_REPLICA + 1;
}

static uint64_t parity_blocks_for(const struct pmemfs_super *sb, uint64_t blocks)
{
	uint64_t stripes = DIV_UP(blocks, PMEMFS_STRIPE);

	return get64(sb->ro_compat) & PMEMFS_ROCOMPAT_PARITY
		   ? DIV_UP(stripes, PMEMFS_PARITY_WORDS) + stripes
		   : 0;
}

/* The fixed blocks leave room for something else. */
static bool shards_fit(const struct pmemfs_super *sb, uint64_t blocks, unsigned shards)
{
	uint64_t end = shard_start_for(sb, shards) + shards * shard_blocks(sb);
	uint64_t parity = parity_blocks_for(sb, blocks);

	return (parity ? MAX(end, PMEMFS_SB_REPLICA + 1) + parity : end) <= blocks / 2;
}

uint64_t super_seed(const struct pmemfs_super *sb)
{
	return get64(sb->seed);
}

uint64_t super_first_id(const struct pmemfs_super *sb)
{
	return (uint64_t)(get32(sb->mounts) & 0xfffff) << 28 | 1;
}

uint64_t super_shard_header(const struct pmemfs_super *sb, unsigned shard)
{
	return get32(sb->shard_start) + shard * shard_blocks(sb);
}

uint64_t super_shard_span(const struct pmemfs_super *sb)
{
	return DIV_UP(get64(sb->blocks), get32(sb->shards));
}

uint64_t super_parity_start(const struct pmemfs_super *sb)
{
	return MAX(super_shard_header(sb, get32(sb->shards)), PMEMFS_SB_REPLICA + 1);
}

uint64_t super_parity_blocks(const struct pmemfs_super *sb)
{
	return parity_blocks_for(sb, get64(sb->blocks));
}

bool super_is_reserved(const struct pmemfs_super *sb, uint64_t block)
{
	uint64_t parity = super_parity_start(sb);

	return block == PMEMFS_SB_BLOCK || block == PMEMFS_SB_REPLICA ||
	       (block >= get32(sb->shard_start) &&
		block < super_shard_header(sb, get32(sb->shards))) ||
	       (block >= parity && block - parity < super_parity_blocks(sb));
}

uint64_t super_table_slot(const struct pmemfs_super *sb, unsigned shard)
{
	return super_shard_header(sb, shard) << PMEMFS_BLOCK_SHIFT;
}

uint64_t super_quota_slot(const struct pmemfs_super *sb)
{
	return super_table_slot(sb, 0) + PMEMFS_SLOT_SIZE;
}

uint64_t super_bad_list(const struct pmemfs_super *sb)
{
	return super_table_slot(sb, 0) + 2 * PMEMFS_SLOT_SIZE;
}

uint64_t super_journal_slot(const struct pmemfs_super *sb, unsigned shard, unsigned slot)
{
	return (super_shard_header(sb, shard) + (1 + slot) * super_copies(sb))
	       << PMEMFS_BLOCK_SHIFT;
}

/* ---- reading ---- */

/* How one copy looked. Better ones are greater. */
enum copy_state {
	COPY_FOREIGN,	 /* no magic */
	COPY_UNREADABLE, /* the medium failed */
	COPY_DAMAGED,
	COPY_OTHER, /* valid, of another version of the format, or with features of one */
	COPY_VALID,
};

static uint64_t super_checksum(const struct pmemfs_super *sb)
{
	return hash64(sb, offsetof(struct pmemfs_super, checksum), 0);
}

static bool is_zero(const void *p, size_t len)
{
	const uint8_t *b = p;

	return !len || (!b[0] && !memcmp(b, b + 1, len - 1));
}

/* Every field of a superblock of this version; its checksum holds. */
static bool super_valid(const struct pmemfs_super *sb)
{
	uint64_t blocks = get64(sb->blocks), list = get64(sb->saved_list);
	unsigned shards = get32(sb->shards);
	bool newer = (get64(sb->compat) & ~PMEMFS_COMPAT_KNOWN) ||
		     (get64(sb->ro_compat) & ~PMEMFS_ROCOMPAT_KNOWN);

	if (get32(sb->block_size) != PMEMFS_BLOCK_SIZE)
		return false;
	if (blocks < PMEMFS_MIN_SIZE / PMEMFS_BLOCK_SIZE || blocks > PMEMFS_MAX_BLOCKS)
		return false;
	if (!shards || shards > PMEMFS_MAX_SHARDS || !shards_fit(sb, blocks, shards))
		return false;
	if (get32(sb->shard_start) != shard_start_for(sb, shards))
		return false;
	if (list && (list >= blocks || super_is_reserved(sb, list)))
		return false;
	if (get64(sb->free_blocks) >= blocks || !get64(sb->seed))
		return false;
	/* What a newer version added is announced by a feature bit. */
	if (newer)
		return true;
	return !(get32(sb->state) & ~(PMEMFS_STATE_CLEAN | PMEMFS_STATE_ERROR)) &&
	       is_zero(sb->reserved, sizeof(sb->reserved));
}

static enum copy_state copy_read(struct media *m, uint64_t off, struct pmemfs_super *ret)
{
	struct pmemfs_super sb;
	int r = media_read(m, off, &sb, sizeof(sb));

	if (r == -ERANGE)
		return COPY_FOREIGN;
	if (r)
		return COPY_UNREADABLE;
	*ret = sb;
	if (get64(sb.magic) != PMEMFS_MAGIC)
		return COPY_FOREIGN;
	if (get64(sb.checksum) != super_checksum(&sb) || !get32(sb.version))
		return COPY_DAMAGED;
	if (get32(sb.version) != PMEMFS_VERSION ||
	    (get64(sb.incompat) & ~PMEMFS_INCOMPAT_KNOWN))
		return COPY_OTHER;
	return super_valid(&sb) ? COPY_VALID : COPY_DAMAGED;
}

/* Which of two copies is the filesystem: 0 or 1. */
static unsigned copy_choose(const struct pmemfs_super sb[2], const enum copy_state st[2])
{
	if (st[0] != st[1])
		return st[1] > st[0];
	if (st[0] < COPY_OTHER || get64(sb[0].seed) != get64(sb[1].seed))
		return 0;
	return get64(sb[1].sequence) > get64(sb[0].sequence);
}

static int why_other(const struct pmemfs_super *sb, const char **ret_why)
{
	static _Thread_local char why[WHY_MAX];

	if (get32(sb->version) < PMEMFS_VERSION)
		snprintf(why, sizeof(why),
			 "has pmemfs format version %u, this program knows only %u: copy the "
			 "files with the pmemfs that made it",
			 get32(sb->version), PMEMFS_VERSION);
	else if (get32(sb->version) > PMEMFS_VERSION)
		snprintf(why, sizeof(why),
			 "has pmemfs format version %u, this program knows up to %u: use a "
			 "newer pmemfs",
			 get32(sb->version), PMEMFS_VERSION);
	else
		snprintf(why, sizeof(why),
			 "uses pmemfs features (%#llx) that this program does not know: use a "
			 "newer pmemfs",
			 (unsigned long long)(get64(sb->incompat) & ~PMEMFS_INCOMPAT_KNOWN));
	*ret_why = why;
	return -EPROTONOSUPPORT;
}

static int why_small(const struct pmemfs_super *sb, uint64_t size, const char **ret_why)
{
	static _Thread_local char why[WHY_MAX];

	snprintf(why, sizeof(why),
		 "has %llu bytes, but the filesystem on it %llu: it was cut short, restore its "
		 "size or a copy",
		 (unsigned long long)size,
		 (unsigned long long)get64(sb->blocks) << PMEMFS_BLOCK_SHIFT);
	*ret_why = why;
	return -ENOSPC;
}

int super_read(struct media *m, struct pmemfs_super *ret, unsigned *ret_ok,
	       const char **ret_why)
{
	struct pmemfs_super sb[2] = {0};
	enum copy_state st[2];
	unsigned best, other;
	bool same;

	for (unsigned i = 0; i < 2; i++)
		st[i] = copy_read(m, super_place[i], &sb[i]);
	best = copy_choose(sb, st);
	other = !best;
	switch (st[best]) {
	case COPY_FOREIGN:
		*ret_why = "holds no pmemfs filesystem: make one with mkfs.pmemfs";
		return -EINVAL;
	case COPY_UNREADABLE:
		*ret_why = "has superblocks that cannot be read, the medium failed: restore a "
			   "copy on another device";
		return -EUCLEAN;
	case COPY_DAMAGED:
		*ret_why = "has a pmemfs filesystem whose superblock and replica are both "
			   "damaged: restore a copy";
		return -EUCLEAN;
	case COPY_OTHER:
		*ret = sb[best];
		return why_other(&sb[best], ret_why);
	case COPY_VALID:
		break;
	}
	/* A copy of another filesystem is as good as none. */
	same = st[other] == COPY_VALID && get64(sb[0].seed) == get64(sb[1].seed);
	*ret = sb[best];
	if (ret_ok)
		*ret_ok = 1u << best | (unsigned)same << other;
	if (get64(sb[best].blocks) > media_size(m) >> PMEMFS_BLOCK_SHIFT)
		return why_small(&sb[best], media_size(m), ret_why);
	return 0;
}

/* The copy that is not the filesystem now: damaged, older, or else the replica. */
static unsigned copy_spare(struct media *m)
{
	struct pmemfs_super sb[2];
	enum copy_state st[2];

	for (unsigned i = 0; i < 2; i++)
		st[i] = copy_read(m, super_place[i], &sb[i]);
	return !copy_choose(sb, st);
}

int super_write(struct media *m, struct pmemfs_super *sb)
{
	unsigned first = copy_spare(m);
	int r;

	sb->sequence = put64(get64(sb->sequence) + 1);
	sb->checksum = put64(super_checksum(sb));
	/*
	 * Crash before the first fence: the other copy is the old one, and valid. After it: the
	 * first copy is the new one. A crash in the next super_write, after this one was cut
	 * short, meets one valid copy too, for the spare one is written first.
	 */
	media_copy(m, super_place[first], sb, sizeof(*sb));
	r = media_fence(m);
	if (r)
		return r;
	media_copy(m, super_place[!first], sb, sizeof(*sb));
	return media_fence(m);
}

static void info_fill(struct pmemfs_info *ret, const struct pmemfs_super *sb, unsigned ok)
{
	unsigned state = get32(sb->state);

	*ret = (struct pmemfs_info){
	    .version = get32(sb->version),
	    .size = get64(sb->blocks) << PMEMFS_BLOCK_SHIFT,
	    .shards = get32(sb->shards),
	    .compat = get64(sb->compat),
	    .incompat = get64(sb->incompat),
	    .ro_compat = get64(sb->ro_compat),
	    .only_readonly = get64(sb->ro_compat) & ~PMEMFS_ROCOMPAT_KNOWN,
	    .replica = super_copies(sb) == 2,
	    .parity = get64(sb->ro_compat) & PMEMFS_ROCOMPAT_PARITY,
	    .created = get64(sb->created),
	    .mounted = get64(sb->mounted),
	    .checked = get64(sb->checked),
	    .mounts = get32(sb->mounts),
	    .clean = state & PMEMFS_STATE_CLEAN,
	    .error = state & PMEMFS_STATE_ERROR,
	    .primary_ok = ok & 1,
	    .replica_ok = ok & 2,
	    .counters_valid = state & PMEMFS_STATE_CLEAN,
	    .free_blocks = get64(sb->free_blocks),
	    .used_inodes = get64(sb->used_inodes),
	    .dentry_bytes = get64(sb->dentry_bytes),
	    .calibrated = get32(sb->calibration.valid) == 1,
	    .calibrated_when = get64(sb->calibration.when),
	    .calibrated_cpu = get32(sb->calibration.cpu_model),
	};
	memcpy(ret->uuid, sb->uuid, sizeof(ret->uuid));
	memcpy(ret->label, sb->label, PMEMFS_LABEL_MAX);
}

int pmemfs_probe(struct media *m, struct pmemfs_info *ret, const char **ret_why)
{
	struct pmemfs_super sb;
	unsigned ok = 0;
	int r = super_read(m, &sb, &ok, ret_why);

	if (!r || r == -ENOSPC || r == -EPROTONOSUPPORT)
		info_fill(ret, &sb, ok);
	return r;
}

/* ---- formatting ---- */

/* One for each CPU, but not in pieces of less than 16 MiB. */
static unsigned default_shards(uint64_t blocks)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t fit = blocks / (PMEMFS_MIN_SIZE >> PMEMFS_BLOCK_SHIFT);
	uint64_t want = MAX(cpus, 4L);

	want = MIN(want, fit);
	want = MIN(want, PMEMFS_MAX_SHARDS);
	return MAX(want, 1u);
}

static int random_uuid(uint8_t uuid[16])
{
	if (getrandom(uuid, 16, 0) != 16)
		return -EIO;
	uuid[6] = (uuid[6] & 0x0f) | 0x40; /* version 4, variant 1 (RFC 4122) */
	uuid[8] = (uuid[8] & 0x3f) | 0x80;
	return 0;
}

/* Nothing that an earlier filesystem left here verifies in this one, not even with its UUID. */
static int random_seed(le64 *ret)
{
	uint64_t seed = 0;

	while (!seed)
		if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
			return -EIO;
	*ret = put64(seed);
	return 0;
}

/* The immutable part, from what was asked for. */
static int super_make(const struct media *m, const struct pmemfs_format_options *o,
		      struct pmemfs_super *ret)
{
	uint64_t size = o->size ? o->size : media_size(m);
	uint64_t blocks = size >> PMEMFS_BLOCK_SHIFT;
	struct pmemfs_super sb = {0};
	unsigned shards;

	if (size < PMEMFS_MIN_SIZE || size > media_size(m))
		return -EFBIG;
	if (blocks > PMEMFS_MAX_BLOCKS || (o->size && o->size % PMEMFS_BLOCK_SIZE))
		return -EINVAL;
	if (o->replica)
		sb.incompat = put64(PMEMFS_INCOMPAT_REPLICA);
	if (o->parity)
		sb.ro_compat = put64(PMEMFS_ROCOMPAT_PARITY);
	shards = o->shards ? o->shards : default_shards(blocks);
	if (shards > PMEMFS_MAX_SHARDS || !shards_fit(&sb, blocks, shards))
		return -EINVAL;
	if (o->label) {
		if (strlen(o->label) > PMEMFS_LABEL_MAX)
			return -EINVAL;
		memcpy(sb.label, o->label, strlen(o->label));
	}
	memcpy(sb.uuid, o->uuid, sizeof(sb.uuid));
	if (is_zero(sb.uuid, sizeof(sb.uuid)) && random_uuid(sb.uuid))
		return -EIO;
	sb.seed = put64(o->seed);
	if (!o->seed && random_seed(&sb.seed))
		return -EIO;
	sb.magic = put64(PMEMFS_MAGIC);
	sb.version = put32(PMEMFS_VERSION);
	sb.block_size = put32(PMEMFS_BLOCK_SIZE);
	sb.blocks = put64(blocks);
	sb.shards = put32(shards);
	sb.shard_start = put32(shard_start_for(&sb, shards));
	sb.created = put64(o->now ? o->now : time(NULL));
	sb.state = put32(PMEMFS_STATE_CLEAN);
	*ret = sb;
	return 0;
}

/* The block at or after `block` that is neither reserved nor of the table block `used`. */
static uint64_t next_free(const struct pmemfs_super *sb, uint64_t used, uint64_t block)
{
	uint64_t parity = super_parity_start(sb), blocks = super_parity_blocks(sb);

	if (block >= parity && block - parity < blocks)
		block = parity + blocks;
	while (super_is_reserved(sb, block) || (used && block - used < super_copies(sb)))
		block++;
	return block;
}

/* Where the free space that `block` is in ends. */
static uint64_t free_end(const struct pmemfs_super *sb, uint64_t used, uint64_t block)
{
	uint64_t wall[] = {get32(sb->shard_start), PMEMFS_SB_REPLICA, used,
			   super_parity_blocks(sb) ? super_parity_start(sb) : 0};
	uint64_t end = get64(sb->blocks);

	for (unsigned i = 0; i < ARRAY_LEN(wall); i++)
		if (wall[i] > block)
			end = MIN(end, wall[i]);
	return end;
}

/* Saves the free list of the new filesystem, whose one table block is `used`. */
static int write_saved(struct pmemfs *fs, uint64_t used)
{
	struct pmemfs_super *sb = &fs->sb;
	uint64_t pos, end;
	int r;

	for (pos = next_free(sb, used, 0); pos < fs->blocks; pos = next_free(sb, used, end)) {
		end = free_end(sb, used, pos);
		alloc_add(fs, pos, end - pos);
	}
	r = saved_write(fs);
	sb->free_blocks = put64(alloc_free(fs));
	sb->used_inodes = put64(1);
	sb->dentry_bytes = put64(0);
	return r;
}

/* Writes len bytes of a table block, whose first slot is the inode's; the others are in it. */
static int write_slot(struct pmemfs *fs, struct inode *i, uint64_t id, struct pmemfs_slot *slot,
		      size_t len)
{
	uint64_t head = head_make(1, id);
	struct rangemap map = {0};
	struct log log = {0};
	int r = log_rewrite(fs, i, head, false, 0, slot->area[0], &log, &map);

	if (r)
		return r;
	log_free(&log);
	rangemap_free(&map);
	slot->head = put64(head);
	meta_copy(fs, i->slot, fs->mirror, slot, len);
	return 0;
}

static int write_root(struct pmemfs *fs, const struct pmemfs_format_options *o, uint64_t off,
		      uint64_t id, struct pmemfs_slot *slot, size_t len)
{
	struct inode *i = inode_new(PMEMFS_ROOT_INO, off);
	struct timespec now = {.tv_sec = get64(fs->sb.created)};
	int r;

	i->attr.mode = S_IFDIR | (o->root_mode ? o->root_mode & 07777 : 0755);
	i->attr.uid = o->root_uid;
	i->attr.gid = o->root_gid;
	i->attr.nlink = 1;
	i->attr.atime = i->attr.mtime = i->attr.ctime = i->attr.btime = now;
	i->parent = PMEMFS_ROOT_INO;
	i->dir.next_cookie = PMEMFS_COOKIE_FIRST;
	r = write_slot(fs, i, id, slot, len);
	inode_delete(i);
	return r;
}

int super_write_root(struct pmemfs *fs, uint64_t off, uint64_t id)
{
	struct pmemfs_slot slot = {0};
	static const struct pmemfs_format_options plain;
	int r = write_root(fs, &plain, off, id, &slot, sizeof(slot));

	return r ? r : media_fence(fs->media);
}

/* The first block of the first table: free slots behind the root. */
static int write_table_block(struct pmemfs *fs, const struct pmemfs_format_options *o,
			     uint64_t off)
{
	struct pmemfs_slot block[PMEMFS_SLOTS_PER_BLOCK];

	itable_free_slots(block, 1);
	return write_root(fs, o, off, 1, block, sizeof(block));
}

/* The header of a shard, whose table has the block `block`, or none (0). */
static int write_shard(struct pmemfs *fs, unsigned shard, uint64_t block)
{
	struct pmemfs_slot header[PMEMFS_SLOTS_PER_BLOCK] = {0};
	struct inode *i = inode_new(PMEMFS_INO_TABLE | shard, super_table_slot(&fs->sb, shard));
	struct timespec now = {.tv_sec = get64(fs->sb.created)};
	int r;

	i->attr.mode = S_IFREG | 0600;
	i->attr.nlink = 1;
	i->attr.atime = i->attr.mtime = i->attr.ctime = i->attr.btime = now;
	if (block) {
		uint64_t what = (uint64_t)PMEMFS_EXT_NOCSUM << RANGE_FLAG_SHIFT | block;

		i->attr.size = fs->copies * (uint64_t)PMEMFS_BLOCK_SIZE;
		rangemap_insert(&i->extents, (struct range){0, fs->copies, what, 0});
	}
	if (!shard) /* there are no quotas */
		header[1].head = put64(head_make(HEAD_FREE, 1));
	r = write_slot(fs, i, 1, header, sizeof(header));
	inode_delete(i);
	return r;
}

/*
 * From here on what was on the medium does not mount any more. A crash before the fence leaves
 * it whole, or with one copy of its superblock, or without.
 */
static int super_destroy(struct media *m)
{
	int r;

	for (unsigned i = 0; i < 2; i++)
		media_clear(m, super_place[i], PMEMFS_BLOCK_SIZE);
	r = media_fence(m);
	return r ? r : media_sync(m);
}

/* Where the first table block and its copy fit. */
static uint64_t first_pair(const struct pmemfs_super *sb)
{
	uint64_t block = next_free(sb, 0, super_shard_header(sb, get32(sb->shards)));

	while (super_is_reserved(sb, block + super_copies(sb) - 1))
		block = next_free(sb, 0, block + 1);
	return block;
}

static int format_write(struct pmemfs *fs, const struct pmemfs_format_options *o)
{
	uint64_t root = first_pair(&fs->sb);
	int r = super_destroy(fs->media);

	/* else no word that is there verifies */
	if (o->seed && super_parity_blocks(&fs->sb) && !r)
		media_clear(fs->media, super_parity_start(&fs->sb) << PMEMFS_BLOCK_SHIFT,
			    parity_stripes(fs) * 8);
	for (unsigned i = 0; i < fs->shards && !r; i++)
		r = write_shard(fs, i, i ? 0 : root);
	if (!r)
		r = write_table_block(fs, o, root << PMEMFS_BLOCK_SHIFT);
	if (!r)
		r = write_saved(fs, root); /* and fences all of it */
	if (!r)
		r = media_sync(fs->media);
	if (!r)
		r = super_write(fs->media, &fs->sb);
	return r ? r : media_sync(fs->media);
}

int pmemfs_format(struct media *m, const struct pmemfs_format_options *o)
{
	const struct pmemfs_options options = {0};
	struct pmemfs_super sb;
	struct pmemfs *fs;
	int r = super_make(m, o, &sb);

	if (r)
		return r;
	if (media_readonly(m))
		return -EROFS;
	fs = fs_new(m, &sb, &options);
	r = format_write(fs, o);
	fs_delete(fs);
	return r;
}
