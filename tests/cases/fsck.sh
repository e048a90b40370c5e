# timeout: 240
# fsck.pmemfs: exit codes, damage found and repaired, and no harm done.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
new_fs 64M
mkdir "$MNT/directory-to-be-found"
echo content >"$MNT/directory-to-be-found/file-to-be-found"
random_file "$MNT/data" 2M 5
ln -s target-to-be-found "$MNT/symlink"
setfattr -n user.attribute-to-be-found -v value "$MNT/data"
umount_fs
cp --sparse=always "$IMG" good

# fsck_is CODE REGEX [OPTION...]
fsck_is() {
	local want=$1 regex=$2 code=0
	shift 2
	timeout 60 "$FSCK" "$@" "$IMG" >said 2>&1 </dev/null || code=$?
	[ $code = "$want" ] || die "fsck $* exits with $code, not $want: $(tail -3 said)"
	expect_match "$(<said)" "$regex" "fsck $*"
}
restore() { cp --sparse=always good "$IMG"; }
# flip OFFSET: changes one byte of the image
flip() {
	local byte
	byte=$(od -An -tu1 -j "$1" -N 1 "$IMG")
	printf "%b" "\\x$(printf %x $((byte ^ 0x41)))" | dd of="$IMG" bs=1 seek="$1" conv=notrunc status=none
}
# places TEXT: where in the image it stands; more than once, where a log was stated anew
places() { grep -abo -- "$1" "$IMG" | cut -d: -f1; }

# Clean: without -f nothing is looked at; with it every pass runs.
fsck_is 0 "clean"
fsck_is 0 "." -n
fsck_is 0 "." -f
fsck_is 0 "." -f -y
fsck_is 0 "Pass 7" -c -v -n
fsck_is 0 "." -c -p
flip $((4096 + 1024 + 8 * 5)) # an entry of the list of bad blocks
fsck_is 4 "Entry 5 of the list of bad blocks" -n -f
fsck_is 1 "." -p -f
fsck_is 0 "." -c -y
restore
fsck_is 0 "." -p
fsck_is 0 "." -a
fsck_is 0 "(files|directories|blocks)" -n -f -v
before=$(sum_of "$IMG")
fsck_is 0 "." -n -f
expect_equal "$(sum_of "$IMG")" "$before"

# After a kill.
mount_fs
echo more >"$MNT/more"
kill_fs
before=$(sum_of "$IMG")
fsck_is 0 "." -n
expect_equal "$(sum_of "$IMG")" "$before" "fsck -n after a kill"
fsck_is 0 "." -p
mount_fs
expect_equal "$(cat "$MNT/more" "$MNT/directory-to-be-found/file-to-be-found")" "$(printf 'more\ncontent')"
umount_fs
restore

# The primary superblock comes back from its replica, and the replica from the primary.
for block in 0 511; do
	for at in 0 40 100 200 4090; do
		restore
		flip $((block * 4096 + at))
		fsck_is 4 "superblock" -n -f
		fsck_is 1 "superblock" -p
		fsck_is 0 "." -n -f
		mount_fs
		expect_equal "$(cat "$MNT/directory-to-be-found/file-to-be-found")" content
		umount_fs
	done
	restore
	dd if=/dev/zero of="$IMG" bs=4096 seek=$block count=1 conv=notrunc status=none
	fsck_is 4 "superblock" -n -f
	fsck_is 1 "superblock" -y
	fsck_is 0 "." -n -f
done
restore
for block in 0 511; do flip $((block * 4096 + 40)); done
before=$(sum_of "$IMG")
fsck_is 8 "superblock" -n
fsck_is 8 "superblock" -y
expect_equal "$(sum_of "$IMG")" "$before" "an image without a superblock"

# Live metadata: a changed byte is found, and only what it belongs to gets EIO.
intact() {
	case $1 in
	data) random_file "$T/data" 2M 5 && cmp "$T/data" "$MNT/data" ;;
	file) expect_equal "$(cat "$MNT/directory-to-be-found/file-to-be-found")" content ;;
	link) expect_equal "$(readlink "$MNT/symlink")" target-to-be-found ;;
	esac
}
# damaged TEXT COMMAND...: the command is refused with EIO, the rest of the filesystem works
damaged() {
	local text=$1 found
	shift
	restore
	found=$(places "$text")
	[ -n "$found" ] || die "$text is not in the image"
	for at in $found; do flip $((at + 3)); done
	fsck_is 4 "inode" -n -f
	[ $# != 0 ] || return 0
	mount_fs
	expect_error 1 "Input/output error|EIO" "$@"
	intact "$also"
	umount_fs
}
also=data damaged file-to-be-found sysx open rdonly "$MNT/directory-to-be-found"
also=data damaged target-to-be-found sysx open rdonly "$MNT/symlink"
also=file damaged attribute-to-be-found sysx open rdonly "$MNT/data"
damaged directory-to-be-found
expect_error 32 "damaged.*fsck" "$MOUNT" -o silent "$IMG" "$MNT"

# File data: EIO for that range and no other.
restore
mount_fs
slice "$MNT/data" 1048576 16 >needle
umount_fs
at=$(python3 - <<END
data = open("$IMG", "rb").read()
print(data.find(open("needle", "rb").read()))
END
)
[ "$at" -gt 0 ] || die "the data are not in the image"
flip "$at"
fsck_is 4 "data|checksum" -n -f
mount_fs
expect_errno EIO direct-read "$MNT/data" 1048576 4096 x
slice "$MNT/data" 0 1048576 | cmp - <(random_file /dev/stdout 1M 5)
expect_equal "$(cat "$MNT/directory-to-be-found/file-to-be-found")" content
umount_fs

# Bytes changed at random, all over the metadata: never anything but an answer.
shard=$(($("$PMEMFS_BUILD/tests/cases/superx" good show shard_start) * 4096))
rounds=60
long && rounds=1000
RANDOM=7
found=0
for ((i = 0; i < rounds; i++)); do
	restore
	for ((j = 0; j <= i % 4; j++)); do flip $((shard + (RANDOM * 32768 + RANDOM) % (9 * 4096 * 4))); done
	code=0
	timeout 60 "$FSCK" -n -f "$IMG" >said 2>&1 </dev/null || code=$?
	case $code in
	0) ;;
	4) found=$((found + 1)) ;;
	*) die "round $i: fsck -n exits with $code: $(tail -3 said)" ;;
	esac
	if ((i % 10 == 0)); then
		code=0
		timeout 60 "$FSCK" -y -f "$IMG" >said 2>&1 </dev/null || code=$?
		case $code in 0 | 1 | 4) ;; *) die "round $i: fsck -y exits with $code" ;; esac
		"$MOUNT" "$IMG" "$MNT" >said 2>&1 || continue
		ls -lR "$MNT" >/dev/null 2>&1 || :
		umount_fs
	fi
done
echo "$found of $rounds random damages were in use and found"
