package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Refusals are the records of several licenses that a Retrier would let wait again.
type Refusals struct {
	Reopenable
	List    []LicenseRefusal `json:"refused"`        // newest hour first: the first 1,000 of them
	More    int              `json:"more,omitempty"` // how many are not listed
	Skipped []Skipped        `json:"skipped"`        // what cannot be sent once more, and why
	// Older are records of hours that can no longer be billed, however they ended.
	Older int `json:"older"`
}

// Reopenable is a number of records that can be let wait again.
type Reopenable struct {
	Records int   `json:"records"`
	Units   int64 `json:"units"`
	// FirstLostAt is when the first of them can no longer be billed; missing where there is none.
	FirstLostAt time.Time `json:"firstLostAt,omitzero"`
}

// LicenseRefusal is one of them.
type LicenseRefusal struct {
	License string `json:"licenseArn"`
	Refusal
	Left string `json:"left"` // until LostAt, as "22h40m0s"
}

// ErrUnknownLicense says that nothing was ever written of a license: a misspelt one has nothing refused either.
var ErrUnknownLicense = errors.New("no usage of this license is known here")

// maxRefusals is how many records are listed one by one.
const maxRefusals = 1_000

// Look is what Run would do for each of the licenses; it changes nothing. The time is that of its begin.
func (r *Retrier) Look(ctx context.Context, licenses iter.Seq2[string, error]) (Refusals, error) {
	now := r.Now()
	still := *r
	still.Now, still.Log = func() time.Time { return now }, nil
	list, skips := Refusals{List: []LicenseRefusal{}, Skipped: []Skipped{}}, make(Skips)
	for license, err := range licenses {
		if err != nil {
			return list, fmt.Errorf("look for licenses: %w", err)
		}
		dry, err := still.Run(ctx, Retry{License: license, DryRun: true})
		if err != nil {
			return list, fmt.Errorf("look at the records: %w", err)
		}
		list.Records, list.Units, list.Older = list.Records+len(dry.Reopened), list.Units+dry.Units, list.Older+dry.Older
		for _, f := range dry.Reopened {
			if list.FirstLostAt.IsZero() || f.LostAt.Before(list.FirstLostAt) {
				list.FirstLostAt = f.LostAt
			}
			list.List = append(list.List, LicenseRefusal{license, f, f.LostAt.Sub(now).Round(time.Second).String()})
		}
		if len(list.List) > 2*maxRefusals { // often enough to bound the list, and not for every license
			list.newest()
		}
		skips.Add(dry.Skipped...)
	}
	list.newest()
	list.More = list.Records - len(list.List)
	for _, s := range skips.List() {
		if !unasked(s.Cause) {
			list.Skipped = append(list.Skipped, s)
		}
	}
	return list, nil
}

// Skips adds up what is skipped, by its cause.
type Skips map[metering.Obstacle]Skipped

// Add adds more to the sum.
func (sums Skips) Add(more ...Skipped) {
	for _, s := range more {
		s.Records, s.Units = s.Records+sums[s.Cause].Records, s.Units+sums[s.Cause].Units
		sums[s.Cause] = s
	}
}

// List is the sum in the order in which causes are shown.
func (sums Skips) List() (list []Skipped) {
	for _, o := range metering.Obstacles() {
		if s, found := sums[o]; found {
			list = append(list, s)
		}
	}
	return list
}

// unasked are the obstacles of records that nobody asks about in a list, of which a table is full.
func unasked(o metering.Obstacle) bool {
	return o == metering.ObstacleBilled || o == metering.ObstacleWaiting || o == metering.ObstacleDryRun || o == metering.ObstacleRefused
}

// newest keeps the first of the list in its order.
func (l *Refusals) newest() {
	slices.SortFunc(l.List, func(a, b LicenseRefusal) int {
		return cmp.Or(cmp.Compare(b.Hour, a.Hour), cmp.Compare(a.License, b.License), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Dimension, b.Dimension))
	})
	l.List = l.List[:min(len(l.List), maxRefusals)]
}
