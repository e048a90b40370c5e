/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pass 3: every slot of every inode table, and every record of every log.
 *
 * The logs are read by log_walk and applied by inode_apply, as at mount; what is looked at
 * besides are the bytes that those do not need: reserved ones, and what stands after a log's
 * end. After a clean unmount that is zeros. After a crash it may be a torn append, which is
 * cleared as recovery would; an inode without names is then an orphan of a file that was open.
 *
 * A damaged log is mended at once, if that is agreed to, so that the passes that follow see an
 * inode like others: cut before the damage, or, where nothing would be left, the inode is given
 * up. Each is a store or two after which the medium is better than before; a crash in between
 * leaves the damage, or another log to be cut.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "check.h"

#define NSEC 1000000000u

/* A log being read. */
struct reading {
	struct check *c;
	struct inode *inode;
	uint64_t last;	   /* offset of the record that was last seen */
	uint64_t end;	   /* of the area or segment that it is in */
	uint64_t mirror;   /* bytes from there to the other copy */
	uint64_t more;	   /* offset of the one before it, if that says REC_MORE */
	uint64_t reserved; /* of the first one with reserved bytes set, 0: none */
	uint32_t nsec;	   /* the largest seen */
	bool failed;	   /* the last one makes no sense */
};

static bool all_zero(const void *p, size_t len)
{
	const uint8_t *b = p;

	return !len || (!b[0] && !memcmp(b, b + 1, len - 1));
}

/* ---- records ---- */

static void look_time(struct reading *rd, const struct pmemfs_time *t, bool *clean)
{
	rd->nsec = MAX(rd->nsec, get32(t->nsec));
	*clean &= !get32(t->reserved);
}

/* inode_apply took it, so every field that is looked at is there. */
static bool update_clean(struct reading *rd, const struct pmemfs_update *u)
{
	unsigned mask = get16(u->mask);
	const char *p = (const char *)(u + 1);
	bool clean = true;

	rd->nsec = MAX(rd->nsec, get32(u->ctime_nsec));
	if (mask & UP_SIZE)
		p += 8;
	if (mask & UP_PERM) {
		clean &= !(get32(((const struct pmemfs_perm *)(const void *)p)->flags) &
			   ~PMEMFS_FLAGS_KNOWN);
		p += sizeof(struct pmemfs_perm);
	}
	if (mask & UP_NLINK)
		p += 8;
	for (unsigned bit = UP_ATIME; bit <= UP_MTIME; bit <<= 1)
		if (mask & bit) {
			look_time(rd, (const void *)p, &clean);
			p += sizeof(struct pmemfs_time);
		}
	if (mask & UP_PARENT)
		p += 8;
	if (mask & UP_BASE)
		look_time(rd, &((const struct pmemfs_base *)(const void *)p)->btime, &clean);
	return clean;
}

static bool dir_clean(struct reading *rd, const struct pmemfs_dirup *u)
{
	const char *p = (const char *)(u + 1) + 8u * u->dels;
	bool clean = !get16(u->reserved);

	rd->nsec = MAX(rd->nsec, get32(u->time_nsec));
	for (unsigned k = 0; k < u->adds; k++) {
		const struct pmemfs_dentry *e = (const void *)p;
		uint32_t size = PMEMFS_DENTRY_SIZE(e->namelen);

		clean &= all_zero(e->name + e->namelen, size - 18u - e->namelen);
		p += size;
	}
	return clean;
}

static bool record_clean(struct reading *rd, const struct pmemfs_rec *rec)
{
	const struct pmemfs_xattr *x = (const void *)rec;
	const struct pmemfs_symlink *s = (const void *)rec;
	uint32_t used;

	switch (rec->type) {
	case REC_UPDATE:
		return update_clean(rd, (const void *)rec);
	case REC_DIR:
		return dir_clean(rd, (const void *)rec);
	case REC_XATTR:
		rd->nsec = MAX(rd->nsec, get32(x->ctime_nsec));
		used = (uint32_t)sizeof(*x) + x->namelen + get32(x->valuelen);
		return !get16(x->reserved) &&
		       all_zero((const char *)rec + used, rec_len(rec) - used);
	case REC_SYMLINK:
		used = (uint32_t)sizeof(*s) + get32(s->targetlen);
		return !get32(s->reserved) &&
		       all_zero((const char *)rec + used, rec_len(rec) - used);
	default:
		return true;
	}
}

