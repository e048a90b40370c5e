# files: yes
# timeout: 300
# fio writes and verifies: buffered, direct, mapped, several jobs; and verifies again later.
. "$(dirname "$0")/lib.sh"
needs_command fio
size=24M
long && size=256M
new_fs 2G
cat >jobs <<END
[global]
directory=$MNT
size=$size
verify=crc32c
verify_fatal=1
randrepeat=1
group_reporting=1
end_fsync=1
[buffered]
rw=randwrite
bsrange=512-64k
ioengine=psync
[direct]
rw=randwrite
bs=4k
direct=1
ioengine=psync
[large]
rw=write
bs=1m
direct=1
ioengine=libaio
iodepth=4
[mapped]
rw=randwrite
bs=4k
ioengine=mmap
[twice]
rw=randwrite
bs=16k
numjobs=2
ioengine=psync
END
run_fio() { fio --minimal --output=fio.out "$@" jobs 2>fio.err || { tail -5 fio.out fio.err; die "fio $*"; }; }
run_fio
check() { run_fio --verify_only; }
lasting check
end_fs
