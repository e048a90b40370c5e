/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads, stores, flushes and fences: the only code that writes to the medium.
 *
 * 1. A copy or clear is split once, here: whole lines, a partial line at the head, one at the
 *    tail. The kernel stores the whole lines; partial ones, which the processor has to read
 *    first and asks for at the very beginning, get cached stores of just their bytes and are
 *    written back at once. So one call never mixes cached and non-temporal stores in a line,
 *    never flushes a line twice, and leaves the bytes around it to whoever stores them next.
 * 2. Each line that was stored cached has been flushed when the call returns (store8: by the
 *    caller); the fence is all that is missing. With eADR there is no flush, but the fence.
 * 3. Bounds are checked before the first store. A store that is out of bounds, not allowed, or
 *    faults sets `failed`; nothing is stored after a refusal.
 * 4. The hook hears of each piece after it was stored, in the order of the stores.
 *
 * Locks: none; media_shadow.c has its own.
 */
#include "media_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "hash.h"
#include "xor.h"

/* What hooks are shown as the bytes of a clear. */
static const char zeros[4096] __attribute__((aligned(64)));

uint64_t media_size(const struct media *m)
{
	return m->size;
}

enum media_kind media_kind(const struct media *m)
{
	return m->kind;
}

const char *media_kind_name(enum media_kind kind)
{
	static const char *const names[] = {
	    [MEDIA_DEVDAX] = "devdax", [MEDIA_FSDAX] = "fsdax",	  [MEDIA_VOLATILE] = "volatile",
	    [MEDIA_FILE] = "file",     [MEDIA_MEMORY] = "memory",
	};

	return names[kind];
}

bool media_readonly(const struct media *m)
{
	return m->flags & MEDIA_READONLY;
}

bool media_shadowed(const struct media *m)
{
	return m->shadow;
}

bool media_eadr(const struct media *m)
{
	return m->eadr;
}

int media_fd(const struct media *m)
{
	return m->fd;
}

void media_set_eadr(struct media *m, bool eadr)
{
	m->eadr = eadr;
	m->flush = copy_best_flush(eadr);
	media_policy_reset(m);
}

void media_set_hook(struct media *m, media_hook hook, void *arg)
{
	m->hook = hook;
	m->hook_arg = arg;
}

void media_set_before(struct media *m, media_before fn, void *arg)
{
	m->before = fn;
	m->before_arg = arg;
	m->store_limit = 0;
}

/* ---- loads ---- */

int media_read(const struct media *m, uint64_t off, void *dst, size_t len)
{
	if (unlikely(!media_has(m, off, len)))
		return -ERANGE;
	if (unlikely(m->shadow))
		return media_shadow_read(m, off, dst, len);
	return guard_read(dst, m->base + off, len);
}

/* A range that lies partly in copies, in one piece. The caller frees it. */
static int read_shadowed(const struct media *m, uint64_t off, size_t len, void **ret)
{
	int r;

	*ret = malloc(len);
	if (!*ret)
		return -ENOMEM;
	r = media_shadow_read(m, off, *ret, len);
	if (r)
		free(*ret);
	return r;
}

static int hash_shadowed(const struct media *m, uint64_t off, size_t len, uint64_t seed,
			 uint64_t *ret)
{
	void *buf;
	int r = read_shadowed(m, off, len, &buf);

	if (r)
		return r;
	*ret = hash64(buf, len, seed);
	free(buf);
	return 0;
}

int media_hash(const struct media *m, uint64_t off, size_t len, uint64_t seed, uint64_t *ret)
{
	if (unlikely(!media_has(m, off, len)))
		return -ERANGE;
	if (unlikely(m->shadow && media_shadow_touches(m, off, len)))
		return hash_shadowed(m, off, len, seed, ret);
	return guard_hash(m->base + off, len, seed, ret);
}

static int xor_shadowed(const struct media *m, uint64_t off, void *dst, const void *src,
			size_t len)
{
	void *buf;
	int r = read_shadowed(m, off, len, &buf);

	if (r)
		return r;
	xor_into(dst, buf, src, len);
	free(buf);
	return 0;
}

int media_xor(const struct media *m, uint64_t off, void *dst, const void *src, size_t len)
{
	if (unlikely(!media_has(m, off, len)))
		return -ERANGE;
	if (unlikely(m->shadow && media_shadow_touches(m, off, len)))
		return xor_shadowed(m, off, dst, src, len);
	return guard_xor(dst, m->base + off, src, len);
}

