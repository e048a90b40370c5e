/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmemfs info: what the superblock says and what the medium is, for people or as JSON. Reads
 * only the superblocks and takes no lock, so it works on a mounted filesystem; what it then
 * says about space is as of the last clean unmount, and it says so.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <uuid/uuid.h>

#include "ident.h"
#include "pmemfs.h"
#include "tool.h"

/* The rows of the table of store kernels. */
static const char *const writers_names[MEDIA_WRITERS] = {"1", "2", "3-4", "5+"};

struct subject {
	const char *device;
	struct media *media;
	struct pmemfs_info info;
	int calibration; /* what pmemfs_use_calibration said */
	int bads;
	uint64_t bad[PMEMFS_BAD_BLOCKS];
};

static int print_help(FILE *to, int code)
{
	fputs("usage: pmemfs info [-j] DEVICE\n\n"
	      "Prints what the filesystem on DEVICE and its medium are like. DEVICE may be "
	      "mounted.\n\n"
	      "  -j, --json   as one JSON object, sizes in bytes, times in seconds\n"
	      "  -h, --help   this text\n",
	      to);
	return code;
}

static const char *uuid_text(const uint8_t uuid[16], char *buf)
{
	uuid_unparse_lower(uuid, buf);
	return buf;
}

static const char *state_text(const struct pmemfs_info *i)
{
	if (i->error)
		return "errors were found: run fsck.pmemfs";
	return i->clean ? "clean" : "mounted, or not unmounted cleanly";
}

static const char *super_text(const struct pmemfs_info *i)
{
	if (i->primary_ok && i->replica_ok)
		return "both copies are right";
	return i->primary_ok ? "the replica is damaged: run fsck.pmemfs"
			     : "the first copy is damaged: run fsck.pmemfs";
}

/* ---- text ---- */

static void print_size(const char *what, uint64_t bytes)
{
	char buf[32];

	printf("%-18s %s (%" PRIu64 " bytes)\n", what, tool_size(bytes, buf), bytes);
}

static void print_time(const char *what, int64_t when)
{
	time_t t = when;
	char buf[64] = "never";
	struct tm tm;

	if (when != 0 && localtime_r(&t, &tm))
		strftime(buf, sizeof(buf), "%Y-%m-%d %H:%M:%S %z", &tm);
	printf("%-18s %s\n", what, buf);
}

static void print_space(const struct pmemfs_info *i)
{
	if (!i->counters_valid) {
		printf("%-18s known after a clean unmount; see df while it is mounted\n",
		       "free space:");
		return;
	}
	print_size("free space:", i->free_blocks * 4096);
	printf("%-18s %" PRIu64 "\n", "inodes in use:", i->used_inodes);
}

static void print_bad(const struct subject *s)
{
	printf("%-18s %d%s", "bad blocks:", s->bads, s->bads ? ":" : "\n");
	for (int k = 0; k < s->bads; k++)
		printf(" %" PRIu64 "%s", s->bad[k], k + 1 < s->bads ? "" : "\n");
}

static const char *calibration_text(const struct subject *s)
{
	switch (s->calibration) {
	case 0:
		return "";
	case -ENOENT:
		return ": the starting rule holds; see pmemfs calibrate";
	case -EXDEV:
		return ", on another model of CPU: the starting rule holds; pmemfs calibrate "
		       "measures anew";
	default:
		return ", with instructions that this machine does not have: the starting rule "
		       "holds; pmemfs calibrate measures anew";
	}
}

static void print_calibration(const struct subject *s)
{
	char buf[64] = "no";
	time_t t = s->info.calibrated_when;
	struct tm tm;

	if (s->info.calibrated && localtime_r(&t, &tm))
		strftime(buf, sizeof(buf), "%Y-%m-%d %H:%M:%S %z", &tm);
	printf("%-18s %s%s\n", "calibrated:", buf, calibration_text(s));
}

