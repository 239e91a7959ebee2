#!/usr/bin/env bash
# Breaks the code in one place after the other and shows that the tests notice each. Minutes: -run REGEXP tries some, -list lists all,
# -json prints for programs. The work tree is left as it is. Needs what make test needs.
set -euo pipefail
cd "$(dirname "$0")/.."
exec go run ./internal/mutation "$@"
