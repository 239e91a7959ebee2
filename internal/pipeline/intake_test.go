package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

func number(s string) json.Number { return json.Number(s) }

// TestF18EveryWrongFormOfARecord: whatever a direct-submit seller may have written, the record is refused by name before any call, with a
// metric and its units, and the good record beside it is let through.
func TestF18EveryWrongFormOfARecord(t *testing.T) {
	t.Parallel()
	allocated := func(q any, tags ...any) []any {
		a := map[string]any{"AllocatedUsageQuantity": q}
		if len(tags) > 0 {
			a["Tags"] = tags
		}
		return []any{a}
	}
	tagged := func(key, value any) map[string]any { return map[string]any{"Key": key, "Value": value} }
	set := func(name string, v any) metering.Item { return metering.Item{name: v} }
	const legacy = "legacy-product"
	for name, c := range map[string]struct {
		change metering.Item
		reason metering.Reason
	}{
		"no hour":               {set(metering.AttrHour, nil), metering.SortKeyMismatch},
		"empty hour":            {set(metering.AttrHour, ""), metering.SortKeyMismatch},
		"another hour":          {set(metering.AttrHour, "2026-03-10T13"), metering.SortKeyMismatch},
		"hour with minutes":     {set(metering.AttrHour, "2026-03-10T14:00"), metering.SortKeyMismatch},
		"hour as a number":      {set(metering.AttrHour, number("14")), metering.SortKeyMismatch},
		"no dimension":          {set(metering.AttrDimension, nil), metering.MissingDimension},
		"empty dimension":       {set(metering.AttrDimension, ""), metering.MissingDimension},
		"another dimension":     {set(metering.AttrDimension, "other"), metering.SortKeyMismatch},
		"no account":            {set(metering.AttrAccount, nil), metering.MissingCustomerAWSAccountID},
		"empty account":         {set(metering.AttrAccount, ""), metering.MissingCustomerAWSAccountID},
		"another account":       {set(metering.AttrAccount, "444455556666"), metering.SortKeyMismatch},
		"key of one segment":    {set(metering.AttrRecordKey, "x"), metering.MalformedSortKey},
		"key of two segments":   {set(metering.AttrRecordKey, buyer+"#2026-03-10T14"), metering.MalformedSortKey},
		"key with no hour":      {set(metering.AttrRecordKey, buyer+"#"+apiCalls+"#now"), metering.MalformedTimestamp},
		"key of another hour":   {set(metering.AttrRecordKey, buyer+"#"+apiCalls+"#2026-03-10T13"), metering.SortKeyMismatch},
		"eleven digits":         {metering.Item{metering.AttrAccount: "11112222333", metering.AttrRecordKey: "11112222333#" + apiCalls + "#2026-03-10T14"}, metering.InvalidCustomerAWSAccountID},
		"long dimension":        {metering.Item{metering.AttrDimension: strings.Repeat("d", 256), metering.AttrRecordKey: buyer + "#" + strings.Repeat("d", 256) + "#2026-03-10T14"}, metering.DimensionTooLong},
		"malformed license":     {set(metering.AttrLicense, "arn:aws:license manager"), metering.InvalidLicenseArn},
		"license without arn:":  {set(metering.AttrLicense, strings.TrimPrefix(licenseOne, "arn:")), metering.InvalidLicenseArn},
		"both identities":       {set(metering.AttrCustomerIdentifier, "cust"), metering.ConflictingIdentifier},
		"legacy, no identifier": {set(metering.AttrLicense, legacy), metering.MissingLegacyIdentifier},
		"no quantity":           {set(metering.AttrQuantity, nil), metering.MissingQuantity},
		"quantity as text":      {set(metering.AttrQuantity, "7"), metering.NonNumericQuantity},
		"quantity true":         {set(metering.AttrQuantity, true), metering.NonNumericQuantity},
		"quantity null":         {metering.Item{metering.AttrQuantity: []any(nil)}, metering.NonNumericQuantity},
		"quantity 2.5":          {set(metering.AttrQuantity, number("2.5")), metering.NonIntegerQuantity},
		"quantity -1":           {set(metering.AttrQuantity, number("-1")), metering.NegativeQuantity},
		"quantity 2^31":         {set(metering.AttrQuantity, number("2147483648")), metering.QuantityOutOfRange},
		"allocations as text":   {set(metering.AttrAllocations, "all"), metering.MalformedAllocations},
		"allocation as text":    {set(metering.AttrAllocations, []any{"x"}), metering.MalformedAllocations},
		"allocated 1.5":         {set(metering.AttrAllocations, allocated(number("1.5"))), metering.NegativeOrNonIntegerAllocation},
		"allocated -1":          {set(metering.AttrAllocations, allocated(number("-1"))), metering.NegativeOrNonIntegerAllocation},
		"allocated 3 of 7":      {set(metering.AttrAllocations, allocated(number("3"))), metering.AllocationSumMismatch},
		"tag without value":     {set(metering.AttrAllocations, allocated(number("7"), map[string]any{"Key": "k"})), metering.MissingTagKeyOrValue},
		"tag with empty key":    {set(metering.AttrAllocations, allocated(number("7"), tagged("", "v"))), metering.MissingTagKeyOrValue},
		"tag with a line break": {set(metering.AttrAllocations, allocated(number("7"), tagged("k", "a\nb"))), metering.InvalidTag},
		"tag key of 101":        {set(metering.AttrAllocations, allocated(number("7"), tagged(strings.Repeat("k", 101), "v"))), metering.InvalidTag},
		"six tags":              {set(metering.AttrAllocations, allocated(number("7"), tagged("a", "v"), tagged("b", "v"), tagged("c", "v"), tagged("d", "v"), tagged("e", "v"), tagged("f", "v"))), metering.TooManyTags},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			bad := altered(metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 7), c.change)
			good := metering.NewRecord(groupOf(licenseTwo, apiCalls, hour), 3)
			b.putRecords(bad, good)
			m := &listing{}
			s, err := b.submitter(m).Run(b.ctx)
			if err != nil || s.Rejected != 1 {
				t.Errorf("%+v, %v", s, err)
			}
			if list := m.all(); len(list) != 1 || list[0].License != licenseTwo {
				t.Errorf("let through: %+v", list)
			}
			got := b.record(bad)
			if got.Status != metering.RejectedClientSide || got.StatusReason != string(c.reason) || got.Pending != "" {
				t.Errorf("%s %q, pending %q; want %s", got.Status, got.StatusReason, got.Pending, c.reason)
			}
			units, _ := bad.Quantity.Count()
			if n := b.metrics.By(metering.MetricRowRejected, string(c.reason)); n.Items != 1 || n.Units != units {
				t.Errorf("metric %+v, want 1 with %d", n, units)
			}
		})
	}
}

