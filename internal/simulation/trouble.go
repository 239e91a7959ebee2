package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/simulator"
)

// drawTrouble adds what the Marketplace and the tables do wrong: spells of each fault, throttled partitions, and refusals of what may be
// billed already.
func (p *plan) drawTrouble(r *rand.Rand) {
	for _, kind := range simulator.FaultKinds() {
		if r.IntN(5) > 1 {
			continue
		}
		at := within(r, p.start, 20*time.Hour)
		f := simulator.Fault{Kind: kind, From: at, Until: at.Add(time.Duration(5+r.IntN(6*60)) * time.Minute), Probability: 0.1 + 0.9*r.Float64()}
		if kind == simulator.Latency {
			f.Latency = time.Duration(1+r.IntN(12)) * time.Second
		}
		p.trouble = append(p.trouble, spell{from: at, until: f.Until})
		p.add(at, "Marketplace", fmt.Sprintf("suffers from %s for %v", kind, f.Until.Sub(at)), func(w *world) { w.sim.Inject(f) })
	}
	for _, b := range p.buyers {
		if r.IntN(4) == 0 {
			at := within(r, p.start, 20*time.Hour)
			p.weather.throttled = append(p.weather.throttled, spell{at, within(r, at, 3*time.Hour), b.license})
		}
	}
	if r.IntN(3) == 0 {
		p.drawDoubt(r)
	}
	if r.IntN(4) == 0 {
		b, at := p.buyers[r.IntN(len(p.buyers))], within(r, p.start, 12*time.Hour)
		p.add(at, "Marketplace", "suspends "+b.account, func(w *world) { w.suspend(b, true) })
		p.add(within(r, at, 3*time.Hour), "Marketplace", "takes "+b.account+" back", func(w *world) { w.suspend(b, false) })
	}
}

// drawDoubt has answers get lost, and what was sent refused from then on: it may be billed all the same.
func (p *plan) drawDoubt(r *rand.Rand) {
	b, at := p.buyers[r.IntN(len(p.buyers))], within(r, p.start.Add(time.Hour), 8*time.Hour)
	lost := simulator.Fault{Kind: simulator.LoseReply, From: at, Until: at.Add(time.Hour)}
	p.add(at, "Marketplace", "loses all answers for an hour", func(w *world) { w.sim.Inject(lost) })
	p.add(lost.Until, "Marketplace", "suspends "+b.account+" and forgets "+dimensions[0], func(w *world) {
		w.suspend(b, true)
		w.must(w.sim.UndefineDimension(dimensions[0]))
	})
	back := within(r, lost.Until, 30*time.Hour)
	p.trouble = append(p.trouble, spell{from: at, until: back})
	p.add(back, "Marketplace", "takes "+b.account+" back and knows "+dimensions[0], func(w *world) {
		w.suspend(b, false)
		w.must(w.sim.DefineDimension(dimensions[0]))
	})
}

// drawLicenses has licenses end, and some return. The events of it come late, twice and out of order.
func (p *plan) drawLicenses(r *rand.Rand) {
	for i, b := range p.buyers {
		if b.identifier != "" {
			continue
		}
		p.tell(r, b, lifecycle.LicenseUpdated, p.start.Add(-time.Hour), 0)
		if i == 0 || r.IntN(3) > 0 { // the first stays, so that every day has usage that can be billed
			continue
		}
		ends := within(r, p.start.Add(time.Hour), 18*time.Hour).Truncate(time.Second)
		p.add(ends, "Marketplace", "ends the license of "+b.account, func(w *world) { w.license(b, ends) })
		p.tell(r, b, lifecycle.LicenseDeprovisioned, ends, 30*time.Minute)
		if r.IntN(2) == 0 {
			p.tell(r, b, lifecycle.AgreementEnded, ends.Add(-time.Duration(r.IntN(60))*time.Second), 10*time.Minute)
		}
		if r.IntN(2) == 0 {
			back := within(r, ends.Add(time.Minute), []time.Duration{10 * time.Hour, 5 * time.Minute}[r.IntN(2)]).Truncate(time.Second)
			p.add(back, "Marketplace", "gives "+b.account+" its license back", func(w *world) { w.license(b, time.Time{}) })
			p.tell(r, b, lifecycle.LicenseUpdated, back, 30*time.Minute)
		}
	}
}

// tell has EventBridge deliver an event once or more, within a time of what it tells.
func (p *plan) tell(r *rand.Rand, b buyer, kind lifecycle.Kind, of time.Time, within time.Duration) {
	e := lifecycle.TestEvent{
		Kind: kind, License: b.license, Account: b.account, Agreement: b.agreement, ProductCode: simulator.DefaultProductCode, At: of,
		ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", len(p.moves)),
	}
	for range 1 + r.IntN(5)/4 {
		at := of
		if within > 0 {
			at = at.Add(time.Duration(r.Int64N(int64(within))))
		}
		p.add(at, "EventBridge", fmt.Sprintf("tells of %s for %s", kind, b.account), func(w *world) { w.event(e) })
	}
}

// drawOperator adds what an operator does: pauses, retries of what was refused, dead letters brought back.
func (p *plan) drawOperator(r *rand.Rand) {
	if r.IntN(6) == 0 {
		at := within(r, p.start, 12*time.Hour)
		p.add(at, "operator", "pauses the submission", func(w *world) { w.node.Submit.Paused = true })
		on := within(r, at, 5*time.Hour)
		p.trouble = append(p.trouble, spell{from: at, until: on})
		p.add(on, "operator", "lets the submission go on", func(w *world) { w.node.Submit.Paused = false })
	}
	for _, b := range p.buyers {
		for range r.IntN(3) {
			p.add(within(r, p.start.Add(2*time.Hour), 30*time.Hour), "operator", "retries what was refused of "+b.account, func(w *world) { w.retry(b) })
		}
	}
	p.add(within(r, p.start.Add(2*time.Hour), 30*time.Hour), "operator", "brings the dead letters back", func(w *world) { w.redrive() })
}
