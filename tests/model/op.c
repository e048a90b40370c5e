/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations as values: names, text form, the bytes that a seed stands for, results.
 *
 * Invariant: op_parse(op_print(op)) gives back every field that the kind uses.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "op.h"

/* Which fields a kind uses. */
#define F_PATH	0x0001u
#define F_ALT	0x0002u /* fd may stand instead of path */
#define F_FD	0x0004u
#define F_TO	0x0008u
#define F_MODE	0x0010u
#define F_FLAGS 0x0020u
#define F_OWN	0x0040u
#define F_DEV	0x0080u
#define F_OFF	0x0100u
#define F_LEN	0x0200u
#define F_SEED	0x0400u
#define F_TIMES 0x0800u
#define F_FILE	(F_PATH | F_ALT)

static const struct {
	const char *name;
	unsigned fields;
} kinds[OP_KINDS] = {
    [OP_NONE] = {"none", 0},
    [OP_CREATE] = {"create", F_PATH | F_MODE | F_OWN},
    [OP_MKDIR] = {"mkdir", F_PATH | F_MODE | F_OWN},
    [OP_MKNOD] = {"mknod", F_PATH | F_MODE | F_OWN | F_DEV},
    [OP_SYMLINK] = {"symlink", F_PATH | F_TO | F_LEN | F_SEED | F_OWN},
    [OP_LINK] = {"link", F_FILE | F_TO},
    [OP_UNLINK] = {"unlink", F_PATH},
    [OP_RMDIR] = {"rmdir", F_PATH},
    [OP_RENAME] = {"rename", F_PATH | F_TO | F_FLAGS},
    [OP_WRITE] = {"write", F_FILE | F_OFF | F_LEN | F_SEED},
    [OP_APPEND] = {"append", F_FILE | F_LEN | F_SEED},
    [OP_TRUNCATE] = {"truncate", F_FILE | F_OFF},
    [OP_FALLOCATE] = {"fallocate", F_FILE | F_OFF | F_LEN | F_FLAGS},
    [OP_CHMOD] = {"chmod", F_FILE | F_MODE},
    [OP_CHOWN] = {"chown", F_FILE | F_OWN},
    [OP_UTIMENS] = {"utimens", F_FILE | F_TIMES},
    [OP_SETXATTR] = {"setxattr", F_FILE | F_TO | F_LEN | F_SEED | F_FLAGS},
    [OP_REMOVEXATTR] = {"removexattr", F_FILE | F_TO},
    [OP_OPEN] = {"open", F_PATH | F_FD},
    [OP_CLOSE] = {"close", F_FD},
    [OP_TMPFILE] = {"tmpfile", F_PATH | F_FD | F_MODE | F_OWN},
    [OP_READ] = {"read", F_FILE | F_OFF | F_LEN},
    [OP_SEEK] = {"seek", F_FILE | F_OFF | F_FLAGS},
    [OP_GETXATTR] = {"getxattr", F_FILE | F_TO | F_LEN},
    [OP_LISTXATTR] = {"listxattr", F_FILE},
    [OP_READLINK] = {"readlink", F_PATH},
    [OP_READDIR] = {"readdir", F_PATH},
    [OP_STAT] = {"stat", F_FILE},
    [OP_SYNC] = {"sync", 0},
    [OP_REMOUNT] = {"remount", 0},
    [OP_CRASH] = {"crash", 0},
};

/* Words for flags. A word covers exactly those bits of the value. */
static const struct {
	enum op_kind kind;
	uint32_t value;
	const char *word;
} words[] = {
    {OP_RENAME, RENAME_NOREPLACE, "noreplace"},
    {OP_RENAME, RENAME_EXCHANGE, "exchange"},
    {OP_RENAME, RENAME_WHITEOUT, "whiteout"},
    {OP_FALLOCATE, FALLOC_FL_KEEP_SIZE, "keep"},
    {OP_FALLOCATE, FALLOC_FL_PUNCH_HOLE, "punch"},
    {OP_FALLOCATE, FALLOC_FL_ZERO_RANGE, "zero"},
    {OP_SETXATTR, XATTR_CREATE, "create"},
    {OP_SETXATTR, XATTR_REPLACE, "replace"},
    {OP_SEEK, SEEK_DATA, "data"},
    {OP_SEEK, SEEK_HOLE, "hole"},
};
#define N_WORDS (sizeof(words) / sizeof(words[0]))

