# The command that it all exists for, on the device that it exists for: make, mount, use, unmount,
# check; and all is there after a reboot ($vm_boot 2).
. /vm/lib.sh

use() {
	must mkdir $mnt/files
	must cp -a /usr/bin /usr/sbin $mnt/files/
	(cd $mnt/files && find . -type f -print0 | xargs -0 md5sum) >/tmp/sums
	(cd / && sed 's,  \./,  ./usr/,' /tmp/sums | md5sum -c) >/tmp/said ||
		die "the copies are not what was copied"
	must cp /tmp/sums $mnt/sums
	must mkdir $mnt/load
	must vmx load $mnt/load 1 800
}

holds() {
	(cd $mnt/files && md5sum -c ../sums) >/tmp/said || die "files have changed"
	must vmx verify $mnt/load 1 799 whole
	say "$(wc -l <$mnt/sums) files, $(du -sm $mnt/files | cut -f 1) MiB, have their checksums"
}

case $vm_boot in
1)
	say "kernel $(uname -r), $(ls -l $dev)"
	say "size $(sysfs $dev size), alignment $(sysfs $dev align), $(cat /sys/bus/nd/devices/region0/persistence_domain)"
	show mkfs.pmemfs -L vm $dev
	show mount.pmemfs -v $dev $mnt
	show grep pmemfs /proc/mounts
	use
	holds
	show df -h $mnt
	unmounted
	show fsck.pmemfs -n $dev
	fsck_clean
	show pmemfs info $dev
	grep -q "state: *clean" /tmp/said || die "not clean after unmounting"
	say "and mounted again"
	must mount.pmemfs $dev $mnt
	holds
	unmounted
	;;
2)
	show fsck.pmemfs -n $dev
	must mount.pmemfs $dev $mnt
	holds
	must rm -r $mnt/files $mnt/load $mnt/sums
	unmounted
	fsck_clean
	;;
esac
