# timeout: 600
# df and df -i after every operation: they add up, they say what the files say, and what follows
# from the logs after a kill is the same to the block.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
needs_command python3
new_fs 256M
f=$MNT/file

# sysx statfs: block size, blocks, free, available, files, free files, longest name
numbers() { sysx statfs "$MNT" | cut -d' ' -f2-6; }
empty=$(numbers)
read -r blocks bfree bavail files ffree <<<"$empty"
whole=$bfree data=0 inodes=$((files - ffree)) meta=0

# What files hold, in blocks, each inode once.
held() {
	find "$MNT" -printf '%i %b\n' | sort -u | awk '{ n += $2 } END { print n / 8 }'
}

# What df says is what statfs says, and that adds up.
adds_up() {
	[ "$bavail" -le "$bfree" ] || die "$bavail available of $bfree free"
	expect_equal "$(df -B4096 --output=size,used,avail "$MNT" | tail -1 | xargs)" \
		"$blocks $((blocks - bfree)) $bavail" "df after $what"
	expect_equal "$(df --output=itotal,iused,iavail "$MNT" | tail -1 | xargs)" \
		"$files $inodes $ffree" "df -i after $what"
}

# counts MOST: beside the data there are at most MOST blocks of logs and tables more than before.
# What an unlinked inode had comes back when the kernel lets go of it, soon.
counts() {
	local total used try
	for ((try = 0; try < 100; try++)); do
		read -r total bfree bavail files ffree <<<"$(numbers)"
		used=$((whole - bfree - data))
		[ $((files - ffree)) != $inodes ] || [ $used -gt $((meta + $1)) ] || break
		sleep 0.05
	done
	expect_equal "$total" "$blocks" "size"
	expect_equal $((files - ffree)) $inodes "inodes after $what"
	[ $used -ge 0 ] && [ $used -le $((meta + $1)) ] ||
		die "$what: $used blocks of logs and tables, $meta before"
	meta=$used
	adds_up
}

# The daemon is killed: nothing is another number.
kill_and_compare() {
	local before
	before=$(numbers)
	kill_fs
	mount_fs
	expect_equal "$(numbers)" "$before" "after a kill: $what"
}

# step DATA INODES META COMMAND...: it changes those by that much, META at most; then the daemon
# is killed.
step() {
	local grown=$1 made=$2 most=$3
	shift 3
	what=$*
	"$@"
	data=$((data + grown)) inodes=$((inodes + made))
	expect_equal "$(held)" $data "blocks of all files after $what"
	counts "$most"
	kill_and_compare
}

write() { dd if=/dev/urandom of="$f" bs=4096 count="$2" seek="$1" conv=notrunc status=none; }
append() { printf %s "$1" >>"$f"; }
many() { sysx create "$MNT/dir/a-name-of-some-length-" "$1"; }

step 0 1 8 sysx create "$f" 1
mv "${f}0" "$f"
step 1 0 8 append "a few bytes"
step 0 0 8 append "fill the same block"
step 256 0 8 write 1 256
step 0 0 8 write 10 100
step 0 0 8 sysx truncate 1G "$f"
step 1 0 8 sysx pwrite 512M x "$f"
step 0 0 8 sysx pwrite 512M xyz "$f"
step 256 0 8 sysx fallocate alloc 256M 1M "$f"
step 0 0 8 sysx fallocate alloc 256M 1M "$f"
step 256 0 8 sysx fallocate keep 2G 1M "$f"
step 0 0 8 sysx pwrite 256M written "$f"
step -16 0 8 sysx fallocate punch 64K 64K "$f"
step 0 0 8 sysx fallocate punch 64K 64K "$f"
step 0 0 8 sysx fallocate punch 4097 4096 "$f"
step 0 0 8 sysx fallocate zero 8K 4K "$f"
step 4 0 8 sysx fallocate zero 64K 16K "$f"
step 2 0 8 sysx copy-range "$f" 200K 8192 "$f" 1G
step -259 0 8 sysx truncate 300M "$f"
step 0 1 8 cp --sparse=always /dev/null "$MNT/other"
step 10 0 8 dd if=/dev/zero of="$MNT/other" bs=4096 count=10 conv=notrunc status=none

