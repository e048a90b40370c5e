# What mount(8), fsck(8) and /etc/fstab do with it; and a user who owns the device.
. /vm/lib.sh
must mkfs.pmemfs -q $dev

# ---- mount -t, options, remount ----
must mount -t pmemfs $dev $mnt
say "mount -t pmemfs: $(findmnt -n $mnt | tr -s ' ')"
must vmx load $mnt 9 200
must umount $mnt
must mount -t pmemfs -o ro,noatime,nodev $dev $mnt
must vmx verify $mnt 9 199 whole
refused 1 "Read-only" touch $mnt/x
must mount -o remount,rw $mnt
must touch $mnt/x
must rm $mnt/x
must umount $mnt

# ---- fstab ----
echo "$dev $mnt pmemfs defaults,nofail,x-systemd.device-timeout=10 0 2" >/etc/fstab
must mount -a
must vmx verify $mnt 9 199 whole
say "mount -a with the line \"$(cat /etc/fstab)\": $(findmnt -n -o TARGET,SOURCE,FSTYPE $mnt | tr -s ' ')"
must mount -a
refused 32 "mounted" mount -t pmemfs $dev $mnt
must umount $mnt
must mount $mnt
must umount $mnt

# ---- fsck at boot ----
must fsck -t pmemfs -a $dev
must mount $mnt
kill -9 "$(daemon_pids)"
must umount $mnt
must fsck -t pmemfs -a $dev
say "fsck -t pmemfs -a after the daemon was killed: $(tail -n 1 /tmp/said)"
must fsck -A -a
must mount -a
must vmx verify $mnt 9 199 whole
refused 8 "in use" fsck -t pmemfs -a $dev
must umount $mnt
daemons_gone

# ---- a user who owns the device ----
home=/tmp/pm
mkdir -p $home/mnt
chown -R pm:pm $home
as_pm() { setpriv --reuid pm --regid pm --clear-groups -- "$@"; }
refused 32 "may not be opened|[Pp]ermission" as_pm mount.pmemfs $dev $home/mnt
say "a user who does not own the device: $(cat /tmp/said)"
chown pm $dev
chmod 600 $dev
chmod 666 /dev/fuse
must as_pm mount.pmemfs $dev $home/mnt
say "one who does: $(findmnt -n $home/mnt | tr -s ' ')"
must as_pm ls $home/mnt
refused 1 "Permission denied" ls $home/mnt
must as_pm fusermount3 -u $home/mnt
daemons_gone
must as_pm mkfs.pmemfs -q -f $dev
must as_pm mount.pmemfs $dev $home/mnt
must as_pm touch $home/mnt/mine
equal "$(as_pm stat -c %u $home/mnt/mine)" 1000 "owner"
must as_pm cp /bin/busybox $home/mnt/b
must as_pm cmp /bin/busybox $home/mnt/b
must as_pm fusermount3 -u $home/mnt
daemons_gone
must as_pm fsck.pmemfs -n -f $dev
# By mount(8) and a line in fstab, which needs no privilege but "user".
echo "$dev $home/mnt pmemfs user,noauto 0 0" >/etc/fstab
must as_pm mount $home/mnt
must as_pm cmp /bin/busybox $home/mnt/b
must as_pm umount $home/mnt
daemons_gone
say "and by \"mount $home/mnt\" with user in fstab"
must mount $home/mnt
must umount $home/mnt
daemons_gone
must as_pm fsck.pmemfs -n -f $dev
must as_pm pmemfs info $dev
grep -q "state: *clean" /tmp/said || die "not clean"
