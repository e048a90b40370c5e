/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parity of file data: of each stripe of 32 blocks, one block is the exclusive or of what its
 * members physically hold. A member is a block that data was stored to since it last was
 * metadata, in use or free: freeing changes no content, so it costs nothing.
 *
 * Stripes that are being written have their parity in DRAM, so that many writes to neighbouring
 * blocks cost one store of it. While it is there the stripe's word on the medium says OPEN,
 * stored before the first data; after a crash those stripes are computed anew.
 *
 * Invariants:
 *  1. Nothing that is believed depends on parity: what is rebuilt must match the checksum in
 * the file's log. Parity that is wrong can fail to help, and nothing else.
 *  2. A stripe with members is durably OPEN before one of them changes: the one fence here, for
 *     a stripe, not for a store. So after a crash all others are right.
 *  3. The words on the medium hold the members of committed data, and no committed metadata: a
 *     word is stored before the data, or before the metadata is linked, and an operation has a
 *     fence between that and its record.
 *  4. A word loses OPEN only when the parity, and every store to members that it has seen, is
 *     known to be durable. To stay open costs nothing but time in recovery.
 *  5. Under the lock of a stripe's set, parity in DRAM (or, without, on the medium) is that of
 * the members, unless they rotted.
 *
 * Locks: parity_set.lock, a leaf, held while data is stored.
 */
#include <errno.h>

#include "fs.h"
#include "xor.h"

#define SETS	 16u
#define WAYS	 4u
#define MARKS	 4u  /* threads that store to a stripe while it is open; of more it stays so */
#define CLOSINGS 16u /* of a set */
#define NOBODY	 UINT64_MAX
#define LINE	 64u

/* Who stored what is to be durable before a word may lose OPEN. */
struct marks {
	unsigned n; /* more than MARKS: not all of them are known */
	struct media_mark of[MARKS];
};

/* An open stripe. */
struct parity_slot {
	uint64_t stripe; /* NOBODY: free */
	uint64_t used;	 /* the set's clock then */
	uint32_t members;
	uint64_t
	    said; /* members in the word on the medium, which says OPEN; NOBODY: it does not */
	uint32_t broken; /* whose old content is not known: bytes are to be computed */
	struct marks marks;
	uint8_t bytes[PMEMFS_BLOCK_SIZE] __attribute__((aligned(64)));
};

/* A stripe whose parity was stored and whose word still says OPEN. */
struct closing {
	uint64_t stripe;
	uint32_t members;
	struct marks marks;
};

struct parity_set {
	pthread_mutex_t lock;
	uint64_t clock;
	struct parity_slot slot[WAYS];
	struct closing closing[CLOSINGS];
	unsigned closings;
} __attribute__((aligned(64)));

struct parity {
	uint64_t words, blocks; /* byte offsets */
	uint64_t stripes;
	_Atomic uint64_t *marked; /* a bit for each stripe */
	struct parity_set set[SETS];
};

void parity_init(struct pmemfs *fs)
{
	uint64_t n = super_parity_blocks(&fs->sb);
	struct parity *p;

	if (!n)
		return;
	p = aligned_alloc(_Alignof(struct parity), sizeof(*p));
	if (!p)
		abort();
	memset(p, 0, sizeof(*p));
	p->stripes = DIV_UP(fs->blocks, PMEMFS_STRIPE);
	p->marked = xcalloc(p->stripes / 64 + 1, sizeof(p->marked[0]));
	p->words = super_parity_start(&fs->sb) * PMEMFS_BLOCK_SIZE;
	p->blocks = p->words + (n - p->stripes) * PMEMFS_BLOCK_SIZE;
	for (unsigned k = 0; k < SETS; k++) {
		short_mutex_init(&p->set[k].lock);
		for (unsigned w = 0; w < WAYS; w++)
			p->set[k].slot[w].stripe = NOBODY;
	}
	fs->parity = p;
}

void parity_done(struct pmemfs *fs)
{
	if (!fs->parity)
		return;
	for (unsigned k = 0; k < SETS; k++)
		pthread_mutex_destroy(&fs->parity->set[k].lock);
	free(fs->parity->marked);
	free(fs->parity);
	fs->parity = NULL;
}

