/* SPDX-License-Identifier: BSD-3-Clause */
/* Which records of the journal count, and that no head word ever comes back. */
#include "corefs.h"

#include "fs.h"

/* How many entries a mount would replay now, that is not mounted. */
static uint64_t replayable(struct corefs *c)
{
	static const struct pmemfs_options o;
	struct pmemfs_super sb;
	struct pmemfs *fs;
	uint64_t n = 0;
	const char *why;

	assert_int_equal(super_read(c->media, &sb, NULL, &why), 0);
	fs = fs_new(c->media, &sb, &o);
	for (unsigned s = 0; s < fs->shards; s++)
		assert_int_equal(itable_load(fs, s), 0);
	assert_int_equal(journal_replay(fs, &n), 0);
	fs_delete(fs);
	return n;
}

static void mount_again(struct corefs *c)
{
	const char *why;

	assert_int_equal(pmemfs_mount(c->media, NULL, &c->fs, &why), 0);
}

/* A record may be replayed until another mount begins, and by none that comes after. */
static void counts_in_its_mount(void **state)
{
	struct corefs *c = *state;

	mk_file(c, ROOT, "one");
	pmemfs_abandon(c->fs);
	assert_int_equal(replayable(c), 2); /* the directory and the new inode */
	assert_int_equal(replayable(c), 2); /* a crash in recovery changes nothing */
	mount_again(c);
	pmemfs_abandon(c->fs);
	assert_int_equal(replayable(c), 0);
	mount_again(c);
	assert_int_equal(exists(c, ROOT, "one"), 0);
}

/* Nor by the mount that has its number because the superblock's went back or began again. */
static void counts_in_no_other_mount(void **state)
{
	static const uint32_t numbers[] = {0, UINT32_MAX};
	struct corefs *c = *state;
	struct pmemfs_super sb;
	const char *why;

	for (unsigned k = 0; k < ARRAY_LEN(numbers); k++) {
		mk_file(c, ROOT, k ? "two" : "one");
		pmemfs_abandon(c->fs);
		assert_int_equal(super_read(c->media, &sb, NULL, &why), 0);
		assert_true(replayable(c) > 0);
		sb.mounts = put32(numbers[k]);
		assert_int_equal(super_write(c->media, &sb), 0);
		for (unsigned mounts = 0; mounts < 3; mounts++) {
			assert_int_equal(replayable(c), 0);
			mount_again(c);
			pmemfs_abandon(c->fs);
		}
		mount_again(c);
		assert_int_equal(exists(c, ROOT, "one"), 0);
	}
}

static uint64_t head_of(struct corefs *c, uint64_t ino)
{
	uint64_t slot;
	le64 head;

	if (itable_find(c->fs, ino, &slot))
		return 0;
	memcpy(&head, (char *)c->mem + slot, sizeof(head));
	return get64(head);
}

#define FILES 400u	       /* more than the empty table blocks that are kept */
#define INOS  (4 * FILES + 64) /* numbers that they can have */

/* Its log is stated anew again and again, so that its id runs ahead of the others'. */
static void wear(struct corefs *c, uint64_t ino)
{
	struct pmemfs_attr a = {.mode = 0600};

	for (unsigned k = 0; k < 20000; k++)
		assert_int_equal(pmemfs_setattr(c->fs, ino, PMEMFS_SET_MODE, &a, NULL), 0);
}

/* Slots of a table that was given up and grew again have greater log ids than before. */
static void head_words_are_new(void **state)
{
	struct corefs *c = *state;
	static uint64_t last[INOS];
	char name[16];

	for (unsigned round = 0; round < 4; round++) {
		for (unsigned k = 0; k < FILES; k++) {
			snprintf(name, sizeof(name), "%u", k);
			uint64_t ino = mk_file(c, ROOT, name), head = head_of(c, ino);
			assert_in_range(ino, 1, INOS - 1);
			assert_true(head_valid(head));
			assert_true(head_id(head) > last[ino]);
			last[ino] = head_id(head);
			if (k % 100 == 99)
				wear(c, ino);
		}
		for (uint64_t ino = 2; ino < INOS; ino++)
			last[ino] = MAX(last[ino], head_id(head_of(c, ino)));
		for (unsigned k = 0; k < FILES; k++) {
			snprintf(name, sizeof(name), "%u", k);
			assert_int_equal(pmemfs_unlink(c->fs, ROOT, name), 0);
		}
		if (round % 2)
			corefs_remount(c, round == 1);
	}
}

/* Behind the last log id comes the first: 0 is none. */
static void head_words_begin_again(void **state)
{
	uint64_t last = UINT64_MAX >> 16;

	for (unsigned where = 0; where < 3; where++) {
		assert_int_equal(head_id(head_make(where, last)), last);
		assert_int_equal(head_id(head_make(where, last + 1)), 1);
		assert_true(head_valid(head_make(where, last)));
		assert_true(head_valid(head_make(where, last + 1)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(counts_in_its_mount),
	    CORE_TEST(counts_in_no_other_mount),
	    CORE_TEST(head_words_are_new),
	    cmocka_unit_test(head_words_begin_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
