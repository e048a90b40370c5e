# files: yes
# timeout: 240
# Locks between processes: flock, fcntl and OFD; who has them, who waits, and how they end.
. "$(dirname "$0")/lib.sh"
needs_command python3
new_fs
run_locks() { cd "$MNT" && exec python3 "$ROOT/tests/cases/locks.py" "$@"; }
locks() { (run_locks "$@"); }
locks

# They go with their holder, also when the daemon was killed meanwhile: a new mount knows none.
coproc HOLD { run_locks hold; }
read -r said <&"${HOLD[0]}"
expect_equal "$said" held
holder=$HOLD_PID
expect_error 1 AssertionError locks free
baseline || {
	kill_fs
	mount_fs
	locks free
}
kill "$holder"
wait "$holder" 2>/dev/null || :
locks free
lasting locks free
end_fs
