# What fsck.pmemfs cannot check: operational errors are 8, a wrong command line is 16.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
make_fs 64M

refused() {
	local code=$1 regex=$2 before=
	shift 2
	local target=${*: -1}
	[ ! -f "$target" ] || before=$(sum_of "$target")
	expect_error "$code" "$regex" "$FSCK" "$@"
	[ -z "$before" ] || expect_equal "$(sum_of "$target")" "$before" "$target"
}
refused 8 "absent.*(no such|not exist)" -n "$T/absent"
refused 8 "mnt.*directory" -n "$MNT"
truncate -s 64M blank
refused 8 "blank.*(not|no).*pmemfs" -n "$T/blank"
refused 8 "blank.*(not|no).*pmemfs" -y "$T/blank"
mkfs.ext4 -q blank
refused 8 "blank.*ext4" -y "$T/blank"
: >empty
refused 8 "empty" -n "$T/empty"
refused 16 "option|usage" --frobnicate "$IMG"
refused 16 "usage|missing|device"
refused 16 "." -n -y "$IMG"
loop=$(losetup -f --show blank)
trap 'losetup -d "$loop" 2>/dev/null || :' EXIT
refused 8 "$loop.*block device" -n "$loop"
losetup -d "$loop"

mount_fs
for option in -n -y -p; do
	expect_error 8 "img.*(in use|mounted|busy)" "$FSCK" $option "$IMG"
done
umount_fs
fsck_clean
chmod 600 img
expect_error 8 "img.*(permission|denied|may not be opened)" as 1001 "$FSCK" -n "$IMG"
# What can be read can be looked at.
chmod 644 img
as 1001 "$FSCK" -n -f "$IMG" >/dev/null
