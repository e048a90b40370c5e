# timeout: 10800
# tier: long
# sanitize: no
# kill.sh, thousands of times.
rounds=${KILL_ROUNDS:-2000}
. "$(dirname "$0")/kill.sh"