static int read_record(void *arg, const struct pmemfs_rec *rec, uint64_t off)
{
	struct reading *rd = arg;
	int r;

	rd->last = rd->inode->log.pos - rec_len(rec); /* in the first copy */
	rd->end = rd->inode->log.end;
	rd->mirror = rd->inode->log.mirror;
	rd->more = rd->inode->log.more;
	r = inode_apply(rd->c->fs, rd->inode, rec, off, NULL);
	rd->failed = r;
	if (!r && !rd->reserved && !record_clean(rd, rec))
		rd->reserved = off;
	return r;
}

int check_read(struct check *c, uint64_t ino, uint64_t slot, struct inode **ret)
{
	struct inode *i = inode_new(ino, slot);
	enum log_end end;
	int r = inode_read(c->fs, i, true, &end);

	if (r || end == LOG_DAMAGED) {
		inode_delete(i);
		return r ? r : -EUCLEAN;
	}
	*ret = i;
	return 0;
}

/* ---- one inode ---- */

static int check_slot(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci);

/* Asks about a problem of an inode that is corrected by stating it anew. */
static bool restate(struct check *c, enum check_code code, uint64_t ino, uint64_t off,
		    uint64_t num)
{
	return check_problem(
	    c, &(struct problem){.code = code, .ino = ino, .off = off, .num = num});
}

/* True: it is to be mended. */
static bool bad_inode(struct check *c, uint64_t ino, struct check_inode *ci,
		      enum check_code code, uint64_t off, int error)
{
	const struct problem p = {
	    .code = code, .ino = ino, .off = off, .name = error ? strerror(-error) : NULL};

	if (check_problem(c, &p))
		return true;
	if (ci)
		ci->flags |= CI_BAD;
	c->blocks_unknown = true;
	return false;
}

/* After a crash the log is mended as recovery would, unasked: it is no damage. */
static void mend_later(struct check *c, enum check_code code, uint64_t ino, uint64_t off)
{
	if (!c->was_clean)
		check_fix_quietly(c, FIX_TAIL, ino);
	else if (check_problem(c, &(struct problem){.code = code, .ino = ino, .off = off}))
		check_fix_later(c, FIX_TAIL, ino, 0);
}

/* Copies that are not alike, and what stands behind the log's end. */
static int check_copies(struct check *c, struct inode *i)
{
	struct log *l = &i->log;
	bool zero, other = true;
	int r = log_tail_is_clear(c->fs, l, 0, &zero);

	if (r && !l->mirror)
		return r;
	zero &= !r;
	if (l->mirror && log_tail_is_clear(c->fs, l, l->mirror, &other))
		other = false;
	log_note_heads(c->fs, i->slot, l);
	if (!zero && (!other || !l->mirror))
		mend_later(c, CHECK_LOG_TAIL, i->ino, l->pos);
	else if (l->fixes)
		mend_later(c, CHECK_COPY, i->ino, l->fix[0].to);
	else if (!zero || !other)
		mend_later(c, CHECK_COPY, i->ino, zero ? l->pos + l->mirror : l->pos);
	return 0;
}

static uint8_t type_of(uint32_t mode)
{
	return IFTODT(mode);
}

static void own_runs(struct check *c, const struct inode *i)
{
	struct extvec x;

	extvec_init(&x);
	inode_runs(i, &x);
	for (size_t k = 0; k < x.n; k++)
		check_own(c, x.v[k].block, x.v[k].len);
	extvec_done(&x);
}

/* What makes sense one by one, but not together. */
static void check_attr(struct check *c, struct inode *i, const struct reading *rd)
{
	uint32_t mode = i->attr.mode;
	bool again = false;

	if (rd->reserved)
		again |= restate(c, CHECK_REC_RESERVED, i->ino, rd->reserved, 0);
	if (rd->nsec >= NSEC)
		again |= restate(c, CHECK_TIME, i->ino, 0, rd->nsec);
	if (!S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode) && i->attr.size)
		again |= restate(c, CHECK_SIZE, i->ino, 0, i->attr.size);
	if (S_ISDIR(mode) && i->attr.nlink > 1)
		again |= restate(c, CHECK_DIR_NLINK, i->ino, 0, i->attr.nlink);
	if (again)
		check_fix_later(c, FIX_RESTATE, i->ino, 0);
}

