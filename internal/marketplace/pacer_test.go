package marketplace

import (
	"math"
	"testing"
	"time"
)

func TestPacerHalvesOnceForCallsUnderWayAndClimbsBack(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)
	p := newPacer(10)
	want := func(step string, rate float64) {
		t.Helper()
		if got := float64(p.limiter.Limit()); math.Abs(got-rate) > 1e-9 {
			t.Fatalf("%s: pace %v, want %v", step, got, rate)
		}
	}
	want("new", 9.86)
	for range 5 { // five calls in flight, throttled together
		p.throttled(now, now.Add(time.Second))
	}
	want("one burst of throttling", 9.86/2)
	p.throttled(now.Add(2*time.Second), now.Add(3*time.Second))
	want("a call that started after it", 9.86/4)
	for i := range 10 {
		p.throttled(now.Add(time.Duration(10+i)*time.Second), now.Add(time.Duration(10+i)*time.Second))
	}
	want("the floor", 1)
	p.succeeded(now)
	want("one success", 1+9.86/50)
	for range 100 {
		p.succeeded(now)
	}
	want("many successes", 9.86)
}

func TestPacerOfLessThanOneCallASecond(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)
	p := newPacer(0.5)
	p.throttled(now, now)
	if got := float64(p.limiter.Limit()); got != 0.5*margin {
		t.Errorf("throttled to %v: the floor must not be above the setting", got)
	}
	if wait := p.reserve(now) + p.start(now); wait != 0 {
		t.Errorf("first call waits %v", wait)
	}
	wait := p.reserve(now)
	if wait < 2*time.Second || wait > 2050*time.Millisecond {
		t.Errorf("second call waits %v, want 2 s", wait)
	}
	if wait = p.start(now.Add(wait)); wait != 0 {
		t.Errorf("second call waits %v more", wait)
	}
}

func TestPacerSurvivesAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)
	p := newPacer(1)
	p.start(now)
	back := now.Add(-time.Hour)
	if wait := p.reserve(back) + p.start(back); wait > 2*time.Second {
		t.Errorf("waits %v", wait)
	}
}
