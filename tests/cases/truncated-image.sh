# An image that shrinks under a mounted filesystem: EIO for what is gone, and the daemon lives.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
new_fs 64M
echo small >"$MNT/small"
random_file "$MNT/big" 40M
sync -f "$MNT"
echo 3 >/proc/sys/vm/drop_caches
pid=$(daemon_pid)
cp --sparse=always "$IMG" copy
truncate -s 8M "$IMG"
got=$(cat "$MNT/big" 2>&1 >out | grep -c 'Input/output error') || :
expect_equal "$got" 1 "reading a file whose blocks are gone"
expect_equal "$(daemon_pid)" "$pid" "the daemon"
# New writes need space that is not there: an error, not a crash.
random_file more 30M
if cp more "$MNT/more" 2>cp.err; then
	cmp more "$MNT/more" 2>/dev/null && die "wrote what cannot have been kept"
fi
ls "$MNT" >/dev/null 2>&1 || :
[ -d "/proc/$pid" ] || die "the daemon died"
umount "$MNT"
wait_pid "$pid"
expect_error 8 "img.*(smaller|cut short)" "$FSCK" -n "$IMG"
mv copy "$IMG"
fsck_clean
mount_fs
expect_equal "$(cat "$MNT/small")" small
end_fs
