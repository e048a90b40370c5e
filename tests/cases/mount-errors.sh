# timeout: 180
# Everything that cannot be mounted: one line that names the thing and what to do, the right exit
# code, and nothing changed on the medium.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
make_fs 64M
superx() { "$PMEMFS_BUILD/tests/cases/superx" "$@"; }

# refused CODE REGEX IMAGE [OPTION...]
refused() {
	local code=$1 regex=$2 image=$3 before=
	shift 3
	[ ! -f "$image" ] || before=$(sum_of "$image")
	expect_one_line "$code" "$regex" "$MOUNT" "$image" "$MNT" "$@"
	! mountpoint -q "$MNT" || die "mounted all the same"
	[ -z "$before" ] || expect_equal "$(sum_of "$image")" "$before" "the refused image"
}

refused 32 "$T/absent.*(no such|not exist|not found)" "$T/absent"
refused 32 "$T.*directory" "$T"
refused 32 "/dev/null.*(not|needs)" /dev/null
: >empty
refused 32 "empty.*(small|16 MiB|mkfs)" "$T/empty"
truncate -s 1M little
refused 32 "little.*(small|16 MiB|mkfs)" "$T/little"
truncate -s 64M blank
refused 32 "blank.*(not|no).*mkfs\.pmemfs" "$T/blank"
truncate -s 64M other
mkfs.ext4 -q other
refused 32 "other.*ext4" "$T/other"

loop=$(losetup -f --show other)
trap 'losetup -d "$loop" 2>/dev/null || :' EXIT
refused 32 "$loop.*block device" "$loop"
losetup -d "$loop"

cp --sparse=always img newer
superx newer version 99
refused 32 "newer.*(version|newer|upgrade)" "$T/newer"
cp --sparse=always img feature
superx feature incompat 0x8000000000000000
refused 32 "feature.*(newer|feature|incompatible)" "$T/feature"
cp --sparse=always img rofeature
superx rofeature ro_compat 0x8000000000000000
"$MOUNT" "$T/rofeature" "$MNT" >said 2>&1 || { cat said; die "an unknown read-only feature"; }
expect_errno EROFS mkdir "$MNT/d"
pid=$(daemon_pid "$T/rofeature")
umount "$MNT"
wait_pid "$pid"
cp --sparse=always img compat
superx compat compat 0x8000000000000000
"$MOUNT" "$T/compat" "$MNT"
pid=$(daemon_pid "$T/compat")
mkdir "$MNT/d"
umount "$MNT"
wait_pid "$pid"

cp --sparse=always img short
truncate -s 40M short
refused 32 "short.*(smaller|cut short)" "$T/short"
cp --sparse=always img damaged
for block in 0 511; do
	printf X | dd of=damaged bs=1 seek=$((block * 4096 + 90)) conv=notrunc status=none
done
refused 32 "damaged.*(fsck|damaged|superblock)" "$T/damaged"

# A device that cannot be written.
mkdir ro
mount --bind "$T" ro
mount -o remount,bind,ro ro
refused 32 "ro/img.*read-only" "$T/ro/img"
"$MOUNT" "$T/ro/img" "$MNT" -o ro
pid=$(daemon_pid "$T/ro/img" || daemon_pid)
umount "$MNT"
wait_pid "$pid"
umount ro

# In use: mounted, and being checked.
mount_fs
mkdir other-mnt
expect_one_line 32 "img.*(in use|mounted|busy)" "$MOUNT" "$IMG" "$T/other-mnt"
expect_one_line 32 "(mnt|img).*(in use|mounted|busy)" "$MOUNT" "$IMG" "$MNT"
umount_fs

# The mount point.
expect_one_line 32 "$T/nowhere.*(no such|not exist)" "$MOUNT" "$IMG" "$T/nowhere"
: >plain
expect_one_line 32 "$T/plain.*not a directory" "$MOUNT" "$IMG" "$T/plain"

# The command line.
refused 1 "frobnicate.*(unknown|not|option)|(unknown|not|option).*frobnicate" "$IMG" -o frobnicate
refused 1 "frobnicate" "$IMG" -o rw,frobnicate=7,noatime
expect_error 1 "usage|missing|device|mount point" "$MOUNT"
expect_error 1 "usage|missing|mount point|directory" "$MOUNT" "$IMG"
expect_error 1 "usage|too many|unexpected|argument" "$MOUNT" "$IMG" "$MNT" surplus
expect_error 1 "option|usage" "$MOUNT" --frobnicate "$IMG" "$MNT"

# No permission.
chmod 600 img
mkdir -m 777 users
cp --sparse=always img users/img
expect_error 32 "img.*(permission|denied|may not be opened)" setpriv --reuid 1001 --regid 1001 --clear-groups \
	"$MOUNT" "$IMG" "$T/users"
fsck_clean
