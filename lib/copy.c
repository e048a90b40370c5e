/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The store kernels. A new one is a STORE macro, one KERNEL line and one row in copy_kernels;
 * policy, calibration, options and benchmarks go by that table.
 *
 * 1. Every instruction that touches the medium is an asm goto with a fixup, so that a fault
 *    ends the kernel with -EIO; the source is read by plain loads.
 * 2. A kernel stores each line whole and in address order, and a cached kernel writes a line
 *    back right after storing it, while it is in the nearest cache.
 * 3. clwb, clflushopt and clflush act on the line that holds the address.
 */
#include "copy.h"

#include <errno.h>
#include <immintrin.h>
#include <libpmem.h>
#include <string.h>

#include "cpu.h"
#include "media_guard.h"
#include "util.h"

#define STORE_INSN(insn, constraint, dst, value)          \
	__asm__ goto(GUARD_FIXUP(insn " %1, (%0)", fault) \
		     :                                    \
		     : "r"(dst), constraint(value)        \
		     : "memory"                           \
		     : fault)
#define LINE_INSN(insn, line) \
	__asm__ goto(GUARD_FIXUP(insn " (%0)", fault) : : "r"(line) : "memory" : fault)

/* One store of each width, non-temporal and cached. */
#define STORE_NT8(dst, v)  STORE_INSN("movnti", "r", dst, v)
#define STORE_NT16(dst, v) STORE_INSN("movntdq", "x", dst, v)
#define STORE_NT32(dst, v) STORE_INSN("vmovntdq", "x", dst, v)
#define STORE_NT64(dst, v) STORE_INSN("vmovntdq", "v", dst, v)
#define STORE_16(dst, v)   STORE_INSN("movdqa", "x", dst, v)
#define STORE_32(dst, v)   STORE_INSN("vmovdqa", "x", dst, v)
#define STORE_64(dst, v)   STORE_INSN("vmovdqa64", "v", dst, v)

#define LOAD_8(src)  load8(src)
#define LOAD_16(src) _mm_loadu_si128((const __m128i *)(src))
#define LOAD_32(src) _mm256_loadu_si256((const __m256i *)(src))
#define LOAD_64(src) _mm512_loadu_si512(src)

#define ZERO_8	0ull
#define ZERO_16 _mm_setzero_si128()
#define ZERO_32 _mm256_setzero_si256()
#define ZERO_64 _mm512_setzero_si512()

/*
 * Cached stores wait for their lines, which the processor asks for one by one as it retires the
 * stores. AHEAD asks for the first COPY_AHEAD at once and then keeps that distance: a line
 * takes half the time, a long copy too.
 */
#define FIRST_PLAIN(dst, lines) ((void)(lines))
#define NEXT_PLAIN(dst, lines)	((void)(lines))
#define FIRST_AHEAD(dst, lines) copy_expect(dst, lines)
#define NEXT_AHEAD(dst, lines)  \
	if (lines > COPY_AHEAD) \
	copy_expect(dst + COPY_AHEAD * COPY_LINE, 1)

#define FLUSH_NONE(line)       ((void)(line))
#define FLUSH_CLWB(line)       LINE_INSN("clwb", line)
#define FLUSH_CLFLUSHOPT(line) LINE_INSN("clflushopt", line)
#define FLUSH_CLFLUSH(line)    LINE_INSN("clflush", line)

static inline uint64_t load8(const void *src)
{
	uint64_t v;

	memcpy(&v, src, sizeof(v));
	return v;
}

/* One line in stores of each width; VALUE(at) is what goes to dst + at. */
#define LINE_64(STORE, VALUE) STORE(dst, VALUE(0))
#define LINE_32(STORE, VALUE) \
	STORE(dst, VALUE(0)); \
	STORE(dst + 32, VALUE(32))
#define LINE_16(STORE, VALUE)       \
	STORE(dst, VALUE(0));       \
	STORE(dst + 16, VALUE(16)); \
	STORE(dst + 32, VALUE(32)); \
	STORE(dst + 48, VALUE(48))
#define LINE_8(STORE, VALUE)        \
	STORE(dst, VALUE(0));       \
	STORE(dst + 8, VALUE(8));   \
	STORE(dst + 16, VALUE(16)); \
	STORE(dst + 24, VALUE(24)); \
	STORE(dst + 32, VALUE(32)); \
	STORE(dst + 40, VALUE(40)); \
	STORE(dst + 48, VALUE(48)); \
	STORE(dst + 56, VALUE(56))

#define VALUE_LOAD_8(at)  LOAD_8(src + (at))
#define VALUE_LOAD_16(at) LOAD_16(src + (at))
#define VALUE_LOAD_32(at) LOAD_32(src + (at))
#define VALUE_LOAD_64(at) LOAD_64(src + (at))
#define VALUE_ZERO(at)	  zero

#define TARGET_8
#define TARGET_16
#define TARGET_32 __attribute__((target("avx2")))
#define TARGET_64 __attribute__((target("avx512f")))

