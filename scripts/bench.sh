#!/usr/bin/env bash
# The figures of docs/performance.md. About half an hour; FULL=1 drains 50,000 records at each latency and takes ten minutes more.
set -euo pipefail
cd "$(dirname "$0")/.."

records=2500
[ -z "${FULL:-}" ] || records=50000
go test -run '^$' -bench . -benchtime 1x -timeout 60m ./internal/throughput
go test -run '^$' -bench '^BenchmarkDrain' -benchtime 1x -timeout 60m ./internal/marketplace -args -drain.records="$records"
go test -run '^$' -bench . -benchmem ./internal/pipeline
go test -run '^$' -bench . -benchmem ./internal/store/... ./internal/queue/... ./internal/importer ./usage ./simulator
# The copy of whole tables, where dynalite is installed.
go test -run '^$' -bench '^BenchmarkCopy' -benchtime 1x -timeout 30m ./internal/tablecopy
# The Lambda functions, where dynalite and fauxqs are installed (docs/stand-ins.md). Lastly the requests of 1,000 groups are counted anew.
go test -run '^$' -bench . -benchtime 1x -timeout 60m ./internal/costs
go test -run '^TestRequests$' -count 1 -timeout 60m ./internal/costs -args -full
