/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmemfs quota: what users and groups use of a mounted filesystem, and may use at most. Asks
 * its daemon; names are looked up here.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <inttypes.h>
#include <json.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "pmemfs.h"
#include "tool.h"

#define BLOCK 4096u

struct options {
	bool users, groups, numeric, json;
	const char *point;
	/* set */
	struct control_quota_set set;
};

static int print_help(FILE *to, int code)
{
	fputs("usage: pmemfs quota [-ugnj] MOUNTPOINT\n"
	      "       pmemfs quota set -u USER | -g GROUP [-b SIZE] [-i COUNT] MOUNTPOINT\n"
	      "       pmemfs quota on | off MOUNTPOINT\n\n"
	      "Shows what users and groups use of a mounted filesystem, and may use at most: "
	      "all of\n"
	      "them to root, to others what is theirs. \"set\" sets limits, for root, "
	      "\"on\" begins to\n"
	      "count, also after the next mounts, \"off\" ends that and drops all limits.\n\n"
	      "  -u, --users          only users\n"
	      "  -g, --groups         only groups\n"
	      "  -n, --numeric        ids instead of names\n"
	      "  -j, --json           one JSON object\n"
	      "  -h, --help           this text\n\n"
	      "of set:\n"
	      "  -u, --user=USER      whose limit: a name or an id, not root\n"
	      "  -g, --group=GROUP    the same\n"
	      "  -b, --blocks=SIZE    bytes, or with K, M, G, T; 0: no limit\n"
	      "  -i, --inodes=COUNT   files, directories and so on; 0: no limit\n",
	      to);
	return code;
}

/* ---- showing ---- */

struct rows {
	struct control_quota *v;
	size_t n;
};

/* All of a kind. */
static int ask(int fd, const struct options *o, uint32_t kind, struct rows *ret)
{
	struct control_quotas s = {.kind = kind};
	struct rows r = {0};

	do {
		if (tool_ask(fd, o->point, PMEMFS_IOC_QUOTAS, &s)) {
			free(r.v);
			return -1;
		}
		r.v = realloc(r.v, (r.n + s.n + 1) * sizeof(*r.v));
		if (!r.v)
			abort();
		memcpy(r.v + r.n, s.v, s.n * sizeof(*r.v));
		r.n += s.n;
		if (s.n)
			s.from = s.v[s.n - 1].id + 1;
	} while (s.more);
	*ret = r;
	return 0;
}

/* NULL: it has none. */
static const char *find_name(uint32_t kind, uint32_t id)
{
	const struct passwd *pw = kind == PMEMFS_QUOTA_USER ? getpwuid(id) : NULL;
	const struct group *gr = kind == PMEMFS_QUOTA_GROUP ? getgrgid(id) : NULL;

	return pw ? pw->pw_name : gr ? gr->gr_name : NULL;
}

/* "50%", or "-" where there is no limit. */
static const char *part_text(uint64_t used, uint64_t limit, char buf[32])
{
	if (!limit)
		return "-";
	snprintf(buf, 32, "%.0f%%", 100.0 * (double)used / (double)limit);
	return buf;
}

static const char *limit_text(uint64_t limit, uint64_t unit, char buf[32])
{
	if (!limit)
		return "-";
	if (unit > 1)
		return tool_size(limit * unit, buf);
	snprintf(buf, 32, "%" PRIu64, limit);
	return buf;
}

static void print_rows(const struct options *o, uint32_t kind, const struct rows *r)
{
	char a[32], b[32], c[32], d[32], e[32], id[16];

	printf("%-20s %12s %12s %5s %12s %12s %5s\n",
	       kind == PMEMFS_QUOTA_USER ? "user" : "group", "used", "limit", "", "inodes",
	       "limit", "");
	for (size_t k = 0; k < r->n; k++) {
		const struct control_quota *q = &r->v[k];
		const char *name = o->numeric ? NULL : find_name(kind, q->id);

		snprintf(id, sizeof(id), "%" PRIu32, q->id);
		printf("%-20s %12s %12s %5s %12" PRIu64 " %12s %5s\n", name ? name : id,
		       tool_size(q->blocks * BLOCK, a), limit_text(q->block_limit, BLOCK, b),
		       part_text(q->blocks, q->block_limit, c), q->inodes,
		       limit_text(q->inode_limit, 1, d),
		       part_text(q->inodes, q->inode_limit, e));
	}
}