// TestF18MarkerOfAnotherHour: the record waits under an hour that is not its own. It is refused, not sent twice.
func TestF18MarkerOfAnotherHour(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 7)
	r.Pending = (hour - 1).String()
	b.putRecords(r)
	m := &listing{}
	if _, err := b.submitter(m).Run(b.ctx); err != nil || len(m.all()) > 0 {
		t.Errorf("let through %+v, %v", m.all(), err)
	}
	if got := b.record(r); got.Status != metering.RejectedClientSide || got.StatusReason != string(metering.SortKeyMismatch) {
		t.Errorf("record %+v", got)
	}
}

// TestUnknownAttributesAreNoFault: attributes that the pipeline does not know are kept and refuse nothing.
func TestUnknownAttributesAreNoFault(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := altered(metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 7), metering.Item{"note": "ours", "tags": []any{"x"}})
	b.putRecords(r)
	m := &listing{}
	if _, err := b.submitter(m).Run(b.ctx); err != nil || len(m.all()) != 1 {
		t.Errorf("let through %+v, %v", m.all(), err)
	}
	if got := b.record(r); got.Other["note"] != "ours" || got.Pending == "" {
		t.Errorf("record %+v", got)
	}
}

// legacyOf is a record of the legacy scheme.
func legacyOf(partition, identifier, dimension string, h metering.Hour, quantity int64) metering.Record {
	r := metering.NewRecord(groupOf(partition, dimension, h), quantity)
	r.CustomerIdentifier = identifier
	return r
}

