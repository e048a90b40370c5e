/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the core share: a filesystem in memory, and short names for operations. */
#ifndef PMEMFS_TEST_COREFS_H
#define PMEMFS_TEST_COREFS_H

#include "unit.h"

#include <errno.h>
#include <sys/stat.h>

#include "pmemfs.h"

#define ROOT 1u

struct corefs {
	void *mem;
	uint64_t size;
	struct media *media;
	struct pmemfs *fs;
};

/* Each test of the core runs with one copy of the metadata, and with two (the environment
 * says). */
unsigned corefs_copies(void);
/* And some of them with parity. */
bool corefs_parity(void);
/* Formats and mounts; shards 0: pmemfs chooses. */
void corefs_new(struct corefs *c, uint64_t size, unsigned shards);
/* Unmounts, checks, frees the memory. */
void corefs_done(struct corefs *c);
/* Clean: unmount, check, mount. Else abandon (a killed daemon), check, mount. */
void corefs_remount(struct corefs *c, bool clean);
/* pmemfs_check must find nothing. Not while mounted. */
void corefs_check(struct corefs *c);

/* cmocka's setup and teardown of a 64 MiB filesystem, and a group of tests with them. */
int corefs_setup(void **state);
int corefs_setup_big(void **state); /* 512 MiB */
int corefs_teardown(void **state);
#define CORE_TEST(f)	 cmocka_unit_test_setup_teardown(f, corefs_setup, corefs_teardown)
#define CORE_TEST_BIG(f) cmocka_unit_test_setup_teardown(f, corefs_setup_big, corefs_teardown)

/* Each asserts that the operation works; the reference is given back, the number returned. */
uint64_t mk_file(struct corefs *c, uint64_t dir, const char *name);
uint64_t mk_dir(struct corefs *c, uint64_t dir, const char *name);
/* Makes a file and keeps its reference. */
uint64_t mk_held(struct corefs *c, uint64_t dir, const char *name);
/* Takes a reference, so that a directory stays in memory; gone with the next remount. */
void hold(struct corefs *c, uint64_t dir, const char *name);
uint64_t find(struct corefs *c, uint64_t dir, const char *name);
/* 0, or the negative errno of looking the name up. */
int exists(struct corefs *c, uint64_t dir, const char *name);
struct pmemfs_attr attr_of(struct corefs *c, uint64_t ino);
void put_bytes(struct corefs *c, uint64_t ino, uint64_t off, const void *p, size_t len);
/* len bytes that depend on seed. */
void put_seed(struct corefs *c, uint64_t ino, uint64_t off, size_t len, uint64_t seed);
void expect_seed(struct corefs *c, uint64_t ino, uint64_t off, size_t len, uint64_t seed);
void expect_zeros(struct corefs *c, uint64_t ino, uint64_t off, size_t len);
void set_size(struct corefs *c, uint64_t ino, uint64_t size);
uint64_t free_blocks_of(struct corefs *c);
/* As many blocks are free as before, but for a few that the root's own log may have taken. */
void expect_space_back(struct corefs *c, uint64_t before);
/* Entries of the directory, "." and ".." left out. */
size_t count_entries(struct corefs *c, uint64_t dir);
/* Removes all that is in the directory, and below it. */
void empty_dir(struct corefs *c, uint64_t dir);

#endif
