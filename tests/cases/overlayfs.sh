# files: yes
# overlayfs with the mount as its upper and work directory: create, rename, whiteout, copy-up.
. "$(dirname "$0")/lib.sh"
grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || skip "no overlayfs in this kernel"
new_fs
mkdir "$T/lower" "$T/merged" "$MNT/upper" "$MNT/work"
mkdir -p "$T/lower/d/sub" "$T/lower/gone"
for f in a b c d/x d/y d/sub/z gone/f; do echo "lower $f" >"$T/lower/$f"; done

mount_over() {
	mount -t overlay over "$T/merged" \
		-o "lowerdir=$T/lower,upperdir=$MNT/upper,workdir=$MNT/work,redirect_dir=on,index=off,metacopy=off"
}
mount_over
trap 'umount -l "$T/merged" 2>/dev/null || :; ! baseline || rm -rf "$MNT"' EXIT
cd "$T/merged"
# What overlayfs finds wanting in the filesystem it says in the kernel's log, and works in part.
echo new >n
echo upper >>a
chmod 600 b
setfattr -n user.x -v 1 b
mv c moved
mv d dir
rm dir/y
rm -r gone
mkdir gone
mv n dir/n
ln dir/x hard
expect_equal "$(cat a)" $'lower a\nupper'
expect_equal "$(cat dir/n dir/sub/z moved hard | tr '\n' ,)" "new,lower d/sub/z,lower c,lower d/x,"
expect_equal "$(ls)" $'a\nb\ndir\ngone\nhard\nmoved'
expect_equal "$(ls gone)" ""
expect_equal "$(stat -c '%F %t:%T' "$MNT/upper/c")" "character special file 0:0"
expect_equal "$(cd "$T/lower" && find . -type f | wc -l)" 7 "files of the lower directory"
want=$(tree_of .)
cd "$T"
umount "$T/merged"

check() {
	mount_over
	expect_equal "$(tree_of "$T/merged")" "$want"
	umount "$T/merged"
}
lasting check
mount_over
rm -r "$T/merged"/*
expect_equal "$(ls "$T/merged")" ""
umount "$T/merged"
end_fs

# By hand: the whiteout is there as the name goes.
mount_fs
cd "$MNT"
echo 1 >w
mkdir wd
sysx rename whiteout w moved
expect_equal "$(stat -c '%F %t:%T %a %u' w)" "character special file 0:0 0 0"
expect_equal "$(cat moved)" 1
expect_errno EEXIST rename whiteout,noreplace moved w
sysx rename whiteout,noreplace moved wd/again
expect_equal "$(cat wd/again)" 1
sysx rename whiteout wd/again moved
sysx rename whiteout wd dir
expect_equal "$(stat -c '%F' wd)" "character special file"
expect_errno EINVAL rename whiteout,exchange moved w
chmod 777 .
as 1001 "$PMEMFS_BUILD/tests/cases/sysx" rename whiteout moved w2
expect_equal "$(stat -c '%t:%T %a %u:%g' moved)" "0:0 0 1001:1001"
cd "$T"
end_fs
