/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A load whose every state is known from the number of operations done, to be interrupted at
 * any point: after operation `last` returned, exactly its effects must be there, and the one
 * after it may be there, whole, or not (a write also in part, up to a page boundary).
 *
 * Operation i belongs to file i / 8 and to step i % 8 of that file's life; see ackload.c. Both
 * functions work in the current directory.
 */
#ifndef ACKLOAD_H
#define ACKLOAD_H

#include <stddef.h>

/* Carries out operation i. 0, or -1 and errno. */
int ackload_step(long i);

/* 0 when the directory is what operations 0 to last leave, last + 1 whole or not at all; or -1
 * and in words what is wrong. */
int ackload_verify(long last, char *why, size_t size);

#endif
