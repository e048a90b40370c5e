/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vocabulary: one entry for each kind of operation and each way in which it can matter. The
 * names are few, so that operations of a sequence meet on the same objects.
 */
#include "workload.h"

#define N16   "nnnnnnnnnnnnnnnn"
#define N240  N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16
#define LONG1 N240 "long-name-first"
#define LONG2 N240 "another-long-na"

#define FOO  ".create path=foo mode=0644;"
#define BAR  ".create path=bar mode=0600;"
#define DIRA ".mkdir path=A mode=0755;"
#define DIRB ".mkdir path=B mode=0755;"
#define AFOO DIRA ".create path=A/foo mode=0644;"
#define SOME FOO ".write path=foo off=0 len=100 seed=3;"
#define PAGE FOO ".write path=foo off=0 len=4096 seed=4;"
#define BIG  FOO ".write path=foo off=0 len=20000 seed=5;"

const struct word words[] = {
    {"create", "!create path=foo mode=0644"},
    {"create-in", DIRA "!create path=A/foo mode=0600 uid=7 gid=8"},
    {"create-long", "!create path=" LONG1 " mode=0644"},
    {"create-setgid", ".mkdir path=A mode=02755; !create path=A/bar mode=0644 gid=5"},
    {"mkdir", "!mkdir path=A mode=0755"},
    {"mkdir-in", DIRA "!mkdir path=A/C mode=0700"},
    {"mkfifo", "!mknod path=bar mode=010644"},
    {"mksock", DIRA "!mknod path=A/bar mode=0140600"},
    {"mkchar", "!mknod path=foo mode=020600 major=12 minor=70000"},
    {"symlink", "!symlink path=foo to=target"},
    {"symlink-long", DIRA "!symlink path=A/bar len=900 seed=9"},
    {"symlink-max", "!symlink path=bar len=4095 seed=9"},
    {"link", FOO "!link path=foo to=bar"},
    {"link-in", SOME DIRA "!link path=foo to=A/bar"},
    {"link-symlink", ".symlink path=foo to=x; !link path=foo to=bar"},
    {"unlink", FOO "!unlink path=foo"},
    {"unlink-data", BIG "!unlink path=foo"},
    {"unlink-one-of-two", SOME ".link path=foo to=bar; !unlink path=foo"},
    {"unlink-in", AFOO "!unlink path=A/foo"},
    {"unlink-open", PAGE ".open path=foo fd=0; !unlink path=foo"},
    {"unlink-symlink", ".symlink path=bar len=500 seed=2; !unlink path=bar"},
    {"rmdir", DIRA "!rmdir path=A"},
    {"rmdir-in", DIRA ".mkdir path=A/C mode=0755; !rmdir path=A/C"},
    {"rename", SOME "!rename path=foo to=bar"},
    {"rename-over", SOME BAR ".write path=bar off=0 len=5000 seed=6; !rename path=foo to=bar"},
    {"rename-into", FOO DIRA "!rename path=foo to=A/foo"},
    {"rename-out-over", AFOO FOO "!rename path=A/foo to=foo"},
    {"rename-between", AFOO DIRB "!rename path=A/foo to=B/bar"},
    {"rename-long", FOO "!rename path=foo to=" LONG2},
    {"rename-same-file", FOO ".link path=foo to=bar; !rename path=foo to=bar"},
    {"rename-over-open", FOO BAR ".open path=bar fd=1; !rename path=foo to=bar"},
    {"rename-dir", AFOO "!rename path=A to=B"},
    {"rename-dir-over", AFOO DIRB "!rename path=A to=B"},
    {"rename-dir-into", DIRA DIRB "!rename path=A to=B/A"},
    {"rename-dir-out", DIRB ".mkdir path=B/A mode=0755; !rename path=B/A to=A"},
    {"rename-noreplace", FOO "!rename path=foo to=bar flags=noreplace"},
    {"rename-noreplace-fails", FOO BAR "!rename path=foo to=bar flags=noreplace"},
    {"rename-whiteout", FOO "!rename path=foo to=bar flags=whiteout"},
    {"rename-whiteout-over", FOO AFOO "!rename path=foo to=A/foo flags=whiteout"},
    {"exchange", SOME BAR "!rename path=foo to=bar flags=exchange"},
    {"exchange-file-dir", SOME AFOO "!rename path=foo to=A flags=exchange"},
    {"exchange-between", FOO AFOO "!rename path=foo to=A/foo flags=exchange"},
    {"exchange-dirs", AFOO DIRB ".mkdir path=B/C mode=0755;"
				"!rename path=A to=B/C flags=exchange"},
    {"write", FOO "!write path=foo off=0 len=100 seed=11"},
    {"write-11", FOO "!write path=foo off=0 len=11 seed=11"},
    {"write-block", FOO "!write path=foo off=0 len=4096 seed=12"},
    {"write-blocks", FOO "!write path=foo off=0 len=12288 seed=13"},
    {"write-large", FOO "!write path=foo off=100 len=70000 seed=13"},
    {"write-unaligned", BIG "!write path=foo off=4090 len=100 seed=14"},
    {"write-across", BIG "!write path=foo off=2000 len=9000 seed=15"},
    {"overwrite", PAGE "!write path=foo off=0 len=4096 seed=16"},
    {"overwrite-part", PAGE "!write path=foo off=1000 len=64 seed=17"},
    {"overwrite-line", PAGE "!write path=foo off=1024 len=64 seed=17"},
    {"overwrite-8", PAGE "!write path=foo off=2048 len=8 seed=17"},
    {"overwrite-middle", BIG "!write path=foo off=8192 len=4096 seed=18"},
    {"overwrite-beyond", SOME "!write path=foo off=50 len=100 seed=18"},
    {"write-sparse", FOO "!write path=foo off=1000000 len=10 seed=19"},
    {"write-very-sparse", SOME "!write path=foo off=1200000000000 len=5000 seed=20"},
    {"write-zeros", PAGE "!write path=foo off=0 len=4096 seed=0"},
    {"write-same", PAGE "!write path=foo off=0 len=4096 seed=4"},
    {"append", SOME "!append path=foo len=10 seed=21"},
    {"append-1k", SOME "!append path=foo len=1024 seed=22"},
    {"append-blocks", SOME "!append path=foo len=9000 seed=23"},
    {"append-full-block", PAGE "!append path=foo len=4096 seed=24"},
    {"write-fd", PAGE ".open path=foo fd=2; !write fd=2 off=4000 len=200 seed=25"},
    {"write-deleted", PAGE ".open path=foo fd=0; .unlink path=foo;"
			   "!write fd=0 off=0 len=5000 seed=25"},
    {"close-deleted", BIG ".open path=foo fd=0; .unlink path=foo; !close fd=0"},
    {"truncate-0", BIG "!truncate path=foo off=0"},
    {"truncate-shorter", BIG "!truncate path=foo off=5000"},
    {"truncate-block", BIG "!truncate path=foo off=8192"},
    {"truncate-1", SOME "!truncate path=foo off=1"},
    {"truncate-same", SOME "!truncate path=foo off=100"},
    {"truncate-longer", SOME "!truncate path=foo off=6000"},
    {"truncate-twice", BIG "!truncate path=foo off=4; !truncate path=foo off=4096"},
    {"fallocate", FOO "!fallocate path=foo off=0 len=9000"},
    {"fallocate-keep", SOME "!fallocate path=foo off=0 len=20000 flags=keep"},
    {"fallocate-far", SOME "!fallocate path=foo off=100000 len=5000"},
    {"punch", BIG "!fallocate path=foo off=4096 len=8192 flags=punch|keep"},
    {"punch-edges", BIG "!fallocate path=foo off=3000 len=9000 flags=punch|keep"},
    {"punch-inside", PAGE "!fallocate path=foo off=100 len=100 flags=punch|keep"},
    {"zero-range", BIG "!fallocate path=foo off=1000 len=12000 flags=zero"},
    {"zero-range-keep", SOME "!fallocate path=foo off=50 len=9000 flags=zero|keep"},
    {"write-prealloc", FOO ".fallocate path=foo off=0 len=16384;"
			   "!write path=foo off=4000 len=200 seed=26"},
    {"chmod", FOO "!chmod path=foo mode=04711"},
    {"chmod-dir", DIRA "!chmod path=A mode=01777"},
    {"chown", SOME "!chown path=foo uid=1000 gid=1001"},
    {"utimens",
     FOO "!utimens path=foo atime=-2147483648.000000001 mtime=16725225600.999999999"},
    {"utimens-now", FOO "!utimens path=foo atime=omit mtime=now"},
    {"setxattr", FOO "!setxattr path=foo to=user.a len=10 seed=27"},
    {"setxattr-large", SOME "!setxattr path=foo to=user.big len=3000 seed=28"},
    {"setxattr-replace", FOO ".setxattr path=foo to=user.a len=40 seed=29;"
			     "!setxattr path=foo to=user.a len=500 seed=30 flags=replace"},
    {"acl", FOO "!setxattr path=foo to=system.posix_acl_access len=60 seed=31"},
    {"acl-gone", FOO ".setxattr path=foo to=system.posix_acl_access len=60 seed=31;"
		     "!setxattr path=foo to=system.posix_acl_access len=28 seed=32"},
    {"acl-chmod", FOO
     ".setxattr path=foo to=system.posix_acl_access len=60 seed=31; !chmod path=foo mode=0421"},
    {"acl-default", DIRA "!setxattr path=A to=system.posix_acl_default len=76 seed=33"},
    {"acl-inherit", DIRA ".setxattr path=A to=system.posix_acl_default len=60 seed=33;"
			 "!create path=A/foo mode=0666; !mkdir path=A/C mode=0777"},
    {"setxattr-dir", DIRA "!setxattr path=A to=trusted.b len=0 seed=1"},
    {"removexattr", FOO ".setxattr path=foo to=user.a len=40 seed=29;"
			"!removexattr path=foo to=user.a"},
    {"tmpfile", "!tmpfile path= mode=0600 fd=3"},
    {"tmpfile-link", ".tmpfile path= mode=0600 fd=3; .write fd=3 off=0 len=5000 seed=31;"
		     "!link fd=3 to=bar"},
    {"tmpfile-close", DIRA ".tmpfile path=A mode=0600 fd=3; .write fd=3 off=0 len=5000 seed=31;"
			   "!close fd=3"},
    {"sync", SOME "!sync"},
    {"remount", SOME "!remount"},
    {"crash", SOME "!crash"},
};
const unsigned n_words = sizeof(words) / sizeof(words[0]);
