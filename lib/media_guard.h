/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Surviving SIGBUS in the media layer; see media_guard.c.
 *
 * Two ways, because they cost differently. A store or flush instruction of ours is an asm goto
 * that carries a GUARD_FIXUP: nothing is spent until it faults, and then the thread goes on at
 * the label. Loads happen inside memcpy and XXH3, whose instructions are not ours: those run
 * under a saved jump target (guard_read, guard_hash).
 */
#ifndef PMEMFS_MEDIA_GUARD_H
#define PMEMFS_MEDIA_GUARD_H

#include <stddef.h>
#include <stdint.h>

/* One entry of the table of instructions that may fault; both are relative to themselves. */
struct guard_fixup {
	int32_t insn, resume;
};

/*
 * The text of an asm goto's instruction that may fault, with its fixup. Numeric label 771 may
 * be repeated; `label` must be among the goto labels.
 */
#define GUARD_FIXUP(insn, label)               \
	"771:\t" insn "\n"                     \
	"\t.pushsection pmemfs_fixup, \"a\"\n" \
	"\t.balign 4\n"                        \
	"\t.long 771b - .\n"                   \
	"\t.long %l[" #label "] - .\n"         \
	"\t.popsection\n"

struct guard_range;

/* Makes faults within [base, base + size) ours. NULL: no memory, or no signal handler. */
struct guard_range *guard_add(const void *base, uint64_t size);
/* No thread uses the range any more. NULL is allowed. */
void guard_remove(struct guard_range *range);

/* memcpy and hash64 from memory that may fault: 0 or -EIO. Leaves; any thread. */
int guard_read(void *dst, const void *src, size_t len);
int guard_hash(const void *src, size_t len, uint64_t seed, uint64_t *ret);
/* xor_into; dst is undefined after -EIO. */
int guard_xor(void *dst, const void *src, const void *more, size_t len);
/* fn(arg), foreign code that touches guarded memory and holds nothing: 0 or -EIO. */
int guard_run(void (*fn)(void *arg), void *arg);

#endif
