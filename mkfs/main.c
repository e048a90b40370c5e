/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mkfs.pmemfs: makes a filesystem on a device or in an image file.
 *
 * Nothing is written before everything that can be refused was checked; a file that was made
 * for the purpose is removed again when formatting fails. A dry run does the same on private
 * copies in memory.
 *
 * Exit codes: 0 done, 1 not.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <uuid.h>

#include "format.h"
#include "ident.h"
#include "options.h"
#include "util.h"

/* The measuring proper; with all around it mkfs is done in less than two seconds. */
#define CALIBRATE_NS 800000000ull

struct target {
	const struct mkfs_options *o;
	struct media *media;
	void *memory; /* a dry run's stand-in for a file that has not its size yet */
	uint64_t memsize;
	bool created;
};

__attribute__((format(printf, 2, 3))) static int fail(const char *path, const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "mkfs.pmemfs: %s: ", path);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	return -1;
}

/* ---- the target ----------------------------------------------------------------------- */

static int target_map(struct target *t)
{
	const char *why = "";
	int r = media_open(t->o->path, t->o->dry ? MEDIA_SHADOW : MEDIA_WAIT, &t->media, &why);

	return r ? fail(t->o->path, "%s", why) : 0;
}

/* For a dry run: memory of that size instead of a file. */
static int target_stand_in(struct target *t, uint64_t size)
{
	t->memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (t->memory == MAP_FAILED) {
		t->memory = NULL;
		return fail(t->o->path, "%s", strerror(errno));
	}
	t->memsize = size;
	if (media_open_memory(t->memory, size, 0, &t->media))
		return fail(t->o->path, "cannot be tried out: %s", strerror(errno));
	return 0;
}

static int set_size(const struct mkfs_options *o, int flags)
{
	int fd = open(o->path, O_WRONLY | O_CLOEXEC | flags, 0600), r = 0;

	if (fd < 0)
		return fail(o->path, "cannot be %s: %s", flags ? "made" : "opened",
			    strerror(errno));
	if (ftruncate(fd, (off_t)o->format.size))
		r = fail(o->path, "cannot be made %" PRIu64 " bytes long: %s", o->format.size,
			 strerror(errno));
	if (r && flags)
		unlink(o->path);
	close(fd);
	return r;
}

static int target_create(struct target *t)
{
	const struct mkfs_options *o = t->o;

	if (!strncmp(o->path, "/dev/", 5) && strncmp(o->path, "/dev/shm/", 9))
		return fail(o->path,
			    "no such device: 'ndctl list' and 'daxctl list' show them");
	if (!o->format.size)
		return fail(o->path,
			    "no such file or device: give --size to make an image file");
	if (o->dry)
		return target_stand_in(t, o->format.size);
	if (set_size(o, O_CREAT | O_EXCL))
		return -1;
	t->created = true;
	return target_map(t);
}

static void target_close(struct target *t, bool failed)
{
	media_close(t->media);
	t->media = NULL;
	if (t->memory)
		munmap(t->memory, t->memsize);
	if (failed && t->created)
		unlink(t->o->path);
}

/* ---- what is there already ------------------------------------------------------------ */

/* Bytes at the beginning that nobody knows may be somebody's all the same. */
static bool holds_bytes(const struct media *m)
{
	char buf[65536];
	size_t len = MIN(sizeof(buf), media_size(m));

	if (media_read(m, 0, buf, len))
		return false;
	return buf[0] || memcmp(buf, buf + 1, len - 1);
}

/* Says what the medium holds. False: nothing. */
static bool target_holds(struct media *m, char *ret, size_t size)
{
	struct pmemfs_info info = {0};
	const char *why;
	char label[64];
	int r = pmemfs_probe(m, &info, &why);

	if (r != -EINVAL) {
		ident_printable(label, sizeof(label), info.label);
		snprintf(ret, size, "a %spmemfs filesystem%s%s%s",
			 r == -EUCLEAN ? "damaged " : "", *label ? ", label \"" : "", label,
			 *label ? "\"" : "");
		return true;
	}
	r = ident_find(m, ret, size);
	if (r < 0)
		snprintf(ret, size, "something that cannot be told (%s)", strerror(-r));
	else if (!r && holds_bytes(m))
		snprintf(ret, size, "data of an unknown kind");
	else
		return r;
	return true;
}

static int check_holds(const struct target *t)
{
	char what[192];

	if (!target_holds(t->media, what, sizeof(what)))
		return 0;
	if (!t->o->force)
		return fail(t->o->path, "holds %s: -f overwrites it", what);
	if (!t->o->quiet)
		printf("%s: %s %s\n", t->o->path, t->o->dry ? "would overwrite" : "overwriting",
		       what);
	return 0;
}

/* ---- formatting ----------------------------------------------------------------------- */

/* Old signatures that other tools would still find. */
static int wipe(struct target *t)
{
	int r = ident_wipe(t->media);

	return r ? r : media_sync(t->media);
}

static int format_failed(const struct mkfs_options *o, int r)
{
	switch (r) {
	case -EINVAL:
		return fail(o->path, "is too small for %u shards: give fewer",
			    o->format.shards);
	case -EIO:
		return fail(o->path,
			    "cannot be written: the medium failed, or the filesystem that the "
			    "file is on is full");
	default:
		return fail(o->path, "cannot be formatted: %s", strerror(-r));
	}
}

static int format(struct target *t)
{
	char what[192];
	bool signature = t->o->force && ident_find(t->media, what, sizeof(what)) > 0;
	struct pmemfs_format_options format = t->o->format;
	int r;

	format.root_uid = getuid(); /* who makes it can use it, also without being root */
	format.root_gid = getgid();
	r = pmemfs_format(t->media, &format);

	if (!r && signature)
		r = wipe(t);
	return r ? format_failed(t->o, r) : 0;
}

