package simulation

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// course runs what build spawns, and returns the lines that its tasks note, each with the seconds since noon.
func course(build func(l *loop, start func(f func(ctx context.Context)) *process, note func(string))) []string {
	l := newLoop(noon)
	var lines []string
	note := func(s string) { lines = append(lines, fmt.Sprintf("%.0f %s", l.now.Sub(noon).Seconds(), s)) }
	start := func(f func(ctx context.Context)) *process {
		p := &process{name: "p"}
		p.ctx, p.cancel = context.WithCancel(context.Background())
		l.processes = append(l.processes, p)
		l.spawn(p, func() {
			f(p.ctx)
			p.ended = true
			l.forget(p)
		})
		return p
	}
	build(l, start, note)
	for l.step() {
	}
	l.unwind()
	return lines
}

func TestLoop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		build func(l *loop, start func(f func(ctx context.Context)) *process, note func(string))
		want  []string
	}{
		"time passes only where everybody waits": {func(l *loop, start func(func(context.Context)) *process, note func(string)) {
			for _, d := range []int{3, 1, 2} {
				start(func(ctx context.Context) {
					_ = l.Sleep(ctx, time.Duration(d)*time.Second)
					note(fmt.Sprint("slept ", d))
				})
			}
		}, []string{"1 slept 1", "2 slept 2", "3 slept 3"}},
		"at one instant the first who asked goes first": {func(l *loop, start func(func(context.Context)) *process, note func(string)) {
			for _, n := range []string{"a", "b", "c"} {
				l.at(noon.Add(time.Second), func() { note(n) })
			}
		}, []string{"1 a", "1 b", "1 c"}},
		"a group keeps its limit and is waited for": {func(l *loop, start func(func(context.Context)) *process, note func(string)) {
			start(func(ctx context.Context) {
				g := l.Group(2)
				for i := range 4 {
					g.Go(func() {
						_ = l.Sleep(ctx, time.Second)
						note(fmt.Sprint("did ", i))
					})
				}
				g.Wait()
				note("all")
			})
		}, []string{"1 did 0", "1 did 1", "2 did 2", "2 did 3", "2 all"}},
		"a semaphore is given up when the context ends": {func(l *loop, start func(func(context.Context)) *process, note func(string)) {
			s := l.Semaphore(1)
			start(func(ctx context.Context) {
				note(fmt.Sprint("first ", s.Acquire(ctx)))
				_ = l.Sleep(ctx, 5*time.Second)
				s.Release()
			})
			start(func(ctx context.Context) {
				ctx, cancel := context.WithCancel(ctx)
				l.at(noon.Add(2*time.Second), cancel)
				note(fmt.Sprint("second ", s.Acquire(ctx)))
			})
			start(func(ctx context.Context) { note(fmt.Sprint("third ", s.Acquire(ctx))) })
		}, []string{"0 first true", "2 second false", "5 third true"}},
		"a killed process comes to its end at once": {func(l *loop, start func(func(context.Context)) *process, note func(string)) {
			p := start(func(ctx context.Context) {
				g := l.Group(0)
				g.Go(func() { note(fmt.Sprint("sleep: ", l.Sleep(ctx, time.Hour))) })
				g.Wait()
				note(fmt.Sprint("after: ", l.Sleep(ctx, time.Hour)))
			})
			l.at(noon.Add(time.Second), func() { l.kill(p) })
		}, []string{"1 sleep: the process was killed", "1 after: the process was killed"}},
		"a sleep ends with its context": {func(l *loop, start func(func(context.Context)) *process, note func(string)) {
			start(func(ctx context.Context) {
				ctx, cancel := context.WithCancel(ctx)
				l.at(noon.Add(time.Second), cancel)
				note(fmt.Sprint(l.Sleep(ctx, time.Hour)))
			})
		}, []string{"1 context canceled"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, course(c.build)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLoopTellsOfAPanic: a stage that panics ends neither the program nor the world; the day is broken.
func TestLoopTellsOfAPanic(t *testing.T) {
	t.Parallel()
	w, err := newWorld(1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.at(noon, func() { w.start("test", "a stage", time.Minute, func(context.Context) { panic("no") }, nil) })
	if d := w.day(); d.Violation == nil || d.Violation.Rule != RuleCrash {
		t.Errorf("%+v", d.Violation)
	}
}

// TestSkewIsTheMachines: a process sees its own machine's clock, and the world goes by its own.
func TestSkewIsTheMachines(t *testing.T) {
	t.Parallel()
	got := course(func(l *loop, start func(func(context.Context)) *process, note func(string)) {
		p := start(func(context.Context) { note(l.Now().Format("05")) })
		p.skew = 4 * time.Second
	})
	if !slices.Equal(got, []string{"0 04"}) {
		t.Error(got)
	}
}
