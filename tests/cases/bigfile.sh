# files: yes
# timeout: 300
# A big file: 300 MiB, in the long tier 3 GiB; written in order, then here and there.
. "$(dirname "$0")/lib.sh"
mib=300
long && mib=3072
new_fs $((mib + 200))M
random_file "$T/big" ${mib}M 8
cp "$T/big" "$MNT/big"
expect_equal "$(stat -c %s "$MNT/big")" $((mib << 20))
for at in 1 4097 1000000 $((mib * 524288)) $(((mib << 20) - 5)); do
	sysx pwrite $at "here" "$T/big"
	sysx pwrite $at "here" "$MNT/big"
done
check() { cmp "$T/big" "$MNT/big"; }
lasting check
rm "$MNT/big"
# Its space is there for another.
cp "$T/big" "$MNT/again"
cmp "$T/big" "$MNT/again"
end_fs
