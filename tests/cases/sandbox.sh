# timeout: 180
# The daemon is confined: nothing that an intruder would want works, everything that it needs does,
# for root and for a user who owns the image. See also perms.sh (groups) and unmount.sh (signals).
. "$(dirname "$0")/lib.sh"
needs_pmemfs
needs_command python3
escape() { "$PMEMFS_BUILD/tests/cases/escape" "$@"; }
kernel_has_filters() { grep -q ^Seccomp_filters /proc/self/status; }

# ---- the sandbox by itself -------------------------------------------------------------------

if ! kernel_has_filters; then
	echo "this kernel has no seccomp filters"
elif [ -z "${PMEMFS_SANITIZE:-}" ]; then
	escape work
	said=$(escape attempts) || die "out of the sandbox: $said"
	code=0
	said=$(escape rings) || code=$?
	[ $code = 0 ] || [ $code = 77 ] || die "through io_uring: $code $said"
	# What is left, whatever the arguments: a longer list is a decision.
	printf '%s\n' read write open close poll munmap brk rt_sigaction rt_sigprocmask writev \
		sched_yield mremap msync madvise dup2 nanosleep getpid exit gettimeofday sysinfo \
		rt_sigtimedwait rt_sigpending gettid futex sched_getaffinity restart_syscall clock_gettime \
		clock_nanosleep exit_group openat set_robust_list getrandom rseq clone3 | sort >expected
	young() { grep -Ev '^(4[5-9]|50|51)[0-9]$|^(cachestat|fchmodat2|map_shadow_stack|futex_(wake|wait|requeue))$'; }
	escape list >list
	expect_equal "$(young <list | sort)" "$(<expected)" "calls that do not kill"
	expect_equal "$(wc -l <list)" $(($(wc -l <expected) + 61)) "these, and those that are answered as unknown"
	expect_equal "$(escape list-uring | young | sort)" "$(echo io_uring_enter | sort expected -)" "calls with io_uring"
fi

# ---- a daemon --------------------------------------------------------------------------------

# confined PID: every thread of it
confined() {
	local task line
	for task in /proc/"$1"/task/*; do
		# TSan has a thread of its own, from the very beginning.
		[ "${PMEMFS_SANITIZE:-}" != tsan ] || [ "${task##*/}" = "$1" ] || continue
		for line in CapInh:0000000000000000 CapPrm:0000000000000000 CapEff:0000000000000000 \
			CapAmb:0000000000000000 NoNewPrivs:1 Seccomp:2; do
			[ $line != Seccomp:2 ] || kernel_has_filters || continue
			tr -d '\t' <"$task/status" | grep -qx $line || die "no $line in $task"
		done
	done
}
monitor_of() { pgrep -P "$1"; }
open_files() { find "/proc/$1/fd" -mindepth 1 -printf '%l\n'; }

# load: so many requests at a time that there are several threads
load() {
	local i pids=()
	for i in 1 2 3 4; do
		(for k in $(seq 50); do echo "$i $k" >"$MNT/f$i" && cat "$MNT/f$i"; done >/dev/null
		dd if=/dev/zero of="$MNT/big$i" bs=1M count=4 status=none) &
		pids+=($!)
	done
	wait "${pids[@]}"
	rm "$MNT"/f? "$MNT"/big?
}

make_fs 256M
mount_fs -o poll_us=0
pid=$(daemon_pid)
confined "$pid"
load
[ "$(ls "/proc/$pid/task" | wc -l)" -ge 4 ] || die "too few threads to look at"
confined "$pid"
expect_equal "$(grep -c '^CapBnd:	0*$' "/proc/$pid/status")" 1 "empty bounding sets of root's daemon"
# It has the medium, /dev/fuse and its monitor open; the monitor has none of the former two.
expect_equal "$(open_files "$pid" | grep -Ec "^($IMG|/dev/fuse)\$")" 2 "the image and /dev/fuse"
expect_equal "$(open_files "$pid" | grep -Evc "^($IMG|/dev/fuse|/dev/null|socket:.*|anon_inode:\[?eventfd\]?)\$" || :)" 0 "other open files"
expect_equal "$(open_files "$pid" | grep -c socket:)" 1 "sockets"
monitor=$(monitor_of "$pid")
expect_equal "$(open_files "$monitor" | grep -Evc '^(/dev/null|socket:.*)$' || :)" 0 "files of the monitor"
! grep -q "$IMG" "/proc/$monitor/maps" || die "the monitor maps the image"
expect_equal "$(readlink "/proc/$monitor/cwd")" /
# CAP_SYS_ADMIN unmounts, CAP_DAC_READ_SEARCH finds the way.
expect_match "$(<"/proc/$monitor/status")" "CapEff:.0000000000200004" "capabilities of the monitor"
# Both end together, however.
umount_fs
wait_pid "$monitor" 2
mount_fs
pid=$(daemon_pid)
monitor=$(monitor_of "$pid")
kill_fs
wait_pid "$monitor" 2