const void *media_ptr(const struct media *m, uint64_t off, size_t len)
{
	if (!media_has(m, off, len) || (m->shadow && media_shadow_touches(m, off, len)))
		return NULL;
	return m->base + off;
}

/* ---- stores ---- */

/* Whether a store may go straight to the mapping; 0 < len. */
static inline bool may_store(const struct media *m, uint64_t off, uint64_t len)
{
	return likely(off <= m->store_limit && len <= m->store_limit - off);
}

/* Whether it may where may_store says no: somebody wants to be asked before. */
static bool ask_before(struct media *m, uint64_t off, size_t len)
{
	return m->before && media_has(m, off, len) && !m->before(m->before_arg, off, len);
}

static void set_failed(struct media *m)
{
	atomic_store_explicit(&m->failed, true, memory_order_relaxed);
}

/* A store that does not go to the mapping: to a copy, or nowhere. src NULL: zeros. */
static void store_aside(struct media *m, uint64_t off, const void *src, size_t len)
{
	struct media_slot *slot = media_slot_get(m);
	int r;

	if (!m->shadow || !media_has(m, off, len)) {
		set_failed(m);
		return;
	}
	r = src ? media_shadow_write(m, off, src, len) : media_shadow_clear(m, off, len);
	if (r)
		set_failed(m);
	media_slot_add(m, slot, &slot->bytes, len);
}

static void tell(struct media *m, enum media_event ev, uint64_t off, const void *bytes,
		 size_t len)
{
	m->hook(m->hook_arg, ev, off, bytes, len);
}

/* The pieces of a clear, as large as there are zeros to show. */
static void tell_stored(struct media *m, enum media_event ev, uint64_t off, const void *src,
			size_t len)
{
	if (src) {
		tell(m, ev, off, src, len);
		return;
	}
	for (size_t n; len; off += n, len -= n) {
		n = MIN(len, sizeof(zeros));
		tell(m, ev, off, zeros, n);
	}
}

/* A piece was stored cached and, unless caches are durable, written back. */
static void tell_cached(struct media *m, uint64_t off, const void *src, size_t len)
{
	tell_stored(m, MEDIA_EV_STORE, off, src, len);
	if (!m->eadr)
		tell(m, MEDIA_EV_FLUSH, off, NULL, len);
}

/* Part of one line. src NULL: zeros. 0 or -EIO. */
static int store_part(struct media *m, uint64_t off, const char *src, size_t len)
{
	char *dst = m->base + off;
	int r = src ? copy_bytes(dst, src, len) : copy_zeros(dst, len);

	r |= m->flush->flush(dst, 1);
	if (unlikely(m->hook))
		tell_cached(m, off, src, len);
	return r;
}

/* Whole lines. src NULL: zeros. 0 or -EIO. */
static int store_lines(struct media *m, const struct copy_kernel *k, uint64_t off,
		       const char *src, size_t len)
{
	char *dst = m->base + off;
	int r = src ? k->copy(dst, src, len / COPY_LINE) : k->clear(dst, len / COPY_LINE);

	if (likely(!m->hook))
		return r;
	if (k->nontemporal)
		tell_stored(m, MEDIA_EV_NT, off, src, len);
	else
		tell_cached(m, off, src, len);
	return r;
}

/* The flushcache copy and clear by kernel k. src NULL: zeros. 0 or -EIO. */
static inline int store_range(struct media *m, struct media_slot *slot,
			      const struct copy_kernel *k, uint64_t off, const char *src,
			      size_t len)
{
	size_t head = MIN(-off % COPY_LINE, len);
	size_t body = (len - head) / COPY_LINE * COPY_LINE;
	size_t tail = len - head - body;
	size_t parts = !!head + !!tail;
	int r = 0;

	if (head)
		copy_expect(m->base + off, 1);
	if (tail)
		copy_expect(m->base + off + head + body, 1);
	if (body)
		r |= store_lines(m, k, off + head, src ? src + head : NULL, body);
	if (head)
		r |= store_part(m, off, src, head);
	if (tail)
		r |= store_part(m, off + head + body, src ? src + head + body : NULL, tail);

	media_slot_add(m, slot, &slot->bytes, len);
	if (k->nontemporal)
		media_slot_add(m, slot, &slot->nt_lines, body / COPY_LINE);
	else
		parts += body / COPY_LINE;
	if (!m->eadr)
		media_slot_add(m, slot, &slot->flushes, parts);
	return r;
}

