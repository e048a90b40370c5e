# A range of an fsdax medium that the kernel knows to be bad: EIO for that range and nothing else.
. /vm/lib.sh
blocks=256

busybox modprobe -q ext4
must ndctl create-namespace -f -e namespace0.0 -m fsdax -M mem
must mkfs.ext4 -q -b 4096 /dev/pmem0
mkdir /tmp/d
must mount -o dax /dev/pmem0 /tmp/d
must mkfs.pmemfs -q --size 64M /tmp/d/img
must mount.pmemfs /tmp/d/img $mnt
head -c $((blocks * 4096)) /dev/urandom >$mnt/f
head -c 100000 /dev/urandom >$mnt/other
sums=$(cd $mnt && md5sum f other)
must vmx readx $mnt/f 4096
equal "$(cat /tmp/said)" "" "what cannot be read of a good medium"
must vmx locate /tmp/d/img $((64 << 20)) $mnt/f $((100 * 4096))
read -r in_image on_device </tmp/said
unmounted
must umount /tmp/d

# One block of 4 KiB, 8 sectors: what the kernel notes when a load of it has failed.
echo "$((on_device / 512)) 8" >/sys/block/pmem0/badblocks
say "bad: /dev/pmem0 at $on_device, which is byte $in_image of the image and block 100 of a file"
must mount -o dax /dev/pmem0 /tmp/d
must mount.pmemfs /tmp/d/img $mnt
daemon=$(daemon_pids)
must vmx readx $mnt/f 4096
equal "$(cat /tmp/said)" "$((100 * 4096)) 4096 EIO" "what cannot be read"
say "reading the file in blocks: $(cat /tmp/said), all others right"
must vmx readx $mnt/f 4096
equal "$(cat /tmp/said)" "$((100 * 4096)) 4096 EIO" "what cannot be read the second time"
refused 1 'Input/output error|I/O error' cp $mnt/f /tmp/copy
equal "$(cd $mnt && md5sum other)" "$(echo "$sums" | grep other)"
must cp $mnt/other $mnt/new
equal "$(md5sum <$mnt/new)" "$(md5sum <$mnt/other)"
equal "$(daemon_pids)" "$daemon" "the daemon"

unmounted
refused 4 "f" fsck.pmemfs -n -f /tmp/d/img
say "fsck.pmemfs -n -f, exit code 4: $(grep -iE 'read|checksum|data' /tmp/said | grep -v Pass | head -n 1)"
must mount.pmemfs /tmp/d/img $mnt

# The block that is written anew lies somewhere else.
must dd if=/dev/zero of=$mnt/f bs=4096 seek=100 count=1 conv=notrunc
must vmx readx $mnt/f 4096
equal "$(cat /tmp/said)" "" "what cannot be read after the block was written anew"
say "after writing the block anew all of the file can be read"
unmounted
fsck_clean /tmp/d/img
