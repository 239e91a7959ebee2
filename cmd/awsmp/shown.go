package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/awsmp/metering/internal/ledger"
)

// maxShown bounds the lines of a list.
const maxShown = 40

// Where more than is shown can be seen.
const (
	seenNarrower = "--license narrows the list, --json shows up to 1,000"
	seenInJSON   = "--json lists all of them"
)

// first are those of a list that are shown.
func first[T any](list []T) []T { return list[:min(len(list), maxShown)] }

// writeTable writes a line of cells for each of those that are shown below a header.
func writeTable[T any](b *strings.Builder, header string, shown []T, cells func(T) string) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, header)
	for _, e := range shown {
		fmt.Fprintln(table, cells(e))
	}
	_ = table.Flush() // a strings.Builder never fails
}

// writeMore says how many are not shown, if any, and where they are.
func writeMore(b *strings.Builder, n int, one, several, seen string) {
	if n > 0 {
		fmt.Fprintf(b, "  and %s more: %s\n", counted(n, one, several), seen)
	}
}

// counted is a number with a noun that has a plural of its own.
func counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return ledger.Thousands(int64(n)) + " " + several
}