void parity_mark(struct pmemfs *fs, uint64_t stripe, bool is)
{
	_Atomic uint64_t *word = &fs->parity->marked[stripe / 64];

	if (is)
		atomic_fetch_or(word, 1ull << stripe % 64);
	else
		atomic_fetch_and(word, ~(1ull << stripe % 64));
}

bool parity_is_marked(const struct pmemfs *fs, uint64_t stripe)
{
	return atomic_load(&fs->parity->marked[stripe / 64]) >> stripe % 64 & 1;
}

uint64_t parity_stripes(const struct pmemfs *fs)
{
	return fs->parity ? fs->parity->stripes : 0;
}

static struct parity_set *lock_set(struct pmemfs *fs, uint64_t stripe)
{
	struct parity_set *set = &fs->parity->set[stripe % SETS];

	pthread_mutex_lock(&set->lock);
	return set;
}

static void unlock_set(struct parity_set *set)
{
	pthread_mutex_unlock(&set->lock);
}

/* ---- on the medium ---- */

static uint64_t word_off(const struct pmemfs *fs, uint64_t stripe)
{
	return fs->parity->words + stripe * 8;
}

static uint64_t parity_off(const struct pmemfs *fs, uint64_t stripe)
{
	return fs->parity->blocks + stripe * PMEMFS_BLOCK_SIZE;
}

static uint64_t block_off(uint64_t stripe, unsigned k)
{
	return (stripe * PMEMFS_STRIPE + k) * PMEMFS_BLOCK_SIZE;
}

static uint64_t word_make(const struct pmemfs *fs, uint64_t stripe, uint32_t members,
			  unsigned state)
{
	uint64_t word = (uint64_t)members << PMEMFS_PARITY_SET_SHIFT |
			(uint64_t)state << PMEMFS_PARITY_STATE_SHIFT;
	le64 bytes = put64(word);

	return word |
	       (hash64(&bytes, sizeof(bytes), data_seed(fs, stripe)) & PMEMFS_PARITY_TAG_MASK);
}

/* The blocks of the stripe that are on the device. */
static uint32_t possible(const struct pmemfs *fs, uint64_t stripe)
{
	uint64_t left = fs->blocks - stripe * PMEMFS_STRIPE;

	return left < PMEMFS_STRIPE ? (1u << left) - 1 : UINT32_MAX;
}

/* One that is damaged, or was never written, has no members. */
static void word_check(const struct pmemfs *fs, uint64_t stripe, le64 raw,
		       uint32_t *ret_members, unsigned *ret_state)
{
	uint64_t word = get64(raw);
	unsigned state = word >> PMEMFS_PARITY_STATE_SHIFT & 0xff;
	uint32_t members = word >> PMEMFS_PARITY_SET_SHIFT;
	bool valid = word == word_make(fs, stripe, members, state) &&
		     state <= PMEMFS_PARITY_OPEN && !(members & ~possible(fs, stripe));

	*ret_members = valid ? members : 0;
	*ret_state = valid ? state : 0;
}

static int word_read(const struct pmemfs *fs, uint64_t stripe, uint32_t *ret_members,
		     unsigned *ret_state)
{
	le64 raw;
	int err = media_read(fs->media, word_off(fs, stripe), &raw, sizeof(raw));

	if (!err)
		word_check(fs, stripe, raw, ret_members, ret_state);
	return err;
}

static void word_store(struct pmemfs *fs, uint64_t stripe, uint32_t members, unsigned state)
{
	media_store8(fs->media, word_off(fs, stripe), word_make(fs, stripe, members, state));
	media_flush(fs->media, word_off(fs, stripe), 8);
}

/* ---- exclusive or ---- */

/* With what stands on the medium. -EIO: it cannot be read, and dst is as it was. */
static int xor_medium(const struct pmemfs *fs, uint8_t *dst, uint64_t off, size_t len)
{
	uint8_t bytes[PMEMFS_BLOCK_SIZE] __attribute__((aligned(64)));
	int err = media_read(fs->media, off, bytes, len);

	if (!err)
		xor_into(dst, bytes, NULL, len);
	return err;
}

/* With bytes [from, from + len) of these members. Returns those that cannot be read. */
static uint32_t xor_members(const struct pmemfs *fs, uint64_t stripe, uint32_t members,
			    uint8_t *dst, uint32_t from, uint32_t len)
{
	uint32_t lost = 0;

	for (unsigned k = 0; k < PMEMFS_STRIPE; k++)
		if (members >> k & 1 && xor_medium(fs, dst, block_off(stripe, k) + from, len))
			lost |= 1u << k;
	return lost;
}

