/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the explorer runs: short sequences of operations, from a start image. A workload is
 * text: one operation a line (see op.h), marked with '!' when its crash states are judged and
 * with '.' when it only prepares (and is left out where the model says that it fails).
 */
#ifndef CRASH_WORKLOAD_H
#define CRASH_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "op.h"

enum start_kind {
	START_FRESH,	/* formatted, one shard; all else is a secret pattern */
	START_SHARDS,	/* the same with 4 shards */
	START_AGED,	/* hundreds of operations old, cleanly unmounted */
	START_FULL,	/* a few blocks are free */
	START_CRASHED,	/* a rename over another file is in the journal, and not yet done */
	START_CRASHED2, /* aged; a create is in the journal, and not yet done; with replicas */
	START_TORN,	/* aged; a record was being appended; with replicas */
	START_REFORMAT, /* aged, then formatted again with the same UUID */
	START_REPLICA,	/* as fresh, with replicas */
	STARTS
};
extern const char *const start_names[STARTS];

enum family {
	FAMILY_CORPUS,	/* the published bugs */
	FAMILY_SEQ1,	/* each operation, from each start image */
	FAMILY_FORMAT,	/* mkfs over each start image, then a mount */
	FAMILY_UNMOUNT, /* each operation, then a clean unmount */
	FAMILY_ROLL,	/* operations at each position of a log: roll-over */
	FAMILY_COMPACT, /* long sequences on one inode: compaction */
	FAMILY_PAIR,	/* two operations at the same time; a sample */
	FAMILY_RANDOM,	/* random sequences */
	FAMILY_SEQ2,	/* each operation after each */
	FAMILY_SEQ3,	/* a sample of the sequences of three */
	FAMILIES
};
extern const char *const family_names[FAMILIES];

struct workload {
	char name[128];
	enum start_kind start;
	bool format;  /* begin with mkfs over the start image */
	bool unmount; /* end with a clean unmount */
	bool random;  /* operations are made as it goes, from seed */
	uint64_t seed;
	unsigned n, cap;
	struct work_op {
		struct op op;
		bool pair;  /* runs beside the next one */
		bool setup; /* prepares: not judged, left out when it fails */
	} * ops;
	/* where operations of a random workload are also put before they run; may be NULL */
	struct work_op *mirror;
};
#define WORKLOAD_STEPS 16 /* room in a mirror */

/* Number of workloads in a family; PAIR, RANDOM and SEQ3 are samples of the size asked for.
 */
uint64_t family_size(enum family f, uint64_t sample);
/* Makes workload `index` of the family; w is empty or was used before. */
void workload_make(struct workload *w, enum family f, uint64_t index, uint64_t seed);
void workload_free(struct workload *w);
void workload_clear(struct workload *w);
void workload_copy(struct workload *to, const struct workload *from);
void workload_drop(struct workload *w, unsigned at);
struct work_op *workload_add(struct workload *w, bool setup);
/* Adds the operations of a script: lines or parts between ';', each after '!' or '.'. */
int workload_parse(struct workload *w, const char *script);
void workload_print(const struct workload *w, FILE *out);

/* ---- the vocabulary of ACE-like sequences (words.c) and the corpus (corpus.c) ---- */
struct word {
	const char *name;
	const char *script;
};
extern const struct word words[];
extern const unsigned n_words;

struct corpus_test {
	unsigned number;
	const char *name;
	enum start_kind start;
	bool format, unmount;
	const char *script; /* NULL: what it needs does not exist yet */
};
extern const struct corpus_test corpus[];
extern const unsigned n_corpus;

#endif
