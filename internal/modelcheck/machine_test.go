package modelcheck

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/awsmp/metering/internal/metering"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asked are the effects that a machine's tasks ask for.
func asked(m *machine) (names []string) {
	for _, t := range m.tasks {
		if t.want != nil {
			names = append(names, t.want.name)
		}
	}
	return names
}

// TestMachineRunsTheTasksOfAProcess: as many at once as their group takes, up to the effects that they ask for, and whoever waits for them
// goes on when they have ended.
func TestMachineRunsTheTasksOfAProcess(t *testing.T) {
	t.Parallel()
	m := start(unread, func(_ context.Context, m *machine) {
		g := m.Group(2)
		for _, name := range []string{"a", "b", "c"} {
			g.Go(func() { m.ask(&effect{name: name}) })
		}
		g.Wait()
		m.ask(&effect{name: "after all"})
	})
	if diff := cmp.Diff([]string{"a", "b"}, asked(m)); diff != "" {
		t.Fatal(diff)
	}
	m.resume(2, answer{}, unread)
	if diff := cmp.Diff([]string{"a", "c"}, asked(m)); diff != "" {
		t.Fatal(diff)
	}
	m.resume(1, answer{}, unread)
	m.resume(3, answer{}, unread)
	if diff := cmp.Diff([]string{"after all"}, asked(m)); diff != "" {
		t.Fatal(diff)
	}
	m.resume(0, answer{}, unread)
	if len(m.tasks) > 0 {
		t.Errorf("%d tasks have not ended", len(m.tasks))
	}
}

// TestMachineIsGivenUp: nothing that a process asks for is done any more, and it comes to its end.
func TestMachineIsGivenUp(t *testing.T) {
	t.Parallel()
	var errs []error
	m := start(unread, func(ctx context.Context, m *machine) {
		s, g := m.Semaphore(1), m.Group(0)
		for range 2 {
			g.Go(func() {
				if s.Acquire(ctx) {
					defer s.Release()
					errs = append(errs, m.ask(&effect{name: "x"}).err)
				}
			})
		}
		g.Wait()
		errs = append(errs, m.ask(&effect{name: "y"}).err)
	})
	if diff := cmp.Diff([]string{"x"}, asked(m)); diff != "" {
		t.Fatal(diff)
	}
	m.abandon()
	if len(m.tasks) > 0 || len(errs) != 2 || slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, errGone) }) {
		t.Errorf("%d tasks have not ended; effects ended with %v", len(m.tasks), errs)
	}
}

// TestFaultyRolesAreFound: a role that panics, that waits for itself, that fails for no reason, or that does not depend on its answers
// alone is a breach of the law too.
func TestFaultyRolesAreFound(t *testing.T) {
	t.Parallel()
	g := groupOf(license)
	runs := 0
	for _, c := range []struct {
		name string
		run  func(ctx context.Context, p *Process, _ string) (Told, error)
		rule string
		what string
	}{
		{"panics", func(context.Context, *Process, string) (Told, error) { panic("oh") }, RuleCrash, "panic: oh"},
		{"waits for itself", func(_ context.Context, p *Process, _ string) (Told, error) {
			p.hold(func() bool { return p.gone })
			return nil, nil
		}, RuleCrash, "for ever"},
		{"fails", func(ctx context.Context, p *Process, _ string) (Told, error) {
			_, err := p.Record(ctx, g)
			return nil, errors.Join(err, errors.New("oh"))
		}, RuleCalm, "oh"},
		{"lies", func(ctx context.Context, p *Process, _ string) (Told, error) {
			p.FlushRows(ctx, []metering.Flush{add(2, 4)})
			return Told{{license, add(2, 4).SortKey(), 4, HourCommitted}}, nil
		}, RuleWriter, "stands there 1 times"},
		{"does as it likes", func(ctx context.Context, p *Process, _ string) (Told, error) {
			if runs++; runs > 1 {
				return nil, nil
			}
			_, err := p.Row(ctx, license, row(1, 0).SortKey)
			return nil, err
		}, RuleCrash, "led elsewhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			role := Role{Name: "role", Until: whenever, Run: c.run}
			s := world(c.name, "", role, Adder(add(1, 3)), role)
			s.Cast = s.Cast[:3]
			r, err := Explore(t.Context(), s, Options{})
			if err != nil || r.Breach == nil || r.Breach.Rule != c.rule || !strings.Contains(r.Breach.What, c.what) {
				t.Errorf("found %v, %v", r.Breach, err)
			}
		})
	}
}

func TestExploreEndsWithinItsBounds(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		s    Scenario
		o    Options
		want string
	}{
		{"states", t.Context(), scenario(t, "legacy"), Options{MaxStates: 100}, "more than 100 states"},
		{"context", over, scenario(t, "legacy"), Options{}, "context canceled"},
		{"processes", t.Context(), world("crowd", "", Aggregators(8)), Options{}, "more than 10 processes"},
		{"nothing", t.Context(), Scenario{Name: "nothing"}, Options{}, "a group and a moment"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Explore(c.ctx, c.s, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
