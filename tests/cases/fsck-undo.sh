# timeout: 120
# What fsck changes can be taken back: byte for byte, also after a repair that was killed.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
new_fs 64M
mkdir "$MNT/d"
for i in $(seq 200); do echo "file $i" >"$MNT/d/a name that makes the log long $i"; done
random_file "$MNT/large" 3M
kill_fs

# Damage in the middle of the log of /d: found by its names.
off=$(grep -abo "log long 30" img | head -n 1 | cut -d: -f1)
printf '\xff\xff' | dd of=img bs=1 seek="$off" conv=notrunc status=none
before=$(sum_of img)
code=0
"$FSCK" -y -b saved img >out || code=$?
expect_equal $code 1 "repair"
[ "$(sum_of img)" != "$before" ] || die "the repair changed nothing"
fsck_clean
expect_error 8 "saved.*exists" "$FSCK" -y -f -b saved img
code=0
"$FSCK" --undo=saved img >out || code=$?
expect_equal $code 1 "undo"
expect_equal "$(sum_of img)" "$before" "the image after the undo"

# Cut short at any moment.
for k in 1 2 3 4 5 6; do
	rm -f saved
	timeout -s KILL "0.00$k" "$FSCK" -y -b saved img >out 2>&1 || :
	[ ! -s saved ] || "$FSCK" --undo=saved img >out || [ $? = 1 ] || die "undo after a kill"
	expect_equal "$(sum_of img)" "$before" "the image after a killed repair and the undo"
done

# -n saves nothing and says nothing of it; what is no undo file of this filesystem is refused.
rm -f saved
"$FSCK" -n -b saved img >out || [ $? = 4 ] || die "fsck -n"
[ ! -e saved ] || die "-n made an undo file"
echo nonsense >nonsense
expect_error 8 "nonsense.*no undo file" "$FSCK" --undo=nonsense img
"$FSCK" -y -b saved img >out || :
"$MKFS" -q --no-calibrate --size 64M other
expect_error 8 "saved.*another filesystem" "$FSCK" --undo=saved other
expect_error 8 "none.*No such file" "$FSCK" --undo=none img
expect_error 16 "does not go with" "$FSCK" --undo=saved -y img
# A last record that is torn does not count.
truncate -s -5 saved
"$FSCK" --undo=saved img >out || [ $? = 1 ] || die "undo of a torn file"
