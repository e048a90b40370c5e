# pmemfs info, in text and as JSON, of a clean, a mounted and a killed filesystem.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
make_fs 64M -L name-of-it
"$PMEMFS" info -j "$IMG" | jq -e . >/dev/null || die "not JSON"
expect_match "$("$PMEMFS" info "$IMG")" "name-of-it"
expect_equal "$(info label)" name-of-it
expect_equal "$("$PMEMFS" info -j "$IMG" | jq -c .bad_blocks)" "[]"
expect_match "$("$PMEMFS" info "$IMG")" "bad blocks: +0"
expect_equal "$(info clean)" true
mount_fs
echo x >"$MNT/f"
expect_equal "$(info label)" name-of-it "label while mounted"
kill_fs
expect_equal "$(info clean)" false "clean after a kill"
mount_fs
umount_fs
expect_equal "$(info clean)" true "clean after recovery and unmount"
expect_error 1 "absent.*(no such|not exist)" "$PMEMFS" info "$T/absent"
truncate -s 32M blank
expect_error 1 "blank.*(not|no).*pmemfs" "$PMEMFS" info "$T/blank"
expect_error 1 "usage|command" "$PMEMFS"
expect_error 1 "frobnicate" "$PMEMFS" frobnicate
for tool in "$MKFS" "$FSCK" "$MOUNT" "$PMEMFS"; do
	expect_match "$("$tool" --version 2>&1)" "pmemfs.*[0-9]+\.[0-9]+" "$tool --version"
	expect_match "$("$tool" --help 2>&1)" "usage" "$tool --help"
done

# Which kernel runs for which size, in text and JSON; the starting rule while nothing was measured.
expect_equal "$(info calibrated)" false
expect_equal "$(info medium.policy)" rule
expect_match "$("$PMEMFS" info "$IMG")" "calibrated: +no"
expect_match "$("$PMEMFS" info "$IMG")" "copies: +movnt(128|256|512) below 768 bytes, cl(wb|flushopt|flush) from there"
expect_equal "$(info 'medium.kernels | length')" 4
expect_match "$(info 'medium.kernels[0].copy."512"')" "^movnt"
expect_match "$(info 'medium.kernels[0].copy."1024"')" "^cl"
expect_match "$(info 'medium.kernels[3].clear."2097152"')" "^cl"
