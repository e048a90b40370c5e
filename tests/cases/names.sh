# files: yes
# Names: every byte but / and NUL, up to 255 of them; all found again, none confused.
. "$(dirname "$0")/lib.sh"
new_fs
cd "$MNT"

n255=$(printf 'n%.0s' $(seq 255))
echo longest >"$n255"
expect_equal "$(cat "$n255")" longest
expect_errno ENAMETOOLONG open creat,wronly "${n255}x"
expect_errno ENAMETOOLONG mkdir "${n255}x"
expect_errno ENAMETOOLONG rename plain "$n255" "${n255}x"
expect_errno ENAMETOOLONG link "$n255" "${n255}x"
expect_errno ENAMETOOLONG open rdonly "${n255}x"

# One name for each length, all ones that start alike.
mkdir lengths
for i in $(seq 1 255); do : >"lengths/${n255:0:$i}"; done
expect_equal "$(ls lengths | wc -l)" 255
for i in $(seq 1 255); do [ -e "lengths/${n255:0:$i}" ] || die "name of $i bytes is gone"; done

mkdir bytes
python3 - <<'END'
import os
for b in range(1, 256):
    if b != ord("/"):
        with open(b"bytes/x" + bytes([b]), "wb") as f:
            f.write(bytes([b]))
names = os.listdir(b"bytes")
assert sorted(names) == sorted(b"x" + bytes([b]) for b in range(1, 256) if b != ord("/")), names
for b in range(1, 256):
    if b != ord("/"):
        with open(b"bytes/x" + bytes([b]), "rb") as f:
            assert f.read() == bytes([b])
END

: >'with space'
: >'-dash'
: >'Ünïcödé 日本語'
: >$'new\nline'
: >...
: >'a\b'
: >Case
: >case
expect_equal "$(find . -mindepth 1 -maxdepth 1 -printf x)" xxxxxxxxxxx
expect_equal "$(stat -c %n 'Ünïcödé 日本語')" 'Ünïcödé 日本語'
rm case
expect_equal "$(ls Case)" Case
expect_errno EINVAL rename plain bytes bytes/inside
expect_errno ENOTEMPTY rmdir bytes

check() { expect_equal "$(tree_of "$MNT")" "$before" tree; }
before=$(tree_of .)
cd "$T"
lasting check
end_fs
