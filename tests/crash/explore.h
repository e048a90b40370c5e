/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The explorer: takes the events of one operation after another, makes the states that a crash
 * can leave at each fence and at the operation's end, and gives each new one to the subject to
 * recover and to judge. Crashes while it recovers are explored in the same way.
 */
#ifndef CRASH_EXPLORE_H
#define CRASH_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "enumerate.h"
#include "image.h"
#include "media.h"
#include "persist.h"
#include "readset.h"
#include "seen.h"
#include "trace.h"

#define EXPLORE_DEPTH  2 /* a crash, and a crash while recovering from it */
#define EXPLORE_WHY    4096
#define EXPLORE_STACKS 65536u /* stacks whose broken rules are told apart */

struct explorer;

/* A crash state that is being judged. */
struct crash_state {
	struct explorer *x;
	struct media *media; /* the image as the crash left it */
	struct image *image;
	bool inside;	/* the operation had not returned: its tree before is legal too */
	bool by_fsck;	/* recover with fsck -y instead of a mount */
	bool known;	/* this image was judged before: compare the tree, leave the rest out */
	unsigned depth; /* 1: crash while recovering */
	uint64_t hash;
	uint64_t digest;       /* out: of the tree that recovery found */
	char why[EXPLORE_WHY]; /* out: what is wrong */
};

struct subject {
	void *arg;
	/* Is a tree of that digest known to be legal? Otherwise judge is asked. */
	bool (*legal)(void *arg, uint64_t digest, bool inside);
	/*
	 * Recovers, calls explore_recovered, and checks. 0, or -1 with why. Whatever it writes
	 * to the image is undone by the caller.
	 */
	int (*judge)(void *arg, struct crash_state *s);
};

struct explore_options {
	enum persist_model model;
	struct enum_options plan;
	unsigned depth;	       /* 1: no crashes in recovery; up to EXPLORE_DEPTH */
	uint64_t nested_limit; /* limit of combinations in recovery; 0: as plan */
	uint64_t alike;	       /* explore so many recoveries that store the same; 0: all */
	uint64_t fsck_every;   /* recover one state in so many with fsck -y too; 0: none */
	bool reads;	       /* the program tells what is read: see readset.h */
	bool keep_going;       /* count failures (mutation runs), do not stop at the first */
};

struct explore_stats {
	uint64_t ops, points, cover[COVERS]; /* points by how much was visited */
	uint64_t lazy;			     /* points covered completely by what is read */
	uint64_t states;		     /* assignments visited */
	uint64_t distinct;		     /* judged: not seen before */
	uint64_t points2, cover2[COVERS], states2, distinct2; /* in recovery */
	uint64_t fscked;				      /* judged after fsck -y */
	uint64_t failures;
	uint64_t rules[RULES];
	uint64_t recoveries; /* that stored something */
	uint64_t alike;	     /* of these: not explored, for others stored the same */
};

/* One depth: the images of a crash and of what is durable, the model of what is pending. */
struct level {
	struct image base, crash;
	struct media *media;	/* of crash */
	struct lineset touched; /* where crash differs from base */
	struct persist p;
	struct assignment a;
	struct trace trace;   /* of the recovery that runs on crash */
	struct lineset moved; /* depth 1: where base differs from that of depth 0 */
};

struct explorer {
	struct explore_options o;
	struct subject subject;
	struct explore_stats stats;
	struct seen *seen;
	struct seen alike; /* recoveries: hash of what one stores -> how many were explored */
	struct readset reads; /* of one state's judgement; used if o.reads */
	struct image live, shadow;
	struct media *media; /* of live */
	struct trace trace;
	struct level level[EXPLORE_DEPTH];
	int start;
	uint64_t start_hash;
	size_t size;
	/* of concurrent operations: a bit for each thread whose has returned */
	unsigned returned;
	/* when set: what is durable after that many fences of the next operation is kept */
	unsigned capture_fence;
	int captured; /* a start image, or -1 */
	uint64_t captured_hash;
	uint64_t end_hash; /* of base after the last operation */
	/* the first failure */
	char why[EXPLORE_WHY];
	uint64_t failed_hash;
	/* rule offenders by stack; NULL: not wanted */
	uint64_t (*offenders)[RULES]; /* [EXPLORE_STACKS] */
	/* names the function that stored, for reports; NULL: not wanted */
	const char *(*stack_name)(void *arg, uint32_t stack);
	void *stack_arg;
	volatile uint64_t *heartbeat; /* counts states; for a watchdog. May be NULL */
};

int explore_open(struct explorer *x, size_t size, struct seen *seen);
/* Records the call stacks of operations and recoveries from here on (NULL: no more). */
void explore_stacks(struct explorer *x, struct stacks *s);
void explore_close(struct explorer *x);
/* Starts over from a start image whose hash is given. */
int explore_begin(struct explorer *x, int start, uint64_t start_hash);

/* An operation on live begins: events are recorded from here. */
void explore_op_begin(struct explorer *x);
/*
 * It returned. With `judge`, its crash states are explored: 0, or -1 when one is illegal (why,
 * failed_hash). Without, its events are only followed.
 */
int explore_op_end(struct explorer *x, bool judge);

/* Called by the subject's judge when recovery is over: what follows is not traced. */
void explore_recovered(struct crash_state *s);

#endif
