# timeout: 180
# What fstab, mount -t and systemd pass; ro, remount, and what is refused.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
new_fs 64M
echo kept >"$MNT/f"
umount_fs
has() { expect_match "$(findmnt -no OPTIONS "$MNT")" "(^|,)$1(,|\$)" "mount options"; }

mount_fs -o defaults,rw,suid,dev,exec,auto,nouser,async,relatime,_netdev,nofail,comment=hello
has rw
umount_fs
mount_fs -o rw,x-systemd.automount,x-systemd.device-timeout=10,x-gvfs-show,noauto,users,user
umount_fs
# Access times stay as they are, and the mount table does not claim otherwise.
for atime in noatime relatime strictatime defaults; do
	mount_fs -n -o $atime
	has noatime
	touch -d 2001-01-01 "$MNT/f"
	cat "$MNT/f"
	expect_equal "$(stat -c %x "$MNT/f" | cut -c1-10)" 2001-01-01
	umount_fs
done
mount_fs -o nosuid,nodev,noexec
has nosuid
has nodev
has noexec
cp /bin/true "$MNT/true"
expect_error 126 "denied" "$MNT/true"
umount_fs
# mount(8) passes the options before or after, -s for sloppy, -v.
"$MOUNT" -o rw "$IMG" "$MNT"
"$MNT/true"
umount_fs
mount_fs -s -o rw,some-unknown-thing
umount_fs

# Read-only: nothing is written, neither to files nor to the image.
before=$(sum_of "$IMG")
mount_fs -o ro
has ro
expect_equal "$(cat "$MNT/f")" kept
expect_errno EROFS open wronly "$MNT/f"
expect_errno EROFS mkdir "$MNT/d"
expect_errno EROFS unlink "$MNT/f"
umount_fs
expect_equal "$(sum_of "$IMG")" "$before" "an image mounted read-only"
# -r is what mount(8) turns ro into.
mount_fs -r
has ro

# Remount, both ways, the same daemon.
pid=$(daemon_pid)
"$MOUNT" "$IMG" "$MNT" -o remount,rw,strictatime
has rw
has noatime
echo more >>"$MNT/f"
"$MOUNT" "$IMG" "$MNT" -o remount,ro
has ro
expect_errno EROFS mkdir "$MNT/d"
expect_equal "$(daemon_pid)" "$pid" "the daemon after remounts"
expect_equal "$(grep -c " $MNT " /proc/mounts)" 1 "mounts there"
umount_fs
fsck_clean

# A crashed image can be looked at without a write, and recovers at the next real mount.
mount_fs
echo crash >"$MNT/crash"
kill_fs
before=$(sum_of "$IMG")
mkdir ro
mount --bind "$T" ro
mount -o remount,bind,ro ro
"$MOUNT" "$T/ro/img" "$MNT" -o ro
expect_equal "$(cat "$MNT/f" "$MNT/crash")" "$(printf 'kept\nmore\ncrash')"
umount_fs
umount ro
expect_equal "$(sum_of "$IMG")" "$before" "a crashed image on a read-only medium"
mount_fs -o ro
expect_equal "$(cat "$MNT/f" "$MNT/crash")" "$(printf 'kept\nmore\ncrash')"
umount_fs
expect_equal "$(sum_of "$IMG")" "$before" "a crashed image mounted read-only"
mount_fs
expect_equal "$(cat "$MNT/crash")" crash
umount_fs

# Relative paths, and a mount in the foreground that ends with the unmount.
(cd "$T" && "$MOUNT" img mnt)
expect_equal "$(findmnt -no SOURCE "$MNT")" "$IMG"
umount_fs
"$MOUNT" -f "$IMG" "$MNT" &
for ((i = 0; i < 200; i++)); do mountpoint -q "$MNT" && break; sleep 0.05; done
mountpoint -q "$MNT" || die "mount.pmemfs -f mounts nothing"
expect_equal "$(daemon_pid)" $! "the daemon in the foreground"
umount "$MNT"
wait $! || die "mount.pmemfs -f ends with $?"
expect_equal "$(info clean)" true
