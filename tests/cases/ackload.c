/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of file k: 0 create it as f<k>, 1 write 3000 bytes, 2 append 9000 bytes, 3 overwrite
 * 5000 bytes at 1000, 4 chmod 0600, 5 rename it to g<k>, 6 truncate it to 4097 bytes, 7 link it
 * as h<k> (every even k) or unlink it (every odd k).
 *
 * Every byte of a file follows from k, the step that wrote it and its offset, so a mixed, stale
 * or zeroed range is seen. The kernel may hand over a write in pieces that end at page
 * boundaries: one that was cut off may have been carried out up to any of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ackload.h"

enum {
	STEPS = 8,
	FIRST = 3000,
	GROWN = 12000,
	OVER_AT = 1000,
	OVER = 5000,
	CUT = 4097,
	PAGE = 4096
};

struct state {
	bool exists;
	char name[32];
	char second[32]; /* another link, or empty */
	long size;
	long over_end; /* bytes [OVER_AT, over_end) are of step 3 */
	mode_t mode;
};

static unsigned char byte_at(long k, int step, long off)
{
	return (unsigned char)(k * 131 + step * 29 + off * 7 + off / 251);
}

/* What file k is when `done` of its steps were carried out. */
static struct state state_after(long k, int done)
{
	struct state s = {.exists = done > 0, .mode = done > 4 ? 0600 : 0644};
	bool odd = k % 2;

	snprintf(s.name, sizeof(s.name), "%c%ld", done > 5 ? 'g' : 'f', k);
	s.size = done > 6 ? CUT : done > 2 ? GROWN : done > 1 ? FIRST : 0;
	s.over_end = done > 3 ? OVER_AT + OVER : OVER_AT;
	if (done == STEPS && odd)
		s.exists = false;
	else if (done == STEPS)
		snprintf(s.second, sizeof(s.second), "h%ld", k);
	return s;
}

static int write_range(const char *name, long k, int step, long from, long len)
{
	unsigned char buf[GROWN];
	int fd = open(name, O_WRONLY);
	long done;

	if (fd < 0)
		return -1;
	for (long i = 0; i < len; i++)
		buf[i] = byte_at(k, step, from + i);
	done = pwrite(fd, buf, len, from);
	if (done >= 0 && done < len)
		errno = EIO; /* the daemon died between two pieces */
	close(fd);
	return done == len ? 0 : -1;
}

int ackload_step(long i)
{
	long k = i / STEPS;
	char f[32], g[32], h[32];
	int fd;

	snprintf(f, sizeof(f), "f%ld", k);
	snprintf(g, sizeof(g), "g%ld", k);
	snprintf(h, sizeof(h), "h%ld", k);
	switch (i % STEPS) {
	case 0:
		fd = open(f, O_CREAT | O_EXCL | O_WRONLY, 0644);
		return fd < 0 ? -1 : close(fd);
	case 1:
		return write_range(f, k, 1, 0, FIRST);
	case 2:
		return write_range(f, k, 2, FIRST, GROWN - FIRST);
	case 3:
		return write_range(f, k, 3, OVER_AT, OVER);
	case 4:
		return chmod(f, 0600);
	case 5:
		return rename(f, g);
	case 6:
		return truncate(g, CUT);
	default:
		return k % 2 ? unlink(g) : link(g, h);
	}
}

static bool content_is(const char *name, long k, const struct state *want)
{
	unsigned char buf[GROWN + 1];
	int fd = open(name, O_RDONLY);
	long n;

	if (fd < 0)
		return false;
	n = pread(fd, buf, sizeof(buf), 0);
	close(fd);
	if (n != want->size)
		return false;
	for (long i = 0; i < n; i++) {
		int step = i < FIRST ? 1 : 2;

		if (i >= OVER_AT && i < want->over_end)
			step = 3;
		if (buf[i] != byte_at(k, step, i))
			return false;
	}
	return true;
}

static bool file_is(long k, const struct state *want)
{
	static const char letters[] = "fgh";
	int links = 0;

	for (const char *c = letters; *c; c++) {
		char name[32];
		struct stat st;
		bool wanted;

		snprintf(name, sizeof(name), "%c%ld", *c, k);
		wanted =
		    want->exists && (!strcmp(name, want->name) || !strcmp(name, want->second));
		if (lstat(name, &st) < 0) {
			if (wanted || errno != ENOENT)
				return false;
			continue;
		}
		links++;
		if (!wanted || st.st_size != want->size || (st.st_mode & 07777) != want->mode ||
		    (long)st.st_nlink != (want->second[0] ? 2 : 1) ||
		    !content_is(name, k, want))
			return false;
	}
	return links == (want->exists ? (want->second[0] ? 2 : 1) : 0);
}

/* After `done` steps and a part of the next one, or all of it? */
static bool file_may_be(long k, int done)
{
	struct state s = state_after(k, done + 1);

	if (file_is(k, &s))
		return true;
	s = state_after(k, done);
	for (long cut = PAGE; cut < GROWN; cut += PAGE) {
		if (done == 2 && cut > FIRST)
			s.size = cut;
		else if (done == 3 && cut > OVER_AT && cut < OVER_AT + OVER)
			s.over_end = cut;
		if (file_is(k, &s))
			return true;
	}
	return false;
}

int ackload_verify(long last, char *why, size_t size)
{
	long files = (last + 1) / STEPS;

	for (long k = 0; k <= files + 1; k++) {
		long done = last + 1 - k * STEPS;
		struct state s;

		done = done < 0 ? 0 : done > STEPS ? STEPS : done;
		s = state_after(k, done);
		if (file_is(k, &s) || (k == files && file_may_be(k, done)))
			continue;
		snprintf(why, size, "file %ld is not what %ld steps of it leave", k, done);
		return -1;
	}
	return 0;
}
