package desk

import (
	"context"
	"time"
)

// Machine is what a plant on one machine says of itself.
type Machine struct {
	Address     string // of the node
	Offset      string // how far its clock runs ahead of real time
	Started     time.Time
	Marketplace string
	Metrics     []MetricSum
	Simulator   *Simulator
}

// MetricSum is a sum since the node's start.
type MetricSum struct {
	Name  string `json:"name"`
	Items int64  `json:"items"`
	Units int64  `json:"units"`
}

// Simulator is what the simulated Marketplace holds.
type Simulator struct {
	Hours int   `json:"hours"` // billed: of a license or customer, a dimension and an hour
	Units int64 `json:"units"`
	Calls int   `json:"calls"` // since the start
}

// machinePlant is a plant on one machine.
type machinePlant interface {
	Machine(ctx context.Context) (Machine, error)
}
