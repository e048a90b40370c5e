# files: yes
# Reading directories: small buffers, deletions meanwhile, positions, types.
. "$(dirname "$0")/lib.sh"
new_fs
cd "$MNT"

mkdir d
sysx create d/name- 2000
seq 0 1999 | sed 's/^/name-/' | sort >"$T/all"
for size in 280 512 1000 4096 32768; do
	sysx getdents d $size | sort | cmp - "$T/all" || die "buffer of $size bytes"
done
expect_errno EINVAL getdents d 20

# Each name once, though each is deleted as soon as it is seen.
for size in 512 4096; do
	mkdir gone$size
	sysx create gone$size/name- 2000
	sysx getdents gone$size $size remove | sort | cmp - "$T/all" || die "with deletions, $size"
	rmdir gone$size
done

# Nor is it seen again under the name that it gets then; a new listing has it.
mkdir renamed
sysx create renamed/name- 2000
[ "$(timeout 20 "$PMEMFS_BUILD/tests/cases/sysx" getdents renamed 4096 rename | wc -l)" -le 2000 ] ||
	baseline || die "a listing goes on to what its own reader renamed"
expect_equal "$(ls renamed | grep -c ^renamed-)" 2000

# Names that stay are seen exactly once while others come and go.
mkdir busy
sysx create busy/stay- 1000
(
	for i in $(seq 60); do
		sysx create "busy/come-$i-" 20
		rm busy/come-"$i"-*
	done
) &
for i in $(seq 20); do
	expect_equal "$(sysx getdents busy 1024 | grep -c ^stay-)" 1000
done
wait
expect_equal "$(ls busy | wc -l)" 1000

sysx create e 300
expect_equal "$(sysx seekdir d)" 2002
mkdir thinned
sysx create thinned/name- 1000
expect_equal "$(sysx seekdir thinned remove)" 1002
expect_equal "$(sysx seekdir thinned)" "$(($(ls thinned | wc -l) + 2))"
mkdir types
: >types/file
mkdir types/dir
ln -s x types/link
mkfifo types/fifo
expect_equal "$(sysx dtypes types | sort | tr '\n' ' ')" "dir=4 fifo=1 file=8 link=10 "
mkdir empty
expect_equal "$(ls -a empty | tr '\n' ' ')" ". .. "

# A removed directory that is open has nothing in it and takes nothing.
mkdir removed
(
	cd removed
	rmdir ../removed
	expect_equal "$(ls -A . 2>/dev/null)" ""
	expect_errno ENOENT open creat,wronly x
	expect_errno ENOENT mkdir x
)

check() {
	sysx getdents "$MNT/d" 4096 | sort | cmp - "$T/all"
	sysx dtypes "$MNT/busy" >/dev/null
}
cd "$T"
lasting check
end_fs
