/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The superblock: which copy counts, what is refused and in what words, and what a crash leaves
 * at any store of writing it and of formatting.
 */
#include "unit.h"

#include <errno.h>

#include "fs.h"

#define SIZE	(16u << 20)
#define REPLICA (PMEMFS_SB_REPLICA * PMEMFS_BLOCK_SIZE)

static uint8_t *mem;
static struct media *m;

static int setup(void **state)
{
	struct pmemfs_format_options o = {
	    .label = "unit", .uuid = {1, 2, 3}, .now = 1700000000, .seed = 5};

	mem = aligned_alloc(4096, SIZE);
	assert_non_null(mem);
	memset(mem, 0, SIZE);
	assert_int_equal(media_open_memory(mem, SIZE, 0, &m), 0);
	return pmemfs_format(m, &o);
}

static int teardown(void **state)
{
	media_close(m);
	free(mem);
	return 0;
}

static struct pmemfs_super *copy_at(uint64_t off)
{
	return (void *)(mem + off);
}

static void seal(struct pmemfs_super *sb)
{
	sb->checksum = put64(hash64(sb, offsetof(struct pmemfs_super, checksum), 0));
}

/* ---- which copy ----------------------------------------------------------------------- */

static int probe(struct pmemfs_info *info, const char **why)
{
	*why = "";
	return pmemfs_probe(m, info, why);
}

static void test_fresh(void **state)
{
	struct pmemfs_info info;
	const char *why;

	assert_int_equal(probe(&info, &why), 0);
	assert_int_equal(info.version, PMEMFS_VERSION);
	assert_int_equal(info.size, SIZE);
	assert_string_equal(info.label, "unit");
	assert_int_equal(info.uuid[1], 2);
	assert_int_equal(info.created, 1700000000);
	assert_int_equal(info.shards, 1); /* one for each 16 MiB */
	assert_true(info.clean && !info.error && info.primary_ok && info.replica_ok);
	assert_true(info.counters_valid);
	assert_int_equal(info.used_inodes, 1);
	/* all but superblocks, header and the block of the root's slot */
	assert_int_equal(info.free_blocks, SIZE / 4096 - 2 - 9 - 1);
}

static void test_one_copy(void **state)
{
	struct pmemfs_info info;
	const char *why;

	for (unsigned bad = 0; bad < 2; bad++)
		for (unsigned off = 0; off < 4096; off += 61) {
			uint8_t *at = mem + (bad ? REPLICA : 0) + off;

			*at ^= 0x10;
			assert_int_equal(probe(&info, &why), 0);
			assert_int_equal(info.primary_ok, bad != 0);
			assert_int_equal(info.replica_ok, bad != 1);
			assert_string_equal(info.label, "unit");
			*at ^= 0x10;
		}
}

static void test_no_copy(void **state)
{
	struct pmemfs_info info;
	const char *why;

	mem[100] ^= 1;
	mem[REPLICA + 200] ^= 1;
	assert_int_equal(probe(&info, &why), -EUCLEAN);
	assert_non_null(strstr(why, "both damaged"));
	memset(mem, 0, 4096);
	memset(mem + REPLICA, 0, 4096);
	assert_int_equal(probe(&info, &why), -EINVAL);
	assert_non_null(strstr(why, "mkfs.pmemfs"));
}

static void test_higher_sequence(void **state)
{
	struct pmemfs_super *sb = copy_at(REPLICA), got;
	unsigned ok = 0;
	const char *why;

	sb->sequence = put64(get64(sb->sequence) + 1);
	memcpy(sb->label, "newer", 6);
	seal(sb);
	assert_int_equal(super_read(m, &got, &ok, &why), 0);
	assert_int_equal(ok, 3);
	assert_string_equal(got.label, "newer");
	/* the same sequence: the primary */
	sb->sequence = copy_at(0)->sequence;
	seal(sb);
	assert_int_equal(super_read(m, &got, &ok, &why), 0);
	assert_string_equal(got.label, "unit");
}

/* A copy of another filesystem is no replica, however high its sequence. */
static void test_foreign_copy(void **state)
{
	struct pmemfs_super *sb = copy_at(REPLICA), got;
	unsigned ok = 0;
	const char *why;

	sb->seed = put64(6); /* though it has the same UUID */
	sb->sequence = put64(1000);
	seal(sb);
	assert_int_equal(super_read(m, &got, &ok, &why), 0);
	assert_int_equal(ok, 1);
	assert_string_equal(got.label, "unit");
}

