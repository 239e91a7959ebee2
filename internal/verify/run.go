package verify

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// Rows is what a run asks of the usage table.
type Rows interface {
	Row(ctx context.Context, license, sortKey string) (*metering.Row, error)
	GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error]
	LicenseRows(ctx context.Context, license string) iter.Seq2[metering.Row, error]
	PendingRows(ctx context.Context, hour metering.Hour, license string) iter.Seq2[metering.PendingRow, error]
	PutRow(ctx context.Context, r metering.Row) error
	FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed
	DeleteRow(ctx context.Context, license, sortKey string) error
}

// Records is what a run asks of the aggregated-usage table.
type Records interface {
	Record(ctx context.Context, g metering.Group) (*metering.Record, error)
	LicenseRecords(ctx context.Context, license string) iter.Seq2[metering.Record, error]
	PendingRecords(ctx context.Context, hour metering.Hour, license string) iter.Seq2[metering.Record, error]
	CreateRecord(ctx context.Context, r metering.Record) (metering.Outcome[metering.Record], error)
	PutRecord(ctx context.Context, r metering.Record) error
	DeleteRecord(ctx context.Context, license, sortKey string) error
}

// Target is the stack that is verified.
type Target struct {
	Name    string
	Rows    Rows // nil: direct-submit, there is no usage table
	Records Records
	Rules   metering.Rules
	DryRun  bool
	Paused  bool
	Page    string // address of the registration page; empty: there is none
}

// Buyer is a real one, of whom one unit is metered in a live stack.
type Buyer struct{ License, Account, Dimension string }

// Settings are those of a run.
type Settings struct {
	Target
	ID      string        // of the run, as NewID makes one
	Only    []string      // names of cases, or what they begin with; none means all
	Buyer   *Buyer        // nil: nothing is billed
	Timeout time.Duration // of the whole run; 0: each case waits as long as its schedules may take
	Now     func() time.Time
	Sleep   func(context.Context, time.Duration) error
	HTTP    *http.Client
	// Tell is told what the run does, line by line; nil tells nobody.
	Tell func(line string)
}

// poll is how often a run looks at what it has written, and idle how often while no schedule is due.
const (
	poll = 10 * time.Second
	idle = time.Minute
)

// patience is how many looks in a row may fail with what will pass.
const patience = 6

// run is a run under way.
type run struct {
	Settings
	plan    *plan
	begun   time.Time
	cases   []*Case
	written map[place]bool // all that was written, or will come of it
	buckets map[metering.Hour]bool
	undo    func(context.Context) error // puts back what a case has changed of a record that stays
	told    string
}

// Do runs the cases, balances the books of what they wrote, and takes all of it away again, also where ctx ends early or something
// fails. The report is valid beside an error.
func Do(ctx context.Context, s Settings) (Report, error) {
	r := &run{Settings: s, begun: s.Now(), written: make(map[place]bool), buckets: make(map[metering.Hour]bool)}
	r.plan = newPlan(s, r.begun)
	r.cases = r.plan.chosen(s.Only)
	err := r.play(ctx)
	report := r.report()
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
	defer cancel()
	if ctx.Err() != nil {
		r.tell("interrupted; what was written is taken away")
	}
	if r.undo != nil {
		err = errors.Join(err, r.undo(after))
	}
	books, booksErr := r.books(after)
	report.Books = books
	left, cleanErr := r.clean(after)
	report.Deleted, report.Left = left.Deleted, left.Left
	if cleanErr != nil {
		report.Left = max(report.Left, 1) // nobody knows
	}
	report.Ended = s.Now()
	return report, errors.Join(err, booksErr, cleanErr)
}

// play runs the cases until each has come out, or may wait no longer.
func (r *run) play(ctx context.Context) error {
	failed := 0
	for {
		now := r.Now()
		if err := r.write(ctx, now); err != nil {
			return err
		}
		seen, err := r.look(ctx)
		switch {
		case err == nil:
			failed = 0
			for _, c := range r.cases {
				c.judge(seen, now)
			}
			r.say()
		case ctx.Err() != nil:
			return ctx.Err()
		case !awsapi.ClassOf(err).Retry() || failed >= patience:
			return fmt.Errorf("look at what was written: %w", err)
		default:
			failed++
		}
		if !slices.ContainsFunc(r.cases, func(c *Case) bool { return c.Result == "" }) {
			return nil
		}
		if err == nil && slices.ContainsFunc(r.cases, func(c *Case) bool { return c.Result == "" && !c.begun }) {
			continue // the next step of a case is written at once
		}
		r.waiting(now)
		if err := r.Sleep(ctx, r.pause(now)); err != nil {
			return err
		}
	}
}

