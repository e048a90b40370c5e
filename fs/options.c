/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of a mount, as one table. They come from people, from /etc/fstab by way of
 * mount(8), and from systemd, so the generic ones are all known here: those that the kernel
 * must be told become mount flags, those that only concern mount(8) and init are dropped. An
 * option that nobody knows is an error: a misspelt "ro" must not mount for writing.
 */
#include "options.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "report.h"

#ifndef MS_NOSYMFOLLOW
#define MS_NOSYMFOLLOW 256
#endif

#define USER_FLAGS  (MS_NOEXEC | MS_NOSUID | MS_NODEV)
#define OWNER_FLAGS (MS_NOSUID | MS_NODEV)
/* What an image brings along, programs that run as root and devices, counts only if asked for.
 */
#define SAFE_FLAGS (MS_NOSUID | MS_NODEV)

enum kind {
	FLAG,	  /* clear, then set mount flags */
	IGNORE,	  /* none of our business */
	IGNORE_V, /* the same, with a value */
	PREFIX,	  /* whatever begins like this: ignored */
	KERNEL,	  /* name=value goes to the kernel as it is */
	BOOL,
	NUMBER,
	TEXT,
};

struct option {
	const char *name;
	enum kind kind;
	unsigned long set, clear; /* NUMBER: smallest and largest value */
	size_t field;
};

#define OFFSET(f) offsetof(struct mount_options, f)

static const struct option table[] = {
    {"defaults", FLAG, SAFE_FLAGS, MS_RDONLY | MS_NOEXEC | MS_SYNCHRONOUS},
    {"ro", FLAG, MS_RDONLY, 0},
    {"rw", FLAG, 0, MS_RDONLY},
    {"suid", FLAG, 0, MS_NOSUID},
    {"nosuid", FLAG, MS_NOSUID, 0},
    {"dev", FLAG, 0, MS_NODEV},
    {"nodev", FLAG, MS_NODEV, 0},
    {"exec", FLAG, 0, MS_NOEXEC},
    {"noexec", FLAG, MS_NOEXEC, 0},
    {"sync", FLAG, MS_SYNCHRONOUS, 0},
    {"async", FLAG, 0, MS_SYNCHRONOUS},
    {"dirsync", FLAG, MS_DIRSYNC, 0},
    {"nosymfollow", FLAG, MS_NOSYMFOLLOW, 0},
    {"symfollow", FLAG, 0, MS_NOSYMFOLLOW},
    {"user", FLAG, USER_FLAGS, 0},
    {"users", FLAG, USER_FLAGS, 0},
    {"owner", FLAG, OWNER_FLAGS, 0},
    {"group", FLAG, OWNER_FLAGS, 0},

    /* reading does not change access times, and the mount table says so whatever is asked */
    {"atime", IGNORE},
    {"noatime", IGNORE},
    {"diratime", IGNORE},
    {"nodiratime", IGNORE},
    {"relatime", IGNORE},
    {"norelatime", IGNORE},
    {"strictatime", IGNORE},
    {"nostrictatime", IGNORE},
    {"lazytime", IGNORE},
    {"nolazytime", IGNORE},

    /* mount(8), fstab, init */
    {"auto", IGNORE},
    {"noauto", IGNORE},
    {"nofail", IGNORE},
    {"_netdev", IGNORE},
    {"nouser", IGNORE},
    {"nousers", IGNORE},
    {"noowner", IGNORE},
    {"nogroup", IGNORE},
    {"nomand", IGNORE},
    {"loud", IGNORE},
    {"user=", IGNORE_V},
    {"uhelper=", IGNORE_V},
    {"helper=", IGNORE_V},
    {"comment=", IGNORE_V},
    {"x-", PREFIX},
    {"X-", PREFIX},

    /* what a mount has anyway; listed by the kernel, and handed back by a remount */
    {"allow_other", IGNORE},
    {"default_permissions", IGNORE},
    {"subtype=", IGNORE_V},
    {"user_id=", IGNORE_V},
    {"group_id=", IGNORE_V},
    {"max_read=", IGNORE_V},
    {"blksize=", IGNORE_V},

    {"context=", KERNEL},
    {"fscontext=", KERNEL},
    {"defcontext=", KERNEL},
    {"rootcontext=", KERNEL},
    {"seclabel", IGNORE},

    {"noacl", BOOL, .field = OFFSET(noacl)},
    {"acl", IGNORE},
    {"remount", BOOL, .field = OFFSET(remount)},
    {"nonempty", BOOL, .field = OFFSET(nonempty)},
    {"nosandbox", BOOL, .field = OFFSET(nosandbox)},
    {"silent", BOOL, .field = OFFSET(silent)},
    {"writeback", BOOL, .field = OFFSET(writeback)},
    {"fsname=", TEXT, .field = OFFSET(source)},
    {"flush=", TEXT, .field = OFFSET(flush)},
    {"transport=", TEXT, .field = OFFSET(transport)},
    {"threads=", NUMBER, 1, 1024, OFFSET(max_threads)},
    {"max_threads=", NUMBER, 1, 1024, OFFSET(max_threads)},
    {"poll_us=", NUMBER, 0, 1000, OFFSET(poll_us)},
    {"recovery_threads=", NUMBER, 1, 1024, OFFSET(recovery_threads)},
};

