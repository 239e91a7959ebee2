package node_test

import (
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/simulator"
)

// at reads an instant as rows write it.
func at(timestamp string) time.Time {
	s, err := metering.ParseSecond(timestamp)
	if err != nil {
		panic(err)
	}
	return s.Time()
}

func withPace(change func(*marketplace.Settings)) option {
	return func(_ *node.Config, _ *simulator.Options, s *marketplace.Settings) { change(s) }
}

// group is the group of a row's key.
func group(r metering.Row) metering.Group {
	key, reason := metering.ParseRowKey(r.SortKey)
	if reason != "" {
		panic(reason)
	}
	return key.Group(r.License)
}

// visit hands a row's group to the aggregator and leaves the labels that it asks for in their queue. It reports whether the
// message was handled.
func (w *world) visit(r metering.Row) bool {
	body := metering.Encode(metering.NewWorkMessage(group(r), false))
	return len(w.Aggregate.Handle(w.ctx, []pipeline.Message{{ID: "visit", Body: body}})) == 0
}

// meter runs every meter target once, and what comes of them.
func (w *world) meter() {
	w.t.Helper()
	for offset := metering.MinOffset; offset <= metering.MaxOffset; offset++ {
		if _, err := w.Discover.Run(w.ctx, pipeline.MeterSlice(offset)); err != nil {
			w.t.Errorf("meter offset %d: %v", offset, err)
		}
	}
	w.Drain(w.ctx)
}

// ageout runs every age-out shard once, and what comes of them.
func (w *world) ageout() {
	w.t.Helper()
	for shard := range metering.AgeoutShards {
		if _, err := w.Discover.Run(w.ctx, pipeline.AgeoutSlice(shard)); err != nil {
			w.t.Errorf("age-out shard %d: %v", shard, err)
		}
	}
	w.Drain(w.ctx)
}

func (w *world) submit() pipeline.Submission {
	w.t.Helper()
	s, err := w.Submit.Run(w.ctx)
	if err != nil {
		w.t.Errorf("submit: %v", err)
	}
	return s
}

func (w *world) submitFails() pipeline.Submission {
	w.t.Helper()
	s, err := w.Submit.Run(w.ctx)
	if err == nil {
		w.t.Error("the run should have failed")
	}
	return s
}

func (w *world) expire() pipeline.Expiry {
	w.t.Helper()
	e, err := w.Expire.Run(w.ctx)
	if err != nil {
		w.t.Errorf("expire: %v", err)
	}
	return e
}

// deprovision opens a license's last hour, here and at the Marketplace.
func (w *world) deprovision(license, account string, from time.Time) {
	w.t.Helper()
	closes := metering.LicenseEvent{License: license, Account: account, At: from}.DeprovisionedAt(from)
	if _, _, err := w.store.ChangeSubscriber(w.ctx, closes); err != nil {
		w.t.Fatal(err)
	}
	if err := w.sim.PutLicense(simulator.License{ARN: license, AccountID: account, DeprovisionedAt: from}); err != nil {
		w.t.Fatal(err)
	}
}

// direct is a record as a direct-submit seller writes it.
func direct(license, account, dimension, hour string, quantity int64) metering.Record {
	h, err := metering.ParseHour(hour)
	if err != nil {
		panic(err)
	}
	return metering.NewRecord(metering.Group{License: license, Account: account, Dimension: dimension, Hour: h}, quantity)
}

func sale(hour string, quantity int64) metering.Record {
	return direct(licenseOne, buyerOne, apiCalls, hour, quantity)
}

// changed is a record with attributes replaced as a seller's code might write them; nil removes one.
func changed(r metering.Record, attributes metering.Item) metering.Record {
	return metering.RecordFromItem(replaced(r.Item(), attributes))
}

func (w *world) putRecords(records ...metering.Record) {
	w.t.Helper()
	for _, r := range records {
		if err := w.store.PutRecord(w.ctx, r); err != nil {
			w.t.Fatal(err)
		}
	}
}

// stored is a record as it stands in the table; the zero Record where there is none.
func (w *world) stored(r metering.Record) metering.Record {
	w.t.Helper()
	for got, err := range w.store.LicenseRecords(w.ctx, r.License) {
		if err != nil {
			w.t.Fatal(err)
		}
		if got.SortKey == r.SortKey {
			return got
		}
	}
	return metering.Record{}
}

// many are n records of one hour in n dimensions.
func many(hour string, n int, quantity int64) []metering.Record {
	list := make([]metering.Record, n)
	for i := range list {
		list[i] = direct(licenseOne, buyerOne, fmt.Sprintf("dim_%05d", i), hour, quantity)
	}
	return list
}

// count is how many of the records stand in the table with a status, and how many still wait.
func (w *world) count(records []metering.Record, status metering.Status) (ended, waiting int) {
	w.t.Helper()
	for _, r := range records {
		got := w.keyed(r)
		if got.Pending != "" {
			waiting++
		} else if got.Status == status {
			ended++
		}
	}
	return ended, waiting
}

// keyed is stored for records whose key can be read.
func (w *world) keyed(r metering.Record) metering.Record {
	g, _ := r.Group()
	got, err := w.store.Record(w.ctx, g)
	if err != nil {
		w.t.Fatal(err)
	}
	if got == nil {
		return metering.Record{}
	}
	return *got
}

func (w *world) wantRow(r metering.Row, status metering.Status, reason string) {
	w.t.Helper()
	got := w.row(r)
	if got.Status != status || got.StatusReason != reason || got.Pending != "" && status != "" {
		w.t.Errorf("row %s: pending %q, %s %q; want %s %q", r.SortKey, got.Pending, got.Status, got.StatusReason, status, reason)
	}
}

func (w *world) wantWaiting(rows ...metering.Row) {
	w.t.Helper()
	for _, r := range rows {
		if got := w.row(r); got.Pending == "" {
			w.t.Errorf("row %s no longer waits: %s %q", r.SortKey, got.Status, got.StatusReason)
		}
	}
}

func (w *world) wantRecord(r metering.Record, status metering.Status, reason string) {
	w.t.Helper()
	got := w.stored(r)
	if got.Status != status || got.StatusReason != reason || (got.Pending != "") != (status == "") {
		w.t.Errorf("record %s: pending %q, %s %q; want %s %q", r.SortKey, got.Pending, got.Status, got.StatusReason, status, reason)
	}
}

func (w *world) wantBilled(r metering.Row, quantity int64) {
	w.t.Helper()
	if got := w.billed(r); got != quantity {
		w.t.Errorf("the Marketplace billed %d for %s, want %d", got, r.SortKey, quantity)
	}
}

func (w *world) wantMetric(m metering.Metric, items, units int64) {
	w.t.Helper()
	if got := w.metrics.Of(m); got != (telemetry.Count{Items: items, Units: units}) {
		w.t.Errorf("metric %s: %+v, want %d items with %d units", m, got, items, units)
	}
}

func (w *world) wantPlace(p ledger.Place, units int64) {
	w.t.Helper()
	if got := w.books().Total.Place(p).Units; got != units {
		w.t.Errorf("%s: %d units, want %d", p, got, units)
	}
}

func (w *world) wantNoDeadLetters() {
	w.t.Helper()
	if visible, hidden := w.DeadLetters.Len(); visible+hidden > 0 {
		w.t.Errorf("%d messages among the dead letters", visible+hidden)
	}
}

func aggregated(total int64, count int) string { return metering.AggregatedReason(total, count) }