/* ---- open stripes; all under the set's lock ---- */

static void mark_add(struct marks *m, const struct pmemfs *fs)
{
	struct media_mark mark = media_mark(fs->media);

	for (unsigned k = 0; k < MIN(m->n, MARKS); k++)
		if (m->of[k].thread == mark.thread) {
			m->of[k] = mark;
			return;
		}
	if (m->n < MARKS)
		m->of[m->n] = mark;
	m->n = MIN(m->n + 1, MARKS + 1);
}

static bool marks_are_fenced(const struct marks *m)
{
	for (unsigned k = 0; k < MIN(m->n, MARKS); k++)
		if (!media_mark_is_fenced(m->of[k]))
			return false;
	return m->n <= MARKS;
}

/* Words lose OPEN where nothing is on its way any more. */
static void close_settled(struct pmemfs *fs, struct parity_set *set)
{
	for (unsigned k = set->closings; k--;) {
		struct closing *c = &set->closing[k];

		if (!marks_are_fenced(&c->marks))
			continue;
		word_store(fs, c->stripe, c->members, 0);
		*c = set->closing[--set->closings];
	}
}

/* Whoever opens it again has it closed again. */
static void close_cancel(struct parity_set *set, uint64_t stripe)
{
	for (unsigned k = set->closings; k--;)
		if (set->closing[k].stripe == stripe)
			set->closing[k] = set->closing[--set->closings];
}

static void write_back(struct pmemfs *fs, struct parity_set *set, struct parity_slot *s)
{
	if (media_copy_try(fs->media, parity_off(fs, s->stripe), s->bytes, sizeof(s->bytes)))
		s->members = 0; /* the parity block takes no stores: the stripe has none */
	mark_add(&s->marks, fs);
	close_settled(fs, set);
	if (set->closings < CLOSINGS && s->marks.n <= MARKS)
		set->closing[set->closings++] =
		    (struct closing){s->stripe, s->members, s->marks};
	else if (!s->members)
		word_store(fs, s->stripe, 0, 0);
	s->stripe = NOBODY;
}

static struct parity_slot *find_slot(struct parity_set *set, uint64_t stripe)
{
	for (unsigned w = 0; w < WAYS; w++)
		if (set->slot[w].stripe == stripe)
			return &set->slot[w];
	return NULL;
}

static struct parity_slot *oldest_slot(struct parity_set *set)
{
	struct parity_slot *s = &set->slot[0];

	for (unsigned w = 1; w < WAYS && s->stripe != NOBODY; w++)
		if (set->slot[w].stripe == NOBODY || set->slot[w].used < s->used)
			s = &set->slot[w];
	return s;
}

/* Parity of what can be read of the members; the others are none any more. */
static void compute(const struct pmemfs *fs, struct parity_slot *s)
{
	memset(s->bytes, 0, sizeof(s->bytes));
	s->members &= ~xor_members(fs, s->stripe, s->members, s->bytes, 0, PMEMFS_BLOCK_SIZE);
}

/* The blocks that bytes [off, off + len) of the stripe cover as a whole. */
static uint32_t whole_blocks(uint64_t off, uint64_t len)
{
	unsigned first = DIV_UP(off, PMEMFS_BLOCK_SIZE), end = (off + len) / PMEMFS_BLOCK_SIZE;

	return first < end ? (uint32_t)(((1ull << (end - first)) - 1) << first) : 0;
}

/* The word on the medium is that of the slot. */
static void say_open(struct pmemfs *fs, struct parity_slot *s)
{
	if (s->said == s->members)
		return;
	word_store(fs, s->stripe, s->members, PMEMFS_PARITY_OPEN);
	s->said = s->members;
}

/*
 * After a change, with all data stored; src is that at byte `at` of the stripe. What could not
 * be read before may not be readable now: what it should hold is in src, or is lost.
 */