static void add_limit(json_object *o, const char *key, uint64_t limit)
{
	json_object_object_add(o, key, limit ? json_object_new_uint64(limit) : NULL);
}

static void add_rows(json_object *o, uint32_t kind, const struct rows *r)
{
	json_object *all = json_object_new_array();

	for (size_t k = 0; k < r->n; k++) {
		const struct control_quota *q = &r->v[k];
		const char *name = find_name(kind, q->id);
		json_object *row = json_object_new_object();

		json_object_object_add(row, "id", json_object_new_uint64(q->id));
		json_object_object_add(row, "name", name ? json_object_new_string(name) : NULL);
		json_object_object_add(row, "used_bytes",
				       json_object_new_uint64(q->blocks * BLOCK));
		add_limit(row, "limit_bytes", q->block_limit * BLOCK);
		json_object_object_add(row, "inodes", json_object_new_uint64(q->inodes));
		add_limit(row, "limit_inodes", q->inode_limit);
		json_object_array_add(all, row);
	}
	json_object_object_add(o, kind == PMEMFS_QUOTA_USER ? "users" : "groups", all);
}

static int report(const struct options *o, int fd)
{
	json_object *json = json_object_new_object();
	bool all = !o->users && !o->groups, first = true;

	json_object_object_add(json, "mountpoint", json_object_new_string(o->point));
	for (uint32_t kind = PMEMFS_QUOTA_USER; kind <= PMEMFS_QUOTA_GROUP; kind++) {
		struct rows r;

		if (!all && !(kind == PMEMFS_QUOTA_USER ? o->users : o->groups))
			continue;
		if (ask(fd, o, kind, &r)) {
			json_object_put(json);
			return TOOL_FAILED;
		}
		if (o->json) {
			add_rows(json, kind, &r);
		} else {
			if (!first)
				putchar('\n');
			print_rows(o, kind, &r);
		}
		first = false;
		free(r.v);
	}
	if (o->json)
		puts(json_object_to_json_string_ext(json, JSON_C_TO_STRING_PRETTY |
							      JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(json);
	return TOOL_OK;
}

/* ---- setting ---- */

/* A decimal number below 2^63, and what stands behind it. */
static bool number(const char *s, uint64_t *ret, char **ret_end)
{
	errno = 0;
	*ret = strtoull(s, ret_end, 10);
	return isdigit((unsigned char)*s) && !errno && *ret <= INT64_MAX;
}

/* In blocks, rounded down: a limit is never exceeded. */
static int parse_size(const char *s, uint64_t *ret)
{
	static const char suffixes[] = "KMGTP";
	const char *suffix;
	unsigned shift = 0;
	uint64_t v;
	char *end;
	bool good = number(s, &v, &end);

	if (good && *end) {
		suffix = strchr(suffixes, toupper((unsigned char)*end));
		good = suffix && (!end[1] || !strcmp(end + 1, "iB"));
		shift = good ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
	}
	if (!good || v > INT64_MAX >> shift) {
		tool_error("\"%s\" is no size: bytes, or with K, M, G, T or P", s);
		return -1;
	}
	if (v && v << shift < BLOCK) {
		tool_error("a limit is %u bytes at least, or 0 for none", BLOCK);
		return -1;
	}
	*ret = (v << shift) / BLOCK;
	return 0;
}

static int parse_count(const char *s, uint64_t *ret)
{
	char *end;

	if (number(s, ret, &end) && !*end)
		return 0;
	tool_error("\"%s\" is no number of inodes", s);
	return -1;
}

static int parse_whose(uint32_t kind, const char *s, struct control_quota *q)
{
	const struct passwd *pw = kind == PMEMFS_QUOTA_USER ? getpwnam(s) : NULL;
	const struct group *gr = kind == PMEMFS_QUOTA_GROUP ? getgrnam(s) : NULL;
	uint64_t id = 0;
	char *end;

	if (q->kind) {
		tool_error("one user or group at a time");
		return -1;
	}
	if (pw || gr) {
		id = pw ? pw->pw_uid : gr->gr_gid;
	} else if (!number(s, &id, &end) || *end || id > UINT32_MAX) {
		tool_error("there is no %s \"%s\"",
			   kind == PMEMFS_QUOTA_USER ? "user" : "group", s);
		return -1;
	}
	if (!id) {
		tool_error("root is counted, but not limited");
		return -1;
	}
	q->kind = kind;
	q->id = (uint32_t)id;
	return 0;
}

/* ---- the command ---- */

static int open_point(const struct options *o)
{
	int fd = open(o->point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		tool_error("%s: %s", o->point, strerror(errno));
	return fd;
}

static int parse_point(int argc, char **argv, struct options *o)
{
	if (argc - optind != 1) {
		tool_error("one mount point is needed");
		return -1;
	}
	o->point = argv[optind];
	return 0;
}

static int run_switch(int argc, char **argv, uint32_t on)
{
	struct options o = {.users = false};
	int fd, code = TOOL_OK;

	if (argc > 1 && argv[1][0] == '-') {
		bool help = strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0;

		return print_help(help ? stdout : stderr, help ? TOOL_OK : TOOL_USAGE);
	}
	optind = 1;
	if (parse_point(argc, argv, &o))
		return TOOL_USAGE;
	fd = open_point(&o);
	if (fd < 0)
		return TOOL_FAILED;
	if (tool_ask(fd, o.point, PMEMFS_IOC_QUOTA_SWITCH, &on))
		code = TOOL_FAILED;
	close(fd);
	return code;
}

static int parse_set(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
	    {"user", required_argument, NULL, 'u'},   {"group", required_argument, NULL, 'g'},
	    {"blocks", required_argument, NULL, 'b'}, {"inodes", required_argument, NULL, 'i'},
	    {"help", no_argument, NULL, 'h'},	      {0}};
	struct control_quota *q = &o->set.quota;
	int opt, err = 0;

	while (!err && (opt = getopt_long(argc, argv, "u:g:b:i:h", longs, NULL)) != -1) {
		if (opt == 'u' || opt == 'g') {
			err = parse_whose(opt == 'u' ? PMEMFS_QUOTA_USER : PMEMFS_QUOTA_GROUP,
					  optarg, q);
		} else if (opt == 'b') {
			err = parse_size(optarg, &q->block_limit);
			o->set.mask |= PMEMFS_QUOTA_BLOCKS;
		} else if (opt == 'i') {
			err = parse_count(optarg, &q->inode_limit);
			o->set.mask |= PMEMFS_QUOTA_INODES;
		} else {
			print_help(opt == 'h' ? stdout : stderr, 0);
			return opt == 'h' ? 1 : -1;
		}
	}
	if (!err)
		err = parse_point(argc, argv, o);
	if (!err && (!q->kind || !o->set.mask)) {
		tool_error("whose limit (-u or -g), and which (-b, -i)?");
		err = -1;
	}
	return err;
}

static int run_set(int argc, char **argv)
{
	struct options o = {.users = false};
	int err = parse_set(argc, argv, &o), fd, code = TOOL_OK;

	if (err)
		return err > 0 ? TOOL_OK : TOOL_USAGE;
	fd = open_point(&o);
	if (fd < 0)
		return TOOL_FAILED;
	if (tool_ask(fd, o.point, PMEMFS_IOC_QUOTA_SET, &o.set))
		code = TOOL_FAILED;
	close(fd);
	return code;
}

static int run_report(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"users", no_argument, NULL, 'u'},	 {"groups", no_argument, NULL, 'g'},
	    {"numeric", no_argument, NULL, 'n'}, {"json", no_argument, NULL, 'j'},
	    {"help", no_argument, NULL, 'h'},	 {0}};
	struct options o = {.users = false};
	int opt, fd, code;

	while ((opt = getopt_long(argc, argv, "ugnjh", longs, NULL)) != -1) {
		if (opt == 'u')
			o.users = true;
		else if (opt == 'g')
			o.groups = true;
		else if (opt == 'n')
			o.numeric = true;
		else if (opt == 'j')
			o.json = true;
		else
			return print_help(opt == 'h' ? stdout : stderr,
					  opt == 'h' ? TOOL_OK : TOOL_USAGE);
	}
	if (parse_point(argc, argv, &o))
		return TOOL_USAGE;
	fd = open_point(&o);
	if (fd < 0)
		return TOOL_FAILED;
	code = report(&o, fd);
	close(fd);
	return code;
}

int tool_quota(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "set") == 0)
		return run_set(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "on") == 0)
		return run_switch(argc - 1, argv + 1, 1);
	if (argc > 1 && strcmp(argv[1], "off") == 0)
		return run_switch(argc - 1, argv + 1, 0);
	return run_report(argc, argv);
}
