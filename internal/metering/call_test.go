package metering

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The request in the words of the API, to measure what a call takes on the wire.
type wireTag struct{ Key, Value string }

type wireAllocation struct {
	AllocatedUsageQuantity int64
	Tags                   []wireTag `json:",omitempty"`
}

type wireRecord struct {
	Timestamp            int64
	Dimension            string
	Quantity             int64
	CustomerAWSAccountID string           `json:"CustomerAWSAccountId,omitempty"`
	CustomerIdentifier   string           `json:",omitempty"`
	LicenseArn           string           `json:",omitempty"`
	UsageAllocations     []wireAllocation `json:",omitempty"`
}

type wireCall struct {
	ProductCode  string
	UsageRecords []wireRecord
}

func wire(u UsageRecord) wireRecord {
	w := wireRecord{int64(u.Second), u.Dimension, u.Quantity, u.Account, u.Identifier, u.License, nil}
	for _, a := range u.Allocations {
		wa := wireAllocation{AllocatedUsageQuantity: a.Quantity}
		for _, t := range a.Tags {
			wa.Tags = append(wa.Tags, wireTag(t))
		}
		w.UsageAllocations = append(w.UsageAllocations, wa)
	}
	return w
}

// callBytes is the body of a call with the longest product code, as encoding/json writes it, escapes for HTML included.
func callBytes(records []Record) int {
	call := wireCall{ProductCode: strings.Repeat("p", 255)}
	for _, r := range records {
		call.UsageRecords = append(call.UsageRecords, wire(r.Usage()))
	}
	body, err := json.Marshal(call)
	if err != nil {
		panic(err)
	}
	return len(body)
}

func TestWireSizeIsAnUpperBound(t *testing.T) {
	t.Parallel()
	escaped := rapid.Map(rapid.SampledFrom([]string{"<", ">", "&", "\"", "\\", "\n", "\x01", "\x7f", "\u2028", "\u2029", "\xff", "\ufffd", "é"}),
		func(s string) string { return strings.Repeat(s, 80) }) // so that no slack elsewhere hides an escape
	text := rapid.OneOf(escaped, rapid.String(), rapid.SampledFrom([]string{"", "<&>", "\"\\\"", "\u2028\u2029", "\x00\x1f\x7f", "\xff\xfe", "é😀", "\ufffd", "a\tb\nc"}),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 12), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) {
		u := UsageRecord{
			License: text.Draw(t, "license"), Account: text.Draw(t, "account"), Identifier: text.Draw(t, "identifier"), Dimension: text.Draw(t, "dimension"),
			Second: Second(rapid.Int64Range(0, 9_999_999_999).Draw(t, "second")), Quantity: rapid.Int64Range(0, MaxQuantity).Draw(t, "quantity"),
		}
		for range rapid.IntRange(0, 4).Draw(t, "allocations") {
			a := Allocation{Quantity: rapid.Int64Range(0, MaxQuantity).Draw(t, "allocated")}
			for range rapid.IntRange(0, 3).Draw(t, "tags") {
				a.Tags = append(a.Tags, Tag{text.Draw(t, "key"), text.Draw(t, "value")})
			}
			u.Allocations = append(u.Allocations, a)
		}
		body, err := json.Marshal(wire(u))
		if err != nil {
			t.Fatal(err)
		}
		if size := u.wireSize(); size < len(body) {
			t.Fatalf("%d bytes are counted as %d: %s", len(body), size, body)
		}
	})
}

