/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bugs that were published about other systems' crash safety, each as a workload that would
 * show it here. A script of NULL: the operation does not exist yet.
 */
#include "workload.h"

#define N16 "0123456789abcdef"
#define N64 N16 N16 N16 N16

#define CREATE(p) "!create path=" p " mode=0644;"
#define MKDIR(p)  "!mkdir path=" p " mode=0755;"

const struct corpus_test corpus[] = {
    {1, "create on an image of more shards", START_SHARDS, .script = CREATE("foo")},
    {2, "create, mkdir, sync, create in it", START_FRESH,
     .script = CREATE("foo") MKDIR("A") "!sync;" CREATE("A/bar") MKDIR("B")},
    {3, "rename of a file never written to", START_FRESH,
     .script = MKDIR("A") CREATE("A/foo") "!rename path=A/foo to=foo"},
    {4, "rename over another", START_FRESH,
     .script = CREATE("a") CREATE("b") "!rename path=b to=a"},
    {5, "rename out of a directory, which then goes", START_FRESH,
     .script = MKDIR("A") CREATE("A/foo") "!rename path=A/foo to=bar; !rmdir path=A"},
    {6, "rename of a directory with a file", START_FRESH,
     .script = MKDIR("d") CREATE("d/f") "!write path=d/f off=0 len=100 seed=1;"
					"!rename path=d to=d2"},
    {7, "rename of names of 64 bytes and more", START_FRESH,
     .script = CREATE(N64) "!rename path=" N64 " to=" N64 "x; !rename path=" N64
			   "x to=" N64 N64 N64 "y"},
    {8, "rename, then a link with the old name", START_FRESH,
     .script = CREATE("bar") MKDIR("A") "!rename path=bar to=A/bar; !link path=A/bar to=bar"},
    {9, "link, then unlink", START_FRESH,
     .script = CREATE("foo") "!link path=foo to=bar; !unlink path=foo; !unlink path=bar"},
    {10, "two descriptors, write both, truncate, write one, remount", START_FRESH,
     .script = CREATE("foo") ".open path=foo fd=0; .open path=foo fd=1;"
			     "!write fd=0 off=0 len=3000 seed=1; !write fd=1 off=2000 len=4000 "
			     "seed=2; !truncate fd=0 off=2500; !write fd=1 off=2600 len=50 "
			     "seed=3; !remount"},
    {11, "fallocate on one descriptor, write on another, remount", START_FRESH,
     .script = CREATE("foo") ".open path=foo fd=0; .open path=foo fd=1;"
			     "!fallocate fd=0 off=0 len=8192; !write fd=1 off=100 len=5000 "
			     "seed=2; !remount"},
    {12, "11 bytes are durable", START_FRESH,
     .script = CREATE("foo") "!write path=foo off=0 len=11 seed=1; !append path=foo len=11 "
			     "seed=2"},
    {13, "a symlink is whole", START_FRESH,
     .script = "!symlink path=s to=" N64 "; !symlink path=t len=4000 seed=3"},
    {14, "create, link, unlink", START_FRESH,
     .script = CREATE("foo") "!link path=foo to=bar; !unlink path=bar"},
    {15, "create, write, remount, unlink", START_FRESH,
     .script = CREATE("foo") "!write path=foo off=0 len=4096 seed=1; !remount;"
			     "!unlink path=foo"},
    {16, "write, then fallocate that keeps the size", START_FRESH,
     .script = CREATE("foo") "!write path=foo off=0 len=4096 seed=1;"
			     "!fallocate path=foo off=0 len=12288 flags=keep; !remount"},
    {17, "create, link, truncate to nothing", START_FRESH,
     .script = CREATE("foo") "!link path=foo to=bar; !truncate path=foo off=0"},
    {18, "append to a small file", START_FRESH,
     .script = CREATE("foo") "!write path=foo off=0 len=20 seed=1; !append path=foo len=30 "
			     "seed=2"},
    {19, "unlink, rmdir, rename, then readdir", START_FRESH,
     .script = CREATE("foo") MKDIR("A") CREATE("b") "!unlink path=foo; !rmdir path=A;"
						    "!rename path=b to=c; !readdir path="},
    {20, "the write that extends the log, then an append", START_FRESH,
     .script = CREATE("foo") ".chmod path=foo mode=01; .chmod path=foo mode=02; .chmod "
			     "path=foo mode=03; !write path=foo off=0 len=64 seed=1; !write "
			     "path=foo off=64 len=64 seed=2; !write path=foo off=8192 len=64 "
			     "seed=3; !append path=foo len=100 seed=4; !append path=foo "
			     "len=4000 seed=5; !append path=foo len=1 seed=6"},
    {21, "write 32, truncate to 1", START_FRESH,
     .script = CREATE("foo") "!write path=foo off=0 len=32 seed=1; !truncate path=foo off=1;"
			     "!remount"},
    {22, "write 10, truncate to 4, extend", START_FRESH,
     .script = CREATE("foo") "!write path=foo off=0 len=10 seed=1; !truncate path=foo off=4;"
			     "!truncate path=foo off=4096; !truncate path=foo off=3;"
			     "!write path=foo off=100 len=1 seed=2"},
    {23, "rename, then unlink or rmdir", START_FRESH,
     .script = CREATE("foo") MKDIR("A") "!rename path=foo to=bar; !unlink path=bar;"
					"!rename path=A to=B; !rmdir path=B"},
    {24, "mkdir, clean unmount, mount", START_FRESH, .script = MKDIR("A") "!remount"},
    {25, "crash inside unmount", START_FRESH, .unmount = true,
     .script = CREATE("foo") "!write path=foo off=0 len=9000 seed=1;" MKDIR("A")},
    {26, "mkdir, then readdir: equal inode numbers", START_FRESH,
     .script = MKDIR("A") MKDIR("A/B") "!readdir path=A; !readdir path="},
    {27, "fallocate, remount: equal blocks", START_FRESH,
     .script = CREATE("foo") "!fallocate path=foo off=0 len=20000; !remount;"
			     "!fallocate path=foo off=0 len=40000 flags=keep; !remount"},
    {28, "symlink of 14 bytes, remount", START_FRESH,
     .script = "!symlink path=s to=0123456789abcd; !remount"},
    {29, "snapshot, remount, snapshot", START_FRESH, .script = NULL},
    {30, "delete a snapshot, then traverse", START_FRESH, .script = NULL},
    {31, "remount, create", START_FRESH, .script = "!remount;" CREATE("foo")},
    {32, "crash between entry and counters", START_FRESH, .script = CREATE("a") CREATE("b")},
    {33, "mkfs and mount only", START_FRESH, .format = true, .script = ""},
    {34, "no block is freed twice", START_FRESH,
     .script = CREATE("foo") "!write path=foo off=0 len=12288 seed=1; !write path=foo off=4096 "
			     "len=4096 seed=2; !truncate path=foo off=4096; !write path=foo "
			     "off=0 len=4096 seed=3; !link path=foo to=bar; !unlink path=foo; "
			     "!truncate path=bar off=0; !unlink path=bar"},
    {35, "write a block, truncate to nothing", START_FRESH,
     .script = CREATE("foo") "!write path=foo off=0 len=4096 seed=1; !truncate path=foo off=0"},
    {36, "write 1, write 8, then the next call", START_FRESH,
     .script = CREATE("foo") "!write path=foo off=0 len=1 seed=1; !write path=foo off=0 len=8 "
			     "seed=2;" CREATE("bar")},
    {37, "write 1, append 1024, truncate to 1494", START_FRESH,
     .script = CREATE("foo") "!write path=foo off=0 len=1 seed=1; !append path=foo len=1024 "
			     "seed=2; !truncate path=foo off=1494"},
    {38, "a crash image mounts: aged", START_CRASHED2,
     .script = CREATE("foo") "!write path=foo off=0 len=5000 seed=1; !unlink path=foo"},
    {39, "O_APPEND of 10", START_FRESH,
     .script = CREATE("foo") ".open path=foo fd=0; !append fd=0 len=10 seed=1; !write fd=0 "
			     "off=0 len=3 seed=2; !append fd=0 len=10 seed=3"},
    {40, "rm, rmdir, rename over: times and names together", START_FRESH,
     .script = CREATE("a") CREATE("b") MKDIR("A") CREATE("c") "!unlink path=a; !rmdir path=A;"
							      "!rename path=b to=c"},
    {41, "create on several processors", START_SHARDS,
     .script = CREATE("a") CREATE("b") MKDIR("A") CREATE("A/c")},
    {42, "write 4096 of a, overwrite 1024 of b", START_FRESH,
     .script = CREATE("foo") "!write path=foo off=0 len=4096 seed=10; !write path=foo off=1024 "
			     "len=1024 seed=11"},
    {43, "fallocate that keeps the size, three descriptors", START_FRESH,
     .script = CREATE("foo") ".open path=foo fd=1; .open path=foo fd=2; .open path=foo fd=3;"
			     "!fallocate fd=1 off=19680 len=1 flags=keep;"
			     "!write fd=2 off=0 len=1 seed=1; !truncate fd=2 off=1;"
			     "!write fd=3 off=0 len=1 seed=2; !truncate fd=3 off=64"},
    {44, "times are not those of the recovery", START_FRESH,
     .script =
	 CREATE("foo") "!write path=foo off=0 len=9000 seed=1; !truncate path=foo off=100;"
		       "!link path=foo to=bar; !unlink path=foo; !crash"},
    {45, "rm beside mkdir: the inode is not an orphan", START_FRESH,
     .script = CREATE("foo") ".open path=foo fd=0; !unlink path=foo;" MKDIR(
	 "d") "!close fd=0;" CREATE("d/x")},
    {46, "create without fsync is durable", START_FRESH, .script = CREATE("foo") CREATE("bar")},
    {47, "create, append, recover twice", START_CRASHED,
     .script = CREATE("foo") "!append path=foo len=100 seed=1; !crash; !append path=foo len=50 "
			     "seed=2"},
    {48, "rename 1 to 2, recovered when already applied", START_FRESH,
     .script = CREATE("1") CREATE("2") "!rename path=1 to=2"},
};
const unsigned n_corpus = sizeof(corpus) / sizeof(corpus[0]);
