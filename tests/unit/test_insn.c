/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which instructions really run: the media layer is single-stepped, and each flush and each
 * non-temporal store is decoded from the bytes at the instruction pointer. So that a kernel is
 * what its name says, and that every line that was stored cached is written back, once, is seen
 * in the machine and not only in what the hook is told.
 */
#include "unit.h"

#include <signal.h>
#include <ucontext.h>

#include "copy.h"
#include "cpu.h"
#include "media.h"
#include "media_impl.h"

#define MEDIUM 8192
#define LINES  (MEDIUM / 64)

enum insn {
	OTHER,
	MOVNTI,
	MOVNT128,
	MOVNT256,
	MOVNT512,
	MOVDIR64B,
	CLWB,
	CLFLUSHOPT,
	CLFLUSH,
	SFENCE,
	INSNS
};

static unsigned char medium[MEDIUM] __attribute__((aligned(4096)));
static unsigned char source[MEDIUM];

static struct {
	unsigned long ran[INSNS];
	unsigned flushed[LINES]; /* how often */
	unsigned long elsewhere; /* flushes that hit no line of the medium */
} seen;

/* What the instruction at p is; for flushes also the register that holds the address. */
static enum insn decode(const unsigned char *p, unsigned *ret_reg)
{
	bool p66 = false;
	unsigned rex = 0;
	unsigned vex = p[0] == 0xc5 ? 2 : p[0] == 0xc4 ? 3 : 0; /* bytes before the opcode */

	if (vex)
		return p[vex] == 0xe7 && (p[vex - 1] & 4) && (vex == 2 || (p[1] & 31) == 1)
			   ? MOVNT256
			   : OTHER;
	if (p[0] == 0x62)
		return p[4] == 0xe7 && (p[3] & 0x60) == 0x40 ? MOVNT512 : OTHER;
	if (*p == 0x66)
		p66 = true, p++;
	if ((*p & 0xf0) == 0x40)
		rex = *p++;
	if (*p++ != 0x0f)
		return OTHER;
	if (p[0] == 0x38 && p[1] == 0xf8)
		return p66 ? MOVDIR64B : OTHER;
	if (p[0] == 0xc3)
		return MOVNTI;
	if (p[0] == 0xe7)
		return p66 ? MOVNT128 : OTHER;
	if (p[0] != 0xae)
		return OTHER;
	if (p[1] == 0xf8 && !p66)
		return SFENCE;
	*ret_reg = (p[1] & 7) | (rex & 1) << 3;
	switch (p[1] >> 3 & 7) {
	case 6:
		return p66 && p[1] < 0xc0 ? CLWB : OTHER;
	case 7:
		return p[1] >= 0xc0 ? OTHER : p66 ? CLFLUSHOPT : CLFLUSH;
	}
	return OTHER;
}

/* For test_words: words of the medium that are being replaced. */
static struct {
	const uint64_t *at;
	uint64_t old[16], new[16];
	size_t first, end; /* those that are watched */
	unsigned torn;
} words;

static void words_look(void)
{
	for (size_t i = words.first; i < words.end; i++)
		words.torn += words.at[i] != words.old[i] && words.at[i] != words.new[i];
}

static void step(int sig, siginfo_t *info, void *context)
{
	/* the registers in the order of their numbers in an instruction */
	static const int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
				    REG_RSI, REG_RDI, REG_R8,  REG_R9,	REG_R10, REG_R11,
				    REG_R12, REG_R13, REG_R14, REG_R15};
	const greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	unsigned reg = 0;
	enum insn insn = decode((const unsigned char *)(uintptr_t)regs[REG_RIP], &reg);

	words_look();
	seen.ran[insn]++;
	if (insn == CLWB || insn == CLFLUSHOPT || insn == CLFLUSH) {
		uintptr_t at = regs[order[reg]] - (uintptr_t)medium;

		if (at < MEDIUM)
			seen.flushed[at / 64]++;
		else
			seen.elsewhere++;
	}
}

/*
 * The trap flag makes every instruction in between end in step(). The stack pointer steps over
 * the red zone first.
 */
#define TRAP_FLAG(insn)                                               \
	__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; " insn      \
			 ", (%%rsp); popfq; lea 128(%%rsp), %%rsp" :: \
			     : "memory", "cc")
#define STEPPED(call)                           \
	do {                                    \
		memset(&seen, 0, sizeof(seen)); \
		TRAP_FLAG("orq $0x100");        \
		call;                           \
		TRAP_FLAG("andq $~0x100");      \
	} while (0)

static const struct {
	const char *name;
	enum insn insn;
	unsigned per_line;
} kernels[] = {
    {"movnti", MOVNTI, 8},	   {"movnt128", MOVNT128, 4},	{"movnt256", MOVNT256, 2},
    {"movnt512", MOVNT512, 1},	   {"movdir64b", MOVDIR64B, 1}, {"clwb", CLWB, 1},
    {"clflushopt", CLFLUSHOPT, 1}, {"clflush", CLFLUSH, 1},	{"cached", OTHER, 0},
};
#define KERNELS (sizeof(kernels) / sizeof(*kernels))

/* Nothing but `insn`, `n` times, and the flushes that partial lines need. */
static void expect_insns(enum insn insn, unsigned long n, enum insn flush,
			 unsigned long flushes)
{
	for (int i = MOVNTI; i < SFENCE; i++) {
		unsigned long expected =
		    (i == (int)insn ? n : 0) + (i == (int)flush ? flushes : 0);

		if (seen.ran[i] != expected)
			fail_msg("instruction %d ran %lu times instead of %lu", i, seen.ran[i],
				 expected);
	}
	assert_int_equal(seen.elsewhere, 0);
}

