# timeout: 300
# kill -9 of the daemon below an overlayfs that has it as upper and work directory, under load:
# fsck is clean, the overlay mounts again, what was acknowledged is there, and the lower directory
# is what it was.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || skip "no overlayfs in this kernel"
rounds=6
long && rounds=60
new_fs 512M
merged=$T/merged lower=$T/lower
mkdir "$lower" "$merged" "$MNT/upper" "$MNT/work"
for d in $(seq 20); do
	mkdir "$lower/d$d"
	for f in $(seq 10); do echo "lower $d $f" >"$lower/d$d/f$f"; done
done
lower_was=$(tree_of "$lower")
mount_over() {
	mount -t overlay over "$merged" \
		-o "lowerdir=$lower,upperdir=$MNT/upper,workdir=$MNT/work,redirect_dir=on,index=off,metacopy=off"
}
trap 'umount -l "$merged" 2>/dev/null || :' EXIT

# Copies up, renames, hides and makes opaque what the lower directory has, over and over.
change_lower() (
	cd "$merged"
	while :; do
		for d in $(seq 20); do
			echo "more $d" >>"d$d/f1"
			chmod 600 "d$d/f2"
			mv "d$d/f3" "d$d/g3"
			mv "d$d" e
			rm e/f4
			mv e "d$d"
			rm -r "d$d"
			mkdir "d$d"
			for f in $(seq 10); do echo "again $d $f" >"d$d/f$f"; done
		done
	done
) 2>/dev/null

for ((round = 0; round < rounds; round++)); do
	mount_over
	mkdir "$merged/acked"
	change_lower &
	changer=$!
	sysx ack-load "$merged/acked" 0 1000000 >acked 2>/dev/null &
	loader=$!
	while [ "$(wc -l <acked)" -lt 50 ]; do sleep 0.05; done
	sleep "0.$((RANDOM % 8 + 1))"
	kill_fs
	wait "$loader" || :
	kill "$changer" 2>/dev/null || :
	wait "$changer" 2>/dev/null || :
	umount -l "$merged"
	fsck_clean
	mount_fs
	mount_over
	last=$(grep -Ex "[0-9]+" acked | tail -n 1) || :
	expect_equal "$(sysx ack-verify "$merged/acked" "${last:--1}")" "" "round $round"
	# Each file is as it was, or as one of the changes left it.
	find "$merged" -path "$merged/acked" -prune -o -type f -print0 | xargs -0r cat >all
	said=$(grep -Evx "(lower|again) [0-9]+ [0-9]+|more [0-9]+" all | head -3) || :
	expect_equal "$said" "" "contents in round $round"
	expect_equal "$(tree_of "$lower")" "$lower_was" "the lower directory"
	# And it can be removed, but for names of one file: overlayfs asks FUSE anew for the name by
	# which it first saw a file, and holds the others for stale when that one is gone.
	rm -r "$merged"/d* "$merged"/e 2>/dev/null || :
	expect_equal "$(ls -A "$merged")" acked
	umount "$merged"
	find "$MNT/upper" "$MNT/work" -mindepth 1 -delete
done
end_fs
