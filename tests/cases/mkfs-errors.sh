# What mkfs.pmemfs refuses: one line that names the thing, exit code 1, nothing changed.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
mkdir mnt

refused() {
	local regex=$1 before=
	shift
	local target=${*: -1}
	[ ! -f "$target" ] || before=$(sum_of "$target")
	expect_one_line 1 "$regex" "$MKFS" "$@"
	[ -z "$before" ] || expect_equal "$(sum_of "$target")" "$before" "$target"
}
refused "absent.*(no such|not exist|--size)" absent
refused "mnt.*directory" mnt
refused "/dev/null.*" /dev/null
truncate -s 15M small
refused "small.*16 MiB" small
: >empty
refused "empty.*(16 MiB|--size)" empty
[ ! -e absent ] || die "a file was made"
truncate -s $(((64 << 20) + 5)) odd
refused "odd.*4096" odd

truncate -s 64M img
loop=$(losetup -f --show img)
trap 'losetup -d "$loop" 2>/dev/null || :' EXIT
refused "$loop.*block device" "$loop"
losetup -d "$loop"

wrong() {
	local before
	before=$(sum_of img)
	expect_error 1 "$1" "$MKFS" "${@:2}"
	expect_equal "$(sum_of img)" "$before" img
}
wrong "label.*32" -L "$(printf 'x%.0s' $(seq 33))" img
wrong "uuid" -U not-a-uuid img
wrong "size.*128Q" --size 128Q img
wrong "size.*small.*16M" --size 1M made
wrong "size.*4096" --size 20000001 made
wrong "shards" --shards 0 img
wrong "shards" --shards 257 img
[ ! -e made ] || die "a file was made"
expect_error 1 "usage|missing|device" "$MKFS"
expect_error 1 "option" "$MKFS" --frobnicate img
expect_error 1 "surplus" "$MKFS" img surplus

mkdir ro
mount --bind . ro
mount -o remount,bind,ro ro
refused "ro/img.*read-only" ro/img
umount ro
chmod 600 img
expect_error 1 "img.*(permission|denied|may not be opened)" as 1001 "$MKFS" "$T/img"
"$MKFS" -q img
fsck_clean
