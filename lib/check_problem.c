/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The problems that fsck knows: code, words, what a repair would do, whether it is done without
 * asking (preen, -p), and how bad it is when it stays.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

#define PATHS_MAX 100u

enum severity {
	BOOKS,	   /* what a mount would find out by itself */
	STRUCTURE, /* not fit for writing */
	CONTENT,   /* file data are lost, the structure is sound */
};

struct row {
	enum check_code code;
	const char *format; /* codes: see struct problem; %p: the inode's path */
	const char *repair; /* what the repair does; NULL: there is none yet */
	bool preen;
	enum severity severity;
};

/* clang-format off */
static const struct row rows[] = {
	{CHECK_SB_PRIMARY,
	 "The superblock is damaged, its replica is good",
	 "Restore it", true, BOOKS},
	{CHECK_SB_REPLICA,
	 "The replica of the superblock (block 511) is damaged",
	 "Restore it", true, BOOKS},
	{CHECK_SB_DIFFER,
	 "The superblock and its replica differ",
	 "Rewrite the replica", true, BOOKS},
	{CHECK_TABLE,
	 "The inode table of shard %n cannot be read (%s)",
	 NULL, false, STRUCTURE},
	{CHECK_JOURNAL,
	 "A journal record verifies but makes no sense",
	 NULL, false, STRUCTURE},
	{CHECK_JOURNAL_IO,
	 "The journal cannot be replayed (%s)",
	 NULL, false, STRUCTURE},
	{CHECK_HEAD,
	 "Inode %i: the head word of its log (byte %o, block %b) is damaged",
	 "Give the inode up", false, STRUCTURE},
	{CHECK_NO_ROOT,
	 "The root directory is missing",
	 "Make an empty one: what was in it goes to lost+found", false, STRUCTURE},
	{CHECK_COPY,
	 "Inode %i: a copy of its metadata (byte %o, block %b) is damaged, the other is good",
	 "Restore it", true, BOOKS},
	{CHECK_LOG_DAMAGED,
	 "Inode %i: a record of its log (byte %o, block %b) is damaged, later ones "
	 "are good",
	 "Cut the log there: later changes are lost", false, STRUCTURE},
	{CHECK_LOG_SENSE,
	 "Inode %i: the log is damaged behind byte %o (block %b): a record makes no "
	 "sense",
	 "Cut it there: later changes are lost", false, STRUCTURE},
	{CHECK_LOG_EMPTY,
	 "Inode %i: the first record of its log (byte %o, block %b) is damaged",
	 "Give the inode up", false, STRUCTURE},
	{CHECK_LOG_TAIL,
	 "Inode %i: its log ends at byte %o (block %b) in bytes that are no record: "
	 "the last change may be lost",
	 "Cut it there", false, STRUCTURE},
	{CHECK_INODE_IO,
	 "Inode %i: its log cannot be read near byte %o (block %b): %s",
	 NULL, false, STRUCTURE},
	{CHECK_SLOT_RESERVED,
	 "Inode %i: reserved bytes of its slot (byte %o) are set",
	 "Clear them", true, BOOKS},
	{CHECK_REC_RESERVED,
	 "Inode %i: reserved bytes of the record at byte %o are set",
	 "Write the log anew", true, BOOKS},
	{CHECK_TIME,
	 "Inode %i: a time has %n nanoseconds",
	 "Make them 0", true, BOOKS},
	{CHECK_SIZE,
	 "Inode %i: it is neither file, directory nor symlink, but has size %n",
	 "Make it 0", true, BOOKS},
	{CHECK_DIR_NLINK,
	 "Inode %i: this directory stores the link count %n instead of 1",
	 "Make it 1", true, BOOKS},
	{CHECK_ORPHAN,
	 "Inode %i: it was removed, but is still there",
	 "Free it", true, BOOKS},
	{CHECK_HEADER,
	 "Block %b: bytes beside the table inode of shard %n are set",
	 "Clear them", true, BOOKS},
	{CHECK_TABLE_KIND,
	 "The inode table of shard %n is no plain file",
	 NULL, false, STRUCTURE},
	{CHECK_TABLE_IO,
	 "Block %b of the inode table of shard %n cannot be read: %s",
	 NULL, false, STRUCTURE},
	{CHECK_LIMITS_KIND,
	 "The file of quota limits is no plain file, or larger than any",
	 "Give it up: there are no quotas then", false, STRUCTURE},
	{CHECK_LIMIT,
	 "Entry %n of the quota limits makes no sense",
	 "Drop the limit", false, BOOKS},
	{CHECK_LIMIT_TWICE,
	 "Entry %n of the quota limits is a second one for the same %s, %w",
	 "Drop it", false, BOOKS},
	{CHECK_LIMIT_DATA,
	 "Entries %n to %w of the quota limits cannot be read",
	 "Drop these limits", false, BOOKS},
	{CHECK_BAD_WORD,
	 "Entry %n of the list of bad blocks (byte %o) is damaged",
	 "Correct it", true, BOOKS},
	{CHECK_ROOT,
	 "The root directory is %s",
	 NULL, false, STRUCTURE},
	{CHECK_DANGLING,
	 "Directory %i%p: entry \"%s\" names inode %j, which does not exist",
	 "Remove the entry", false, STRUCTURE},
	{CHECK_ENTRY_TYPE,
	 "Directory %i%p: entry \"%s\" has type %n, but inode %j has %w",
	 "Correct it", true, STRUCTURE},
	{CHECK_SECOND_NAME,
	 "Directory %i%p: entry \"%s\" is a second name of directory %j",
	 "Remove the entry", false, STRUCTURE},
	{CHECK_NAMES_ROOT,
	 "Directory %i%p: entry \"%s\" names the root directory",
	 "Remove the entry", false, STRUCTURE},
	{CHECK_PARENT,
	 "Directory %i%p: its parent is %n, but should be %w",
	 "Correct it", true, STRUCTURE},
	{CHECK_NLINK,
	 "Inode %i%p: its link count is %n, but should be %w",
	 "Correct it", true, STRUCTURE},
	{CHECK_UNREACHABLE,
	 "Inode %i: no directory names it",
	 "Connect it to lost+found", false, STRUCTURE},
	{CHECK_LOOP,
	 "Directory %i lies inside itself, no path from the root leads there",
	 "Connect it to lost+found", false, STRUCTURE},
	{CHECK_REMOVED_NAMED,
	 "Inode %i%p: it is marked as removed, but has %w names",
	 "Make that its link count", false, STRUCTURE},
	{CHECK_SHARED,
	 "Inode %i%p: blocks %n to %w of its log or table belong to another one too",
	 NULL, false, STRUCTURE},
	{CHECK_SHARED_DATA,
	 "Inode %i%p: file blocks %n to %w (on block %b) are on blocks of something else too",
	 "Give it blocks of its own", false, STRUCTURE},
	{CHECK_SAVED_LIST,
	 "The saved list of free blocks is damaged",
	 "Rebuild it", true, BOOKS},
	{CHECK_SAVED_USED,
	 "The saved list of free blocks has blocks %n to %w, which are in use",
	 "Rebuild it", true, BOOKS},
	{CHECK_SAVED_LEAK,
	 "The saved list of free blocks misses %n free blocks",
	 "Rebuild it", true, BOOKS},
	{CHECK_FREE_COUNT,
	 "The number of free blocks is %n, but should be %w",
	 "Correct it", true, BOOKS},
	{CHECK_INODE_COUNT,
	 "The number of inodes is %n, but should be %w",
	 "Correct it", true, BOOKS},
	{CHECK_DENTRY_COUNT,
	 "The size of all directory entries is %n, but should be %w",
	 "Correct it", true, BOOKS},
	{CHECK_USAGE,
	 "The saved usage of %s %w is not the sum over the inodes",
	 "Correct it", true, BOOKS},
	{CHECK_DATA,
	 "Inode %i%p: file blocks %n to %w (on block %b) do not match their "
	 "checksums: reading them gives EIO",
	 NULL, false, CONTENT},
	{CHECK_DATA_IO,
	 "Inode %i%p: file blocks %n to %w (on block %b) cannot be read",
	 NULL, false, CONTENT},
	{CHECK_CSUM_IO,
	 "Inode %i%p: the checksums of its data (byte %o) cannot be read: %s",
	 NULL, false, CONTENT},
	{CHECK_REBUILD,
	 "Inode %i%p: file blocks %n to %w (on block %b) are lost, and can be rebuilt from "
	 "parity",
	 "Rebuild them", true, CONTENT},
	{CHECK_PARITY,
	 "The parity of blocks %n to %w is not theirs",
	 "Make it anew", true, BOOKS},
	{CHECK_UNCOVERED,
	 "Inode %i%p: file blocks %n to %w (on block %b) have no parity",
	 "Add it", true, BOOKS},
	{CHECK_BAD_NEW,
	 "Blocks %n to %w cannot be read, and are not on the list of bad blocks",
	 "Add them", true, BOOKS},
	{CHECK_BAD_GOOD,
	 "Block %n is on the list of bad blocks, but can be read",
	 "Take it off", true, BOOKS},
	{CHECK_REPAIR_FAILED,
	 "Inode %i: it could not be repaired: %s",
	 NULL, false, STRUCTURE},
	{CHECK_REPAIRS_LEFT,
	 "%n repairs were not made: other damage hides which blocks belong to whom",
	 NULL, false, STRUCTURE},
};
/* clang-format on */

