# One power-on between two power cuts. $vm_dir is what was being written when the power went, by
# writers whose last acknowledged operations are $vm_last (one each, "-1" for none); $vm_old is
# what was right one cut before. "none" where there is no such directory. Then, by $vm_kind:
#	load	the next directory, $vm_next, is written until the power goes
#	unmount	a few operations, and the power goes while it unmounts
#	end	nothing more
. /vm/lib.sh
writers=3
ahead=0
pieces=0

# right DIR LAST...: in DIR is what its writers were acknowledged, or what one operation more leaves
right() {
	local dir=$1 w=0 last
	shift
	for last; do
		must vmx verify "$mnt/$dir/$w" $((vm_seed + 100 * ${dir#cut} + w)) "$last"
		! grep -q 'the last not acknowledged' /tmp/said || ahead=$((ahead + 1))
		! grep -q 'end of a page' /tmp/said || pieces=$((pieces + 1))
		w=$((w + 1))
	done
}

if [ "$vm_dir" = none ]; then
	must mkfs.pmemfs -q $dev
else
	fsck_clean
fi
mark mount
must mount.pmemfs $dev $mnt
mark mounted
text=$(grep "r-xp.*mount.pmemfs" "/proc/$(daemon_pids)/maps")
mark "text ${text%% *}"
if [ "$vm_dir" != none ]; then
	right "$vm_dir" $(echo "$vm_last" | tr , ' ')
	mark "ahead $ahead $pieces"
fi
if [ "$vm_check" = 1 ]; then
	unmounted
	fsck_clean
	must mount.pmemfs $dev $mnt
fi
if [ "$vm_old" != none ]; then
	right "$vm_old" $(echo "$vm_old_last" | tr , ' ')
	must rm -r "${mnt:?}/$vm_old"
fi
[ "$vm_kind" != end ] || { unmounted; exit 0; }
w=0
while [ $w -lt $writers ]; do
	must mkdir -p "$mnt/$vm_next/$w"
	w=$((w + 1))
done
seed=$((vm_seed + 100 * ${vm_next#cut}))
if [ "$vm_kind" = unmount ]; then
	must vmx cut "$mnt/$vm_next" $seed $writers 150
	mark go
	umount $mnt
	daemons_gone
	mark unmounted
	sleep 1000
fi
mark go
must vmx cut "$mnt/$vm_next" $seed $writers
