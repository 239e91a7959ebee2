package metering

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzManifest: what is read as a manifest holds each second once, in order, and adds up to what it says; it is written as it is read.
func FuzzManifest(f *testing.F) {
	for _, s := range []string{"v1 3 15 0:5 60:4 1:6", "v1 0 0", "v1 1 0 3599:0", "v1 2 4294967294 0:2147483647 1:2147483647", "v1 1 5 00:05", "v2 0 0", "v1 1 5 3600:5", "v1 2 1 0:0 0:1", "v1\u00851 5 0:5"} {
		f.Add(s)
	}
	h := groupH().Hour
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseManifest(s)
		if err != nil {
			if _, coversErr := (Record{Manifest: s}).Covers(); coversErr == nil && s != "" {
				t.Errorf("%q covers something", s)
			}
			return
		}
		if again, err := ParseManifest(m.String()); err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("%q is written %q: %v", s, m, err)
		}
		var sum int64
		count, last := 0, h.Second(0)-1
		for second, q := range m.All(h) {
			if held, covered := m.Quantity(second); !covered || held != q || second <= last || second.Hour() != h || q < 0 || q > MaxQuantity {
				t.Errorf("second %v after %v: %d, %d, %v", second, last, q, held, covered)
			}
			count, sum, last = count+1, sum+q, second
		}
		if fields := strings.Fields(s); count != m.Count() || sum != m.Sum() || string(number(int64(count))) != fields[1] || string(number(sum)) != fields[2] {
			t.Errorf("%q holds %d seconds with %d", s, count, sum)
		}
	})
}

// foldedRows are rows of groupH made of a list of overlays over a valid row; "at" is the second, and each second is there once.
func foldedRows(text []byte) (rows []Row) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var list []Item
	if d.Decode(&list) != nil {
		return nil
	}
	byKey := map[string]Row{}
	for i, overlay := range list {
		offset := i
		if q, ok := quantityOf(overlay["at"]); ok && q.N >= 0 && q.N < secondsPerHour {
			offset = int(q.N)
		}
		item := rowItem()
		maps.Copy(item, overlay)
		s := groupH().Hour.Second(offset)
		item[AttrRowKey], item[AttrTimestamp] = groupH().RowKey(s), s.String()
		byKey[groupH().RowKey(s)] = RowFromItem(item)
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		rows = append(rows, byKey[key])
	}
	return rows
}

// FuzzFold: a group's record holds what its rows add up to, and its manifest says so row by row; or the group is refused, and then all
// its waiting rows are, and no others.
func FuzzFold(f *testing.F) {
	f.Add([]byte(`[{}, {"quantity": 4, "at": 60}, {"quantity": 0, "at": 3599}]`))
	f.Add([]byte(`[{}, {"quantity": "x"}, {"meteringPending": 7, "meteringStatus": "RejectedClientSide"}, {"dropped": true}]`))
	f.Add([]byte(`[{"quantity": 2147483647}, {"quantity": 1}]`))
	f.Add([]byte(`[{"usageAllocations": [{"AllocatedUsageQuantity": 3, "Tags": [{"Key": "a", "Value": "b"}]}]}, {"usageAllocations": [{"AllocatedUsageQuantity": 1}, {"AllocatedUsageQuantity": 2, "Tags": [{"Key": "a", "Value": "b"}]}]}]`))
	f.Add([]byte(`[{"quantity": 0}, {"quantity": 0, "customerIdentifier": "c"}, {"meteringPending": "", "meteringStatus": "LateUsage"}]`))
	known, now, g := knownReasons(), instant("2026-03-10T15:20:00Z"), groupH()
	f.Fuzz(func(t *testing.T, text []byte) {
		fold := NewFold(g, now)
		var sum int64
		held := map[string]int64{}
		var waiting []string
		for _, r := range foldedRows(text) {
			fold.Add(r)
			if r.Pending != "" && !r.Dropped {
				waiting = append(waiting, r.SortKey)
			}
			if !r.Dropped && (r.Pending != "" || r.Status == RejectedClientSide) {
				held[r.SortKey], sum = r.Quantity.N, sum+r.Quantity.N
			}
		}
		var rejected []string
		for _, r := range fold.Rejections() {
			rejected = append(rejected, r.Key)
		}
		if !slices.Equal(rejected, waiting) || fold.Pending() != len(waiting) {
			t.Errorf("a rejection would end %q, there wait %q", rejected, waiting)
		}
		rec, reason := fold.Record()
		if reason != "" {
			if !known[reason] {
				t.Errorf("reason %q", reason)
			}
			return
		}
		if why := rec.Validate(); why != "" && len(held) > 0 {
			t.Errorf("the record of valid rows is refused: %s", why)
		}
		manifest, err := RecordFromItem(rec.Item()).Covers()
		if err != nil || rec.Quantity != Units(sum) || manifest.Sum() != sum || manifest.Count() != len(held) || sum > MaxQuantity {
			t.Errorf("record %+v, manifest %v, %v: %d rows hold %d", rec, manifest, err, len(held), sum)
		}
		for second, q := range manifest.All(g.Hour) {
			if want, ok := held[g.RowKey(second)]; !ok || q != want {
				t.Errorf("%v is committed with %d, its row holds %d", second, q, want)
			}
		}
		if len(rec.Allocations) > 0 && sumOf(rec.Allocations) != sum {
			t.Errorf("allocations %+v of %d", rec.Allocations, sum)
		}
	})
}

