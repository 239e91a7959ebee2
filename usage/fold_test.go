package usage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/usage"
)

func TestRowOfAnEvent(t *testing.T) {
	t.Parallel()
	day := func(clock string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, "2026-03-10T"+clock)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	tests := []struct {
		fold time.Duration
		at   string
		want string
	}{
		{0, "14:05:00Z", "2026-03-10T14:05:59"},
		{0, "14:05:59.999999999Z", "2026-03-10T14:05:59"},
		{0, "14:06:00Z", "2026-03-10T14:06:59"},
		{0, "13:59:59.9Z", "2026-03-10T13:59:59"}, // case 21: hours are half-open
		{0, "14:00:00Z", "2026-03-10T14:00:59"},
		{0, "16:05:10+02:00", "2026-03-10T14:05:59"}, // case 23: UTC whatever the zone
		{time.Second, "14:05:10.7Z", "2026-03-10T14:05:10"},
		{5 * time.Minute, "14:05:10Z", "2026-03-10T14:09:59"},
		{90 * time.Second, "14:01:30Z", "2026-03-10T14:02:59"},
		{time.Minute, "15:20:10Z", "2026-03-10T15:20:59"}, // the minute in progress
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.fold, " ", tt.at), func(t *testing.T) {
			t.Parallel()
			s := memory.New(memory.Options{})
			w := writer(t, s, usage.Options{Fold: tt.fold})
			e := at(used(3), day(tt.at))
			add(t, w, e)
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]int64{tt.want: 3}, held(t, s, e)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// refusals are events that can never be billed, with the reason; the first event beside each is fine.
func refusals() map[string]struct {
	first  usage.Event
	event  usage.Event
	reason usage.Reason
} {
	with := func(change func(*usage.Event)) usage.Event {
		e := used(3)
		change(&e)
		return e
	}
	type refusal = struct {
		first, event usage.Event
		reason       usage.Reason
	}
	legacy := with(func(e *usage.Event) { e.License, e.CustomerIdentifier = "product", "one" })
	many := func(n int) usage.Event {
		e := used(int64(n))
		for i := range n {
			e.Allocations = append(e.Allocations, usage.Allocation{Quantity: 1, Tags: []usage.Tag{{Key: "n", Value: fmt.Sprint(n, i)}}})
		}
		return e
	}
	return map[string]refusal{
		"no license":         {used(1), with(func(e *usage.Event) { e.License = "" }), "InvalidLicenseArn"},
		"no ARN":             {used(1), with(func(e *usage.Event) { e.License = "arn:aws" }), "InvalidLicenseArn"},
		"no account":         {used(1), with(func(e *usage.Event) { e.Account = "" }), "MissingCustomerAWSAccountId"},
		"short account":      {used(1), with(func(e *usage.Event) { e.Account = "11112222333" }), "InvalidCustomerAWSAccountId"},
		"no dimension":       {used(1), with(func(e *usage.Event) { e.Dimension = "" }), "MissingDimension"},
		"long dimension":     {used(1), with(func(e *usage.Event) { e.Dimension = strings.Repeat("𝄞", 255) }), "DimensionTooLong"}, // case 34
		"no text":            {used(1), with(func(e *usage.Event) { e.Dimension = "caf\xe9" }), "MalformedSortKey"},
		"no text of a name":  {used(1), with(func(e *usage.Event) { e.License, e.CustomerIdentifier = "product\xff", "one" }), "InvalidLicenseArn"},
		"no text of a buyer": {used(1), with(func(e *usage.Event) { e.License, e.CustomerIdentifier = "product", "\xff" }), "MissingLegacyIdentifier"},
		"identifier and ARN": {used(1), with(func(e *usage.Event) { e.CustomerIdentifier = "one" }), "ConflictingIdentifier"},
		"legacy alone":       {used(1), with(func(e *usage.Event) { e.License = "product" }), "MissingLegacyIdentifier"},
		"another identifier": {legacy, func() usage.Event { e := legacy; e.CustomerIdentifier = "two"; return e }(), "ConflictingIdentifier"},
		"negative":           {used(1), used(-1), "NegativeQuantity"},
		"too much":           {used(1), used(metering.MaxQuantity + 1), "QuantityOutOfRange"},
		"too much together":  {used(1), used(metering.MaxQuantity), "QuantityOutOfRange"},
		"no time":            {used(1), at(used(3), time.Time{}), usage.HourClosed},
		"too old":            {used(1), at(used(3), noon.Add(-24*time.Hour)), usage.HourClosed},
		"too far ahead":      {used(1), at(used(3), noon.Add(5*time.Minute)), "TimestampInFuture"}, // case 25
		"sums differ":        {tagged(1, "blue"), with(func(e *usage.Event) { e.Allocations = []usage.Allocation{{Quantity: 2}} }), "AllocationSumMismatch"},
		"no tag value":       {tagged(1, "blue"), tagged(3, ""), "MissingTagKeyOrValue"},
		"a strange tag":      {tagged(1, "blue"), tagged(3, "a,b"), "InvalidTag"},
		"tagged to untagged": {used(1), tagged(3, "blue"), "MixedAllocatedAndUnallocated"},
		"untagged to tagged": {tagged(1, "blue"), used(3), "MixedAllocatedAndUnallocated"},
		"mixed over an hour": {used(1), at(tagged(3, "blue"), noon.Add(-5*time.Minute)), "MixedAllocatedAndUnallocated"},
		"too many tags":      {tagged(1, "blue"), many(2501), "TooManyAllocations"},
		"too many tags in 2": {many(2499), many(2), "TooManyAllocations"},
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, tt := range refusals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := memory.New(memory.Options{})
			w := writer(t, s, usage.Options{})
			add(t, w, tt.first)
			check := func(err error) {
				t.Helper()
				var refusal *usage.Refusal
				if !errors.As(err, &refusal) || refusal.Reason != tt.reason {
					t.Fatalf("answer: %v, want %s", err, tt.reason)
				}
				if strings.Contains(refusal.What, "a row like this") || refusal.Hint == "" {
					t.Errorf("%s is not explained", refusal.Reason)
				}
			}
			check(w.Add(t.Context(), tt.event))
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			s = memory.New(memory.Options{})
			errs, err := writer(t, s, usage.Options{}).WriteBatch(t.Context(), "id", []usage.Event{tt.first, tt.event, tt.first})
			if err != nil || errs[0] != nil || errs[2] != nil {
				t.Fatalf("batch: %v, %v", errs, err)
			}
			check(errs[1])
			var sum int64
			for _, q := range held(t, s, tt.first) {
				sum += q
			}
			if want := 2 * tt.first.Quantity; sum != want {
				t.Errorf("the rows hold %d, want %d", sum, want)
			}
		})
	}
}

