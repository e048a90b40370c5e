# timeout: 240
# alone: yes
# Calibration by mkfs and by pmemfs calibrate, and the flush= option of a mount.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
limit() { [ "${PMEMFS_SANITIZE:-}" ] && echo 20000 || echo 2000; }

# mkfs measures in less than two seconds, whatever the size, and leaves image files sparse.
for size in 16M 300M 1T; do
	rm -f img
	start=$(date +%s%N)
	"$MKFS" -q --size $size img
	took=$((($(date +%s%N) - start) / 1000000))
	wrote=$(($(stat -c %b img) * 512))
	echo "mkfs of $size: $took ms, $wrote bytes"
	[ $took -lt "$(limit)" ] || die "mkfs of $size took $took ms"
	[ $wrote -lt $((16 << 20)) ] || die "mkfs of $size left $wrote bytes"
	expect_equal "$(info calibrated)" true
	expect_equal "$(info calibration_used)" true
	expect_equal "$(info medium.policy)" measured
	expect_equal "$(info clean)" true
	expect_equal "$(info mounts)" 0
	[ $size = 1T ] || fsck_clean
done
rm img
"$MKFS" --size 64M --no-calibrate img >said
expect_match "$(<said)" "copies \(rule\): movnt"
expect_equal "$(info calibrated)" false
expect_match "$("$MKFS" -f img)" "copies \(measured\)"
expect_match "$("$MKFS" -f -n img)" "nothing was written"

# Longer, with a table of what was measured; with files there.
mount_fs
random_file "$MNT/f" 8M
umount_fs
sum=$(sum_of img)
said=$("$PMEMFS" calibrate -t 1 img 2>&1)
expect_match "$said" "copies by 1 writer"
expect_match "$said" "zeroing by 1 writer"
expect_match "$said" "2 MiB"
expect_match "$said" "movnti .*movnt128 .*clwb|movnti .*clflush"
expect_match "$said" "[0-9]\*"
"$PMEMFS" calibrate -j -t 1 img | jq -e '.measured[0].sizes[3].ns.movnti > 0' >/dev/null || die "no JSON"
expect_equal "$("$PMEMFS" calibrate -q -t 1 img 2>&1)" ""
fsck_clean
mount_fs
random_file again 8M
cmp "$MNT/f" again

# In use, nonsense, nothing there.
expect_one_line 1 "img is (in use|mounted)" "$PMEMFS" calibrate -t 1 img
umount_fs
expect_error 1 "from 1 to 600" "$PMEMFS" calibrate -t 0 img
expect_error 1 "from 1 to 600" "$PMEMFS" calibrate -t 1s img
expect_error 1 "usage" "$PMEMFS" calibrate
expect_one_line 1 "absent.*does not exist" "$PMEMFS" calibrate absent
truncate -s 32M blank
expect_one_line 1 "blank.*no pmemfs" "$PMEMFS" calibrate blank

# A table of another CPU does not count, and it is said.
"$PMEMFS_BUILD/tests/cases/superx" img calibration.cpu_model 1
expect_equal "$(info calibrated)" true
expect_equal "$(info calibration_used)" false
expect_equal "$(info medium.policy)" rule
expect_match "$("$PMEMFS" info img)" "another model of CPU"
mount_fs
umount_fs

# How a mount is told: the verbose mount says what runs.
says() {
	local want=$1
	shift
	expect_match "$("$MOUNT" -v img "$MNT" "$@" 2>&1)" "$want" "mount with $*"
	echo "$*" >"$MNT/g"
	umount_fs
}
says "copies \(rule\): movnt"
says "copies \(forced\): movnti\)" -o flush=movnti
says "copies \(forced\): libpmem\)" -o flush=libpmem
says "copies \(forced\): movnt.* below 768 bytes" -o flush=rule
says "copies \(forced\): movnt.* below 4 KiB" -o flush=rule:4096
for kernel in movnt128 movnt256 movnt512 movdir64b clwb clflushopt clflush; do
	if "$MOUNT" img "$MNT" -o silent,flush=$kernel 2>said; then
		umount_fs
		says "copies \(forced\): $kernel\)" -o flush=$kernel
	else
		expect_match "$(<said)" "this CPU lacks"
	fi
done
PMEMFS_FLUSH=clflush says "copies \(forced\): clflush\)"
PMEMFS_FLUSH=clflush says "copies \(forced\): movnti\)" -o flush=movnti
expect_one_line 1 'option "flush=sse9" must be auto, rule, .* movnti .*clwb' "$MOUNT" img "$MNT" -o flush=sse9
expect_one_line 1 'option "flush=cached" .*eADR' "$MOUNT" img "$MNT" -o flush=cached
expect_one_line 1 'option "flush=rule:x" needs a number' "$MOUNT" img "$MNT" -o flush=rule:x
fsck_clean