static const struct row *find_row(enum check_code code)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].code == code)
			return &rows[i];
	abort();
}

bool check_code_fixable(enum check_code code)
{
	return find_row(code)->repair;
}

struct text {
	char buf[1024];
	size_t n;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(t->buf + t->n, sizeof(t->buf) - t->n, format, ap);
	va_end(ap);
	if (n > 0)
		t->n = MIN(t->n + (size_t)n, sizeof(t->buf) - 1);
}

/* Names come from the medium: nothing of them may steer a terminal. */
static void say_name(struct text *t, const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name < ' ' || *name == 0x7f)
			say(t, "\\x%02x", (unsigned char)*name);
		else
			say(t, "%c", *name);
}

static void say_ino(struct text *t, uint64_t ino)
{
	if (ino == PMEMFS_INO_QUOTA)
		say(t, "(limits of quotas)");
	else if (ino & PMEMFS_INO_TABLE)
		say(t, "(table of shard %llu)", (unsigned long long)(ino & ~PMEMFS_INO_TABLE));
	else
		say(t, "%llu", (unsigned long long)ino);
}

static void say_path(struct check *c, struct text *t, uint64_t ino)
{
	char path[512];

	/* Finding it reads directories: not for each of a million. */
	if (!c->table || ino & PMEMFS_INO_TABLE || c->res->problems > PATHS_MAX)
		return;
	say(t, " (");
	say_name(t, check_path(c, ino, path, sizeof(path)));
	say(t, ")");
}