func TestUsage(t *testing.T) {
	t.Parallel()
	start := second("2026-03-10T14:00:00")
	tagged := []any{allocation(3, "team", "a")}
	want := func(change func(*UsageRecord)) UsageRecord {
		u := UsageRecord{License: licenseA, Account: buyer, Dimension: "api_calls", Second: start, Quantity: 3}
		change(&u)
		return u
	}
	for _, tt := range []struct {
		name string
		item Item
		want UsageRecord
	}{
		{"by license", recordItem(), want(func(*UsageRecord) {})},
		{"with allocations", recordItem().with(AttrAllocations, tagged), want(func(u *UsageRecord) { u.Allocations = []Allocation{{3, []Tag{{"team", "a"}}}} })},
		{"with allocations that hold an unknown field", recordItem().with(AttrAllocations, []any{map[string]any{attrAllocated: number(3), "Colour": "red"}}),
			want(func(u *UsageRecord) { u.Allocations = []Allocation{{Quantity: 3}} })},
		{"legacy: no license, no account: F32", recordItem().with(AttrLicense, "prod-abc", AttrCustomerIdentifier, "c"),
			want(func(u *UsageRecord) { u.License, u.Account, u.Identifier = "", "", "c" })},
		{"by license, whatever identifier there is", recordItem().with(AttrCustomerIdentifier, "c"), want(func(*UsageRecord) {})},
		{"sent before, the same", recordItem().with(AttrAllocations, tagged, AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T14:00:00"),
			want(func(u *UsageRecord) { u.Allocations = []Allocation{{3, []Tag{{"team", "a"}}}} })},
		{"sent with the first row's second: F35", recordItem().with(AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T14:37:09"),
			want(func(u *UsageRecord) { u.Second = second("2026-03-10T14:37:09") })},
		{"changed after it was sent: F19", recordItem().with(AttrQuantity, number(5), AttrAllocations, []any{allocation(5)}, AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T14:00:00"),
			want(func(*UsageRecord) {})},
		{"a zero that was sent", recordItem().with(AttrSentQuantity, number(0), AttrSentSecond, "2026-03-10T14:00:00"), want(func(u *UsageRecord) { u.Quantity = 0 })},
		{"a second that cannot be read", recordItem().with(AttrSentSecond, "yesterday"), want(func(*UsageRecord) {})},
	} {
		u := RecordFromItem(tt.item).Usage()
		if diff := cmp.Diff(tt.want, u); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if u.Legacy() != (u.License == "") {
			t.Errorf("%s: legacy %v", tt.name, u.Legacy())
		}
	}
}

func TestIdentity(t *testing.T) { // DuplicateIdentity rests on it
	t.Parallel()
	byLicense := pendingRecord().Usage()
	legacy := RecordFromItem(recordItem().with(AttrLicense, "prod-abc", AttrCustomerIdentifier, "c")).Usage()
	if got, want := byLicense.Identity(), (Identity{licenseA, buyer, "api_calls", hour("2026-03-10T14")}); got != want {
		t.Errorf("%+v", got)
	}
	if got, want := legacy.Identity(), (Identity{"c", "", "api_calls", hour("2026-03-10T14")}); got != want {
		t.Errorf("%+v", got)
	}
	later := byLicense
	later.Second, later.Quantity = second("2026-03-10T14:59:59"), 99
	if later.Identity() != byLicense.Identity() {
		t.Error("another second and quantity of the hour make another identity")
	}
	if later.Second++; later.Identity() == byLicense.Identity() {
		t.Error("the next hour has the same identity")
	}
}

// sized is a record of about the given number of bytes on the wire, or a little less.
func sized(i, bytes int) Record {
	g := groupH()
	g.Dimension = fmt.Sprintf("d%d", i)
	r := Record{License: licenseA, SortKey: g.RecordKey(), Account: buyer, Dimension: g.Dimension, HourBucket: g.Hour.String(), Pending: g.Hour.String()}
	for size, n := r.WireSize(), 0; size < bytes; n++ {
		a := Allocation{Quantity: 1}
		for k := range 5 {
			a.Tags = append(a.Tags, Tag{fmt.Sprintf("%0100d", k), fmt.Sprintf("%0256d", n)})
		}
		size += UsageRecord{Allocations: []Allocation{a}}.wireSize() - UsageRecord{}.wireSize()
		if size < bytes {
			r.Allocations = append(r.Allocations, a)
		}
	}
	r.Quantity = Units(int64(len(r.Allocations)))
	return r
}

func pack(records []Record) (calls [][]Record) {
	var p Packer
	for _, r := range records {
		if full := p.Add(r); full != nil {
			calls = append(calls, full)
		}
	}
	if rest := p.Flush(); rest != nil {
		calls = append(calls, rest)
	}
	return calls
}

func TestPack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		count, bytes int
		want         []int
	}{
		{0, 0, nil}, {1, 0, []int{1}}, {25, 0, []int{25}}, {26, 0, []int{25, 1}}, {60, 0, []int{25, 25, 10}}, // case 9
		{25, 60_500, []int{16, 9}}, // case 33
		{3, 990_000, []int{1, 1, 1}},
		{2, 1_200_000, []int{1, 1}}, // validation has the word on these; packing still ends
	} {
		var records []Record
		for i := range tt.count {
			records = append(records, sized(i, tt.bytes))
		}
		var sizes []int
		var got []string
		for _, call := range pack(records) {
			sizes = append(sizes, len(call))
			if n := callBytes(call); n >= 1_000_000 && len(call) > 1 {
				t.Errorf("%d of %d bytes: a call of %d bytes", tt.count, tt.bytes, n)
			}
			for _, r := range call {
				got = append(got, r.Dimension)
			}
		}
		if diff := cmp.Diff(tt.want, sizes); diff != "" {
			t.Errorf("%d of %d bytes (-want +got):\n%s", tt.count, tt.bytes, diff)
		}
		for i, d := range got {
			if d != records[i].Dimension {
				t.Errorf("%d of %d bytes: %s comes out in place %d", tt.count, tt.bytes, d, i)
			}
		}
	}
	for bytes, want := range map[int]Reason{60_500: "", 950_000: "", 1_200_000: RecordTooLarge} { // case 33: a record that fits no call ends
		if got := sized(0, bytes).Validate(); got != want {
			t.Errorf("a record of %d bytes: %q, want %q", bytes, got, want)
		}
	}
}

func TestCallsStayBelowTheLimits(t *testing.T) {
	t.Parallel()
	big := []Record{sized(0, 0), sized(0, 0), sized(1, 40_000), sized(2, 60_000), sized(3, 330_000)}
	big[1].Dimension = strings.Repeat("<\u2028", 100)
	sizes := map[string]int{}
	for _, r := range big {
		sizes[r.Dimension] = r.WireSize() // an upper bound, by the test above
	}
	rapid.Check(t, func(t *rapid.T) {
		var records []Record
		for range rapid.IntRange(0, 40).Draw(t, "count") {
			records = append(records, rapid.SampledFrom(big).Draw(t, "record"))
		}
		n := 0
		for _, call := range pack(records) {
			size := callEnvelope
			for _, r := range call {
				size += sizes[r.Dimension] + 1
				if r.Dimension != records[n].Dimension {
					t.Fatalf("record %d is out of order", n)
				}
				n++
			}
			if len(call) == 0 || len(call) > 25 || size >= 1_000_000 {
				t.Fatalf("a call of %d records and %d bytes", len(call), size)
			}
		}
		if n != len(records) {
			t.Fatalf("%d of %d records are packed", n, len(records))
		}
	})
}

func result(r Record, status Status) Result {
	return Result{Usage: r.Usage(), Status: status, RecordID: "id-" + r.Dimension}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	a, b, c := sized(1, 0), sized(2, 0), sized(3, 0)
	legacy := RecordFromItem(recordItem().with(AttrLicense, "prod-abc", AttrCustomerIdentifier, "c"))
	without := func(r Record, change func(*UsageRecord)) Result {
		res := result(r, Success)
		change(&res.Usage)
		return res
	}
	for _, tt := range []struct {
		name      string
		answer    Answer
		verdicts  string
		left      string
		unmatched int
	}{
		{"nothing said", Answer{}, "", "", 0},
		{"each its own status: case 1", Answer{Results: []Result{result(a, Success), result(b, CustomerNotSubscribed), result(c, DuplicateRecord)}},
			"d1 Success, d2 CustomerNotSubscribed, d3 DuplicateRecord", "", 0},
		{"in another order", Answer{Results: []Result{result(c, Success), result(a, DuplicateRecord)}}, "d3 Success, d1 DuplicateRecord", "", 0},
		{"unprocessed: case 7", Answer{Results: []Result{result(a, Success)}, Unprocessed: []UsageRecord{c.Usage(), b.Usage()}}, "d1 Success", "d3, d2", 0},
		{"an unknown status", Answer{Results: []Result{result(a, "Pending"), result(b, ""), result(c, RejectedClientSide)}}, "", "", 3},
		{"an echo without the account: F33", Answer{Results: []Result{without(a, func(u *UsageRecord) { u.Account = "" })}}, "", "", 1},
		{"an echo of another quantity", Answer{Results: []Result{without(a, func(u *UsageRecord) { u.Quantity++ })}}, "", "", 1},
		{"an echo of another second", Answer{Results: []Result{without(a, func(u *UsageRecord) { u.Second++ })}}, "", "", 1},
		{"an echo of another license", Answer{Results: []Result{without(a, func(u *UsageRecord) { u.License = licenseB })}}, "", "", 1},
		{"an echo without allocations is ours", Answer{Results: []Result{without(a, func(u *UsageRecord) { u.Allocations = nil })}}, "d1 Success", "", 0},
		{"twice", Answer{Results: []Result{result(a, Success), result(a, DuplicateRecord)}}, "d1 Success", "", 1},
		{"an unknown status, then a known one", Answer{Results: []Result{result(a, "Odd"), result(a, Success)}}, "d1 Success", "", 1},
		{"a result and unprocessed", Answer{Results: []Result{result(a, Success)}, Unprocessed: []UsageRecord{a.Usage()}}, "d1 Success", "", 0},
		{"unprocessed twice", Answer{Unprocessed: []UsageRecord{a.Usage(), a.Usage()}}, "", "d1", 0},
		{"somebody else's", Answer{Results: []Result{result(sized(9, 0), Success)}, Unprocessed: []UsageRecord{sized(8, 0).Usage()}}, "", "", 1},
		{"legacy", Answer{Results: []Result{result(legacy, Success)}}, "api_calls Success", "", 0},
	} {
		verdicts, left, unmatched := Match([]Record{a, b, c, legacy}, tt.answer)
		var said, open []string
		for _, v := range verdicts {
			said = append(said, v.Record.Dimension+" "+string(v.Status))
			if diff := cmp.Diff(v.Record.Usage(), v.Sent); diff != "" || v.RecordID != "id-"+v.Record.Dimension {
				t.Errorf("%s: verdict %+v", tt.name, v)
			}
		}
		for _, r := range left {
			open = append(open, r.Dimension)
		}
		if got := strings.Join(said, ", "); got != tt.verdicts || strings.Join(open, ", ") != tt.left || unmatched != tt.unmatched {
			t.Errorf("%s: verdicts %q, left %q, unmatched %d; want %q, %q, %d", tt.name, got, open, unmatched, tt.verdicts, tt.left, tt.unmatched)
		}
	}
}

// spoken is what an answer said of each record, by dimension.
func spoken(verdicts []Verdict, left []Record) map[string]string {
	m := map[string]string{}
	for _, v := range verdicts {
		m[v.Record.Dimension] += fmt.Sprint(v.Status, v.RecordID, v.Sent)
	}
	for _, r := range left {
		m[r.Dimension] += "left"
	}
	return m
}

func TestMatchInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var sent []Record
		var answer Answer
		for i := range rapid.IntRange(0, 25).Draw(t, "records") {
			r := sized(i, 0)
			sent = append(sent, r)
			switch status := rapid.SampledFrom([]Status{Success, DuplicateRecord, CustomerNotSubscribed, "Odd", "unprocessed", "unmentioned"}).Draw(t, "status"); status {
			case "unprocessed":
				answer.Unprocessed = append(answer.Unprocessed, r.Usage())
			case "unmentioned":
			default:
				answer.Results = append(answer.Results, result(r, status))
			}
		}
		shuffled := Answer{rapid.Permutation(answer.Results).Draw(t, "results"), rapid.Permutation(answer.Unprocessed).Draw(t, "unprocessed")}
		v1, l1, u1 := Match(sent, answer)
		v2, l2, u2 := Match(rapid.Permutation(sent).Draw(t, "sent"), shuffled)
		if diff := cmp.Diff(spoken(v1, l1), spoken(v2, l2)); diff != "" || u1 != u2 {
			t.Fatalf("%d, %d unmatched\n%s", u1, u2, diff)
		}
		if len(v1)+u1 != len(answer.Results) || len(l1) != len(answer.Unprocessed) {
			t.Fatalf("%d verdicts and %d unmatched of %d, %d left of %d", len(v1), u1, len(answer.Results), len(l1), len(answer.Unprocessed))
		}
	})
}
