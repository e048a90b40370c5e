# Several daxes and an fsdax in one region; what is in use, gone or of the wrong mode.
. /vm/lib.sh
busybox modprobe -q ext4
must ndctl disable-region all
must ndctl init-labels -f all
must ndctl enable-region all
must ndctl create-namespace -t pmem -m devdax -s 128M
must ndctl create-namespace -t pmem -m devdax -s 128M
must ndctl create-namespace -t pmem -m fsdax -s 128M
say "daxctl list: $(daxctl list | tr -d ' \n')"
set -- /dev/dax*
equal $# 2 "number of /dev/dax*"
one=$1 two=$2 block=$(echo /dev/pmem*)
must test -b "$block"
mkdir /tmp/1 /tmp/2 /tmp/3 /tmp/d

# ---- several at once ----
must mkfs.pmemfs -q -L one "$one"
must mkfs.pmemfs -q -L two "$two"
must mkfs.ext4 -q -b 4096 "$block"
must mount -o dax "$block" /tmp/d
must mkfs.pmemfs -q --size 64M /tmp/d/image
show vmx mapsync /tmp/d/image
show mount.pmemfs -v "$one" /tmp/1
show mount.pmemfs -v "$two" /tmp/2
show mount.pmemfs -v /tmp/d/image /tmp/3
vmx load /tmp/1 1 400 &
vmx load /tmp/2 2 400 &
vmx load /tmp/3 3 400 &
for job in 1 2 3; do
	wait %$job || die "load $job failed"
done
for n in 1 2 3; do
	must vmx verify /tmp/$n $n 399 whole
done
say "two devdaxes and a file on ext4 -o dax were mounted and written to at once"

# ---- in use ----
refused 32 "$one is mounted on /tmp/1" mount.pmemfs "$one" $mnt
refused 1 "in use" mkfs.pmemfs -f "$one"
refused 8 "in use" fsck.pmemfs -n "$one"
say "mkfs.pmemfs $one while it is mounted: $(mkfs.pmemfs -f "$one" 2>&1 || :)"
# The same device under another name.
mknod /tmp/other c $((0x$(stat -c %t "$one"))) $((0x$(stat -c %T "$one")))
refused 1 "in use" mkfs.pmemfs -f /tmp/other
refused 32 "in use|mounted on" mount.pmemfs /tmp/other $mnt
refused 32 "in use|mounted on" mount.pmemfs /tmp/d/image $mnt
umount "/tmp/d" 2>/dev/null && die "ext4 could be unmounted below a mounted pmemfs"

# ---- another program has it mapped: nothing that the kernel would tell, and no harm ----
unmounted /tmp/2 2
vmx map "$two" 600 &
mapper=$!
sleep 0.2
must mount.pmemfs "$two" /tmp/2
must vmx verify /tmp/2 2 399 whole
unmounted /tmp/2 2
fsck_clean "$two"
kill $mapper

# ---- the wrong mode ----
for command in "mkfs.pmemfs" "fsck.pmemfs -n" "pmemfs info"; do
	refused any "is a block device.*ndctl create-namespace -f -e .* -m devdax" $command "$block"
done
refused 32 "is a block device.*ndctl create-namespace" mount.pmemfs "$block" $mnt
say "mount.pmemfs $block: $(cat /tmp/said)"

# ---- gone ----
name=${two##*/}
mknod /tmp/stale c $((0x$(stat -c %t "$two"))) $((0x$(stat -c %T "$two")))
echo "$name" >/sys/bus/dax/drivers/device_dax/unbind
refused 32 "does not exist|no driver" mount.pmemfs "$two" $mnt
say "a devdax without its driver: $(cat /tmp/said)"
refused 32 "no driver.*daxctl reconfigure-device -f -m devdax" mount.pmemfs /tmp/stale $mnt
say "the same by an old node: $(cat /tmp/said)"
echo "$name" >/sys/bus/dax/drivers/device_dax/bind
must mount.pmemfs "$two" /tmp/2
must vmx verify /tmp/2 2 399 whole

for n in 1 2 3; do
	must umount /tmp/$n
done
daemons_gone
fsck_clean "$one"
fsck_clean "$two"
fsck_clean /tmp/d/image
must umount /tmp/d