static void say_problem(struct check *c, struct text *t, const char *format,
			const struct problem *p)
{
	for (const char *f = format; *f; f++) {
		if (*f != '%') {
			say(t, "%c", *f);
			continue;
		}
		switch (*++f) {
		case 'i':
			say_ino(t, p->ino);
			break;
		case 'j':
			say_ino(t, p->ino2);
			break;
		case 'p':
			say_path(c, t, p->ino);
			break;
		case 'o':
			say(t, "%llu", (unsigned long long)p->off);
			break;
		case 'b':
			say(t, "%llu", (unsigned long long)p->off / PMEMFS_BLOCK_SIZE);
			break;
		case 'n':
			say(t, "%llu", (unsigned long long)p->num);
			break;
		case 'w':
			say(t, "%llu", (unsigned long long)p->want);
			break;
		case 's':
			say_name(t, p->name ? p->name : "?");
			break;
		default:
			abort();
		}
	}
}

static bool decide(struct check *c, const struct row *row, bool asked)
{
	switch (c->o->fix) {
	case PMEMFS_FIX_NONE:
		return false;
	case PMEMFS_FIX_SAFE:
		return row->preen;
	case PMEMFS_FIX_ASK:
		return asked;
	case PMEMFS_FIX_ALL:
		return true;
	}
	return false;
}

bool check_problem(struct check *c, const struct problem *p)
{
	const struct row *row = find_row(p->code);
	struct text t = {.n = 0};
	bool fixable = row->repair && (c->o->fix != PMEMFS_FIX_SAFE || row->preen);
	bool asked = false, fix;

	say_problem(c, &t, row->format, p);
	say(&t, ".");
	if (fixable)
		say(&t, "  %s", row->repair);
	if (c->o->problem)
		asked = c->o->problem(c->o->arg, p->code, t.buf, fixable);
	fix = fixable && decide(c, row, asked);
	c->res->problems++;
	c->res->fixed += fix;
	c->agreed += fix && (p->code / 100 == 3 || p->code / 100 == 4);
	if (!fix && row->severity == STRUCTURE)
		c->unsound = true;
	if (!fix && row->repair)
		c->refused = true;
	return fix;
}

void check_repair_failed(struct check *c, const struct fix *f, int error)
{
	check_problem(c, &(struct problem){.code = CHECK_REPAIR_FAILED,
					   .ino = f->ino,
					   .name = strerror(-error)});
	if (f->quiet)
		return;
	c->res->problems--; /* it was counted when it was found */
	c->res->fixed--;
}

void check_repairs_left(struct check *c)
{
	if (!c->agreed)
		return;
	check_problem(c, &(struct problem){.code = CHECK_REPAIRS_LEFT, .num = c->agreed});
	c->res->problems--;
	c->res->fixed -= c->agreed;
}

void check_take_back(struct check *c)
{
	c->res->problems -= c->agreed;
	c->res->fixed -= c->agreed;
}

void check_progress(struct check *c, unsigned pass, uint64_t done, uint64_t total)
{
	static const char *const what[] = {
	    "",	     "superblock", "journal",	"inodes and their logs",
	    "names", "blocks",	   "file data", "bad blocks",
	};

	if (c->o->progress)
		c->o->progress(c->o->arg, pass, what[pass], done, total);
}
