#!/usr/bin/env bash
# Runs go test at another time: the tests, and the programs that they build and start, take the given time for the present one.
#
#   scripts/at.sh 2026-12-01T00:10:00Z ./deploy -run TestDrill
#
# Tests must pass at any minute of any day; docs/proof.md names the times at which those that start functions were tried. Programs that are not written in Go keep
# the machine's time, which the tests that ask moto, Python or the AWS CLI for a time do not bear: some of internal/stack and of cmd/awsmp.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -lt 2 ] || ! begin=$(date -u -d "$1" +%s 2>/dev/null); then
	echo 'at: a time and what go test is to run, for example: scripts/at.sh 2026-12-01T00:10:00Z ./deploy -run TestDrill' >&2
	exit 2
fi
shift

# Go's time.Now gets an offset by way of an overlay of its source. Processes read it from a file, since functions have an environment of their own. Its path is
# part of what is compiled, and always the same, so that all of that is compiled once.
at=${TMPDIR:-/tmp}/awsmp-at-$(id -u)
mkdir -p "$at"
exec 9>"$at/lock"
flock -n 9 || { echo 'at: another run of scripts/at.sh is under way; wait for its end' >&2; exit 1; }
source=$(go env GOROOT)/src/time/time.go
awk -v file="$at/offset" '
	{ print }
	/^func Now\(\) Time \{$/ { inside = 1 }
	inside && /^\tsec, nsec, mono := runtimeNow\(\)$/ { print "\tif !runtimeIsBubbled() {\n\t\tsec += clockOffset\n\t}"; inside = 0; done = 1 }
	END {
		if (!done) exit 1
		print "\nvar clockOffset = func() (seconds int64) {"
		print "\tfile, err := open(\"" file "\")"
		print "\tif err != nil {\n\t\treturn 0\n\t}"
		print "\tdefer closefd(file)"
		print "\tvar text [20]byte"
		print "\tn, _ := read(file, text[:])"
		print "\tfor _, digit := range text[:max(n, 0)] {\n\t\tseconds = 10*seconds + int64(digit-48)\n\t}"
		print "\treturn seconds\n}()"
	}
' "$source" >"$at/time.go" || { echo "at: $source is not as it was; scripts/at.sh has to follow it" >&2; exit 1; }
printf '{"Replace":{"%s":"%s"}}\n' "$source" "$at/time.go" >"$at/overlay.json"
export GOFLAGS="${GOFLAGS:-} -overlay=$at/overlay.json"

rm -f "$at/offset" # the compiler keeps the machine's time
go test -exec true "$@" >/dev/null # compiles, so that the tests begin at the time that was asked for
offset=$((begin - $(date +%s)))
[ $offset -ge 0 ] || { echo 'at: the time has to be later than now' >&2; exit 2; }
printf %d $offset >"$at/offset"
trap 'rm -f "$at/offset"' EXIT
go test -count=1 "$@"
