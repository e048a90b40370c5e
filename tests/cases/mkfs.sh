# timeout: 180
# mkfs.pmemfs: its options, what it refuses to overwrite, the smallest and the largest.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
uuid=01234567-89ab-cdef-0123-456789abcdef

truncate -s 64M img
said=$("$MKFS" -L "my label" -U $uuid img 2>&1)
expect_match "$said" "$uuid" "what mkfs says"
expect_equal "$(info label)" "my label"
expect_equal "$(info uuid)" $uuid
expect_equal "$(info size)" $((64 << 20))
expect_equal "$(info clean)" true
fsck_clean

# -n writes nothing and says what it would do; -q says nothing.
truncate -s 64M dry
before=$(sum_of dry)
expect_match "$("$MKFS" -n dry 2>&1)" "shard"
expect_equal "$(sum_of dry)" "$before"
expect_equal "$("$MKFS" -q dry 2>&1)" ""

# An image file made on the spot.
"$MKFS" -q --size 48M made
expect_equal "$(stat -c %s made)" $((48 << 20))
"$MKFS" -q --size=1G made2
expect_equal "$(stat -c %s made2)" $((1 << 30))
rm made2

# What is there is not overwritten, but by force.
make_other() {
	rm -f other
	truncate -s 320M other
	"$@" other >/dev/null 2>&1
}
refuses() {
	local before
	before=$(sum_of other)
	expect_error 1 "other.*$1.*(-f|force)" "$MKFS" other
	expect_equal "$(sum_of other)" "$before" "a refused $1"
	"$MKFS" -q -f other
	fsck_clean_of other
}
fsck_clean_of() { "$FSCK" -n -f "$1" >/dev/null || die "fsck of $1"; }
make_other mkfs.ext4 -q
refuses ext4
if command -v mkfs.xfs >/dev/null; then
	make_other mkfs.xfs -q
	refuses xfs
fi
make_other mkswap
refuses swap
make_other "$MKFS" -q
refuses pmemfs
make_other mkfs.ext4 -q
"$MKFS" -q -f other
expect_equal "$(blkid -p -s TYPE -o value other 2>/dev/null | grep -c ext4)" 0 "ext4 still shows"

# In use: not even by force.
IMG=$T/other mount_fs
before=$(IMG=$T/other "$PMEMFS" info -j other | jq -r .uuid)
expect_one_line 1 "other.*(in use|mounted|busy)" "$MKFS" -f other
pid=$(daemon_pid "$T/other")
umount "$MNT"
wait_pid "$pid"
expect_equal "$("$PMEMFS" info -j other | jq -r .uuid)" "$before"

# Sizes: every one mounts, takes a file and is checked.
for size in 16M 17M $(((16 << 20) + 4096)) 33M 100M 2G; do
	make_fs $size
	mount_fs
	random_file "$MNT/f" 1M
	umount_fs
	fsck_clean
	rm img
done

# A sparse 1 TiB image: at once, and next to nothing is written.
truncate -s 1T img
start=$(date +%s%N)
"$MKFS" -q --no-calibrate img
took=$((($(date +%s%N) - start) / 1000000))
wrote=$(($(stat -c %b img) * 512))
echo "mkfs of 1 TiB: $took ms, $wrote bytes"
[ $took -lt 1000 ] || [ "${PMEMFS_SANITIZE:-}" ] || die "mkfs of 1 TiB took $took ms"
[ $wrote -lt $((16 << 20)) ] || die "mkfs of 1 TiB wrote $wrote bytes"
mount_fs
echo hello >"$MNT/f"
umount_fs
mount_fs
expect_equal "$(cat "$MNT/f")" hello
end_fs