// TestTwins: what must not be sent beside each other in one run. Partitions sort as they stand: "acme" before every ARN, "legacy" after.
func TestTwins(t *testing.T) {
	t.Parallel()
	arn := metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 2)
	for name, c := range map[string]struct {
		records []metering.Record
		cap     int
		closing bool
		sent    []string // partitions, in order
		refused map[string]metering.Reason
	}{
		"legacy before its ARN": {[]metering.Record{legacyOf("acme", "c", apiCalls, hour, 2), arn}, 0, false,
			[]string{licenseOne}, map[string]metering.Reason{"acme": metering.MixedIdentitySchemes}},
		"legacy after its ARN": {[]metering.Record{arn, legacyOf("legacy", "c", apiCalls, hour, 2)}, 0, false,
			[]string{licenseOne}, map[string]metering.Reason{"legacy": metering.MixedIdentitySchemes}},
		"the cap between, legacy before": {[]metering.Record{legacyOf("acme", "c", apiCalls, hour, 2), arn}, 1, false,
			[]string{licenseOne}, map[string]metering.Reason{"acme": metering.MixedIdentitySchemes}},
		"the cap between, legacy after": {[]metering.Record{arn, legacyOf("legacy", "c", apiCalls, hour, 2)}, 1, false,
			[]string{licenseOne}, map[string]metering.Reason{"legacy": metering.MixedIdentitySchemes}},
		"the cap in an older hour, ARN closing": {[]metering.Record{arn, metering.NewRecord(groupOf(licenseTwo, apiCalls, hour-3), 1), legacyOf("legacy", "c", apiCalls, hour, 2)}, 1, true,
			[]string{licenseOne, licenseTwo}, map[string]metering.Reason{"legacy": metering.MixedIdentitySchemes}},
		"another dimension": {[]metering.Record{arn, legacyOf("legacy", "c", "other", hour, 2)}, 0, false,
			[]string{licenseOne, "legacy"}, nil},
		"another hour": {[]metering.Record{arn, legacyOf("legacy", "c", apiCalls, hour-1, 2)}, 0, false,
			[]string{"legacy", licenseOne}, nil},
		"one identifier in two partitions": {[]metering.Record{legacyOf("legacy-a", "c", apiCalls, hour, 2), legacyOf("legacy-b", "c", apiCalls, hour, 5)}, 0, false,
			[]string{"legacy-a"}, map[string]metering.Reason{"legacy-b": metering.DuplicateIdentity}},
		"one identifier across the cap": {[]metering.Record{legacyOf("legacy-a", "c", apiCalls, hour, 2), legacyOf("legacy-b", "c", apiCalls, hour, 2)}, 1, false,
			[]string{"legacy-a"}, map[string]metering.Reason{"legacy-b": metering.DuplicateIdentity}},
		"two identifiers": {[]metering.Record{legacyOf("legacy-a", "c", apiCalls, hour, 2), legacyOf("legacy-b", "d", apiCalls, hour, 2)}, 0, false,
			[]string{"legacy-a", "legacy-b"}, nil},
		"the cap spares what has no twin": {[]metering.Record{arn, legacyOf("legacy", "c", "other", hour, 2)}, 1, false,
			[]string{licenseOne}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.putRecords(c.records...)
			if c.closing {
				b.deprovision(licenseOne, buyer, noon.Add(time.Hour))
			}
			m := &listing{}
			s := b.submitter(m)
			s.MaxRecords = c.cap
			if _, err := s.Run(b.ctx); err != nil {
				t.Fatal(err)
			}
			var sent []string
			for _, r := range m.all() {
				sent = append(sent, r.License)
			}
			if diff := cmp.Diff(c.sent, sent); diff != "" {
				t.Error(diff)
			}
			for _, r := range c.records {
				if got := b.record(r); got.StatusReason != string(c.refused[r.License]) {
					t.Errorf("%s: %s %q, want %q", r.License, got.Status, got.StatusReason, c.refused[r.License])
				}
			}
		})
	}
}

// TestLanes: licenses in their last hour first, the hour in progress included and not counted; then the backlog, oldest hour first, up to
// the cap, legacy last in its hour; then the grace tail, outside the cap.
func TestLanes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.now = time.Date(2026, 4, 1, 4, 20, 0, 0, time.UTC)
	current := metering.HourOf(b.now)
	tail, old, last := current-25, current-10, current-1
	b.putRecords(
		metering.NewRecord(groupOf(licenseTwo, "closing", current), 1), metering.NewRecord(groupOf(licenseTwo, "closing", old), 1), metering.NewRecord(groupOf(licenseTwo, "closing", tail), 1),
		metering.NewRecord(groupOf(licenseOne, "last", last), 1), metering.NewRecord(groupOf(licenseOne, "old", old), 1), metering.NewRecord(groupOf(licenseOne, "current", current), 1),
		metering.NewRecord(groupOf(licenseOne, "tail", tail), 1), metering.NewRecord(groupOf(licenseOne, "lapsed", current-30), 1),
		legacyOf("acme", "c", "legacy", old, 1),
	)
	b.deprovision(licenseTwo, buyer, b.now.Add(time.Hour))
	names := func(lanes [][]metering.Record) (list []string) {
		for i, lane := range lanes {
			for _, r := range lane {
				list = append(list, fmt.Sprintf("%d %s %s", i, r.Dimension, r.HourBucket))
			}
		}
		return list
	}
	closing := []string{"0 closing " + tail.String(), "0 closing " + old.String(), "0 closing " + current.String()}
	for most, backlog := range map[int][]string{
		0: {"1 old " + old.String(), "1 legacy " + old.String(), "1 last " + last.String()},
		2: {"1 old " + old.String(), "1 legacy " + old.String()},
		1: {"1 old " + old.String()},
	} {
		m := &listing{}
		s := b.submitter(m)
		s.MaxRecords = most
		if _, err := s.Run(b.ctx); err != nil {
			t.Fatal(err)
		}
		want := append(append(append([]string{}, closing...), backlog...), "2 tail "+tail.String())
		if diff := cmp.Diff(want, names(m.sent)); diff != "" {
			t.Errorf("cap %d: %s", most, diff)
		}
	}
}