static void count_inode(struct check *c, const struct inode *i, struct check_inode *ci)
{
	ci->type = type_of(i->attr.mode);
	ci->nlink = inode_is_dir(i) ? MIN(i->attr.nlink, 1u) : i->attr.nlink;
	ci->parent = i->parent;
	if (i->written)
		ci->flags |= CI_DATA;
	if (i->dir.live)
		ci->flags |= CI_FULL;
	c->inodes++;
	if (c->fs->quota.inode)
		quota_count(c->fs, i);
	c->written += i->written;
	c->dentry_bytes += i->dir.bytes;
	if (S_ISREG(i->attr.mode))
		c->res->files++;
	else if (S_ISDIR(i->attr.mode))
		c->res->dirs++;
	else
		c->res->others++;
}

/*
 * Reads the log with every check; problems are reported. 1: the inode can be used; 0: it was
 * damaged, and mended: read it again; -1: it is damaged.
 */
static int read_inode(struct check *c, struct inode *i, uint64_t head, struct check_inode *ci,
		      struct reading *rd)
{
	uint64_t start = slot_area(i->slot, head_where(head)), cut;
	enum log_end end = LOG_CLEAN;
	bool mend, damaged, sense;
	int r;

	*rd = (struct reading){.c = c,
			       .inode = i,
			       .last = start,
			       .end = start + PMEMFS_AREA_SIZE,
			       .mirror = c->fs->mirror};
	i->dir.next_cookie = PMEMFS_COOKIE_FIRST;
	r = log_walk(c->fs, i->ino, i->slot, head, true, read_record, rd, &i->log, &end);
	damaged = !r && end == LOG_DAMAGED;
	sense = rd->failed || (!r && i->log.seq > 1 && !damaged);
	if (sense && !rd->failed && (!S_ISLNK(i->attr.mode) || i->target))
		return 1;
	/* A symlink without a target is cut before its last record, which may stand before the
	 * log's last segment. */
	cut = sense ? rd->last : i->log.pos;
	if (!sense) {
		rd->end = i->log.end;
		rd->mirror = i->log.mirror;
		rd->more = i->log.more;
	}
	if (r && r != -EUCLEAN) {
		bad_inode(c, i->ino, ci, CHECK_INODE_IO, rd->last, r);
		return -1;
	}
	if (!r && i->log.seq == 1) {
		mend = bad_inode(c, i->ino, ci, CHECK_LOG_EMPTY, start, 0);
		r = mend ? check_give_up(c, i->ino, i->slot, head) : 0;
	} else {
		mend = bad_inode(c, i->ino, ci, damaged ? CHECK_LOG_DAMAGED : CHECK_LOG_SENSE,
				 damaged ? cut : rd->last, 0);
		r = mend ? check_cut_log(c, i, cut, rd->end, rd->mirror, rd->more) : 0;
	}
	if (r)
		bad_inode(c, i->ino, ci, CHECK_INODE_IO, cut, r);
	return mend && !r ? 0 : -1;
}

/* An inode whose head word is good and says that there is a log. ci is NULL for a table. */
static int check_used(struct check *c, uint64_t ino, uint64_t slot, uint64_t head,
		      struct check_inode *ci)
{
	struct inode *i = inode_new(ino, slot);
	struct reading rd;
	int r = 0, usable = read_inode(c, i, head, ci, &rd);

	if (usable > 0 && ino == PMEMFS_INO_QUOTA)
		usable = check_limits_kind(c, i);
	if (usable > 0) {
		own_runs(c, i);
		if (ci)
			count_inode(c, i, ci);
		else if (!S_ISREG(i->attr.mode))
			check_problem(c, &(struct problem){.code = CHECK_TABLE_KIND,
							   .num = ino & ~PMEMFS_INO_TABLE});
		check_attr(c, i, &rd);
		r = check_copies(c, i);
		if (r) {
			bad_inode(c, ino, ci, CHECK_INODE_IO, i->log.pos, r);
			c->names_unknown |= inode_is_dir(i);
			r = 0;
		}
	} else if (ci && usable < 0) {
		own_runs(c, i); /* as far as is known */
		c->inodes++;
		c->names_unknown |= !i->attr.mode || inode_is_dir(i);
	}
	inode_delete(i);
	return usable ? r : check_slot(c, ino, slot, ci);
}

/* ---- slots ---- */

