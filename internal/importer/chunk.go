package importer

import (
	"cmp"
	"errors"
	"time"

	"github.com/awsmp/metering/internal/intake"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/usagefile"
	"github.com/awsmp/metering/usage"
)

// Limits bound a chunk: what is held in memory, and what is one batch. Their effect depends on the content of the file alone.
type Limits struct {
	Lines int   // 0 means 65,536
	Bytes int64 // of those lines; 0 means 32 MiB
}

// The larger a chunk, the fewer flushes does a row take whose lines lie all over the file. A row takes metering.MaxFlushes of them,
// so with these limits any order is fine up to 6.5 million lines.
const (
	chunkLines = 1 << 16
	chunkBytes = 32 << 20
)

func (l Limits) orDefault() Limits {
	return Limits{cmp.Or(l.Lines, chunkLines), cmp.Or(l.Bytes, chunkBytes)}
}

// chunk is a stretch of lines that is written as one batch.
type chunk struct {
	lines  []line
	events []usage.Event // of the lines that are not refused, in their order
	bytes  int64
}

// line is a line of a chunk.
type line struct {
	number       int
	offset, size int64
	refusal      *usagefile.Refusal // found without asking the store; otherwise:
	event        int                // its place among the events
	units        int64
	row          rowID
}

// rowID is the row that a line is folded into.
type rowID struct {
	license, account, dimension string
	second                      metering.Second
}

// add takes a line, or the refusal of one, into the chunk.
func (c *chunk) add(l usagefile.Line, err error) {
	c.bytes += l.Size
	entry := line{number: l.Number, offset: l.Offset, size: l.Size}
	var event usage.Event
	if err == nil {
		event, err = intake.Event(l)
	}
	if !errors.As(err, &entry.refusal) {
		entry.event, entry.units = len(c.events), event.Quantity
		entry.row = rowID{event.License, event.Account, event.Dimension, metering.Second(event.Time.Unix()).FoldedInto(metering.Second(fold / time.Second))}
		c.events = append(c.events, event)
	}
	c.lines = append(c.lines, entry)
}

func (c *chunk) full(l Limits) bool { return len(c.lines) >= l.Lines || c.bytes >= l.Bytes }

func (c *chunk) reset() {
	clear(c.events)
	clear(c.lines)
	c.lines, c.events, c.bytes = c.lines[:0], c.events[:0], 0
}
