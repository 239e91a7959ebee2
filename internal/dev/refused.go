package dev

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// Refusals is the answer of GET /v1/refused: the records that a retry would send once more.
type Refusals struct {
	Records int   `json:"records"`
	Units   int64 `json:"units"`
	// FirstLostAt is when the first of them can no longer be billed; missing where there is none.
	FirstLostAt time.Time          `json:"firstLostAt,omitzero"`
	Refused     []RefusedRecord    `json:"refused"`        // newest hour first: the first 1,000 of them
	More        int                `json:"more,omitempty"` // how many are not listed
	Skipped     []pipeline.Skipped `json:"skipped"`        // what cannot be sent once more, and why
	// Older are records of hours that can no longer be billed, however they ended.
	Older int `json:"older"`
}

// RefusedRecord is one of them.
type RefusedRecord struct {
	License string `json:"licenseArn"`
	pipeline.Refusal
	Left string `json:"left"` // until LostAt, as "22h40m0s"
}

func (m *Machine) getRefused(w http.ResponseWriter, r *http.Request) {
	q, err := queryOf(r, "license")
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error(), "as in /v1/refused, or /v1/refused?license=arn:aws:license-manager::…")
		return
	}
	license := q.Get("license")
	if license != "" && !m.known(w, r, license) {
		return
	}
	list, err := m.refused(r.Context(), license)
	if err != nil {
		broken(w, err)
		return
	}
	answer(w, http.StatusOK, list)
}

// known reports whether there is usage of a license, and otherwise answers that there is none: a misspelt license has nothing refused either.
func (m *Machine) known(w http.ResponseWriter, r *http.Request, license string) bool {
	used, err := m.usedBy(r.Context(), license, 1)
	switch {
	case err != nil:
		broken(w, err)
	case len(used) == 0:
		fail(w, http.StatusNotFound, "no usage of this license is known here", "awsmp refused list shows all")
	}
	return err == nil && len(used) > 0
}

// refused looks at what a retry of each license would do; at one only, where it is named.
func (m *Machine) refused(ctx context.Context, license string) (Refusals, error) {
	now := m.clock.Now()
	retrier := pipeline.Retrier{Records: m.store, ProductCode: m.options.ProductCode, Rules: m.rules, Now: func() time.Time { return now }}
	list, skipped := Refusals{Refused: []RefusedRecord{}, Skipped: []pipeline.Skipped{}}, make(map[metering.Obstacle]pipeline.Skipped)
	for license, err := range m.licenses(ctx, license) {
		if err != nil {
			return list, fmt.Errorf("look for licenses: %w", err)
		}
		dry, err := retrier.Run(ctx, pipeline.Retry{License: license, DryRun: true})
		if err != nil {
			return list, fmt.Errorf("look at what was refused: %w", err)
		}
		list.Records, list.Units, list.Older = list.Records+len(dry.Reopened), list.Units+dry.Units, list.Older+dry.Older
		for _, f := range dry.Reopened {
			if list.FirstLostAt.IsZero() || f.LostAt.Before(list.FirstLostAt) {
				list.FirstLostAt = f.LostAt
			}
			list.Refused = append(list.Refused, RefusedRecord{license, f, f.LostAt.Sub(now).Round(time.Second).String()})
		}
		if len(list.Refused) > 2*maxRefused { // often enough to bound the list, and not for every license
			list.newest()
		}
		for _, s := range dry.Skipped {
			s.Records, s.Units = s.Records+skipped[s.Cause].Records, s.Units+skipped[s.Cause].Units
			skipped[s.Cause] = s
		}
	}
	list.newest()
	list.More = list.Records - len(list.Refused)
	for _, o := range metering.Obstacles() {
		if s, found := skipped[o]; found && !neverRefused(o) {
			list.Skipped = append(list.Skipped, s)
		}
	}
	return list, nil
}

func (m *Machine) licenses(ctx context.Context, one string) iter.Seq2[string, error] {
	if one == "" {
		return m.store.Licenses(ctx)
	}
	return func(yield func(string, error) bool) { yield(one, nil) }
}

// newest keeps the first of the list in its order.
func (l *Refusals) newest() {
	slices.SortFunc(l.Refused, func(a, b RefusedRecord) int {
		return cmp.Or(cmp.Compare(b.Hour, a.Hour), cmp.Compare(a.License, b.License), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Dimension, b.Dimension))
	})
	l.Refused = l.Refused[:min(len(l.Refused), maxRefused)]
}

// neverRefused are the obstacles of records that are no refused usage, of which a store is full.
func neverRefused(o metering.Obstacle) bool {
	return o == metering.ObstacleBilled || o == metering.ObstacleWaiting || o == metering.ObstacleDryRun
}
