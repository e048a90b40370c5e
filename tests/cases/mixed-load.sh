# files: yes
# timeout: 240
# Several processes at once in one tree, each with its own expected result.
. "$(dirname "$0")/lib.sh"
new_fs 512M
cd "$MNT"
worker() {
	mkdir "w$1"
	for round in $(seq 12); do
		for i in $(seq 20); do
			echo "worker $1 round $round file $i" >"w$1/f$i"
			mv "w$1/f$i" "w$1/g$i"
			ln -f "w$1/g$i" "w$1/h$i"
		done
		mv "w$1/g1" "shared/from-$1-$round"
		rm -f "w$1"/h*
	done
}
mkdir shared
for w in 1 2 3 4; do worker $w & done
fail=0
for w in 1 2 3 4; do wait -n || fail=1; done
expect_equal $fail 0 "a worker failed"
expect_equal "$(ls shared | wc -l)" 48
for w in 1 2 3 4; do
	expect_equal "$(ls w$w | wc -l)" 19
	expect_equal "$(cat w$w/g20)" "worker $w round 12 file 20"
	for r in 1 12; do expect_equal "$(cat shared/from-$w-$r)" "worker $w round $r file 1"; done
done
check() { expect_equal "$(tree_of "$MNT")" "$before" tree; }
before=$(tree_of .)
cd "$T"
lasting check
end_fs
