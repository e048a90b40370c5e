# timeout: 300
# tier: long
# sanitize: no
# Exported over NFS, versions 3 and 4, by a server in userspace (nfs-ganesha), to a client in
# userspace (libnfs): what one side does the other sees, handles outlive the daemon, also a killed
# one, and are stale when what they name is gone.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
needs_command python3 ip unshare rpcbind ganesha.nfsd
ls /usr/lib/*/ganesha/libfsalvfs.so >/dev/null 2>&1 || skip "no nfs-ganesha-vfs"
ldconfig -p | grep -q 'libnfs\.so' || skip "no libnfs"
# The ports are its own.
[ -n "${ALONE:-}" ] || ALONE=1 exec unshare -nm bash "$0"
ip link set lo up
mount -t tmpfs none /run

new_fs
chmod 755 "$T"
chmod 777 "$MNT"
cat >ganesha.conf <<END
NFS_CORE_PARAM { Protocols = 3, 4; Enable_NLM = false; Enable_RQUOTA = false; }
NFSV4 { Graceless = true; Only_Numeric_Owners = true; RecoveryBackend = fs; }
EXPORT {
	Attr_Expiration_Time = 0; # what is done beside it is seen at once
	Export_Id = 7; Path = $MNT; Pseudo = $MNT; Access_Type = RW; Squash = none;
	SecType = sys; Protocols = 3, 4; Transports = TCP; FSAL { Name = VFS; }
}
END
started=()
trap 'kill -9 "${started[@]}" 2>/dev/null || :' EXIT
rpcbind -f -w &
started+=($!)

start_server() {
	local i
	ganesha.nfsd -F -f "$T/ganesha.conf" -L "$T/ganesha.log" -p "$T/ganesha.pid" -N EVENT &
	server=$!
	started+=("$server")
	for ((i = 0; i < 100; i++)); do
		! grep -q 'NFS SERVER INITIALIZED' ganesha.log 2>/dev/null || return 0
		sleep 0.1
	done
	die "the NFS server does not start: $(tail -3 ganesha.log)"
}
stop_server() {
	kill "$server"
	wait "$server" || :
	rm -f ganesha.log
}

start_client() {
	coproc CLIENT { exec python3 "$ROOT/tests/cases/nfs.py" "$1" "$MNT"; }
	client=$CLIENT_PID
	exec {from}<&"${CLIENT[0]}" {to}>&"${CLIENT[1]}"
	read -r said <&"$from"
	expect_equal "$said" ready "client of version $1"
}
stop_client() {
	exec {to}>&- {from}<&-
	eval "exec ${CLIENT[1]}>&-"
	wait "$client" || :
}
# nfs COMMAND...: what the client answers
nfs() {
	local said
	echo "$*" >&"$to"
	read -r -t 60 said <&"$from" || die "no answer to $*"
	echo "$said"
}
# does COMMAND...: it works
does() { expect_equal "$(nfs "$@")" ok "$*"; }

use() {
	local f
	random_file big 3M "$1"
	does put big /big
	cmp big "$MNT/big"
	expect_equal "$(nfs sum /big)" "$(sum_of big)"
	random_file "$MNT/here" 1M 7
	expect_equal "$(nfs sum /here)" "$(sum_of "$MNT/here")"
	expect_equal "$(nfs stat /here)" "$(stat -c '%i 100%a %h %u %g %s' "$MNT/here")"
	does mkdir /d
	does rename /big /d/moved
	cmp big "$MNT/d/moved"
	[ ! -e "$MNT/big" ] || die "renamed, and still there"
	does link /d/moved /hard
	expect_equal "$(stat -c %h "$MNT/hard")" 2
	does symlink some/where /soft
	expect_equal "$(readlink "$MNT/soft") $(nfs readlink /soft)" "some/where some/where"
	does chmod /hard 640
	does truncate /hard 1234
	expect_equal "$(stat -c '%a %s' "$MNT/d/moved")" "640 1234"
	cmp "$MNT/hard" <(head -c 1234 big)
	sysx create "$MNT/d/n" 500
	expect_equal "$(nfs list /d)" "$(ls "$MNT/d" | xargs)"
	expect_equal "$(nfs rmdir /d)" ENOTEMPTY
	expect_equal "$(nfs mkdir /d)" EEXIST
	expect_equal "$(nfs unlink /absent)" ENOENT
	for f in $(seq 0 7 499); do does unlink "/d/n$f"; done
	expect_equal "$(nfs list /d)" "$(ls "$MNT/d" | xargs)"
	rm "$MNT"/d/n*
	does unlink /d/moved
	does rmdir /d
	does unlink /hard
	does unlink /soft
	rm "$MNT/here"
	expect_equal "$(nfs list /)" ""
}

# Handles that a client holds, over a restart of the daemon by `umount_fs` or `kill_fs`. They have
# the mount's device number in them, as the server makes them: when that is another one, all are
# stale, and a new client opens the files.
hold() {
	local device
	mkdir "$MNT/h"
	for n in stays moves gone linked; do echo "in $n" >"$MNT/h/$n"; done
	for n in stays moves gone linked; do does open $n "/h/$n"; done
	expect_equal "$(nfs get gone)" "in gone"
	ln "$MNT/h/linked" "$MNT/h/other"
	rm "$MNT/h/linked"
	expect_equal "$(nfs get linked)" "in linked"
	device=$(stat -c %d "$MNT")
	stop_server
	"$1"
	fsck_clean
	mount_fs
	mv "$MNT/h/moves" "$MNT/moved"
	rm "$MNT/h/gone"
	sysx create "$MNT/h/new" 50
	start_server
	expect_equal "$(nfs get gone)" ESTALE
	if [ "$(stat -c %d "$MNT")" != "$device" ]; then
		for n in stays moves linked; do expect_equal "$(nfs get $n)" ESTALE; done
		stop_client
		start_client 3
		does open stays /h/stays
		does open moves /moved
		does open linked /h/other
	fi
	for n in stays moves linked; do expect_equal "$(nfs get $n)" "in $n"; done
	does unlink /h/stays
	expect_equal "$(nfs get stays)" ESTALE
	rm -r "$MNT/h" "$MNT/moved"
}

start_server
for version in 3 4; do
	start_client $version
	use $version
	if [ $version = 3 ]; then
		hold umount_fs
		hold kill_fs
		use again
	fi
	stop_client
done
# The daemon dies below a server that goes on: an error, no hang, and all is well with the next.
start_client 3
echo kept >"$MNT/kept"
does open kept /kept
kill_fs
expect_match "$(nfs get kept)" '^E[A-Z]+$'
stop_client
stop_server
fsck_clean
mount_fs
start_server
start_client 3
does open again /kept
expect_equal "$(nfs get again)" kept
stop_client
stop_server
end_fs
