package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// TestF08OneBadRowRejectsItsGroupAndTheFixBringsItBack: a rejected group came back without its good rows. Ten rows of 100 and
// one of 2.5 are all refused, a good row that comes later does not bill alone, and the mended row brings all of them back.
func TestF08OneBadRowRejectsItsGroupAndTheFixBringsItBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	var good []metering.Row
	for i := range 10 {
		good = append(good, usage("2026-03-10T14:00:0"+string(rune('0'+i)), 100))
	}
	bad := altered(usage("2026-03-10T14:30:00", 0), metering.Item{metering.AttrQuantity: number("2.5")})
	w.put(append(good, bad)...)

	w.until(at("2026-03-10T15:40:00"))
	for _, r := range append(good, bad) {
		w.wantRow(r, metering.RejectedClientSide, string(metering.NonIntegerQuantity))
	}
	w.wantMetric(metering.MetricRowRejected, 1, 1000)
	w.wantPlace(ledger.Rejected, 1000)

	late := usage("2026-03-10T14:45:00", 7)
	w.put(late)
	w.until(at("2026-03-10T16:00:00"))
	w.wantRow(late, metering.RejectedClientSide, string(metering.NonIntegerQuantity))
	w.wantBilled(late, 0)

	w.put(altered(bad, metering.Item{metering.AttrQuantity: number("3")}))
	w.until(at("2026-03-10T16:20:00"))
	w.wantBilled(late, 1010)
	for _, r := range append(good, bad, late) {
		w.wantRow(r, metering.Aggregated, aggregated(1010, 12))
	}
	w.wantPlace(ledger.Billed, 1010)
}

// TestF09HalfFinishedRejectionCommitsNothing: a rejection whose writes failed half way left the rest to be committed. Here the
// one label that succeeds at first is the bad row's; the next visit must refuse the others still, not bill 190.
func TestF09HalfFinishedRejectionCommitsNothing(t *testing.T) {
	t.Parallel()
	failing := true
	w := newWorld(t, afternoon, brittle(nil, func(o op, _ int, key string) outcome {
		if o == opLabel && failing && !strings.HasSuffix(key, "14:30:00") {
			return refuse
		}
		return pass
	}))
	bad := altered(usage("2026-03-10T14:30:00", 0), metering.Item{metering.AttrQuantity: "abc"})
	rows := []metering.Row{bad}
	for i := range 19 {
		rows = append(rows, usage(at("2026-03-10T14:00:00").Add(time.Duration(i)*time.Second).Format("2006-01-02T15:04:05"), 10))
	}
	w.put(rows...)
	w.until(at("2026-03-10T15:36:00"))
	w.wantRow(bad, metering.RejectedClientSide, string(metering.NonNumericQuantity))
	w.wantWaiting(rows[1:]...)

	failing = false
	w.until(at("2026-03-10T16:30:00"))
	for _, r := range rows {
		w.wantRow(r, metering.RejectedClientSide, string(metering.NonNumericQuantity))
	}
	if got := w.record(bad); got.SortKey != "" {
		t.Errorf("committed %+v", got)
	}
	w.wantBilled(bad, 0)
	w.wantPlace(ledger.Rejected, 190)
	w.wantNoDeadLetters()
}

// TestF10NothingIsCoercedIntoAQuantity: absent, misspelt and textual quantities were billed as 0 and locked the hour. Each is
// refused by name, in rows and in records that a seller writes; 3.0 alone is the number 3.
func TestF10NothingIsCoercedIntoAQuantity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attributes metering.Item
		reason     metering.Reason
	}{
		"absent":      {metering.Item{metering.AttrQuantity: nil}, metering.MissingQuantity},
		"misspelt":    {metering.Item{metering.AttrQuantity: nil, "quantitiy": number("7")}, metering.MissingQuantity},
		"text":        {metering.Item{metering.AttrQuantity: "7"}, metering.NonNumericQuantity},
		"word":        {metering.Item{metering.AttrQuantity: "abc"}, metering.NonNumericQuantity},
		"true":        {metering.Item{metering.AttrQuantity: true}, metering.NonNumericQuantity},
		"fraction":    {metering.Item{metering.AttrQuantity: number("2.5")}, metering.NonIntegerQuantity},
		"negative":    {metering.Item{metering.AttrQuantity: number("-1")}, metering.NegativeQuantity},
		"above int32": {metering.Item{metering.AttrQuantity: number("2147483648")}, metering.QuantityOutOfRange},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon)
			r := altered(usage("2026-03-10T14:00:05", 0), c.attributes)
			d := changed(sale("2026-03-10T13", 0), c.attributes)
			w.put(r)
			w.putRecords(d)
			w.until(at("2026-03-10T15:40:00"))
			w.wantRow(r, metering.RejectedClientSide, string(c.reason))
			w.wantRecord(d, metering.RejectedClientSide, string(c.reason))
			if n := len(w.sim.Ledger()); n != 0 {
				t.Errorf("%d records billed", n)
			}
			w.books()
		})
	}
	t.Run("3.0", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, afternoon)
		r := altered(usage("2026-03-10T14:00:05", 0), metering.Item{metering.AttrQuantity: number("3.0")})
		w.put(r)
		w.until(at("2026-03-10T15:40:00"))
		w.wantBilled(r, 3)
		w.books()
	})
}

