package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

func licenseNumber(i int) string {
	return fmt.Sprintf("arn:aws:license-manager::111122223333:license:l-%032x", i)
}

// TestF31EndedLicensesGoTheOrdinaryWay: a license whose hour was over stayed among the preferred until the finalizer came, and its hour in
// progress was committed early. From its end on it is neither flushed nor preferred, finalized or not.
func TestF31EndedLicensesGoTheOrdinaryWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left  time.Duration
		other map[string]time.Duration // of other accounts
		open  bool                     // for the account, and so for its license
	}{
		"a second left":                {time.Second, nil, true},
		"over now":                     {0, nil, false},
		"over since a second":          {-time.Second, nil, false},
		"over, and the hour long gone": {-14 * time.Minute, nil, false},
		"over for another":             {time.Second, map[string]time.Duration{"444455556666": -time.Minute}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.deprovision(licenseOne, buyer, b.now.Add(c.left))
			for account, left := range c.other {
				b.deprovision(licenseOne, account, b.now.Add(left))
			}
			b.put(rowAt(groupOf(licenseOne, apiCalls, hour+1), 0, 1), rowAt(groupOf(licenseOne, apiCalls, hour), 0, 1))
			found, err := b.discoverer().Run(b.ctx, pipeline.FlushSlice())
			sent := len(b.taken(b.work))
			if want := 2; c.open && (err != nil || found.Licenses != 1 || sent != want) {
				t.Errorf("%+v, %v: %d messages, want %d: the hour in progress too", found, err, sent, want)
			}
			if !c.open && (err != nil || found != pipeline.Discovery{} || sent != 0) {
				t.Errorf("%+v, %v: %d messages, want none", found, err, sent)
			}

			b.putRecords(metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 1), metering.NewRecord(groupOf(licenseTwo, apiCalls, hour-1), 1))
			m := &listing{}
			s := b.submitter(m)
			s.MaxRecords = 1
			if _, err := s.Run(b.ctx); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range m.all() {
				got = append(got, r.License)
			}
			want := []string{licenseTwo} // the cap is one, and its hour is older
			if c.open {
				want = []string{licenseOne, licenseTwo}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFlushTakesAllUsageOfTheLicense: the Marketplace closes a license, and not an account. Usage that goes by another account than the event's, or by
// several, has its last hour too; of two ends the first counts.
func TestFlushTakesAllUsageOfTheLicense(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.now = time.Date(2026, 3, 10, 15, 2, 0, 0, time.UTC)
	current := metering.HourOf(b.now)
	soon, later, unnamed := "222222222222", "333333333333", "444455556666"
	b.deprovision(licenseOne, later, b.now.Add(40*time.Minute))
	b.deprovision(licenseOne, soon, b.now.Add(5*time.Minute))
	var want []string
	for _, account := range []string{soon, later, unnamed} {
		for _, h := range []metering.Hour{current - 2, current - 1, current} {
			g := groupOf(licenseOne, apiCalls, h)
			g.Account = account
			b.put(rowAt(g, 0, 1))
			want = append(want, g.RecordKey())
		}
	}
	found, err := b.discoverer().Run(b.ctx, pipeline.FlushSlice())
	if err != nil || found.Licenses != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	var got []string
	for _, body := range b.taken(b.work) {
		m, err := metering.Decode[metering.WorkMessage](body)
		if err != nil {
			t.Fatal(err)
		}
		g, err := m.Group()
		if err != nil || !m.Closing {
			t.Fatalf("%+v: %v", m, err)
		}
		got = append(got, g.RecordKey())
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// slowIndex is a store whose index queries take a while, and that counts those that run at once.
type slowIndex struct {
	pipeline.Rows
	pipeline.Records
	takes time.Duration
	fails func(license string, h metering.Hour) error

	mu        sync.Mutex
	now, most int      // at once
	asked     []string // licenses, in the order in which they were asked for
	read      int      // entries
}

func (s *slowIndex) begin(ctx context.Context, license string) error {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.asked = append(s.asked, license)
	s.mu.Unlock()
	timer := time.NewTimer(s.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slowIndex) end() {
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
}

func (s *slowIndex) PendingRows(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.PendingRow, error] {
	return func(yield func(metering.PendingRow, error) bool) {
		defer s.end()
		if err := s.begin(ctx, license); err != nil {
			yield(metering.PendingRow{}, err)
			return
		}
		s.Rows.PendingRows(ctx, h, license)(yield)
	}
}

func (s *slowIndex) PendingRecords(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.Record, error] {
	return func(yield func(metering.Record, error) bool) {
		defer s.end()
		err := s.begin(ctx, license)
		if err == nil && s.fails != nil {
			err = s.fails(license, h)
		}
		if err != nil {
			yield(metering.Record{}, err)
			return
		}
		for r, err := range s.Records.PendingRecords(ctx, h, license) {
			s.mu.Lock()
			s.read++
			s.mu.Unlock()
			if !yield(r, err) {
				return
			}
		}
	}
}

// reader is a Marketplace that reads the lanes, and stops where take says so.
type reader func(r metering.Record, err error) (more bool)

func (take reader) Send(_ context.Context, lanes []iter.Seq2[metering.Record, error], _ pipeline.Desk) (metering.SendReport, error) {
	for _, lane := range lanes {
		for r, err := range lane {
			if !take(r, err) {
				return metering.SendReport{}, nil
			}
		}
	}
	return metering.SendReport{}, nil
}

// crowd puts so many licenses into their last hour, the one with the highest number ending first, and a record of each hour.
func (b *bench) crowd(licenses int, hours ...metering.Hour) {
	for i := range licenses {
		b.deprovision(licenseNumber(i), buyer, b.now.Add(50*time.Minute-time.Duration(i)*time.Second))
		for _, h := range hours {
			b.putRecords(metering.NewRecord(groupOf(licenseNumber(i), apiCalls, h), 1))
		}
	}
}

// TestF43LookUpsRunSideBySide: the submitter asked for each license and hour one after the other, 24,000 times for 1,000 licenses. Eight
// run at once, and their records still come in order: the license that ends first first, and of each license the oldest hour first.
func TestF43LookUpsRunSideBySide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const licenses, takes = 40, 10 * time.Millisecond
		b := newBench(t)
		b.crowd(licenses, hour-7, hour, hour+1)
		slow := &slowIndex{Records: b.store, takes: takes}
		s := b.submitter(nil)
		s.Records = slow
		var got, want []string
		s.Marketplace = reader(func(r metering.Record, err error) bool {
			if err != nil {
				t.Error(err)
			}
			got = append(got, r.License+r.HourBucket)
			return true
		})
		start := time.Now()
		if _, err := s.Run(b.ctx); err != nil {
			t.Fatal(err)
		}
		for i := range licenses {
			for _, h := range []metering.Hour{hour - 7, hour, hour + 1} {
				want = append(want, licenseNumber(licenses-1-i)+h.String())
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		const backlog = 23 // the hours of all licenses, which are read one by one
		if took := time.Since(start); slow.most != 8 || took != (licenses*24/8+backlog)*takes {
			t.Errorf("%d at once, %v", slow.most, took)
		}
	})
}

// TestF43TheFlushBeginsWithTheLicenseThatEndsFirst, eight at a time.
func TestF43TheFlushBeginsWithTheLicenseThatEndsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.crowd(24)
		slow := &slowIndex{Rows: b.store, takes: 10 * time.Millisecond}
		d := b.discoverer()
		d.Rows = slow
		if found, err := d.Run(b.ctx, pipeline.FlushSlice()); err != nil || found.Licenses != 24 {
			t.Errorf("%+v, %v", found, err)
		}
		if slow.most != 8 || len(slow.asked) != 24*23 {
			t.Errorf("%d at once, %d in all", slow.most, len(slow.asked))
		}
		for i, license := range slow.asked { // in three rounds of eight licenses with 23 hours each
			if n := slices.IndexFunc(slow.asked, func(l string) bool { return l == license }); n/(8*23) != i/(8*23) {
				t.Fatalf("query %d is of license %s, which began at %d", i, license, n)
			}
		}
		first := slices.Clone(slow.asked[:8*23])
		slices.Sort(first)
		if first = slices.Compact(first); first[0] != licenseNumber(16) || first[7] != licenseNumber(23) {
			t.Errorf("first came %v", first)
		}
	})
}

// TestLookUpsReadNoFurtherAheadThanTheyMust: a run that stops leaves no goroutine behind, has asked for eight licenses and hours at most, and
// has taken no more than one record out of an answer whose turn has not come.
func TestLookUpsReadNoFurtherAheadThanTheyMust(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the bubble does not end before every goroutine in it has
		b := newBench(t)
		b.crowd(20)
		for i := range 20 {
			for d := range 200 {
				b.putRecords(metering.NewRecord(groupOf(licenseNumber(i), fmt.Sprintf("dim_%03d", d), hour), 1))
			}
		}
		slow := &slowIndex{Records: b.store, takes: time.Millisecond}
		s := b.submitter(nil)
		s.Records = slow
		taken := 0
		s.Marketplace = reader(func(metering.Record, error) bool {
			synctest.Wait() // as far as they go by themselves
			taken++
			return taken < 3
		})
		if _, err := s.Run(b.ctx); err != nil {
			t.Error(err)
		}
		// The hour of the first license that has records is the 23rd of its 24; the next license's is not among the eight.
		if slow.now != 0 || slow.read > 3+1 || len(slow.asked) > 23+8 {
			t.Errorf("%d still run; %d records of %d queries read for 3", slow.now, slow.read, len(slow.asked))
		}
	})
}

