# files: yes
# timeout: 400
# cp -a of a real tree, rsync finds no difference; tar out and in; the long tier takes /usr/share.
. "$(dirname "$0")/lib.sh"
needs_command rsync tar
trees=(/usr/include)
size=1G
if long; then
	trees+=(/usr/share)
	size=4G
fi
new_fs $size
for tree in "${trees[@]}"; do cp -a "$tree" "$MNT/"; done

same() {
	local tree said
	for tree in "${trees[@]}"; do
		said=$(rsync -aHAXnci --delete "$tree/" "$MNT/${tree##*/}/")
		expect_equal "$said" "" "rsync of $tree"
	done
}
lasting same

# Sparse files and attributes through an archive that lies on the filesystem itself.
mkdir "$MNT/s"
sysx pwrite 5M middle "$MNT/s/sparse"
truncate -s 64M "$MNT/s/sparse"
setfattr -n user.note -v kept "$MNT/s/sparse"
ln "$MNT/s/sparse" "$MNT/s/second"
tar -C "$MNT" --sparse --xattrs -cf "$MNT/archive.tar" s include/linux
[ "$(stat -c %s "$MNT/archive.tar")" -lt $((40 << 20)) ] || die "the archive holds the holes"
mkdir "$MNT/out"
tar -C "$MNT/out" --sparse --xattrs --xattrs-include='*' -xpf "$MNT/archive.tar"
unpacked() {
	expect_equal "$(rsync -aHAXnci --delete "$MNT/s/" "$MNT/out/s/")" "" "tar"
	expect_equal "$(rsync -aHAXnci --delete /usr/include/linux/ "$MNT/out/include/linux/")" "" "tar"
	expect_equal "$(getfattr --only-values -n user.note "$MNT/out/s/second")" kept
	[ "$(stat -c %b "$MNT/out/s/sparse")" -le 64 ] || die "the holes were filled"
}
lasting unpacked
rm -rf "${MNT:?}"/*
end_fs
