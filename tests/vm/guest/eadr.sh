# A machine whose caches are persistent (eADR): stores need no flush.
. /vm/lib.sh
say "persistence_domain: $(cat /sys/bus/nd/devices/region0/persistence_domain)"
if [ "$vm_boot" = 1 ]; then
	must mkfs.pmemfs -q $dev
	show mount.pmemfs -v $dev $mnt
	grep -q eADR /tmp/said || die "the mount does not say eADR"
	must vmx load $mnt 7 500
	unmounted
fi
fsck_clean
must pmemfs info $dev
grep -q "medium: .*eADR" /tmp/said || die "pmemfs info does not say eADR"
say "$(grep medium: /tmp/said | tr -s ' ')"
must mount.pmemfs $dev $mnt
must vmx verify $mnt 7 499 whole
unmounted
