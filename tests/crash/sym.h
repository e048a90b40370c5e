/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of functions of the running program, from its own symbol table (static ones too). */
#ifndef CRASH_SYM_H
#define CRASH_SYM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct syms;
struct syms *sym_open(void); /* NULL: the program is stripped */
void sym_close(struct syms *s);
/* The function that the code address lies in, and the source file it comes from; "?" if none.
 */
const char *sym_name(const struct syms *s, uintptr_t addr, const char **ret_file,
		     unsigned *ret_offset);
/* Is the address in the media layer? */
bool sym_in_media(const struct syms *s, uintptr_t addr);
/* "journal_commit for commit_many": the functions above the media layer. A static string. */
const char *sym_stack(const struct syms *s, const uintptr_t *ret, unsigned n);
/* "file.c:123" by addr2line, if that is installed. */
bool sym_line(const struct syms *s, uintptr_t addr, char *buf, size_t size);

#endif