static void settle(struct pmemfs *fs, struct parity_slot *s, uint64_t at, const uint8_t *src,
		   uint64_t len)
{
	if (unlikely(s->broken)) {
		uint32_t known = s->broken & whole_blocks(at, len);

		s->members &= ~s->broken;
		compute(fs, s);
		for (unsigned k = 0; k < PMEMFS_STRIPE; k++)
			if (known >> k & 1)
				xor_into(s->bytes, src + (k * PMEMFS_BLOCK_SIZE - at), NULL,
					 PMEMFS_BLOCK_SIZE);
		s->members |= known;
		s->broken = 0;
	}
	say_open(fs, s);
	mark_add(&s->marks, fs);
}

/* What the blocks `over` hold is going to be stored over. */
static void load(const struct pmemfs *fs, struct parity_slot *s, uint32_t over)
{
	if (!(s->members & ~over)) { /* nothing to read */
		s->members = 0;
		memset(s->bytes, 0, sizeof(s->bytes));
	} else if (media_read(fs->media, parity_off(fs, s->stripe), s->bytes,
			      sizeof(s->bytes))) {
		compute(fs, s);
	}
}

/*
 * Before a member changes its stripe is durably OPEN. One without members claims nothing: there
 * the fence of the operation does, for until then no record needs what it claims.
 */
static int begin(struct pmemfs *fs, struct parity_slot *s)
{
	unsigned state;
	int err = word_read(fs, s->stripe, &s->members, &state);

	s->said = NOBODY;
	s->broken = 0;
	s->marks.n = 0;
	if (err || !s->members)
		return err;
	if (state != PMEMFS_PARITY_OPEN) {
		word_store(fs, s->stripe, s->members, PMEMFS_PARITY_OPEN);
		media_fence(fs->media);
	}
	s->said = s->members;
	return 0;
}

/*
 * The stripe's slot, whose blocks `over` are going to be stored to as a whole. NULL: its word
 * cannot be read, it has no parity.
 */
static struct parity_slot *open_slot(struct pmemfs *fs, struct parity_set *set, uint64_t stripe,
				     uint32_t over)
{
	struct parity_slot *s = find_slot(set, stripe);

	if (!s) {
		s = oldest_slot(set);
		if (s->stripe != NOBODY)
			write_back(fs, set, s);
		close_cancel(set, stripe);
		s->stripe = stripe;
		if (begin(fs, s)) {
			s->stripe = NOBODY;
			return NULL;
		}
		load(fs, s, over);
	} else if (!(s->members & ~over)) {
		load(fs, s, over);
	}
	s->used = ++set->clock;
	return s;
}

/* The block's content is that of a member, or of none, from now on. */
static void toggle(const struct pmemfs *fs, struct parity_slot *s, unsigned k)
{
	uint64_t off = block_off(s->stripe, k);
	uint32_t bit = 1u << k;

	if (!xor_medium(fs, s->bytes, off, PMEMFS_BLOCK_SIZE)) {
		s->members ^= bit;
	} else if (s->members & bit) {
		s->broken |= bit;
	} /* else: what cannot be read does not become a member */
}

/* Bytes [from, from + len) of block k are about to become src. */
static void note_change(const struct pmemfs *fs, struct parity_slot *s, unsigned k,
			uint32_t from, const uint8_t *src, uint32_t len)
{
	uint32_t bit = 1u << k;

	if (!(s->members & bit) && len < PMEMFS_BLOCK_SIZE) {
		toggle(fs, s, k);
		if (!(s->members & bit))
			return; /* the rest of it cannot be read */
	}
	if (!(s->members & bit))
		xor_into(s->bytes + from, src, NULL, len);
	else if (media_xor(fs->media, block_off(s->stripe, k) + from, s->bytes + from, src,
			   len))
		s->broken |= bit;
	s->members |= bit;
}

/* Bytes [off, off + len) of the stripe. */
static void note_store(struct pmemfs *fs, struct parity_slot *s, uint64_t off,
		       const uint8_t *src, uint64_t len)
{
	while (len) {
		uint32_t from = off % PMEMFS_BLOCK_SIZE;
		uint32_t part = MIN(len, PMEMFS_BLOCK_SIZE - from);

		note_change(fs, s, off / PMEMFS_BLOCK_SIZE, from, src, part);
		off += part;
		src += part;
		len -= part;
	}
	say_open(fs, s);
}

