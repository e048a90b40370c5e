# files: yes
# Owners, modes, set-id bits and who may do what.
. "$(dirname "$0")/lib.sh"
new_fs
cd "$MNT"

for m in 0 1 7 400 644 755 777 1777 2755 4755 6755 7777; do
	: >m$m
	chmod $m m$m
	expect_equal "$(stat -c %a m$m)" $m "mode"
done
(umask 027; : >masked; mkdir maskdir)
expect_equal "$(stat -c %a masked maskdir | tr '\n' ' ')" "640 750 "

: >own
chown 1234:4321 own
expect_equal "$(stat -c %u:%g own)" 1234:4321
chown 4294967294:4294967294 own
expect_equal "$(stat -c %u:%g own)" 4294967294:4294967294
ln -s own slink
chown -h 77:88 slink
expect_equal "$(stat -c %u:%g slink)" 77:88
expect_equal "$(stat -c %u:%g own)" 4294967294:4294967294

# A user without capabilities.
mkdir -m 755 closed
mkdir -m 777 open
mkdir -m 1777 sticky
echo secret >secret
chmod 600 secret
if as 1001 cat secret 2>/dev/null; then die "read a file of mode 600"; fi
if as 1001 touch closed/x 2>/dev/null; then die "wrote into a directory of mode 755"; fi
as 1001 touch open/x sticky/x
expect_equal "$(stat -c %u:%g open/x)" 1001:1001
if as 1001 chown 1002 open/x 2>/dev/null; then die "gave a file away"; fi
if as 1002 chmod 777 open/x 2>/dev/null; then die "changed the mode of another's file"; fi
if as 1002 rm -f sticky/x 2>/dev/null; then die "removed another's file from a sticky directory"; fi
as 1002 rm -f open/x
as 1001 rm sticky/x
mkdir -m 700 private
: >private/f
if as 1001 stat private/f 2>/dev/null; then die "looked into a directory of mode 700"; fi
chmod 711 private
as 1001 stat private/f >/dev/null
if as 1001 ls private 2>/dev/null; then die "listed a directory of mode 711"; fi

# Supplementary groups count.
echo shared >group
chown 0:5000 group
chmod 640 group
expect_equal "$(setpriv --reuid 1001 --regid 1001 --groups 5000 cat group)" shared

# A set-group-id directory hands its group on, and the bit to directories.
mkdir sgid
chown 0:600 sgid
chmod 2777 sgid
as 1001 touch sgid/f
as 1001 mkdir sgid/d
expect_equal "$(stat -c '%u:%g' sgid/f sgid/d | tr '\n' ' ')" "1001:600 1001:600 "
expect_equal "$(stat -c %a sgid/d)" 2755

# Writing and changing the owner take the set-id bits away; root's writes do not.
setid() {
	rm -f open/setid
	as 1001 touch open/setid
	as 1001 chmod "$1" open/setid
	chmod o+w open/setid
}
setid 6775
as 1002 "$PMEMFS_BUILD/tests/cases/sysx" pwrite 0 x open/setid
expect_equal "$(stat -c %a open/setid)" 777 "mode after another's write"
setid 6775
as 1002 "$PMEMFS_BUILD/tests/cases/sysx" truncate 0 open/setid
expect_equal "$(stat -c %a open/setid)" 777 "mode after another's truncate"
setid 6775
sysx pwrite 0 x open/setid
expect_equal "$(stat -c %a open/setid)" 6777 "mode after root's write"
chown 0 open/setid
expect_equal "$(stat -c %a open/setid)" 777 "mode after chown"
# Nor may someone outside the group keep the bit, though it is not a set-id bit then.
setid 2664
as 1002 "$PMEMFS_BUILD/tests/cases/sysx" pwrite 0 x open/setid
expect_equal "$(stat -c %a open/setid)" 666 "mode after a write, without group execution"
# Inside it they may, also if it is one of their supplementary groups.
setid 2664
setpriv --reuid 1002 --regid 1002 --groups 999,1001,5000 \
	"$PMEMFS_BUILD/tests/cases/sysx" pwrite 0 x open/setid
expect_equal "$(stat -c %a open/setid)" 2666 "mode after a member's write, without group execution"

check() { expect_equal "$(tree_of "$MNT")" "$before" tree; }
before=$(tree_of .)
cd "$T"
lasting check
end_fs
