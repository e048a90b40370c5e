# files: yes
# Times: nanoseconds, 1901 to 2500, and who changes which.
. "$(dirname "$0")/lib.sh"
new_fs
cd "$MNT"

set_and_read() {
	touch -d "$1" f
	expect_equal "$(TZ=UTC stat -c '%x %y' f)" "$2 $2" "$1"
}
: >f
if ! baseline; then
	set_and_read '1901-12-13 20:45:52.000000001 UTC' '1901-12-13 20:45:52.000000001 +0000'
	set_and_read '2500-01-01 12:00:00.999999999 UTC' '2500-01-01 12:00:00.999999999 +0000'
fi
set_and_read '1970-01-01 00:00:00 UTC' '1970-01-01 00:00:00.000000000 +0000'
set_and_read '1969-12-31 23:59:59.5 UTC' '1969-12-31 23:59:59.500000000 +0000'
set_and_read '2038-01-19 03:14:08.123456789 UTC' '2038-01-19 03:14:08.123456789 +0000'
touch -a -d '2000-01-01 UTC' f
touch -m -d '2010-01-01 UTC' f
expect_equal "$(stat -c '%X %Y' f)" "946684800 1262304000"
ln -s f l
touch -h -d '1999-01-01 UTC' l
expect_equal "$(stat -c %Y l f | tr '\n' ' ')" "915148800 1262304000 "

# changed WHICH COMMAND...: exactly those of a(ccess) m(odification) c(hange) of f become now
old='2001-02-03 04:05:06.789 UTC'
changed() {
	local which=$1 before after now=''
	shift
	touch -d "$old" f
	before=$(stat -c '%y|%z' f)
	sleep 0.02
	"$@"
	after=$(stat -c '%y|%z' f)
	[ "${before%|*}" = "${after%|*}" ] || now+=m
	[ "${before#*|}" = "${after#*|}" ] || now+=c
	expect_equal "$now" "$which" "times changed by $*"
}
changed mc sysx pwrite 0 xyz f
changed mc sysx truncate 1 f
changed mc sysx fallocate alloc 0 100 f
changed c chmod 600 f
changed c chown 5:5 f
changed c ln f f2
changed c rm f2
there_and_back() { mv f f3 && mv f3 f; }
changed c there_and_back
changed c setfattr -n user.a -v b f
changed '' cat f
changed '' stat f
changed '' sysx open rdonly f
changed '' sysx pwrite 0 '' f

touch -d "$old" .
at() { stat -c %Y .; }
: >f4
[ "$(at)" -gt 1500000000 ] || die "create left the directory's mtime"
touch -d "$old" .
rm f4
[ "$(at)" -gt 1500000000 ] || die "unlink left the directory's mtime"

# The time of birth; libfuse hands it on from 3.18 on.
birth_of() { sysx btime born; }
! baseline && "$MOUNT" --version | grep -Eq 'libfuse 3\.1[0-7]\.' && birth_of() { :; }
now=$(date +%s)
: >born
birth=$(birth_of)
[ -z "$birth" ] || { [ "$birth" -ge $((now - 2)) ] && [ "$birth" -le $((now + 2)) ]; } ||
	die "born at $birth, now $now"
touch -d "$old" born
expect_equal "$(birth_of)" "$birth"

check() {
	expect_equal "$(TZ=UTC find "$MNT" -printf '%p %A+ %T+ %C+\n' | sort | sed 's/^\(\S*\) \S* /\1 /')" "$before"
	expect_equal "$(cd "$MNT" && birth_of)" "$birth"
}
before=$(TZ=UTC find "$MNT" -printf '%p %A+ %T+ %C+\n' | sort | sed 's/^\(\S*\) \S* /\1 /')
cd "$T"
lasting check
end_fs
