package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// maxListed is how many entries a list has at most; those beyond are counted.
const maxListed = 1_000

// Usage is a group, or one row whose key names none.
type Usage struct {
	License   string `json:"licenseArn"`
	Account   string `json:"customerAWSAccountId,omitempty"`
	Dimension string `json:"dimension,omitempty"`
	Hour      string `json:"hourBucket,omitempty"` // YYYY-MM-DDTHH in UTC; missing where the key names no group
	Key       string `json:"key,omitempty"`        // sort key of one row; missing where a whole group is meant
}

func usageOf(g metering.Group) Usage {
	return Usage{License: g.License, Account: g.Account, Dimension: g.Dimension, Hour: g.Hour.String()}
}

// groupOf is the group that a row's key names.
func groupOf(r metering.Row) (metering.Group, bool) {
	key, reason := metering.ParseRowKey(r.SortKey)
	return key.Group(r.License), reason == ""
}

// Sum is a number of rows and what they hold.
type Sum struct {
	Rows    int   `json:"rows"`
	Units   int64 `json:"units"`
	Unknown int   `json:"unknown,omitempty"` // rows whose quantity is no number: counted, units unknown
}

func (s *Sum) row(r metering.Row) {
	units, known := r.Quantity.Count()
	s.Rows, s.Units = s.Rows+1, s.Units+units
	if !known {
		s.Unknown++
	}
}

func (s *Sum) add(o Sum) {
	s.Rows, s.Units, s.Unknown = s.Rows+o.Rows, s.Units+o.Units, s.Unknown+o.Unknown
}

// Rejected is the rejected usage of a place.
type Rejected struct {
	Sum
	List    []RejectedUsage `json:"rejected"`       // newest hour first: the first 1,000 of them
	More    int             `json:"more,omitempty"` // how many are not listed
	Dropped Sum             `json:"dropped"`        // taken out by an operator, and in no entry of the list
}

// RejectedUsage is what was rejected of a group for one reason, or a row whose key names no group.
type RejectedUsage struct {
	Usage
	Sum
	Reason    string    `json:"reason"`
	What      string    `json:"what"`            // the reason in words
	Do        string    `json:"do"`              // what the seller can do
	Committed bool      `json:"committed"`       // the hour has its record: what comes back of it is late
	LostAt    time.Time `json:"lostAt,omitzero"` // from when on the hour can no longer be billed; missing where the key names none
	Left      string    `json:"left,omitempty"`  // until then, as "22h40m0s"; missing where it is over
}

// rejectedPart is what entries of the list are told apart by.
type rejectedPart struct {
	usage  Usage
	reason string
}

// Rejected lists the rejected rows by their groups. Without a license it reads those of all, which on AWS is a whole table.
func (d *Desk) Rejected(ctx context.Context, what Which) (Rejected, error) {
	now, list := d.Now(), Rejected{List: []RejectedUsage{}}
	records := committed{tables: d.Tables}
	parts := make(map[rejectedPart]*RejectedUsage)
	for r, err := range d.Tables.EndedRows(ctx, what.License, metering.RejectedClientSide) {
		if err != nil {
			return list, fmt.Errorf("look for rejected rows: %w", err)
		}
		switch {
		case !what.Row(r):
			continue
		case r.Dropped:
			list.Dropped.row(r)
			continue
		}
		g, named := groupOf(r)
		part := rejectedPart{Usage{License: r.License, Account: r.Account, Dimension: r.Dimension, Key: r.SortKey}, r.StatusReason}
		var record *metering.Record
		if named {
			part.usage = usageOf(g)
			var covered bool
			if record, covered, err = records.covering(ctx, g, r); err != nil {
				return list, err
			}
			if covered {
				continue // its record has billed it, or will: a label that the next visit heals
			}
		}
		entry := parts[part]
		if entry == nil {
			over := named && !d.Rules.Billable(g.Hour, now)
			e := ledger.Cause{Place: ledger.Rejected, Reason: r.StatusReason, Over: over}.Explain()
			entry = &RejectedUsage{Usage: part.usage, Reason: r.StatusReason, What: e.What, Do: e.Do, Committed: record != nil}
			if named {
				entry.LostAt = d.Rules.Deadline(g.Hour)
			}
			if named && !over {
				entry.Left = entry.LostAt.Sub(now).Round(time.Second).String()
			}
			parts[part] = entry
		}
		entry.row(r)
		list.row(r)
	}
	for _, entry := range parts {
		list.List = append(list.List, *entry)
	}
	slices.SortFunc(list.List, func(a, b RejectedUsage) int {
		return cmp.Or(newestFirst(a.Usage, b.Usage), cmp.Compare(a.Reason, b.Reason))
	})
	list.More = max(0, len(list.List)-maxListed)
	list.List = list.List[:len(list.List)-list.More]
	return list, nil
}

func newestFirst(a, b Usage) int {
	return cmp.Or(cmp.Compare(b.Hour, a.Hour), cmp.Compare(a.License, b.License), cmp.Compare(a.Account, b.Account),
		cmp.Compare(a.Dimension, b.Dimension), cmp.Compare(a.Key, b.Key))
}

// committed looks up the records of rows' groups. It keeps the last one, since rows of a group come together.
type committed struct {
	tables   Tables
	group    metering.Group
	record   *metering.Record
	manifest metering.Manifest
	unread   error // why the record's manifest cannot be read
	looked   bool
}

func (c *committed) look(ctx context.Context, g metering.Group) error {
	if c.looked && c.group == g {
		return nil
	}
	record, err := c.tables.Record(ctx, g)
	if err != nil {
		return fmt.Errorf("look for the record of %s: %w", g.RecordKey(), err)
	}
	*c = committed{tables: c.tables, group: g, record: record, looked: true}
	if record != nil {
		c.manifest, c.unread = record.Covers()
	}
	return nil
}

// covering is the record of a row's group, nil where there is none, and whether it was summed from the row too.
func (c *committed) covering(ctx context.Context, g metering.Group, r metering.Row) (*metering.Record, bool, error) {
	if err := c.look(ctx, g); err != nil || c.record == nil {
		return nil, false, err
	}
	key, _ := metering.ParseRowKey(r.SortKey)
	_, covered := c.manifest.Quantity(key.Second)
	return c.record, covered, nil
}

// ErrNoRow says that there is no row under a key.
var ErrNoRow = errors.New("there is no such row")
