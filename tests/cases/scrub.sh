# pmemfs scrub: sees everything, on a mount in use; finds damage and says so; goes on where it was
# ended; keeps its rate.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
new_fs 128M
mkdir "$MNT/d"
for ((k = 0; k < 200; k++)); do echo "$k" >"$MNT/d/$k"; done
head -c 20M /dev/urandom >"$MNT/big"
said=$("$PMEMFS" scrub -j "$MNT")
expect_equal "$(jq -c '[.complete, .next, .inodes, .damaged]' <<<"$said")" '[true,0,203,0]'
[ "$(jq .bytes <<<"$said")" -gt $((20 << 20)) ] || die "too little was verified: $said"
case $("$PMEMFS" scrub "$MNT") in *"203 inodes"*"no damage"*) ;; *) die "the summary is another" ;; esac

# in steps, from where it was ended, while somebody writes
(for ((k = 0; k < 300; k++)); do echo "$k" >"$MNT/d/x$((k % 7))"; done) &
expect_equal "$("$PMEMFS" scrub -j -f 150 "$MNT" | jq -c '[.complete, .damaged]')" '[true,0]'
wait
start=$(date +%s%N)
"$PMEMFS" scrub -q -r 10 "$MNT" >/dev/null
took=$((($(date +%s%N) - start) / 1000000))
[ "$took" -gt 1500 ] || die "20 MiB at 10 MiB a second took $took ms"

# one bit of the data
dd if="$MNT/big" of=block bs=4096 skip=777 count=1 status=none
umount_fs
python3 - "$IMG" block <<'END'
import sys
with open(sys.argv[1], "r+b") as f, open(sys.argv[2], "rb") as block:
    at = f.read().index(block.read()) + 1000
    f.seek(at)
    byte = f.read(1)[0]
    f.seek(at)
    f.write(bytes([byte ^ 1]))
END
mount_fs
code=0
said=$("$PMEMFS" scrub -j "$MNT") || code=$?
expect_equal "$code" 4
expect_equal "$(jq .damaged <<<"$said")" 1
expect_error 1 "not the mount point of a pmemfs" "$PMEMFS" scrub /dev/shm
expect_error 1 "one mount point is needed" "$PMEMFS" scrub
umount_fs
