package metering

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What follows takes bytes as sellers, queues and the Marketplace's events bring them, and asks for what money hangs on.

// overlaid is the item with two attributes, by their places in the list of names, as value says.
func overlaid(base Item, names []string, a uint8, x string, b uint8, y string) Item {
	return base.with(names[int(a)%len(names)], value(x), names[int(b)%len(names)], value(y))
}

// value is what a text stands for: JSON where it is JSON, else itself, and an attribute that is missing where it is empty.
func value(text string) any {
	if text == "" {
		return without{}
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return text
	}
	return v
}

// values are some that attributes have been found to hold.
func values() []string {
	return []string{
		"", `"7"`, "7", "3.0", "2.5", "-1", "-0", "2147483648", "1e400", "1000000000001", "true", "null", `""`, "cust-1", "prod-abc", "RejectedClientSide",
		"2026-03-10T14:00:05", "2026-03-10T13:59:59", "2026-03-10T15", "2026-03-10T14:00:05.25+01:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00",
		`[{"AllocatedUsageQuantity":3}]`, `[{"AllocatedUsageQuantity":1,"Tags":[{"Key":"team","Value":"a"}]},{"AllocatedUsageQuantity":2}]`, `[{"AllocatedUsageQuantity":3.0,"Tags":[]}]`,
		`[{"AllocatedUsageQuantity":3,"Tags":[{"Key":"ä","Value":""}],"Colour":"red"}]`, `["a","b"]`, `["2026-03-10T14:00:00Z","x"]`, "[]", "[[]]", `{"a":1.50}`,
	}
}

// seedValues lets each value stand in each of a few attributes.
func seedValues(names []string, add func(a uint8, x string, b uint8, y string)) {
	all := values()
	for i, x := range all {
		for a := range names {
			if (a+i)%9 == 0 {
				add(uint8(a), x, uint8(a+i), all[(a+i)%len(all)])
			}
		}
	}
}

// knownReasons are all the reasons that an item may be refused for, and none.
func knownReasons() map[Reason]bool {
	known := map[Reason]bool{"": true}
	for _, r := range reasons() {
		known[r.want] = true
	}
	return known
}

// unchanged reports the first attribute, but for those named, that is not in after what it is in before.
func unchanged(t *testing.T, before, after Item, but ...string) {
	t.Helper()
	for name := range maps.Keys(before) {
		if v, ok := after[name]; !slices.Contains(but, name) && (!ok || !SameValue(before[name], v)) {
			t.Errorf("%s was %#v and is %#v", name, before[name], v)
		}
	}
	for name := range maps.Keys(after) {
		if _, ok := before[name]; !ok && !slices.Contains(but, name) {
			t.Errorf("%s has come from nowhere: %#v", name, after[name])
		}
	}
}

// sumOf is what allocations add up to.
func sumOf(list []Allocation) (sum int64) {
	for _, a := range list {
		sum += a.Quantity
	}
	return sum
}

// FuzzRow: a row reads back as it was stored; it is refused for a known reason, or all its parts are in range; a label changes what it
// names and nothing else.
func FuzzRow(f *testing.F) {
	seedValues(rowAttributes, func(a uint8, x string, b uint8, y string) { f.Add("api_calls", a, x, b, y) })
	for i, d := range []string{"a#b \u2028\uffff", "", "#", "caf\xe9", strings.Repeat("é", 256)} {
		f.Add(d, uint8(i), values()[i], uint8(2*i), values()[2*i+1])
	}
	known, now := knownReasons(), instant("2026-03-10T15:20:00Z")
	f.Fuzz(func(t *testing.T, d string, a uint8, x string, b uint8, y string) {
		item := overlaid(rowItem().with(dimension(d)...), rowAttributes, a, x, b, y)
		row := RowFromItem(item)
		stored := row.Item()
		unchanged(t, item, stored)
		if diff := cmp.Diff(row, RowFromItem(stored)); diff != "" || row.Fingerprint() != RowFromItem(stored).Fingerprint() {
			t.Errorf("read anew:\n%s", diff)
		}
		reason := row.Validate(now)
		if !known[reason] {
			t.Errorf("reason %q", reason)
		}
		if reason == "" {
			soundRow(t, row, now)
		}
		labelled(t, row, now)
	})
}

