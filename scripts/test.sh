#!/usr/bin/env bash
# Everything that must hold, in one command. Needs Go alone; with a C compiler the race detector looks on, and with Python's
# boto3 and the AWS CLI on the PATH the simulator is tried with them too. In continuous integration (CI set) a missing one is a
# failure, not a skip.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v go >/dev/null || { echo 'test: Go is missing; install Go 1.26 or newer, see https://go.dev/doc/install' >&2; exit 1; }

scripts/lint.sh

missing=() race=(-race)
command -v "$(go env CC)" >/dev/null || { missing+=('a C compiler for the race detector (apt-get install gcc)'); race=(); }
python3 -c 'import boto3' 2>/dev/null || missing+=('boto3 (pip install boto3)')
command -v aws >/dev/null || missing+=('the AWS CLI (pip install awscli)')
if [ ${#missing[@]} -gt 0 ]; then
	printf 'test: not found: %s\n' "${missing[@]}" >&2
	[ -z "${CI:-}" ] || exit 1
	echo 'test: what needs them is skipped' >&2
fi

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
status=0
# The race detector runs over everything; the random days run once more without it, all of them.
go tool gotestsum --format pkgname --jsonfile "$logs/all" -- "${race[@]}" -count=1 ./... || status=1
if [ ${#race[@]} -gt 0 ]; then
	go tool gotestsum --format pkgname --jsonfile "$logs/seeds" -- -count=1 -run '^TestSeeds$' ./internal/node || status=1
fi

count() { cat "$logs"/* | grep -c "\"Action\":\"$1\",.*\"Test\":" || true; }
printf '%s passed, %s failed, %s skipped\n' "$(count pass)" "$(count fail)" "$(count skip)"
exit $status
