# Devdaxes of other alignments than 2 MiB.
. /vm/lib.sh
must ndctl create-namespace -f -e namespace0.0 -m devdax -M mem -a 1G
must ndctl create-namespace -f -e namespace1.0 -m devdax -M mem -a 4k
for d in /dev/dax0.0 /dev/dax1.0; do
	say "$d: size $(sysfs $d size), alignment $(sysfs $d align)"
	must mkfs.pmemfs -q $d
	must mount.pmemfs $d $mnt
	must vmx load $mnt 4 300
	unmounted
	fsck_clean $d
	must mount.pmemfs $d $mnt
	must vmx verify $mnt 4 299 whole
	unmounted
done
equal "$(sysfs /dev/dax0.0 align) $(sysfs /dev/dax1.0 align)" "1073741824 4096" alignments
