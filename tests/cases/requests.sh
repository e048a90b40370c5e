# timeout: 120
# sanitize: no
# Which FUSE requests each operation causes, and how many fences: as the golden table has it,
# which is the least that Linux allows (tests/fuse/README.md says why it is not less).
. "$(dirname "$0")/lib.sh"
needs_pmemfs
# Out of sight of whoever looks at all mounts: those would be requests, too.
[ -n "${UNSEEN:-}" ] || UNSEEN=1 exec unshare -m bash "$0"
[ "$(printf '%s\n' 6.12 "$(uname -r)" | sort -V | head -1)" = 6.12 ] || skip "the table is that of Linux 6.12 and later"
said=$("$MOUNT" -V)
[ "$(printf '%s\n' 3.17 "${said##*libfuse }" | sort -V | head -1)" = 3.17 ] || skip "the table is that of libfuse 3.17 and later"
make_fs 256M --shards=1
mount_fs -o threads=1 # other threads would use other shards: more table blocks, more fences
"$PMEMFS_BUILD/tests/fuse/requests" "$MNT" >got
diff -u "$ROOT/tests/fuse/requests.golden" got || die "not the requests of the golden table"
end_fs
