# files: yes
# POSIX access control lists: who gets in, inheritance, modes, and the option noacl.
. "$(dirname "$0")/lib.sh"
needs_command getfacl setfacl
new_fs
cd "$MNT"

acl() { getfacl -cpnE "$1" | sed '/^$/d' | tr '\n' ' '; }
plus() { ls -ld "$1" | cut -c11; }
can() { as "$1" cat "$2" >/dev/null 2>&1; }

echo secret >f
chmod 640 f
expect_equal "$(acl f)" "user::rw- group::r-- other::--- "
if can 1001 f; then die "others read"; fi
sleep 0.02
before=$(stat -c '%Y %Z' f)
setfacl -m u:1001:r f
expect_equal "$(acl f)" "user::rw- user:1001:r-- group::r-- mask::r-- other::--- "
after=$(stat -c '%Y %Z' f)
expect_equal "${after% *}" "${before% *}" mtime
expect_equal "$(plus f)" +
can 1001 f
if can 1002 f; then die "the list lets in whom it does not name"; fi
if as 1001 sh -c 'echo x >>f' 2>/dev/null; then die "r lets write"; fi
setfacl -m g:1002:rw f
can 1002 f
as 1002 sh -c 'echo x >>f'
expect_equal "$(stat -c %a f)" 660 "the mask shows as the group's bits"

# A change of mode is one of the mask.
chmod 600 f
expect_equal "$(acl f)" "user::rw- user:1001:r-- group::r-- group:1002:rw- mask::--- other::--- "
if can 1001 f || can 1002 f; then die "past the mask"; fi
chmod 6754 f
expect_equal "$(acl f)" "user::rwx user:1001:r-- group::r-- group:1002:rw- mask::r-x other::r-- "
can 1001 f
if as 1002 sh -c 'echo x >>f' 2>/dev/null; then die "past the mask"; fi
expect_equal "$(stat -c %a f)" 6754
setfacl -m m::rw f
expect_equal "$(stat -c %a f)" 6764
if as 1001 setfacl -m u:1001:rwx f 2>/dev/null; then die "somebody else changed the list"; fi

# A list that a mode can say is none.
setfacl -b f
expect_equal "$(acl f)" "user::rwx group::r-- other::r-- "
expect_equal "$(stat -c %a f)" 6744
expect_equal "$(plus f)" ' '
expect_errno ENODATA getxattr f system.posix_acl_access 100
expect_equal "$(getfattr -dm- f)" ""
setfacl -b f
setfacl -k f

# Who is not in the group cannot keep its set-group-id bit.
: >mine
chown 1001:77 mine
chmod 2775 mine
as 1001 setfacl -m u:5:r mine
expect_equal "$(stat -c %a mine)" 775

# Defaults: files get them within the mode asked for, directories hand them on; no umask then.
mkdir d plain
setfacl -m d:u:1001:rwx,d:g::rx,d:o::--- d
expect_equal "$(acl d)" "user::rwx group::r-x other::r-x default:user::rwx default:user:1001:rwx default:group::r-x default:mask::rwx default:other::--- "
(
	umask 077
	: >d/f
	mkdir d/sub
	: >d/sub/f
	mknod d/p p
	: >plain/f
	mkdir plain/d
	"$PMEMFS_BUILD/tests/cases/sysx" tmpfile d x d/tmp >/dev/null
	ln -s f d/l
)
expect_equal "$(acl d/f)" "user::rw- user:1001:rwx group::r-x mask::rw- other::--- "
expect_equal "$(acl d/p)" "$(acl d/f)"
expect_equal "$(acl d/tmp)" "user::rw- user:1001:rwx group::r-x mask::r-- other::--- "
expect_equal "$(stat -c %a d/f d/sub plain/f plain/d d/l | tr '\n' ' ')" "660 770 600 700 777 "
expect_equal "$(acl d/sub)" "user::rwx user:1001:rwx group::r-x mask::rwx other::--- default:user::rwx default:user:1001:rwx default:group::r-x default:mask::rwx default:other::--- "
expect_equal "$(acl d/sub/f)" "$(acl d/f)"
chmod 755 d
as 1001 sh -c 'echo x >>d/f'

# A default list that a mode can say: it replaces the umask.
mkdir e
setfacl -m d:u::rwx,d:g::rwx,d:o::r e
(umask 077; : >e/f; mkdir e/d)
expect_equal "$(acl e/f)" "user::rw- group::rw- other::r-- "
expect_equal "$(plus e/f)" ' '
expect_equal "$(acl e/d)" "user::rwx group::rwx other::r-- default:user::rwx default:group::rwx default:other::r-- "
setfacl -k e
(umask 027; : >e/g)
expect_equal "$(stat -c %a e/g)" 640

# A long one.
n=200
! baseline || n=20
mkdir long
setfacl -m "$(for i in $(seq $n); do printf 'd:u:%d:r,u:%d:rw,' $i $i; done | sed 's/,$//')" long
: >long/f
expect_equal "$(getfacl -cpnE long/f | wc -l)" $((n + 5))
expect_equal "$(getfacl -cpnE long | wc -l)" $((2 * n + 9))

check() {
	expect_equal "$(cd "$MNT" && getfacl -RcpnE . && tree_of .)" "$want"
}
want=$(getfacl -RcpnE . && tree_of .)
lists=$(getfacl -RcpnE .)
cd "$T"
lasting check
baseline && exit 0

# Without them the modes decide; with them again, nothing is lost.
umount_fs
mount_fs -o noacl
cd "$MNT"
expect_error 1 "not supported" setfacl -m u:1001:r f
expect_errno EOPNOTSUPP getxattr d/f system.posix_acl_access 0
expect_equal "$(getfattr -dm- d)" ""
(umask 077; : >d/plain)
expect_equal "$(stat -c %a d/plain)" 600
rm d/plain
cd "$T"
umount_fs
mount_fs
expect_equal "$(cd "$MNT" && getfacl -RcpnE .)" "$lists"
end_fs
