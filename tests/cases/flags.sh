# files: yes
# chattr and lsattr: what immutable and append-only files and directories refuse.
. "$(dirname "$0")/lib.sh"
needs_command chattr lsattr
new_fs
cd "$MNT"

flags() { lsattr -d "$1" | cut -d' ' -f1 | tr -d -- -e; }
refused() { expect_error 1 "not permitted" "$@"; }

for c in f gone; do echo content >$c; done
mkdir d
echo x >d/x
expect_equal "$(flags f)$(flags d)" ""
chattr +SdA f
expect_equal "$(flags f)" SdA
chattr -S f
expect_equal "$(flags f)" dA
chattr +D d
expect_equal "$(flags d)" D
chattr -dA f
chattr -D d
expect_equal "$(flags f)$(flags d)" ""
baseline || expect_error 1 "not supported" chattr +c f

before=$(stat -c '%Y %Z' f)
sleep 0.02
chattr +d f
expect_equal "$(stat -c %Y f)" "${before% *}" "mtime after chattr"
after=$(stat -c %.9Z f)
sleep 0.02
chattr -d f
[ "$(stat -c %.9Z f)" != "$after" ] || die "chattr leaves the time of the change"

# Only the owner sets flags, only root the two that protect.
chown 1001 f
as 1001 chattr +d f
expect_equal "$(flags f)" d
refused as 1002 chattr +A f
refused as 1001 chattr +i f
refused as 1001 chattr +a f
expect_equal "$(flags f)" d

# A file that nothing changes.
chattr -d +i f
before=$(stat -c '%a %u %s %Y %Z %h' f)
for how in wronly rdwr wronly,append wronly,trunc; do expect_errno EPERM open $how f; done
sysx open rdonly f
expect_errno EPERM link f other
expect_errno EPERM rename plain f other
expect_errno EPERM rename exchange f gone
expect_errno EPERM rename plain gone f
expect_errno EPERM unlink f
refused chmod 600 f
refused chown 5 f
refused touch f
refused touch -d 2001-01-01 f
refused truncate -s 1 f
expect_errno EPERM setxattr any f user.x 1
expect_equal "$(cat f)" content
expect_equal "$(stat -c '%a %u %s %Y %Z %h' f)" "$before"
refused as 1001 chattr -i f
chattr -i f
chmod 644 f

# A descriptor from before does not write either.
exec 5>>gone
chattr +i gone
if (echo more >&5) 2>/dev/null; then die "wrote to an immutable file"; fi
chattr -i gone
echo more >&5
exec 5>&-
expect_equal "$(cat gone)" $'content\nmore'

# A file that only grows.
chattr +a f
for how in wronly rdwr wronly,trunc wronly,append,trunc; do expect_errno EPERM open $how f; done
echo more >>f
expect_equal "$(cat f)" $'content\nmore'
expect_errno EPERM unlink f
expect_errno EPERM rename plain f other
expect_errno EPERM link f other
refused chmod 600 f
refused truncate -s 1 f
refused touch -d 2001-01-01 f
touch f

# Directories: nothing comes or goes; or it only comes.
chattr +i d
expect_errno EPERM open wronly,creat d/new
expect_errno EPERM mkdir d/new
expect_errno EPERM link gone d/new
expect_errno EPERM rename plain gone d/new
expect_errno EPERM rename plain d/x new
expect_errno EPERM unlink d/x
expect_errno EPERM tmpfile d x
expect_errno EPERM rename plain d e
expect_errno EPERM rmdir d
echo y >>d/x
chattr -i +a d
echo new >d/new
mkdir d/sub
expect_errno EPERM unlink d/new
expect_errno EPERM rmdir d/sub
expect_errno EPERM rename plain d/new new
expect_errno EPERM rename plain d/new d/newer
expect_errno EPERM rename plain gone d/new
mv gone d/came

check() {
	expect_equal "$(cd "$MNT" && lsattr -Rd d | cut -d' ' -f1 | tr -d e)$(flags "$MNT/f")" "$want"
	expect_errno EPERM unlink "$MNT/f"
	expect_errno EPERM unlink "$MNT/d/new"
}
want=$(lsattr -Rd d | cut -d' ' -f1 | tr -d e)$(flags f)
cd "$T"
lasting check
chattr -a -i "$MNT/f" "$MNT/d"
rm -r "$MNT/f" "$MNT/d"
end_fs
