/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tracer. The hook runs in the storing thread after the store was made; threads that are
 * traced together are made to run one at a time by the explorer, so nothing here locks.
 */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

static __thread uint16_t thread_number;

void trace_set_thread(uint16_t n)
{
	thread_number = n;
}

void trace_open(struct trace *t, size_t image_size)
{
	memset(t, 0, sizeof(*t));
	t->size = image_size;
}

void trace_close(struct trace *t)
{
	free(t->ev);
	free(t->bytes);
	memset(t, 0, sizeof(*t));
}

void trace_clear(struct trace *t)
{
	t->n = 0;
	t->bytes_n = 0;
	t->held = false;
}

/* ---- stacks ------------------------------------------------------------------------------ */

void stacks_close(struct stacks *s)
{
	free(s->list);
	free(s->hash);
	memset(s, 0, sizeof(*s));
}

static uint32_t stack_hash(const struct stack *k)
{
	uint64_t h = k->type;
	for (uint32_t i = 0; i < k->n; i++)
		h = word_mix(h + k->ret[i]);
	return (uint32_t)h;
}

static void stacks_grow(struct stacks *s)
{
	s->cap = s->cap ? 2 * s->cap : 1024;
	s->hash_size = 4 * s->cap;
	s->list = realloc(s->list, s->cap * sizeof(*s->list));
	free(s->hash);
	s->hash = calloc(s->hash_size, sizeof(*s->hash));
	if (!s->list || !s->hash)
		abort();
	if (s->n == 0)
		s->n = 1;
	for (uint32_t i = 1; i < s->n; i++) {
		uint32_t at = stack_hash(&s->list[i]) % s->hash_size;
		while (s->hash[at])
			at = (at + 1) % s->hash_size;
		s->hash[at] = i;
	}
}

static bool stack_same(const struct stack *a, const struct stack *b)
{
	return a->type == b->type && a->n == b->n &&
	       memcmp(a->ret, b->ret, a->n * sizeof(a->ret[0])) == 0;
}

static uint32_t stacks_add(struct stacks *s, const struct stack *k)
{
	if (s->n + 1 >= s->cap)
		stacks_grow(s);
	uint32_t at = stack_hash(k) % s->hash_size;
	while (s->hash[at] && !stack_same(&s->list[s->hash[at]], k))
		at = (at + 1) % s->hash_size;
	if (!s->hash[at]) {
		s->hash[at] = s->n;
		s->list[s->n] = *k;
		s->list[s->n++].hits = 0;
	}
	s->list[s->hash[at]].hits++;
	return s->hash[at];
}

/* Walks the frame pointers: the build keeps them (-fno-omit-frame-pointer). */
static uint32_t stack_here(struct trace *t, enum media_event type, const uintptr_t *frame)
{
	struct stack k = {.type = type};
	while (k.n < STACK_MAX && (uintptr_t)frame < t->frame_top && frame[1]) {
		const uintptr_t *up = (const uintptr_t *)frame[0];
		k.ret[k.n++] = frame[1];
		if (up <= frame || (uintptr_t)up % sizeof(*up))
			break;
		frame = up;
	}
	return stacks_add(t->stacks, &k);
}

/* ---- events -------------------------------------------------------------------------------
 */

static struct event *event_add(struct trace *t)
{
	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 256;
		t->ev = realloc(t->ev, t->cap * sizeof(*t->ev));
		if (!t->ev)
			abort();
	}
	return &t->ev[t->n++];
}

static size_t bytes_add(struct trace *t, const void *bytes, size_t len)
{
	if (t->bytes_cap - t->bytes_n < len) {
		t->bytes_cap = 2 * (t->bytes_n + len) + 4096;
		t->bytes = realloc(t->bytes, t->bytes_cap);
		if (!t->bytes)
			abort();
	}
	memcpy(t->bytes + t->bytes_n, bytes, len);
	t->bytes_n += len;
	return t->bytes_n - len;
}

static bool stores(enum media_event type)
{
	return type == MEDIA_EV_STORE8 || type == MEDIA_EV_STORE || type == MEDIA_EV_NT;
}

