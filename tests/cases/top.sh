# timeout: 60
# sanitize: no
# pmemfs top: counts what is done, as text and as JSON, and says what is wrong.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
needs_command jq
new_fs 256M
member() { "$PMEMFS" top -j "$MNT" | jq -r "$1"; }
expect_equal "$(member '.requests.WRITE.count // 0')" 0
before=$(member .medium.fences)
dd if=/dev/zero of="$MNT/f" bs=4096 count=100 status=none
expect_equal "$(member .requests.WRITE.count)" 100
expect_equal "$(member .written_bytes)" 409600
expect_equal "$(member '[.latency_ns.write[]] | add')" 100 "writes by time"
expect_equal "$(member .requests.CREATE.count)" 1
[ "$(member .medium.fences)" -ge $((before + 100)) ] || die "no fence for a write"
[ "$(member .medium.bytes)" -ge 409600 ] || die "fewer bytes than were written"
expect_equal "$(member .size_bytes)" $(($(stat -fc '%b*%S' "$MNT")))
expect_equal "$(member .available_bytes)" $(($(stat -fc '%a*%S' "$MNT")))
expect_equal "$(member '.requests.IOCTL.count > 5 and .busy == 1 and .threads >= 1')" true
# Reads by which nothing came from a cache.
dd if="$MNT/f" of=/dev/null iflag=direct bs=64K status=none
[ "$(member .read_bytes)" -ge 409600 ] || die "fewer bytes than were read"

# As text: what happened between two samples.
(sleep 0.5; dd if=/dev/zero of="$MNT/g" bs=4096 count=50 status=none) &
said=$("$PMEMFS" top -i 1 -n 1 "$MNT")
wait
expect_match "$said" "free, [0-9]+ files"
expect_match "$said" "^WRITE +(4[0-9]|50) "
expect_match "$said" "^write +(4[0-9]|50) .*KiB"
expect_match "$said" "took from"
expect_equal "$(grep -c '^MKDIR' <<<"$said" || :)" 0 "what did not happen"
expect_equal "$("$PMEMFS" top -i 0.1 -n 3 "$MNT" | grep -c '^transport')" 3

# Whoever may read the directory.
chmod 755 "$MNT"
as 65534 "$PMEMFS" top -j "$MNT" >/dev/null
chmod 700 "$MNT"
expect_error 1 "Permission denied" as 65534 "$PMEMFS" top -j "$MNT"

expect_one_line 1 "top: .*is not the mount point of a pmemfs" "$PMEMFS" top -j "$T"
expect_one_line 1 "top: .*No such file" "$PMEMFS" top "$T/none"
expect_one_line 1 "top: one mount point" "$PMEMFS" top
expect_one_line 1 "top: the interval" "$PMEMFS" top -i 0 "$MNT"
expect_one_line 1 "top: \"x\" is no number" "$PMEMFS" top -n x "$MNT"
end_fs
