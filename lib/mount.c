/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mounting and unmounting, and what concerns the filesystem as a whole.
 *
 * At mount, in this order: superblock, inode tables, journal (after a crash), free space (saved
 * list, or recovery), then, for writing, the superblock loses its clean mark. A crash anywhere
 * in it leaves a filesystem that the next mount treats as crashed: replay and recovery are
 * idempotent, and no operation runs before the mark is durably gone.
 * At unmount: orphans and empty table blocks are freed, the free list is stored into free
 * space, then the superblock says clean. A crash before that leaves an unclean filesystem.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "fs.h"

void fs_report(struct pmemfs *fs, int level, const char *format, ...)
{
	char message[512];
	va_list ap;

	if (!fs->options.report)
		return;
	va_start(ap, format);
	vsnprintf(message, sizeof(message), format, ap);
	va_end(ap);
	fs->options.report(fs->options.report_arg, level, message);
}

void fs_damage(struct pmemfs *fs, const char *format, ...)
{
	char message[400];
	va_list ap;
	bool first = !atomic_exchange(&fs->damaged, true);

	atomic_store(&fs->readonly, true);
	va_start(ap, format);
	vsnprintf(message, sizeof(message), format, ap);
	va_end(ap);
	fs_report(fs, 0, "%s%s", message,
		  first ? "; read-only from now on: unmount and run fsck.pmemfs" : "");
}

unsigned fs_home_shard(const struct pmemfs *fs)
{
	static atomic_uint threads;
	static _Thread_local unsigned mine;

	if (!mine)
		mine = atomic_fetch_add(&threads, 1) + 1;
	return (mine - 1) % fs->shards;
}

struct timespec fs_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now;
}

static void init_shard(struct pmemfs *fs, unsigned k)
{
	struct shard *s = &fs->shard[k];

	short_mutex_init(&s->space);
	short_mutex_init(&s->table.lock);
	for (unsigned n = 0; n < PMEMFS_JOURNAL_SLOTS; n++) {
		short_mutex_init(&s->journal[n].lock);
		s->journal[n].off = super_journal_slot(&fs->sb, k, n);
	}
}

struct pmemfs *fs_new(struct media *m, const struct pmemfs_super *sb,
		      const struct pmemfs_options *o)
{
	struct pmemfs *fs = xcalloc(1, sizeof(*fs));

	fs->media = m;
	fs->options = *o;
	fs->sb = *sb;
	fs->seed = super_seed(sb);
	fs->blocks = get64(sb->blocks);
	fs->shards = get32(sb->shards);
	fs->copies = super_copies(sb);
	fs->mirror = fs->copies == 2 ? PMEMFS_BLOCK_SIZE : 0;
	fs->was_clean = (get32(sb->state) & (PMEMFS_STATE_CLEAN | PMEMFS_STATE_ERROR)) ==
			PMEMFS_STATE_CLEAN;
	fs->both = !fs->was_clean;
	fs->shard = aligned_alloc(_Alignof(struct shard), fs->shards * sizeof(fs->shard[0]));
	if (!fs->shard)
		abort();
	memset(fs->shard, 0, fs->shards * sizeof(fs->shard[0]));
	for (unsigned k = 0; k < fs->shards; k++)
		init_shard(fs, k);
	pthread_mutex_init(&fs->rename, NULL);
	icache_init(fs);
	quota_init(fs);
	bad_init(fs);
	parity_init(fs);
	atomic_store(&fs->readonly, o->readonly);
	atomic_store(&fs->next_id, super_first_id(sb));
	return fs;
}

void fs_delete(struct pmemfs *fs)
{
	icache_drop(fs, NULL);
	icache_done(fs);
	quota_done(fs);
	bad_done(fs);
	parity_done(fs);
	for (unsigned k = 0; k < fs->shards; k++) {
		struct shard *s = &fs->shard[k];

		itable_done(fs, k);
		rangemap_free(&s->small);
		rangemap_free(&s->huge);
		pthread_mutex_destroy(&s->space);
		pthread_mutex_destroy(&s->table.lock);
		for (unsigned n = 0; n < PMEMFS_JOURNAL_SLOTS; n++)
			pthread_mutex_destroy(&s->journal[n].lock);
	}
	pthread_mutex_destroy(&fs->rename);
	free(fs->shard);
	free(fs);
}

/* The parts that a mount reads before the free space is known. */
static int load(struct pmemfs *fs, const char **ret_why)
{
	uint64_t replayed = 0;
	int err = 0;

	bad_load(fs);
	if (!fs->was_clean) {
		*ret_why = "does not take back its list of bad blocks: the device fails";
		err = bad_mend(fs);
		if (err)
			return err;
	}
	*ret_why = "has a damaged inode table: run fsck.pmemfs";
	for (unsigned k = 0; k < fs->shards && !err; k++)
		err = itable_load(fs, k);
	if (!err && !fs->was_clean) {
		*ret_why = "has a damaged journal: run fsck.pmemfs";
		err = journal_replay(fs, &replayed);
	}
	if (!err) {
		*ret_why = "has damaged quotas: run fsck.pmemfs -f";
		err = limits_load(fs);
	}
	return err;
}

static int find_space(struct pmemfs *fs, const char **ret_why)
{
	int err = -EUCLEAN;
	bool known;

	if (fs->was_clean)
		err = saved_read(fs);
	known = err || fs->quota.saveds; /* or will be */
	if (err) {
		*ret_why = "could not be recovered: run fsck.pmemfs";
		err = fs_recover(fs);
	}
	if (!err && !fs->was_clean)
		parity_recover(fs);
	if (!err)
		limits_start(fs, known);
	return err;
}

