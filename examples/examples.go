// Package examples holds the shipped examples, so that the command can play them anywhere.
package examples

import _ "embed"

//go:embed usage.csv
var usage string

// Usage is usage.csv: about thirty hours of several buyers across the end of a month.
func Usage() string { return usage }