void op_init(struct op *op, enum op_kind kind)
{
	memset(op, 0, sizeof(*op));
	op->kind = kind;
	op->fd = OP_NOFD;
}

const char *op_name(enum op_kind kind)
{
	return kind < OP_KINDS ? kinds[kind].name : "?";
}

bool op_changes(enum op_kind kind)
{
	return (kind >= OP_CREATE && kind <= OP_REMOVEXATTR) || kind == OP_TMPFILE;
}

/* ---- results ---- */

void op_result_set(struct op_result *r, int64_t ret, const void *data, size_t len)
{
	r->ret = ret;
	r->data = NULL;
	r->len = 0;
	if (!data)
		return;
	r->data = malloc(len ? len : 1);
	if (!r->data)
		abort();
	memcpy(r->data, data, len);
	r->len = len;
}

void op_result_clear(struct op_result *r)
{
	free(r->data);
	memset(r, 0, sizeof(*r));
}

static const char *ret_text(int64_t ret, char *buf, size_t size)
{
	if (ret < 0)
		snprintf(buf, size, "%s", strerrorname_np((int)-ret) ?: "?");
	else
		snprintf(buf, size, "%lld", (long long)ret);
	return buf;
}

bool op_result_equal(const struct op_result *want, const struct op_result *got, char *why,
		     size_t whylen)
{
	char a[32], b[32];
	size_t i;

	if (want->ret != got->ret) {
		snprintf(why, whylen, "result should be %s, is %s",
			 ret_text(want->ret, a, sizeof(a)), ret_text(got->ret, b, sizeof(b)));
		return false;
	}
	if (want->len != got->len) {
		snprintf(why, whylen, "result should have %zu bytes, has %zu", want->len,
			 got->len);
		return false;
	}
	for (i = 0; i < want->len; i++) {
		if (want->data[i] == got->data[i])
			continue;
		snprintf(why, whylen, "byte %zu of the result should be 0x%02x, is 0x%02x", i,
			 want->data[i], got->data[i]);
		return false;
	}
	return true;
}

/* ---- bytes ---- */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

void op_fill(uint64_t seed, void *buf, size_t len)
{
	uint8_t *p = buf;
	uint64_t v = 0;
	size_t i;

	if (!seed) {
		memset(buf, 0, len);
		return;
	}
	for (i = 0; i < len; i++) {
		if (!(i & 7))
			v = mix(seed * 0x2545f4914f6cdd1dull + i);
		p[i] = (uint8_t)(v >> (8 * (i & 7)));
		if (!p[i])
			p[i] = (uint8_t)(1 + (seed + i) % 255);
	}
}

bool op_is_acl(const char *name)
{
	return !strcmp(name, OP_ACL_ACCESS) || !strcmp(name, OP_ACL_DEFAULT);
}

static void acl_value(const struct op *op, uint8_t *p)
{
	size_t n = (op->len - 4) / 8, named = n > 4 ? n - 4 : 0, users = named / 2, k = 0;
	uint8_t random[OP_ACL_MAX];

	op_fill(op->seed, random, op->len);
	memset(p, 0, op->len);
	p[0] = 2;
	for (p += 4; k < n; k++, p += 8) {
		bool user = k >= 1 && k < 1 + users, group = k >= 2 + users && k < 2 + named;

		p[0] = k == 0		     ? 0x01
		       : user		     ? 0x02
		       : k == 1 + users	     ? 0x04
		       : group		     ? 0x08
		       : n > 3 && k == n - 2 ? 0x10
					     : 0x20;
		p[2] = random[k] & 7;
		memset(p + 4, user || group ? 0 : 0xff, 4);
		if (user || group)
			p[4] = (uint8_t)(10 + k);
	}
}

void op_value(const struct op *op, void *buf)
{
	if (op_is_acl(op->to) && op->len >= OP_ACL_MIN && op->len <= OP_ACL_MAX &&
	    op->len % 8 == 4)
		acl_value(op, buf);
	else
		op_fill(op->seed, buf, op->len);
}

