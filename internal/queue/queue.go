// Package queue holds what every adapter of the queues shares. The adapters live in the packages below it, and queuetest
// is the one contract that they all pass.
package queue

import "time"

// Limits of one Send and one Receive (Amazon SQS API reference, SendMessageBatch and ReceiveMessage; developer guide, message
// quotas).
const (
	MaxBatch = 10
	// MaxBytes bounds each body, and all bodies of one Send together.
	MaxBytes = 1 << 20
)

// Delivery is one delivery of a message. The same message may be delivered again, under another receipt.
type Delivery struct {
	ID       string // of the message
	Receipt  string // of this delivery: what Delete, Extend and Release take
	Body     string
	Receives int // how often the message has been delivered, this time included
	SentAt   time.Time
}
