/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the start images, the same ones in each process and run. */
#ifndef CRASH_STARTS_H
#define CRASH_STARTS_H

#include "trial.h"
#include "workload.h"

/* Fills all free space of what is formatted here; no operation ever writes this byte pair. */
#define STARTS_SECRET 0x5e

struct starts {
	struct start s[STARTS];
};
/* 0, or -1 with why in t->why. */
int starts_make(struct starts *st, struct trial *t);
void starts_free(struct starts *st);

#endif
