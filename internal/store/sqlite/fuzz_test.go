package sqlite_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/store/sqlite"
)

// kept is a store that all inputs of a fuzz test share.
func kept(f *testing.F) *sqlite.Store { return open(f, file(f), sqlite.Options{}.Unsynced()) }

// with is the item with one attribute more or other: JSON, or else text as no table holds it otherwise.
func with(item metering.Item, name, value string) metering.Item {
	item = maps.Clone(item)
	d := json.NewDecoder(strings.NewReader(value))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		v = strings.ToValidUTF8(value, "?")
	}
	item[strings.ToValidUTF8(name, "?")] = v
	return item
}

// FuzzItem: whatever a row, a record or a subscriber holds, it reads back from the file as from a plain map; what one store refuses the
// other refuses too.
func FuzzItem(f *testing.F) {
	s := kept(f)
	base := row(group(licenseA, "api"), 5, 3).Item()
	base[metering.AttrRecordKey], base[metering.AttrHour] = buyer+"#api#2026-03-10T14", "2026-03-10T14"
	for i, name := range []string{
		metering.AttrRowKey, metering.AttrRecordKey, metering.AttrAccount, metering.AttrDimension, metering.AttrTimestamp, metering.AttrHour, metering.AttrPending, metering.AttrQuantity,
		metering.AttrAllocations, metering.AttrFlushes, metering.AttrStatus, metering.AttrManifest, metering.AttrSentSecond, metering.AttrSentQuantity, metering.AttrTTL, metering.AttrDropped,
		metering.AttrCreatedAt, metering.AttrDeprovisioningExpiry, metering.AttrDeprovisionedAt, metering.AttrRegisteredRegions, metering.AttrAgreement, "note",
	} {
		for j, value := range []string{
			`7`, `2.50`, `1e400`, `""`, `null`, `false`, "2026-03-10T14", "2026-03-10T14:00:00", "0000-01-01T00:00:00", "2026-03-10T14:00:00Z", "2026-03-10T16:00:00+01:00", "9999-12-31T23:59:59-01:00",
			`["a b","["]`, `[""]`, `[{"AllocatedUsageQuantity":3.0,"Tags":[]}]`, `[{"AllocatedUsageQuantity":3,"x":1}]`, `{"x":[1.0,null,"\u2028"]}`, "#", "a#\x00b#",
		} {
			if (i+j)%4 == 0 {
				f.Add(name, value)
			}
		}
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		item := with(base, name, value)
		plain := memory.New(memory.Options{})
		if r := metering.RowFromItem(item); bothTake(t, s.PutRow(t.Context(), r), plain.PutRow(t.Context(), r)) {
			want, err := plain.Row(t.Context(), r.License, r.SortKey)
			check(t, "read the plain row", err)
			same(t, "row", want, getRow(t, s, r.License, r.SortKey))
		}
		if r := metering.RecordFromItem(item); bothTake(t, s.PutRecord(t.Context(), r), plain.PutRecord(t.Context(), r)) {
			same(t, "records", collect(t, plain.LicenseRecords(t.Context(), r.License)), collect(t, s.LicenseRecords(t.Context(), r.License)))
			check(t, "DeleteRecord", s.DeleteRecord(t.Context(), r.License, r.SortKey))
		}
		sub := metering.SubscriberFromItem(with(metering.Item{
			metering.AttrLicense: licenseB, metering.AttrAccount: buyer, metering.AttrDeprovisioningFlag: "1", metering.AttrDeprovisioningExpiry: "2026-03-10T15:00:00Z",
		}, name, value))
		if sub.License != licenseB || sub.Account != buyer {
			return
		}
		check(t, "PutSubscriber", s.PutSubscriber(t.Context(), sub.Item()))
		got, err := s.Subscriber(t.Context(), licenseB, buyer)
		check(t, "Subscriber", err)
		same(t, "subscriber", metering.SubscriberFromItem(sub.Item()), *got)
		listed, err := s.Deprovisioning(t.Context())
		if _, flagged := sub.Other[metering.AttrDeprovisioningFlag]; len(listed) > 0 == sub.Expiry.IsZero() || err != nil && !flagged {
			t.Errorf("in their last hour: %v, %v; expiry %v", listed, err, sub.Expiry)
		}
	})
}

// bothTake reports whether both stores took what was put, and checks that they agree.
func bothTake(t *testing.T, err, plain error) bool {
	t.Helper()
	if (err == nil) != (plain == nil) {
		t.Errorf("the file says %v, the map %v", err, plain)
	}
	return err == nil && plain == nil
}

// FuzzColumns: whatever stands in the columns of a row, it is read, and then what was read reads back once it is written; or that is an
// error. The row beside it is read in any case.
func FuzzColumns(f *testing.F) {
	s := kept(f)
	other, broken := row(group(licenseB, "other"), 0, 7), row(group(licenseA, "api"), 5, 3)
	put(f, s, other, broken)
	f.Add([]byte(`{"note":1}`), []byte(`[{"AllocatedUsageQuantity":3}]`), []byte(`a b`), int64(3), int64(492542))
	f.Add([]byte(`{`), []byte(``), []byte(`["a"]`), int64(-1), int64(-1))
	f.Add([]byte(`{"quantity":"3","licenseArn":7}{}`), []byte(`{}`), []byte(`[1]`), int64(1<<62), int64(1<<62))
	f.Add([]byte(`null`), []byte(`[{"AllocatedUsageQuantity":3,"x":1}]`), []byte("a  "), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, rest, allocations, flushes []byte, quantity, pending int64) {
		if !utf8.Valid(slices.Concat(rest, allocations, flushes)) {
			t.Skip() // as nothing that was written
		}
		put(t, s, broken)
		check(t, "Script", s.Script(fmt.Sprintf(`UPDATE usage_row SET rest = CAST(x'%x' AS TEXT), allocations = CAST(x'%x' AS TEXT), flushes = CAST(x'%x' AS TEXT), quantity = %d, pending = %d, odd = 1
			WHERE series = (SELECT id FROM series WHERE license = '%s')`, rest, allocations, flushes, quantity, pending, licenseA)))
		same(t, "the row beside it", &other, getRow(t, s, licenseB, other.SortKey))
		read, err := s.Row(t.Context(), licenseA, broken.SortKey)
		if err != nil {
			return
		}
		if read == nil || read.License != licenseA || read.SortKey != broken.SortKey || read.Quantity != metering.Units(quantity) {
			t.Fatalf("read as %+v", read)
		}
		if s.PutRow(t.Context(), *read) != nil {
			return // with tokens or allocations of many kilobytes
		}
		again := getRow(t, s, licenseA, broken.SortKey)
		if diff := cmp.Diff(metering.RowFromItem(read.Item()), *again); diff != "" {
			t.Errorf("written and read (-read +again):\n%s", diff)
		}
	})
}
