package desk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// StatusOptions bound what a status reads. The zero value works.
type StatusOptions struct {
	// Entries is how many waiting rows, and records, are counted of an hour before it is said to hold more; 0 means 5,000.
	Entries int
	// Patience is for how long the books are recomputed, where the store is on this machine; 0 means 3 s.
	Patience time.Duration
}

// Status is a look at a place. Times are UTC; units are whole numbers.
type Status struct {
	Place       string      `json:"place"` // in words
	Now         time.Time   `json:"now"`
	Offset      string      `json:"offset,omitempty"`      // how far the clock runs ahead of real time; one machine only
	Started     time.Time   `json:"started,omitzero"`      // of the node, by its clock; missing where none runs
	Node        string      `json:"node,omitempty"`        // address of the node; missing where none runs, and on AWS
	Store       string      `json:"store,omitempty"`       // path; one machine only
	Marketplace string      `json:"marketplace,omitempty"` // that the node sends to
	ProductCode string      `json:"productCode"`
	LockHours   int         `json:"lockHours"`
	DryRun      bool        `json:"dryRun"` // calls no Marketplace
	Paused      bool        `json:"paused"` // sends nothing
	Direct      bool        `json:"direct"` // has no usage table
	Findings    []Finding   `json:"findings"`
	Waiting     []Waiting   `json:"waiting"` // oldest first
	Windows     []Window    `json:"windows"` // licenses in their last hour, the one that ends first in front
	Refused     RefusedSum  `json:"refused"`
	Queues      []Queue     `json:"queues"`
	DeadLetters int         `json:"deadLetters"` // messages that failed too often
	Stages      []Stage     `json:"stages"`      // in the order of the pipeline
	Today       Fates       `json:"today"`
	Month       Fates       `json:"month"`
	Hours       []HourFates `json:"hours"`   // the last 24 hours and the one in progress, oldest first
	Metrics     []MetricSum `json:"metrics"` // since the node's start, by name
	Simulator   *Simulator  `json:"simulator,omitempty"`
	Gaps        []string    `json:"gaps,omitempty"` // what could not be looked at, and why
}

// Waiting is what waits under one hour.
type Waiting struct {
	Bucket   string    `json:"bucket"` // an hour, as 2026-03-10T14, where the items are well-formed
	Rows     int       `json:"rows"`
	Records  int       `json:"records"`
	Units    int64     `json:"units"`                  // of rows and records together
	Over     bool      `json:"over,omitempty"`         // there is more than was counted
	NoUnits  bool      `json:"unitsUnknown,omitempty"` // units are those of the records alone: the index of rows knows none
	LostAt   time.Time `json:"lostAt,omitzero"`        // from when on the first of it can no longer be billed; missing where the bucket is no hour
	LostIn   string    `json:"lostIn,omitempty"`       // until then, as "22h40m0s"; negative where it is over
	LastHour bool      `json:"lastHour,omitempty"`     // a license's last hour ends before the hour's own time does, and LostAt is its end
	Ended    int       `json:"ended,omitempty"`        // rows and records of licenses that have ended: what is sent of them is refused
	Misfiled bool      `json:"misfiled,omitzero"`      // the bucket is no hour: it is never found

	zeros                 bool           // no row among those that were looked at holds a unit
	of                    map[buyer]held // whose it is, as far as it was counted
	rowsLost, recordsLost time.Time      // LostAt of each, without those of licenses that have ended; zero where there are none
}

// Window is a license in its last hour.
type Window struct {
	License string    `json:"licenseArn"`
	Account string    `json:"customerAWSAccountId"`
	Expiry  time.Time `json:"expiry"`
	Left    string    `json:"left"` // until then, as "41m10s"; negative where it is over and the license is about to be closed for good
}

// RefusedSum is the refused usage that can be sent once more, as awsmp refused list shows it.
type RefusedSum struct {
	Records     int       `json:"records"`
	Units       int64     `json:"units"`
	FirstLostAt time.Time `json:"firstLostAt,omitzero"` // from when on the first of it can no longer be billed
	Left        string    `json:"left,omitempty"`       // until then, as "21h33m10s"
	Uncounted   bool      `json:"uncounted,omitempty"`  // there is too much to look at, or it is on AWS, where a whole table would be read
}

