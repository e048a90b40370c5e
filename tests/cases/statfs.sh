# df tells the truth.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
new_fs 256M
read -r bsize blocks bfree bavail files ffree namelen <<<"$(sysx statfs "$MNT")"
expect_equal "$bsize $namelen" "4096 255"
[ "$blocks" -le 65536 ] && [ "$blocks" -gt 60000 ] || die "$blocks blocks in 256 MiB"
[ "$bfree" -le "$blocks" ] && [ "$bavail" -le "$bfree" ] || die "$blocks $bfree $bavail"
[ "$bavail" -gt 58000 ] || die "only $bavail blocks of an empty filesystem are available"
[ "$files" -gt 10000 ] && [ "$ffree" -lt "$files" ] || die "$files files, $ffree free"

used_inodes() { sysx statfs "$MNT" | awk '{ print $5 - $6 }'; }
random_file "$MNT/f" 40M
now=$(sysx statfs "$MNT" | cut -d' ' -f3)
used=$((bfree - now))
[ $used -ge 10240 ] && [ $used -le 10444 ] || die "40 MiB take $used blocks"
sysx create "$MNT/n" 100
expect_equal "$(used_inodes)" $((files - ffree + 101)) "inodes used"
expect_equal "$(df --output=fstype "$MNT" | tail -1)" fuse.pmemfs
expect_equal "$(findmnt -no SOURCE "$MNT")" "$IMG"
# A remount may find a few blocks more to be free: logs are stated anew at unmount.
check() {
	local now
	now=$(sysx statfs "$MNT" | cut -d' ' -f3)
	[ "$now" -ge "$before" ] && [ "$now" -le $((before + 256)) ] || die "$before blocks free, then $now"
	expect_equal "$(used_inodes)" "$inodes"
}
before=$(sysx statfs "$MNT" | cut -d' ' -f3)
inodes=$(used_inodes)
lasting check
rm "$MNT"/*
umount_fs
mount_fs
expect_equal "$(sysx statfs "$MNT")" "$bsize $blocks $bfree $bavail $files $ffree $namelen"
end_fs
