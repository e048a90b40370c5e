# Memory that the kernel's command line sets apart: memmap=SIZE!START is /dev/pmemN, a block device
# until ndctl makes it a devdax; soft-reserved memory, as CXL and HBM are reported by firmware, is
# a devdax without ndctl. $vm_boot 2: the first one's content is still there, when the memory is.
. /vm/lib.sh
persistent=$(ndctl list -N | sed -n 's/.*"dev":"\(namespace[^"]*\)".*/\1/p' | head -n 1)
region=${persistent#namespace}
region=${region%.*}
dev=/dev/dax$region.0
say "memmap= gives $persistent: $(ndctl list -N | tr -d ' \n')"
if [ "$vm_boot" = 1 ]; then
	refused 1 "is a block device.*-m devdax" mkfs.pmemfs "/dev/pmem$region"
	say "$(cat /tmp/said)"
	must ndctl create-namespace -f -e "$persistent" -m devdax
	must mkfs.pmemfs -q $dev
	must mount.pmemfs $dev $mnt
	must vmx load $mnt 5 500
	unmounted
else
	must mount.pmemfs $dev $mnt
fi
[ "$vm_boot" = 1 ] || must vmx verify $mnt 5 499 whole
[ "$vm_boot" = 1 ] || unmounted
fsck_clean $dev
say "$(pmemfs info $dev | grep medium: | tr -s ' ') ($dev)"

# The soft-reserved one is the other.
for d in /dev/dax*; do
	[ "$d" = "$dev" ] || soft=$d
done
say "soft-reserved memory: $(daxctl list -d "${soft##*/}" | tr -d ' \n')"
# Many distributions make it ordinary memory at boot.
must daxctl reconfigure-device -m system-ram "${soft##*/}"
refused 1 "ordinary memory.*daxctl reconfigure-device -f -m devdax" mkfs.pmemfs "$soft"
must daxctl reconfigure-device -f -m devdax "${soft##*/}"
must mkfs.pmemfs -q -f "$soft"
show mount.pmemfs -v "$soft" $mnt
must vmx load $mnt 6 200
unmounted
fsck_clean "$soft"
