# timeout: 180
# pmemfs quota: usage is right whatever happens, limits hold to the block, for users, groups and
# inodes; removing always works; who may see and set; switching on while it is in use.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
needs_command jq setpriv
new_fs 256M
chmod 1777 "$MNT"

quota() { "$PMEMFS" quota "$@"; }
# row KIND ID MEMBER: of the report; 0 if there is no such row
row() { quota -j "$MNT" | jq -r ".$1[] | select(.id == $2) | .$3 // 0" | grep . || echo 0; }
used() { row users "$1" used_bytes; }
inodes() { row users "$1" inodes; }
exceeded() { expect_error 1 "Disk quota exceeded" "$@"; }

# Without quotas nothing is counted.
expect_one_line 1 "has no quotas: pmemfs quota on" "$PMEMFS" quota "$MNT"
expect_one_line 1 "has no quotas" "$PMEMFS" quota set -u 1001 -b 1M "$MNT"
as 1001 dd if=/dev/zero of="$MNT/before" bs=1M count=3 status=none
quota on "$MNT"
[ "$(used 1001)" -ge $((3 << 20)) ] && [ "$(used 1001)" -lt $((3500 << 10)) ] || die "$(used 1001)"
expect_equal "$(inodes 1001)" 1
rm "$MNT/before"
expect_equal "$(used 1001)" 0

# Whole blocks, to the last.
quota set -u 1001 -b 1M "$MNT"
exceeded as 1001 dd if=/dev/zero of="$MNT/f" bs=4096
expect_equal "$(used 1001)" $((1 << 20))
size=$(stat -c %s "$MNT/f")
[ "$size" -gt $((960 << 10)) ] || die "only $size bytes in 1 MiB"
exceeded as 1001 dd if=/dev/zero of="$MNT/g" bs=1 count=1
expect_equal "$(stat -c %s "$MNT/g")" 0
# root writing to his file is no way round; overwriting is no growth
exceeded dd if=/dev/zero of="$MNT/f" bs=4096 count=1 oflag=append conv=notrunc
as 1001 dd if=/dev/urandom of="$MNT/f" bs=64K count=8 conv=notrunc status=none
as 1001 mv "$MNT/f" "$MNT/h"
as 1001 ln "$MNT/h" "$MNT/f"
as 1001 chmod 600 "$MNT/f"
# The first remount states logs anew, which may free some blocks of them.
tidy() {
	umount_fs
	fsck_clean
	mount_fs
	now="$(used 1001) $(inodes 1001)"
}
check() { expect_equal "$(used 1001) $(inodes 1001)" "$now"; }
tidy
lasting check
rm "$MNT/h"
check
as 1001 truncate -s 100K "$MNT/f"
[ "$(used 1001)" -le $((110 << 10)) ] || die "truncation leaves $(used 1001)"
as 1001 dd if=/dev/zero of="$MNT/g" bs=64K count=10 status=none

# A limit below the usage: everything shrinks, nothing grows.
quota set -u 1001 -b 100K "$MNT"
exceeded as 1001 dd if=/dev/zero of="$MNT/g" bs=4096 count=1 oflag=append conv=notrunc
as 1001 rm "$MNT/f" "$MNT/g"
expect_equal "$(used 1001) $(inodes 1001)" "0 0"

# An open file counts until it is closed.
exec 5>"$MNT/open"
chown 1001 "$MNT/open"
rm "$MNT/open"
head -c 65536 /dev/zero >&5
[ "$(used 1001)" -ge 65536 ] || die "an unlinked open file does not count"
exec 5>&-
for ((k = 0; k < 50; k++)); do [ "$(used 1001)" != 0 ] || break; sleep 0.1; done
expect_equal "$(used 1001)" 0

# Inodes, of all kinds.
quota set -u 1001 -b 0 -i 3 "$MNT"
as 1001 touch "$MNT/1"
as 1001 mkdir "$MNT/2"
as 1001 ln -s x "$MNT/3"
exceeded as 1001 touch "$MNT/4"
exceeded as 1001 mkdir "$MNT/4"
exceeded as 1001 ln -s x "$MNT/4"
as 1001 ln "$MNT/1" "$MNT/4"
as 1002 touch "$MNT/5"
rm "$MNT/3"
as 1001 touch "$MNT/3"
rm -r "$MNT"/[1-5]

# Owners: usage moves; a user cannot give to a group that is full, root can.
quota set -u 1001 -i 0 "$MNT"
quota set -g 1003 -b 64K "$MNT"
as 1001 dd if=/dev/zero of="$MNT/f" bs=64K count=4 status=none
expect_error 1 "Disk quota exceeded" setpriv --reuid 1001 --regid 1001 --groups 1003 -- \
	chgrp 1003 "$MNT/f"
