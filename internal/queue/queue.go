// Package queue holds what every adapter of the queues shares. The adapters live in the packages below it, and queuetest
// is the one contract that they all pass.
package queue

import (
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Delivery is one delivery of a message. The same message may be delivered again, under another receipt.
type Delivery struct {
	ID       string // of the message
	Receipt  string // of this delivery: what Delete, Extend and Release take
	Body     string
	Receives int // how often the message has been delivered, this time included
	SentAt   time.Time
}

// CheckBatch refuses what no Send takes: no body or too many, an empty one, or too much together.
func CheckBatch(bodies []string) error {
	if len(bodies) == 0 || len(bodies) > metering.MaxBatch {
		return fmt.Errorf("send messages: %d entries, one batch takes 1 to %d", len(bodies), metering.MaxBatch)
	}
	size := 0
	for i, body := range bodies {
		if body == "" {
			return fmt.Errorf("send messages: entry %d is empty", i)
		}
		size += len(body)
	}
	if size > metering.MaxBatchBytes {
		return fmt.Errorf("send messages: %d bytes, one batch takes %d", size, metering.MaxBatchBytes)
	}
	return nil
}