// TestARecordThatCannotBeEndedHoldsUpNothing: the refusal of one malformed record cannot be written. The run says so at its end; all that
// come after it are let through.
func TestARecordThatCannotBeEndedHoldsUpNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.putRecords(
		altered(metering.NewRecord(groupOf(licenseOne, "bad", hour-2), 1), metering.Item{metering.AttrHour: nil}),
		metering.NewRecord(groupOf(licenseOne, "good", hour-2), 1), metering.NewRecord(groupOf(licenseOne, "good", hour), 1),
	)
	m := &listing{}
	s := b.submitter(m)
	s.Records = refusingFinish{b.store, "bad"}
	if _, err := s.Run(b.ctx); !errors.Is(err, errRefused) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{"good", "good"}, dimensions(m.all())); diff != "" {
		t.Error(diff)
	}
}

// failingSubscribers cannot be asked.
type failingSubscribers struct{}

func (failingSubscribers) Deprovisioning(context.Context) ([]metering.Deprovisioning, error) {
	return nil, errors.New("the table is in another Region and does not answer")
}

// TestLookupOfClosingLicensesNeverBlocks: the look-up of licenses in their last hour fails. It is counted, and everything is sent all the
// same, those licenses with the backlog; the flush, which has nothing else to do, fails.
func TestLookupOfClosingLicensesNeverBlocks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.putRecords(metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 1), metering.NewRecord(groupOf(licenseTwo, apiCalls, hour), 1))
	m := &listing{}
	s := b.submitter(m)
	s.Subscribers = failingSubscribers{}
	if _, err := s.Run(b.ctx); err != nil || len(m.all()) != 2 {
		t.Errorf("let through %d, %v", len(m.all()), err)
	}
	if n := b.metrics.Of(metering.MetricDeprovisioningLookup).Items; n != 1 {
		t.Errorf("metric %d", n)
	}
	d := b.discoverer()
	d.Subscribers = failingSubscribers{}
	if _, err := d.Run(b.ctx, pipeline.FlushSlice()); err == nil {
		t.Error("the flush should have failed")
	}
}

// patchySubscribers have an entry that cannot be read among others.
type patchySubscribers struct{ list []metering.Deprovisioning }

func (p patchySubscribers) Deprovisioning(context.Context) ([]metering.Deprovisioning, error) {
	return p.list, errRefused
}

// One subscriber whose last hour cannot be read costs no other license its own: the others are flushed and go first, and the failure is
// told.
func TestOneUnreadableLastHourCostsNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	subscribers := patchySubscribers{[]metering.Deprovisioning{{License: licenseTwo, Account: buyer, Expiry: noon.Add(30 * time.Minute)}}}
	b.put(rowAt(groupOf(licenseTwo, apiCalls, hour), 0, 1), rowAt(groupOf(licenseOne, apiCalls, hour), 0, 1))
	d := b.discoverer()
	d.Subscribers = subscribers
	if found, err := d.Run(b.ctx, pipeline.FlushSlice()); !errors.Is(err, errRefused) || found.Enqueued != 1 || found.Licenses != 1 {
		t.Errorf("flush: %+v, %v", found, err)
	}

	b.putRecords(metering.NewRecord(groupOf(licenseOne, apiCalls, hour-1), 1), metering.NewRecord(groupOf(licenseTwo, apiCalls, hour), 1))
	m := &listing{}
	s := b.submitter(m)
	s.Subscribers = subscribers
	if _, err := s.Run(b.ctx); err != nil || len(m.sent) != 3 || len(m.sent[0]) != 1 || m.sent[0][0].License != licenseTwo {
		t.Errorf("lanes %+v, %v", m.sent, err)
	}
	if n := b.metrics.Of(metering.MetricDeprovisioningLookup).Items; n != 1 {
		t.Errorf("metric %d", n)
	}
}
