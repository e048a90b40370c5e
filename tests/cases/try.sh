# timeout: 400
# sanitize: no
# fs/try in a fresh clone, as the README has it: builds, formats, mounts, uses; --stop unmounts.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
needs_command git
git -C "$ROOT" rev-parse -q --verify HEAD >/dev/null 2>&1 || skip "not a git checkout"
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
git clone -q --no-hardlinks "$ROOT" clone
[ ! -d "$ROOT/.deps" ] || cp -a "$ROOT/.deps" clone/
mkdir "$MNT"

clone/fs/try "$IMG" "$MNT" >said 2>&1 || { cat said; die "fs/try"; }
expect_equal "$(findmnt -no FSTYPE,SOURCE "$MNT" | tr -s ' ')" "fuse.pmemfs $IMG"
[ "$(find "$MNT/try" | wc -l)" -gt 10 ] || die "fs/try left no files"
expect_match "$(<said)" "(MiB|MB)/s" "what fs/try prints"
expect_match "$(<said)" "--stop" "what fs/try prints"
echo kept >"$MNT/kept"
pid=$(daemon_pid)
clone/fs/try --stop "$MNT" || die "fs/try --stop"
! mountpoint -q "$MNT" || die "still mounted"
wait_pid "$pid"
fsck_clean

# What is there stays.
clone/fs/try "$IMG" "$MNT" >said 2>&1 || { cat said; die "fs/try again"; }
expect_equal "$(cat "$MNT/kept")" kept
clone/fs/try --stop >said 2>&1 || { cat said; die "fs/try --stop"; }
! mountpoint -q "$MNT" || die "still mounted"
truncate -s 64M other
mkfs.ext4 -q other
before=$(sum_of other)
expect_error 1 "other.*ext4" clone/fs/try "$T/other" "$MNT"
expect_equal "$(sum_of other)" "$before" "an image that holds ext4"
