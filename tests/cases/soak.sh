# timeout: 7200
# tier: long
# sanitize: no
# Twenty minutes (SOAK_SECONDS) of eight processes that verify what they do: fio buffered, direct,
# mapped, and appending with fsync; three that make random operations and compare with the model;
# one that unpacks a tree, compares and removes it. No error, memory that does not grow, fsck clean.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
needs_command fio
seconds=${SOAK_SECONDS:-1200}
new_fs 3G
pid=$(daemon_pid)
until=$((SECONDS + seconds))
mkdir "$MNT/fio"

# Again and again, with other data each time; what was written is read and compared at the end of each.
load_fio() {
	local name=$1 round=0
	shift
	while [ $SECONDS -lt $until ]; do
		fio --minimal --output="fio.$name" --name="$name" --directory="$MNT/fio" --size=64M \
			--verify=crc32c --verify_fatal=1 --randseed=$((++round)) --io_size=128M "$@" \
			>"fio.$name.err" 2>&1 || { tail -n 5 "fio.$name" "fio.$name.err"; return 1; }
	done
}
load_diff() {
	local seed=$1
	while [ $SECONDS -lt $until ]; do
		"$PMEMFS_BUILD/tests/diff/diff" --seed $((seed += 10)) --steps 2000 --no-core --mount "$MNT" \
			>"diff.$1" 2>&1 || { tail -n 20 "diff.$1"; return 1; }
	done
}
load_tree() {
	local k=0
	while [ $SECONDS -lt $until ]; do
		cp -a "$ROOT/lib" "$ROOT/tests" "$MNT/tree" && diff -r "$ROOT/lib" "$MNT/tree/lib" &&
			diff -r "$ROOT/tests" "$MNT/tree/tests" && rm -r "$MNT/tree/lib" "$MNT/tree/tests" ||
			{ echo "the tree is not what was copied"; return 1; }
	done
}
mkdir "$MNT/tree"
load_fio buffered --rw=randwrite --bsrange=512-64k --ioengine=psync &
load_fio direct --rw=randwrite --bs=4k --direct=1 --ioengine=libaio --iodepth=8 &
load_fio mapped --rw=randwrite --bs=4k --ioengine=mmap &
load_fio fsynced --rw=write --bs=16k --fsync=1 --ioengine=psync --io_size=32M --size=32M &
for seed in 1000001 2000002 3000003; do load_diff $seed & done
load_tree &

# Memory of its own: the medium that is mapped does not count.
memory() { awk '/^RssAnon/ { print $2 }' "/proc/$pid/status"; }
most=0 later=0
while [ $SECONDS -lt $until ]; do
	sleep 2
	now=$(memory)
	if [ $((until - SECONDS)) -gt $((seconds / 2)) ]; then
		most=$((now > most ? now : most))
	else
		later=$((now > later ? now : later))
	fi
done
fail=0
for _ in 1 2 3 4 5 6 7 8; do wait -n || fail=1; done
expect_equal $fail 0 "a load failed"
echo "the daemon's memory: $most KiB at most in the first half, $later in the second"
[ "$later" -le $((most + most / 10 + 2048)) ] || die "it grew"
end_fs
