# files: yes
# timeout: 240
# Paths as long as Linux takes them, and directories deeper than any path: a thousand levels.
. "$(dirname "$0")/lib.sh"
needs_command python3
depth=1000
long && depth=10000
new_fs
cd "$MNT"

# A path may have 4095 bytes.
python3 - <<'END'
import errno, os
name = "n" * 255
os.makedirs("/".join([name] * 15))
stem = "/".join([name] * 15) + "/"
longest = stem + "f" * (4095 - len(stem))
for way in (lambda p: os.close(os.open(p, os.O_CREAT | os.O_RDWR)), os.stat, os.readlink):
    try:
        way(longest + "f")
        raise SystemExit("a path of 4096 bytes is taken")
    except OSError as e:
        assert e.errno == errno.ENAMETOOLONG, e
with open(longest, "w") as f:
    f.write("at the end")
os.symlink(longest, "link")
assert os.readlink("link") == longest
with open("link") as f:
    assert f.read() == "at the end"
os.rename(longest, stem + "g")
os.rename(stem + "g", longest)
END

# Names of 255 bytes, `depth` levels: no path leads there, but one level after another.
cat >"$T/deep.py" <<'END'
import os, sys
what, depth = sys.argv[1], int(sys.argv[2])
name = "%0255d"
os.chdir("deep" if what == "walk" else ".")
if what == "make":
    os.mkdir("deep")
    os.chdir("deep")
inodes = [os.stat(".").st_ino]
for level in range(depth):
    if what == "make":
        os.mkdir(name % level)
        assert os.stat(".").st_nlink == 3
    else:
        assert os.listdir(".") == [name % level], level
    os.chdir(name % level)
    inodes.append(os.stat(".").st_ino)
if what == "make":
    with open("bottom", "w") as f:
        f.write("bottom")
with open("bottom") as f:
    assert f.read() == "bottom"
assert os.listdir(".") == ["bottom"]
assert len(set(inodes)) == depth + 1
# and up again
for ino in reversed(inodes):
    assert os.stat(".").st_ino == ino
    os.chdir("..")
assert "deep" in os.listdir(".")
END
python3 "$T/deep.py" make $depth
# No directory goes below itself, however far; a whole tree moves.
(
	cd deep
	for i in $(seq 0 99); do cd "$(printf '%0255d' "$i")"; done
	expect_errno EINVAL rename plain "$MNT/deep" moved
)
mkdir elsewhere
mv deep elsewhere/deep
mv elsewhere/deep deep
check() {
	cd "$MNT"
	python3 "$T/deep.py" walk $depth
	expect_equal "$(cat link)" "at the end"
	cd "$T"
}
lasting check
rm -r "$MNT/deep"
rm -r "$MNT"/nnn* "$MNT/link" "$MNT/elsewhere"
expect_equal "$(ls -A "$MNT")" ""
end_fs
