#!/usr/bin/env bash
# The figures of docs/performance.md. About ten minutes; FULL=1 drains 50,000 records at each latency and takes about twenty.
set -euo pipefail
cd "$(dirname "$0")/.."

records=2500
[ -z "${FULL:-}" ] || records=50000
go test -run '^$' -bench . -benchtime 1x -timeout 60m ./internal/throughput
go test -run '^$' -bench '^BenchmarkDrain' -benchtime 1x -timeout 60m ./internal/marketplace -args -drain.records="$records"
go test -run '^$' -bench . -benchmem ./internal/pipeline
go test -run '^$' -bench . -benchmem ./internal/store/... ./internal/queue/... ./internal/importer ./usage ./simulator