/* ---- what is refused ------------------------------------------------------------------ */

static void seal_both(const struct pmemfs_super *sb)
{
	memcpy(mem, sb, sizeof(*sb));
	seal(copy_at(0));
	memcpy(mem + REPLICA, mem, sizeof(*sb));
}

static void test_other_version(void **state)
{
	struct pmemfs_super old = *copy_at(0), sb = old;
	struct pmemfs_info info;
	const char *why;
	char next[32];

	snprintf(next, sizeof(next), "version %u", PMEMFS_VERSION + 1);
	sb.version = put32(1);
	seal_both(&sb);
	assert_int_equal(probe(&info, &why), -EPROTONOSUPPORT);
	assert_non_null(strstr(why, "version 1"));
	sb.version = put32(PMEMFS_VERSION + 1);
	seal_both(&sb);
	assert_int_equal(probe(&info, &why), -EPROTONOSUPPORT);
	assert_non_null(strstr(why, next));
	assert_int_equal(info.version, PMEMFS_VERSION + 1);
	assert_string_equal(info.label, "unit");
	sb = old;
	sb.incompat = put64(0x40);
	seal_both(&sb);
	assert_int_equal(probe(&info, &why), -EPROTONOSUPPORT);
	assert_non_null(strstr(why, "0x40"));
	assert_non_null(strstr(why, "newer"));
	/* what is compatible says nothing, and may use what is reserved so far */
	sb = old;
	sb.compat = put64(1);
	sb.ro_compat = put64(2);
	sb.reserved[7] = 1;
	seal_both(&sb);
	assert_int_equal(probe(&info, &why), 0);
	assert_int_equal(info.compat, 1);
	assert_int_equal(info.ro_compat, 2);
}

static void test_medium_shrunk(void **state)
{
	struct pmemfs_info info = {0};
	struct media *half;
	const char *why = "";

	assert_int_equal(media_open_memory(mem, SIZE / 2, 0, &half), 0);
	assert_int_equal(pmemfs_probe(half, &info, &why), -ENOSPC);
	assert_non_null(strstr(why, "8388608"));
	assert_non_null(strstr(why, "16777216"));
	assert_int_equal(info.size, SIZE);
	media_close(half);
}

/* Every field out of its range, under a right checksum. */
static void test_fields(void **state)
{
	struct pmemfs_super old = *copy_at(0);
	struct pmemfs_info info;
	const char *why;

#define BAD(field, value)                                       \
	do {                                                    \
		struct pmemfs_super sb = old;                   \
		sb.field = (value);                             \
		seal_both(&sb);                                 \
		assert_int_equal(probe(&info, &why), -EUCLEAN); \
	} while (0)
	BAD(version, put32(0));
	BAD(block_size, put32(8192));
	BAD(block_size, put32(0));
	BAD(blocks, put64(0));
	BAD(blocks, put64(4095));
	BAD(blocks, put64(PMEMFS_MAX_BLOCKS + 1));
	BAD(blocks, put64(~0ull));
	BAD(shards, put32(0));
	BAD(shards, put32(257));
	BAD(shards, put32(256)); /* do not fit into 16 MiB */
	BAD(shards, put32(~0u));
	BAD(shard_start, put32(0));
	BAD(shard_start, put32(2));
	BAD(shard_start, put32(512)); /* only where they do not fit before the replica */
	BAD(state, put32(4));
	BAD(saved_list, put64(SIZE / 4096));
	BAD(saved_list, put64(1));
	BAD(saved_list, put64(511));
	BAD(free_blocks, put64(SIZE / 4096));
	BAD(reserved[0], 1);
	BAD(reserved[sizeof(old.reserved) - 1], 1);
	BAD(seed, put64(0));
#undef BAD
	seal_both(&old);
	assert_int_equal(probe(&info, &why), 0);
}

/* ---- geometry ------------------------------------------------------------------------- */

