//go:build !race

package costs

// Under the race detector this would take minutes, and find only what the stages' own tests find.

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/usage"
)

var (
	update = flag.Bool("update", false, "write the counts to "+bookFile)
	full   = flag.Bool("full", false, fmt.Sprintf("play %d groups instead of %d", allGroups, someGroups))
)

// TestRequests plays usage and holds what the stages ask to what is written down.
func TestRequests(t *testing.T) {
	book := read(t)
	count := func(name string, do func(*play)) {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t)
			do(p)
			p.hold(book, name)
		})
	}
	n := someGroups
	if *full {
		n = allGroups
	}
	count(busy(n), func(p *play) { p.busy(n) })
	count(quietQuarter, func(p *play) {
		discoverer := p.open(functions.Discoverer)
		for offset := metering.MinOffset; offset <= metering.MaxOffset; offset++ {
			p.invoke(discoverer, functions.Discoverer, fmt.Sprintf(`{"mode":"meter","hourOffset":%d}`, offset))
		}
		for shard := range metering.AgeoutShards {
			p.invoke(discoverer, functions.Discoverer, fmt.Sprintf(`{"mode":"ageout","shard":%d}`, shard))
		}
	})
	count(quietFive, (*play).five)
	count(closingFive, func(p *play) {
		for _, g := range groups(closing, 0) {
			p.closes(g.License+g.Dimension, g.Account, began.Add(40*time.Minute))
		}
		p.five()
	})
	for fold, name := range map[time.Duration]string{time.Minute: writerMinute, time.Second: writerSecond} {
		count(name, func(p *play) { p.write(fold) })
	}
	if *update && !t.Failed() {
		text, err := book.encode()
		fatal(t, err)
		fatal(t, os.WriteFile(bookFile, text, 0o644))
	}
}

// busy is the whole way of usage, from rows in the table to billed records.
func (p *play) busy(n int) {
	t, ctx := p.t, p.t.Context()
	clock := time.Now()
	lap := func(what string) {
		t.Logf("%s: %.1f s", what, time.Since(clock).Seconds())
		clock = time.Now()
	}
	for _, g := range groups(n, metering.HourOf(began)-1) {
		fatal(t, p.store.PutRows(ctx, rowsOf(g, perGroup)))
	}
	lap(seller)
	if found := p.invoke(p.open(functions.Discoverer), functions.Discoverer, `{"mode":"meter","hourOffset":1}`); found["enqueued"] != float64(n) {
		t.Fatalf("%v, want %d groups", found, n)
	}
	lap(functions.Discoverer)
	p.drain(functions.Aggregator, "work", n, workBatch, aggregators)
	lap(functions.Aggregator)
	p.drain(functions.Cleanup, "cleanup", n, cleanupBatch, cleaners)
	lap(functions.Cleanup)
	p.invoke(p.open(functions.Submitter), functions.Submitter, `{}`)
	lap(functions.Submitter)

	var billed, want int64
	for _, b := range p.sim.Ledger() {
		billed += b.Quantity
	}
	for _, r := range rowsOf(metering.Group{}, perGroup) {
		want += r.Quantity.N * int64(n)
	}
	if got := len(p.sim.Ledger()); got != n || billed != want {
		t.Errorf("%d records of %d units are billed, want %d of %d", got, billed, n, want)
	}
	if entries := p.waiting(); entries > 0 {
		t.Errorf("%d items still wait", entries)
	}
	p.account.stored()
}

// waiting is how many items still have an entry in an index of what waits.
func (p *play) waiting() (n int) {
	p.account.mu.Lock()
	defer p.account.mu.Unlock()
	for _, i := range p.account.items {
		if _, waits := i[metering.AttrPending]; waits {
			n++
		}
	}
	return n
}

// five is what the schedules of five minutes start.
func (p *play) five() {
	p.invoke(p.open(functions.Discoverer), functions.Discoverer, `{"mode":"flush-deprovisioning"}`)
	p.invoke(p.open(functions.Submitter), functions.Submitter, `{}`)
	p.invoke(p.open(functions.SubmissionExpiry), functions.SubmissionExpiry, `{}`)
}

// write lets the writer write some minutes of a meter that reports every second, with a flush each minute.
func (p *play) write(fold time.Duration) {
	t, ctx := p.t, p.t.Context()
	at := metering.HourOf(began).Start().Add(5 * time.Minute)
	w, err := usage.NewWriter(p.store, usage.Options{Fold: fold, Now: p.now})
	fatal(t, err)
	for minute := range writerMinutes {
		for second := range 60 {
			fatal(t, w.Add(ctx, usage.Event{
				License: groups(1, 0)[0].License, Account: "444455556666", Dimension: "requests", Quantity: 3,
				Time: at.Add(time.Duration(minute)*time.Minute + time.Duration(second)*time.Second),
			}))
		}
		fatal(t, w.Flush(ctx))
	}
	fatal(t, w.Close(ctx))
	if got, want := len(p.account.items), int(writerMinutes*time.Minute/fold); got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
}

// hold compares the play with what is written down of it, or writes it down.
func (p *play) hold(book Book, name string) {
	t := p.t
	for i, problem := range p.account.problems {
		if i == 10 {
			t.Errorf("and %d more", len(p.account.problems)-i)
			break
		}
		t.Error(problem)
	}
	if p.account.told != p.account.ours {
		t.Errorf("the tables took %v units by our rules, and %v as dynalite counts", p.account.ours, p.account.told)
	}
	s := section(maps.Clone(p.account.tallies))
	if *update {
		book[name] = s
		return
	}
	for _, problem := range s.Against(book[name]) {
		t.Errorf("%s. Where that is meant: go test ./internal/costs -args -update", problem)
	}
}
