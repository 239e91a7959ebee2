package dynamodb_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

// F42: one client, and one UpdateItem a row: nothing is read where the condition can be said in the write.
func TestOneUpdateARow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	var rows []metering.Row
	var labels []metering.Label
	for i := range 100 {
		rows = append(rows, row(i, 5))
		labels = append(labels, label(row(i, 5)))
	}
	w.put(t, rows...)
	for i, l := range w.LabelRows(t.Context(), labels) {
		if l.Err != nil || !l.Done {
			t.Errorf("label %d: %+v", i, l)
		}
	}
	same(t, "calls of 100 labels", slices.Repeat([]string{"UpdateItem"}, 100), w.operations())

	w.proxy.Forget()
	var flushes []metering.Flush
	for i := range 100 {
		flushes = append(flushes, flush(1000+i, 1, "one"))
	}
	w.FlushRows(t.Context(), flushes)
	same(t, "calls of 100 flushes", slices.Repeat([]string{"UpdateItem"}, 100), w.operations())

	w.proxy.Forget()
	r := record(5)
	_, err := w.CreateRecord(t.Context(), r)
	check(t, err)
	sent, err := w.MarkSent(t.Context(), metering.Send{License: license, SortKey: r.SortKey, Fingerprint: r.Fingerprint(), Quantity: 5, Second: group("").Hour.Second(0), At: now()})
	check(t, err)
	ended, err := w.FinishRecord(t.Context(), metering.Finish{License: license, SortKey: r.SortKey, Unbilled: true, Quantity: r.Quantity, Status: metering.Success, At: now()})
	check(t, err)
	if !sent.Done || !ended.Done {
		t.Errorf("MarkSent %+v, FinishRecord %+v", sent, ended)
	}
	same(t, "calls of a record's life", []string{"PutItem", "GetItem", "UpdateItem", "UpdateItem"}, w.operations())
}

// F43: where nothing waits, a question costs one query, whatever the number of licenses.
func TestQueriesWhereNothingWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	w.proxy.Forget()
	list, err := w.subscribers.Deprovisioning(t.Context())
	check(t, err)
	rows, err := read(w.PendingRows(t.Context(), group("").Hour, ""))
	check(t, err)
	own, err := read(w.PendingRows(t.Context(), group("").Hour, license))
	check(t, err)
	records, err := read(w.PendingRecords(t.Context(), group("").Hour, ""))
	check(t, err)
	if len(list)+len(rows)+len(own)+len(records) != 0 {
		t.Error("something waits")
	}
	same(t, "calls", []string{"Query", "Query", "Query", "Query"}, w.operations())
}

// F45: a read holds one page, and asks for the next when it needs it.
func TestOnePageAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{PageLimit: 5})
	var rows []metering.Row
	for i := range 20 {
		rows = append(rows, row(i, 1))
	}
	w.put(t, rows...)
	for wanted, queries := range map[int]int{1: 1, 5: 1, 6: 2, 20: 4} {
		w.proxy.Forget()
		n := 0
		for _, err := range w.GroupRows(t.Context(), group("api_calls")) {
			check(t, err)
			if n++; n == wanted {
				break
			}
		}
		if got := w.proxy.Count("Query", ""); got != queries {
			t.Errorf("%d rows took %d queries, want %d", wanted, got, queries)
		}
	}
	// Case 41: where the last page is exactly full, one more has to be asked for.
	w.proxy.Forget()
	if all, err := read(w.GroupRows(t.Context(), group("api_calls"))); err != nil || len(all) != 20 || w.proxy.Count("Query", "") != 5 {
		t.Errorf("%d rows in %d queries, %v; want 20 in 5", len(all), w.proxy.Count("Query", ""), err)
	}
}

// F6: what a group is summed from, and what a decision rests on, is read consistently. An index cannot be, and nothing scans.
func TestReadsAreConsistent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	w.put(t, row(0, 5), row(1, 5))
	r := record(10)
	ctx := t.Context()
	_, err := w.CreateRecord(ctx, r)
	check(t, err)
	must := func(_ any, err error) {
		t.Helper()
		check(t, err)
	}
	must(read(w.GroupRows(ctx, group("api_calls"))))
	must(w.Row(ctx, license, row(0, 0).SortKey))
	must(w.Record(ctx, group("api_calls")))
	must(read(w.LicenseRows(ctx, license)))
	must(read(w.LicenseRecords(ctx, license)))
	must(read(w.PendingRows(ctx, group("").Hour, "")))
	must(read(w.PendingRecords(ctx, group("").Hour, license)))
	must(w.LabelRow(ctx, judged(row(0, 5))))
	must(w.LabelRow(ctx, judged(row(7, 5))))
	must(w.LabelRow(ctx, label(row(1, 9))))
	must(w.RebucketRow(ctx, metering.Rebucket{License: license, SortKey: row(1, 0).SortKey, From: "x", To: "y", At: now()}))
	must(w.MarkSent(ctx, metering.Send{License: license, SortKey: r.SortKey, Fingerprint: r.Fingerprint(), At: now()}))
	must(w.subscribers.Deprovisioning(ctx))
	w.FlushRows(ctx, []metering.Flush{flush(0, 1, "a"), flush(0, -1, "b")})

	allowed := map[string]bool{"GetItem": true, "Query": true, "PutItem": true, "UpdateItem": true}
	for _, c := range w.proxy.Calls() {
		var body struct {
			IndexName      string
			ConsistentRead bool
		}
		check(t, json.Unmarshal(c.Body, &body))
		if !allowed[c.Operation] {
			t.Errorf("a stage calls %s", c.Operation)
		}
		if read := c.Operation == "GetItem" || c.Operation == "Query"; read && body.ConsistentRead == (body.IndexName != "") {
			t.Errorf("%s of %s: consistent is %v", c.Operation, c.Resource, body.ConsistentRead)
		}
	}
}

