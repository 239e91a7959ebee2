package intake_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/intake"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/usagefile"
	"github.com/awsmp/metering/usage"
)

const license = "arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef"

// line is a well-formed line of 7 units at 14:00:05, with attributes replaced; nil removes one.
func line(attributes metering.Item) usagefile.Line {
	item := metering.Item{
		metering.AttrLicense: license, metering.AttrAccount: "444455556666", metering.AttrDimension: "api_calls",
		metering.AttrTimestamp: "2026-03-10T14:00:05", metering.AttrQuantity: json.Number("7"),
	}
	for name, v := range attributes {
		if item[name] = v; v == nil {
			delete(item, name)
		}
	}
	return usagefile.Line{Number: 3, Item: item}
}

func TestEvent(t *testing.T) {
	t.Parallel()
	plain := usage.Event{License: license, Account: "444455556666", Dimension: "api_calls", Time: time.Date(2026, 3, 10, 14, 0, 5, 0, time.UTC), Quantity: 7}
	tagged := plain
	tagged.Allocations = []usage.Allocation{{Quantity: 4, Tags: []usage.Tag{{Key: "team", Value: "blue"}}}, {Quantity: 3}}
	list := func(four json.Number) []any {
		return []any{
			map[string]any{"AllocatedUsageQuantity": four, "Tags": []any{map[string]any{"Key": "team", "Value": "blue"}}},
			map[string]any{"AllocatedUsageQuantity": json.Number("3")},
		}
	}
	for _, tt := range []struct {
		name       string
		attributes metering.Item
		want       usage.Event
	}{
		{"plain", nil, plain},
		{"a number written otherwise", metering.Item{metering.AttrQuantity: json.Number("7.0")}, plain},
		{"the derived fields given as they are derived", metering.Item{
			metering.AttrPending: "2026-03-10T14", metering.AttrRowKey: "444455556666#api_calls#2026-03-10T14:00:05",
		}, plain},
		{"allocations", metering.Item{metering.AttrAllocations: list("4")}, tagged},
		{"allocations written otherwise", metering.Item{metering.AttrAllocations: list("4.0")}, tagged},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := intake.Event(line(tt.attributes))
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v: %s", err, diff)
			}
		})
	}
}

func TestEventRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		attributes metering.Item
		want       usagefile.Code
	}{
		{"no quantity", metering.Item{metering.AttrQuantity: nil}, "MissingQuantity"},
		{"text", metering.Item{metering.AttrQuantity: "7"}, "NonNumericQuantity"},
		{"a fraction", metering.Item{metering.AttrQuantity: json.Number("7.5")}, "NonIntegerQuantity"},
		{"a short account", metering.Item{metering.AttrAccount: "44445555666"}, "InvalidCustomerAWSAccountId"},
		{"another hour's bucket", metering.Item{metering.AttrPending: "2026-03-10T15"}, "SortKeyMismatch"},
		{"another second's key", metering.Item{metering.AttrRowKey: "444455556666#api_calls#2026-03-10T14:00:06"}, "SortKeyMismatch"},
		{"allocations that add up to less", metering.Item{metering.AttrAllocations: []any{map[string]any{"AllocatedUsageQuantity": json.Number("6")}}}, "AllocationSumMismatch"},
		{"allocations that are none", metering.Item{metering.AttrAllocations: "blue"}, "MalformedAllocations"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := intake.Event(line(tt.attributes))
			var refusal *usagefile.Refusal
			if !errors.As(err, &refusal) || refusal.Code != tt.want || refusal.Line != 3 || refusal.Reason == "" || refusal.Hint == "" {
				t.Errorf("%+v, want %s in line 3", err, tt.want)
			}
		})
	}
}
