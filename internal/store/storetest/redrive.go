package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

func redriveContract() []contract {
	return []contract{
		{"F8: a rejected row waits again", recallRejected},
		{"a recall is written where its condition holds", recallConditions},
		{"of many recalls one is written", recallRace},
		{"a rejection of before a recall is not written after it", recallOutlivesRejection},
		{"F9: a rejected row is dropped", dropRejected},
		{"a drop is written where its condition holds", dropConditions},
		{"accounts are listed once", accountsAreListedOnce},
		{"what has ended is found by its status", endedIsFound},
	}
}

// rejected is a row of a group that was rejected.
func rejected(g metering.Group, offset int, quantity int64) metering.Row {
	r := row(g, offset, quantity)
	r.Pending, r.Status, r.StatusReason = "", metering.RejectedClientSide, "NegativeQuantity"
	r.CreatedAt, r.UpdatedAt = "2026-03-10T15:00:00Z", "2026-03-10T15:10:00Z"
	return r
}

// recalling is what an hour later lets the row wait again.
func recalling(t *testing.T, r metering.Row) metering.Recall {
	t.Helper()
	x, obstacle := metering.RecallOf(r, metering.Rules{}, now().Add(time.Hour))
	if obstacle != "" {
		t.Fatalf("%s cannot be recalled: %s", r.SortKey, obstacle)
	}
	x.Token = "token of " + r.SortKey
	return x
}

