/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trial: pmemfs as the explorer's subject. Operations run on a live filesystem and on the
 * reference model; after each, the live tree must be the model's, and every crash state must
 * recover to the model's tree before or after the operation it interrupted, pass fsck, and be
 * usable.
 */
#ifndef CRASH_TRIAL_H
#define CRASH_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "explore.h"
#include "model.h"
#include "pmemfs.h"

#define TRIAL_SIZE (16u << 20)
#define TRIAL_UUID "\x70\x6d\x65\x6d\x66\x73\x20\x63\x72\x61\x73\x68\x20\x74\x72\x79"

/* An image that workloads start from, with the tree that is on it. */
struct start {
	const char *name;
	int fd; /* memfd; -1: not made */
	uint64_t hash;
	struct model *model;
	uint64_t fresh_free; /* free blocks once everything is deleted */
	bool full;	     /* there may be no space for an operation */
	unsigned shards;
	bool replica; /* two copies of the metadata */
};

/* Digests of trees that were compared with a model and found equal. */
struct memo {
	struct model *model; /* NULL: none is legal */
	uint64_t digest[32];
	unsigned n, next;
};

enum trial_checks {
	CHECK_TREE, /* mount and compare */
	CHECK_FSCK, /* and fsck -n, before and after */
	CHECK_USE,  /* and use every directory, remount, delete all, space is back */
};

struct trial {
	struct explorer x;
	struct seen seen;
	enum trial_checks checks;
	unsigned fill_every; /* one state in so many is filled to the brim; 0: none */
	/* the live side */
	const struct start *start;
	struct pmemfs *fs;
	struct driver *driver;
	struct model *model; /* with handles */
	unsigned op;	     /* operations so far */
	/* what is legal */
	struct memo before, after;
	/* of two concurrent operations: instead of before, while not both returned */
	struct {
		struct memo memo;
		unsigned forbidden; /* once one of these returned */
	} alt[5];
	unsigned alts; /* in use */
	/* the crashed side */
	struct driver *crash_driver;
	char report[512]; /* errors that the library reported while it was judged */
	uint64_t fills;
	/* when set: the image of the capture_left-th judged state becomes this start image */
	struct start *capture;
	unsigned capture_left;
	/* the check of a mkfs: anything that does not mount is legal before it returned */
	bool formatting;
	char why[EXPLORE_WHY];
};

int trial_open(struct trial *t);
void trial_close(struct trial *t);

/*
 * Starts over from the image: mounts it (its crash states are judged if `judge`). 0, or -1 and
 * t->why.
 */
int trial_begin(struct trial *t, const struct start *s, bool judge);
/*
 * Does one operation on both sides. 0, or -1 and t->why. *ret (may be NULL) is what it
 * answered.
 */
int trial_op(struct trial *t, const struct op *op, bool judge, int64_t *ret);
/* Abandons the live filesystem, or unmounts it cleanly (crash states judged if `judge`). */
int trial_end(struct trial *t, bool clean, bool judge);
/* Formats the image again under exploration: what was there, or something unmountable, or
 * empty. */
int trial_format(struct trial *t, const struct start *s, bool judge);

/* The options every image is formatted with. */
extern bool trial_parity; /* all images are made with parity; constant after starting */
struct pmemfs_format_options trial_format_options(const struct start *s);
/* Makes a start image of what live holds now; t was ended. Takes the model over. */
int trial_save(struct trial *t, struct start *ret);

/* For pair.c: the next operation's clock; the live tree was compared, explore and go on. */
void trial_tick(struct trial *t);
int trial_finish(struct trial *t, bool judge);

/* judge.c */
bool trial_legal(void *arg, uint64_t digest, bool inside);
int trial_judge(void *arg, struct crash_state *s);
void memo_set(struct memo *m, struct model *model);
bool memo_has(const struct memo *m, uint64_t digest);
void memo_add(struct memo *m, uint64_t digest);
int trial_mount(struct trial *t, struct media *m, struct pmemfs **ret, char *why, size_t len);

#endif
