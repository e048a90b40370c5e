# files: yes
# Fifos, sockets and devices.
. "$(dirname "$0")/lib.sh"
make_fs
mount_fs -o dev
cd "$MNT"

mkfifo -m 600 fifo
expect_equal "$(stat -c '%F %a' fifo)" "fifo 600"
cat fifo >"$T/through" &
echo through the pipe >fifo
wait
expect_equal "$(cat "$T/through")" "through the pipe"

(cd "$MNT" && sysx socket sock)
expect_equal "$(stat -c %F sock)" socket

mknod null c 1 3
expect_equal "$(stat -c '%F %t:%T' null)" "character special file 1:3"
echo gone >null
expect_equal "$(cat null)" ""
mknod big c 4095 1048575
expect_equal "$(stat -c '%t:%T' big)" "fff:fffff"
mknod block b 7 200
expect_equal "$(stat -c '%F %t:%T' block)" "block special file 7:c8"
expect_equal "$(sysx dtypes . | sort | tr '\n' ' ')" "big=2 block=6 fifo=1 null=2 sock=12 "

check() { expect_equal "$(tree_of "$MNT"; stat -c '%n %t:%T' "$MNT"/*)" "$before" tree; }
before=$(tree_of .; stat -c '%n %t:%T' "$MNT"/*)
cd "$T"
lasting check
rm "$MNT"/*
umount_fs
baseline || {
	# Without the option, as for every mount that users may influence, devices do not work.
	mount_fs -o nodev
	mknod "$MNT/null" c 1 3
	expect_errno EACCES open rdonly "$MNT/null"
	end_fs
}
