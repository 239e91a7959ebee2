#!/usr/bin/env bash
# Formatting and static checks. Each prints what is wrong and how to put it right.
set -euo pipefail
cd "$(dirname "$0")/.."

# A tracked file that is deleted and not yet staged is listed as both, and cannot be read.
unformatted=$(comm -23 <(git ls-files -co --exclude-standard '*.go' | sort -u) <(git ls-files -d '*.go' | sort) | xargs gofmt -l)
if [ -n "$unformatted" ]; then
	printf 'lint: not formatted, run gofmt -w on:\n%s\n' "$unformatted" >&2
	exit 1
fi
go vet ./...
go tool staticcheck ./...
go mod tidy -diff || { echo 'lint: go.mod or go.sum is not tidy, run: go mod tidy' >&2; exit 1; }
echo 'lint: gofmt, vet, staticcheck and go.mod are clean'