// FuzzMessage: a body is read or is no message; what is read is written in characters that SQS carries, and reads back.
func FuzzMessage(f *testing.F) {
	f.Add(Encode(NewWorkMessage(groupH(), true)))
	f.Add(Encode(CleanupMessage{License: licenseA, Status: LateUsage, Rows: []CleanupRow{NewCleanupRow(pendingRow()), CoveredRow(groupH(), groupH().Hour.Second(1), 7)}}))
	f.Add(`{"licenseArn":"l","dimension":"\ufffe\ud800\u0000","hourBucket":"2026-03-10T14","rows":[{"k":"\uffff","q":-1}]}`)
	f.Add(`{"LICENSEARN":"l","rows":null,"closing":true}`)
	f.Fuzz(func(t *testing.T, body string) {
		if m, err := Decode[WorkMessage](body); err == nil {
			carried := Encode(m)
			again, err := Decode[WorkMessage](carried)
			if err != nil || again != m || strings.ContainsAny(carried, "\uFFFE\uFFFF\x00") {
				t.Errorf("%+v is carried as %q and read as %+v, %v", m, carried, again, err)
			}
			if g, err := m.Group(); err == nil && (NewWorkMessage(g, m.Closing) != m || g.License == "") {
				t.Errorf("%+v asks for %+v", m, g)
			}
		}
		if m, err := Decode[CleanupMessage](body); err == nil {
			carried := Encode(m)
			again, err := Decode[CleanupMessage](carried)
			if diff := cmp.Diff(m, again); err != nil || diff != "" || strings.ContainsAny(carried, "\uFFFE\uFFFF\x00") {
				t.Errorf("carried as %q: %v\n%s", carried, err, diff)
			}
		}
	})
}

// FuzzKey: a sort key is read one way only, and is written as it is read; the rows of a group are those that its prefix finds and it contains.
func FuzzKey(f *testing.F) {
	for _, key := range []string{
		groupH().RowKey(groupH().Hour.Second(5)), groupH().RecordKey(), "1#a#2026-03-10T14:00:00#2026-03-10T15:00:00", "##2026-03-10T14:00:05", "#2026-03-10T14:00:05", "a#b#2026-02-29T00:00:00",
		"a#b#0000-01-01T00:00:00", "a#b#9999-12-31T23:59:59", "a#\xff#2026-03-10T14",
	} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if k, reason := ParseRowKey(key); reason == "" {
			g := k.Group(licenseA)
			if second, ours := g.Contains(key); !ours || second != k.Second || g.RowKey(second) != key || !strings.HasPrefix(key, g.RowPrefix()) {
				t.Errorf("%q is of %+v at %v: %v", key, g, second, ours)
			}
			next := g
			next.Hour++
			if _, ours := next.Contains(key); ours {
				t.Errorf("%q is of two hours", key)
			}
		} else if reason != MalformedSortKey && reason != MalformedTimestamp {
			t.Errorf("%q: %s", key, reason)
		}
		if g, reason := ParseRecordKey(licenseA, key); reason == "" && g.RecordKey() != key {
			t.Errorf("%q is read as %q", key, g.RecordKey())
		}
	})
}
