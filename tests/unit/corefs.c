/* SPDX-License-Identifier: BSD-3-Clause */
/* A filesystem in memory for the tests of the core. */
#include "corefs.h"

#include <sys/mman.h>

static const struct pmemfs_cred root_cred = {0, 0};

static bool on_problem(void *arg, unsigned code, const char *message, bool fixable)
{
	print_error("check: %u: %s\n", code, message);
	return false;
}

void corefs_check(struct corefs *c)
{
	const struct pmemfs_check_options o = {.force = true, .problem = on_problem};
	struct pmemfs_check_result r = {0};
	struct media *m;

	assert_int_equal(media_open_memory(c->mem, c->size, MEDIA_SHADOW, &m), 0);
	assert_int_equal(pmemfs_check(m, &o, &r), 0);
	media_close(m);
	assert_true(r.checked);
	assert_int_equal(r.problems, 0);
}

static void mount_fs(struct corefs *c)
{
	const struct pmemfs_options o = {0};
	const char *why = "?";
	int rc = pmemfs_mount(c->media, &o, &c->fs, &why);

	if (rc)
		print_error("mount: %s\n", why);
	assert_int_equal(rc, 0);
	assert_false(pmemfs_is_readonly(c->fs));
}

unsigned corefs_copies(void)
{
	return getenv("PMEMFS_TEST_REPLICA") ? 2 : 1;
}

bool corefs_parity(void)
{
	return getenv("PMEMFS_TEST_PARITY");
}

void corefs_new(struct corefs *c, uint64_t size, unsigned shards)
{
	const struct pmemfs_format_options o = {
	    .shards = shards, .replica = corefs_copies() == 2, .parity = corefs_parity()};

	c->size = size;
	c->mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(c->mem != MAP_FAILED);
	assert_int_equal(media_open_memory(c->mem, size, 0, &c->media), 0);
	assert_int_equal(pmemfs_format(c->media, &o), 0);
	mount_fs(c);
}

void corefs_remount(struct corefs *c, bool clean)
{
	if (clean)
		assert_int_equal(pmemfs_unmount(c->fs), 0);
	else
		pmemfs_abandon(c->fs);
	c->fs = NULL;
	corefs_check(c);
	mount_fs(c);
}

void corefs_done(struct corefs *c)
{
	/* after a failed assertion it may not be mounted */
	if (c->fs) {
		assert_int_equal(pmemfs_unmount(c->fs), 0);
		corefs_check(c);
	}
	media_close(c->media);
	munmap(c->mem, c->size);
}

static int setup(void **state, uint64_t size)
{
	struct corefs *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	corefs_new(c, size, 0);
	*state = c;
	return 0;
}

int corefs_setup(void **state)
{
	return setup(state, 64 << 20);
}

int corefs_setup_big(void **state)
{
	return setup(state, 512 << 20);
}

int corefs_teardown(void **state)
{
	corefs_done(*state);
	free(*state);
	return 0;
}

/* ---- operations ---- */

uint64_t mk_held(struct corefs *c, uint64_t dir, const char *name)
{
	struct pmemfs_attr a;

	assert_int_equal(
	    pmemfs_make(c->fs, dir, name, S_IFREG | 0644, 0, 0, NULL, &root_cred, &a), 0);
	return a.ino;
}

uint64_t mk_file(struct corefs *c, uint64_t dir, const char *name)
{
	uint64_t ino = mk_held(c, dir, name);

	pmemfs_forget(c->fs, ino, 1);
	return ino;
}

uint64_t mk_dir(struct corefs *c, uint64_t dir, const char *name)
{
	struct pmemfs_attr a;

	assert_int_equal(
	    pmemfs_make(c->fs, dir, name, S_IFDIR | 0755, 0, 0, NULL, &root_cred, &a), 0);
	pmemfs_forget(c->fs, a.ino, 1);
	return a.ino;
}

int exists(struct corefs *c, uint64_t dir, const char *name)
{
	struct pmemfs_attr a;
	int rc = pmemfs_lookup(c->fs, dir, name, &a);

	if (!rc)
		pmemfs_forget(c->fs, a.ino, 1);
	return rc;
}

void hold(struct corefs *c, uint64_t dir, const char *name)
{
	struct pmemfs_attr a;

	assert_int_equal(pmemfs_lookup(c->fs, dir, name, &a), 0);
}

