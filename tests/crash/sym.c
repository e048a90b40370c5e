/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Symbols of the running program. Local symbols follow the STT_FILE symbol of their source; for
 * global ones the file is that of the local symbol nearest to them in the text.
 */
#include "sym.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct sym {
	uintptr_t start, end;
	const char *name, *file;
};

struct syms {
	uintptr_t bias;
	const uint8_t *map;
	size_t size;
	struct sym *v;
	size_t n;
};

static int find_bias(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(uintptr_t *)arg = info->dlpi_addr; /* the program itself comes first */
	return 1;
}

static int by_start(const void *x, const void *y)
{
	const struct sym *a = x, *b = y;
	return (a->start > b->start) - (a->start < b->start);
}

static void add_table(struct syms *s, const Elf64_Shdr *tab, const Elf64_Shdr *str)
{
	const Elf64_Sym *sym = (const void *)(s->map + tab->sh_offset);
	const char *names = (const char *)s->map + str->sh_offset, *file = "?";
	size_t n = tab->sh_size / sizeof(*sym);
	s->v = calloc(n + 1, sizeof(*s->v));
	if (!s->v)
		abort();
	for (size_t i = 0; i < n; i++) {
		unsigned type = ELF64_ST_TYPE(sym[i].st_info);
		if (type == STT_FILE)
			file = names + sym[i].st_name;
		if (type != STT_FUNC || sym[i].st_value == 0)
			continue;
		bool local = ELF64_ST_BIND(sym[i].st_info) == STB_LOCAL;
		s->v[s->n++] = (struct sym){
		    .start = sym[i].st_value,
		    .end = sym[i].st_value + sym[i].st_size,
		    .name = names + sym[i].st_name,
		    .file = local ? file : NULL,
		};
	}
	qsort(s->v, s->n, sizeof(*s->v), by_start);
	for (size_t i = 1; i < s->n; i++) {
		if (!s->v[i].file)
			s->v[i].file = s->v[i - 1].file;
	}
}

struct syms *sym_open(void)
{
	struct stat st;
	struct syms *s = calloc(1, sizeof(*s));
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (!s || fd < 0 || fstat(fd, &st))
		abort();
	s->size = (size_t)st.st_size;
	void *p = mmap(NULL, s->size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		abort();
	s->map = p;
	dl_iterate_phdr(find_bias, &s->bias);
	const Elf64_Ehdr *eh = p;
	const Elf64_Shdr *sh = (const void *)(s->map + eh->e_shoff);
	for (unsigned i = 0; i < eh->e_shnum; i++) {
		if (sh[i].sh_type == SHT_SYMTAB)
			add_table(s, &sh[i], &sh[sh[i].sh_link]);
	}
	if (s->n == 0) {
		sym_close(s);
		return NULL;
	}
	return s;
}

void sym_close(struct syms *s)
{
	if (!s)
		return;
	munmap((void *)(uintptr_t)s->map, s->size);
	free(s->v);
	free(s);
}

const char *sym_name(const struct syms *s, uintptr_t addr, const char **ret_file,
		     unsigned *ret_offset)
{
	size_t lo = 0, hi = s ? s->n : 0;
	addr -= s ? s->bias : 0;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (s->v[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0)
		return "?";
	if (ret_file)
		*ret_file = s->v[lo - 1].file ? s->v[lo - 1].file : "?";
	if (ret_offset)
		*ret_offset = (unsigned)(addr - s->v[lo - 1].start);
	return s->v[lo - 1].name;
}

bool sym_in_media(const struct syms *s, uintptr_t addr)
{
	const char *file = "?";
	sym_name(s, addr - 1, &file, NULL);
	return !strncmp(file, "media", 5) || !strncmp(file, "copy", 4);
}

const char *sym_stack(const struct syms *s, const uintptr_t *ret, unsigned n)
{
	static char buf[160];
	unsigned i = 0;
	while (i + 1 < n && sym_in_media(s, ret[i]))
		i++;
	const char *up = i + 1 < n ? sym_name(s, ret[i + 1] - 1, NULL, NULL) : "?";
	snprintf(buf, sizeof(buf), "%.70s for %.70s", sym_name(s, ret[i] - 1, NULL, NULL), up);
	return buf;
}

bool sym_line(const struct syms *s, uintptr_t addr, char *buf, size_t size)
{
	char cmd[128];
	/* A return address is behind the call. */
	snprintf(cmd, sizeof(cmd), "addr2line -s -e /proc/%d/exe %#lx 2>/dev/null", getpid(),
		 (unsigned long)(addr - s->bias - 1));
	FILE *f = popen(cmd, "r");
	if (!f)
		return false;
	bool ok = fgets(buf, (int)size, f) && !strchr(buf, '?');
	pclose(f);
	buf[strcspn(buf, "\n (")] = '\0';
	return ok;
}
