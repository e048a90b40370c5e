/* SPDX-License-Identifier: BSD-3-Clause */
/* HASH_TARGET("x"): what follows in the file is compiled for that target. Include this last. */
#ifndef PMEMFS_HASH_TARGET_H
#define PMEMFS_HASH_TARGET_H

#include <immintrin.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HASH_PRAGMA(x) _Pragma(#x)
#ifdef __clang__
#define HASH_TARGET(t) \
	HASH_PRAGMA(clang attribute push(__attribute__((target(t))), apply_to = function))
#define HASH_TARGET_END HASH_PRAGMA(clang attribute pop)
#else
#define HASH_TARGET(t)	HASH_PRAGMA(GCC push_options) HASH_PRAGMA(GCC target t)
#define HASH_TARGET_END HASH_PRAGMA(GCC pop_options)
#endif

#endif
