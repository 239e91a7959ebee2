package ledger

import (
	"fmt"
	"time"
)

// CopyNote says of a ledger how the copy was made that it was computed from.
type CopyNote struct {
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
	Continued  bool      `json:"continued"` // an earlier command began it
	Rows       int64     `json:"rows"`      // read from the usage table
	Records    int64     `json:"records"`   // read from the aggregated-usage table
	ReadUnits  float64   `json:"readUnits"` // read request units that the copy took
	Dollars    float64   `json:"dollars"`   // what these cost on demand, at the price of us-east-1
	// ReadAgain counts the groups that waited, did not balance in the copy, held late usage or were written while it was made: they were
	// read again from the tables, and count as they stood then.
	ReadAgain int `json:"readAgain"`
}

func (n CopyNote) text() string {
	const layout = "2006-01-02 15:04:05"
	end := n.FinishedAt.UTC().Format(layout)
	if n.StartedAt.UTC().Format(time.DateOnly) == n.FinishedAt.UTC().Format(time.DateOnly) {
		end = n.FinishedAt.UTC().Format(time.TimeOnly)
	}
	s := fmt.Sprintf("Both tables were read from %s to %s UTC: %s, %s, %s (about $%.4f on demand in us-east-1)", n.StartedAt.UTC().Format(layout), end,
		Counted(n.Rows, "row"), Counted(n.Records, "record"), Counted(int64(n.ReadUnits+0.5), "read unit"), n.Dollars)
	if n.ReadAgain > 0 {
		s += fmt.Sprintf("\n%s waited, changed meanwhile, held late usage or did not balance in it: read again from the tables", Counted(int64(n.ReadAgain), "group"))
	}
	return s
}
