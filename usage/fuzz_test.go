package usage_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/usage"
)

// FuzzWrite: whatever a program says was used is refused for a reason, or stands in a row that the pipeline finds and takes, to the unit;
// under the same id it counts once.
func FuzzWrite(f *testing.F) {
	const license = "arn:aws:license-manager::111122223333:license:l-1a2b3c4d5e6f708192a3b4c5d6e7f801"
	for _, dimension := range []string{"api_calls", "a#b", "", "a\xff", "a\u2028\uffff\x00", strings.Repeat("😀", 255)} {
		f.Add(license, "111122223333", dimension, "", int64(0), int64(59), int64(3), int64(4), "", "")
		f.Add(license, "111122223333", dimension, "", int64(0), int64(60), int64(2147483647), int64(1), "team", "blue")
	}
	f.Add("prod-abc", "111122223333", "d", "cust\xff", int64(-3600), int64(1), int64(0), int64(-1), "k\xff", "v")
	f.Add("prod\xffabc", "000000000000", "d", "c", int64(-40*86400), int64(40*86400), int64(2147483647), int64(2147483648), "", "v")
	f.Add("arn:aws:\xff", "1", "d", "c", int64(1)<<60, int64(1)<<60, int64(1)<<62, int64(1)<<62, strings.Repeat("k", 101), "")
	now := time.Date(2026, 3, 10, 15, 20, 30, 0, time.UTC)
	f.Fuzz(func(t *testing.T, license, account, dimension, identifier string, at, later, one, two int64, key, value string) {
		store := memory.New(memory.Options{})
		w, err := usage.NewWriter(store, usage.Options{Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close(t.Context())
		event := func(after, quantity int64) usage.Event {
			e := usage.Event{License: license, Account: account, Dimension: dimension, CustomerIdentifier: identifier, Time: now.Add(time.Duration(after) * time.Second), Quantity: quantity}
			if key != "" {
				e.Allocations = []usage.Allocation{{Quantity: quantity - 1, Tags: []usage.Tag{{Key: key, Value: value}}}, {Quantity: 1}}
			}
			return e
		}
		events := []usage.Event{event(at, one), event(at+later, two), event(at, two)}
		errs, err := w.WriteBatch(t.Context(), "id", events)
		if err != nil {
			t.Fatal(err)
		}
		var want int64
		for i, err := range errs {
			refusal, refused := errors.AsType[*usage.Refusal](err)
			switch {
			case err == nil:
				want += events[i].Quantity
			case !refused || refusal.Reason == "" || refusal.What == "" || refusal.Hint == "" || strings.Contains(refusal.What, "would reject a row like this"):
				t.Errorf("event %+v: %#v", events[i], err)
			}
		}
		rows, sum := rowsOf(t, store, now)
		if sum != want {
			t.Errorf("%d units are written, %d stand there", want, sum)
		}
		again, err := w.WriteBatch(t.Context(), "id", events)
		if err != nil {
			t.Fatal(err)
		}
		for i := range errs {
			if (errs[i] == nil) != (again[i] == nil) {
				t.Errorf("event %d: %v, and then %v", i, errs[i], again[i])
			}
		}
		if after, _ := rowsOf(t, store, now); !cmp.Equal(rows, after) {
			t.Errorf("sent twice:\n%s", cmp.Diff(rows, after))
		}
	})
}

// rowsOf are all rows and their sum. Each must be as the pipeline takes it, be found by a message, and survive JSON, in which the tables
// and the queues of AWS are spoken to.
func rowsOf(t *testing.T, store *memory.Store, now time.Time) (rows []metering.Row, sum int64) {
	t.Helper()
	for license, err := range store.Licenses(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for row, err := range store.LicenseRows(t.Context(), license) {
			if err != nil {
				t.Fatal(err)
			}
			rows, sum = append(rows, row), sum+row.Quantity.N
			if reason := row.Validate(now); reason != "" {
				t.Errorf("a row is written that would be refused: %s", reason)
			}
			parsed, _ := metering.ParseRowKey(row.SortKey)
			g := parsed.Group(license)
			work, err := metering.Decode[metering.WorkMessage](metering.Encode(metering.NewWorkMessage(g, false)))
			if visited, errGroup := work.Group(); err != nil || errGroup != nil || visited != g || row.Pending != g.Hour.String() {
				t.Errorf("the row %q is never found: %+v is visited, %v, %v", row.SortKey, visited, err, errGroup)
			}
			text, err := json.Marshal(row.Item())
			var item metering.Item
			d := json.NewDecoder(strings.NewReader(string(text)))
			if d.UseNumber(); err != nil || d.Decode(&item) != nil {
				t.Fatalf("%v of %s", err, text)
			}
			if diff := cmp.Diff(row, metering.RowFromItem(item)); diff != "" {
				t.Errorf("on its way the row becomes another:\n%s", diff)
			}
		}
	}
	return rows, sum
}