/* Which store kernel runs for what; rows that are like the one above are left out. */
static void print_kernels(const struct media *m, const char *what, bool clear)
{
	char text[512], above[512] = "";

	for (unsigned row = 0; row < MEDIA_WRITERS; row++) {
		media_policy_text(m, clear, row, text, sizeof(text));
		if (row == 0)
			printf("%-18s %s\n", what, text);
		else if (strcmp(text, above) != 0)
			printf("  %-16s %s\n",
			       (const char *[]){
				   "", "2 writers:", "3-4 writers:", "5 or more:"}[row],
			       text);
		strcpy(above, text);
	}
}

static void print_medium(const struct media *m)
{
	printf("%-18s %s%s\n", "medium:", media_kind_name(media_kind(m)),
	       media_eadr(m) ? ", caches are persistent (eADR)" : "");
	print_size("medium's size:", media_size(m));
	print_kernels(m, "copies:", false);
	print_kernels(m, "zeroing:", true);
}

static void print_text(const struct subject *s)
{
	const struct pmemfs_info *i = &s->info;
	char uuid[37];

	printf("%-18s %s\n", "device:", s->device);
	printf("%-18s %s\n", "label:", i->label[0] ? i->label : "(none)");
	printf("%-18s %s\n", "uuid:", uuid_text(i->uuid, uuid));
	printf("%-18s %" PRIu32 "\n", "format version:", i->version);
	printf("%-18s compat %#" PRIx64 ", incompat %#" PRIx64 ", ro-compat %#" PRIx64 "\n",
	       "features:", i->compat, i->incompat, i->ro_compat);
	print_size("size:", i->size);
	printf("%-18s %" PRIu32 "\n", "shards:", i->shards);
	printf("%-18s %s\n", "metadata:", i->replica ? "two copies" : "one copy");
	printf("%-18s %s\n", "data:", i->parity ? "with parity" : "without parity");
	printf("%-18s %s\n", "state:", state_text(i));
	printf("%-18s %s\n", "superblock:", super_text(i));
	print_space(i);
	print_bad(s);
	print_time("made:", i->created);
	print_time("last mounted:", i->mounted);
	print_time("last checked:", i->checked);
	printf("%-18s %" PRIu32 "\n", "mounts:", i->mounts);
	print_calibration(s);
	print_medium(s->media);
}

/* ---- JSON ---- */

static void add_text(json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, json_object_new_string(value));
}
static void add_number(json_object *o, const char *key, uint64_t value)
{
	json_object_object_add(o, key, json_object_new_uint64(value));
}
static void add_signed(json_object *o, const char *key, int64_t value)
{
	json_object_object_add(o, key, json_object_new_int64(value));
}
static void add_bool(json_object *o, const char *key, bool value)
{
	json_object_object_add(o, key, json_object_new_boolean(value));
}

/* {"64": "movnt512", "128": ...} */
static json_object *json_kernels(const struct media *m, bool clear, unsigned row)
{
	json_object *o = json_object_new_object();
	char key[24];

	for (unsigned c = 0; c < MEDIA_CLASSES; c++) {
		snprintf(key, sizeof(key), "%zu", (size_t)64 << c);
		add_text(o, key, media_kernel_for(m, clear, (size_t)64 << c, row));
	}
	return o;
}

static json_object *json_policy(const struct media *m)
{
	json_object *rows = json_object_new_array(), *o;

	for (unsigned row = 0; row < MEDIA_WRITERS; row++) {
		o = json_object_new_object();
		add_text(o, "writers", writers_names[row]);
		json_object_object_add(o, "copy", json_kernels(m, false, row));
		json_object_object_add(o, "clear", json_kernels(m, true, row));
		json_object_array_add(rows, o);
	}
	return rows;
}

