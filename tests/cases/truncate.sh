# files: yes
# Truncation both ways, holes, and zeros where nothing was written.
. "$(dirname "$0")/lib.sh"
new_fs
cd "$MNT"

random_file "$T/data" 100K 3
zeros() { head -c "$1" /dev/zero; }

# Cut at every place that may matter, grow again: zeros, never the old bytes.
for n in 0 1 100 248 4095 4096 4097 8192 50000 65536 99999 102400; do
	cp "$T/data" f
	truncate -s "$n" f
	expect_equal "$(stat -c %s f)" "$n"
	cmp f <(slice "$T/data" 0 "$n")
	truncate -s 110000 f
	cmp f <(slice "$T/data" 0 "$n"; zeros $((110000 - n)))
	truncate -s 3000 f
	truncate -s 9000 f
	m=$((n < 3000 ? n : 3000))
	cmp f <(slice "$T/data" 0 "$m"; zeros $((9000 - m)))
done
printf 1234567890 >g
truncate -s 4 g
printf x | dd of=g bs=1 seek=20 conv=notrunc status=none
cmp g <(printf 1234; zeros 16; printf x)

# Writing past the end leaves a hole.
sysx pwrite 1M end hole
expect_equal "$(stat -c %s hole)" 1048579
cmp hole <(zeros 1048576; printf end)
[ "$(stat -c %b hole)" -le 16 ] || die "a hole of 1 MiB takes $(stat -c %b hole) sectors"
expect_equal "$(sysx seek data 0 hole)" 1048576
expect_equal "$(sysx seek hole 0 hole)" 0
expect_equal "$(sysx seek hole 1048576 hole)" 1048579
expect_errno ENXIO seek data 1048579 hole
expect_errno ENXIO seek hole 1048580 hole

truncate -s 3T far
expect_equal "$(stat -c '%s %b' far)" "3298534883328 0"
sysx pwrite 2T there far
expect_equal "$(slice far $((2 << 40)) 5)" there
expect_equal "$(sysx seek data 0 far)" $((2 << 40))
expect_equal "$(stat -c %s far)" 3298534883328
truncate -s 1T far
expect_equal "$(stat -c '%s %b' far)" "1099511627776 0"
rm far
expect_errno EINVAL truncate -1 g
expect_errno EFBIG pwrite 9223372036854775000 x g

# A size that stays the same is a change of its times all the same.
touch -d '2001-01-01 UTC' g
truncate -s 21 g
[ "$(stat -c %Y g)" -gt 1500000000 ] || die "ftruncate to the same size left mtime"

check() { expect_equal "$(tree_of "$MNT")" "$before" tree; }
before=$(tree_of .)
cd "$T"
lasting check
end_fs
