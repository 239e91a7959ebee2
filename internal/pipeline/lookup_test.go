package pipeline_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// breakingIndex reads two records of each look-up and then fails.
type breakingIndex struct {
	pipeline.Records
	asked atomic.Int64
}

func (s *breakingIndex) PendingRecords(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.Record, error] {
	if license == "" {
		return s.Records.PendingRecords(ctx, h, license)
	}
	s.asked.Add(1)
	return func(yield func(metering.Record, error) bool) {
		read := 0
		for r, err := range s.Records.PendingRecords(ctx, h, license) {
			if read++; read > 2 || !yield(r, err) {
				break
			}
		}
		yield(metering.Record{}, errRefused)
	}
}

// TestLookUpsAreGivenUpAfterSomeFailures: each of 240 look-ups breaks off after two of its three records. After nine the rest is left to the
// backlog, and so is what the nine have not brought; no record goes out twice, and none not at all.
func TestLookUpsAreGivenUpAfterSomeFailures(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 10 {
		b.deprovision(licenseNumber(i), buyer, b.now.Add(time.Duration(10+i)*time.Minute))
		for d := range 3 {
			for _, h := range []metering.Hour{hour - 22, hour} {
				b.putRecords(metering.NewRecord(groupOf(licenseNumber(i), fmt.Sprint("dim_", d), h), 1))
			}
		}
	}
	s := b.submitter(nil)
	index := &breakingIndex{Records: b.store}
	s.Records = index
	let, failures, first := make(map[string]int), 0, 0
	s.Marketplace = reader(func(r metering.Record, err error) bool {
		if err != nil {
			failures++
			return true
		}
		if let[r.License+r.SortKey]++; failures < 9 {
			first++
		}
		return true
	})
	if _, err := s.Run(b.ctx); err != nil {
		t.Error(err)
	}
	if failures != 9 || first != 2 || len(let) != 60 || index.asked.Load() > 9+8 {
		t.Errorf("%d failures of %d look-ups, %d records before the last of them, %d let through", failures, index.asked.Load(), first, len(let))
	}
	for key, n := range let {
		if n != 1 {
			t.Errorf("%s: let through %d times", key, n)
		}
	}
}

// TestAFaultyRecordOfALastHourTakesNoSale: it was rejected in its own lane, and the index still shows it when the backlog is read. The usage
// by customer identifier is all there is of the sale.
func TestAFaultyRecordOfALastHourTakesNoSale(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.deprovision(licenseOne, buyer, noon.Add(30*time.Minute))
	bad := altered(metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 2), metering.Item{metering.AttrQuantity: "2"})
	b.putRecords(bad, legacyOf("legacy", "c", apiCalls, hour, 2))
	m := &listing{}
	s := b.submitter(m)
	s.Records = lagging{b.store, []metering.Record{bad}}
	if _, err := s.Run(b.ctx); err != nil {
		t.Fatal(err)
	}
	if all := m.all(); len(all) != 1 || all[0].License != "legacy" {
		t.Errorf("let through %+v", all)
	}
}

// lagging is a store whose index goes on showing records.
type lagging struct {
	pipeline.Records
	shown []metering.Record
}

func (l lagging) PendingRecords(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.Record, error] {
	return func(yield func(metering.Record, error) bool) {
		for _, r := range l.shown {
			if r.Pending == h.String() && (license == "" || license == r.License) && !yield(r, nil) {
				return
			}
		}
		for r, err := range l.Records.PendingRecords(ctx, h, license) {
			if slices.ContainsFunc(l.shown, func(s metering.Record) bool { return s.License == r.License && s.SortKey == r.SortKey }) {
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
}