// TestF11NothingThatTheIndexShowsWaitsForEver: rows that their group's prefix does not find were visited for ever and never
// named. Each kind of mismatch ends, within a day, billed where only the bucket is wrong and refused by name otherwise.
func TestF11NothingThatTheIndexShowsWaitsForEver(t *testing.T) {
	t.Parallel()
	const second = "2026-03-10T14:00:05"
	plain := usage(second, 7)
	key := func(k string) metering.Item { return metering.Item{metering.AttrRowKey: k} }
	for name, c := range map[string]struct {
		attributes metering.Item
		status     metering.Status
		reason     string
	}{
		"bucket an hour early":      {metering.Item{metering.AttrPending: "2026-03-10T13"}, metering.Aggregated, aggregated(7, 1)},
		"bucket ahead":              {metering.Item{metering.AttrPending: "2026-03-10T20"}, metering.Aggregated, aggregated(7, 1)},
		"bucket three days early":   {metering.Item{metering.AttrPending: "2026-03-07T14"}, metering.Aggregated, aggregated(7, 1)},
		"bucket a hundred days old": {metering.Item{metering.AttrPending: "2025-12-01T03"}, "", ""},
		"key without segments":      {key("nothing"), metering.RejectedClientSide, string(metering.MalformedSortKey)},
		"key of two segments":       {key(buyerOne + "#" + second), metering.RejectedClientSide, string(metering.MalformedSortKey)},
		"key with a local time":     {key(buyerOne + "#" + apiCalls + "#" + second + "+02:00"), metering.RejectedClientSide, string(metering.MalformedTimestamp)},
		"key of another account":    {key(buyerTwo + "#" + apiCalls + "#" + second), metering.RejectedClientSide, string(metering.SortKeyMismatch)},
		"key of another dimension":  {key(buyerOne + "#other#" + second), metering.RejectedClientSide, string(metering.SortKeyMismatch)},
		"key with a segment more":   {key(buyerOne + "#" + apiCalls + "#x#" + second), metering.RejectedClientSide, string(metering.SortKeyMismatch)},
		"dimension absent":          {metering.Item{metering.AttrDimension: nil}, metering.RejectedClientSide, string(metering.MissingDimension)},
		"dimension empty":           {metering.Item{metering.AttrDimension: ""}, metering.RejectedClientSide, string(metering.MissingDimension)},
		"account absent":            {metering.Item{metering.AttrAccount: nil}, metering.RejectedClientSide, string(metering.MissingCustomerAWSAccountID)},
		"timestamp of another hour": {metering.Item{metering.AttrTimestamp: "2026-03-10T16:00:05"}, metering.RejectedClientSide, string(metering.SortKeyMismatch)},
		"timestamp absent":          {metering.Item{metering.AttrTimestamp: nil}, metering.RejectedClientSide, string(metering.MalformedTimestamp)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon)
			r := altered(plain, c.attributes)
			w.put(r)
			for hours := time.Duration(1); hours <= 24 && w.row(r).Pending != ""; hours++ {
				w.until(afternoon.Add(hours * time.Hour))
			}
			w.until(w.clock.Now().Add(2 * time.Hour))
			got := w.row(r)
			if got.Pending != "" {
				t.Fatalf("still waits under %s", got.Pending)
			}
			if c.status != "" {
				w.wantRow(r, c.status, c.reason)
			}
			report := w.books()
			if report.Total.Written.Units != 7 {
				t.Errorf("written %+v", report.Total.Written)
			}
			if got.Status == metering.Aggregated {
				w.wantBilled(plain, 7)
			}
			w.wantNoDeadLetters()
		})
	}
}

