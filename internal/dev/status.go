package dev

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
)

// Status is the answer of GET /v1/status. Times are UTC and the node's; units are whole numbers.
type Status struct {
	Now         time.Time  `json:"now"`
	Offset      string     `json:"offset"`  // how far the clock runs ahead of real time
	Started     time.Time  `json:"started"` // by the node's clock
	Store       string     `json:"store"`   // path
	Marketplace string     `json:"marketplace"`
	LockHours   int        `json:"lockHours"`
	Waiting     []Waiting  `json:"waiting"` // oldest first
	Windows     []Window   `json:"windows"` // licenses in their last hour, the one that ends first in front
	Refused     RefusedSum `json:"refused"`
	Queues      []Queue    `json:"queues"`
	DeadLetters int        `json:"deadLetters"` // messages that failed too often; their groups are found again
	Stages      []Stage    `json:"stages"`      // in the order of the pipeline
	Metrics     []Metric   `json:"metrics"`     // since the start, by name
	Simulator   *Simulator `json:"simulator,omitempty"`
}

// Waiting is what waits under one hour.
type Waiting struct {
	Bucket   string    `json:"bucket"` // an hour, as 2026-03-10T14, where the items are well-formed
	Rows     int       `json:"rows"`
	Records  int       `json:"records"`
	Units    int64     `json:"units"`             // of rows and records together
	LostAt   time.Time `json:"lostAt,omitzero"`   // from when on it can no longer be billed; missing where the bucket is no hour
	LostIn   string    `json:"lostIn,omitempty"`  // until then, as "22h40m0s"; negative where it is over
	Misfiled bool      `json:"misfiled,omitzero"` // the bucket is no hour: it is never found
}

// RefusedSum is the refused usage that can be sent once more, as GET /v1/refused lists it.
type RefusedSum struct {
	Records     int       `json:"records"`
	Units       int64     `json:"units"`
	FirstLostAt time.Time `json:"firstLostAt,omitzero"` // from when on the first of it can no longer be billed
	Left        string    `json:"left,omitempty"`       // until then, as "21h33m10s"
	Uncounted   bool      `json:"uncounted,omitempty"`  // there was too much to look at: only GET /v1/refused says
}

// refusedPatience is for how long a status looks for refused usage: it reads every record of the store, and somebody waits.
const refusedPatience = time.Second

func (m *Machine) refusedSum(ctx context.Context) (RefusedSum, error) {
	brief, stop := context.WithTimeout(ctx, refusedPatience)
	defer stop()
	list, err := m.refused(brief, "")
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return RefusedSum{Uncounted: true}, nil
	}
	sum := RefusedSum{Records: list.Records, Units: list.Units, FirstLostAt: list.FirstLostAt}
	if sum.Records > 0 {
		sum.Left = sum.FirstLostAt.Sub(m.clock.Now()).Round(time.Second).String()
	}
	return sum, err
}

// Queue is a queue of messages in memory.
type Queue struct {
	Name      string    `json:"name"`
	Visible   int       `json:"visible"`
	InFlight  int       `json:"inFlight"`            // being handled, or failed and to come back
	OldestAge string    `json:"oldestAge,omitempty"` // no message is older
	BusySince time.Time `json:"busySince,omitzero"`
	Failed    int       `json:"failed,omitempty"` // its messages that failed too often and were set aside
}

// Stage is a stage of the pipeline.
type Stage struct {
	Name     string    `json:"name"`
	Next     time.Time `json:"next,omitzero"` // missing where it runs when something comes
	Runs     int       `json:"runs"`          // since the start
	Failures int       `json:"failures"`
	LastAt   time.Time `json:"lastAt,omitzero"`
	Last     string    `json:"last,omitempty"`  // what the last run did, in words
	Error    string    `json:"error,omitempty"` // of the last run
}

// Metric is a sum since the start.
type Metric struct {
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

func (m *Machine) getStatus(w http.ResponseWriter, r *http.Request) {
	look := m.Status
	if r.URL.Query().Get("brief") != "" {
		look = m.brief
	}
	status, err := look(r.Context())
	if err != nil {
		broken(w, err)
		return
	}
	answer(w, http.StatusOK, status)
}

// Status looks at everything.
func (m *Machine) Status(ctx context.Context) (Status, error) {
	waiting, err := m.store.Waiting(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("look at what waits: %w", err)
	}
	s, err := m.brief(ctx)
	if err != nil {
		return Status{}, err
	}
	now := s.Now
	for _, v := range waiting {
		e := Waiting{Bucket: v.Bucket, Rows: v.Rows, Records: v.Records, Units: v.Units}
		if h, err := metering.ParseHour(v.Bucket); err != nil {
			e.Misfiled = true
		} else {
			e.LostAt = m.rules.Deadline(h)
			e.LostIn = e.LostAt.Sub(now).Round(time.Second).String()
		}
		s.Waiting = append(s.Waiting, e)
	}
	if s.Windows, err = m.windows(ctx, now); err != nil {
		return Status{}, err
	}
	if s.Refused, err = m.refusedSum(ctx); err != nil {
		return Status{}, err
	}
	return s, nil
}

// brief is a look at what the node alone knows; the rest is in the store.
func (m *Machine) brief(context.Context) (Status, error) {
	now := m.clock.Now()
	s := Status{
		Now: now, Offset: m.offset(), Started: m.started, Store: m.options.StorePath, Marketplace: m.options.MarketplaceEndpoint,
		LockHours: max(1, m.rules.LockHours), Waiting: []Waiting{}, Windows: []Window{}, Queues: []Queue{}, Stages: []Stage{}, Metrics: []Metric{},
	}
	m.addNode(&s, now)
	for _, name := range m.metrics.Metrics() {
		c := m.metrics.Of(name)
		s.Metrics = append(s.Metrics, Metric{Name: string(name), Items: c.Items, Units: c.Units})
	}
	if m.sim != nil {
		s.Marketplace = "simulator"
		s.Simulator = &Simulator{Calls: m.sim.Stats().Calls}
		for _, b := range m.sim.Ledger() {
			s.Simulator.Hours++
			s.Simulator.Units += b.Quantity
		}
	}
	return s, nil
}

// stages in the order of the pipeline.
func stages() []string {
	return []string{
		metering.MeterSchedule.Name, metering.FlushSchedule.Name, node.AggregateStage, node.CleanupStage,
		metering.SubmitSchedule.Name, metering.ExpireSchedule.Name, metering.AgeoutSchedule.Name, metering.FinalizeSchedule.Name,
	}
}

func (m *Machine) addNode(s *Status, now time.Time) {
	state := m.node.State()
	m.mu.Lock()
	did := maps.Clone(m.did)
	m.mu.Unlock()
	s.DeadLetters = state.DeadLetters
	for _, q := range state.Queues {
		e := Queue{Name: q.Name, Visible: q.Visible, InFlight: q.InFlight, BusySince: q.BusySince, Failed: q.Dead}
		if !q.BusySince.IsZero() {
			e.OldestAge = now.Sub(q.BusySince).Round(time.Second).String()
		}
		s.Queues = append(s.Queues, e)
	}
	for _, name := range stages() {
		run := state.Stages[name]
		e := Stage{Name: name, Next: state.Next[name], Runs: run.Runs, Failures: run.Failures, LastAt: run.At, Last: did[name]}
		if run.Err != nil {
			e.Error = run.Err.Error()
		}
		s.Stages = append(s.Stages, e)
	}
}