// soundRow checks a row that was found valid, by other means than those that found it so.
func soundRow(t *testing.T, row Row, now time.Time) {
	key, reason := ParseRowKey(row.SortKey)
	g := key.Group(row.License)
	if reason != "" || g.RowKey(key.Second) != row.SortKey || !strings.HasPrefix(row.SortKey, g.RowPrefix()) || len(row.SortKey) > 1024 {
		t.Errorf("sort key %q of %+v", row.SortKey, g)
	}
	if row.Account != g.Account || row.Dimension != g.Dimension || row.Timestamp != key.Second.String() || key.Second.Time().After(now.Add(5*time.Minute)) {
		t.Errorf("row %+v, key %+v", row, key)
	}
	if q := row.Quantity; !q.Whole || q.N < 0 || q.N > MaxQuantity {
		t.Errorf("quantity %+v", q)
	}
	if list := row.Allocated(); len(list) > 0 && (sumOf(list) != row.Quantity.N || len(list) > maxAllocations) {
		t.Errorf("allocations %+v of %d", list, row.Quantity.N)
	}
	if LegacyLicense(row.License) != (row.CustomerIdentifier != "") {
		t.Errorf("identifier %q beside license %q", row.CustomerIdentifier, row.License)
	}
	work, err := Decode[WorkMessage](Encode(NewWorkMessage(g, false)))
	if visited, errGroup := work.Group(); err != nil || errGroup != nil || visited != g {
		t.Errorf("its group %+v is visited as %+v: %v, %v", g, visited, err, errGroup)
	}
}

// labelled puts the label of a rejection on a row.
func labelled(t *testing.T, row Row, now time.Time) {
	judged := NewCleanupRow(row)
	l := Label{
		License: row.License, SortKey: row.SortKey, Marker: true, Fingerprint: judged.Fingerprint,
		Status: RejectedClientSide, Reason: string(MissingQuantity), At: now,
	}
	if judged.Units() < 0 || judged.Late < 0 || l.Holds(row) != (row.Pending != "") {
		t.Errorf("%+v holds: %v, of %+v", judged, l.Holds(row), row)
	}
	after := l.Apply(row)
	if !l.Shows(after) || after.Fingerprint() != row.Fingerprint() {
		t.Errorf("%+v does not show in %+v", l, after)
	}
	unchanged(t, row.Item(), after.Item(), AttrPending, AttrStatus, AttrStatusReason, AttrLateQuantity, AttrCreatedAt, AttrUpdatedAt)
}

// FuzzRecord: a record reads back as it was stored; it is refused for a known reason, or what is sent for it is what the API takes, in
// the record's own hour.
func FuzzRecord(f *testing.F) {
	seedValues(recordAttributes, func(a uint8, x string, b uint8, y string) { f.Add(a, x, b, y) })
	known, now := knownReasons(), instant("2026-03-10T15:20:00Z")
	f.Fuzz(func(t *testing.T, a uint8, x string, b uint8, y string) {
		item := overlaid(recordItem(), recordAttributes, a, x, b, y)
		r := RecordFromItem(item)
		stored := r.Item()
		unchanged(t, item, stored)
		if diff := cmp.Diff(r, RecordFromItem(stored)); diff != "" || r.Fingerprint() != RecordFromItem(stored).Fingerprint() {
			t.Errorf("read anew:\n%s", diff)
		}
		reason := r.Validate()
		if !known[reason] {
			t.Errorf("reason %q", reason)
		}
		if reason == "" {
			soundRecord(t, r)
		}
		if m, err := r.Covers(); err == nil && m.Count() > 0 && m.String() == "" {
			t.Errorf("manifest %q", r.Manifest)
		}
		finish := FinishRejected(r, "why", now)
		after := finish.Apply(r)
		if finish.Holds(r) != (r.Pending != "" && r.Status != Success) || !finish.Shows(after) {
			t.Errorf("%+v of %+v", finish, r)
		}
		unchanged(t, stored, after.Item(), AttrPending, AttrStatus, AttrStatusReason, AttrBilledQuantity, AttrCreatedAt, AttrUpdatedAt)
	})
}

func soundRecord(t *testing.T, r Record) {
	g, reason := r.Group()
	if reason != "" || g.RecordKey() != r.SortKey || r.HourBucket != g.Hour.String() || r.Account != g.Account || r.Dimension != g.Dimension {
		t.Errorf("record %+v of group %+v", r, g)
	}
	u := r.Usage()
	if u.Second.Hour() != g.Hour {
		t.Errorf("usage of %v is sent at %v", g.Hour, u.Second)
	}
	if (u.License == "") == (u.Identifier == "") || (u.License == "") != (u.Account == "") || u.Dimension != g.Dimension {
		t.Errorf("what is sent is of two identities, or none: %+v", u)
	}
	if u.Quantity < 0 || u.Quantity > MaxQuantity || len(u.Allocations) > 0 && sumOf(u.Allocations) != u.Quantity {
		t.Errorf("what is sent: %+v", u)
	}
	if onWire := callEnvelope + len(wireText(u)); onWire >= maxCallBytes || len(wireText(u)) > u.wireSize() {
		t.Errorf("%d bytes on the wire, %d expected", onWire, u.wireSize())
	}
	verdicts, left, unmatched := Match([]Record{r}, Answer{Results: []Result{{Usage: u, Status: Success, RecordID: "id"}}})
	if len(verdicts) != 1 || len(left) != 0 || unmatched != 0 || verdicts[0].Sent.Quantity != u.Quantity {
		t.Errorf("its own Success is matched as %+v, %+v, %d", verdicts, left, unmatched)
	}
}