# Names and what goes with them.
step 0 0 8 ln "$f" "$MNT/link"
step 0 0 8 rm "$MNT/link"
small() { echo x >"$MNT/small"; }
step 1 1 8 small
step -10 -1 8 mv "$MNT/small" "$MNT/other"
step 0 0 8 sysx rename exchange "$MNT/other" "$f"
step 0 1 8 sysx rename whiteout "$MNT/other" "$MNT/moved"
step 0 -1 8 mv "$MNT/moved" "$MNT/other"
step 0 0 8 mv "$MNT/other" "$MNT/moved"
step 0 1 8 mkdir "$MNT/dir"
step 0 2000 400 many 2000
step 0 -1000 16 find "$MNT/dir" -name '*[02468]' -delete
step 0 0 16 mv "$MNT/dir" "$MNT/renamed"
step 0 -1001 16 rm -r "$MNT/renamed"
step 0 1 8 mkfifo "$MNT/fifo"
step 0 1 8 ln -s short "$MNT/symlink"
step 0 1 8 ln -s "$(printf 't%.0s' {1..4095})" "$MNT/long"
step 0 -3 8 rm "$MNT/fifo" "$MNT/symlink" "$MNT/long"

# Attributes: none of a file's blocks, but of what its log takes.
step 0 0 8 setfattr -n user.small -v value "$f"
step 0 0 24 sysx setxattr any "$f" user.large =65536
step 0 0 48 sysx setxattr replace "$f" user.large =65536
step 0 0 8 setfattr -x user.large "$f"
step 0 0 8 setfattr -x user.small "$f"
step 0 0 8 chmod 600 "$f"

# Without a name: nothing is free before it is closed, and after a kill all of it is.
cat >hold.py <<'END'
import os, sys
way, where = sys.argv[1:]
if way == "tmpfile":
    fd = os.open(where, os.O_TMPFILE | os.O_RDWR)
else:
    fd = os.open(where + "/open", os.O_CREAT | os.O_RDWR)
os.write(fd, bytes(1 << 20))
if way == "unlink":
    os.unlink(where + "/open")
elif way == "rename":
    open(where + "/over", "w").close()
    os.rename(where + "/over", where + "/open")
    os.unlink(where + "/open")
print("held", flush=True)
sys.stdin.read()
END
hold() {
	local said
	coproc HOLD { exec python3 hold.py "$1" "$MNT"; }
	holder=$HOLD_PID to=${HOLD[1]}
	read -r said <&"${HOLD[0]}"
	expect_equal "$said" held
	what="$1, open"
	inodes=$((inodes + 1)) data=$((data + 256))
	counts 16
}
let_go() {
	exec {to}>&-
	wait "$holder"
	inodes=$((inodes - 1)) data=$((data - 256))
}
for way in unlink rename tmpfile; do
	hold $way
	let_go
	what="$way, closed"
	counts 0
	kill_and_compare
	hold $way
	kill_fs
	let_go
	mount_fs
	what="$way, killed"
	counts 0
done

# An unmount may give back some of logs and tables; then there is nothing more to give back.
what="a remount"
umount_fs
fsck_clean
mount_fs
counts 0
settled=$(numbers)
umount_fs
mount_fs
expect_equal "$(numbers)" "$settled" "after another remount"
kill_and_compare

# All gone: the same numbers as in the beginning, to the block and the inode; also of a filesystem
# that was full, with a kill before, after or instead.
all_gone() {
	what="everything removed, $1"
	find "$MNT" -mindepth 1 -delete
	data=0 inodes=1
	counts 0
	[ "$1" != "then a kill" ] || kill_and_compare
	umount_fs
	fsck_clean
	mount_fs
	expect_equal "$(numbers)" "$empty" "$what"
	meta=0
}
fill() {
	expect_error 1 "No space left" dd if=/dev/zero of="$MNT/big" bs=1M
	mkdir "$MNT/small" 2>/dev/null || :
	sysx create "$MNT/small/file-" 100000 >said || :
	rm "$MNT/big"
	sysx create "$MNT/more-" 20000
	expect_error 1 "No space left" dd if=/dev/zero of="$MNT/big" bs=4k
	data=$(held) inodes=$(find "$MNT" | wc -l) what=full
	counts 65536
}
all_gone "then unmounted"
fill
all_gone "then a kill"
fill
kill_and_compare
all_gone "then unmounted"
end_fs
