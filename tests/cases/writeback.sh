# timeout: 180
# sanitize: no
# -o writeback: what is handed over when, that it is durable then, and that sizes, times, O_APPEND,
# mapped files and privileges are right although the kernel keeps them.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
needs_command jq python3
make_fs 256M
mount_fs -o writeback
again() { mount_fs -o writeback; }
writes() { "$PMEMFS" top -j "$MNT" | jq '.requests.WRITE.count // 0'; }

# Kept, until it is closed, fsynced, synced; then it outlives the daemon.
cat >hold.py <<'PY'
import os, sys
fds = [os.open(p, os.O_CREAT | os.O_RDWR, 0o644) for p in sys.argv[1:]]
for n in range(1000):
    for fd in fds:
        os.write(fd, b"%07d\n" % n)
print("written", flush=True)
for line in sys.stdin:
    if line == "fsync\n":
        os.fsync(fds[0])
    elif line == "close\n":
        os.close(fds[1])
    print("done", flush=True)
PY
seq -f %07g 0 999 >want
coproc HOLD { python3 hold.py "$MNT/fsynced" "$MNT/closed" "$MNT/synced"; }
HOLD_END=$HOLD_PID
read -r _ <&"${HOLD[0]}"
expect_equal "$(writes)" 0 "writes that were handed over"
for how in fsync close; do
	echo $how >&"${HOLD[1]}"
	read -r _ <&"${HOLD[0]}"
done
expect_equal "$(writes)" 2 "writes after an fsync and a close"
expect_equal "$(cat "$MNT/synced" | sum_of -)" "$(sum_of want)" "what is kept"
sync -f "$MNT"
expect_equal "$(writes)" 3 "writes after a sync"
kill_fs
kill "$HOLD_END" 2>/dev/null || :
wait "$HOLD_END" || :
fsck_clean
again
for name in fsynced closed synced; do cmp want "$MNT/$name"; done

# Times and sizes, now and after a remount: of a write, and those that were set after one.
for i in 1 2 3; do echo $i >>"$MNT/t1" && sleep 0.02; done
echo x >"$MNT/t2"
touch -d '2001-02-03 04:05:06.789' "$MNT/t2"
truncate -s 100000 "$MNT/t3" && sleep 0.02
echo tail >>"$MNT/t3"
chmod 4755 "$MNT/t3"
times() { (cd "$MNT" && stat -c '%n %s %y %a' t1 t2 t3); }
before=$(times)
expect_match "$before" "t2 2 2001-02-03 04:05:06.789"
expect_match "$before" "t3 100005 .* 4755"
umount_fs
fsck_clean
again
expect_equal "$(times)" "$before" "times after a remount"
chmod 666 "$MNT/t3"
chmod u+s "$MNT/t3"
echo y | as 65534 tee -a "$MNT/t3" >/dev/null
expect_equal "$(stat -c %a "$MNT/t3")" 666 "set-id bits after a write by another user"

# Appending by four processes: no line is lost or torn.
for i in 1 2 3 4; do
	(for k in $(seq 500); do echo "$i-$k" >&3; done) 3>>"$MNT/log" &
done
wait
expect_equal "$(sort "$MNT/log" | uniq | wc -l)" 2000 "appended lines"

# A file that is being written is copied whole, with what lies behind a hole.
python3 - "$MNT/sparse" "$MNT/mapped" <<'PY'
import mmap, os, subprocess, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.ftruncate(fd, 1 << 20)
os.pwrite(fd, b"behind the hole", 700000)
subprocess.run(["cp", "--sparse=auto", sys.argv[1], sys.argv[1] + ".copy"], check=True)
if open(sys.argv[1] + ".copy", "rb").read()[700000:700015] != b"behind the hole":
    sys.exit("the copy lacks what was not handed over")
# Written to, mapped and O_DIRECT at a time.
fd = os.open(sys.argv[2], os.O_CREAT | os.O_RDWR)
os.write(fd, b"a" * 65536)
m = mmap.mmap(fd, 65536)
m[5000:5003] = b"map"
d = os.open(sys.argv[2], os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
if os.preadv(d, [page], 4096) != 4096 or page[904:907] != b"map":
    sys.exit("an O_DIRECT read misses what was mapped")
page[:] = b"d" * 4096
os.pwritev(d, [page], 8192)
if m[8192:8196] != b"dddd" or os.pread(fd, 1, 8192) != b"d":
    sys.exit("the mapping misses an O_DIRECT write")
PY

# Killed while it is written over and over: every page is of one round.
python3 - "$MNT/rounds" <<'PY' &
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
try:
    for n in range(100000):
        os.pwrite(fd, bytes([65 + n % 26]) * 1048576, 0)
        if n % 7 == 0:
            os.fsync(fd)
except OSError:
    pass
PY
writer=$!
sleep 1
kill_fs
wait "$writer" || :
fsck_clean
again
python3 - "$MNT/rounds" <<'PY'
import sys
data = open(sys.argv[1], "rb").read()
if len(data) != 1048576:
    sys.exit(f"{len(data)} bytes")
for at in range(0, len(data), 4096):
    page = data[at:at + 4096]
    if page.count(page[:1]) != 4096:
        sys.exit(f"a torn page at {at}")
PY

# No space: somebody is told.
if dd if=/dev/zero of="$MNT/all" bs=1M count=400 conv=fsync status=none 2>err; then die "no error"; fi
expect_match "$(<err)" "No space left"
rm "$MNT/all"
echo fits >"$MNT/fits"
end_fs