# The daemon without its monitor serves, and ends; what it cannot take away is left.
mount_fs
pid=$(daemon_pid)
kill -9 "$(monitor_of "$pid")"
load
kill "$pid"
wait_pid "$pid" 10
umount -l "$MNT"
expect_equal "$(info clean)" true "clean although the monitor was gone"

# Busy when it is told to end, while its only thread asks for groups: none waits for the other.
mount_fs -o threads=1
pid=$(daemon_pid)
mkdir -m 777 "$MNT/open"
: >"$MNT/open/f"
chown 1001:1001 "$MNT/open/f"
chmod 2666 "$MNT/open/f"
(while as 1002 "$PMEMFS_BUILD/tests/cases/sysx" pwrite 0 x "$MNT/open/f"; do
	as 1001 chmod 2666 "$MNT/open/f"
done >/dev/null 2>&1) &
writer=$!
exec 7>>"$MNT/open/held"
sleep 0.3
kill "$pid"
wait_pid "$pid" 10
exec 7>&-
wait "$writer" || :
! mountpoint -q "$MNT" || die "still mounted"
fsck_clean

# Recovery, which reads all of the medium, is in the sandbox; who dies in it leaves no mount.
mount_fs
mkdir "$MNT/d"
sysx create "$MNT/d/f" 60000
kill_fs
cat >catch.py <<'END'
import os, signal, subprocess, sys
mount, image, point = sys.argv[1:]
for n in range(100):
    p = subprocess.Popen([mount, image, point, "-o", "silent,recovery_threads=1"], stderr=subprocess.DEVNULL)
    daemon = 0
    while p.poll() is None:
        try:
            if not daemon:
                daemon = int((open(f"/proc/{p.pid}/task/{p.pid}/children").read().split() or [0])[0])
            elif "Seccomp:\t2" in open(f"/proc/{daemon}/status").read():
                os.kill(daemon, signal.SIGKILL)
                break
        except OSError:
            pass
    if p.wait() != 0:
        sys.exit(0)
    subprocess.run(["umount", "-l", point])
sys.exit("it was never seen confined and not ready")
END
if kernel_has_filters; then
	python3 catch.py "$MOUNT" "$IMG" "$MNT"
	for try in $(seq 40); do mountpoint -q "$MNT" || break; sleep 0.05; done
	! mountpoint -q "$MNT" || die "a daemon that died before it was ready left its mount"
fi

# For debuggers and profilers only, and not in silence.
said=$("$MOUNT" "$IMG" "$MNT" -o nosandbox 2>&1)
expect_match "$said" "not confined"
expect_match "$(<"/proc/$(daemon_pid)/status")" "Seccomp:.0" "nosandbox"
end_fs

# A kernel without filters is told of, and no reason to have no filesystem.
said=$(escape old-kernel "$MOUNT" "$IMG" "$MNT" -o silent 2>&1)
expect_match "$said" "no seccomp filters"
expect_equal "$(wc -l <<<"$said")" 1 "lines about a kernel without filters"
expect_match "$(<"/proc/$(daemon_pid)/status")" "CapEff:.0000000000000000" "capabilities without filters"
expect_match "$(<"/proc/$(daemon_pid)/status")" "NoNewPrivs:.1" "privileges without filters"
end_fs

# ---- an image brings no privileges -----------------------------------------------------------