/* The root is in use as long as the filesystem is: its reference goes with the cache. */
static int open_root(struct pmemfs *fs, const char **ret_why)
{
	struct inode *root;
	int err = inode_open(fs, PMEMFS_ROOT_INO, false, &root);

	*ret_why = "has a damaged root directory: run fsck.pmemfs";
	if (err)
		return -EUCLEAN;
	err = inode_is_dir(root) && root->attr.nlink && root->parent == PMEMFS_ROOT_INO
		  ? 0
		  : -EUCLEAN;
	inode_unlock(root);
	return err;
}

static int mark_mounted(struct pmemfs *fs)
{
	struct pmemfs_super *sb = &fs->sb;

	sb->state = put32(get32(sb->state) & ~PMEMFS_STATE_CLEAN);
	sb->mounts = put32(get32(sb->mounts) + 1);
	sb->mounted = put64(fs_now().tv_sec);
	sb->saved_list = put64(0);
	return super_write(fs->media, sb);
}

int pmemfs_mount(struct media *m, const struct pmemfs_options *o, struct pmemfs **ret,
		 const char **ret_why)
{
	static const struct pmemfs_options defaults;
	struct pmemfs_super sb;
	const char *why = NULL;
	struct pmemfs *fs;
	int err = super_read(m, &sb, NULL, ret_why);

	if (err)
		return err;
	if (!o)
		o = &defaults;
	if (media_readonly(m) && !o->readonly) {
		*ret_why = "is read-only: mount it with -o ro";
		return -EROFS;
	}
	if (media_readonly(m) && !media_shadowed(m) &&
	    !(get32(sb.state) & PMEMFS_STATE_CLEAN)) {
		*ret_why = "was not unmounted cleanly and needs a writable device to recover";
		return -EROFS;
	}
	tune_apply(m, &sb); /* a table that cannot be used leaves the starting rule */
	fs = fs_new(m, &sb, o);
	/* Recovery writes even for a read-only mount: to private copies if the medium forbids
	 * it. */
	atomic_store(&fs->readonly, false);
	err = load(fs, &why);
	if (!err)
		err = find_space(fs, &why);
	if (!err)
		err = open_root(fs, &why);
	if (o->readonly || get64(sb.ro_compat) & ~PMEMFS_ROCOMPAT_KNOWN)
		atomic_store(&fs->readonly, true);
	if (!err && !atomic_load(&fs->readonly)) {
		why = "does not take a new superblock: the device fails";
		err = mark_mounted(fs);
		for (unsigned k = 0; k < fs->shards && !err; k++) {
			struct inode *table = fs->shard[k].table.inode;

			inode_mend(fs, table, &table->log);
		}
	}
	if (err) {
		*ret_why = why;
		fs_delete(fs);
		return err;
	}
	*ret = fs;
	return 0;
}

void pmemfs_abandon(struct pmemfs *fs)
{
	fs_delete(fs);
}

static int mark_clean(struct pmemfs *fs)
{
	struct pmemfs_super *sb = &fs->sb;
	int err = 0;

	if (atomic_load(&fs->damaged)) {
		parity_flush(fs); /* may fail, as all can now */
		sb->state =
		    put32((get32(sb->state) & ~PMEMFS_STATE_CLEAN) | PMEMFS_STATE_ERROR);
	} else {
		err = saved_write(fs);
		if (!err)
			err = parity_flush(fs);
		sb->state = put32(get32(sb->state) | PMEMFS_STATE_CLEAN);
	}
	return err ? err : super_write(fs->media, sb);
}

int pmemfs_unmount(struct pmemfs *fs)
{
	bool writing = !media_readonly(fs->media) && !fs->options.readonly &&
		       !(get32(fs->sb.state) & PMEMFS_STATE_CLEAN);
	int err = 0;

	icache_drop(fs, atomic_load(&fs->readonly) ? NULL : inode_last_work);
	if (!atomic_load(&fs->readonly))
		for (unsigned k = 0; k < fs->shards; k++)
			itable_trim(fs, k, true); /* a failure only keeps the blocks */
	if (writing)
		err = mark_clean(fs);
	if (!err)
		err = media_sync(fs->media);
	fs_delete(fs);
	return err;
}

bool pmemfs_is_readonly(const struct pmemfs *fs)
{
	return atomic_load(&fs->readonly);
}

int pmemfs_set_readonly(struct pmemfs *fs, bool readonly)
{
	int err = 0;

	if (readonly) {
		atomic_store(&fs->readonly, true);
		return 0;
	}
	if (atomic_load(&fs->damaged) || media_readonly(fs->media) ||
	    get64(fs->sb.ro_compat) & ~PMEMFS_ROCOMPAT_KNOWN)
		return -EROFS;
	if (get32(fs->sb.state) & PMEMFS_STATE_CLEAN || fs->options.readonly)
		err = mark_mounted(fs);
	if (!err) {
		fs->options.readonly = false;
		atomic_store(&fs->readonly, false);
	}
	return err;
}

struct media *pmemfs_media(struct pmemfs *fs)
{
	return fs->media;
}

void pmemfs_statfs(struct pmemfs *fs, struct pmemfs_statfs *ret)
{
	uint64_t reserve = alloc_reserve(fs), free = alloc_free(fs);
	uint64_t fixed = 2 + fs->shards * (uint64_t)PMEMFS_SHARD_BLOCKS * fs->copies +
			 super_parity_blocks(&fs->sb);

	ret->blocks = fs->blocks - fixed;
	ret->bfree = free;
	ret->bavail = free > reserve ? free - reserve : 0;
	ret->files = itable_inodes(fs);
	ret->ffree = ret->bavail / fs->copies * PMEMFS_SLOTS_PER_BLOCK;
	ret->files += ret->ffree;
}

int pmemfs_sync(struct pmemfs *fs)
{
	return media_sync(fs->media);
}
