package storetest

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

func recordContract() []contract {
	return []contract{
		{"a record is created once", createOnce},
		{"of two creators one wins", createRace},
		{"the pending index carries what is sent", recordIndexEntry},
		{"the pending index of records is sparse", recordIndexIsSparse},
		{"a mark is written where its condition holds", sendConditions},
		{"a finish is written where its condition holds", finishConditions},
		{"a finish written twice shows itself", finishReplay},
		{"case 32: an item over 400 KB is too large", tooLarge},
		{"unknown attributes and audit times are kept", recordsKeepTheRest},
	}
}

func send(r metering.Record) metering.Send {
	return metering.Send{
		License: r.License, SortKey: r.SortKey, Fingerprint: r.Fingerprint(),
		Quantity: r.Quantity.N, Second: second(0), At: now(),
	}
}

func finish(r metering.Record, status metering.Status) metering.Finish {
	f := metering.Finish{
		License: r.License, SortKey: r.SortKey, Pending: true, Quantity: r.Quantity,
		Status: status, MeteringRecordID: "id-1", At: now(),
	}
	if status == metering.Success {
		f.Pending, f.Unbilled, f.TTL = false, true, metering.Units(now().Add(400*24*time.Hour).Unix())
	}
	return f
}

func createOnce(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	if got := getRecord(t, s, g); got != nil {
		t.Fatalf("a record before any was created: %+v", got)
	}
	first := record(g, 5).Stamped(now())
	first.Allocations = []metering.Allocation{{Quantity: 5, Tags: []metering.Tag{{Key: "team", Value: "blue"}}}}
	out, err := s.CreateRecord(t.Context(), first)
	same(t, "the first", metering.Outcome[metering.Record]{Done: true}, must(t, out, err))
	second := record(g, 9).Stamped(now().Add(time.Hour))
	out, err = s.CreateRecord(t.Context(), second)
	same(t, "the second", metering.Outcome[metering.Record]{Old: &first}, must(t, out, err))
	same(t, "record", &first, getRecord(t, s, g))

	putRecords(t, s, second) // a seller's put asks for nothing
	same(t, "record after a put", &second, getRecord(t, s, g))
	if err := s.DeleteRecord(t.Context(), g.License, g.RecordKey()); err != nil {
		t.Fatal(err)
	}
	out, err = s.CreateRecord(t.Context(), first)
	same(t, "after it was deleted", metering.Outcome[metering.Record]{Done: true}, must(t, out, err))
}

func createRace(t *testing.T, s Store) {
	for round := range 20 {
		g := group(licenseA, "api_calls")
		g.Hour += metering.Hour(round)
		var outcomes [2]metering.Outcome[metering.Record]
		var wg sync.WaitGroup
		for i := range outcomes {
			wg.Go(func() {
				out, err := s.CreateRecord(t.Context(), record(g, int64(i)))
				outcomes[i] = must(errorsOnly{t}, out, err)
			})
		}
		wg.Wait()
		winner := 0
		if outcomes[1].Done {
			winner = 1
		}
		want := record(g, int64(winner))
		same(t, "the winner", metering.Outcome[metering.Record]{Done: true}, outcomes[winner])
		same(t, "the loser", metering.Outcome[metering.Record]{Old: &want}, outcomes[1-winner])
		same(t, "record", &want, getRecord(t, s, g))
	}
}

// errorsOnly reports from other goroutines, where a test must not be ended.
type errorsOnly struct{ *testing.T }

func (e errorsOnly) Fatalf(format string, args ...any) { e.Errorf(format, args...) }

func recordIndexEntry(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	whole := record(g, 5).Stamped(now())
	whole.Allocations = []metering.Allocation{{Quantity: 5, Tags: []metering.Tag{{Key: "team", Value: "blue"}}}}
	whole.SentQuantity, whole.SentSecond = metering.Units(5), second(0).String()
	whole.Status, whole.BilledQuantity, whole.CustomerIdentifier = metering.Success, metering.Units(4), "c-1"
	whole.StatusReason, whole.MeteringRecordID, whole.TTL = "because", "id-1", metering.Units(9)
	whole.Other = metering.Item{"invoice": "A-1"}
	entry := whole
	entry.Manifest, entry.StatusReason, entry.MeteringRecordID = "", "", ""
	entry.CreatedAt, entry.UpdatedAt, entry.TTL, entry.Other = "", "", metering.Quantity{}, nil
	putRecords(t, s, whole)
	same(t, "entry", []metering.Record{entry}, collect(t, s.PendingRecords(t.Context(), g.Hour, "")))
	same(t, "the license's records", []metering.Record{whole}, collect(t, s.LicenseRecords(t.Context(), licenseA)))

	odd := whole.Item()
	odd[metering.AttrQuantity], odd[metering.AttrDimension], odd[metering.AttrManifest] = "5", json.Number("1"), []any{"no text"}
	wrong := metering.RecordFromItem(odd)
	putRecords(t, s, wrong)
	got := collect(t, s.PendingRecords(t.Context(), g.Hour, ""))
	if len(got) != 1 {
		t.Fatalf("%d entries, want 1", len(got))
	}
	same(t, "other attributes of the entry", metering.Item{metering.AttrQuantity: "5", metering.AttrDimension: json.Number("1")}, got[0].Other)
	if got[0].Fingerprint() != wrong.Fingerprint() {
		t.Error("the entry is judged otherwise than the record")
	}
}

