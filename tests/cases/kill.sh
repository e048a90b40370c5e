# timeout: 300
# kill -9 of the daemon under load: what was acknowledged is there, what was not is whole or not
# there (a long write: up to a page boundary), and neither fsck -n nor the recovery finds anything wrong.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
: "${rounds:=8}" "${size:=512M}" "${tenths:=8}" "${sum_every:=1}"
new_fs "$size"
for ((round = 0; round < rounds; round++)); do
	writers=$((1 + round % 3))
	for ((w = 0; w < writers; w++)); do
		mkdir "$MNT/$round.$w"
		sysx ack-load "$MNT/$round.$w" 0 1000000 >"acked.$w" 2>/dev/null &
	done
	sleep "0.$((RANDOM % tenths + 1))"
	# A slow machine gets the time that it needs to have something acknowledged.
	for ((k = 0; round == 0 && k < 600 && $(wc -l <acked.0) < 150; k++)); do sleep 0.1; done
	kill_fs
	wait || :
	summed=$((round % sum_every == 0))
	[ $summed = 0 ] || before=$(sum_of "$IMG")
	fsck_clean
	[ $summed = 0 ] || expect_equal "$(sum_of "$IMG")" "$before" "fsck -n changed the image"
	mount_fs
	for ((w = 0; w < writers; w++)); do
		last=$(grep -Ex "[0-9]+" "acked.$w" | tail -n 1) || :
		expect_equal "$(sysx ack-verify "$MNT/$round.$w" "${last:--1}")" "" "round $round"
		[ "$round" != 0 ] || [ "${last:-0}" -gt 100 ] || die "only '$last' operations were done"
		rm -r "${MNT:?}/$round.$w"
	done
done
expect_equal "$(ls -A "$MNT")" ""
end_fs
