# SPDX-License-Identifier: BSD-3-Clause
# What the shell cases share; tests/README.md tells how one is written and run.
#
# A case runs in an empty scratch directory of its own, $T. What it is given, by tests/run:
#   PMEMFS_BUILD  the build directory
#   PMEMFS_LONG   1 in the long tier
#   PMEMFS_DIR    optional: a directory of another filesystem. Cases that only use files then run
#                 there (the baseline that pmemfs is held against), the others are skipped.

set -Eeuo pipefail
trap '[ "$BASH_SUBSHELL" -gt 0 ] || echo "${BASH_SOURCE[0]##*/}:$LINENO: failed: $BASH_COMMAND" >&2' ERR
export LC_ALL=C
umask 022

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${PMEMFS_BUILD:=$ROOT/build}"
T=$PWD
IMG=$T/img
MNT=$T/mnt
MKFS=$PMEMFS_BUILD/mkfs/mkfs.pmemfs
FSCK=$PMEMFS_BUILD/fsck/fsck.pmemfs
MOUNT=$PMEMFS_BUILD/fs/mount.pmemfs
PMEMFS=$PMEMFS_BUILD/fs/pmemfs
sysx() { "$PMEMFS_BUILD/tests/cases/sysx" "$@"; }

# ---- results ---------------------------------------------------------------------------------

die() {
	echo "${BASH_SOURCE[-1]##*/}:${BASH_LINENO[-2]}: $*" >&2
	exit 1
}

skip() {
	echo "$*"
	exit 77
}

long() { [ "${PMEMFS_LONG:-0}" = 1 ]; }
baseline() { [ -n "${PMEMFS_DIR:-}" ]; }
needs_pmemfs() { ! baseline || skip "only of pmemfs"; }
needs_command() {
	local c
	for c; do
		command -v "$c" >/dev/null || skip "no command $c"
	done
}

# expect_equal GOT WANT [WHAT]
expect_equal() {
	[ "$1" = "$2" ] && return
	printf '%s: expected\n%s\ngot\n%s\n' "${3:-values differ}" "$2" "$1" >&2
	die "${3:-not equal}"
}

# expect_match TEXT REGEX [WHAT]: an extended regular expression, upper and lower case alike
expect_match() {
	grep -Eiq -- "$2" <<<"$1" || die "${3:-text} does not match '$2': $1"
}

# expect_error CODE REGEX COMMAND...: it exits with CODE and says something that matches
expect_error() {
	local want=$1 regex=$2 code=0 said
	shift 2
	said=$("$@" 2>&1 </dev/null) || code=$?
	[ "$code" = "$want" ] || die "exit code $code, not $want: $* said: $said"
	expect_match "$said" "$regex" "what $1 said"
}

# expect_one_line CODE REGEX COMMAND...: the same in one line on standard error and nothing else
expect_one_line() {
	local want=$1 regex=$2 code=0 said out
	shift 2
	out=$("$@" 2>"$T/stderr" </dev/null) || code=$?
	said=$(<"$T/stderr")
	[ "$code" = "$want" ] || die "exit code $code, not $want: $* said: $out$said"
	expect_match "$said" "$regex" "the error of $1"
	[ "$(wc -l <"$T/stderr")" = 1 ] || die "not one line: $* said: $said"
	[ -z "$out" ] || die "something on standard output: $* said: $out"
}

# expect_errno NAME CALL ARG...: the system call fails so
expect_errno() {
	local want=$1 code=0 said
	shift
	said=$(sysx "$@" 2>&1) || code=$?
	[ "$code" = 1 ] && [ "$said" = "$want" ] || die "not $want but '$said' ($code): $*"
}

# ---- image, mount ------------------------------------------------------------------------------

