# timeout: 10800
# tier: long
# sanitize: no
# kill.sh, thousands of times.
rounds=${KILL_ROUNDS:-2000} size=192M tenths=3 sum_every=100
. "$(dirname "$0")/kill.sh"