size_t op_target(const struct op *op, char *buf, size_t size)
{
	size_t n = op->len ? (size_t)op->len : strlen(op->to);

	if (n > size)
		n = size;
	if (op->len)
		op_fill(op->seed ? op->seed : 1, buf, n);
	else
		memcpy(buf, op->to, n);
	return n;
}

/* ---- text ---- */

struct out {
	char *buf;
	size_t size, len;
};

static void put(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct out *o, const char *fmt, ...)
{
	va_list ap;
	size_t room = o->len < o->size ? o->size - o->len : 0;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(room ? o->buf + o->len : NULL, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		o->len += (size_t)n;
}

static void put_bytes(struct out *o, const char *key, const char *s)
{
	put(o, " %s=", key);
	for (; *s; s++) {
		uint8_t c = (uint8_t)*s;

		if (c > 0x20 && c < 0x7f && c != '%')
			put(o, "%c", c);
		else
			put(o, "%%%02X", c);
	}
}

static void put_flags(struct out *o, const struct op *op)
{
	uint32_t left = op->flags;
	const char *sep = "";
	size_t i;

	if (!left && op->kind != OP_SEEK)
		return;
	put(o, " flags=");
	for (i = 0; i < N_WORDS; i++) {
		if (words[i].kind != op->kind)
			continue;
		if (op->kind == OP_SEEK ? left != words[i].value : !(left & words[i].value))
			continue;
		put(o, "%s%s", sep, words[i].word);
		left &= ~words[i].value;
		sep = "|";
	}
	if (left)
		put(o, "%s%#x", sep, left);
}

static void put_time(struct out *o, const char *key, const struct timespec *t)
{
	if (t->tv_nsec == UTIME_NOW)
		put(o, " %s=now", key);
	else if (t->tv_nsec == UTIME_OMIT)
		put(o, " %s=omit", key);
	else
		put(o, " %s=%lld.%09ld", key, (long long)t->tv_sec, t->tv_nsec);
}

static void put_numbers(struct out *o, const struct op *op, unsigned f)
{
	if (f & F_MODE)
		put(o, " mode=0%o", op->mode);
	if ((f & F_OWN) && (op->uid || op->kind == OP_CHOWN))
		put(o, " uid=%lld", (long long)op->uid);
	if ((f & F_OWN) && (op->gid || op->kind == OP_CHOWN))
		put(o, " gid=%lld", (long long)op->gid);
	if ((f & F_DEV) && (op->major || op->minor))
		put(o, " major=%u minor=%u", op->major, op->minor);
	if (f & F_OFF)
		put(o, " off=%llu", (unsigned long long)op->off);
	if ((f & F_LEN) && (op->len || op->kind != OP_SYMLINK))
		put(o, " len=%llu", (unsigned long long)op->len);
	if ((f & F_SEED) && op->seed)
		put(o, " seed=%llu", (unsigned long long)op->seed);
}

size_t op_print(const struct op *op, char *buf, size_t size)
{
	struct out o = {buf, size, 0};
	unsigned f = op->kind < OP_KINDS ? kinds[op->kind].fields : 0;

	if (size)
		buf[0] = 0;
	put(&o, "%s", op_name(op->kind));
	if ((f & F_FD) || ((f & F_ALT) && op->fd != OP_NOFD))
		put(&o, " fd=%d", op->fd);
	if ((f & F_PATH) && (!(f & F_ALT) || op->fd == OP_NOFD))
		put_bytes(&o, "path", op->path);
	if ((f & F_TO) && (op->to[0] || op->kind != OP_SYMLINK))
		put_bytes(&o, "to", op->to);
	put_numbers(&o, op, f);
	if (f & F_FLAGS)
		put_flags(&o, op);
	if (f & F_TIMES) {
		put_time(&o, "atime", &op->atime);
		put_time(&o, "mtime", &op->mtime);
	}
	return o.len;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

static int get_bytes(const char *v, size_t n, char *ret)
{
	size_t i, o = 0;

	for (i = 0; i < n; i++) {
		char c = v[i];

		if (c == '%') {
			if (i + 2 >= n || hex(v[i + 1]) < 0 || hex(v[i + 2]) < 0)
				return -EINVAL;
			c = (char)(hex(v[i + 1]) << 4 | hex(v[i + 2]));
			i += 2;
		}
		if (!c || o + 1 >= OP_PATH_MAX)
			return -EINVAL;
		ret[o++] = c;
	}
	ret[o] = 0;
	return 0;
}

static int get_flags(enum op_kind kind, const char *v, uint32_t *ret)
{
	uint32_t value = 0;

	while (*v) {
		size_t n = strcspn(v, "|"), i;

		for (i = 0; i < N_WORDS; i++)
			if (words[i].kind == kind && strlen(words[i].word) == n &&
			    !strncmp(v, words[i].word, n))
				break;
		if (i < N_WORDS) {
			value |= words[i].value;
		} else {
			char *end;

			value |= (uint32_t)strtoul(v, &end, 0);
			if (end != v + n || !n)
				return -EINVAL;
		}
		v += n;
		if (*v == '|')
			v++;
	}
	*ret = value;
	return 0;
}

static int get_time(const char *v, struct timespec *ret)
{
	char *end;

	*ret = (struct timespec){0};
	if (!strcmp(v, "now") || !strcmp(v, "omit")) {
		ret->tv_nsec = *v == 'n' ? UTIME_NOW : UTIME_OMIT;
		return 0;
	}
	ret->tv_sec = strtoll(v, &end, 10);
	if (end == v || *end != '.')
		return -EINVAL;
	v = end + 1;
	ret->tv_nsec = strtol(v, &end, 10);
	return end != v + 9 || *end ? -EINVAL : 0;
}

static int get_number(struct op *op, const char *key, const char *v)
{
	char *end;
	int64_t i = strtoll(v, &end, 0);
	uint64_t u = strtoull(v, NULL, 0);

	if (end == v || *end)
		return -EINVAL;
	if (!strcmp(key, "fd"))
		op->fd = (int)i;
	else if (!strcmp(key, "mode"))
		op->mode = (uint32_t)u;
	else if (!strcmp(key, "uid"))
		op->uid = i;
	else if (!strcmp(key, "gid"))
		op->gid = i;
	else if (!strcmp(key, "major"))
		op->major = (uint32_t)u;
	else if (!strcmp(key, "minor"))
		op->minor = (uint32_t)u;
	else if (!strcmp(key, "off"))
		op->off = u;
	else if (!strcmp(key, "len"))
		op->len = u;
	else if (!strcmp(key, "seed"))
		op->seed = u;
	else
		return -EINVAL;
	return 0;
}

static int get_word(struct op *op, char *word)
{
	char *v = strchr(word, '=');

	if (!v)
		return -EINVAL;
	*v++ = 0;
	if (!strcmp(word, "path"))
		return get_bytes(v, strlen(v), op->path);
	if (!strcmp(word, "to"))
		return get_bytes(v, strlen(v), op->to);
	if (!strcmp(word, "flags"))
		return get_flags(op->kind, v, &op->flags);
	if (!strcmp(word, "atime"))
		return get_time(v, &op->atime);
	if (!strcmp(word, "mtime"))
		return get_time(v, &op->mtime);
	return get_number(op, word, v);
}

int op_parse(const char *line, struct op *ret)
{
	static const char space[] = " \t\r\n";
	char *copy = strdup(line), *save = NULL, *word;
	int rc = -EINVAL;
	unsigned k;

	if (!copy)
		return -ENOMEM;
	op_init(ret, OP_NONE);
	word = strtok_r(copy, space, &save);
	if (!word || word[0] == '#') {
		rc = 0;
		goto out;
	}
	for (k = 0; k < OP_KINDS && strcmp(kinds[k].name, word); k++)
		;
	if (k == OP_KINDS)
		goto out;
	ret->kind = k;
	rc = 0;
	while (!rc && (word = strtok_r(NULL, space, &save)))
		rc = get_word(ret, word);
	if (!rc && (ret->fd < OP_NOFD || ret->fd >= OP_FDS))
		rc = -EINVAL;
out:
	free(copy);
	return rc;
}
