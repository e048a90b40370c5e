# SPDX-License-Identifier: BSD-3-Clause
# What the parts have in common, inside the guest. Sourced with dash.
set -eu
dev=/dev/dax0.0
mnt=/mnt

# Lines that the host reads: what was seen, how far it is, why it failed.
say() { echo "@say $*"; }
mark() { echo "@mark $*"; }
die() {
	echo "@fail $*"
	[ ! -s /tmp/said ] || sed 's/^/@fail   /' /tmp/said
	exit 1
}
trap 'code=$?; [ $code = 0 ] || echo "@fail $vm_part.sh ended with exit code $code"' EXIT

# Said by a program, on the console as well.
run() {
	local code=0
	echo "+ $*"
	"$@" >/tmp/said 2>&1 || code=$?
	cat /tmp/said
	return $code
}

# must COMMAND...: has to succeed
must() {
	local code=0
	run "$@" || code=$?
	[ $code = 0 ] || die "$* ends with exit code $code"
}

# refused CODE REGEX COMMAND...: has to fail with that exit code (any: any but 0), saying that
refused() {
	local want=$1 regex=$2 code=0
	shift 2
	run "$@" || code=$?
	[ $code != 0 ] || die "$* succeeds"
	[ "$want" = any ] || [ $code = "$want" ] || die "$* ends with exit code $code, not $want"
	grep -Eq "$regex" /tmp/said || die "$* does not say \"$regex\""
}

equal() { [ "$1" = "$2" ] || die "${3:-value} is \"$1\", not \"$2\""; }

# show COMMAND...: must, and the host prints what it says
show() {
	must "$@"
	sed 's/^/@say   /' /tmp/said
}

fsck_clean() {
	must fsck.pmemfs -n -f "${1:-$dev}"
}

# daemon_pids: of the daemons, not of the monitors beside them
daemon_pids() {
	local pid
	for pid in $(pidof mount.pmemfs); do
		grep -qx pmemfs-monitor "/proc/$pid/comm" || echo "$pid"
	done
}

# daemons_gone [N]: waits for the daemon of a mount that is gone, which umount does not, until N
# others (none) are left
daemons_gone() {
	local n=0
	while [ "$(daemon_pids | wc -w)" -gt "${1:-0}" ]; do
		n=$((n + 1))
		[ $n -lt 300 ] || die "a daemon does not end after its unmount"
		sleep 0.1
	done
}

# unmounted [DIR [N]]
unmounted() {
	must umount "${1:-$mnt}"
	daemons_gone "${2:-0}"
}

# sysfs DEVICE ATTRIBUTE: of the character device
sysfs() {
	cat "/sys/dev/char/$(printf '%d:%d' "0x$(stat -c %t "$1")" "0x$(stat -c %T "$1")")/$2"
}