// F40: writes are paced. The limiter of this test never fills again: what it holds is all that is written.
func TestWritesArePaced(t *testing.T) {
	t.Parallel()
	limiter := rate.NewLimiter(0, 7)
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{Writes: limiter})
	rows := []metering.Row{row(0, 5), row(1, 5), row(2, 5)}
	w.put(t, rows...)
	done, late := 0, 0
	for _, l := range w.LabelRows(t.Context(), []metering.Label{label(rows[0]), label(rows[1]), label(rows[2])}) {
		if l.Done {
			done++
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, f := range w.FlushRows(ctx, []metering.Flush{flush(7, 1, "a"), flush(8, 1, "a"), flush(9, 1, "a")}) {
		if f.Err != nil {
			wantClass(t, "a flush without a turn", awsapi.Ended, f.Err)
			late++
		}
	}
	if done != 3 || late != 2 || w.proxy.Count("UpdateItem", "") != 4 {
		t.Errorf("%d labels done, %d flushes without a turn, %d updates; want 3, 2 and 4", done, late, w.proxy.Count("UpdateItem", ""))
	}
}

// What is left of a batch is sent again, and nothing else, after pauses that are drawn at random (case 48).
func TestUnprocessedRows(t *testing.T) {
	t.Parallel()
	var waited pauses
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{Sleep: waited.sleep, Workers: 1})
	var rows []metering.Row
	for i := range 60 {
		rows = append(rows, row(i, int64(i)))
	}
	var sizes []int
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		sizes = append(sizes, c.Entries)
		if c.Entries <= 10 {
			return standin.Action{}
		}
		var body struct {
			RequestItems map[string][]json.RawMessage
		}
		check(t, json.Unmarshal(c.Body, &body))
		left, err := json.Marshal(map[string]any{"UnprocessedItems": map[string]any{w.usage: body.RequestItems[w.usage][3:]}})
		check(t, err)
		taken, err := json.Marshal(map[string]any{w.usage: body.RequestItems[w.usage][:3]})
		check(t, err)
		put(t, w, taken)
		return standin.Action{Status: 200, Body: string(left)}
	})
	check(t, w.PutRows(t.Context(), rows))
	same(t, "sizes of the batches", []int{25, 22, 19, 16, 13, 10, 25, 22, 19, 16, 13, 10, 10}, sizes)
	if len(waited) != 10 || !varied(waited) {
		t.Errorf("pauses %v, want 10 that differ", waited)
	}
	w.proxy.Intercept(nil)
	got, err := read(w.GroupRows(t.Context(), group("api_calls")))
	check(t, err)
	same(t, "rows", rows, got)
}

// put writes what a batch asks for, past the proxy.
func put(t *testing.T, w *world, requests []byte) {
	t.Helper()
	var items map[string][]struct {
		PutRequest struct{ Item map[string]map[string]string }
	}
	check(t, json.Unmarshal(requests, &items))
	past := dynamodb.NewRows(w.direct, w.usage, dynamodb.Options{})
	for _, write := range items[w.usage] {
		item := metering.Item{}
		for name, v := range write.PutRequest.Item {
			if n, ok := v["N"]; ok {
				item[name] = json.Number(n)
			} else {
				item[name] = v["S"]
			}
		}
		check(t, past.PutRow(t.Context(), metering.RowFromItem(item)))
	}
}

// A service that takes nothing is not asked for ever.
func TestNothingProcessed(t *testing.T) {
	t.Parallel()
	var waited pauses
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{Sleep: waited.sleep})
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		var body struct{ RequestItems json.RawMessage }
		check(t, json.Unmarshal(c.Body, &body))
		return standin.Action{Status: 200, Body: fmt.Sprintf(`{"UnprocessedItems":%s}`, body.RequestItems)}
	})
	w.proxy.Forget()
	err := w.PutRows(t.Context(), []metering.Row{row(0, 1), row(1, 1)})
	wantClass(t, "PutRows", "Throttled", err)
	if calls := w.proxy.Count("BatchWriteItem", ""); calls != 8 || len(waited) != 7 {
		t.Errorf("%d calls and %d pauses, want 8 and 7", calls, len(waited))
	}
}
