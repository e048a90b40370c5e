# files: yes
# timeout: 300
# sanitize: no
# PostgreSQL: initdb, pgbench, a stop, a crash of the server, a crash of the filesystem.
. "$(dirname "$0")/lib.sh"
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
[ -n "$bin" ] && [ -x "$bin/pgbench" ] || skip "no PostgreSQL server"
id postgres >/dev/null 2>&1 || skip "no user postgres"
seconds=5
long && seconds=30
new_fs 1G
pg() { (cd / && setpriv --reuid postgres --regid postgres --init-groups -- env PGHOST="$T/run" "$@"); }
mkdir run
mkdir "$MNT/pg"
chown postgres run "$MNT/pg"
pg "$bin/initdb" -D "$MNT/pg/data" -A trust >initdb.log 2>&1 || { cat initdb.log; die "initdb"; }
conf="-c listen_addresses= -c unix_socket_directories=$T/run"
start() { pg "$bin/pg_ctl" -D "$MNT/pg/data" -o "$conf" -w -t 60 -l "$T/run/log" start >/dev/null ||
	{ cat "$T/run/log"; die "the server does not start"; }; }
stop() { pg "$bin/pg_ctl" -D "$MNT/pg/data" -w -m "${1:-fast}" stop >/dev/null; }
trap 'stop immediate 2>/dev/null || :' EXIT
baseline && trap 'stop immediate 2>/dev/null || :; rm -rf "$MNT"' EXIT
query() { pg "$bin/psql" -Atqc "$1" postgres; }

start
pg "$bin/pgbench" -i -q -s 2 postgres >/dev/null 2>&1
pg "$bin/pgbench" -c 4 -j 2 -T $seconds postgres >bench.log 2>&1 || { cat bench.log; die "pgbench"; }
expect_match "$(<bench.log)" 'number of failed transactions: 0'
# The invariants of pgbench's bank.
balanced() {
	query 'SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance)
		FROM pgbench_tellers), (SELECT sum(bbalance) FROM pgbench_branches), (SELECT
		sum(delta) FROM pgbench_history), (SELECT count(*) FROM pgbench_history)'
}
before=$(balanced)
expect_equal "$(cut -d'|' -f1-3 <<<"$before" | tr '|' '\n' | sort -u | wc -l)" 1 "the balances"
query 'CREATE EXTENSION amcheck'
indexes_whole() {
	query "SELECT bt_index_check(c.oid, true) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE a.amname = 'btree' AND c.relkind = 'i' AND c.relpersistence = 'p'" >/dev/null
}
indexes_whole
stop
baseline && exit 0

umount_fs
fsck_clean
mount_fs
start
expect_equal "$(balanced)" "$before" "after a clean remount"
indexes_whole

# The filesystem is killed under load. Commits that were acknowledged are in the history.
pg "$bin/pgbench" -n -c 4 -j 2 -T 60 -P 1 --log --log-prefix="$T/run/trans" postgres >/dev/null 2>&1 &
sleep 4
server=$(head -n 1 run/.s.PGSQL.5432.lock)
kill_fs
wait || :
kill -9 "$server" 2>/dev/null || :
wait_pid "$server"
rm -f run/.s.PGSQL.*
fsck_clean
mount_fs
rm -f "$MNT/pg/data/postmaster.pid"
start
after=$(balanced)
expect_equal "$(cut -d'|' -f1-3 <<<"$after" | tr '|' '\n' | sort -u | wc -l)" 1 "balances after a kill"
acked=$(cat "$T"/run/trans.* 2>/dev/null | wc -l)
had=${before##*|}
[ "${after##*|}" -ge $((had + acked)) ] ||
	die "$((had + acked)) transactions were acknowledged, ${after##*|} are there"
indexes_whole
stop
end_fs
