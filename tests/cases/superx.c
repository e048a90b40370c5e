/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes superblocks that a well-behaved mkfs never writes: `superx IMAGE FIELD VALUE` sets a
 * field in both copies and makes their checksums right again. `superx IMAGE show FIELD` prints.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "format.h"

static const struct field {
	const char *name;
	size_t offset, size;
} fields[] = {
#define FIELD(f)                                                                            \
	{                                                                                   \
#f, offsetof(struct pmemfs_super, f), sizeof(((struct pmemfs_super *)0)->f) \
	}
    FIELD(magic),
    FIELD(version),
    FIELD(block_size),
    FIELD(compat),
    FIELD(incompat),
    FIELD(ro_compat),
    FIELD(blocks),
    FIELD(shards),
    FIELD(shard_start),
    FIELD(state),
    FIELD(calibration.cpu_model),
};

static const struct field *field_find(const char *name)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(fields[i].name, name))
			return &fields[i];
	fprintf(stderr, "superx: no field %s\n", name);
	exit(2);
}

static void edit(int fd, off_t at, const struct field *f, const char *value)
{
	struct pmemfs_super sb;
	uint64_t v = value ? strtoull(value, NULL, 0) : 0;
	le64 raw = put64(v);

	if (pread(fd, &sb, sizeof(sb), at) != sizeof(sb))
		exit(1);
	if (!value) {
		memcpy(&v, (char *)&sb + f->offset, f->size);
		printf("%llu\n", (unsigned long long)le64toh(v));
		return;
	}
	memcpy((char *)&sb + f->offset, &raw, f->size);
	sb.checksum = put64(XXH3_64bits(&sb, offsetof(struct pmemfs_super, checksum)));
	if (pwrite(fd, &sb, sizeof(sb), at) != sizeof(sb))
		exit(1);
}

int main(int argc, char **argv)
{
	bool show = argc == 4 && !strcmp(argv[2], "show");
	const struct field *f;
	int fd;

	if (argc != 4) {
		fprintf(stderr, "usage: superx IMAGE show FIELD | IMAGE FIELD VALUE\n");
		return 2;
	}
	f = field_find(show ? argv[3] : argv[2]);
	fd = open(argv[1], O_RDWR);
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	edit(fd, (off_t)PMEMFS_SB_BLOCK * PMEMFS_BLOCK_SIZE, f, show ? NULL : argv[3]);
	if (!show)
		edit(fd, (off_t)PMEMFS_SB_REPLICA * PMEMFS_BLOCK_SIZE, f, argv[3]);
	return close(fd) ? 1 : 0;
}