#define TABLE_SIZE (sizeof(table) / sizeof(table[0]))

void options_init(struct mount_options *o)
{
	memset(o, 0, sizeof(*o));
	o->flags = MS_NOATIME | SAFE_FLAGS;
	o->poll_us = OPTIONS_POLL_US;
}

void options_done(struct mount_options *o)
{
	free(o->source);
	free(o->flush);
	free(o->transport);
	free(o->kernel);
	options_init(o);
}

static bool option_takes_value(const struct option *opt)
{
	return opt->name[strlen(opt->name) - 1] == '=';
}

static const struct option *option_find(const char *word)
{
	for (size_t i = 0; i < TABLE_SIZE; i++) {
		const struct option *opt = &table[i];
		size_t n = strlen(opt->name);

		if (opt->kind == PREFIX || option_takes_value(opt)
			? strncmp(word, opt->name, n) == 0
			: strcmp(word, opt->name) == 0)
			return opt;
	}
	return NULL;
}

static int option_set_number(struct mount_options *o, const struct option *opt,
			     const char *word)
{
	const char *value = word + strlen(opt->name);
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(value, &end, 10);
	if (*value < '0' || *value > '9' || *end != '\0') {
		report(REPORT_ERROR, "option \"%s\" needs a number from %lu to %lu", word,
		       opt->set, opt->clear);
		return -EINVAL;
	}
	if (errno || n < opt->set || n > opt->clear) {
		report(REPORT_ERROR, "option \"%s\" is out of range: %lu to %lu", word,
		       opt->set, opt->clear);
		return -EINVAL;
	}
	*(unsigned *)((char *)o + opt->field) = n;
	return 0;
}

static int option_set_text(struct mount_options *o, const struct option *opt, const char *word)
{
	char **field = (char **)((char *)o + opt->field);
	char *value = strdup(word + strlen(opt->name));

	if (!value)
		return -ENOMEM;
	free(*field);
	*field = value;
	return 0;
}

static int option_add_kernel(struct mount_options *o, const char *word)
{
	char *all;

	if (asprintf(&all, "%s%s%s", o->kernel ? o->kernel : "", o->kernel ? "," : "", word) <
	    0)
		return -ENOMEM;
	free(o->kernel);
	o->kernel = all;
	return 0;
}

static int option_apply(struct mount_options *o, const char *word)
{
	const struct option *opt = option_find(word);

	if (!opt && o->sloppy && o->silent)
		return 0;
	if (!opt) {
		report(o->sloppy ? REPORT_WARNING : REPORT_ERROR, "unknown option \"%s\"%s",
		       word,
		       o->sloppy ? " passed over" : "; mount.pmemfs -h lists the options");
		return o->sloppy ? 0 : -EINVAL;
	}
	switch (opt->kind) {
	case FLAG:
		o->flags = (o->flags & ~opt->clear) | opt->set;
		o->named |= opt->clear | opt->set;
		return 0;
	case KERNEL:
		return option_add_kernel(o, word);
	case BOOL:
		*(bool *)((char *)o + opt->field) = true;
		return 0;
	case NUMBER:
		return option_set_number(o, opt, word);
	case TEXT:
		return option_set_text(o, opt, word);
	case IGNORE:
	case IGNORE_V:
	case PREFIX:
		break;
	}
	return 0;
}

/* Length of the first option of a list; commas inside double quotes do not end it. */
static size_t option_length(const char *list)
{
	bool quoted = false;
	size_t n = 0;

	for (; list[n] && (quoted || list[n] != ','); n++)
		if (list[n] == '"')
			quoted = !quoted;
	return n;
}

int options_parse(struct mount_options *o, const char *list)
{
	int r = 0;

	while (*list && r == 0) {
		size_t n = option_length(list);
		char *word = strndup(list, n);

		if (!word)
			return -ENOMEM;
		if (n > 0)
			r = option_apply(o, word);
		free(word);
		list += n + (list[n] == ',');
	}
	return r;
}

void options_flags_text(unsigned long flags, char *buf, unsigned size)
{
	snprintf(buf, size, "%s,%s,%s,%s,%s%s", flags & MS_RDONLY ? "ro" : "rw",
		 flags & MS_NOSUID ? "nosuid" : "suid", flags & MS_NODEV ? "nodev" : "dev",
		 flags & MS_NOEXEC ? "noexec" : "exec",
		 flags & MS_SYNCHRONOUS ? "sync" : "async",
		 flags & MS_NOATIME ? ",noatime" : "");
}