static void test_geometry(void **state)
{
	static const unsigned shards[] = {1, 2, 55, 56, 57, 200, 256};

	for (size_t k = 0; k < ARRAY_LEN(shards); k++) {
		struct pmemfs_super sb = {.blocks = put64(100000), .shards = put32(shards[k])};
		uint64_t reserved = 0;

		sb.shard_start = put32(shards[k] <= 56 ? 1 : 512);
		for (uint64_t b = 0; b < 100000; b++)
			reserved += super_is_reserved(&sb, b);
		assert_int_equal(reserved, 2 + 9 * shards[k]);
		assert_false(super_is_reserved(&sb, super_shard_header(&sb, shards[k])) &&
			     super_shard_header(&sb, shards[k]) != 511);
		assert_true(super_shard_span(&sb) * shards[k] >= 100000);
		assert_int_equal(super_journal_slot(&sb, shards[k] - 1, 7) + 4096,
				 super_shard_header(&sb, shards[k]) * 4096);
		assert_int_equal(super_table_slot(&sb, 0), get32(sb.shard_start) * 4096);
	}
}

/* ---- formatting ----------------------------------------------------------------------- */

static void test_format_refuses(void **state)
{
	static uint8_t before[4096];
	struct pmemfs_format_options o;
	char label[34];

	memcpy(before, mem, sizeof(before));
	memset(label, 'x', 33);
	label[33] = 0;
#define REFUSE(error, ...)                                       \
	do {                                                     \
		o = (struct pmemfs_format_options){__VA_ARGS__}; \
		assert_int_equal(pmemfs_format(m, &o), error);   \
	} while (0)
	REFUSE(-EFBIG, .size = 4096);
	REFUSE(-EFBIG, .size = SIZE + 4096);
	REFUSE(-EFBIG, .size = (16u << 20) - 1);
	REFUSE(-EINVAL, .shards = 257);
	REFUSE(-EINVAL, .shards = 250);
	REFUSE(-EINVAL, .label = label);
#undef REFUSE
	assert_memory_equal(mem, before, sizeof(before));
}

static void test_format_label(void **state)
{
	char label[] = "0123456789abcdef0123456789ABCDEF"; /* 32 bytes, no room for a NUL */
	struct pmemfs_format_options o = {.label = label, .shards = 60};
	struct pmemfs_info info, again;
	const char *why;

	assert_int_equal(pmemfs_format(m, &o), 0);
	assert_int_equal(probe(&info, &why), 0);
	assert_string_equal(info.label, label);
	assert_int_equal(info.shards, 60);
	assert_true(info.uuid[6] >> 4 == 4 && info.uuid[8] >> 6 == 2);
	assert_int_equal(pmemfs_format(m, &o), 0);
	assert_int_equal(probe(&again, &why), 0);
	assert_memory_not_equal(info.uuid, again.uuid, 16);
}

static void test_format_mounts(void **state)
{
	static const unsigned shards[] = {1, 4, 56, 57, 170};

	for (size_t k = 0; k < ARRAY_LEN(shards); k++) {
		struct pmemfs_format_options o = {
		    .shards = shards[k], .root_mode = 0711, .root_uid = 5};
		struct pmemfs_statfs s;
		struct pmemfs_attr a;
		struct pmemfs *fs;
		const char *why;

		assert_int_equal(pmemfs_format(m, &o), 0);
		assert_int_equal(pmemfs_mount(m, NULL, &fs, &why), 0);
		pmemfs_statfs(fs, &s);
		assert_int_equal(s.bfree, SIZE / 4096 - 2 - 9 * shards[k] - 1);
		assert_int_equal(pmemfs_getattr(fs, PMEMFS_ROOT_INO, &a), 0);
		assert_int_equal(a.mode, S_IFDIR | 0711);
		assert_int_equal(a.uid, 5);
		assert_int_equal(a.nlink, 2);
		assert_int_equal(pmemfs_unmount(fs), 0);
	}
}

/* ---- crashes -------------------------------------------------------------------------- */

/* Stops the world in front of event `stop`: what was stored before it has arrived, in order. */
struct crash {
	uint8_t *shown; /* what arrived: the stores up to the event */
	unsigned stop, events;
};

static void on_store(void *arg, enum media_event ev, uint64_t off, const void *bytes,
		     size_t len)
{
	struct crash *c = arg;

	if (ev == MEDIA_EV_FLUSH || ev == MEDIA_EV_FENCE)
		return;
	if (c->events < c->stop) {
		if (ev == MEDIA_EV_STORE8)
			len = 8;
		memcpy(c->shown + off, bytes, len);
	} else if (c->events == c->stop) {
		memcpy(c->shown + off, bytes, len / 2); /* torn */
	}
	c->events++;
}