uint64_t find(struct corefs *c, uint64_t dir, const char *name)
{
	struct pmemfs_attr a;

	assert_int_equal(pmemfs_lookup(c->fs, dir, name, &a), 0);
	pmemfs_forget(c->fs, a.ino, 1);
	return a.ino;
}

struct pmemfs_attr attr_of(struct corefs *c, uint64_t ino)
{
	struct pmemfs_attr a;

	assert_int_equal(pmemfs_getattr(c->fs, ino, &a), 0);
	assert_int_equal(a.ino, ino);
	return a;
}

void put_bytes(struct corefs *c, uint64_t ino, uint64_t off, const void *p, size_t len)
{
	while (len) {
		size_t part = len < PMEMFS_WRITE_MAX ? len : PMEMFS_WRITE_MAX;

		assert_int_equal(pmemfs_write(c->fs, ino, off, p, part, 0), part);
		off += part;
		p = (const char *)p + part;
		len -= part;
	}
}

void put_seed(struct corefs *c, uint64_t ino, uint64_t off, size_t len, uint64_t seed)
{
	void *buf = malloc(len);

	unit_fill(buf, len, seed);
	put_bytes(c, ino, off, buf, len);
	free(buf);
}

void expect_seed(struct corefs *c, uint64_t ino, uint64_t off, size_t len, uint64_t seed)
{
	void *want = malloc(len), *got = malloc(len);

	unit_fill(want, len, seed);
	assert_int_equal(pmemfs_read(c->fs, ino, off, got, len), len);
	assert_memory_equal(got, want, len);
	free(want);
	free(got);
}

void expect_zeros(struct corefs *c, uint64_t ino, uint64_t off, size_t len)
{
	char *want = calloc(1, len), *got = malloc(len);

	memset(got, 0xaa, len);
	assert_int_equal(pmemfs_read(c->fs, ino, off, got, len), len);
	assert_memory_equal(got, want, len);
	free(want);
	free(got);
}

void set_size(struct corefs *c, uint64_t ino, uint64_t size)
{
	const struct pmemfs_attr a = {.size = size};

	assert_int_equal(pmemfs_setattr(c->fs, ino, PMEMFS_SET_SIZE, &a, NULL), 0);
	assert_int_equal(attr_of(c, ino).size, size);
}

uint64_t free_blocks_of(struct corefs *c)
{
	struct pmemfs_statfs st;

	pmemfs_statfs(c->fs, &st);
	return st.bfree;
}

void expect_space_back(struct corefs *c, uint64_t before)
{
	uint64_t now = free_blocks_of(c);

	if (now + 4 < before || now > before + 4)
		print_error("free: %llu blocks, before: %llu\n", (unsigned long long)now,
			    (unsigned long long)before);
	assert_true(now + 4 >= before);
	assert_true(now <= before + 4);
}

/* ---- directories ---- */

static int count_one(void *arg, const char *name, const struct pmemfs_attr *a, uint64_t cookie)
{
	size_t *n = arg;

	*n += strcmp(name, ".") && strcmp(name, "..");
	return 0;
}

size_t count_entries(struct corefs *c, uint64_t dir)
{
	size_t n = 0;

	assert_int_equal(pmemfs_readdir(c->fs, dir, 0, 0, count_one, &n), 0);
	return n;
}

struct first {
	char name[256];
	uint64_t ino;
	uint32_t mode;
	uint64_t cookie;
};

static int keep_first(void *arg, const char *name, const struct pmemfs_attr *a, uint64_t cookie)
{
	struct first *f = arg;

	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return 0;
	if (f->name[0])
		return 1;
	strcpy(f->name, name);
	f->ino = a->ino;
	f->mode = a->mode;
	f->cookie = cookie;
	return 0;
}

void empty_dir(struct corefs *c, uint64_t dir)
{
	uint64_t cookie = 0;

	for (;;) {
		struct first f = {.cookie = cookie};

		assert_int_equal(pmemfs_readdir(c->fs, dir, cookie, 0, keep_first, &f), 0);
		if (!f.name[0])
			return;
		cookie = f.cookie;
		if (S_ISDIR(f.mode)) {
			hold(c, dir, f.name);
			empty_dir(c, f.ino);
			pmemfs_forget(c->fs, f.ino, 1);
			assert_int_equal(pmemfs_rmdir(c->fs, dir, f.name), 0);
		} else {
			assert_int_equal(pmemfs_unlink(c->fs, dir, f.name), 0);
		}
	}
}