void parity_copy(struct pmemfs *fs, uint64_t off, const void *src, size_t len)
{
	const uint64_t size = (uint64_t)PMEMFS_STRIPE * PMEMFS_BLOCK_SIZE;
	const uint8_t *from = src;

	if (!fs->parity) {
		media_copy(fs->media, off, src, len);
		return;
	}
	while (len) {
		uint64_t at = off % size, part = MIN(len, size - at);
		struct parity_set *set = lock_set(fs, off / size);
		struct parity_slot *s = open_slot(fs, set, off / size, whole_blocks(at, part));

		if (s)
			note_store(fs, s, at, from, part);
		media_copy(fs->media, off, from, part);
		if (s)
			settle(fs, s, at, from, part);
		unlock_set(set);
		off += part;
		from += part;
		len -= part;
	}
}

/* ---- members ---- */

/* The part of the blocks [*block, *block + *n) in the first one's stripe; they go on behind. */
static uint32_t take_stripe(uint64_t *block, uint64_t *n, uint64_t *ret_stripe)
{
	unsigned first = *block % PMEMFS_STRIPE, len = MIN(*n, PMEMFS_STRIPE - first);

	*ret_stripe = *block / PMEMFS_STRIPE;
	*block += len;
	*n -= len;
	return (uint32_t)(((1ull << len) - 1) << first);
}

/* Under the lock. */
static int members_of(const struct pmemfs *fs, struct parity_set *set, uint64_t stripe,
		      uint32_t *ret)
{
	const struct parity_slot *s = find_slot(set, stripe);
	unsigned state;

	if (!s)
		return word_read(fs, stripe, ret, &state);
	*ret = s->members;
	return 0;
}

/* Members among the blocks `which` leave (or others join). Returns how many did. */
static unsigned change_members(struct pmemfs *fs, uint64_t stripe, uint32_t which, bool in)
{
	struct parity_set *set = lock_set(fs, stripe);
	struct parity_slot *s = NULL;
	uint32_t now, change = 0;

	if (!members_of(fs, set, stripe, &now))
		change = which & (in ? ~now : now);
	if (change)
		s = open_slot(fs, set, stripe, 0);
	if (s) {
		for (unsigned k = 0; k < PMEMFS_STRIPE; k++)
			if (change >> k & 1 && in == !(s->members >> k & 1))
				toggle(fs, s, k);
		settle(fs, s, 0, NULL, 0);
	}
	unlock_set(set);
	return s ? (unsigned)__builtin_popcount(change) : 0;
}

void parity_forget(struct pmemfs *fs, uint64_t block, uint64_t n)
{
	uint64_t stripe;

	while (fs->parity && n) {
		uint32_t which = take_stripe(&block, &n, &stripe);

		change_members(fs, stripe, which, false);
	}
}

void parity_adopt(struct pmemfs *fs, uint64_t block, uint64_t n, uint64_t *ret_adopted)
{
	uint64_t stripe, adopted = 0;

	while (fs->parity && n) {
		uint32_t which = take_stripe(&block, &n, &stripe);

		adopted += change_members(fs, stripe, which, true);
	}
	if (ret_adopted)
		*ret_adopted = adopted;
}

bool parity_covers(struct pmemfs *fs, uint64_t block, uint64_t n)
{
	bool all = true;

	while (fs->parity && n && all) {
		uint64_t stripe;
		uint32_t now = 0, which = take_stripe(&block, &n, &stripe);
		struct parity_set *set = lock_set(fs, stripe);

		members_of(fs, set, stripe, &now);
		all = !(which & ~now);
		unlock_set(set);
	}
	return all;
}

/* ---- rebuilding ---- */

/* Parity of bytes [from, from + len). Under the lock. */
static int read_parity(const struct pmemfs *fs, struct parity_set *set, uint64_t stripe,
		       uint8_t *dst, uint32_t from, uint32_t len)
{
	const struct parity_slot *s = find_slot(set, stripe);

	if (!s)
		return media_read(fs->media, parity_off(fs, stripe) + from, dst, len);
	memcpy(dst, s->bytes + from, len);
	return 0;
}

/* What the others say of bytes [from, from + len) of block k. Under the lock. */
static int others_say(const struct pmemfs *fs, struct parity_set *set, uint64_t stripe,
		      unsigned k, uint32_t members, uint8_t *dst, uint32_t from, uint32_t len)
{
	int err = read_parity(fs, set, stripe, dst, from, len);

	if (!err && xor_members(fs, stripe, members & ~(1u << k), dst, from, len))
		err = -EIO;
	return err;
}