static json_object *json_medium(const struct media *m)
{
	json_object *o = json_object_new_object();

	add_text(o, "kind", media_kind_name(media_kind(m)));
	add_number(o, "size", media_size(m));
	add_bool(o, "eadr", media_eadr(m));
	add_text(o, "policy", media_policy_name(m));
	json_object_object_add(o, "kernels", json_policy(m));
	return o;
}

static json_object *json_counters(const struct pmemfs_info *i)
{
	json_object *o;

	if (!i->counters_valid)
		return NULL; /* null */
	o = json_object_new_object();
	add_number(o, "free_bytes", i->free_blocks * 4096);
	add_number(o, "used_inodes", i->used_inodes);
	add_number(o, "dentry_bytes", i->dentry_bytes);
	return o;
}

static json_object *json_bad(const struct subject *s)
{
	json_object *all = json_object_new_array();

	for (int k = 0; k < s->bads; k++)
		json_object_array_add(all, json_object_new_uint64(s->bad[k]));
	return all;
}

static void print_json(const struct subject *s)
{
	const struct pmemfs_info *i = &s->info;
	json_object *o = json_object_new_object();
	char uuid[37];

	add_text(o, "device", s->device);
	add_text(o, "label", i->label);
	add_text(o, "uuid", uuid_text(i->uuid, uuid));
	add_number(o, "version", i->version);
	add_number(o, "compat", i->compat);
	add_number(o, "incompat", i->incompat);
	add_number(o, "ro_compat", i->ro_compat);
	add_number(o, "size", i->size);
	add_number(o, "shards", i->shards);
	json_object_object_add(o, "replica", json_object_new_boolean(i->replica));
	json_object_object_add(o, "parity", json_object_new_boolean(i->parity));
	add_bool(o, "clean", i->clean);
	add_bool(o, "error", i->error);
	add_bool(o, "primary_ok", i->primary_ok);
	add_bool(o, "replica_ok", i->replica_ok);
	json_object_object_add(o, "at_unmount", json_counters(i));
	json_object_object_add(o, "bad_blocks", json_bad(s));
	add_signed(o, "created", i->created);
	add_signed(o, "mounted", i->mounted);
	add_signed(o, "checked", i->checked);
	add_number(o, "mounts", i->mounts);
	add_bool(o, "calibrated", i->calibrated);
	add_bool(o, "calibration_used", s->calibration == 0);
	add_signed(o, "calibrated_when", i->calibrated_when);
	add_number(o, "calibrated_cpu", i->calibrated_cpu);
	json_object_object_add(o, "medium", json_medium(s->media));
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
						   JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
}

static int inspect(const char *device, bool json)
{
	struct subject s = {.device = device};
	const char *why = NULL;
	char other[256];
	int r = media_open(device, MEDIA_READONLY | MEDIA_NOLOCK, &s.media, &why);

	if (r == 0)
		r = pmemfs_probe(s.media, &s.info, &why);
	if (r == 0)
		s.calibration = pmemfs_use_calibration(s.media);
	if (r == 0)
		r = s.bads = pmemfs_bad_blocks(s.media, s.bad);
	if (r == -EINVAL && s.media && ident_find(s.media, other, sizeof(other)) > 0)
		tool_error("%s holds %s, no pmemfs", device, other);
	else if (r < 0)
		tool_error("%s %s", device, why ? why : strerror(-r));
	else if (json)
		print_json(&s);
	else
		print_text(&s);
	media_close(s.media);
	return r < 0 ? TOOL_FAILED : TOOL_OK;
}

int tool_info(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
	bool json = false;
	int opt;

	while ((opt = getopt_long(argc, argv, "jh", longs, NULL)) != -1) {
		if (opt == 'h')
			return print_help(stdout, TOOL_OK);
		if (opt != 'j')
			return print_help(stderr, TOOL_USAGE);
		json = true;
	}
	if (argc - optind != 1)
		return print_help(stderr, TOOL_USAGE);
	return inspect(argv[optind], json);
}
