# files: yes
# timeout: 200
# SQLite: WAL and rollback journals, integrity, a transaction cut off by kill -9.
. "$(dirname "$0")/lib.sh"
needs_command sqlite3
new_fs
for mode in wal delete truncate; do
	sqlite3 "$MNT/$mode.db" >mode <<-END
		PRAGMA journal_mode=$mode;
		PRAGMA synchronous=FULL;
		CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, n INTEGER);
		WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20000)
		INSERT INTO t SELECT x, hex(x * 7919), x * x FROM c;
		CREATE INDEX i ON t(v);
		DELETE FROM t WHERE id % 3 = 0;
		UPDATE t SET v = v || 'updated' WHERE id % 5 = 0;
	END
	expect_equal "$(head -1 mode)" $mode
done
# Each statement a transaction of its own.
seq 300 | sed 's/.*/INSERT INTO t(v, n) VALUES("single", &);/' | sqlite3 "$MNT/wal.db"

check() {
	local mode
	for mode in wal delete truncate; do
		expect_equal "$(sqlite3 "$MNT/$mode.db" 'PRAGMA integrity_check')" ok $mode
		expect_equal "$(sqlite3 "$MNT/$mode.db" 'SELECT count(*), sum(n) FROM t WHERE n = id * id')" \
			"$rows" $mode
	done
	expect_equal "$(sqlite3 "$MNT/wal.db" 'SELECT count(*) FROM t WHERE v = "single"')" 300
}
rows="13334|$(seq 20000 | awk '$1 % 3 { s += $1 * $1 } END { printf "%.0f", s }')"
lasting check
baseline && exit 0

# Writers are cut off; what they were told is there, and the database is whole.
for mode in wal delete; do
	(
		for i in $(seq 100000); do
			sqlite3 -cmd '.timeout 2000' "$MNT/$mode.db" \
				"PRAGMA synchronous=FULL; INSERT INTO t(v, n) VALUES('acked', $i)" || break
			echo "$i" >"acked.$mode"
		done 2>/dev/null
	) &
done
sleep 3
kill_fs
wait
mount_fs
for mode in wal delete; do
	acked=$(<acked.$mode)
	expect_equal "$(sqlite3 "$MNT/$mode.db" 'PRAGMA integrity_check')" ok $mode
	found=$(sqlite3 "$MNT/$mode.db" "SELECT count(*) FROM t WHERE v = 'acked'")
	[ "$found" = "$acked" ] || [ "$found" = $((acked + 1)) ] ||
		die "$mode: $acked inserts were acknowledged, $found are there"
	[ "$acked" -gt 10 ] || die "$mode: only $acked inserts in 3 seconds"
done
end_fs