/* copy_<id> and clear_<id>: the one body of all kernels but movdir64b. */
#define KERNEL(id, width, how, STORE, FLUSH)                                          \
	TARGET_##width static int copy_##id(void *to, const void *from, size_t lines) \
	{                                                                             \
		const char *src = from;                                               \
		char *dst = to;                                                       \
                                                                                      \
		FIRST_##how(dst, lines);                                              \
		for (; lines; lines--, dst += COPY_LINE, src += COPY_LINE) {          \
			NEXT_##how(dst, lines);                                       \
			LINE_##width(STORE, VALUE_LOAD_##width);                      \
			FLUSH(dst);                                                   \
		}                                                                     \
		return 0;                                                             \
	fault:                                                                        \
		return -EIO;                                                          \
	}                                                                             \
	TARGET_##width static int clear_##id(void *to, size_t lines)                  \
	{                                                                             \
		__typeof__(ZERO_##width) zero = ZERO_##width;                         \
		char *dst = to;                                                       \
                                                                                      \
		FIRST_##how(dst, lines);                                              \
		for (; lines; lines--, dst += COPY_LINE) {                            \
			NEXT_##how(dst, lines);                                       \
			LINE_##width(STORE, VALUE_ZERO);                              \
			FLUSH(dst);                                                   \
		}                                                                     \
		return 0;                                                             \
	fault:                                                                        \
		return -EIO;                                                          \
	}

/* Cached kernels: each width with one way of writing back. */
#define KERNEL_CACHED(id, FLUSH)                    \
	KERNEL(id##_64, 64, AHEAD, STORE_64, FLUSH) \
	KERNEL(id##_32, 32, AHEAD, STORE_32, FLUSH) \
	KERNEL(id##_16, 16, AHEAD, STORE_16, FLUSH)

KERNEL(nt8, 8, PLAIN, STORE_NT8, FLUSH_NONE)
KERNEL(nt16, 16, PLAIN, STORE_NT16, FLUSH_NONE)
KERNEL(nt32, 32, PLAIN, STORE_NT32, FLUSH_NONE)
KERNEL(nt64, 64, PLAIN, STORE_NT64, FLUSH_NONE)
KERNEL_CACHED(clwb, FLUSH_CLWB)
KERNEL_CACHED(clflushopt, FLUSH_CLFLUSHOPT)
KERNEL_CACHED(clflush, FLUSH_CLFLUSH)
KERNEL_CACHED(cached, FLUSH_NONE)

/* movdir64b reads memory itself: a fault of the source outside the medium is not ours. */
#define MOVDIR64B(dst, src)                                   \
	__asm__ goto(GUARD_FIXUP("movdir64b (%1), %0", fault) \
		     :                                        \
		     : "r"(dst), "r"(src)                     \
		     : "memory"                               \
		     : fault)

static int copy_movdir64b(void *to, const void *from, size_t lines)
{
	const char *src = from;
	char *dst = to;

	for (; lines; lines--, dst += COPY_LINE, src += COPY_LINE)
		MOVDIR64B(dst, src);
	return 0;
fault:
	return -EIO;
}

static const char zero_line[COPY_LINE] __attribute__((aligned(COPY_LINE)));

static int clear_movdir64b(void *to, size_t lines)
{
	char *dst = to;

	for (; lines; lines--, dst += COPY_LINE)
		MOVDIR64B(dst, zero_line);
	return 0;
fault:
	return -EIO;
}

/* libpmem's own choice of instructions: not ours to guard one by one. */
struct pmem_call {
	void *dst;
	const void *src; /* NULL: zeros */
	size_t len;
};

static void call_pmem(void *arg)
{
	const struct pmem_call *c = arg;

	if (c->src)
		pmem_memcpy(c->dst, c->src, c->len, PMEM_F_MEM_NODRAIN);
	else
		pmem_memset(c->dst, 0, c->len, PMEM_F_MEM_NODRAIN);
}

static int copy_pmem(void *to, const void *from, size_t lines)
{
	struct pmem_call c = {to, from, lines * COPY_LINE};

	return guard_run(call_pmem, &c);
}

static int clear_pmem(void *to, size_t lines)
{
	struct pmem_call c = {to, NULL, lines * COPY_LINE};

	return guard_run(call_pmem, &c);
}

#define ROW_NT(number, name, needs, id)                                 \
	{                                                               \
		name, number, needs, true, false, copy_##id, clear_##id \
	}
#define ROW_CACHED(number, name, needs, id, eadr)                                             \
	{name, number, (needs) | CPU_AVX512F, false, eadr, copy_##id##_64, clear_##id##_64},  \
	    {name, number, (needs) | CPU_AVX2, false, eadr, copy_##id##_32, clear_##id##_32}, \
	{                                                                                     \
		name, number, needs, false, eadr, copy_##id##_16, clear_##id##_16             \
	}

/* The numbers are stored on media (FORMAT.md): a new kernel gets a new one. */
const struct copy_kernel copy_kernels[] = {
    ROW_NT(1, "movnti", 0, nt8),
    ROW_NT(2, "movnt128", 0, nt16),
    ROW_NT(3, "movnt256", CPU_AVX2, nt32),
    ROW_NT(4, "movnt512", CPU_AVX512F, nt64),
    ROW_NT(5, "movdir64b", CPU_MOVDIR64B, movdir64b),
    ROW_CACHED(6, "clwb", CPU_CLWB, clwb, false),
    ROW_CACHED(7, "clflushopt", CPU_CLFLUSHOPT, clflushopt, false),
    ROW_CACHED(8, "clflush", CPU_CLFLUSH, clflush, false),
    ROW_CACHED(9, "cached", 0, cached, true),
    {"libpmem", 10, 0, false, false, copy_pmem, clear_pmem},
    {NULL},
};

const struct copy_kernel *copy_find(const char *name)
{
	const struct copy_kernel *k;

	for (k = copy_kernels; k->name; k++)
		if (!strcmp(k->name, name) && !(k->needs & ~cpu_features()))
			return k;
	return NULL;
}

const struct copy_kernel *copy_by_number(unsigned number)
{
	const struct copy_kernel *k;

	for (k = copy_kernels; k->name; k++)
		if (k->number == number && !(k->needs & ~cpu_features()))
			return k;
	return NULL;
}

bool copy_known(const char *name)
{
	const struct copy_kernel *k;

	for (k = copy_kernels; k->name; k++)
		if (!strcmp(k->name, name))
			return true;
	return false;
}

/* The first of the names that this CPU has; the last is one that every x86-64 has. */
static const struct copy_kernel *find_first(const char *const *names)
{
	const struct copy_kernel *k;

	do
		k = copy_find(*names++);
	while (!k);
	return k;
}

const struct copy_kernel *copy_best_nontemporal(void)
{
	static const char *const names[] = {"movnt512", "movnt256", "movnt128"};

	return find_first(names);
}

const struct copy_kernel *copy_best_cached(bool eadr)
{
	static const char *const names[] = {"cached", "clwb", "clflushopt", "clflush"};

	return find_first(names + !eadr);
}

#define FLUSH_LINES(id, FLUSH)                                \
	static int flush_##id(const void *from, size_t lines) \
	{                                                     \
		const char *line = from;                      \
                                                              \
		for (; lines; lines--, line += COPY_LINE)     \
			FLUSH(line);                          \
		return 0;                                     \
	fault:                                                \
		return -EIO;                                  \
	}

FLUSH_LINES(clwb, FLUSH_CLWB)
FLUSH_LINES(clflushopt, FLUSH_CLFLUSHOPT)
FLUSH_LINES(clflush, FLUSH_CLFLUSH)

static int flush_none(const void *line, size_t lines)
{
	return 0;
}

const struct copy_flush copy_flushes[] = {
    {"clwb", CPU_CLWB, false, flush_clwb},
    {"clflushopt", CPU_CLFLUSHOPT, false, flush_clflushopt},
    {"clflush", 0, false, flush_clflush},
    {"none", 0, true, flush_none},
    {NULL},
};

const struct copy_flush *copy_best_flush(bool eadr)
{
	const struct copy_flush *f = copy_flushes;

	while (f->none != eadr || (f->needs & ~cpu_features()))
		f++;
	return f;
}

#define STORE_1(dst, v) STORE_INSN("movb", "q", dst, v)
#define STORE_2(dst, v) STORE_INSN("movw", "r", dst, v)
#define STORE_4(dst, v) STORE_INSN("movl", "r", dst, v)
#define STORE_8(dst, v) STORE_INSN("movq", "r", dst, v)

/* One store of that size if `when` holds. */
#define BYTES_STEP(size, type, when)   \
	if (when) {                    \
		type v;                \
                                       \
		memcpy(&v, src, size); \
		STORE_##size(dst, v);  \
		dst += size;           \
		src += size;           \
		len -= size;           \
	}

int copy_bytes(void *to, const void *from, size_t len)
{
	const char *src = from;
	char *dst = to;

	BYTES_STEP(1, uint8_t, ((uintptr_t)dst & 1) && len >= 1)
	BYTES_STEP(2, uint16_t, ((uintptr_t)dst & 2) && len >= 2)
	BYTES_STEP(4, uint32_t, ((uintptr_t)dst & 4) && len >= 4)
	while (len >= 8)
		BYTES_STEP(8, uint64_t, true)
	BYTES_STEP(4, uint32_t, len & 4)
	BYTES_STEP(2, uint16_t, len & 2)
	BYTES_STEP(1, uint8_t, len & 1)
	return 0;
fault:
	return -EIO;
}

int copy_zeros(void *to, size_t len)
{
	return copy_bytes(to, zero_line, len);
}

int copy_store8(void *to, uint64_t value)
{
	STORE_8(to, value);
	return 0;
fault:
	return -EIO;
}