// Fates is where units are that belong to a stretch of time.
type Fates struct {
	Since time.Time `json:"since"`
	// By says what belongs to it: hour, the usage of its hours, recomputed from the tables; counted, what stages and Marketplace have
	// said in it, by the metrics, with what waits now; empty where neither could be had.
	By     string                         `json:"by,omitempty"`
	Places map[ledger.Place]ledger.Amount `json:"places"` // all of them
}

// What Fates go by.
const (
	ByHour  = "hour"
	ByCount = "counted"
)

// HourFates is where units of an hour are, or those that were counted in it (Fates.By).
type HourFates struct {
	Hour    string                 `json:"hour"`
	Units   map[ledger.Place]int64 `json:"units"`             // those that hold something
	Unknown bool                   `json:"unknown,omitempty"` // rows wait whose units are not known
}

// Status looks at everything. A part that cannot be looked at is named among the gaps; where nothing can, that is the error.
func (d *Desk) Status(ctx context.Context, o StatusOptions) (Status, error) {
	now := d.Now().UTC()
	l := &look{desk: d, now: now, options: o, status: Status{
		Place: d.Name, Now: now, ProductCode: d.ProductCode, LockHours: max(1, d.Rules.LockHours), DryRun: d.DryRun, Paused: d.Paused, Direct: d.Direct,
		Findings: []Finding{}, Waiting: []Waiting{}, Windows: []Window{}, Queues: []Queue{}, Stages: []Stage{}, Hours: []HourFates{}, Metrics: []MetricSum{},
	}}
	parts := []part{{"what waits", l.waiting}, {"last hours", l.windows}}
	if m, ok := d.Tables.(machineTables); ok {
		parts = append(parts, part{"clock", func(ctx context.Context) error { return l.machine(ctx, m) }}, part{"books", l.books}, part{"refused usage", l.refused})
	} else {
		l.status.Refused.Uncounted = true
	}
	if d.Plant != nil {
		parts = append(parts, part{"queues", l.queues}, part{"stages", l.stages}, part{"alarms", l.ringing}, part{"metrics", l.counted}, part{"troubles", l.troubles})
	}
	if d.Silent != "" {
		l.gap("node: the one at %s does not answer", d.Silent)
	}
	if err := l.run(ctx, parts); err != nil {
		return Status{}, err
	}
	l.shorten(ctx)
	l.fates()
	l.find()
	return l.status, nil
}

// look is a status in the making.
type look struct {
	desk    *Desk
	now     time.Time
	options StatusOptions

	mu     sync.Mutex // of status.Gaps
	status Status

	alarms []Alarm
	found  []Finding // by the plant
	counts []Count   // since the month began
	doubts []Count   // of these, what is in doubt
	ledger *books    // nil where they were not recomputed
}

type part struct {
	what string
	do   func(context.Context) error
}