/* Runs fn with the hook; the memory then is what had arrived at store `stop`. */
static bool crash_at(unsigned stop, void (*fn)(void))
{
	struct crash c = {.stop = stop, .shown = malloc(SIZE)};

	memcpy(c.shown, mem, SIZE);
	media_set_hook(m, on_store, &c);
	fn();
	media_set_hook(m, NULL, NULL);
	memcpy(mem, c.shown, SIZE);
	free(c.shown);
	return c.events > stop;
}

static void write_super(void)
{
	struct pmemfs_super sb;
	const char *why;

	assert_int_equal(super_read(m, &sb, NULL, &why), 0);
	memcpy(sb.label, "later", 6);
	assert_int_equal(super_write(m, &sb), 0);
}

/* The old label or the new one, and once it is the new one it stays. */
static void test_torn_write(void **state)
{
	uint8_t *old = malloc(SIZE);
	bool more = true, later = false;

	memcpy(old, mem, SIZE);
	for (unsigned stop = 0; more; stop++) {
		struct pmemfs_info info;
		const char *why;

		memcpy(mem, old, SIZE);
		more = crash_at(stop, write_super);
		assert_int_equal(probe(&info, &why), 0);
		if (!strcmp(info.label, "later"))
			later = true;
		else
			assert_string_equal(info.label, "unit");
		assert_true(info.primary_ok || info.replica_ok);
		assert_false(later && strcmp(info.label, "later"));
	}
	assert_true(later);
	free(old);
}

/* A second crash, in the write that comes after the first one's recovery. */
static void test_torn_twice(void **state)
{
	uint8_t *old = malloc(SIZE);
	bool more = true;

	memcpy(old, mem, SIZE);
	for (unsigned first = 0; more; first++) {
		bool again = true;

		for (unsigned second = 0; again; second++) {
			struct pmemfs_info info;
			const char *why;

			memcpy(mem, old, SIZE);
			more = crash_at(first, write_super);
			again = crash_at(second, write_super);
			assert_int_equal(probe(&info, &why), 0);
			assert_true(!strcmp(info.label, "later") ||
				    !strcmp(info.label, "unit"));
		}
	}
	free(old);
}

static void format_again(void)
{
	struct pmemfs_format_options o = {.label = "again", .shards = 3};

	assert_int_equal(pmemfs_format(m, &o), 0);
}

/* The old filesystem whole, none, or the new one whole. */
static void test_torn_format(void **state)
{
	static const struct pmemfs_cred cred;
	uint8_t *old = malloc(SIZE);
	unsigned seen[3] = {0};
	bool more = true;
	struct pmemfs_attr a;
	struct pmemfs *fs;
	const char *why;

	assert_int_equal(pmemfs_mount(m, NULL, &fs, &why), 0);
	assert_int_equal(
	    pmemfs_make(fs, PMEMFS_ROOT_INO, "file", S_IFREG | 0600, 0, 0, NULL, &cred, &a), 0);
	pmemfs_forget(fs, a.ino, 1);
	assert_int_equal(pmemfs_unmount(fs), 0);
	memcpy(old, mem, SIZE);
	for (unsigned stop = 0; more; stop++) {
		struct pmemfs_info info;
		int r;

		memcpy(mem, old, SIZE);
		more = crash_at(stop, format_again);
		r = probe(&info, &why);
		if (r) {
			assert_true(r == -EINVAL || r == -EUCLEAN);
			seen[0]++;
			continue;
		}
		assert_int_equal(pmemfs_mount(m, NULL, &fs, &why), 0);
		r = pmemfs_lookup(fs, PMEMFS_ROOT_INO, "file", &a);
		assert_int_equal(r, strcmp(info.label, "unit") ? -ENOENT : 0);
		seen[r ? 2 : 1]++;
		if (!r)
			pmemfs_forget(fs, a.ino, 1);
		assert_int_equal(pmemfs_unmount(fs), 0);
	}
	assert_true(seen[0] && seen[1] && seen[2]);
	free(old);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_fresh),		TEST(test_one_copy),	 TEST(test_no_copy),
	    TEST(test_higher_sequence), TEST(test_foreign_copy), TEST(test_other_version),
	    TEST(test_medium_shrunk),	TEST(test_fields),	 TEST(test_geometry),
	    TEST(test_format_refuses),	TEST(test_format_label), TEST(test_format_mounts),
	    TEST(test_torn_write),	TEST(test_torn_twice),	 TEST(test_torn_format),
	};

	return cmocka_run_group_tests_name("super", tests, NULL, NULL);
}