static void check_reserved(struct check *c, uint64_t ino, uint64_t slot)
{
	struct problem p = {.code = CHECK_SLOT_RESERVED, .ino = ino, .off = slot + 8};
	le64 word;

	if (media_read(c->m, slot + 8, &word, sizeof(word)))
		return; /* whoever reads the head word finds out */
	if (get64(word) && check_problem(c, &p))
		check_fix_later(c, FIX_RESERVED, ino, slot);
}

/* Of two words that look good the one whose log is. */
static uint64_t choose_head(struct check *c, uint64_t ino, uint64_t slot, uint64_t head)
{
	struct inode *i = inode_new(ino, slot);
	enum log_end end;
	int r = inode_read(c->fs, i, true, &end);

	if (!r)
		head = i->log.head;
	inode_delete(i);
	return head;
}

/* The root's slot is free: an empty root, at once, to which the next pass connects the rest. */
static int make_root(struct check *c, uint64_t slot, uint64_t head, struct check_inode *ci)
{
	int r;

	c->no_root = true;
	if (!check_problem(c, &(struct problem){.code = CHECK_NO_ROOT}))
		return 0;
	r = check_give_up(c, PMEMFS_ROOT_INO, slot, head);
	if (r) {
		bad_inode(c, PMEMFS_ROOT_INO, ci, CHECK_INODE_IO, slot, r);
		return 0;
	}
	c->no_root = false;
	return check_slot(c, PMEMFS_ROOT_INO, slot, ci);
}

static int check_slot(struct check *c, uint64_t ino, uint64_t slot, struct check_inode *ci)
{
	uint64_t head[2];
	bool alike;
	int n = head_read(c->fs, slot, true, head, &alike), r;

	if (n < 0 && n != -EUCLEAN) {
		bad_inode(c, ino, ci, CHECK_INODE_IO, slot, n);
		c->names_unknown = true;
		return 0;
	}
	for (unsigned copy = 0; copy < c->fs->copies; copy++)
		check_reserved(c, ino, slot + copy * c->fs->mirror);
	if (n < 0) {
		if (bad_inode(c, ino, ci, CHECK_HEAD, slot, 0)) {
			r = check_give_up(c, ino, slot, 0);
			if (!r)
				return check_slot(c, ino, slot, ci);
			bad_inode(c, ino, ci, CHECK_INODE_IO, slot, r);
		}
		c->names_unknown = true;
		return 0;
	}
	if (n == 2)
		head[0] = choose_head(c, ino, slot, head[0]);
	if (head_where(head[0]) != HEAD_FREE)
		return check_used(c, ino, slot, head[0], ci);
	if (ino == PMEMFS_ROOT_INO)
		return make_root(c, slot, head[0], ci);
	if (!alike)
		mend_later(c, CHECK_COPY, ino, slot);
	return 0;
}

/* The slots that the header's first block, or its copy, does not use. */
static void check_header(struct check *c, unsigned shard, uint64_t off)
{
	uint64_t used = check_header_used(shard);
	uint8_t block[PMEMFS_BLOCK_SIZE];
	struct problem p = {.code = CHECK_HEADER, .off = off, .num = shard};
	int r = media_read(c->m, off, block, sizeof(block));

	if (r) { /* the table itself could be read */
		p.code = CHECK_TABLE_IO;
		p.name = strerror(-r);
		check_problem(c, &p);
	} else if (!all_zero(block + used, sizeof(block) - used) && check_problem(c, &p)) {
		check_fix_later(c, FIX_HEADER, PMEMFS_INO_TABLE | shard, off);
	}
}

static int check_table_inode(struct check *c, unsigned shard)
{
	return check_slot(c, PMEMFS_INO_TABLE | shard, super_table_slot(&c->sb, shard), NULL);
}

int check_inodes(struct check *c)
{
	int r = 0;

	for (unsigned s = 0; s < c->fs->shards && !r; s++) {
		for (unsigned copy = 0; copy < c->fs->copies; copy++)
			check_header(c, s, super_table_slot(&c->sb, s) + copy * c->fs->mirror);
		r = check_table_inode(c, s);
	}
	if (!r)
		r = check_slot(c, PMEMFS_INO_QUOTA, super_quota_slot(&c->sb), NULL);
	if (!r)
		check_limits(c);
	return r ? r : check_each(c, 3, check_slot);
}
