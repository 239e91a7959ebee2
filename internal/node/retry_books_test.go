package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/simulator"
)

// TestRetriesNeverUnbalanceTheBooks plays random runs of suspensions, missing dimensions, lost answers, outages and retries, some in the midst of
// a submission: at every step the books balance and say what the Marketplace says, and in the end each record is billed once or named.
func TestRetriesNeverUnbalanceTheBooks(t *testing.T) {
	t.Parallel()
	billed := 0
	rapid.Check(t, func(rt *rapid.T) {
		var w *world
		var midst func()
		w = newWorld(t, at("2026-03-10T15:20:00"), withSimulator(func(o *simulator.Options) {
			o.ResendNeedsSubscription = rapid.Bool().Draw(rt, "resends need a subscription")
		}), brittle(nil, func(op, int, string) outcome {
			if midst != nil {
				midst()
			}
			return pass
		}))
		for h := 10; h < 15; h++ {
			for _, dimension := range []string{apiCalls, "storage"} {
				w.putRecords(direct(licenseOne, buyerOne, dimension, fmt.Sprintf("2026-03-10T%d", h), int64(h)))
			}
		}
		retrier := w.retrier()
		retry := func() {
			if _, err := retrier.Run(context.WithoutCancel(w.ctx), pipeline.Retry{License: licenseOne}); err != nil {
				rt.Errorf("retry: %v", err)
			}
		}
		faulty := func(kind simulator.FaultKind) func(*rapid.T) {
			return func(*rapid.T) {
				w.sim.Inject(simulator.Fault{Kind: kind, Times: 1})
				_, _ = w.Submit.Run(w.ctx)
				w.sim.ClearFaults()
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"suspend":  func(*rapid.T) { check(t, w.sim.SuspendAccount(buyerOne, true)) },
			"activate": func(*rapid.T) { check(t, w.sim.SuspendAccount(buyerOne, false)) },
			"undefine": func(*rapid.T) { check(t, w.sim.UndefineDimension("storage")) },
			"define":   func(*rapid.T) { check(t, w.sim.DefineDimension("storage")) },
			"submit":   func(*rapid.T) { _, _ = w.Submit.Run(w.ctx) },
			"submit, and retry in the midst of it": func(*rapid.T) {
				midst = retry
				_, _ = w.Submit.Run(w.ctx)
				midst = nil
			},
			"lose a reply": faulty(simulator.LoseReply),
			"outage":       faulty(simulator.InternalError),
			"unprocessed":  faulty(simulator.Unprocessed),
			"retry":        func(*rapid.T) { retry() },
			"expire":       func(*rapid.T) { _, _ = w.Expire.Run(w.ctx) },
			"time": func(rt *rapid.T) {
				w.clock.MoveTo(w.clock.Now().Add(time.Duration(rapid.IntRange(1, 240).Draw(rt, "minutes")) * time.Minute))
			},
			"": func(rt *rapid.T) { checkBooks(rt, w) },
		})
		w.clock.MoveTo(at("2026-03-11T18:00:00"))
		_, _ = w.Expire.Run(w.ctx)
		report := checkBooks(rt, w)
		if n := report.Total.Place(ledger.InFlight).Units; n != 0 {
			rt.Errorf("%d units wait for ever", n)
		}
		billed += int(report.Total.Place(ledger.Billed).Units)
	})
	if billed == 0 {
		t.Error("nothing was ever billed")
	}
}

func checkBooks(rt *rapid.T, w *world) ledger.Report {
	report, err := ledger.Compute(w.ctx, w.store, ledger.Scope{})
	if err != nil {
		rt.Fatal(err)
	}
	for _, b := range report.Imbalances {
		rt.Errorf("imbalance in %v: written %d, named %d, %v", b.Group, b.Written.Units, b.Named(), b.Findings)
	}
	for _, d := range report.Against(sold(w.sim)).Differences {
		rt.Errorf("the books differ from the Marketplace's: %+v", d)
	}
	return report
}
