package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// overlay makes rows of a group, one a second from the first on: each is a valid row with the attributes of one element of a JSON list set.
// What no store takes is left out.
func (b *bench) overlay(g metering.Group, first int, text []byte) {
	var list []metering.Item
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&list) != nil {
		return
	}
	for i, attributes := range list {
		item := rowAt(g, (first+i)%3600, 3).Item()
		maps.Copy(item, attributes)
		_ = b.store.PutRow(b.ctx, metering.RowFromItem(item))
	}
}

// tables are all items, by license and key.
func (b *bench) tables() map[[2]string]metering.Item {
	b.t.Helper()
	items := map[[2]string]metering.Item{}
	for license, err := range b.store.Licenses(b.ctx) {
		if err != nil {
			b.t.Fatal(err)
		}
		for r, err := range b.store.LicenseRows(b.ctx, license) {
			if err != nil {
				b.t.Fatal(err)
			}
			items[[2]string{license, "row " + r.SortKey}] = r.Item()
		}
		for r, err := range b.store.LicenseRecords(b.ctx, license) {
			if err != nil {
				b.t.Fatal(err)
			}
			items[[2]string{license, "record " + r.SortKey}] = r.Item()
		}
	}
	return items
}

// balance is the ledger of a group.
func (b *bench) balance(g metering.Group) ledger.Balance {
	b.t.Helper()
	record, err := b.store.Record(b.ctx, g)
	if err != nil {
		b.t.Fatal(err)
	}
	var rows []metering.Row
	for r, err := range b.store.GroupRows(b.ctx, g) {
		if err != nil {
			b.t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return ledger.Of(g, record, rows)
}

// clean has the labels written that wait, and returns their messages.
func (b *bench) clean() []metering.CleanupMessage {
	b.t.Helper()
	bodies := b.taken(b.cleanup)
	var messages []metering.CleanupMessage
	for _, body := range bodies {
		m, err := metering.Decode[metering.CleanupMessage](body)
		if err != nil {
			b.t.Fatal(err)
		}
		messages = append(messages, m)
		if failed := b.cleaner().Handle(b.ctx, []pipeline.Message{{ID: "m", Body: body}}); len(failed) > 0 {
			b.t.Errorf("our own label fails: %s", body)
		}
	}
	return messages
}

func (b *bench) cleaner() *pipeline.Cleaner {
	return &pipeline.Cleaner{Rows: b.store, Metrics: b.metrics, Now: b.clock, Sleep: func(context.Context, time.Duration) error { return nil }}
}

// labelsOnly checks that of what stood before nothing has gone or changed but the labels of rows that touched allows, and that only items
// have come that made allows.
func labelsOnly(t *testing.T, before, after map[[2]string]metering.Item, touched, made func(key [2]string) bool) {
	t.Helper()
	labels := []string{
		metering.AttrPending, metering.AttrStatus, metering.AttrStatusReason, metering.AttrLateQuantity, metering.AttrCreatedAt, metering.AttrUpdatedAt,
	}
	plain := func(key [2]string, item metering.Item) metering.Item {
		if !touched(key) {
			return item
		}
		item = maps.Clone(item)
		for _, name := range labels {
			delete(item, name)
		}
		return item
	}
	for key, old := range before {
		if now, ok := after[key]; !ok {
			t.Errorf("%q is gone", key)
		} else if diff := cmp.Diff(plain(key, old), plain(key, now)); diff != "" {
			t.Errorf("%q (-before +after):\n%s", key, diff)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok && !made(key) {
			t.Errorf("%q has come from nowhere: %v", key, after[key])
		}
	}
}

func none([2]string) bool { return false }

// seedRows are rows in all the states in which a visit may find them.
func seedRows() []string {
	return []string{
		`[{}, {"quantity": 4}]`, `[{"quantity": 0}]`, `[{"quantity": "3"}, {}]`, `[{"meteringPending": "", "meteringStatus": "RejectedClientSide"}, {"quantity": 2.5}]`,
		`[{"dropped": true}, {"note": {"a": [1]}}]`, `[{"meteringPending": "2026-03-10T15"}, {"meteringPending": 7}]`, `[{"quantity": 2147483647}, {"quantity": 1}]`,
		`[{"usageAllocations": [{"AllocatedUsageQuantity": 3, "Tags": [{"Key": "a", "Value": "b"}]}]}, {"usageAllocations": [{"AllocatedUsageQuantity": 3}]}]`,
		`[{"meteringPending": "", "meteringStatus": "LateUsage", "lateQuantity": 3}, {"timestamp": "x"}, {"customerAWSAccountId": 5}]`,
	}
}

// FuzzWork: a work message is reported as failed if it cannot be read, and then nothing has happened. One that can be read makes at most
// the record of its group and labels rows of that group alone; no unit gets lost, and from the third on a visit changes nothing.
func FuzzWork(f *testing.F) {
	g := groupOf(licenseOne, apiCalls, hour)
	bodies := []string{
		metering.Encode(metering.NewWorkMessage(g, false)), metering.Encode(metering.NewWorkMessage(g, true)), metering.Encode(metering.NewWorkMessage(groupOf(licenseTwo, apiCalls, hour-30), false)),
		`{}`, `[]`, `{"licenseArn":"` + licenseOne + `","customerAWSAccountId":"111122223333#api_calls","dimension":"x","hourBucket":"2026-03-10T14"}`,
	}
	for i, rows := range seedRows() {
		f.Add(bodies[0], uint8(i), []byte(rows))
		f.Add(bodies[1+i%5], uint8(i%3), []byte(rows))
	}
	f.Fuzz(func(t *testing.T, body string, committed uint8, rows []byte) {
		b := newBench(t)
		for i := range int(committed % 4) { // what an earlier visit has committed, and not labelled
			b.put(rowAt(g, i, int64(i)+1))
		}
		if failed := b.aggregator().Handle(b.ctx, []pipeline.Message{{ID: "m", Body: bodies[0]}}); len(failed) > 0 {
			t.Fatal(failed)
		}
		b.taken(b.cleanup)
		b.overlay(g, int(committed%4)/2, rows) // some take the place of committed ones
		b.put(
			rowAt(groupOf(licenseTwo, apiCalls, hour), 7, 7), rowAt(groupOf(licenseOne, "api_calls#x", hour), 0, 1), rowAt(groupOf(licenseOne, apiCalls, hour-1), 0, 1),
			rowAt(groupOf(licenseOne, apiCalls+"#"+hour.String()+":x", hour), 60, 1), // under the prefix of another group (case 35)
		)
		before := b.tables()

		m, err := metering.Decode[metering.WorkMessage](body)
		asked, errGroup := m.Group()
		readable := err == nil && errGroup == nil
		var was ledger.Balance
		if readable {
			was = b.balance(asked)
		}
		if failed := b.aggregator().Handle(b.ctx, []pipeline.Message{{ID: "m", Body: body}}); slices.Contains(failed, "m") == readable {
			t.Fatalf("failed %v, readable %v", failed, readable)
		}
		if !readable {
			labelsOnly(t, before, b.tables(), none, none)
			if waiting := b.labels(); len(waiting) > 0 {
				t.Errorf("labels of an unreadable message: %+v", waiting)
			}
			return
		}
		record := [2]string{asked.License, "record " + asked.RecordKey()}
		labelsOnly(t, before, b.tables(), none, func(key [2]string) bool { return key == record })
		for _, label := range b.clean() {
			for _, row := range label.Rows {
				if _, ours := asked.Contains(row.Key); !ours || label.License != asked.License {
					t.Errorf("a label for %s of %s", row.Key, label.License)
				}
			}
		}
		inGroup := func(key [2]string) bool {
			sortKey, isRow := strings.CutPrefix(key[1], "row ")
			_, ours := asked.Contains(sortKey)
			return isRow && ours && key[0] == asked.License
		}
		labelsOnly(t, before, b.tables(), inGroup, func(key [2]string) bool { return key == record })
		if is := b.balance(asked); is.Written.Units != was.Written.Units || was.Balanced() && !is.Balanced() {
			t.Errorf("the books of %+v (-before +after):\n%s", asked, cmp.Diff(was.Places, is.Places))
		}
		b.checkRecord(asked)
		again := func() map[[2]string]metering.Item {
			if failed := b.aggregator().Handle(b.ctx, []pipeline.Message{{ID: "m", Body: body}}); len(failed) > 0 {
				t.Fatal(failed)
			}
			b.clean()
			return b.tables()
		}
		// The second visit may label rows that have no part in a record: there is one by now.
		if diff := cmp.Diff(again(), again()); diff != "" {
			t.Errorf("another visit changes something:\n%s", diff)
		}
	})
}

// checkRecord checks that the record of a group, if there is one with a manifest, holds what that adds up to.
func (b *bench) checkRecord(g metering.Group) {
	b.t.Helper()
	r, err := b.store.Record(b.ctx, g)
	if err != nil || r == nil {
		return
	}
	m, err := r.Covers()
	if err != nil || r.Quantity != metering.Units(m.Sum()) || r.Validate() != "" {
		b.t.Errorf("record %+v: %v, %s", r, err, r.Validate())
	}
}

// FuzzCleanup: a cleanup message is reported as failed if it cannot be read, and then nothing has happened. One that can be read changes
// labels of the rows that it names, as they were judged, and makes no row; a covered row is never called billed for more than its record
// holds; and once is as good as twice.
func FuzzCleanup(f *testing.F) {
	g := groupOf(licenseOne, apiCalls, hour)
	covered := metering.CleanupMessage{License: licenseOne, Covered: true, Status: metering.Aggregated, Reason: "why"}
	judged := metering.CleanupMessage{License: licenseOne, Status: metering.LateUsage, Reason: metering.LateReason, First: true}
	for i := range 4 {
		covered.Rows = append(covered.Rows, metering.CoveredRow(g, g.Hour.Second(i), int64(i)+1))
		judged.Rows = append(judged.Rows, metering.NewCleanupRow(rowAt(g, i, 3)))
	}
	for i, rows := range seedRows() {
		f.Add(metering.Encode(covered), []byte(rows))
		if i%2 == 0 {
			f.Add(metering.Encode(judged), []byte(rows))
		}
	}
	f.Add(`{"licenseArn":"`+licenseOne+`","covered":true,"meteringStatus":"Aggregated","rows":[{"k":"111122223333#api_calls#2026-03-10T14:00:00"}]}`, []byte(`[{}]`))
	f.Add(`{"licenseArn":"`+licenseTwo+`","meteringStatus":"RejectedClientSide","rows":[{"k":"","q":-1},{"k":"111122223333#api_calls#2026-03-10T14:00:07","q":7,"l":-9}]}`, []byte(`[{}]`))
	f.Fuzz(func(t *testing.T, body string, rows []byte) {
		b := newBench(t)
		b.overlay(g, 0, rows)
		b.put(rowAt(groupOf(licenseTwo, apiCalls, hour), 7, 7), rowAt(groupOf(licenseOne, "storage", hour), 0, 1))
		before := b.tables()
		m, err := metering.Decode[metering.CleanupMessage](body)
		failed := b.cleaner().Handle(b.ctx, []pipeline.Message{{ID: "m", Body: body}})
		after := b.tables()
		if err != nil || len(failed) > 0 {
			if len(failed) == 0 {
				t.Errorf("an unreadable message is done: %v", err)
			}
			labelsOnly(t, before, after, none, none)
			return
		}
		named := map[[2]string]metering.CleanupRow{}
		repeated := false
		for _, r := range m.Rows {
			key := [2]string{m.License, "row " + r.Key}
			_, twice := named[key]
			named[key], repeated = r, repeated || twice
		}
		labelsOnly(t, before, after, func(key [2]string) bool { _, ok := named[key]; return ok }, none)
		for key, asked := range named {
			was, is := metering.RowFromItem(before[key]), metering.RowFromItem(after[key])
			if before[key] == nil || repeated || cmp.Equal(was, is) {
				continue
			}
			q, known := is.Quantity.Count()
			switch {
			case !m.Covered && (was.Pending == "" || was.Fingerprint() != asked.Fingerprint):
				t.Errorf("a row is labelled that is not as it was judged:\n%s", cmp.Diff(was, is))
			case m.Covered && m.Status == metering.Aggregated && is.Status == metering.Aggregated && known && q > *asked.Quantity:
				t.Errorf("%d units are committed, and %d are called so", *asked.Quantity, q)
			case m.Covered && is.Status == metering.LateUsage && m.Status == metering.Aggregated && (!known || is.LateQuantity != metering.Units(q-*asked.Quantity)):
				t.Errorf("of %d units %d are committed, and %+v are late", q, *asked.Quantity, is.LateQuantity)
			}
		}
		if failed := b.cleaner().Handle(b.ctx, []pipeline.Message{{ID: "m", Body: body}}); len(failed) > 0 && !repeated {
			t.Errorf("failed the second time: %v", failed)
		}
		if diff := cmp.Diff(after, b.tables()); diff != "" && !repeated {
			t.Errorf("twice is not once:\n%s", diff)
		}
	})
}