static bool mutation_matches(const struct trace *t, const struct event *ev)
{
	const struct stack *k = &t->stacks->list[ev->site];
	if (t->mutation->type != ev->type || t->mutation->kind == MUT_NONE)
		return false;
	for (uint32_t i = 0; i < k->n; i++) {
		if (k->ret[i] == t->mutation->caller)
			return true;
	}
	return false;
}

/* The event was recorded last; takes it away, or keeps it for later. */
static void mutate(struct trace *t)
{
	struct event *ev = &t->ev[t->n - 1];
	if (t->held) {
		bool comes = t->late.type == MEDIA_EV_FENCE ? stores(ev->type)
							    : ev->type == MEDIA_EV_FENCE;
		if (!comes)
			return;
		*event_add(t) = t->late;
		t->held = false;
		t->mutation->fired++;
	} else if (mutation_matches(t, ev)) {
		t->held = t->mutation->kind == MUT_DELAY;
		t->late = *ev;
		t->mutation->fired += !t->held;
		t->n--;
	}
}

static void record(struct trace *t, enum media_event type, uint64_t off, const void *bytes,
		   size_t len, const uintptr_t *frame)
{
	if (stores(type) && t->touched)
		lineset_add(t->touched, off, len);
	if (stores(type) && t->reads)
		readset_note_write(t->reads, off, len);
	if (stores(type) && t->shadow)
		memcpy(t->shadow + off, bytes, len);
	if (!t->on)
		return;
	struct event *ev = event_add(t);
	*ev = (struct event){
	    .type = type,
	    .thread = thread_number,
	    .op = t->op,
	    .off = type == MEDIA_EV_FENCE ? 0 : off,
	    .len = type == MEDIA_EV_FENCE ? 0 : len,
	};
	if (t->stacks)
		ev->site = stack_here(t, type, frame);
	/* Until trace_seal the pointer is an offset: the arena moves when it grows. */
	if (stores(type))
		ev->bytes = (const uint8_t *)bytes_add(t, bytes, len);
	if (t->mutation)
		mutate(t);
}

void trace_hook(void *arg, enum media_event type, uint64_t off, const void *bytes, size_t len)
{
	struct trace *t = arg;
	if (type != MEDIA_EV_FENCE && (off > t->size || len > t->size - off)) {
		t->outside++;
		return;
	}
	if (t->gate)
		t->gate(t->step_arg);
	record(t, type, off, bytes, len, __builtin_frame_address(0));
	if (t->step)
		t->step(t->step_arg);
}

void trace_return(struct trace *t)
{
	struct event *ev = event_add(t);
	*ev = (struct event){.type = EVENT_RETURN, .thread = thread_number, .op = t->op};
}

void trace_seal(struct trace *t)
{
	if (t->held) /* nothing came after it */
		*event_add(t) = t->late;
	for (size_t i = 0; i < t->n; i++) {
		if (stores(t->ev[i].type))
			t->ev[i].bytes = t->bytes + (uintptr_t)t->ev[i].bytes;
	}
	t->held = false;
}

void trace_touch_hook(void *arg, enum media_event ev, uint64_t off, const void *bytes,
		      size_t len)
{
	(void)bytes;
	if (stores(ev))
		lineset_add(arg, off, len);
}

int64_t trace_find_untraced(const struct image *seen, const uint8_t *shadow)
{
	size_t max = seen->size / PAGE_BYTES;
	uint32_t *pages = malloc(max * sizeof(*pages));
	int64_t found = -1;
	if (!pages)
		abort();
	long n = image_written(seen, pages, max);
	for (long i = 0; i < (n < 0 ? (long)max : n) && found < 0; i++) {
		size_t at = (size_t)(n < 0 ? i : pages[i]) * PAGE_BYTES;
		if (memcmp(seen->mem + at, shadow + at, PAGE_BYTES) == 0)
			continue;
		size_t k = 0;
		while (seen->mem[at + k] == shadow[at + k])
			k++;
		found = (int64_t)(at + k);
	}
	free(pages);
	return found;
}