// wireText is a record as the API's JSON has it, with all characters escaped that any encoder escapes.
func wireText(u UsageRecord) []byte {
	type tag struct{ Key, Value string }
	type allocated struct {
		AllocatedUsageQuantity int64
		Tags                   []tag `json:",omitempty"`
	}
	wire := struct {
		Timestamp                                            int64
		Dimension                                            string
		Quantity                                             int64
		CustomerAWSAccountID, CustomerIdentifier, LicenseArn string      `json:",omitempty"`
		UsageAllocations                                     []allocated `json:",omitempty"`
	}{Timestamp: int64(u.Second), Dimension: u.Dimension, Quantity: u.Quantity, CustomerAWSAccountID: u.Account, CustomerIdentifier: u.Identifier, LicenseArn: u.License}
	for _, a := range u.Allocations {
		var tags []tag
		for _, t := range a.Tags {
			tags = append(tags, tag(t))
		}
		wire.UsageAllocations = append(wire.UsageAllocations, allocated{a.Quantity, tags})
	}
	text, err := json.Marshal(wire)
	if err != nil {
		panic(err)
	}
	return text
}

// FuzzSubscriber: a subscriber reads back as it was stored and loses no attribute; an event applied twice is applied once.
func FuzzSubscriber(f *testing.F) {
	base := Item{
		AttrLicense: licenseA, AttrAccount: buyer, AttrProductCode: "prod-1", AttrAgreement: "agmt-1", AttrAgreementStatus: "active", AttrAgreementStatusAt: "2026-03-01T00:00:00Z",
		AttrSubscriptionStatus: "deprovisioning", AttrSubscriptionStatusAt: "2026-03-10T14:00:00Z", AttrLicenseUpdatedAt: "2026-03-01T00:00:00Z", AttrRegisteredRegions: []any{"us-east-1", "eu-west-1"},
		AttrDeprovisioningFlag: "1", AttrDeprovisioningExpiry: "2026-03-10T15:00:00Z", AttrDeprovisionedAt: []any{"2026-03-10T14:00:00Z"},
	}
	names := append(subscriberAttributes(), "note")
	seedValues(names, func(a uint8, x string, b uint8, y string) { f.Add(a, x, b, y, int64(1773151200)) })
	f.Fuzz(func(t *testing.T, a uint8, x string, b uint8, y string, at int64) {
		if at < -62135596800 || at > 253402297199 { // what events tell lies in the years 1 to 9999
			t.Skip()
		}
		item := overlaid(base, names, a, x, b, y)
		s := SubscriberFromItem(item)
		stored := s.Item()
		for name, v := range item {
			if _, ok := stored[name]; !ok {
				t.Errorf("%s is lost: %#v", name, v)
			}
		}
		if len(stored) != len(item) {
			t.Errorf("%d attributes of %d", len(stored), len(item))
		}
		if diff := cmp.Diff(s, SubscriberFromItem(stored)); diff != "" {
			t.Errorf("read anew:\n%s", diff)
		}
		now := time.Unix(at, 0).UTC()
		told := LicenseEvent{License: s.License, Account: s.Account, Agreement: "agmt-2", ProductCode: "prod-2", At: now}
		ended := AgreementEvent{Agreement: s.Agreement, End: now, At: now}
		for name, change := range map[string]SubscriberChange{
			"updated": told.UpdatedAt(now), "deprovisioned": told.DeprovisionedAt(now), "registered": Registered(s.License, s.Account, "prod-2", "us-east-1", now),
			"ended": ended.EndedAt(s.License, s.Account, now), "amended": ended.AmendedAt(s.License, s.Account, now), "finalized": FinalizeAt(s.License, s.Account, now),
		} {
			after, _ := change.Apply(&s)
			after = SubscriberFromItem(after.Item())
			if again, changed := change.Apply(&after); changed {
				t.Errorf("%s twice (-once +twice):\n%s", name, cmp.Diff(after, again))
			}
			if after.Status == LifecycleInactive && !after.Expiry.IsZero() && s.Status != LifecycleInactive {
				t.Errorf("%s: inactive, and its last hour ends at %v", name, after.Expiry)
			}
			unchanged(t, s.Other, after.Other, subscriberAttributes()...)
		}
	})
}

// subscriberAttributes are those that the rules may write.
func subscriberAttributes() []string {
	return []string{
		AttrLicense, AttrAccount, AttrProductCode, AttrAgreement, AttrAgreementStatus, AttrAgreementStatusAt, AttrAgreementStart, AttrAgreementEnd, AttrAgreementEndedAt,
		AttrAgreementAmendedAt, AttrSubscriptionStatus, AttrSubscriptionStatusAt, AttrLicenseUpdatedAt, AttrDeprovisionedAt, AttrDeprovisioningFlag, AttrDeprovisioningExpiry,
		AttrRegisteredRegions, AttrCreatedAt, AttrUpdatedAt,
	}
}
