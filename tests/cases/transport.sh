# timeout: 180
# How requests arrive: the options, and that neither polling nor blocking loses a request when
# load comes and goes, from one process and from many, and when the daemon is told to end.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
make_fs 256M
for bad in transport=pigeon poll_us=1001 poll_us=x threads=0 threads=1025; do
	expect_one_line 1 "option \"$bad\"" "$MOUNT" "$IMG" "$MNT" -o "$bad"
done

# Bursts by one process and by eight, with pauses in between that end the polling.
load() {
	local round i pids
	for round in 1 2 3 4; do
		mkdir "$MNT/d"
		for i in $(seq 50); do echo "$i" >"$MNT/d/$i"; done
		pids=()
		for i in 1 2 3 4 5 6 7 8; do
			(for k in $(seq 20); do echo "$i $k" >"$MNT/d/$i-$k" && mv "$MNT/d/$i-$k" "$MNT/d/$i+$k"; done
			dd if=/dev/zero of="$MNT/d/big$i" bs=1M count=4 status=none) &
			pids+=($!)
		done
		wait "${pids[@]}"
		expect_equal "$(ls "$MNT/d" | wc -l)" 218
		sleep 0.0$round
		rm -r "$MNT/d"
	done
}
for options in poll_us=0 poll_us=30 poll_us=1000 threads=1 threads=1,poll_us=0 threads=2; do
	mount_fs -o "$options"
	load
	end_fs
done

# Told to end while all is at rest, and while a process writes.
for options in poll_us=0 poll_us=1000; do
	mount_fs -o "$options"
	pid=$(daemon_pid)
	sleep 0.2
	kill "$pid"
	wait_pid "$pid" 5
	mountpoint -q "$MNT" && die "still mounted"
	mount_fs -o "$options"
	pid=$(daemon_pid)
	(while echo x >&3; do :; done) 3>>"$MNT/f" 2>/dev/null &
	writer=$!
	sleep 0.3
	kill "$pid"
	wait_pid "$pid" 10
	wait "$writer" || :
	fsck_clean
done

# What this kernel does not offer is said, and mounted without.
if [ "$(cat /sys/module/fuse/parameters/enable_uring 2>/dev/null)" != Y ]; then
	said=$("$MOUNT" "$IMG" "$MNT" -o transport=uring 2>&1)
	expect_match "$said" "transport=uring.*threads"
	echo y >"$MNT/g"
	end_fs
fi
