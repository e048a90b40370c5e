# files: yes
# File handles, as an NFS server keeps them: the same after a remount and a kill, stale when deleted.
. "$(dirname "$0")/lib.sh"
new_fs
cd "$MNT"

mkdir -p d/e
echo "in f" >f
echo "in g" >d/e/g
ln f d/link
echo "in gone" >gone
mkfifo p
handle=()
for n in f d d/e d/e/g gone p .; do handle+=("$(sysx handle-of $n)"); done
expect_equal "$(sysx handle-of d/link)" "${handle[0]}"
mv d/e e
mv f f2

cached() { [ -z "${cold:-}" ] || echo 2 >/proc/sys/vm/drop_caches; }
open() {
	cached
	sysx by-handle "${handle[$1]}" "$MNT"
}
check() {
	expect_equal "$(open 0)" "in f"
	expect_equal "$(open 1)" "$MNT/d"
	expect_equal "$(open 2)" "$MNT/e"
	expect_equal "$(open 3)" "in g"
	expect_equal "$(open 6)" "$MNT"
	[ -e "$MNT/gone" ] && expect_equal "$(open 4)" "in gone"
	expect_equal "$(cd "$MNT" && sysx handle-of e/g)" "${handle[3]}"
}
cd "$T"
check
cold=1 check
lasting check

# Deleted: nothing is found, also when the number has a new owner.
stale() {
	cached
	expect_errno ESTALE by-handle "${handle[$1]}" "$MNT"
}
rm "$MNT/gone"
stale 4
cold=1 stale 4
for i in $(seq 50); do
	echo "new $i" >"$MNT/new$i"
	stale 4
done
rm "$MNT/f2"
expect_equal "$(open 0)" "in f"
rm "$MNT/d/link"
stale 0
rm -r "$MNT/e"
stale 2
stale 3
all_stale() { for i in 0 2 3 4; do stale $i; done; }
lasting all_stale
expect_errno ESTALE by-handle "${handle[3]%??}ff" "$MNT"

# A handle holds no file, but an open descriptor does.
exec 5<"$MNT/new7"
h=$(sysx handle-of "$MNT/new7")
rm "$MNT/new7"
expect_equal "$(cat <&5)" "new 7"
exec 5<&-
expect_errno ESTALE by-handle "$h" "$MNT"
end_fs