/* src NULL: zeros. */
static inline void store(struct media *m, uint64_t off, const char *src, size_t len)
{
	struct media_slot *slot;
	const struct copy_kernel *k;

	if (unlikely(!len))
		return;
	if (!may_store(m, off, len) && !ask_before(m, off, len)) {
		store_aside(m, off, src, len);
		return;
	}
	slot = media_slot_get(m);
	k = media_policy_choose(&m->policy, !src, len, media_writers(m, slot));
	if (unlikely(store_range(m, slot, k, off, src, len)))
		set_failed(m);
}

void media_copy(struct media *m, uint64_t off, const void *src, size_t len)
{
	store(m, off, src, len);
}

int media_copy_try(struct media *m, uint64_t off, const void *src, size_t len)
{
	if (!may_store(m, off, len) && !ask_before(m, off, len)) {
		if (!m->shadow || !media_has(m, off, len))
			return -EROFS;
		store_aside(m, off, src, len);
		return 0;
	}
	return store_range(m, media_slot_get(m), copy_best_nontemporal(), off, src, len);
}

void media_clear(struct media *m, uint64_t off, size_t len)
{
	store(m, off, NULL, len);
}

void media_expect_copy(struct media *m, uint64_t off, size_t len)
{
	/* The row that the copy will mostly have; a hint counts as no store. */
	const struct copy_kernel *k =
	    media_policy_choose(&m->policy, false, len, media_slot_get(m)->row);

	if (k->nontemporal || !may_store(m, off, len))
		return;
	copy_expect(m->base + off, DIV_UP(len, COPY_LINE));
}

int media_try(struct media *m, const struct copy_kernel *k, uint64_t off, const void *src,
	      size_t len)
{
	int r;

	if (!may_store(m, off, len))
		return -EROFS;
	r = store_range(m, media_slot_get(m), k, off, src, len);
	media_fence(m);
	return r;
}

void media_store8(struct media *m, uint64_t off, uint64_t value)
{
	struct media_slot *slot = media_slot_get(m);

	if (unlikely(off % sizeof(value))) {
		set_failed(m);
		return;
	}
	if (!may_store(m, off, sizeof(value)) && !ask_before(m, off, sizeof(value))) {
		store_aside(m, off, &value, sizeof(value));
		return;
	}
	if (unlikely(copy_store8(m->base + off, value)))
		set_failed(m);
	media_slot_add(m, slot, &slot->stores8, 1);
	media_slot_add(m, slot, &slot->bytes, sizeof(value));
	if (unlikely(m->hook))
		tell(m, MEDIA_EV_STORE8, off, &value, sizeof(value));
}

void media_flush(struct media *m, uint64_t off, size_t len)
{
	struct media_slot *slot = media_slot_get(m);
	uint64_t first = off / COPY_LINE * COPY_LINE;
	size_t lines;

	if (m->eadr || !len || !(may_store(m, off, len) || m->before))
		return;
	lines = (off + len - first + COPY_LINE - 1) / COPY_LINE;
	if (unlikely(m->flush->flush(m->base + first, lines)))
		set_failed(m);
	media_slot_add(m, slot, &slot->flushes, lines);
	if (unlikely(m->hook))
		tell(m, MEDIA_EV_FLUSH, off, NULL, len);
}

int media_fence(struct media *m)
{
	struct media_slot *slot = media_slot_get(m);

	copy_fence();
	if (m->policy.by_writers)
		atomic_store_explicit(&slot->storing, false, memory_order_relaxed);
	media_slot_add(m, slot, &slot->fences, 1);
	if (unlikely(m->hook))
		tell(m, MEDIA_EV_FENCE, 0, NULL, 0);
	return unlikely(atomic_load_explicit(&m->failed, memory_order_relaxed)) ? -EIO : 0;
}

int media_sync(struct media *m)
{
	if (m->kind != MEDIA_FILE || !(m->store_limit || m->before))
		return 0;
	return msync(m->base, m->size, MS_SYNC) ? -errno : 0;
}
