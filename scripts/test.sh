#!/usr/bin/env bash
# Everything that must hold, in one command. Needs Go alone; with a C compiler the race detector looks on, with Python's boto3 and
# the AWS CLI on the PATH the simulator is tried with them too, with moto and Node the AWS adapters are tried against stand-ins
# (docs/stand-ins.md), with cfn-lint the templates are held to AWS's schemas, and with Chromium the registration page is tried in a
# browser. In continuous integration (CI set) a missing one is a failure, not a skip.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v go >/dev/null || { echo 'test: Go is missing; install Go 1.26 or newer, see https://go.dev/doc/install' >&2; exit 1; }

scripts/lint.sh

# SQLite's code is C made Go, and checking each of its pointers would take most of the time of its tests.
missing=() race=(-race '-gcflags=modernc.org/...=-d=checkptr=0')
command -v "$(go env CC)" >/dev/null || { missing+=('a C compiler for the race detector (apt-get install gcc)'); race=(); }
python3 -c 'import boto3' 2>/dev/null || missing+=('boto3 (pip install boto3)')
command -v aws >/dev/null || missing+=('the AWS CLI (pip install awscli)')
cfn-lint --version >/dev/null 2>&1 || missing+=('cfn-lint (pip install cfn-lint==1.51.0)')
python3 -c 'import moto.moto_server.werkzeug_app' 2>/dev/null || missing+=("moto (pip install 'moto[server]==5.2.1')")
standins=internal/standin
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	missing+=('Node with npm (https://nodejs.org, version 20 or newer)')
elif [ ! $standins/node_modules/.package-lock.json -nt $standins/package-lock.json ]; then
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --prefix $standins >&2 || missing+=("dynalite, fauxqs and axe-core (npm ci failed in $standins)")
fi
browser() {
	local name
	for name in ${CHROMIUM:-chromium chromium-browser google-chrome}; do command -v "$name" >/dev/null && return; done
	false
}
apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >/dev/null 2>&1; }
if ! browser && [ -z "${CHROMIUM:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo 'test: Chromium is missing; apt-get installs it' >&2
	apt install -y --no-install-recommends chromium || { apt update && apt install -y --no-install-recommends chromium; } || true
fi
browser || missing+=('Chromium (apt-get install --no-install-recommends chromium, or its path in CHROMIUM)')
if [ ${#missing[@]} -gt 0 ]; then
	printf 'test: not found: %s\n' "${missing[@]}" >&2
	[ -z "${CI:-}" ] || exit 1
	echo 'test: what needs them is skipped' >&2
fi

# scripts/lint.sh has vetted everything.
logs=$(mktemp -d) failed=$(mktemp)
trap 'rm -rf "$logs" "$failed"' EXIT
# Tests allocate much and keep little: collecting as often as a server does is most of what some of them take.
export GOGC=400
check() { go tool gotestsum --format pkgname --jsonfile "$logs/$1" -- -count=1 -vet=off -timeout=30m "${@:2}" || echo "$1" >>"$failed"; }
# The race detector runs over all packages but those that start processes and stand-ins and wait for them: it would see but the tests there. These run beside
# it, and after them, likewise without it, every scenario of the model check, the last hours of many licenses, all orders of events, all random cases, the
# counts of requests, the named scenarios once more over the durable store, but for those that count what is asked of the one in memory, and 1,000 virtual
# days of the whole system with every variant that breaks the law.
processes='/(cmd/awsmp|deploy|internal/endtoend)$'
plain() {
	check processes "$@"
	if [ ${#race[@]} -gt 0 ]; then
		check courses -run '^TestEveryCourse' ./internal/modelcheck
		check lasthours -run '^TestLastHour.*$' ./internal/node
		check orders -run '^Test(EveryOrder(EndsTheSame|ThroughTheQueue)|UpToThreeEventsInEveryOrder)$' ./internal/metering ./internal/lifecycle
		check random -run '^Test(EveryFileBalances|Chaos|InterruptedAnywhereAndRunAgain)$' ./internal/demo ./usage ./internal/importer
		check costs -run '^TestRequests$' ./internal/costs
		check proof ./internal/simulation -args -days=1000
	fi
	check durable -run '^Test(F[0-9]|Case)' -skip '^Test(F41|F45Zero|Case26)' ./internal/node -args -store=durable
}
# shellcheck disable=SC2046 # a package's path has no blanks
plain $(go list ./... | grep -E "$processes") &
# shellcheck disable=SC2046
check all "${race[@]}" $(go list ./... | grep -vE "$processes")
wait

count() { cat "$logs"/* | grep -c "\"Action\":\"$1\",.*\"Test\":" || true; }
printf '%s passed, %s failed, %s skipped\n' "$(count pass)" "$(count fail)" "$(count skip)"
[ ! -s "$failed" ]