func recordIndexIsSparse(t *testing.T, s Store) {
	longer := licenseA + "a"
	var all []string
	for _, license := range []string{licenseA, longer, licenseB} {
		for _, dimension := range []string{"api", "api#2026-03-10T14", "storage"} {
			g := group(license, dimension)
			all = append(all, license+" "+g.RecordKey())
			ended := record(group(license, dimension+"-ended"), 1)
			ended.Pending = ""
			later := record(g, 1)
			later.SortKey, later.Pending = later.SortKey+"-later", (hour() + 1).String()
			putRecords(t, s, ended, later, record(g, 1))
		}
	}
	same(t, "all licenses", all, pendingRecordKeys(t, s, hour(), ""))
	same(t, "one license", all[:3], pendingRecordKeys(t, s, hour(), licenseA))
	same(t, "no license", []string(nil), pendingRecordKeys(t, s, hour(), "arn:none"))
	same(t, "no hour", []string(nil), pendingRecordKeys(t, s, hour()-1, ""))

	g := group(licenseA, "api")
	out, err := s.FinishRecord(t.Context(), finish(record(g, 1), metering.Success))
	if must(t, out, err); !out.Done {
		t.Fatal("FinishRecord was refused")
	}
	same(t, "one finished", all[1:3], pendingRecordKeys(t, s, hour(), licenseA))
	if err := s.DeleteRecord(t.Context(), licenseA, group(licenseA, "api#2026-03-10T14").RecordKey()); err != nil {
		t.Fatal(err)
	}
	same(t, "one deleted", all[2:3], pendingRecordKeys(t, s, hour(), licenseA))
	moved := record(group(licenseA, "storage"), 1)
	moved.Pending = (hour() + 1).String()
	putRecords(t, s, moved)
	same(t, "one moved", []string(nil), pendingRecordKeys(t, s, hour(), licenseA))
	if n := len(pendingRecordKeys(t, s, hour()+1, licenseA)); n != 4 {
		t.Errorf("%d entries in the other bucket, want 4", n)
	}
}

func sendConditions(t *testing.T, s Store) {
	r := record(group(licenseA, "api_calls"), 5)
	changed := r
	changed.Quantity = metering.Units(8)
	ended := r
	ended.Pending = ""
	for name, stored := range map[string]metering.Record{"F19: changed in between": changed, "no longer waiting": ended} {
		putRecords(t, s, stored)
		out, err := s.MarkSent(t.Context(), send(r))
		same(t, name, metering.Outcome[metering.Record]{Old: &stored}, must(t, out, err))
	}
	putRecords(t, s, r)
	m := send(r)
	out, err := s.MarkSent(t.Context(), m)
	same(t, "as read", metering.Outcome[metering.Record]{Done: true}, must(t, out, err))
	want := m.Apply(r)
	same(t, "record", &want, getRecord(t, s, group(licenseA, "api_calls")))
	out, err = s.MarkSent(t.Context(), m)
	if must(t, out, err); out.Done || out.Old == nil || !m.Shows(*out.Old) {
		t.Errorf("once more: %+v, want it refused and the mark shown", out)
	}
	// The mark is in the index at once: the next run has to ask for the same quantity and second again.
	same(t, "sent quantity in the index", metering.Units(5), collect(t, s.PendingRecords(t.Context(), hour(), ""))[0].SentQuantity)
}