// TestOneFailedLookUpCostsNoOther: it is told with its hour, and everything is let through, what it has not brought with the backlog.
func TestOneFailedLookUpCostsNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.crowd(5, hour-1, hour)
	s := b.submitter(nil)
	s.Records = &slowIndex{Records: b.store, fails: func(license string, h metering.Hour) error {
		if license == licenseNumber(2) && h == hour-1 {
			return errRefused
		}
		return nil
	}}
	let := 0
	var errs []error
	s.Marketplace = reader(func(_ metering.Record, err error) bool {
		if err != nil {
			errs = append(errs, err)
		} else {
			let++
		}
		return true
	})
	if _, err := s.Run(b.ctx); err != nil {
		t.Error(err)
	}
	if let != 10 || len(errs) != 1 || !errors.Is(errs[0], errRefused) || !strings.Contains(errs[0].Error(), (hour-1).String()) {
		t.Errorf("%d let through, errors %v", let, errs)
	}
}

// TestLookUpsEndWithTheRun: the time of a run is over while eight questions are under way. They end with it.
func TestLookUpsEndWithTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.crowd(100)
		slow := &slowIndex{Records: b.store, takes: time.Second}
		s := b.submitter(nil)
		s.Records = slow
		s.Marketplace = reader(func(_ metering.Record, err error) bool {
			return errors.Is(err, context.DeadlineExceeded) // like a sender that takes an error for one part of the lane
		})
		ctx, cancel := context.WithTimeout(b.ctx, 5500*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, err := s.Run(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 5500*time.Millisecond || slow.now != 0 {
			t.Errorf("%v, %d still run", took, slow.now)
		}
	})
}
