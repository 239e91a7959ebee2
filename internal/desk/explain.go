package desk

import (
	"context"
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// Story is what became of a group's usage. Times are UTC; units are whole numbers.
type Story struct {
	License   string       `json:"licenseArn"`
	Account   string       `json:"customerAWSAccountId"`
	Dimension string       `json:"dimension"`
	Hour      string       `json:"hourBucket"`
	Now       time.Time    `json:"now"`
	LostAt    time.Time    `json:"lostAt"`                 // from when on it can no longer be billed: the end of the hour's time, or of the license's last hour
	Left      string       `json:"left,omitempty"`         // until then, as "22h40m0s"; missing where it is over
	Ended     bool         `json:"licenseEnded,omitempty"` // what is sent is refused
	LastHour  bool         `json:"lastHour,omitempty"`     // LostAt is the end of the license's last hour
	Rows      []StoryRow   `json:"rows"`                   // in the order of their seconds: the first 1,000
	MoreRows  int          `json:"moreRows,omitempty"`
	Record    *StoryRecord `json:"record,omitempty"` // missing where the hour was not committed
	Told      []string     `json:"told"`             // what happened, in words, in its order
	Causes    []StoryCause `json:"causes"`           // units that are not billed
	Balance   StoryBalance `json:"balance"`
}

// StoryRow is a row of the group.
type StoryRow struct {
	Second      string `json:"timestamp"`
	Units       int64  `json:"units"`
	Unknown     bool   `json:"unknown,omitempty"`         // the quantity is no number that can be counted
	Committed   *int64 `json:"committed,omitempty"`       // what the record holds of it; missing where it holds nothing
	Waiting     string `json:"meteringPending,omitempty"` // the hour it waits under
	Status      string `json:"meteringStatus,omitempty"`
	Reason      string `json:"meteringStatusReason,omitempty"`
	Allocations int    `json:"allocations,omitempty"` // combinations of tags
	Dropped     bool   `json:"dropped,omitempty"`     // by an operator
	CreatedAt   string `json:"createdAt,omitempty"`
	UpdatedAt   string `json:"updatedAt,omitempty"`
}

// StoryRecord is the group's record.
type StoryRecord struct {
	Units      int64  `json:"units"`
	Unknown    bool   `json:"unknown,omitempty"`
	Rows       int    `json:"rows"` // that it was summed from; 0 where a seller wrote it
	Waiting    string `json:"meteringPending,omitempty"`
	Status     string `json:"meteringStatus,omitempty"`
	Reason     string `json:"meteringStatusReason,omitempty"`
	Sent       *int64 `json:"sentQuantity,omitempty"` // missing where it was never sent
	SentSecond string `json:"sentSecond,omitempty"`
	Billed     *int64 `json:"billedQuantity,omitempty"` // where it differs
	RecordID   string `json:"meteringRecordId,omitempty"`
	CreatedAt  string `json:"createdAt,omitempty"`
	UpdatedAt  string `json:"updatedAt,omitempty"`
}

// StoryCause is a part of the units that is not billed, for one reason.
type StoryCause struct {
	Place ledger.Place `json:"place"`
	Code  string       `json:"code"` // stable
	What  string       `json:"what"` // why, in words
	Do    string       `json:"do"`   // what the seller can do
	Items int          `json:"items"`
	Units int64        `json:"units"`
	Remedy
}

// StoryBalance is the group's account.
type StoryBalance struct {
	Balanced  bool                           `json:"balanced"`
	Written   ledger.Amount                  `json:"written"`
	Places    map[ledger.Place]ledger.Amount `json:"places"`    // those that hold something
	Unknown   int                            `json:"unknown"`   // items whose quantity is no number
	Withdrawn ledger.Amount                  `json:"withdrawn"` // committed, and no longer in the rows
	Stale     int                            `json:"stale"`     // covered rows with another label: the next visit heals them
	Findings  []string                       `json:"findings,omitempty"`
}

// maxStoryRows bounds the rows of a story that are told one by one.
const maxStoryRows = 1_000

// group is what the tables hold of a group.
type group struct {
	metering.Group
	record     *metering.Record
	rows       []metering.Row
	subscriber *metering.Subscriber // nil where it is not known
	stops      map[string]Stop      // schedules that do not run; not asked for where nothing waits
}

// Known reports whether anything is known of the group.
func (s Story) Known() bool { return s.Record != nil || len(s.Rows) > 0 }

// Explain tells what became of a group's usage.
func (d *Desk) Explain(ctx context.Context, g metering.Group) (Story, error) {
	of, err := d.readGroup(ctx, g)
	if err != nil {
		return Story{}, err
	}
	now := d.Now().UTC()
	if of.waits() {
		of.stops = d.stops(ctx)
	}
	s := Story{
		License: g.License, Account: g.Account, Dimension: g.Dimension, Hour: g.Hour.String(), Now: now, LostAt: d.deadline(of, now),
		Rows: []StoryRow{}, Told: []string{}, Causes: []StoryCause{}, Ended: endOf(of.subscriber, now).over,
	}
	s.LastHour = s.LostAt.Before(d.Rules.Deadline(g.Hour))
	if d.accepted(of, now) {
		s.Left = d.until(of, now)
	}
	s.take(of)
	s.Told = d.tell(of, now)
	balance := ledger.Of(g, of.record, of.rows)
	s.balance(balance)
	return s, d.addCauses(ctx, &s, of, balance, now)
}

// readGroup reads the record, the rows and the record again, until both are of one moment.
func (d *Desk) readGroup(ctx context.Context, g metering.Group) (group, error) {
	of := group{Group: g}
	record, err := d.Tables.Record(ctx, g)
	for range 5 {
		if err != nil {
			return of, fmt.Errorf("read the record: %w", err)
		}
		of.record, of.rows = record, nil
		if !d.Direct {
			for row, err := range d.Tables.GroupRows(ctx, g) {
				if err != nil {
					return of, fmt.Errorf("read the rows: %w", err)
				}
				if _, ours := g.Contains(row.SortKey); ours {
					of.rows = append(of.rows, row)
				}
			}
		}
		if record, err = d.Tables.Record(ctx, g); err == nil && sameRecord(of.record, record) {
			break
		}
	}
	if err != nil {
		return of, fmt.Errorf("read the record: %w", err)
	}
	if of.subscriber, err = d.Tables.Subscriber(ctx, g.License, g.Account); err != nil {
		of.subscriber = nil // the table may be another team's: the story does without
	}
	return of, ctx.Err()
}

func sameRecord(a, b *metering.Record) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Fingerprint() == b.Fingerprint() && a.Status == b.Status && a.Pending == b.Pending
}

