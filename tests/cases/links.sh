# files: yes
# timeout: 240
# Hard and symbolic links.
. "$(dirname "$0")/lib.sh"
count=3000
long && ! baseline && count=65001
new_fs
cd "$MNT"

echo one >a
ln a b
mkdir d
ln a d/c
expect_equal "$(stat -c %h a)" 3
expect_equal "$(stat -c %i a)" "$(stat -c %i d/c)"
echo two >>d/c
expect_equal "$(cat a)" "$(printf 'one\ntwo')"
rm a
expect_equal "$(stat -c %h b)" 2
expect_equal "$(cat b)" "$(printf 'one\ntwo')"
expect_errno EEXIST link b d/c
expect_errno EPERM link d dlink
expect_errno ENOENT link absent x

mkdir many
sysx links b many/n $((count - 2))
expect_equal "$(stat -c %h b)" $count
expect_equal "$(ls many | wc -l)" $((count - 2))

for n in 1 59 60 100 200 220 1000 4000 4095; do
	target=$(printf 't%.0s' $(seq $n))
	ln -s "$target" "sym$n"
	expect_equal "$(readlink "sym$n")" "$target"
	expect_equal "$(stat -c '%F %s' "sym$n")" "symbolic link $n"
done
ln -s b through
expect_equal "$(cat through)" "$(printf 'one\ntwo')"
ln -s absent dangling
expect_errno ENOENT open rdonly dangling
ln -s loop loop
expect_errno ELOOP open rdonly loop
expect_errno ELOOP open rdonly,nofollow through
ln -s ../b d/up
expect_equal "$(cat d/up)" "$(printf 'one\ntwo')"
: >"to be a target"
ln -s "$MNT/to be a target" absolute
[ -e absolute ] || die "an absolute link does not lead there"

check() {
	expect_equal "$(tree_of "$MNT")" "$before" tree
	expect_equal "$(stat -c %h "$MNT/b")" $count
}
before=$(tree_of .)
cd "$T"
lasting check
rm -r "$MNT/many"
expect_equal "$(stat -c %h "$MNT/b")" 2
rm "$MNT/b"
expect_equal "$(cat "$MNT/d/c")" "$(printf 'one\ntwo')"
end_fs
