# The same work on pmemfs on /dev/dax0.0 and on ext4 -o dax on a namespace of the same NVDIMM,
# twice each, one after the other. The host makes ratios of what it prints.
. /vm/lib.sh
busybox modprobe -q ext4
must ndctl disable-region all
must ndctl init-labels -f all
must ndctl enable-region all
must ndctl create-namespace -t pmem -m devdax -s 112M
must ndctl create-namespace -t pmem -m fsdax -s 112M
block=$(echo /dev/pmem*)
mkdir /tmp/pmemfs /tmp/ext4
must mkfs.pmemfs -q $dev
must mkfs.ext4 -q -b 4096 "$block"
must mount.pmemfs $dev /tmp/pmemfs
must mount -o dax "$block" /tmp/ext4
for round in 1 2 3; do
	for fs in pmemfs ext4; do
		must vmx bench /tmp/$fs 60
		sed "s/^/@mark $fs /" /tmp/said
	done
done
unmounted /tmp/pmemfs
must umount /tmp/ext4
fsck_clean
