# files: yes
# timeout: 200
# git clone of this project, git fsck, work in it; building it there is app-build.sh.
. "$(dirname "$0")/lib.sh"
needs_command git
git -C "$ROOT" rev-parse -q --verify HEAD >/dev/null 2>&1 || skip "not a git checkout"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
new_fs 512M
git clone -q --no-hardlinks "$ROOT" "$MNT/clone"
cd "$MNT/clone"
git checkout -q -b work
for i in $(seq 10); do
	echo "line $i" >>note
	git add note
	git commit -qm "commit $i"
done
git gc -q --aggressive
git branch -q other HEAD~5
git checkout -q other
expect_equal "$(wc -l <note)" 5
git checkout -q work
cd "$T"
check() {
	git -C "$MNT/clone" fsck --full --strict --no-progress
	expect_equal "$(git -C "$MNT/clone" status --porcelain)" ""
	expect_equal "$(git -C "$MNT/clone" rev-parse work~10)" "$(git -C "$ROOT" rev-parse HEAD)"
	expect_equal "$(git -C "$MNT/clone" show work:note | tail -1)" "line 10"
}
lasting check
end_fs
