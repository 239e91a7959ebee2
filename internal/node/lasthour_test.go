package node_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/simulator"
)

const (
	closingPrefix  = "arn:aws:license-manager::111122223333:license:l-c"
	ordinaryPrefix = "arn:aws:license-manager::111122223333:license:l-0"
	// openEnd is how long before the end of a last hour its usage in the hour in progress is written, just before the flush takes it.
	openEnd = 10*time.Minute + time.Second
)

// departure is many licenses that are deprovisioned at one instant, a second after a full minute, beside ordinary ones.
type departure struct {
	licenses, ordinary int
	minute             int
}

// course is what became of a departure.
type course struct {
	Flush, FlushMost     int           // index queries of the flush, in the hour and in its largest run
	Lookups, LookupsMost int           // of the submitter, likewise
	Visits               int           // groups read
	Calls                int           // to the Marketplace, with records of these licenses
	FlushTook            time.Duration // the longest run
	SubmitTook           time.Duration
	Billed               time.Duration // from the event until the last unit of the complete hours was billed
	Spare                time.Duration // from when the last unit of the hour in progress was billed until the end
	ordinary             map[string]time.Duration
}

// lock keeps all but the oldest hours from the ordinary way, so that the last hours are billed by nothing but their own.
var lock = metering.Rules{LockHours: 20}

// event is the instant of the event: a second after the schedules, where it waits longest for the next.
func (d departure) event() time.Time {
	return at("2026-03-10T13:00:00").Add(time.Duration(d.minute)*time.Minute + time.Second)
}

// completed are the hours that wait: all 23 that are complete, but for the oldest one where it lapses before a run can come.
func (d departure) completed() (hours []metering.Hour) {
	for _, h := range lock.SubmitHours(d.event()) {
		if lock.Billable(h, d.event().Add(10*time.Minute)) {
			hours = append(hours, h)
		}
	}
	return hours
}

// play runs a departure from three minutes before its event until it is finalized, by the clock of a bubble: stages run beside each other as
// they do on AWS, and what waits side by side waits once.
func (d departure) play(t *testing.T) (c course) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clock := node.NewLiveClock(time.Until(d.event().Add(-3*time.Minute)), nil)
		closing := func(license string) bool { return strings.HasPrefix(license, closingPrefix) }
		store := &toll{closing: closing}
		var runs tally
		w := newWorld(t, clock.Now(), withRules(lock), withClock(clock), withConfig(func(n *node.Config) {
			store.Store = n.Store
			n.Store, n.Observe = store, func(e node.Event) { runs.add(e, store.seen()) }
		}))
		w.sim.Inject(simulator.Fault{Kind: simulator.Latency, Latency: callLatency})
		w.Discover.Deprovision, w.Discover.Work = tollQueue{w.Discover.Deprovision, 1}, tollQueue{w.Discover.Work, 1}
		w.Aggregate.Cleanup = tollQueue{w.Aggregate.Cleanup, closingVisits}
		calls := countCalls(w, clock, closing)

		licenses := named(closingPrefix, d.licenses)
		admit(w, append(named(ordinaryPrefix, d.ordinary), licenses...))
		d.write(w, named(ordinaryPrefix, d.ordinary))
		stop := w.start()
		time.Sleep(d.event().Sub(clock.Now()))
		d.write(w, licenses)
		for _, l := range licenses {
			w.deprovision(l, buyerOne, d.event())
		}
		end := d.event().Add(metering.DeprovisionWindow)
		time.Sleep(end.Add(-openEnd).Sub(clock.Now()))
		last := metering.Second(clock.Now().Unix()).String()
		for _, l := range licenses {
			w.put(row(l, buyerOne, "last_calls", last, 1))
		}
		time.Sleep(end.Add(20 * time.Minute).Sub(clock.Now()))
		stop()

		d.check(w, runs.failures)
		c = runs.course(d.event(), end)
		c.Calls = *calls
		d.measure(w, &c, closing)
	})
	return c
}

// named are license ARNs.
func named(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s%031x", prefix, i)
	}
	return list
}

