# files: yes
# Regular files and directories: make, read, write, append, overwrite, remove; the same afterwards.
. "$(dirname "$0")/lib.sh"
new_fs
cd "$MNT"

printf hello >small
expect_equal "$(cat small)" hello
expect_equal "$(stat -c '%F %s %h %a' small)" "regular file 5 1 644"
printf ' world' >>small
expect_equal "$(cat small)" "hello world"
printf J | dd of=small conv=notrunc status=none
expect_equal "$(cat small)" "Jello world"
: >empty
expect_equal "$(stat -c '%F %s %b' empty)" "regular empty file 0 0"

# Every length around the sizes where something changes: inline, one block, several.
for n in 1 7 8 100 247 248 4095 4096 4097 8191 8192 65535 65536 65537 1048575 1048576 1048577; do
	random_file len.$n $n "$n"
	random_file "$T/len.$n" $n "$n"
	cmp len.$n "$T/len.$n"
done

# Overwriting in the middle, crossing a block's edge.
random_file over 64K 1
cp over "$T/over"
for at in 0 1 4095 4096 8190 12288 65535; do
	for f in over "$T/over"; do
		printf 'XYZ' | dd of="$f" bs=1 seek=$at conv=notrunc status=none
	done
	cmp over "$T/over"
done

mkdir -p d/e/f
expect_equal "$(stat -c '%F %h %a' d)" "directory 3 755"
expect_equal "$(stat -c %h d/e/f)" 2
echo deep >d/e/f/x
expect_equal "$(find d | sort | tr '\n' ' ')" "d d/e d/e/f d/e/f/x "
expect_errno ENOTEMPTY rmdir d
expect_errno EEXIST mkdir d
expect_errno ENOTDIR open rdonly small/x
expect_errno ENOTDIR open rdonly,directory small
expect_errno EISDIR open wronly d
expect_errno EISDIR unlink d
expect_errno ENOTDIR rmdir small
expect_errno ENOENT open rdonly absent
expect_errno ENOENT unlink absent
expect_errno ENOENT open rdonly,creat absent/x
rm d/e/f/x
rmdir d/e/f d/e
expect_equal "$(stat -c %h d)" 2
expect_equal "$(ls -A d)" ""

# A path is walked through many levels.
path=deep
for i in $(seq 100); do path=$path/level$i; done
mkdir -p "$path"
echo bottom >"$path/file"
expect_equal "$(cat "$path/file")" bottom

check() {
	cd "$MNT"
	cmp over "$T/over"
	for f in "$T"/len.*; do cmp "$f" "${f##*/}"; done
	expect_equal "$(cat small "$path/file")" "Jello worldbottom"
	expect_equal "$(tree_of .)" "$before" "tree"
	cd "$T"
}
before=$(tree_of .)
cd "$T"
lasting check
rm -r "$MNT/deep" "$MNT/d" "$MNT"/len.*
expect_equal "$(ls "$MNT")" "$(printf 'empty\nover\nsmall')"
end_fs