# make_fs [SIZE] [OPTION...]: a new image, formatted
make_fs() {
	local size=${1:-256M}
	[ $# -eq 0 ] || shift
	mkdir -p "$MNT"
	baseline && return
	rm -f "$IMG"
	truncate -s "$size" "$IMG"
	"$MKFS" -q --no-calibrate "$@" "$IMG"
}

# mount_fs [OPTION...]
mount_fs() {
	if baseline; then
		MNT=$(mktemp -d "$PMEMFS_DIR/case.XXXXXX")
		chmod 755 "$MNT"
		trap 'rm -rf "$MNT"' EXIT
		return
	fi
	mkdir -p "$MNT"
	"$MOUNT" "$IMG" "$MNT" -o silent "$@"
	mountpoint -q "$MNT" || die "mount.pmemfs returned, but nothing is mounted"
}

new_fs() {
	make_fs "$@"
	mount_fs
}

# daemon_pid [IMAGE]: who has the image mapped and /dev/fuse open
daemon_pid() {
	local pid inode
	inode=$(stat -Lc %i "${1:-$IMG}")
	for pid in $({ grep -sl " $inode  */" /proc/[0-9]*/maps || :; } | cut -d/ -f3); do
		ls -l "/proc/$pid/fd" 2>/dev/null | grep -q ' /dev/fuse$' && echo "$pid" && return
	done
	return 1
}

# wait_pid PID [SECONDS]: until it has ended
wait_pid() {
	local state i
	for ((i = 0; i < ${2:-30} * 50; i++)); do
		state=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) || return 0
		# A zombie has let go of its files when it has no thread left.
		[ "${state:0:1}" != Z ] || [ "$(ls "/proc/$1/task" 2>/dev/null | wc -l)" -gt 1 ] || return 0
		sleep 0.02
	done
	die "process $1 has not ended"
}

# umount_fs: what was writable is clean afterwards, or else the daemon has not come to its end
umount_fs() {
	baseline && return
	local pid writable
	pid=$(daemon_pid)
	writable=$(findmnt -rnfo OPTIONS "$MNT")
	umount "$MNT"
	wait_pid "$pid"
	[ "${writable%%,*}" != rw ] || expect_equal "$(info clean)" true "clean after umount"
}

# kill_fs: the daemon dies at once, its mount is taken away
kill_fs() {
	baseline && return
	local pid
	pid=$(daemon_pid)
	kill -9 "$pid"
	wait_pid "$pid"
	umount -l "$MNT"
}

# fsck_clean [OPTION...]: finds nothing wrong, writes nothing
fsck_clean() {
	baseline && return
	local code=0
	"$FSCK" -n -f "$@" "$IMG" >"$T/fsck.out" 2>&1 || code=$?
	[ "$code" = 0 ] && return
	cat "$T/fsck.out" >&2
	die "fsck -n exits with $code"
}

# info KEY: a member of `pmemfs info -j`
info() { "$PMEMFS" info -j "$IMG" | jq -r ".$1"; }

# lasting CHECK...: the command is right now, after a clean remount, and after kill -9 and remount
lasting() {
	"$@"
	baseline && return
	umount_fs
	fsck_clean
	mount_fs
	"$@"
	kill_fs
	fsck_clean
	mount_fs
	"$@"
	umount_fs
	fsck_clean
	mount_fs
}

# end_fs: the usual end of a case
end_fs() {
	baseline && return
	umount_fs
	fsck_clean
}

# ---- files -------------------------------------------------------------------------------------

# as USER COMMAND...: without any capability
as() {
	local user=$1
	shift
	setpriv --reuid "$user" --regid "$user" --clear-groups -- "$@"
}

# slice FILE OFFSET LENGTH
slice() { dd if="$1" bs=64K iflag=skip_bytes,count_bytes skip="$2" count="$3" status=none; }

sum_of() { sha256sum "$1" | cut -c1-64; }

# random_file FILE SIZE [SEED]: reproducible bytes
random_file() {
	openssl enc -aes-128-ctr -pass "pass:${3:-1}" -nosalt -md sha256 </dev/zero 2>/dev/null |
		head -c "$(numfmt --from=iec "$2")" >"$1" || true
}

# tree_of DIR: everything that stat, readlink and a checksum tell of a tree
tree_of() {
	(
		cd "$1"
		find . ! -name . -printf '%p %y %m %U %G %n %s %T@ %l\n' | sort
		find . -type f -print0 | sort -z | xargs -0r sha256sum
		getfattr -Rhd -m- --absolute-names . 2>/dev/null | sort
	)
}