// run looks at all parts side by side.
func (l *look) run(ctx context.Context, parts []part) error {
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, p := range parts {
		all.Go(func() { errs[i] = p.do(ctx) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := 0
	for i, err := range errs {
		if err == nil {
			continue
		}
		failed++
		l.gap("%s: %v", parts[i].what, err)
	}
	if failed == len(parts) || errs[0] != nil && l.status.Store != "" { // a store of this machine that cannot be read is no gap
		return fmt.Errorf("look at what waits: %w", errs[0])
	}
	return nil
}

func (l *look) gap(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Gaps = append(l.status.Gaps, fmt.Sprintf(format, args...))
}

// windows are the licenses in their last hour.
func (l *look) windows(ctx context.Context) error {
	list, err := l.desk.Tables.Deprovisioning(ctx)
	for _, d := range list { // what could be read stands beside an error
		l.status.Windows = append(l.status.Windows, Window{License: d.License, Account: d.Account, Expiry: d.Expiry.UTC(), Left: l.left(d.Expiry)})
	}
	return err
}

func (l *look) left(until time.Time) string { return until.Sub(l.now).Round(time.Second).String() }

// machineTables are tables on this machine: reading all of them costs nothing.
type machineTables interface {
	StorePath() string
	Offset(ctx context.Context) (time.Duration, error)
	// StartCommand is how a node is started on them.
	StartCommand() string
}

func (l *look) machine(ctx context.Context, tables machineTables) error {
	s := &l.status
	s.Store = tables.StorePath()
	offset, err := tables.Offset(ctx)
	if err != nil {
		return err
	}
	s.Offset = offset.Round(time.Second).String()
	node, ok := l.desk.Plant.(machinePlant)
	if !ok {
		return nil
	}
	m, err := node.Machine(ctx)
	if err != nil {
		return err
	}
	s.Node, s.Offset, s.Started, s.Marketplace, s.Simulator = m.Address, m.Offset, m.Started, m.Marketplace, m.Simulator
	s.Metrics = append(s.Metrics, m.Metrics...)
	return nil
}

func (l *look) queues(ctx context.Context) error {
	list, err := l.desk.Plant.Queues(ctx)
	for _, q := range list {
		l.status.Queues = append(l.status.Queues, q)
		if q.Dead {
			l.status.DeadLetters += q.Visible + q.InFlight
		}
	}
	return err
}

func (l *look) stages(ctx context.Context) error {
	list, err := l.desk.Plant.Stages(ctx)
	l.status.Stages = append(l.status.Stages, list...)
	return err
}

func (l *look) ringing(ctx context.Context) (err error) {
	l.alarms, err = l.desk.Plant.Ringing(ctx)
	return err
}

func (l *look) troubles(ctx context.Context) (err error) {
	l.found, err = l.desk.Plant.Troubles(ctx)
	return err
}

func (l *look) counted(ctx context.Context) (err error) {
	from := l.monthBegan()
	if early := l.now.Add(-picturedHours * time.Hour).Truncate(time.Hour); early.Before(from) {
		from = early
	}
	counts, err := l.desk.Plant.Counted(ctx, from, l.now)
	for _, c := range counts {
		switch c.Cause {
		case "":
			l.counts = append(l.counts, c)
		case metering.VerdictUnknown:
			l.doubts = append(l.doubts, c)
		}
	}
	return err
}

func (l *look) dayBegan() time.Time { return l.now.Truncate(24 * time.Hour) }

func (l *look) monthBegan() time.Time {
	return time.Date(l.now.Year(), l.now.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// refusedPatience is for how long refused usage is looked for: every record is read, and somebody waits.
const refusedPatience = time.Second

// refused sums the refused usage that a retry would send once more.
func (l *look) refused(ctx context.Context) error {
	brief, stop := context.WithTimeout(ctx, refusedPatience)
	defer stop()
	sum, err := l.refusals(brief)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		sum, err = RefusedSum{Uncounted: true}, nil
	}
	if sum.Records > 0 {
		sum.Left = l.left(sum.FirstLostAt)
	}
	l.status.Refused = sum
	return err
}

func (l *look) refusals(ctx context.Context) (sum RefusedSum, err error) {
	d := l.desk
	retrier, ends := d.retrier(metering.ReopenOf), newEnds(d)
	for license, err := range d.Tables.Licenses(ctx) {
		if err != nil {
			return sum, err
		}
		dry, err := retrier.Run(ctx, pipeline.Retry{License: license, DryRun: true})
		if err != nil {
			return sum, err
		}
		sum.Records, sum.Units = sum.Records+len(dry.Reopened), sum.Units+dry.Units
		for _, f := range dry.Reopened {
			at := f.LostAt
			if e := ends.of(ctx, license, f.Account); !e.over { // of an ended one it is refused until the buyer comes back, which may be at any time
				at = e.cut(at)
			}
			sum.FirstLostAt = sooner(sum.FirstLostAt, at, true)
		}
	}
	return sum, nil
}