expect_equal "$(row groups 1003 inodes)" 0
before=$(used 1001)
chown 1002:1003 "$MNT/f"
expect_equal "$(used 1002) $(row groups 1003 used_bytes) $(used 1001)" "$before $before 0"
# set-group-id directories: the group's limit
mkdir "$MNT/d"
chown 1001:1003 "$MNT/d"
chmod 2777 "$MNT/d"
exceeded as 1001 dd if=/dev/zero of="$MNT/d/f" bs=4096 count=1
rm -r "$MNT/d" "$MNT/f"

# Writers side by side: never more than all may have.
quota set -u 1001 -b 8M "$MNT"
for k in 1 2 3 4; do
	(as 1001 dd if=/dev/zero of="$MNT/w$k" bs=16K status=none 2>/dev/null || :) &
done
wait
[ "$(used 1001)" -le $((8 << 20)) ] || die "four writers have $(used 1001)"
[ "$(used 1001)" -gt $((7900 << 10)) ] || die "four writers got only $(used 1001)"
tidy
lasting check
rm "$MNT"/w?

# Killed while they write: the sums are right (fsck compares them after the next unmount).
for k in 1 2 3; do
	(cd / && as 1001 sh -c "while dd if=/dev/zero of='$MNT/w$k' bs=8K count=100; do rm '$MNT/w$k'; done" >/dev/null 2>&1 || :) &
done
sleep 1
kill_fs
wait
mount_fs
umount_fs
fsck_clean
mount_fs
rm -f "$MNT"/w?
expect_equal "$(used 1001) $(inodes 1001)" "0 0"

# Off and on again, while somebody writes.
(for ((k = 0; k < 400; k++)); do echo "$k" >"$MNT/x$((k % 50))"; done) &
quota off "$MNT"
quota on "$MNT"
quota off "$MNT"
quota on "$MNT"
wait
expect_equal "$(row users 1001 limit_bytes)" 0 "limits after off"
umount_fs
fsck_clean
mount_fs

# Who may see what.
as 1002 touch "$MNT/mine"
chown 1003:1003 "$MNT/x1"
expect_equal "$(as 1002 "$PMEMFS" quota -j "$MNT" | jq -c '[.users[].id], [.groups[].id]')" $'[1002]\n[1002]'
expect_equal "$(quota -j "$MNT" | jq -c '[.users[].id], [.groups[].id]')" $'[0,1002,1003]\n[0,1002,1003]'
for what in "set -u 1002 -b 1G" on off; do
	# shellcheck disable=SC2086
	expect_one_line 1 "only root may" as 1002 "$PMEMFS" quota $what "$MNT"
done
expect_match "$(quota -u "$MNT")" "^root +[0-9.]+ [KM]iB +-"
expect_equal "$(quota -g "$MNT" | grep -c '^user')" 0 || :
expect_match "$(quota -n "$MNT")" "^1002 +0 bytes +- +- +1 +-"

# More than fit into one answer.
for ((k = 0; k < 300; k++)); do quota set -u $((20000 + k)) -b ${k}M -i 7 "$MNT"; done
check() {
	expect_equal "$(quota -j "$MNT" | jq -c '[.users[] | select(.id >= 20000)] | [length, .[299].limit_bytes, .[0].limit_bytes]')" "[300,$((299 << 20)),null]"
}
lasting check

# What is asked wrongly.
expect_one_line 1 "root is counted, but not limited" "$PMEMFS" quota set -u root -b 1G "$MNT"
expect_one_line 1 "no user" "$PMEMFS" quota set -u nosuchuser -b 1G "$MNT"
expect_one_line 1 "is no size" "$PMEMFS" quota set -u 1001 -b 1X "$MNT"
expect_one_line 1 "4096 bytes at least" "$PMEMFS" quota set -u 1001 -b 1 "$MNT"
expect_one_line 1 "no number of inodes" "$PMEMFS" quota set -u 1001 -i x "$MNT"
expect_one_line 1 "whose limit" "$PMEMFS" quota set -b 1G "$MNT"
expect_one_line 1 "one user or group" "$PMEMFS" quota set -u 1 -g 1 -b 1G "$MNT"
expect_one_line 1 "one mount point" "$PMEMFS" quota
expect_one_line 1 "not the mount point" "$PMEMFS" quota /dev/shm
mount -o remount,ro "$MNT" 2>/dev/null && expect_one_line 1 "Read-only" "$PMEMFS" quota set -u 1001 -b 1G "$MNT" && mount -o remount,rw "$MNT"
expect_equal "$("$PMEMFS" scrub -j "$MNT" | jq .damaged)" 0
end_fs