// take takes over what the tables hold.
func (s *Story) take(of group) {
	var manifest metering.Manifest
	if of.record != nil {
		manifest, _ = of.record.Covers()
		s.Record = storyRecord(*of.record, manifest)
	}
	for _, r := range of.rows {
		if len(s.Rows) == maxStoryRows {
			s.MoreRows++
			continue
		}
		second, _ := of.Contains(r.SortKey)
		units, known := r.Quantity.Count()
		row := StoryRow{
			Second: second.String(), Units: units, Unknown: !known, Waiting: r.Pending, Status: string(r.Status), Reason: r.StatusReason,
			Allocations: len(r.Allocated()), Dropped: r.Dropped, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		}
		if committed, covered := manifest.Quantity(second); covered {
			row.Committed = &committed
		}
		s.Rows = append(s.Rows, row)
	}
}

func storyRecord(r metering.Record, m metering.Manifest) *StoryRecord {
	units, known := r.Quantity.Count()
	s := &StoryRecord{
		Units: units, Unknown: !known, Rows: m.Count(), Waiting: r.Pending, Status: string(r.Status), Reason: r.StatusReason,
		SentSecond: r.SentSecond, RecordID: r.MeteringRecordID, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	if r.SentQuantity.Whole {
		s.Sent = &r.SentQuantity.N
	}
	if r.BilledQuantity.Whole {
		s.Billed = &r.BilledQuantity.N
	}
	return s
}

func (s *Story) balance(b ledger.Balance) {
	s.Balance = StoryBalance{
		Balanced: b.Balanced(), Written: b.Written, Places: make(map[ledger.Place]ledger.Amount), Unknown: b.Unknown, Withdrawn: b.Withdraw,
		Stale: b.Stale, Findings: b.Findings,
	}
	for _, p := range ledger.Places() {
		if a := b.Place(p); a != (ledger.Amount{}) {
			s.Balance.Places[p] = a
		}
	}
}
