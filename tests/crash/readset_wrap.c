/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All ways in which the library reads the medium, wrapped when linking. While a state is judged
 * nothing but its image is read.
 */
#include "media.h"
#include "readset.h"

int __real_media_read(const struct media *m, uint64_t off, void *dst, size_t len);
int __wrap_media_read(const struct media *m, uint64_t off, void *dst, size_t len);
int __wrap_media_read(const struct media *m, uint64_t off, void *dst, size_t len)
{
	if (readset_active)
		readset_note_read(readset_active, off, len);
	return __real_media_read(m, off, dst, len);
}

int __real_media_hash(const struct media *m, uint64_t off, size_t len, uint64_t seed,
		      uint64_t *ret);
int __wrap_media_hash(const struct media *m, uint64_t off, size_t len, uint64_t seed,
		      uint64_t *ret);
int __wrap_media_hash(const struct media *m, uint64_t off, size_t len, uint64_t seed,
		      uint64_t *ret)
{
	if (readset_active)
		readset_note_read(readset_active, off, len);
	return __real_media_hash(m, off, len, seed, ret);
}

const void *__real_media_ptr(const struct media *m, uint64_t off, size_t len);
const void *__wrap_media_ptr(const struct media *m, uint64_t off, size_t len);
const void *__wrap_media_ptr(const struct media *m, uint64_t off, size_t len)
{
	if (readset_active)
		readset_note_read(readset_active, off, len);
	return __real_media_ptr(m, off, len);
}