func finishConditions(t *testing.T, s Store) {
	r := record(group(licenseA, "api_calls"), 5)
	changed := r
	changed.Quantity = metering.Units(8)
	refused := finish(r, metering.DuplicateRecord).Apply(r)
	billed := finish(r, metering.Success).Apply(r)
	keepsAll := finish(changed, metering.Success)
	keepsAll.Fingerprint, keepsAll.BilledQuantity, keepsAll.TTL = changed.Fingerprint(), metering.Units(5), metering.Quantity{}
	tests := []struct {
		name   string
		stored metering.Record
		finish metering.Finish
		done   bool
	}{
		{"Success", r, finish(r, metering.Success), true},
		{"a refusal", r, finish(r, metering.CustomerNotSubscribed), true},
		{"Success over a refusal", refused, finish(r, metering.Success), true},
		{"a refusal over Success", billed, finish(r, metering.DuplicateRecord), false},
		{"Success over Success", billed, finish(r, metering.Success), false},
		{"a refusal over a refusal", refused, finish(r, metering.SubmissionExpired), false},
		{"F19: Success for another quantity", changed, finish(r, metering.Success), false},
		{"Success that keeps what was billed", changed, keepsAll, true},
	}
	for _, tt := range tests {
		putRecords(t, s, tt.stored)
		got, err := s.FinishRecord(t.Context(), tt.finish)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		want, left := metering.Outcome[metering.Record]{Done: true}, tt.finish.Apply(tt.stored)
		if !tt.done {
			want, left = metering.Outcome[metering.Record]{Old: &tt.stored}, tt.stored
		}
		same(t, tt.name+": outcome", want, got)
		same(t, tt.name+": record", &left, getRecord(t, s, group(licenseA, "api_calls")))
	}
}

func finishReplay(t *testing.T, s Store) {
	r := record(group(licenseA, "api_calls"), 5)
	for _, status := range []metering.Status{metering.Success, metering.CustomerNotSubscribed} {
		putRecords(t, s, r)
		f := finish(r, status)
		out, err := s.FinishRecord(t.Context(), f)
		same(t, "the first write", metering.Outcome[metering.Record]{Done: true}, must(t, out, err))
		out, err = s.FinishRecord(t.Context(), f)
		if must(t, out, err); out.Done || out.Old == nil || !f.Shows(*out.Old) {
			t.Errorf("%s again: %+v, want it refused and the end shown", status, out)
		}
		if out.Old != nil && out.Old.Manifest != r.Manifest {
			t.Errorf("the old item has manifest %q, want %q", out.Old.Manifest, r.Manifest)
		}
	}
}

func tooLarge(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	r := record(g, 5)
	r.Manifest = strings.Repeat("x", 400*1024)
	out, err := s.CreateRecord(t.Context(), r)
	if !errors.Is(err, metering.ErrTooLarge) {
		t.Errorf("over 400 KB: %+v, %v, want %v", out, err, metering.ErrTooLarge)
	}
	if got := getRecord(t, s, g); got != nil || len(pendingRecordKeys(t, s, g.Hour, "")) != 0 {
		t.Error("it was stored all the same")
	}
	r.Manifest = strings.Repeat("x", 394*1024)
	out, err = s.CreateRecord(t.Context(), r)
	same(t, "under 400 KB", metering.Outcome[metering.Record]{Done: true}, must(t, out, err))
	same(t, "record", &r, getRecord(t, s, g))
}

func recordsKeepTheRest(t *testing.T, s Store) {
	item := record(group(licenseA, "api_calls"), 5).Stamped(now()).Item()
	item["invoice"], item["nested"] = "A-1", map[string]any{"list": []any{json.Number("1.5"), nil, true}}
	item[metering.AttrAllocations], item[metering.AttrBilledQuantity] = "no list", "no number"
	r := metering.RecordFromItem(item)
	putRecords(t, s, r)
	m := send(r)
	m.At = now().Add(time.Minute)
	sent, err := s.MarkSent(t.Context(), m)
	same(t, "MarkSent", metering.Outcome[metering.Record]{Done: true}, must(t, sent, err))
	f := finish(r, metering.Success)
	f.At = now().Add(time.Hour)
	done, err := s.FinishRecord(t.Context(), f)
	same(t, "FinishRecord", metering.Outcome[metering.Record]{Done: true}, must(t, done, err))
	want := f.Apply(m.Apply(r))
	got := getRecord(t, s, group(licenseA, "api_calls"))
	same(t, "record", &want, got)
	if got.CreatedAt != "2026-03-10T15:20:00Z" || got.UpdatedAt != "2026-03-10T16:20:00Z" || got.Other["invoice"] != "A-1" {
		t.Errorf("created %q, updated %q, invoice %v", got.CreatedAt, got.UpdatedAt, got.Other["invoice"])
	}
}
