/* SPDX-License-Identifier: BSD-3-Clause */
/* What fsck.pmemfs says while it works: passes, progress, problems and questions. */
#ifndef PMEMFS_FSCK_TALK_H
#define PMEMFS_FSCK_TALK_H

#include "options.h"

struct talk {
	const struct fsck_options *o;
	bool bar;	/* on the terminal */
	bool bar_shown; /* stands on the current line */
	bool yes_to_all;
	unsigned pass;
	int percent;	    /* last one shown */
	int64_t pass_start; /* ms */
	uint64_t unsafe;    /* problems that -p leaves alone */
};

void talk_init(struct talk *t, const struct fsck_options *o);
/* For struct pmemfs_check_options; arg is the talk. */
bool talk_problem(void *arg, unsigned code, const char *message, bool fixable);
void talk_progress(void *arg, unsigned pass, const char *what, uint64_t done, uint64_t total);
void talk_done(struct talk *t);

#endif