// write begins the steps whose turn has come.
func (r *run) write(ctx context.Context, now time.Time) error {
	rows, records := 0, 0
	for _, c := range r.cases {
		if c.Result != "" || c.begun {
			continue
		}
		s := c.step()
		for _, row := range s.rows {
			if err := r.putRow(ctx, row); err != nil {
				return fmt.Errorf("case %s: %w", c.Name, err)
			}
			rows++
		}
		for _, record := range s.records {
			if err := r.putRecord(ctx, record); err != nil {
				return fmt.Errorf("case %s: %w", c.Name, err)
			}
			records++
		}
		if s.do != nil {
			if err := s.do(ctx, r, c); err != nil {
				return fmt.Errorf("case %s: %w", c.Name, err)
			}
		}
		c.begin(now, r.plan.until())
	}
	switch {
	case rows > 0 && records > 0:
		r.tell("wrote %s and %s", ledger.Counted(int64(rows), "row"), ledger.Counted(int64(records), "record"))
	case rows > 0:
		r.tell("wrote %s", ledger.Counted(int64(rows), "row"))
	case records > 0:
		r.tell("wrote %s", ledger.Counted(int64(records), "record"))
	}
	return nil
}

func (r *run) putRow(ctx context.Context, row metering.Row) error {
	r.remember(row.License, row.SortKey, false, row.Pending)
	if key, reason := metering.ParseRowKey(row.SortKey); reason == "" {
		r.buckets[key.Second.Hour()] = true
		r.written[place{row.License, key.Group(row.License).RecordKey(), true}] = true
	}
	return r.Rows.PutRow(ctx, marked(row, r.ID))
}

func (r *run) putRecord(ctx context.Context, record metering.Record) error {
	r.remember(record.License, record.SortKey, true, record.Pending)
	return r.Records.PutRecord(ctx, markedRecord(record, r.ID))
}

// remember notes an item before it is written.
func (r *run) remember(license, sortKey string, record bool, bucket string) {
	r.written[place{license, sortKey, record}] = true
	if h, err := metering.ParseHour(bucket); err == nil {
		r.buckets[h] = true
	}
}

// look reads all that the run has written, and what came of it.
func (r *run) look(ctx context.Context) (*seen, error) {
	s := newSeen(r.ID)
	for _, license := range Licenses() {
		if err := s.read(ctx, r.Target, license); err != nil {
			return nil, err
		}
	}
	for p := range r.written { // of a real license nothing else is read
		if slices.Contains(Licenses(), p.license) {
			continue
		}
		if err := s.readOne(ctx, r.Target, p); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// say tells how cases have come out, each once. Those that are as expected are many, and come out together.
func (r *run) say() {
	var passed []string
	for _, c := range r.cases {
		if c.Result == "" || c.said {
			continue
		}
		c.said = true
		switch c.Result {
		case Skipped:
			r.tell("skipped %s: %s", c.Name, c.Why)
		case Passed:
			passed = append(passed, c.Name)
		default:
			r.tell("FAILED %s: expected %s; found %s", c.Name, c.Expected, c.Found)
		}
	}
	const few = 4
	switch n := len(passed); {
	case n > few:
		r.tell("ok: %s and %s", strings.Join(passed[:few], ", "), ledger.Counted(int64(n-few), "other case"))
	case n > 0:
		r.tell("ok: %s", strings.Join(passed, ", "))
	}
}

// pause is how long it is until something may have changed.
func (r *run) pause(now time.Time) time.Duration {
	pause := idle
	for _, c := range r.cases {
		if c.Result != "" {
			continue
		}
		for _, t := range []time.Time{c.wait.next, c.wait.latest} {
			if t.After(now) {
				pause = min(pause, t.Sub(now))
			}
		}
		if !c.wait.next.After(now) {
			pause = min(pause, poll)
		}
	}
	return max(pause, time.Second)
}

// waiting tells what is waited for, where that has changed.
func (r *run) waiting(now time.Time) {
	byWait := make(map[string]int)
	done := 0
	for _, c := range r.cases {
		if c.Result == "" {
			byWait[c.wait.words(now)]++
		} else {
			done++
		}
	}
	var parts []string
	for words, n := range byWait {
		parts = append(parts, fmt.Sprintf("%s for %s", ledger.Counted(int64(n), "case"), words))
	}
	slices.Sort(parts)
	line := fmt.Sprintf("%d of %d done; waiting: %s", done, len(r.cases), strings.Join(parts, "; "))
	if line != r.told {
		r.told = line
		r.tell("%s", line)
	}
}

func (r *run) tell(format string, args ...any) {
	if r.Tell != nil {
		r.Tell(r.Now().UTC().Format("15:04:05") + "  " + fmt.Sprintf(format, args...))
	}
}
