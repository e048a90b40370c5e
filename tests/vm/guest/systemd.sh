# /etc/fstab and a mount unit under systemd. Run by a service, as the machine's only work; $vm_boot
# 2: a filesystem is there, which was mounted when systemd switched the machine off.
. /vm/lib.sh
is() { equal "$(systemctl show -P ActiveState "$1")" "$2" "state of $1"; }
log() { journalctl --no-pager -b -o cat -u "$1"; }

must udevadm settle
is dev-dax0.0.device active
equal "$(stat -c %U $dev)" pm "the owner by a rule of udev"
if [ "$vm_boot" = 1 ]; then
	say "$(systemctl --version | head -n 1), fstab: $(cat /etc/fstab)"
	must mkfs.pmemfs -q $dev
	must systemctl start mnt.mount
	must vmx load $mnt 11 200
	exit 0 # and off, with all that is mounted
fi
is mnt.mount active
is pmemfs-fsck@dev-dax0.0.service active
say "mounted at boot: $(findmnt -n $mnt | tr -s ' ')"
say "checked before: $(log pmemfs-fsck@dev-dax0.0.service | grep dax0.0: | tail -n 1)"
log pmemfs-fsck@dev-dax0.0.service | grep -q "clean" || die "systemd did not unmount cleanly"
must vmx verify $mnt 11 199 whole
must systemctl stop mnt.mount
daemons_gone
fsck_clean

# The same device by a mount unit.
must systemctl start srv-pm.mount
is srv-pm.mount active
must vmx verify /srv/pm 11 199 whole
say "by a mount unit: $(findmnt -n /srv/pm | tr -s ' ')"
# Its daemon is killed: the unit notices and can be started again.
kill -9 "$(daemon_pids)"
must systemctl stop srv-pm.mount
must systemctl start srv-pm.mount
must vmx verify /srv/pm 11 199 whole
must systemctl stop srv-pm.mount
daemons_gone
fsck_clean
