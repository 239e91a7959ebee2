package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/concurrency"
	"github.com/awsmp/metering/internal/metering"
)

// Modes of the discoverer: the constant inputs of its schedules.
const (
	ModeMeter  = "meter"
	ModeAgeout = "ageout"
	ModeFlush  = "flush-deprovisioning"
)

// flushParallel bounds the index queries of the flush that run at once.
const flushParallel = 8

// Discoverer finds waiting usage in the pending index and sends its groups on. It is the only stage that does, and the one
// that ends what waited too long.
type Discoverer struct {
	Rows        Rows
	Records     Records
	Subscribers Subscribers
	Work        Queue // groups to aggregate
	Deprovision Queue // groups to aggregate of licenses in their last hour
	Cleanup     Queue // labels
	Metrics     Metrics
	Rules       metering.Rules
	// Concurrency runs the licenses of a flush; nil means goroutines.
	Concurrency concurrency.Runner
	Now         func() time.Time
	Log         *slog.Logger
}

// Slice is what one run looks at: constant input of a schedule, never taken from the clock.
type Slice struct {
	Mode       string `json:"mode"`
	HourOffset *int   `json:"hourOffset,omitempty"` // meter: 1 to 23
	Shard      *int   `json:"shard,omitempty"`      // ageout: 0 to 6
}

// MeterSlice is the input that meters the hour at an offset of 1 to 23.
func MeterSlice(offset int) Slice { return Slice{Mode: ModeMeter, HourOffset: &offset} }

// AgeoutSlice is the input of one of the seven age-out shards.
func AgeoutSlice(shard int) Slice { return Slice{Mode: ModeAgeout, Shard: &shard} }

// FlushSlice is the input that flushes licenses in their last hour.
func FlushSlice() Slice { return Slice{Mode: ModeFlush} }

// Discovery is what a run saw and did.
type Discovery struct {
	Entries  int `json:"entries"`  // index entries read
	Enqueued int `json:"enqueued"` // groups really sent
	Repaired int `json:"repaired"` // rows whose bucket was wrong
	Labels   int `json:"labels"`   // cleanup messages really sent: expired or unreadable rows
	Licenses int `json:"licenses"` // licenses flushed
}

// Run looks at one slice. A mode or number out of range is an error.
func (d *Discoverer) Run(ctx context.Context, s Slice) (Discovery, error) {
	now := d.Now()
	switch {
	case s.Mode == ModeMeter && s.HourOffset != nil && *s.HourOffset >= metering.MinOffset && *s.HourOffset <= metering.MaxOffset:
		return d.meter(ctx, *s.HourOffset, now)
	case s.Mode == ModeAgeout && s.Shard != nil && *s.Shard >= 0 && *s.Shard < metering.AgeoutShards:
		return d.ageout(ctx, *s.Shard, now)
	case s.Mode == ModeFlush:
		return d.flush(ctx, now)
	}
	return Discovery{}, fmt.Errorf("read slice: want %s; got mode %q, hourOffset %s, shard %s", WantedSlices(), s.Mode, text(s.HourOffset), text(s.Shard))
}

// WantedSlices says in words which slices there are.
func WantedSlices() string {
	return fmt.Sprintf("mode %s with hourOffset %d..%d, %s with shard 0..%d, or %s", ModeMeter, metering.MinOffset, metering.MaxOffset, ModeAgeout, metering.AgeoutShards-1, ModeFlush)
}

func text(n *int) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

func (d *Discoverer) meter(ctx context.Context, offset int, now time.Time) (Discovery, error) {
	s := d.newScan(d.Work)
	for _, h := range d.Rules.MeterHours(offset, now) {
		if !s.hour(ctx, h, "") {
			break
		}
	}
	err := s.close(ctx)
	return s.found, err
}

func (d *Discoverer) ageout(ctx context.Context, shard int, now time.Time) (Discovery, error) {
	s := d.newScan(d.Work)
	s.expiring = true
	for h := range d.Rules.SweepHours(now) {
		if metering.ShardOf(h, now) == shard && !s.hour(ctx, h, "") {
			break
		}
	}
	err := s.close(ctx)
	return s.found, err
}

// flush looks at the licenses in their last hour, the one that ends first first.
func (d *Discoverer) flush(ctx context.Context, now time.Time) (Discovery, error) {
	licenses, err := lastHours(ctx, d.Subscribers, now)
	var (
		mu    sync.Mutex
		total = Discovery{Licenses: len(licenses)}
		errs  = []error{err}
		group = concurrency.Or(d.Concurrency).Group(flushParallel)
	)
	for _, l := range licenses {
		group.Go(func() {
			hours := d.Rules.FlushHours(l.Expiry, now)
			s := d.newScan(d.Deprovision)
			s.closing = metering.FlushClosing(l.Expiry, now)
			s.visitable = func(h metering.Hour) bool { return slices.Contains(hours, h) }
			for _, h := range hours {
				if !s.hour(ctx, h, l.License) {
					break
				}
			}
			err := s.close(ctx)
			mu.Lock()
			defer mu.Unlock()
			total.Add(s.found)
			errs = append(errs, err) // one license's trouble never holds up another's last hour
		})
	}
	group.Wait()
	return total, errors.Join(errs...)
}

// Add sums what several runs saw and did.
func (f *Discovery) Add(g Discovery) {
	f.Entries += g.Entries
	f.Enqueued += g.Enqueued
	f.Repaired += g.Repaired
	f.Labels += g.Labels
}
