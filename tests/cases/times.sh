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
	set_and_read '0001-01-01 00:00:00.5 UTC' '0001-01-01 00:00:00.500000000 +0000'
	set_and_read '9999-12-31 23:59:59.1 UTC' '9999-12-31 23:59:59.100000000 +0000'
fi
set_and_read '1969-12-31 23:59:59.999999999 UTC' '1969-12-31 23:59:59.999999999 +0000'
set_and_read '2106-02-07 06:28:15.999999999 UTC' '2106-02-07 06:28:15.999999999 +0000'
set_and_read '2106-02-07 06:28:16 UTC' '2106-02-07 06:28:16.000000000 +0000'
set_and_read '1970-01-01 00:00:00 UTC' '1970-01-01 00:00:00.000000000 +0000'
set_and_read '1969-12-31 23:59:59.5 UTC' '1969-12-31 23:59:59.500000000 +0000'
set_and_read '2038-01-19 03:14:08.123456789 UTC' '2038-01-19 03:14:08.123456789 +0000'
touch -a -d '2000-01-01 UTC' f
touch -m -d '2010-01-01 UTC' f
expect_equal "$(stat -c '%X %Y' f)" "946684800 1262304000"
ln -s f l
touch -h -d '1999-01-01 UTC' l
expect_equal "$(stat -c %Y l f | tr '\n' ' ')" "915148800 1262304000 "

old='2001-02-03 04:05:06.789 UTC'
stamp() { TZ=UTC stat -c '%x|%y|%z' "$1"; }

# now_of FILE WHICH COMMAND...: exactly those of a(ccess) m(odification) c(hange) of FILE become
# now. Reading does not change the access time here.
now_of() {
	local file=$1 which=$2 now='' was=() is=()
	shift 2
	touch -h -d "$old" "$file"
	IFS='|' read -ra was <<<"$(stamp "$file")"
	sleep 0.02
	"$@" >/dev/null
	IFS='|' read -ra is <<<"$(stamp "$file")"
	[ "${was[0]}" = "${is[0]}" ] || now+=a
	[ "${was[1]}" = "${is[1]}" ] || now+=m
	[ "${was[2]}" = "${is[2]}" ] || now+=c
	baseline && [[ $which != *a* ]] && now=${now#a}
	expect_equal "$now" "$which" "times of $file changed by $*"
}
changed() { now_of f "$@"; }
changed mc sysx pwrite 0 xyz f
changed mc sysx pwrite 1M beyond f
changed mc sysx truncate 100000 f
changed mc truncate -s 5000 f
changed mc sysx open wronly,trunc f
changed mc sysx open wronly,trunc f # of an empty one, too
changed mc sysx fallocate alloc 0 10000 f
changed mc sysx fallocate punch 0 100 f
changed mc sysx fallocate zero 0 100 f
changed mc sysx mmap-write f 10 mapped
changed mc sysx direct-write f 0 4096 d
random_file from 10000
changed mc sysx copy-range from 0 5000 f 0
now_of from '' sysx copy-range from 0 5000 f 0
changed c chmod 600 f
changed c chmod 600 f
changed c chown 5:5 f
changed c chown 5:5 f
changed c ln f f2
changed '' sysx rename plain f f2 # two names of one file: nothing happens
changed c rm f2
there_and_back() { mv f f3 && mv f3 f; }
changed c there_and_back
changed c setfattr -n user.a -v b f
changed c sysx setxattr any f user.b =2000
changed c setfattr -x user.b f
command -v setfacl >/dev/null && changed c setfacl -m u:1234:r f
changed '' cat f
changed '' stat f
changed '' getfattr -d f
changed '' sysx open rdonly f
changed '' sysx pwrite 0 '' f
changed '' sysx fsync f
changed '' sysx seek hole 0 f
failing() { ! "$@" 2>/dev/null >&2; }
changed '' failing sysx link f from
changed '' failing setfattr -x user.absent f
changed '' failing sysx truncate -1 f
: >replaced
ln replaced last
now_of last c mv from replaced # one name fewer

# What utimensat(2) takes for a time.
changed ac sysx utimens now omit f
changed mc sysx utimens omit now f
changed amc sysx utimens now now f
changed '' sysx utimens omit omit f
changed ac sysx utimens 5.000000006 omit f
expect_equal "$(stat -c '%X' f)" 5
changed mc sysx utimens omit -7.000000008 f
expect_equal "$(TZ=UTC stat -c '%y' f)" "1969-12-31 23:59:53.000000008 +0000"
chown 1001 f
chmod 666 f
chmod 777 .
as_other() { as 1002 "$PMEMFS_BUILD/tests/cases/sysx" "$@"; }
changed amc as_other utimens now now f
refused() { expect_equal "$(as_other "${@:2}" 2>&1)" "$1"; }
changed '' refused EPERM utimens 1 2 f
changed '' refused EPERM utimens now omit f
changed '' as_other utimens omit omit f
chmod 644 f
changed '' refused EACCES utimens now now f
changed ac as 1001 "$PMEMFS_BUILD/tests/cases/sysx" utimens 5 omit f

# Directories: whatever changes their entries, and nothing else.
mkdir d e d/sub
: >d/x
ln -s x l2
now_of d mc sysx create d/new- 1
now_of d mc sysx mkdir d/newdir
now_of d mc ln -s x d/link
now_of d mc mkfifo d/fifo
now_of d mc ln f d/hard
now_of d mc rm d/hard
now_of d mc sysx rmdir d/newdir
now_of d mc mv d/new-0 d/newer
now_of d mc mv d/newer e/newer
now_of e mc mv e/newer d/newer
now_of d mc sysx rename exchange d/newer f
now_of e mc mv d/sub e/sub
mv e/sub d/sub
sub_moves() { mv d/sub e/sub && mv e/sub d/sub; }
now_of d/sub c sub_moves
now_of d mc sysx tmpfile d text d/given
now_of d '' sysx tmpfile d text
now_of d '' sysx pwrite 0 content d/x
now_of d '' chmod 600 d/x
now_of d '' ls d
now_of d '' sysx create d/sub/deeper 1
now_of d '' failing mkdir d/sub
now_of d '' failing sysx unlink d/absent
now_of d '' failing sysx rename noreplace d/x d/newer
now_of d c chmod 700 d
now_of l2 '' readlink l2
now_of l2 c chown -h 5 l2
link_moves() { mv l2 d/l3 && mv d/l3 l2; }
now_of l2 c link_moves
# Made now, all three, and born.
made() {
	local s
	s=$(stat -c '%X %Y %Z' "$1" | tr ' ' '\n' | sort -u)
	[ "$(wc -l <<<"$s")" = 1 ] && [ $(($(date +%s) - s)) -le 10 ] || die "$1 was made at $s"
}
: >fresh
made fresh
mkdir fresh-d
made fresh-d
ln -s x fresh-l
made fresh-l
mkfifo fresh-p
made fresh-p

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
