# An NVDIMM that cannot save what is stored (not armed): the kernel calls its region read-only.
# Boot 1 makes a filesystem on it while it is a good one.
. /vm/lib.sh
if [ "$vm_boot" = 1 ]; then
	must mkfs.pmemfs -q $dev
	must mount.pmemfs $dev $mnt
	must vmx load $mnt 8 300
	unmounted
	exit 0
fi
say "region0/read_only: $(cat /sys/bus/nd/devices/region0/read_only)"
refused 32 "read-only" mount.pmemfs $dev $mnt
say "$(cat /tmp/said)"
refused 1 "read-only" mkfs.pmemfs -f $dev
refused 8 "read-only" fsck.pmemfs -y -f $dev
must mount.pmemfs -o ro $dev $mnt
must vmx verify $mnt 8 299 whole
refused 1 "Read-only file system" touch $mnt/new
refused any "read-only" mount.pmemfs -o remount,rw $dev $mnt
unmounted
fsck_clean
say "mount -o ro and fsck -n work"
