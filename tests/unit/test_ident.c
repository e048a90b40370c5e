/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Naming and wiping what is on a medium: through the descriptor of a file, and through a copy
 * where there is none, as on a devdax device.
 */
#include "unit.h"

#include <sys/mman.h>
#include <unistd.h>

#include "ident.h"

#define SIZE (32u << 20)

static uint8_t *mem;
static struct media *m;

/* What mkswap writes: version, size and label, and the signature at the end of the page. */
static void put_swap(uint8_t *at)
{
	uint32_t head[3] = {1, SIZE / 4096 - 1, 0};

	memcpy(at + 1024, head, sizeof(head));
	memset(at + 1036, 7, 16);
	memcpy(at + 1052, "swapping\x1b", 9);
	memcpy(at + 4086, "SWAPSPACE2", 10);
}

/* A RAID superblock of format 1.0 stands near the end. */
static void put_raid(uint8_t *at)
{
	uint64_t sector = (SIZE / 512 - 16) & ~7ull;
	uint8_t *sb = at + sector * 512;
	uint32_t magic = 0xa92b4efc, major = 1;
	uint64_t offset = sector;

	memcpy(sb, &magic, 4);
	memcpy(sb + 4, &major, 4);
	memset(sb + 16, 9, 16);
	memcpy(sb + 32, "raid", 4);
	memcpy(sb + 144, &offset, 8);
}

static void open_memory(void)
{
	assert_int_equal(media_open_memory(mem, SIZE, 0, &m), 0);
}

static int setup(void **state)
{
	mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return mem == MAP_FAILED;
}

static int teardown(void **state)
{
	media_close(m);
	munmap(mem, SIZE);
	return 0;
}

static void test_nothing(void **state)
{
	char what[192];

	unit_fill(mem + 100000, 1000, 1);
	open_memory();
	assert_int_equal(ident_find(m, what, sizeof(what)), 0);
}

static void test_start(void **state)
{
	char what[192];

	put_swap(mem);
	open_memory();
	assert_int_equal(ident_find(m, what, sizeof(what)), 1);
	assert_string_equal(what, "an area of type swap, label \"swapping?\"");
}

static void test_end(void **state)
{
	char what[192];

	put_raid(mem);
	open_memory();
	assert_int_equal(ident_find(m, what, sizeof(what)), 1);
	assert_non_null(strstr(what, "a RAID or LVM member of type linux_raid_member"));
}

/* Both signatures go, and nothing else. */
static void test_wipe(void **state)
{
	uint64_t changed = 0;
	char what[192];
	uint8_t *before;

	unit_fill(mem + 8192, SIZE / 2, 2);
	put_swap(mem);
	put_raid(mem);
	before = malloc(SIZE);
	memcpy(before, mem, SIZE);
	open_memory();
	assert_int_equal(ident_wipe(m), 0);
	assert_int_equal(ident_find(m, what, sizeof(what)), 0);
	for (size_t k = 0; k < SIZE; k++)
		changed += mem[k] != before[k];
	assert_int_equal(changed, 10 + 4);
	free(before);
}

static void test_file(void **state)
{
	int fd = memfd_create("ident", MFD_CLOEXEC);
	char path[64], what[192];
	const char *why;

	assert_true(fd >= 0);
	put_swap(mem);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	assert_int_equal(pwrite(fd, mem, 8192, 0), 8192);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(media_open(path, 0, &m, &why), 0);
	assert_int_equal(ident_find(m, what, sizeof(what)), 1);
	assert_non_null(strstr(what, "swap"));
	assert_int_equal(ident_wipe(m), 0);
	assert_int_equal(ident_find(m, what, sizeof(what)), 0);
	close(fd);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_nothing), TEST(test_start), TEST(test_end),
	    TEST(test_wipe),	TEST(test_file),
	};

	return cmocka_run_group_tests_name("ident", tests, NULL, NULL);
}
