# files: yes
# timeout: 300
# A directory of many files: 20,000, in the long tier 200,000.
. "$(dirname "$0")/lib.sh"
count=20000
long && count=200000
new_fs 1G
mkdir "$MNT/d"
sysx create "$MNT/d/a-rather-usual-file-name-" $count
cd "$T"
seq 0 $((count - 1)) | sed 's/^/a-rather-usual-file-name-/' | sort >all
check() {
	sysx getdents "$MNT/d" 65536 | sort | cmp - all
	[ -e "$MNT/d/a-rather-usual-file-name-$((count / 3))" ] || die "a file cannot be looked up"
	[ ! -e "$MNT/d/a-rather-usual-file-name-$count" ] || die "a file that was never made"
}
lasting check
(cd "$MNT/d" && grep '[02468]$' "$T/all" | xargs rm)
grep '[13579]$' all >odd
mv odd all
expect_equal "$(sysx getdents "$MNT/d" 65536 | sort | cmp - all)" ""
(cd "$MNT/d" && xargs rm <"$T/all")
expect_equal "$(ls -A "$MNT/d")" ""
rmdir "$MNT/d"
end_fs
