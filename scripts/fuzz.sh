#!/usr/bin/env bash
# Every fuzz test, one after the other. An input that fails is kept in the testdata/fuzz folder of its package, and go test replays it ever after.
set -uo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then
	cat <<'HELP'
usage: scripts/fuzz.sh [TIME] [PACKAGE...]

Runs each fuzz test of the packages for TIME: 90s, 5m, or 1000x for so many inputs. Without TIME 60s, without a package all of them.
PARALLEL=1 leaves all processors but one to others. A test that fails does not stop the rest; the exit status is 1 then.
HELP
	exit
fi
time=${1:-60s}
[[ $time =~ ^[0-9]+(s|m|h|x)$ ]] || { echo "fuzz: TIME is '$time', want for instance 90s, 5m or 1000x; scripts/fuzz.sh -h says more" >&2; exit 2; }
[ $# -le 1 ] && set -- "$time" ./...

# go test -list names the tests of a package and then, in a line of its own, the package.
list=$(go test -list '^Fuzz' "${@:2}") || { printf 'fuzz: not all tests can be listed:\n%s\n' "$list" | grep -v '^Fuzz\|^ok\|no test files' >&2; failed=1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
targets=0 execs=0 found=0 failed=${failed:-0} began=$SECONDS names=()
while read -r word package _; do
	case $word in
	Fuzz*) names+=("$word") ;;
	ok)
		for name in "${names[@]}"; do
			start=$SECONDS result=ok
			go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 1s ${PARALLEL:+-parallel "$PARALLEL"} "$package" >"$log" 2>&1 || { result=FAIL failed=1; }
			read -r n new <<<"$(sed -n 's/.*execs: \([0-9]*\) .*new interesting: \([0-9]*\) .*/\1 \2/p' "$log" | tail -n 1)"
			printf '%-4s %-50s %-18s %4ds %10d executions %5d new\n' "$result" "$package" "$name" $((SECONDS - start)) "${n:=0}" "${new:=0}"
			[ "$result" = ok ] || grep -v '^fuzz: elapsed' "$log" >&2
			targets=$((targets + 1)) execs=$((execs + n)) found=$((found + new))
		done
		names=()
		;;
	esac
done <<<"$list"
printf '%-4s %-69s %4ds %10d executions %5d new\n' "$([ "$failed" = 0 ] && echo ok || echo FAIL)" "$targets targets" $((SECONDS - began)) "$execs" "$found"
exit "$failed"