static enum insn flush_insn(void)
{
	unsigned has = cpu_features();

	return has & CPU_CLWB ? CLWB : has & CPU_CLFLUSHOPT ? CLFLUSHOPT : CLFLUSH;
}

/* Each row of the kernel table on whole lines. */
static void test_rows(void **state)
{
	const struct copy_kernel *k;

	for (k = copy_kernels; k->name; k++) {
		size_t i = 0;

		if ((k->needs & ~cpu_features()) || !strcmp(k->name, "libpmem"))
			continue; /* libpmem's instructions are its own business */
		while (strcmp(kernels[i].name, k->name))
			i++;
		STEPPED(k->copy(medium + 128, source, 7));
		expect_insns(kernels[i].insn, 7 * kernels[i].per_line, OTHER, 0);
		for (size_t line = 0; line < LINES; line++)
			assert_int_equal(seen.flushed[line],
					 kernels[i].insn >= CLWB && line >= 2 && line < 9);
		STEPPED(k->clear(medium + 128, 7));
		expect_insns(kernels[i].insn, 7 * kernels[i].per_line, OTHER, 0);
		for (size_t line = 0; line < LINES; line++)
			assert_int_equal(seen.flushed[line],
					 kernels[i].insn >= CLWB && line >= 2 && line < 9);
	}
}

/* What the hook is told about flushes, by line. */
static unsigned told[LINES];

static void hook(void *arg, enum media_event ev, uint64_t off, const void *bytes, size_t len)
{
	if (ev == MEDIA_EV_FLUSH)
		for (size_t line = off / 64; line <= (off + len - 1) / 64; line++)
			told[line]++;
}

static void check(const char *what, const struct copy_kernel *k, size_t off, size_t len)
{
	for (size_t line = 0; line < LINES; line++)
		if (told[line] != seen.flushed[line] || told[line] > 1)
			fail_msg("%s by %s: offset %zu, length %zu: line %zu was flushed %u "
				 "times, the hook was told %u",
				 what, k->name, off, len, line, seen.flushed[line], told[line]);
	memset(told, 0, sizeof(told));
}

static void calls(struct media *m, const struct copy_kernel *k, size_t off, size_t len)
{
	size_t head = MIN(-off % 64, len), body = (len - head) / 64;
	size_t parts = !!head + !!((len - head) % 64), i = 0;

	while (strcmp(kernels[i].name, k->name))
		i++;
	if (k->eadr_only)
		parts = 0;
	STEPPED(media_copy(m, off, source, len));
	check("copy", k, off, len);
	expect_insns(kernels[i].insn, body * kernels[i].per_line, flush_insn(), parts);
	STEPPED(media_clear(m, off, len));
	check("clear", k, off, len);
	expect_insns(kernels[i].insn, body * kernels[i].per_line, flush_insn(), parts);
	STEPPED(media_flush(m, off, len));
	check("flush", k, off, len);
	expect_insns(flush_insn(), k->eadr_only || !len ? 0 : (off % 64 + len + 63) / 64, OTHER,
		     0);
}

static void test_calls(void **state)
{
	static const size_t offs[] = {0, 63}, lens[] = {0, 1, 64, 200};

	for (size_t i = 0; i < KERNELS; i++) {
		const struct copy_kernel *k = copy_find(kernels[i].name);
		struct media *m;

		if (!k)
			continue;
		assert_int_equal(media_open_memory(medium, MEDIUM, 0, &m), 0);
		media_set_eadr(m, k->eadr_only);
		m->policy.small = m->policy.large = k;
		media_set_hook(m, hook, NULL);
		for (size_t o = 0; o < sizeof(offs) / sizeof(*offs); o++)
			for (size_t l = 0; l < sizeof(lens) / sizeof(*lens); l++)
				calls(m, k, 1024 + offs[o], lens[l]);
		media_close(m);
	}
}

/* Between any two instructions each aligned word that is stored whole is old or new. */
static void test_words(void **state)
{
	for (size_t off = 0; off < 8; off++)
		for (size_t len = 8; len < 64; len += 11) {
			uint64_t *at = (uint64_t *)(medium + 512);

			unit_fill(at, 128, len);
			memcpy(words.old, at, 128);
			memcpy(words.new, at, 128);
			memcpy((char *)words.new + off, source, len);
			words.torn = 0;
			words.at = at;
			words.first = DIV_UP(off, 8);
			words.end = (off + len) / 8;
			STEPPED(copy_bytes((char *)at + off, source, len));
			words.first = words.end = 0;
			assert_memory_equal(at, words.new, 128);
			if (words.torn)
				fail_msg("offset %zu, length %zu: a word was torn", off, len);
		}
}

/* A fence is one sfence, with eADR too. */
static void test_fence(void **state)
{
	for (int eadr = 0; eadr < 2; eadr++) {
		struct media *m;

		assert_int_equal(media_open_memory(medium, MEDIUM, 0, &m), 0);
		media_set_eadr(m, eadr);
		STEPPED(media_fence(m));
		assert_int_equal(seen.ran[SFENCE], 1);
		STEPPED(media_store8(m, 8, 1));
		assert_int_equal(seen.ran[SFENCE], 0);
		expect_insns(OTHER, 0, OTHER, 0);
		media_close(m);
	}
}

int main(void)
{
	const struct sigaction sa = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_rows),
	    cmocka_unit_test(test_calls),
	    cmocka_unit_test(test_words),
	    cmocka_unit_test(test_fence),
	};

	unit_fill(source, sizeof(source), 1);
	if (sigaction(SIGTRAP, &sa, NULL))
		return 1;
	return cmocka_run_group_tests_name("insn", tests, NULL, NULL);
}
