# timeout: 180
# Each way to unmount ends in a clean filesystem and no daemon; a kill does not, and is recovered.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
new_fs 64M
umount_fs

# ended HOW: mounts, writes, ends it with the command HOW PID
ended() {
	local pid
	mount_fs
	pid=$(daemon_pid)
	echo "$1" >"$MNT/$1"
	random_file "$MNT/data-$1" 1M
	"$1" "$pid"
	wait_pid "$pid"
	! mountpoint -q "$MNT" || die "$1: still mounted"
	expect_equal "$(info clean)" true "$1: clean"
	fsck_clean
	mount_fs
	expect_equal "$(cat "$MNT/$1")" "$1"
	umount_fs
}
by_umount() { umount "$MNT"; }
by_fusermount() { fusermount3 -u "$MNT"; }
by_sigterm() { kill "$1"; }
by_sigint() { kill -INT "$1"; }
lazily() {
	exec 7<"$MNT/lazily"
	umount -l "$MNT"
	expect_equal "$(cat <&7)" lazily
	exec 7<&-
}
for how in by_umount by_fusermount by_sigterm by_sigint lazily; do ended $how; done

# Busy is an error of umount, and changes nothing.
mount_fs
exec 7>"$MNT/open"
expect_error 32 "busy" umount "$MNT"
echo still works >&7
exec 7>&-
umount_fs

# Unlinked files that are open at the kill are gone afterwards, with their space.
mount_fs
free_blocks() { sysx statfs "$MNT" | cut -d' ' -f3; }
free=$(free_blocks)
"$PMEMFS_BUILD/tests/cases/sysx" orphan-hold "$MNT/orphan" 30 >held &
for ((i = 0; i < 100; i++)); do grep -q held held && break; sleep 0.05; done
expect_equal "$(<held)" held
[ $((free - $(free_blocks))) -ge 256 ] || die "the orphan takes no space"
kill_fs
kill $!
wait || :
expect_equal "$(info clean)" false "clean after a kill"
fsck_clean
mount_fs
[ "$(free_blocks)" -ge $((free - 16)) ] || die "$(free_blocks) of $free blocks after the orphan is gone"
umount_fs
expect_equal "$(info clean)" true
# And at a clean unmount.
mount_fs
"$PMEMFS_BUILD/tests/cases/sysx" orphan-hold "$MNT/orphan" 30 >held &
for ((i = 0; i < 100; i++)); do grep -q held held && break; sleep 0.05; done
kill $!
wait || :
umount_fs
fsck_clean
mount_fs
expect_equal "$(free_blocks)" "$free" "free blocks after a clean unmount"
end_fs
