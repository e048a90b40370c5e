# files: yes
# tier: long
# timeout: 900
# Building this project on the filesystem; what was built works there.
. "$(dirname "$0")/lib.sh"
needs_command git meson ninja
git -C "$ROOT" rev-parse -q --verify HEAD >/dev/null 2>&1 || skip "not a git checkout"
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
new_fs 1G
git clone -q --no-hardlinks "$ROOT" "$MNT/clone"
[ ! -d "$ROOT/.deps" ] || cp -a "$ROOT/.deps" "$MNT/clone/"
meson setup "$MNT/clone/build" "$MNT/clone" >setup.log || { cat setup.log; die "meson setup"; }
ninja -C "$MNT/clone/build" >build.log || { tail build.log; die "ninja"; }
check() {
	expect_match "$("$MNT/clone/build/mkfs/mkfs.pmemfs" --version 2>&1)" pmemfs
	expect_match "$(ninja -C "$MNT/clone/build" -n)" "no work to do" "what is left to build"
}
lasting check
end_fs
