# files: yes
# Extended attributes: user., trusted., security.
. "$(dirname "$0")/lib.sh"
new_fs
cd "$MNT"

value() { getfattr --only-values -h -n "$1" "$2" 2>/dev/null; }
names() { getfattr -h -m- "$1" 2>/dev/null | grep -v '^#' | sed '/^$/d' | sort | tr '\n' ' '; }

: >f
mkdir d
setfattr -n user.color -v blue f
setfattr -n user.empty f
setfattr -n trusted.overlay.opaque -v y d
setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 f
setfattr -n user.d -v dir d
expect_equal "$(value user.color f)" blue
expect_equal "$(names f)" "security.capability user.color user.empty "
expect_equal "$(names d)" "trusted.overlay.opaque user.d "
expect_equal "$(sysx getxattr f user.empty 0)" 0
expect_equal "$(sysx getxattr f user.color 0)" 4
expect_errno ERANGE getxattr f user.color 3
expect_errno ENODATA getxattr f user.absent 10
setfattr -n user.color -v 'a longer value than before' f
expect_equal "$(value user.color f)" 'a longer value than before'

sysx setxattr create f user.new 1
expect_errno EEXIST setxattr create f user.new 2
expect_errno ENODATA setxattr replace f user.other 2
sysx setxattr replace f user.new 3
expect_equal "$(value user.new f)" 3
setfattr -x user.new f
expect_errno ENODATA removexattr f user.new
expect_errno EOPNOTSUPP setxattr any f strange.name 1
ln -s f l
expect_errno EPERM setxattr any l user.x 1
setfattr -h -n trusted.x -v onlink l
expect_equal "$(value trusted.x l)" onlink

# Long names and values.
n255=user.$(printf 'n%.0s' $(seq 250))
sysx setxattr any f "$n255" v
expect_equal "$(sysx getxattr f "$n255" 0)" 1
expect_errno ERANGE setxattr any f "${n255}x" v
for n in 1 100 1000 2000; do
	sysx setxattr any f user.value $(printf "=%d" $n)
	expect_equal "$(sysx getxattr f user.value 1048576)" $n
done
if ! baseline; then
	for n in 4000 5000 20000 65536; do
		sysx setxattr any f user.value "=$n"
		expect_equal "$(sysx getxattr f user.value 1048576)" "$n"
	done
	for i in $(seq 200); do setfattr -n "user.many$i" -v "value $i" d; done
	expect_equal "$(names d | wc -w)" 202
	expect_equal "$(value user.many77 d)" "value 77"
	for i in $(seq 1 2 200); do setfattr -x "user.many$i" d; done
	expect_equal "$(names d | wc -w)" 102
fi
expect_errno E2BIG setxattr any f user.value =65537
chmod 644 f
expect_error 1 "permitted|denied" as 1001 setfattr -n user.z -v 1 f
if as 1001 getfattr -n trusted.overlay.opaque d 2>/dev/null; then die "a user read trusted."; fi

# Writing to a file takes its capabilities away.
echo x >>f
expect_errno ENODATA getxattr f security.capability 100

# They do not stay with a name.
rm f
: >f
expect_equal "$(names f)" ""
setfattr -n user.kept -v 1 f
mv f moved

check() { expect_equal "$(tree_of "$MNT")" "$before" tree; }
before=$(tree_of .)
cd "$T"
lasting check
end_fs
