# timeout: 180
# sanitize: no
# meson install puts the tools where mount(8), fstab and fsck(8) find them.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
needs_command meson unshare
DESTDIR=$T/root meson install -C "$PMEMFS_BUILD" --no-rebuild --quiet >install.log 2>&1 ||
	{ cat install.log; die "meson install"; }
find root -type f -o -type l | sed 's,^root,,' | sort >installed
for name in mount.pmemfs mount.fuse.pmemfs mkfs.pmemfs fsck.pmemfs; do
	expect_match "$(<installed)" "^(/usr)?/sbin/$name\$" "what is installed"
done
expect_match "$(<installed)" "bin/pmemfs\$"
for page in man8/mount.pmemfs.8 man8/mkfs.pmemfs.8 man8/fsck.pmemfs.8 'man[158]/pmemfs.[158]'; do
	expect_match "$(<installed)" "/$page"
done

# In a namespace of its own, /usr/sbin has them and fstab names the image.
make_fs 64M
cp -a /usr/sbin sbin
for from in root/sbin root/usr/sbin; do
	[ ! -d $from ] || cp -a $from/. sbin/
done
mkdir -p root/usr/local/sbin
echo "$IMG $MNT pmemfs noauto,noatime,user=someone,nofail,x-systemd.device-timeout=5 0 2" >fstab
cat >inside <<'END'
set -eEuo pipefail
trap 'echo "inside: failed: $BASH_COMMAND" >&2' ERR
mount --bind sbin /usr/sbin
mount --bind root/usr/local/sbin /usr/local/sbin
mount --bind fstab /etc/fstab
shows() { findmnt -no FSTYPE,SOURCE,OPTIONS "$1" | grep -E "$2"; }
gone() { for ((i = 0; i < 250; i++)); do [ -n "$(daemon_pid)" ] || return 0; sleep 0.02; done; false; }

mount "$MNT"
shows "$MNT" 'fuse.pmemfs .*/img .*noatime'
echo hello >"$MNT/f"
mount -o remount,ro "$MNT"
shows "$MNT" ' ro,'
! touch "$MNT/g" 2>/dev/null
mount -o remount,rw "$MNT"
[ "$(grep -c " $MNT " /proc/mounts)" = 1 ]
touch "$MNT/g"
umount "$MNT"
# umount may return before the daemon has ended; a mount waits for it.
mount -t pmemfs -o ro,nosuid "$IMG" "$MNT"
shows "$MNT" ' ro,nosuid'
umount "$MNT"
mount -t fuse.pmemfs "$IMG" "$MNT"
[ "$(cat "$MNT/f")" = hello ]
code=0
mount -t pmemfs "$IMG" "$MNT" 2>said || code=$?
[ $code = 32 ] && grep -Eiq 'in use|mounted|busy' said
umount "$MNT"
gone
fsck -t pmemfs -n "$IMG"
mkfs -t pmemfs -f -q -L by-mkfs "$IMG"
mount "$MNT"
[ ! -e "$MNT/f" ]
umount "$MNT"
gone
END
export IMG MNT
export -f daemon_pid
unshare -m bash inside || die "inside"