// What is taken although it looks odd.
func TestTaken(t *testing.T) {
	t.Parallel()
	zero := used(0)
	zero.Allocations = []usage.Allocation{{Tags: []usage.Tag{{Key: "team", Value: "blue"}}}}
	most := used(2500) // mostAllocations: with one more it is refused (TestRefusals)
	for i := range 2500 {
		most.Allocations = append(most.Allocations, usage.Allocation{Quantity: 1, Tags: []usage.Tag{{Key: "n", Value: fmt.Sprint(i)}}})
	}
	for name, list := range map[string][]usage.Event{
		"as many tags as can be":          {most},
		"nothing, then tagged":            {used(0), tagged(3, "blue")},
		"nothing of a tag, then untagged": {zero, used(3)},
		"a clock ahead":                   {at(used(3), noon.Add(4*time.Minute-time.Second))},
		"the last instant that is billed": {at(used(3), noon.Add(-23*time.Hour))},
		"as much as can be":               {used(metering.MaxQuantity)},
		"a dimension with a hash":         {func() usage.Event { e := used(3); e.Dimension = "api#2026-03-10T14"; return e }()}, // case 35
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := memory.New(memory.Options{})
			w := writer(t, s, usage.Options{})
			add(t, w, list...)
			if err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			last := list[len(list)-1]
			commit(t, s, last)
			if r, err := s.Record(t.Context(), groupOf(last)); err != nil || r.Quantity != metering.Units(last.Quantity) {
				t.Errorf("record: %+v, %v", r, err)
			}
		})
	}
}

func TestAllocationsAreMerged(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	w := writer(t, s, usage.Options{})
	for i := range 5000 { // far more than a row may have allocations
		add(t, w, tagged(2, fmt.Sprint("team ", i%3)))
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for row, err := range s.GroupRows(t.Context(), groupOf(used(1))) {
		var want []metering.Allocation
		for i, n := range []int64{3334, 3334, 3332} {
			want = append(want, metering.Allocation{Quantity: n, Tags: []metering.Tag{{Key: "team", Value: fmt.Sprint("team ", i)}}})
		}
		if diff := cmp.Diff(want, row.Allocations); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		o    usage.Options
		want string // empty: it is taken
	}{
		{"none", usage.Options{}, ""},
		{"the finest", usage.Options{Fold: time.Second}, ""},
		{"the longest", usage.Options{Fold: 5 * time.Minute, FlushEvery: 4 * time.Minute}, ""},
		{"fold too long", usage.Options{Fold: 6 * time.Minute}, "Fold"},
		{"fold too fine", usage.Options{Fold: time.Millisecond}, "Fold"},
		{"fold that does not divide the hour", usage.Options{Fold: 7 * time.Second}, "Fold"},
		{"fold of no whole seconds", usage.Options{Fold: 1500 * time.Millisecond}, "Fold"},
		{"an hour would be metered first", usage.Options{FlushEvery: 5 * time.Minute}, "FlushEvery"},
		{"a row would fill up", usage.Options{FlushEvery: 600 * time.Millisecond}, "FlushEvery"},
		{"negative FlushEvery", usage.Options{FlushEvery: -1}, "FlushEvery"},
		{"negative MaxRows", usage.Options{MaxRows: -1}, "MaxRows"},
		{"negative Parallel", usage.Options{Parallel: -1}, "Parallel"},
		{"a window of half an hour", usage.Options{Window: 30 * time.Minute}, "window"},
	} {
		w, err := usage.NewWriter(swift{}, tt.o)
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v", tt.name, err)
		case err == nil:
			if err := w.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := usage.NewWriter(nil, usage.Options{}); err == nil {
		t.Error("a writer without a table was made")
	}
}