func recallRejected(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	plain := rejected(g, 0, 5)
	noted := rejected(g, 1, 6)
	noted.Other, noted.Flushes = metering.Item{"invoice": "A-1", metering.AttrTTL: json.Number("1773155999")}, []string{"one"}
	traced := rejected(g, 2, 7)
	traced.Other = metering.Item{metering.AttrRecalled: []any{}}
	for name, r := range map[string]metering.Row{"plain": plain, "with a note": noted, "with an empty trace": traced} {
		put(t, s, r)
		x := recalling(t, r)
		out, err := s.RecallRow(t.Context(), x)
		same(t, name, metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
		want := x.Apply(r)
		same(t, name+": row", &want, getRow(t, s, licenseA, r.SortKey))
		out, err = s.RecallRow(t.Context(), x)
		if must(t, out, err); out.Done || out.Old == nil || !x.Shows(*out.Old) {
			t.Errorf("%s, asked for again: %+v, want it refused and shown", name, out)
		}

		l := metering.Label{
			License: r.License, SortKey: r.SortKey, Marker: true, Fingerprint: want.Fingerprint(),
			Status: metering.RejectedClientSide, Reason: "ConflictingIdentifier", At: now(),
		}
		out, err = s.LabelRow(t.Context(), l)
		same(t, name+": rejected again", metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
		second := l.Apply(want)
		y := recalling(t, second)
		out, err = s.RecallRow(t.Context(), x)
		same(t, name+": the first recall", metering.Outcome[metering.Row]{Old: &second}, must(t, out, err))
		out, err = s.RecallRow(t.Context(), y)
		same(t, name+": twice", metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
		want = y.Apply(second)
		same(t, name+": row that was recalled twice", &want, getRow(t, s, licenseA, r.SortKey))
	}
	if keys := pendingKeys(t, s, g.Hour, licenseA); len(keys) != 3 {
		t.Errorf("there wait %q", keys)
	}
}

// changedRows are forms of a rejected row that is no longer what was judged.
func changedRows() map[string]func(*metering.Row) {
	return map[string]func(*metering.Row){
		"waiting":          func(r *metering.Row) { r.Pending = hour().String() },
		"late":             func(r *metering.Row) { r.Status = metering.LateUsage },
		"no status":        func(r *metering.Row) { r.Status = "" },
		"another reason":   func(r *metering.Row) { r.StatusReason = "why" },
		"another quantity": func(r *metering.Row) { r.Quantity = metering.Units(6) },
		"no number": func(r *metering.Row) {
			r.Quantity, r.Other = metering.Quantity{}, metering.Item{metering.AttrQuantity: "5"}
		},
		"another identifier": func(r *metering.Row) { r.CustomerIdentifier = "c-1" },
		"another account":    func(r *metering.Row) { r.Account = "111122223333" },
		"dropped":            func(r *metering.Row) { r.Dropped = true },
	}
}

func recallConditions(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	r := rejected(g, 0, 5)
	x := recalling(t, r)
	changes := changedRows()
	changes["a trace"] = func(r *metering.Row) {
		r.Other = metering.Item{metering.AttrRecalled: []any{map[string]any{"at": "2026-03-10T15:30:00Z"}}}
	}
	changes["no trace of ours"] = func(r *metering.Row) { r.Other = metering.Item{metering.AttrRecalled: "never"} }
	for name, change := range changes {
		stored := r
		change(&stored)
		put(t, s, stored)
		out, err := s.RecallRow(t.Context(), x)
		same(t, name, metering.Outcome[metering.Row]{Old: &stored}, must(t, out, err))
		same(t, name+": row", &stored, getRow(t, s, licenseA, r.SortKey))
	}
	if err := s.DeleteRow(t.Context(), licenseA, r.SortKey); err != nil {
		t.Fatal(err)
	}
	out, err := s.RecallRow(t.Context(), x)
	same(t, "no row", missingRow, must(t, out, err))
	if got := getRow(t, s, licenseA, r.SortKey); got != nil {
		t.Errorf("a row was made: %+v", got)
	}
}

func recallRace(t *testing.T, s Store) {
	r := rejected(group(licenseA, "api_calls"), 0, 5)
	put(t, s, r)
	x := recalling(t, r)
	done := 0
	for _, out := range together(t, 8, func() (metering.Outcome[metering.Row], error) { return s.RecallRow(t.Context(), x) }) {
		if out.Done {
			done++
		} else if out.Old == nil || !x.Shows(*out.Old) {
			t.Errorf("a loser: %+v", out)
		}
	}
	want := x.Apply(r)
	same(t, "row", &want, getRow(t, s, licenseA, r.SortKey))
	if done != 1 {
		t.Errorf("%d were written", done)
	}
}

// recallOutlivesRejection lets a rejection come twice: the second time when the row waits again.
func recallOutlivesRejection(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	plain, odd := row(g, 0, 5), row(g, 1, 5)
	odd.Other = metering.Item{metering.AttrRecalled: []any{}}
	for name, r := range map[string]metering.Row{"never recalled": plain, "an empty trace": odd} {
		put(t, s, r)
		l := metering.Label{
			License: r.License, SortKey: r.SortKey, Marker: true, Fingerprint: metering.NewCleanupRow(r).Fingerprint,
			Status: metering.RejectedClientSide, Reason: "ConflictingIdentifier", At: now(),
		}
		out, err := s.LabelRow(t.Context(), l)
		same(t, name+": rejected", metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
		first := l.Apply(r)
		x := recalling(t, first)
		out, err = s.RecallRow(t.Context(), x)
		same(t, name+": recalled", metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
		want := x.Apply(first)
		out, err = s.LabelRow(t.Context(), l)
		same(t, name+": the rejection once more", metering.Outcome[metering.Row]{Old: &want}, must(t, out, err))
		same(t, name+": row", &want, getRow(t, s, licenseA, r.SortKey))
	}
}

func dropping(t *testing.T, r metering.Row) metering.Drop {
	t.Helper()
	x, obstacle := metering.DropOf(r, nil, now().Add(time.Hour))
	if obstacle != "" {
		t.Fatalf("%s cannot be dropped: %s", r.SortKey, obstacle)
	}
	x.Token = "token of " + r.SortKey
	return x
}

func dropRejected(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	odd := metering.RowFromItem(metering.Item{
		metering.AttrLicense: licenseA, metering.AttrRowKey: "no key at all", metering.AttrQuantity: "abc", metering.AttrDropped: "no",
		metering.AttrStatus: "RejectedClientSide", metering.AttrStatusReason: "MalformedSortKey", metering.AttrAccount: json.Number("7"),
	})
	for name, r := range map[string]metering.Row{"plain": rejected(g, 0, 5), "odd": odd} {
		put(t, s, r)
		x := dropping(t, r)
		out, err := s.DropRow(t.Context(), x)
		same(t, name, metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
		want := x.Apply(r)
		same(t, name+": row", &want, getRow(t, s, licenseA, r.SortKey))
		later := x
		later.At = later.At.Add(time.Minute)
		out, err = s.DropRow(t.Context(), later)
		same(t, name+": again", metering.Outcome[metering.Row]{Old: &want}, must(t, out, err))
		if !later.Shows(want) {
			t.Errorf("%s: it does not show", name)
		}
	}
}

func dropConditions(t *testing.T, s Store) {
	r := rejected(group(licenseA, "api_calls"), 0, 5)
	x := dropping(t, r)
	for name, change := range changedRows() {
		stored := r
		change(&stored)
		put(t, s, stored)
		out, err := s.DropRow(t.Context(), x)
		same(t, name, metering.Outcome[metering.Row]{Old: &stored}, must(t, out, err))
		same(t, name+": row", &stored, getRow(t, s, licenseA, r.SortKey))
	}
	if err := s.DeleteRow(t.Context(), licenseA, r.SortKey); err != nil {
		t.Fatal(err)
	}
	out, err := s.DropRow(t.Context(), x)
	same(t, "no row", missingRow, must(t, out, err))
}

func accountsAreListedOnce(t *testing.T, s Store) {
	list := func(license string) []string {
		t.Helper()
		accounts, err := s.Accounts(t.Context(), license)
		return must(t, accounts, err)
	}
	same(t, "accounts of nobody", []string(nil), list(licenseA))
	of := func(account, dimension string) metering.Group {
		g := group(licenseA, dimension)
		g.Account = account
		return g
	}
	rowsOnly, recordsOnly, both, letters := "111122223333", "222233334444", "333344445555", "a person's name"
	for i := range 3 {
		for _, dimension := range []string{"api", "api#x", "#", "äpfel"} {
			put(t, s, row(of(rowsOnly, dimension), i, 1), row(of(both, dimension), i, 1), row(of(letters, dimension), i, 1))
		}
		putRecords(t, s, record(of(both, fmt.Sprint("d", i)), 1), record(of(recordsOnly, fmt.Sprint("d", i)), 1))
	}
	put(t, s, row(of("", "api"), 0, 1)) // of nobody
	for _, key := range []string{"no key at all", "1111", both + "$", both, "zzz"} {
		put(t, s, metering.RowFromItem(metering.Item{metering.AttrLicense: licenseA, metering.AttrRowKey: key}))
	}
	put(t, s, row(group(licenseB, "api"), 0, 1), row(group(licenseA+"a", "api"), 0, 1))
	same(t, "accounts", []string{rowsOnly, recordsOnly, both, letters}, list(licenseA))
	same(t, "those of another license", []string{buyer}, list(licenseB))
	for i := range 3 {
		for _, dimension := range []string{"api", "api#x", "#", "äpfel"} {
			if err := s.DeleteRow(t.Context(), licenseA, of(rowsOnly, dimension).RowKey(second(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	same(t, "accounts after the last row of one is gone", []string{recordsOnly, both, letters}, list(licenseA))
}

func endedIsFound(t *testing.T, s Store) {
	var rows []metering.Row
	var records []metering.Record
	for i, license := range []string{licenseA, licenseB} {
		for j, dimension := range []string{"api", "storage"} {
			g := group(license, dimension)
			late := rejected(g, 0, int64(i+1))
			late.Status = metering.LateUsage
			waits := rejected(g, 1, 1)
			waits.Pending = g.Hour.String() // it bears a status of before
			odd := metering.RowFromItem(metering.Item{
				metering.AttrLicense: license, metering.AttrRowKey: fmt.Sprintf("no key %d", j), metering.AttrStatus: "RejectedClientSide", metering.AttrQuantity: "x",
			})
			none := rejected(g, 2, 1)
			none.Status, none.StatusReason = "", ""
			rows = append(rows, late, waits, odd, none, rejected(g, 3, 4), rejected(g, 4, 5))
			sent := refused(g, 1)
			again := refused(g, 2)
			again.SortKey, again.Pending = g.RecordKey()+"#2026-03-10T15", again.HourBucket
			records = append(records, sent, again)
		}
	}
	put(t, s, rows...)
	putRecords(t, s, records...)
	for license, keys := range map[string]int{licenseA: 6, licenseB: 6, "": 12} {
		got := collect(t, s.EndedRows(t.Context(), license, metering.RejectedClientSide))
		for _, r := range got {
			if r.Status != metering.RejectedClientSide || r.Pending != "" || license != "" && r.License != license {
				t.Errorf("of %q: %+v", license, r)
			}
		}
		if len(got) != keys {
			t.Errorf("of %q there are %d rejected rows, want %d: %q", license, len(got), keys, rowKeys(got))
		}
		if n := len(collect(t, s.EndedRows(t.Context(), license, metering.LateUsage))); n != keys/3 {
			t.Errorf("of %q there are %d late rows, want %d", license, n, keys/3)
		}
		refusals := collect(t, s.EndedRecords(t.Context(), license, metering.CustomerNotSubscribed))
		if len(refusals) != keys/3 {
			t.Errorf("of %q there are %d refused records, want %d", license, len(refusals), keys/3)
		}
		if n := len(collect(t, s.EndedRecords(t.Context(), license, metering.Success))); n != 0 {
			t.Errorf("of %q there are %d billed records", license, n)
		}
	}
	// Whole items come back, those of a license in the order of their keys.
	g := group(licenseA, "api")
	want := []metering.Row{rejected(g, 3, 4), rejected(g, 4, 5)}
	got := inOrder(collect(t, s.EndedRows(t.Context(), licenseA, metering.RejectedClientSide)))
	same(t, "rows", want, got[:min(2, len(got))])
	sent := refused(g, 1)
	same(t, "record", sent, collect(t, s.EndedRecords(t.Context(), licenseA, metering.CustomerNotSubscribed))[0])
	// Who has seen enough stops.
	for range s.EndedRows(t.Context(), "", metering.RejectedClientSide) {
		break
	}
}
