# timeout: 400
# The same random operations on a mount, in process, on tmpfs and on the model: no difference.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
seeds=4 steps=1000
if long; then
	seeds=100
	steps=2000
fi
new_fs 512M
mkdir tmpfs
"$PMEMFS_BUILD/tests/diff/diff" --seed 5000 --seeds $seeds --steps $steps \
	--mount "$MNT" --tmpfs "$T/tmpfs"
end_fs
