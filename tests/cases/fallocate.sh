# files: yes
# fallocate: allocate, keep the size, punch, zero; blocks are counted and come back.
. "$(dirname "$0")/lib.sh"
new_fs
cd "$MNT"

random_file "$T/data" 64K 4
zeros() { head -c "$1" /dev/zero; }
blocks() { stat -c %b "$1"; }

: >a
sysx fallocate alloc 0 1M a
expect_equal "$(stat -c '%s' a)" 1048576
[ "$(blocks a)" -ge 2048 ] || die "fallocate of 1 MiB has $(blocks a) sectors"
cmp a <(zeros 1048576)
sysx pwrite 8192 data a
cmp a <(zeros 8192; printf data; zeros $((1048576 - 8196)))

printf abc >k
sysx fallocate keep 0 256K k
expect_equal "$(cat k)" abc
expect_equal "$(stat -c %s k)" 3
[ "$(blocks k)" -ge 512 ] || die "KEEP_SIZE has $(blocks k) sectors"
printf def >>k
expect_equal "$(cat k)" abcdef
sysx pwrite 100000 tail k
cmp k <(printf abcdef; zeros 99994; printf tail)

for range in "0 4096" "4096 8192" "1 100" "4095 2" "5000 20000" "60000 5536" "0 65536" "60000 100000"; do
	read -r off len <<<"$range"
	cp "$T/data" p
	sysx fallocate punch "$off" "$len" p
	end=$((off + len < 65536 ? off + len : 65536))
	cmp p <(slice "$T/data" 0 "$off"; zeros $((end - off)); slice "$T/data" "$end" 65536)
	expect_equal "$(stat -c %s p)" 65536

	cp "$T/data" z
	sysx fallocate zero "$off" "$len" z
	size=$((off + len > 65536 ? off + len : 65536))
	cmp z <(slice "$T/data" 0 "$off"; zeros "$len"; slice "$T/data" "$end" 65536)
	expect_equal "$(stat -c %s z)" "$size"

	cp "$T/data" y
	sysx zero-keep "$off" "$len" y
	cmp y p
done

cp "$T/data" p
had=$(blocks p)
sysx fallocate punch 8192 32768 p
expect_equal $((had - $(blocks p))) 64 "sectors that a punched hole gives back"
expect_equal "$(sysx map p)" "0-8192 40960-65536 "
sysx fallocate punch 0 65536 p
expect_equal "$(blocks p)" 0
expect_equal "$(sysx map p)" ""
expect_equal "$(stat -c %s p)" 65536

expect_errno EINVAL fallocate alloc 0 0 p
expect_errno EINVAL fallocate alloc -1 10 p
expect_errno EFBIG fallocate alloc 9223372036854775000 800 p
mkdir dir
expect_errno EISDIR fallocate alloc 0 10 dir
rmdir dir
if ! baseline; then
	expect_errno EOPNOTSUPP fallocate collapse 0 4096 p
	expect_errno EOPNOTSUPP fallocate insert 0 4096 p
	expect_errno ENOSPC fallocate alloc 0 100G p
	expect_equal "$(stat -c '%s %b' p)" "65536 0"
fi

check() {
	expect_equal "$(tree_of "$MNT")" "$before" tree
	expect_equal "$(stat -c '%n %b' "$MNT"/*)" "$sectors" "sectors"
}
before=$(tree_of .)
sectors=$(stat -c '%n %b' "$MNT"/*)
cd "$T"
lasting check
rm "$MNT"/*
end_fs