has() { expect_match ",$(findmnt -rnfo VFS-OPTIONS "$MNT")," ",$1," "mount options"; }
lacks() { ! grep -q ",$1," <<<",$(findmnt -rnfo VFS-OPTIONS "$MNT"),"  || die "$1 with $2"; }
for options in silent defaults exec; do
	mount_fs -o $options
	has nosuid
	has nodev
	lacks noexec $options
	[ -e "$MNT/id" ] || { cp /usr/bin/id "$MNT/id"; mknod "$MNT/null" c 1 3; }
	chmod 4755 "$MNT/id"
	chmod 666 "$MNT/null"
	expect_equal "$(as 1001 "$MNT/id" -u)" 1001 "who runs a set-id program with -o $options"
	expect_errno EACCES open rdonly "$MNT/null"
	umount_fs
done
mount_fs -o suid,dev
lacks nosuid suid
lacks nodev dev
expect_equal "$(as 1001 "$MNT/id" -u)" 0 "who runs a set-id program with -o suid"
sysx open rdonly "$MNT/null" >/dev/null
# A remount leaves what it does not name.
"$MOUNT" "$IMG" "$MNT" -o remount,ro
lacks nosuid remount
"$MOUNT" "$IMG" "$MNT" -o remount,rw,nosuid
has nosuid
lacks nodev remount
umount_fs
mount_fs
"$MOUNT" "$IMG" "$MNT" -o remount,ro
has nosuid
has nodev
umount_fs

# ---- a user who owns the image ---------------------------------------------------------------

command -v fusermount3 >/dev/null && command -v unshare >/dev/null || {
	echo "no fusermount3: only root was tried"
	exit 0
}
mkdir -m 755 user
cat >as_user <<'END'
. "$ROOT/tests/cases/lib.sh"
IMG=$T/user/img MNT=$T/user/mnt
# What else is mounted now must not stay mounted for the sake of this namespace.
findmnt -rno TARGET -t fuse.pmemfs | xargs -r umount -l 2>&1 || :
# fusermount3 asks for the user's name.
getent passwd 1001 >/dev/null || {
	{ cat /etc/passwd; echo tester:x:1001:1001::/:/bin/sh; } >passwd
	mount --bind passwd /etc/passwd
}
# The node as udev makes it.
mkdir dev
mount -t tmpfs none dev
mknod -m 666 dev/fuse c 10 229
mount --bind dev/fuse /dev/fuse
truncate -s 64M "$IMG"
mkdir "$MNT"
chown -R 1001:1001 user
as 1001 "$MKFS" -q --no-calibrate "$IMG"
"$@"
END
export ROOT
served_to_user() {
	as 1001 "$MOUNT" "$IMG" "$MNT" -o silent,suid,dev
	has nosuid
	has nodev
	pid=$(daemon_pid)
	confined "$pid"
	expect_equal "$(stat -c %u "/proc/$pid")" 1001 "whose daemon it is"
	as 1001 cp /usr/bin/id "$MNT/id"
	load_as_user
	"$@"
	wait_pid "$pid" 10
	! mountpoint -q "$MNT" || die "still mounted after $*"
	expect_equal "$(info clean)" true "clean after $*"
	fsck_clean
}
load_as_user() { as 1001 sh -c 'for i in $(seq 100); do echo $i >"$0/f$i"; done; rm "$0"/f*' "$MNT"; }
by_fusermount() { as 1001 fusermount3 -u "$MNT"; }
by_sigterm() { as 1001 kill "$pid"; }
by_sigterm_busy() {
	: >"$T/sleeper"
	chmod 666 "$T/sleeper"
	as 1001 sh -c 'echo $$ >"$1"; exec sleep 100 <"$0"' "$MNT/id" "$T/sleeper" &
	sleep 0.2
	as 1001 kill "$pid"
	wait_pid "$pid" 10
	kill "$(cat "$T/sleeper")" # it would keep other mounts alive, in this namespace
}
by_root() { umount "$MNT"; }
all_as_user() {
	for how in by_fusermount by_sigterm by_sigterm_busy by_root; do served_to_user $how; done
}
export -f served_to_user load_as_user by_fusermount by_sigterm by_sigterm_busy by_root all_as_user \
	confined has kernel_has_filters
export MOUNT
unshare -m bash as_user all_as_user
