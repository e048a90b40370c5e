# A load from /dev/dax0.0 that the processor says has failed, while a file is read: the host
# raises the machine check when the daemon is about to load. EIO for that read, and nothing else.
. /vm/lib.sh
must mkfs.pmemfs -q $dev
must mount.pmemfs $dev $mnt
daemon=$(daemon_pids)
head -c 1048576 /dev/urandom >$mnt/f
head -c 100000 /dev/urandom >$mnt/other
sums=$(cd $mnt && md5sum f other)
map=$(grep "$dev" "/proc/$daemon/maps" | head -n 1)
mark "mapped ${map%% *} $(cat /sys/bus/dax/devices/dax0.0/resource)"
vmx readx $mnt/f 65536 100 >/tmp/read &
reader=$!
mark reading
wait $reader
echo "read: $(cat /tmp/read)"
equal "$(wc -l </tmp/read)" 1 "number of reads that failed"
equal "$(cut -d ' ' -f 2- /tmp/read)" "65536 EIO"
equal "$(daemon_pids)" "$daemon" "the daemon"
say "the read of 64 KiB at $(cut -d ' ' -f 1 /tmp/read) got EIO, the daemon lives"
equal "$(cd $mnt && md5sum f other)" "$sums" "the files afterwards"
must cp $mnt/other $mnt/new
# Another way: the kernel is told that a page is bad, and tells whoever has it mapped.
must vmx locate $dev "$(sysfs $dev size)" $mnt/f 409600
read -r off </tmp/said
must vmx poison $dev "$off" 4096
equal "$(cd $mnt && md5sum other new | cut -d ' ' -f 1 | sort -u | wc -l)" 1
equal "$(daemon_pids)" "$daemon" "the daemon after MADV_HWPOISON"
unmounted
fsck_clean