// admit has the Marketplace know licenses as active.
func admit(w *world, licenses []string) {
	for _, l := range licenses {
		if err := w.sim.PutLicense(simulator.License{ARN: l, AccountID: buyerOne}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// write puts a row of one unit into each of the hours that wait.
func (d departure) write(w *world, licenses []string) {
	for _, l := range licenses {
		var rows []metering.Row
		for _, h := range d.completed() {
			rows = append(rows, row(l, buyerOne, apiCalls, h.String()+":20:00", 1))
		}
		if err := w.store.PutRows(w.ctx, rows); err != nil {
			w.t.Fatal(err)
		}
	}
}

// countCalls counts the calls that carry records of licenses in their last hour.
func countCalls(w *world, clock node.Clock, closing func(string) bool) *int {
	calls, mu := 0, sync.Mutex{}
	client := marketplace.New(marketplace.Options{
		Region: "us-east-1", Endpoint: "http://simulator.invalid", HTTPClient: w.sim.Client(), ProductCode: simulator.DefaultProductCode,
	})
	api := interposedAPI{API: client, before: func(c metering.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if slices.ContainsFunc(c.Records, func(r metering.UsageRecord) bool { return closing(r.License) }) {
			calls++
		}
		return nil
	}}
	w.Submit.Marketplace = marketplace.NewSender(api, marketplace.Settings{Now: clock.Now, Sleep: clock.Sleep})
	return &calls
}

// check holds the outcome to what a departure must come to: everything is billed, the books balance, and nobody is left in a last hour.
func (d departure) check(w *world, failures []string) {
	w.t.Helper()
	for _, f := range failures {
		w.t.Error(f)
	}
	billed := w.books().Total.Place(ledger.Billed).Units
	if want := int64(d.licenses * (len(d.completed()) + 1)); billed < want {
		w.t.Errorf("%d units billed, those who leave alone have %d", billed, want)
	}
	if left, err := w.store.Deprovisioning(w.ctx); err != nil || len(left) > 0 {
		w.t.Errorf("still in their last hour: %v, %v", left, err)
	}
	w.wantNoDeadLetters()
}

// measure reads from the Marketplace's ledger when each unit was billed.
func (d departure) measure(w *world, c *course, closing func(string) bool) {
	w.t.Helper()
	c.ordinary = make(map[string]time.Duration)
	units := 0
	var completed, open time.Time
	for _, b := range w.sim.Ledger() {
		last := &completed
		switch {
		case !closing(b.LicenseARN):
			c.ordinary[b.LicenseARN+b.Hour.String()] = b.At.Sub(d.event())
			continue
		case b.Dimension != apiCalls:
			last = &open
		}
		if units++; b.At.After(*last) {
			*last = b.At
		}
	}
	if want := d.licenses * (len(d.completed()) + 1); units != want {
		w.t.Errorf("%d units of those who leave were billed, want %d", units, want)
	}
	if d.licenses > 0 {
		c.Billed, c.Spare = completed.Sub(d.event()), d.event().Add(metering.DeprovisionWindow).Sub(open)
	}
}

// tally notes what the runs of the flush and of the submitter asked, and how long they took.
type tally struct {
	mu       sync.Mutex
	runs     []asked
	before   counts
	failures []string
}

type asked struct {
	stage string
	due   time.Time
	took  time.Duration
	counts
}

func (y *tally) add(e node.Event, now counts) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if e.Err != nil {
		y.failures = append(y.failures, fmt.Sprintf("%s at %v: %v", e.Stage, e.At, e.Err))
	}
	var s metering.Schedule
	a := asked{stage: e.Stage}
	switch e.Stage {
	case metering.FlushSchedule.Name:
		s, a.flush, y.before.flush = metering.FlushSchedule, now.flush-y.before.flush, now.flush
	case metering.SubmitSchedule.Name:
		s, a.lookups, y.before.lookups = metering.SubmitSchedule, now.lookups-y.before.lookups, now.lookups
	case node.AggregateStage:
		a.visits, y.before.visits = now.visits-y.before.visits, now.visits
	default:
		return
	}
	if a.due = e.At; s.Name != "" {
		a.due = s.Next(e.At.Add(-s.Every)) // none takes as long as that
		a.took = e.At.Sub(a.due)
	}
	y.runs = append(y.runs, a)
}

// course sums the runs up that were due while the last hours were open. Runs after it must not ask for any license.
func (y *tally) course(event, end time.Time) (c course) {
	for _, r := range y.runs {
		if !r.due.Before(end) && r.flush+r.lookups > 0 {
			y.failures = append(y.failures, fmt.Sprintf("%s at %v asks for licenses whose hour is over", r.stage, r.due))
		}
		c.Flush, c.FlushMost = c.Flush+r.flush, max(c.FlushMost, r.flush)
		c.Lookups, c.LookupsMost = c.Lookups+r.lookups, max(c.LookupsMost, r.lookups)
		c.Visits += r.visits
		if r.flush > 0 {
			c.FlushTook = max(c.FlushTook, r.took)
		}
		if r.lookups > 0 {
			c.SubmitTook = max(c.SubmitTook, r.took)
		}
	}
	return c
}

func (c course) String() string {
	s := func(d time.Duration) string {
		return fmt.Sprintf("%d:%04.1f", int(d.Minutes()), d.Seconds()-60*float64(int(d.Minutes())))
	}
	return fmt.Sprintf("%d flush queries (%d a run, %s), %d look-ups (%d a run, %s), %d groups read, %d calls, billed after %s, the open hour %s before the end",
		c.Flush, c.FlushMost, s(c.FlushTook), c.Lookups, c.LookupsMost, s(c.SubmitTook), c.Visits, c.Calls, s(c.Billed), s(c.Spare))
}

// busy is how long the look-ups and the calls of so many licenses take, one after the other: what they keep others waiting for at most.
func (d departure) busy() time.Duration {
	const callsPerSecond = 9.8 // the pace of the sender keeps a margin to the ten that are allowed
	questions := time.Duration(d.licenses*24) * request / 8
	calls := float64(d.licenses*23)/25 + 1
	return questions + time.Duration(calls/callsPerSecond*float64(time.Second)) + time.Second
}

// TestLastHourAtEveryMinute: one license with 23 hours that wait, and usage of the hour in progress, is deprovisioned a second after each
// minute of the hour. The schedules stand on full minutes, so no other second is worse. Eight minutes is the most that it takes: just
// after the full hour the hour before has five minutes to settle.
func TestLastHourAtEveryMinute(t *testing.T) {
	t.Parallel()
	took := make(map[int]time.Duration)
	spare := time.Hour
	for minute := 0; minute < 60; minute += everyMinute {
		c := departure{licenses: 1, minute: minute}.play(t)
		t.Logf("13:%02d:01: %v", minute, c)
		took[minute], spare = c.Billed, min(spare, c.Spare)
		if c.FlushMost > 24 || c.LookupsMost > 24 || c.Calls > 3 {
			t.Errorf("event at 13:%02d:01: %v", minute, c)
		}
	}
	order := slices.SortedFunc(maps.Keys(took), func(a, b int) int { return cmp.Or(cmp.Compare(took[a], took[b]), a-b) })
	worst, typical := order[len(order)-1], order[len(order)/2]
	t.Logf("worst: a second after minute %d, %v; typical: minute %d, %v; least spare time %v", worst, took[worst], typical, took[typical], spare)
	if worst != 0 || took[worst] > 8*time.Minute || took[worst] < 8*time.Minute-time.Second || spare < 3*time.Minute {
		t.Errorf("the worst minute is %d with %v, and docs/last-hour.md says minute 0 with 8 minutes, and 3 to spare", worst, took[worst])
	}
}

// TestLastHourOfMany: so many licenses are deprovisioned at once, in the worst minute and in a typical one. All is billed inside the hour; a
// run asks one question for each license and hour; ordinary usage comes later than it would without them by no more than their look-ups
// and calls take; and it repeats exactly.
func TestLastHourOfMany(t *testing.T) {
	t.Parallel()
	for minute, one := range map[int]time.Duration{0: 8 * time.Minute, 33: 5 * time.Minute} {
		t.Run(fmt.Sprintf("13:%02d:01", minute), func(t *testing.T) {
			t.Parallel()
			usual := departure{ordinary: ordinary, minute: minute}.play(t).ordinary
			for _, licenses := range departures {
				t.Run(fmt.Sprint(licenses), func(t *testing.T) {
					d := departure{licenses: licenses, ordinary: ordinary, minute: minute}
					got := d.play(t)
					if got.Billed > one+d.busy() || got.Spare < 2*time.Minute {
						t.Errorf("want all billed within %v, and the open hour two minutes before the end", one+d.busy())
					}
					if most := 24 * licenses; got.FlushMost > most || got.LookupsMost > most {
						t.Errorf("more than %d questions in a run", most)
					}
					if len(got.ordinary) != len(usual) || len(usual) < 4*ordinary {
						t.Errorf("%d ordinary hours billed, without the others %d", len(got.ordinary), len(usual))
					}
					var late time.Duration
					for key, after := range got.ordinary {
						late = max(late, after-usual[key])
					}
					if late > d.busy() {
						t.Errorf("ordinary usage is late, want %v at most", d.busy())
					}
					t.Logf("%v; ordinary usage up to %.1f s later", got, late.Seconds())
					if minute > 0 && licenses > 1 && licenses <= 100 {
						if diff := gocmp.Diff(got, d.play(t), gocmp.AllowUnexported(course{})); diff != "" {
							t.Errorf("played again (-first +second):\n%s", diff)
						}
					}
				})
			}
		})
	}
}
