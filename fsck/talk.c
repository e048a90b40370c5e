/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What fsck.pmemfs says while it works.
 *
 * The bar is for people: only on a terminal, and only for a pass that takes over a second,
 * unless -C 0 asks for it. Another descriptor gets a line for each step, in e2fsck's format:
 * pass, done, total, device.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "talk.h"

#define BAR_WIDTH 40
#define BAR_AFTER 1000 /* ms */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void talk_init(struct talk *t, const struct fsck_options *o)
{
	*t = (struct talk){.o = o, .percent = -1};
	t->bar = isatty(STDOUT_FILENO) && o->progress_fd <= 0;
}

/* ---- progress ------------------------------------------------------------------------- */

static void bar_clear(struct talk *t)
{
	if (!t->bar_shown)
		return;
	fputs("\r\033[K", stdout);
	t->bar_shown = false;
}

static void bar_draw(struct talk *t, const char *what, int percent)
{
	int full = percent * BAR_WIDTH / 100;

	printf("\r%s: |", what);
	for (int k = 0; k < BAR_WIDTH; k++)
		putchar(k < full ? '=' : ' ');
	printf("| %3d%%", percent);
	fflush(stdout);
	t->bar_shown = true;
}

static void write_progress(struct talk *t, unsigned pass, uint64_t done, uint64_t total)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "%u %" PRIu64 " %" PRIu64 " %s\n", pass, done,
			 total, t->o->path);

	/* Nobody reads it: not our business. */
	if (n > 0 && (size_t)n < sizeof(line) && write(t->o->progress_fd, line, (size_t)n) < 0)
		return;
}

static void begin_pass(struct talk *t, unsigned pass, const char *what)
{
	bar_clear(t);
	t->pass = pass;
	t->percent = -1;
	t->pass_start = now_ms();
	if (t->o->fix != PMEMFS_FIX_SAFE)
		printf("Pass %u: checking %s\n", pass, what);
}

void talk_progress(void *arg, unsigned pass, const char *what, uint64_t done, uint64_t total)
{
	struct talk *t = arg;
	int percent = total ? (int)((double)done * 100 / (double)total) : 100;

	if (pass != t->pass)
		begin_pass(t, pass, what);
	if (percent == t->percent)
		return;
	t->percent = percent;
	if (t->o->progress_fd > 0)
		write_progress(t, pass, done, total);
	if (!t->bar || (t->o->progress_fd != 0 && now_ms() - t->pass_start < BAR_AFTER))
		return;
	if (percent >= 100)
		bar_clear(t);
	else
		bar_draw(t, what, percent);
}

void talk_done(struct talk *t)
{
	bar_clear(t);
	fflush(stdout);
}

/* ---- problems ------------------------------------------------------------------------- */

/* Reads an answer; enter is yes, the end of the terminal's input no. */
static bool ask(struct talk *t)
{
	char line[64];

	for (;;) {
		printf(" <yes/no/all>? ");
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin)) {
			puts("no");
			return false;
		}
		switch (tolower((unsigned char)line[0])) {
		case 'a':
			t->yes_to_all = true;
			/* fall through */
		case 'y':
		case '\n':
			return true;
		case 'n':
			return false;
		}
	}
}

bool talk_problem(void *arg, unsigned code, const char *message, bool fixable)
{
	struct talk *t = arg;
	bool yes = fixable && (t->o->fix == PMEMFS_FIX_ALL || t->o->fix == PMEMFS_FIX_SAFE ||
			       t->yes_to_all);

	bar_clear(t);
	if (t->o->fix == PMEMFS_FIX_SAFE)
		printf("%s: ", t->o->path);
	fputs(message, stdout);
	if (!fixable) {
		t->unsafe++;
		puts(t->o->fix == PMEMFS_FIX_SAFE ? "" : "  (Cannot be repaired yet.)");
		return false;
	}
	if (t->o->fix == PMEMFS_FIX_ASK && !yes)
		return ask(t);
	puts(yes ? "? yes" : "? no");
	return yes;
}