/* lines: only what of the block cannot be read is rebuilt. */
static int rebuild(struct pmemfs *fs, uint64_t block, bool lines, uint8_t *ret)
{
	uint64_t stripe = block / PMEMFS_STRIPE;
	unsigned k = block % PMEMFS_STRIPE;
	struct parity_set *set = lock_set(fs, stripe);
	uint32_t members, step = lines ? LINE : PMEMFS_BLOCK_SIZE;
	int err = members_of(fs, set, stripe, &members);

	if (!err && !(members >> k & 1))
		err = -EIO;
	for (uint32_t at = 0; at < PMEMFS_BLOCK_SIZE && !err; at += step)
		if (!lines ||
		    media_read(fs->media, block * PMEMFS_BLOCK_SIZE + at, ret + at, LINE))
			err = others_say(fs, set, stripe, k, members, ret + at, at, step);
	unlock_set(set);
	return err;
}

int parity_rebuild(struct pmemfs *fs, uint64_t block, parity_judge judge, void *arg, void *ret)
{
	if (!fs->parity)
		return -EIO;
	if (!rebuild(fs, block, true, ret) && judge(arg, ret))
		return 0;
	return !rebuild(fs, block, false, ret) && judge(arg, ret) ? 0 : -EIO;
}

/* ---- as a whole ---- */

static bool is_zero(const uint8_t *p, size_t len)
{
	return !p[0] && !memcmp(p, p + 1, len - 1);
}

int parity_check(struct pmemfs *fs, uint64_t stripe)
{
	uint8_t sum[PMEMFS_BLOCK_SIZE] __attribute__((aligned(64)));
	struct parity_set *set = lock_set(fs, stripe);
	uint32_t members = 0;
	int err = members_of(fs, set, stripe, &members) ? 1 : 0;

	if (members && read_parity(fs, set, stripe, sum, 0, sizeof(sum)))
		err = 1;
	if (members && !err)
		err = xor_members(fs, stripe, members, sum, 0, sizeof(sum)) ? -EIO
		      : is_zero(sum, sizeof(sum))			    ? 0
									    : 1;
	unlock_set(set);
	return err;
}

int parity_remake(struct pmemfs *fs, uint64_t stripe)
{
	struct parity_set *set = lock_set(fs, stripe);
	struct parity_slot *s = open_slot(fs, set, stripe, 0);
	int err = s ? 0 : -EIO;

	if (s) {
		compute(fs, s);
		settle(fs, s, 0, NULL, 0);
		write_back(fs, set, s);
		err = media_fence(fs->media);
		close_settled(fs, set);
	}
	unlock_set(set);
	return err;
}

int parity_flush(struct pmemfs *fs)
{
	int err = 0;

	for (unsigned k = 0; fs->parity && k < SETS; k++) {
		struct parity_set *set = lock_set(fs, k);

		for (unsigned w = 0; w < WAYS; w++)
			if (set->slot[w].stripe != NOBODY)
				write_back(fs, set, &set->slot[w]);
		unlock_set(set);
	}
	if (fs->parity)
		err = media_fence(fs->media);
	for (unsigned k = 0; fs->parity && k < SETS; k++) {
		struct parity_set *set = lock_set(fs, k);

		close_settled(fs, set);
		unlock_set(set);
	}
	return fs->parity && !err ? media_fence(fs->media) : err;
}

/* The words of a block, of the stripes from `first` on. */
static void recover_words(struct pmemfs *fs, uint64_t first, const le64 *word)
{
	uint64_t end = MIN(fs->parity->stripes, first + PMEMFS_PARITY_WORDS);

	for (uint64_t stripe = first; stripe < end; stripe++) {
		uint32_t members;
		unsigned state;

		word_check(fs, stripe, word[stripe - first], &members, &state);
		if (state == PMEMFS_PARITY_OPEN)
			parity_remake(fs, stripe);
	}
}

void parity_recover(struct pmemfs *fs)
{
	le64 word[PMEMFS_PARITY_WORDS];

	for (uint64_t stripe = 0; stripe < parity_stripes(fs); stripe += PMEMFS_PARITY_WORDS)
		if (!media_read(fs->media, word_off(fs, stripe), word, sizeof(word)))
			recover_words(fs, stripe, word);
}
