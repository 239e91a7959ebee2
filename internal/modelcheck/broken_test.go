package modelcheck

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// The protocols here are broken on purpose, each in the way in which a simpler implementation would be: an exploration that does not
// find them proves nothing.

// overwriting commits a record whether there is one or not.
type overwriting struct{ *Process }

func (o overwriting) CreateRecord(_ context.Context, r metering.Record) (metering.Outcome[metering.Record], error) {
	r.CreatedAt, r.UpdatedAt = o.stampText(), o.stampText()
	return write(o.Process, fmt.Sprintf("put record %+v", r), fmt.Sprintf("commits the record, whatever is there, with %d", r.Quantity.N), nil,
		func(s *memory.Store) (metering.Outcome[metering.Record], error) {
			return metering.Outcome[metering.Record]{Done: true}, s.PutRecord(background, r)
		})
}

// careless labels a row whatever it holds.
type careless struct{ *Process }

func (c careless) LabelRows(_ context.Context, labels []metering.Label) []metering.Labelled {
	out := make([]metering.Labelled, len(labels))
	for i, l := range labels {
		l.At = c.stamp()
		out[i].Outcome, out[i].Err = write(c.Process, fmt.Sprintf("force label %+v", l), fmt.Sprintf("labels %s %s, whatever it holds", short(l.License, l.SortKey), l.Status), nil,
			func(s *memory.Store) (metering.Outcome[metering.Row], error) {
				return s.UpdateRow(background, l.License, l.SortKey, func(old *metering.Row) (metering.Row, bool) {
					if old == nil {
						return metering.Row{}, false
					}
					return l.Apply(*old), true
				})
			})
	}
	return out
}

// hasty ends a record whether it waits or not.
type hasty struct{ *Process }

func (h hasty) FinishRecord(_ context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	f.At = h.stamp()
	return write(h.Process, fmt.Sprintf("force finish %+v", f), fmt.Sprintf("writes %s on the record, whatever it says", f.Status), nil,
		func(s *memory.Store) (out metering.Outcome[metering.Record], err error) {
			g, _ := metering.ParseRecordKey(f.License, f.SortKey)
			r, err := s.Record(background, g)
			if r == nil || err != nil {
				return out, err
			}
			return metering.Outcome[metering.Record]{Done: true}, s.PutRecord(background, f.Apply(*r))
		})
}

// unmarked calls without having marked its records.
type unmarked struct{ *Process }

func (unmarked) MarkSent(context.Context, metering.Send) (metering.Outcome[metering.Record], error) {
	return metering.Outcome[metering.Record]{Done: true}, nil
}

// recordless does not look whether a group has its record.
type recordless struct{ *Process }

func (recordless) Record(context.Context, metering.Group) (*metering.Record, error) { return nil, nil }

// forgetful labels nothing of a group that it finds committed.
type forgetful struct{ *Process }

func (f forgetful) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	r, err := f.Process.Record(ctx, g)
	if r != nil {
		r = &metering.Record{Manifest: "v1 0 0"} // it covers nothing
	}
	return r, err
}

// misread takes every answer for a refusal.
type misread struct{ *Process }

func (m misread) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	f.Status = metering.CustomerNotSubscribed
	return m.Process.FinishRecord(ctx, f)
}

// in breaks one role, or some.
func in(t func(p *Process) Tables, roles ...string) func(role string, p *Process) Tables {
	return func(role string, p *Process) Tables {
		if slices.Contains(roles, role) {
			return t(p)
		}
		return p
	}
}

func TestBrokenProtocolsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		world  string
		broken func(role string, p *Process) Tables
		rule   string
	}{
		{"commit without a condition", "everyone", in(func(p *Process) Tables { return overwriting{p} }, "aggregator"), RuleQuantity},
		{"cleanup without the quantity", "everyone", in(func(p *Process) Tables { return careless{p} }, "cleaner"), RuleBalance},
		{"expiry of what has ended", "lag", in(func(p *Process) Tables { return hasty{p} }, "expirer"), RuleTerminal},
		{"no mark before the call", "everyone", in(func(p *Process) Tables { return unmarked{p} }, "submitter"), RuleBilled},
		{"age-out without a look at the record", "loss", in(func(p *Process) Tables { return recordless{p} }, "age-out"), RuleStale},
		{"visits without a look at the manifest", "loss", in(func(p *Process) Tables { return forgetful{p} }, "aggregator", "age-out"), RuleStale},
		{"a verdict that nobody gave", "legacy", in(func(p *Process) Tables { return misread{p} }, "submitter"), RuleMetric},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scenario(t, c.world)
			s.broken = c.broken
			r, err := Explore(t.Context(), s, Options{})
			if err != nil || r.Breach == nil {
				t.Fatalf("it was not found: %v, %v", r, err)
			}
			t.Logf("%v\n%v", r, r.Breach)
			if r.Breach.Rule != c.rule {
				t.Errorf("it broke %q, want %q", r.Breach.Rule, c.rule)
			}
		})
	}
}

// TestStory: what is found is told from the start, in words.
func TestStory(t *testing.T) {
	t.Parallel()
	s := scenario(t, "loss")
	s.broken = in(func(p *Process) Tables { return forgetful{p} }, "aggregator", "age-out")
	r, err := Explore(t.Context(), s, Options{})
	if err != nil || r.Breach == nil {
		t.Fatalf("it was not found: %v, %v", r, err)
	}
	want := `  1. 13:59  aggregator (handling: visit the group) reads the record of 14h: there is none
  2. 13:59  aggregator reads the rows of 14h: row 14:00:01 5 (waiting)
  3. 13:59  aggregator commits the record of 14h with 5: done
  4. 13:59  aggregator is killed, and its message is left for dead
  5. 13:59  later meter looks at the clock
  6. 13:59  later meter reads which rows wait: 1 row
  7. 13:59  later meter sends to work: visit the group
  8. 13:59  later aggregator reads the record of 14h: 5, waiting
  9. 13:59  later aggregator reads the rows of 14h: row 14:00:01 5 (waiting)
 10. 13:59  later aggregator sends to cleanup: label LateUsage row 14:00:01 with 5
 11. 13:59  later age-out looks at the clock
 12. 13:59  later cleaner labels row 14:00:01 LateUsage: done
 13. 13:59  later submitter looks at the clock
 14. 13:59  later submitter reads which records wait: 1 record
 15. 13:59  later submitter marks the record of 14h as sent with 5: done
 16. 13:59  later submitter asks the Marketplace to bill 5: Success
 17. 13:59  later submitter writes Success on the record of 14h: done
 18. 13:59  later expirer looks at the clock
     no billed row says that it was lost: the record of 14h is Success, and a row that it covers carries another label
`
	if diff := cmp.Diff(want, r.Breach.String()); diff != "" {
		t.Error(diff)
	}
}

func scenario(t *testing.T, name string) Scenario {
	t.Helper()
	for _, s := range Scenarios() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no scenario %s", name)
	return Scenario{}
}
