/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mutation run: each flush and each fence of the library in turn is left out (or comes one
 * event late), and the suite must notice. And the golden table: what an operation costs.
 */
#ifndef CRASH_MUTATE_H
#define CRASH_MUTATE_H

#include "run.h"

/* Prints a row for each call site (of those whose names fit the regular expression only, unless
 * it is NULL) and the survivors; exit code 0, or 1 if there are new ones. */
int mutate_run(const struct run_options *o, double budget, const char *only);
/* Prints fences, flushes, lines and bytes of each word of the vocabulary. */
int mutate_golden(const struct run_options *o);

#endif