// TestCase23LocalHourInTheBucketIsRepaired: a writer that stamps its local hour made its row invisible. Under bucket 16 the row of
// 14:00 is met at 17:05 and billed; a row whose hour is still locked then has its bucket corrected, with a metric.
func TestCase23LocalHourInTheBucketIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, withRules(metering.Rules{LockHours: 3}))
	open := altered(usage("2026-03-10T14:00:00", 5), metering.Item{metering.AttrPending: "2026-03-10T12"})
	w.put(open)
	w.until(at("2026-03-10T15:36:00"))
	if got := w.row(open); got.Pending != "2026-03-10T14" {
		t.Errorf("bucket %q, want it corrected to 2026-03-10T14", got.Pending)
	}
	w.wantMetric(metering.MetricPendingRepaired, 1, 0)
	w.until(at("2026-03-10T17:10:00"))
	w.wantBilled(open, 5)
	w.books()
}

// TestCase21HoursAreHalfOpen: a delta across a boundary fell into neither window. 13:59:59 is of hour 13 and 14:00:00 of hour 14.
func TestCase21HoursAreHalfOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	before, after := usage("2026-03-10T13:59:59", 1), usage("2026-03-10T14:00:00", 1)
	w.put(before, after)
	w.until(afternoon.Add(20 * time.Minute))
	w.wantBilled(before, 1)
	w.wantBilled(after, 1)
	w.wantPlace(ledger.Billed, 2)
}

// TestCase25ClocksThatAreAhead: a sender's clock ahead of ours had its events refused, or times far off accepted. A row of the
// hour in progress waits for its end, as one of an hour to come; neither is ever sent early.
func TestCase25ClocksThatAreAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	near, far := usage("2026-03-10T15:21:30", 1), usage("2026-03-10T17:00:00", 2)
	w.put(near, far)
	w.until(at("2026-03-10T16:04:59"))
	w.wantWaiting(near, far)
	w.until(at("2026-03-10T16:10:00"))
	w.wantBilled(near, 1)
	w.wantWaiting(far)
	w.until(at("2026-03-10T18:10:00"))
	w.wantBilled(far, 2)
	if refused := w.sim.Stats().Exceptions; len(refused) > 0 {
		t.Errorf("refused calls: %v", refused)
	}
	w.wantPlace(ledger.Billed, 3)
}

// TestCase34KeysAndDimensionsTooLong: a dimension too long for the store's key failed at every write. One that stands in a row is
// refused by name and comes to no commit.
func TestCase34KeysAndDimensionsTooLong(t *testing.T) {
	t.Parallel()
	for name, dimension := range map[string]string{
		"255 characters of four bytes": strings.Repeat("\U0001F4BE", 255),
		"256 characters":               strings.Repeat("d", 256),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon)
			r := row(licenseOne, buyerOne, dimension, "2026-03-10T14:00:00", 3)
			w.put(r)
			w.until(afternoon.Add(20 * time.Minute))
			w.wantRow(r, metering.RejectedClientSide, string(metering.DimensionTooLong))
			w.wantPlace(ledger.Rejected, 3)
			w.wantNoDeadLetters()
		})
	}
}

// TestCase35HashesInDimensions: '#' in a dimension made two keys one. Dimensions api and api#2026-03-10T14 in the same hour keep
// their own sums.
func TestCase35HashesInDimensions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	short := row(licenseOne, buyerOne, "api", "2026-03-10T14:00:00", 3)
	long := row(licenseOne, buyerOne, "api#2026-03-10T14", "2026-03-10T14:00:00", 5)
	odd := row(licenseOne, buyerOne, "#", "2026-03-10T14:00:00", 7)
	w.put(short, long, odd)
	w.until(afternoon.Add(20 * time.Minute))
	w.wantBilled(short, 3)
	w.wantBilled(long, 5)
	w.wantBilled(odd, 7)
	w.wantRow(short, metering.Aggregated, aggregated(3, 1))
	w.wantPlace(ledger.Billed, 15)
}

// TestF51FutureTimestampIsNamed: a time far ahead could never be refused, since no visit met it. A closing license's hour is
// visited while it is in progress, and a row ahead of the clocks' tolerance is refused by name there.
func TestF51FutureTimestampIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.deprovision(licenseOne, buyerOne, at("2026-03-10T14:30:00"))
	r := usage("2026-03-10T15:59:59", 4)
	w.put(r)
	w.until(at("2026-03-10T15:25:00"))
	w.wantRow(r, metering.RejectedClientSide, string(metering.TimestampInFuture))
	w.wantPlace(ledger.Rejected, 4)
}
