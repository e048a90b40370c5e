# timeout: 240
# A full filesystem: ENOSPC, nothing half-done, rm works, and all space comes back.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
needs_command python3
new_fs 48M
free() { sysx statfs "$MNT" | cut -d' ' -f3; }
whole=$(free)

empty_again() {
	find "$MNT" -mindepth 1 -delete
	expect_equal "$(ls -A "$MNT")" ""
	# What logs and inode tables still hold is given back at the latest by the unmount.
	[ "$(free)" -ge $((whole - whole / 50)) ] || die "$(free) of $whole blocks are free after $1"
	umount_fs
	fsck_clean
	mount_fs
	expect_equal "$(free)" "$whole" "free blocks after $1"
}

# Big files.
random_file big 64M
expect_error 1 "No space left" cp big "$MNT/big"
size=$(stat -c %s "$MNT/big")
[ "$size" -gt $((40 << 20)) ] || die "ENOSPC after $size bytes of 48 MiB"
cmp -n "$size" big "$MNT/big"
echo kept >"$MNT/kept" || :
[ "$(sysx statfs "$MNT" | cut -d' ' -f4)" -lt 256 ] || die "ENOSPC, but 1 MiB is available"
expect_errno ENOSPC fallocate alloc 0 1G "$MNT/big"
expect_equal "$(stat -c %s "$MNT/big")" "$size"
cmp -n "$size" big "$MNT/big"
# A clean remount and a kill while it is full.
check() { cmp -n "$size" big "$MNT/big"; }
lasting check
# Every kind of freeing works on a full filesystem.
truncate -s $((size - (1 << 20))) "$MNT/big"
sysx fallocate punch 0 1M "$MNT/big"
rm "$MNT/big"
empty_again "big files"

# Many small files and directories.
i=0
while mkdir "$MNT/d$i" 2>/dev/null && sysx create "$MNT/d$i/file-with-some-name-" 5000 >said 2>&1; do
	i=$((i + 1))
done
expect_match "$(<said)" 'ENOSPC|^$'
[ "$(find "$MNT" | wc -l)" -gt 10000 ] || die "only $(find "$MNT" | wc -l) names fit"
umount_fs
fsck_clean
mount_fs
empty_again "small files"

# Small writes, each of its own; what was acknowledged is there.
i=$(python3 - "$MNT" <<'END'
import errno, os, sys
n, data = 0, os.urandom(3000)
try:
    while True:
        with open(f"{sys.argv[1]}/s{n}", "wb", buffering=0) as f:
            f.write(data)
        n += 1
except OSError as e:
    assert e.errno == errno.ENOSPC, e
print(n)
END
)
[ "$i" -gt 5000 ] || die "only $i files of 3000 bytes fit"
for j in 0 $((i / 2)) $((i - 1)); do expect_equal "$(stat -c %s "$MNT/s$j")" 3000; done
kill_fs
fsck_clean
mount_fs
for j in 0 $((i / 2)) $((i - 1)); do expect_equal "$(stat -c %s "$MNT/s$j")" 3000; done
empty_again "small writes"

# Attributes, symlinks, and appends to one log.
: >"$MNT/x"
i=0
while sysx setxattr any "$MNT/x" user.n$i =60000 >said; do i=$((i + 1)); done
expect_equal "$(<said)" ENOSPC
[ "$i" -gt 100 ] || die "only $i attributes of 60000 bytes fit"
expect_equal "$(sysx getxattr "$MNT/x" user.n$((i - 1)) 0)" 60000
setfattr -x user.n0 "$MNT/x"
rm "$MNT/x"
empty_again attributes
end_fs
