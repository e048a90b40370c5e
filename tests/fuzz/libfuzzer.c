/* SPDX-License-Identifier: BSD-3-Clause */
/* The same for libFuzzer (clang, -Dfuzzer=true): PMEMFS_FUZZ names the target. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fuzz_target *t;

	if (!t) {
		const char *name = getenv("PMEMFS_FUZZ");

		t = fuzz_target_find(name ? name : "walk");
		if (!t) {
			fprintf(stderr, "PMEMFS_FUZZ: there is no target %s\n", name);
			exit(1);
		}
	}
	fuzz_one(t, data, size);
	return 0;
}
