package modelcheck

import (
	"context"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// Scenario is a small world: what is there at the start, who acts, and how much may go wrong.
type Scenario struct {
	Name  string
	About string // in a sentence
	// Groups are those that the scenario speaks of; no row and no record belongs to another.
	Groups   []metering.Group
	Rows     []metering.Row
	Messages []Message
	Cast     []Role
	// Clock are the moments at which the clock may stand. It moves from each to the next between any two steps.
	Clock []Moment
	Rules metering.Rules

	// Clockwise lets time pass between an effect and the look at the clock that follows it.
	Clockwise bool
	// Lagging lets the pending indexes lag behind their tables by any number of writes.
	Lagging bool
	// PageRows is how many rows one page holds; 0 means all.
	PageRows int
	// Faults is how often something goes wrong: an effect fails, an answer is lost after it, or a process is killed.
	Faults int
	// Doubles is how often a message is delivered and stays in its queue.
	Doubles int

	// broken, in tests, puts a broken protocol in the place of a role's tables.
	broken func(role string, p *Process) Tables
	// whole, in tests, leaves no step out: see alone.
	whole bool
}

// Moment is an instant at which the clock may stand.
type Moment struct {
	At    time.Time
	Means string // "the hour can no longer be billed"
	// Settles says that one more visit of every stage at this moment leaves nothing waiting.
	Settles bool
}

// Message is a message in a queue.
type Message struct {
	Topic string // WorkTopic or CleanupTopic
	Body  string
}

// The queues.
const (
	WorkTopic    = "work"
	CleanupTopic = "cleanup"
)

// Tables is what a stage reads and writes.
type Tables interface {
	pipeline.Rows
	pipeline.Records
}

// Role is a part in a scenario: a stage, or a seller.
type Role struct {
	Name string
	// Count is how many may act at once; 0 means one. Those without Consumes act once each.
	Count int
	// Consumes is the queue whose messages it takes, one by one; empty for what is not started by a message.
	Consumes string
	// From and Until are the moments between which it may begin, as numbers of Scenario.Clock.
	From, Until int
	// Unhurried says that it looks at the clock for audit times alone, so that no look of its is a step.
	Unhurried bool
	// Run is the role: it acts through its process alone. Its failure brings its message back.
	Run func(ctx context.Context, p *Process, body string) (Told, error)
}

// Told is what a writer was told of what it wrote.
type Told []Answer

// Answer is what became of a quantity of a row.
type Answer struct {
	License, SortKey string
	Quantity         int64 // unique among all that is written to the row
	Standing         Standing
}

// Standing is a writer's answer.
type Standing string

// A writer's answers.
const (
	Written       Standing = "written"
	Late          Standing = "written, and late"
	HourCommitted Standing = "not written, its hour is committed"
	Refused       Standing = "not written, refused"
	Unknown       Standing = "unknown"
)