/*
 * Finds out how to copy to this medium. A filesystem without is as good, if perhaps slower, so
 * that a failure is only told.
 */
static void calibrate(struct target *t)
{
	const struct pmemfs_calibrate_options o = {.budget_ns = CALIBRATE_NS};
	const char *why = "";

	if (t->o->dry || t->o->no_calibrate)
		return;
	if (pmemfs_calibrate(t->media, &o, NULL, &why))
		fprintf(stderr,
			"mkfs.pmemfs: %s: not calibrated: %s; copies go by the starting rule\n",
			t->o->path, why);
}

/* Formats memory of that size: what can be refused is, before a file changes. */
static int rehearse(const struct mkfs_options *o)
{
	struct target t = {.o = o};
	int r = target_stand_in(&t, o->format.size);

	if (!r)
		r = format(&t);
	target_close(&t, false);
	return r;
}

/* ---- opening -------------------------------------------------------------------------- */

static int check_size(const struct target *t)
{
	const struct mkfs_options *o = t->o;
	uint64_t size = media_size(t->media);

	if (o->format.size > size)
		return fail(o->path, "has %" PRIu64 " bytes, less than --size: give it at most",
			    size);
	if (size < PMEMFS_MIN_SIZE)
		return fail(o->path, "has %" PRIu64 " bytes: pmemfs needs 16 MiB at least%s",
			    size, media_kind(t->media) == MEDIA_DEVDAX ? "" : ", give --size");
	return 0;
}

/* A file that has not the size it shall have. Held open until it has, so that it stays ours. */
static int target_resize(struct target *t, uint64_t old)
{
	struct media *before = NULL;
	int r = 0;

	if (old >= PMEMFS_BLOCK_SIZE) {
		r = target_map(t);
		if (!r)
			r = check_holds(t);
		before = t->media;
		t->media = NULL;
	}
	if (!r)
		r = rehearse(t->o);
	if (!r && !t->o->dry)
		r = set_size(t->o, 0);
	media_close(before);
	if (r)
		return r;
	return t->o->dry ? target_stand_in(t, t->o->format.size) : target_map(t);
}

static int target_open(struct target *t)
{
	const struct mkfs_options *o = t->o;
	struct stat st;
	int r;

	if (stat(o->path, &st)) {
		if (errno == ENOENT)
			return target_create(t);
		return fail(o->path, "%s", strerror(errno));
	}
	if (S_ISREG(st.st_mode) && o->format.size && o->format.size != (uint64_t)st.st_size)
		return target_resize(t, (uint64_t)st.st_size);
	if (S_ISREG(st.st_mode) && st.st_size % PMEMFS_BLOCK_SIZE)
		return fail(o->path, "has %jd bytes, which is no multiple of 4096: give --size",
			    (intmax_t)st.st_size);
	if (S_ISREG(st.st_mode) && st.st_size < (off_t)PMEMFS_BLOCK_SIZE)
		return fail(o->path, "is empty: give --size");
	r = target_map(t);
	if (!r)
		r = check_size(t);
	return r ? r : check_holds(t);
}

/* ---- the summary ---------------------------------------------------------------------- */

static const char *durability(enum media_kind kind)
{
	switch (kind) {
	case MEDIA_DEVDAX:
	case MEDIA_FSDAX:
		return "what a call wrote is durable when it returns";
	case MEDIA_VOLATILE:
	case MEDIA_MEMORY:
		return "in memory: lasts until the machine loses power";
	case MEDIA_FILE:
		break;
	}
	return "file on a disk: survives a killed daemon; a power failure only after fsync or "
	       "sync";
}

static int report(const struct target *t)
{
	char size[32], uuid[UUID_STR_LEN], label[64], copies[512];
	const struct mkfs_options *o = t->o;
	struct pmemfs_info info;
	const char *why;
	int r = pmemfs_probe(t->media, &info, &why);

	if (r)
		return fail(o->path, "was formatted, but %s", why);
	if (o->quiet)
		return 0;
	uuid_unparse(info.uuid, uuid);
	ident_printable(label, sizeof(label), info.label);
	printf("%s: %spmemfs, %s in %" PRIu64 " blocks of 4 KiB, %u shard%s, metadata %s\n",
	       o->path, o->dry ? "would make " : "",
	       mkfs_size_words(info.size, size, sizeof(size)), info.size / PMEMFS_BLOCK_SIZE,
	       info.shards, info.shards == 1 ? "" : "s", info.replica ? "twice" : "once");
	printf("UUID %s, label \"%s\"\n",
	       o->dry && uuid_is_null(o->format.uuid) ? "(random)" : uuid, label);
	if (!t->memory)
		printf("%s: %s\n", media_kind_name(media_kind(t->media)),
		       durability(media_kind(t->media)));
	if (!t->memory) {
		media_policy_text(t->media, false, 0, copies, sizeof(copies));
		printf("Copies (%s): %s\n", media_policy_name(t->media), copies);
	}
	if (o->dry)
		puts("Nothing was written.");
	return 0;
}

int main(int argc, char **argv)
{
	struct mkfs_options o;
	struct target t = {.o = &o};
	int code;

	if (mkfs_options_parse(argc, argv, &o, &code))
		return code;
	code = target_open(&t) || format(&t);
	if (!code) {
		calibrate(&t);
		code = report(&t) != 0;
	}
	target_close(&t, code);
	if (!code && fflush(stdout))
		code =
		    fail(o.path, "the summary could not be printed: %s", strerror(errno)) != 0;
	return code;
}
