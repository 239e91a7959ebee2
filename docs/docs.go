// Package docs carries the documentation that the command shows.
package docs

import _ "embed"

// Runbook is the runbook: an entry for each alarm.
//
//go:embed runbook.md
var Runbook string
