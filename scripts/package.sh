#!/usr/bin/env bash
# The Lambda functions as one zip file, reproducible to the byte: the same code and the same Go make the same file, whatever folder,
# cache, date or git history. VERSION=v1.2.3 names a release in the function's log. The file goes to dist, or to the folder given.
set -euo pipefail
cd "$(dirname "$0")/.."

[[ ${VERSION:-} =~ ^[A-Za-z0-9.+_-]*$ ]] || { echo "package: VERSION is '$VERSION', want letters, digits and . + _ - alone, as in v1.2.3" >&2; exit 1; }
out=${1:-dist}
rm -f "$out/awsmp-bootstrap.zip" # a build that fails must not leave the last one to be taken for its own
mkdir -p "$out"
program=$(mktemp)
trap 'rm -f "$program"' EXIT

# What a person may have set for other builds does not count here. sqlite stays out: nothing that a function runs imports it.
export GOFLAGS=-mod=readonly GOWORK=off GOEXPERIMENT= GOFIPS140=off CGO_ENABLED=0
GOOS=linux GOARCH=arm64 GOARM64=v8.0 go build -tags lambda.norpc -trimpath -buildvcs=false \
	-ldflags "-s -w -buildid=${VERSION:+ -X main.version=$VERSION}" -o "$program" ./cmd/bootstrap
echo "built for linux/arm64 by $(go env GOVERSION)"
GOOS= GOARCH= go run ./internal/lambdazip "$program" "$out/awsmp-bootstrap.zip"
