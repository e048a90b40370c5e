# timeout: 240
# sanitize: no
# The benchmark against peers, with small numbers and three of them: only that it works.
. "$(dirname "$0")/lib.sh"
needs_pmemfs
needs_command fio git python3 jq
[ "$(id -u)" = 0 ] || skip "only root can mount the peers"
"$ROOT/tests/bench/peers" --build "$PMEMFS_BUILD" --quick --rounds 1 --json \
	--scratch "$T" --rows '^(?!.*1m)' --peers pmemfs,nullfs,tmpfs >out.json
jq -e '(.tables[0].rows | length) > 20 and all(.tables[0].rows[]; .pmemfs > 0 and .tmpfs > 0 and .nullfs > 0)
	and all(.tables[1].rows[]; .nullfs > 0 and .tmpfs > 0)' out.json >/dev/null ||
	{ cat out.json; die "a row without a result"; }
expect_equal "$(grep -c "$T/peers" /proc/mounts || :)" 0 "mounts left behind"
expect_error 2 "no peer nonsense" "$ROOT/tests/bench/peers" --peers nonsense
