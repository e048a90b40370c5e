# files: yes
# O_EXCL, O_TRUNC, O_APPEND, O_TMPFILE, O_DIRECT, mappings, handles, copies, files without a name.
. "$(dirname "$0")/lib.sh"
new_fs
cd "$MNT"

sysx open creat,excl,wronly a
expect_errno EEXIST open creat,excl,wronly a
ln -s nowhere l
expect_errno EEXIST open creat,excl,wronly l
sysx open creat,wronly l
[ -e nowhere ] || die "O_CREAT through a link made nothing"
echo content >a
sysx open wronly,trunc a
expect_equal "$(stat -c '%s %b' a)" "0 0"
sysx open creat,rdwr new 0000
expect_equal "$(stat -c %a new)" 0

sysx append-many log 4 250
expect_equal "$(wc -l <log)" 1000 "lines of four appending processes"
expect_equal "$(sort log | uniq -c | awk '$1 != 1' | wc -l)" 0
for p in 0 1 2 3; do
	expect_equal "$(grep -c "^process $p line" log)" 250
	grep "^process $p " log | sort -c -k4n || die "lines of process $p out of order"
done

expect_equal "$(sysx orphan o)" "nlink 0 size 123 mode 400"
[ ! -e o ] || die "an unlinked file is there"

# libfuse has O_TMPFILE from 3.17 on.
if ! baseline && "$MOUNT" --version | grep -Eq 'libfuse 3\.1[0-6]'; then
	expect_errno EOPNOTSUPP tmpfile . text given
else
	expect_equal "$(sysx tmpfile . text given)" "nlink 1 size 4"
	expect_equal "$(cat given)" text
	sysx tmpfile . unnamed
	expect_equal "$(stat -c '%h %a' given)" "1 640"
fi

echo by handle >h
expect_equal "$(sysx by-handle "$(sysx handle-of h)" .)" "by handle"

for range in "0 4096" "4096 65536" "0 1048576" "1048576 4096"; do
	read -r off len <<<"$range"
	sysx direct-write direct "$off" "$len" D
	expect_equal "$(sysx direct-read direct "$off" "$len" D)" "$len"
done
expect_equal "$(stat -c %s direct)" $((1048576 + 4096))
expect_equal "$(sysx direct-read direct 1048576 65536 D)" 4096
expect_equal "$(tr -d D <direct | wc -c)" 0 "bytes that were not written"
printf buffered | dd of=direct conv=notrunc status=none
expect_equal "$(head -c 9 direct)" bufferedD

random_file m 40000 9
cp m "$T/m"
sysx mmap-write m 4090 "across a page"
sysx pwrite 4090 "across a page" "$T/m"
cmp m "$T/m"
expect_equal "$(sysx mmap-read m 4090 13)" "across a page"
sysx pwrite 100 "written beside" m
expect_equal "$(sysx mmap-read m 100 14)" "written beside"
sysx pwrite 100 "written beside" "$T/m"

random_file c1 300000 5
expect_equal "$(sysx copy-range c1 0 300000 c2 0)" 0
cmp c1 c2
expect_equal "$(sysx copy-range c1 1000 5000 c2 200)" 0
cmp c2 <(slice c1 0 200; slice c1 1000 5000; slice c1 5200 294800)

for f in fsync fdatasync syncfs; do sysx $f c1; done
sysx fsync .
flock -n c1 true
(
	flock -n 8
	expect_error 1 '.*' flock -n c1 true
) 8<c1

check() {
	expect_equal "$(tree_of "$MNT")" "$before" tree
	cmp "$MNT/m" "$T/m"
}
before=$(tree_of .)
cd "$T"
lasting check
end_fs
