# timeout: 240
# sanitize: no
# The benchmarks on a real mount, with small numbers: only that they work; tables as text and
# JSON, a picture if there is gnuplot.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
bench() { "$PMEMFS_BUILD/tests/bench/$1" --quick "${@:2}"; }
truncate -s 256M dev
for name in blocksize files pollution; do
	said=$(bench $name --mount -f dev)
	expect_match "$said" "in this process.*MB/s|in this process.*ns" "$name"
	expect_match "$said" "on a mount" "$name"
	bench $name --mount --json -f dev | jq -e '[.tables[] | select(.title | test("mount"))] | length > 0 and
		all(.[].rows[]; .movnti > 0 and .auto > 0)' >/dev/null || die "the JSON of $name"
done
expect_equal "$(findmnt -rno TARGET -S "$PWD/dev" | wc -l)" 0 "mounts left behind"
fsck_of() { "$FSCK" -n -f "$1" >/dev/null || die "fsck of $1"; }
fsck_of dev

# On a device that holds something only by force.
expect_error 1 "dev holds something: -f" "$PMEMFS_BUILD/tests/bench/clear" --quick dev
expect_error 2 "usage" "$PMEMFS_BUILD/tests/bench/clear" --nonsense
if command -v gnuplot >/dev/null; then
	for name in stores clear hash model; do
		bench $name --plot=$name.svg -f dev >/dev/null
		expect_match "$(head -c 200 $name.svg)" "<svg"
		grep -q "</svg>" $name.svg || die "$name.svg is cut short"
	done
else
	echo "no gnuplot: no pictures"
fi
