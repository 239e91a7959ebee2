package metering

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func rowReason(pairs ...any) func() Reason {
	return func() Reason { return RowFromItem(rowItem().with(pairs...)).Validate(instant("2026-03-10T15:20:00Z")) }
}

func recordReason(pairs ...any) func() Reason {
	return func() Reason { return RecordFromItem(recordItem().with(pairs...)).Validate() }
}

// foldReason folds the items, each a row of groupH at a second of its own.
func foldReason(items ...Item) func() Reason {
	return func() Reason {
		_, reason := foldOf(items...).Record()
		return reason
	}
}

// dimension sets a row's dimension in its key too.
func dimension(d string) []any {
	return []any{AttrDimension, d, AttrRowKey, buyer + "#" + d + "#2026-03-10T14:00:05"}
}

func at(s string) []any { return []any{AttrTimestamp, s, AttrRowKey, buyer + "#api_calls#" + s} }

func account(a string) []any {
	return []any{AttrAccount, a, AttrRowKey, a + "#api_calls#2026-03-10T14:00:05"}
}

func allocations(list ...any) []any { return []any{AttrAllocations, list} }

type reasonCase struct {
	want      Reason
	bad, good func() Reason
}

// reasons are every reason, the item or group that earns it, and a neighbour that passes.
func reasons() []reasonCase {
	return []reasonCase{
		{"MalformedSortKey", rowReason(AttrRowKey, buyer+"#2026-03-10T14:00:05"), rowReason()},
		{"MalformedSortKey", recordReason(AttrRecordKey, "x"), recordReason()},
		{"MalformedSortKey", rowReason(dimension("caf\xe9")...), rowReason(dimension("café")...)},
		{"MalformedSortKey", recordReason(AttrDimension, "\xff", AttrRecordKey, buyer+"#\xff#2026-03-10T14"), recordReason()},
		{"SortKeyMismatch", rowReason(AttrTimestamp, "2026-03-10T14:00:06"), rowReason(at("2026-03-10T14:00:06")...)},
		{"SortKeyMismatch", rowReason(AttrDimension, "api"), rowReason(dimension("api")...)}, // F11
		{"SortKeyMismatch", rowReason(AttrAccount, "111122223334"), rowReason(account("111122223334")...)},
		{"SortKeyMismatch", rowReason(AttrRowKey, buyer+"#api_calls#x#2026-03-10T14:00:05"), rowReason(dimension("api_calls#x")...)},
		{"SortKeyMismatch", recordReason(AttrPending, "2026-03-10T15"), recordReason(AttrPending, without{})},
		{"MalformedTimestamp", rowReason(AttrTimestamp, "2026-03-10 14:00:05"), rowReason()},
		{"MalformedTimestamp", rowReason(AttrTimestamp, without{}), rowReason()},
		{"MalformedTimestamp", rowReason(at("2026-03-10T14:00:05Z")...), rowReason()},
		{"MissingQuantity", rowReason(AttrQuantity, without{}), rowReason(AttrQuantity, number(0))},
		{"MissingQuantity", recordReason(AttrQuantity, without{}, "Quantity", number(3)), recordReason(AttrQuantity, number(0))},
		{"NonNumericQuantity", rowReason(AttrQuantity, "7"), rowReason(AttrQuantity, number(7))},
		{"NonIntegerQuantity", rowReason(AttrQuantity, number(2)+".5"), rowReason(AttrQuantity, number(2)+".0")},
		{"NegativeQuantity", rowReason(AttrQuantity, number(-1)), rowReason(AttrQuantity, number(0))},
		{"QuantityOutOfRange", rowReason(AttrQuantity, number(2147483648)), rowReason(AttrQuantity, number(2147483647))},
		{"QuantityOutOfRange", foldReason(rowItem().with(AttrQuantity, number(2147483647)), rowItem().with(AttrQuantity, number(1))),
			foldReason(rowItem().with(AttrQuantity, number(2147483646)), rowItem().with(AttrQuantity, number(1)))}, // F37
		{"MissingDimension", rowReason(AttrDimension, without{}), rowReason()}, // F11: a normal key
		{"MissingDimension", rowReason(dimension("")...), rowReason(dimension("a")...)},
		{"DimensionTooLong", rowReason(dimension(strings.Repeat("a", 256))...), rowReason(dimension(strings.Repeat("a", 255))...)},
		{"DimensionTooLong", rowReason(dimension(strings.Repeat("😀", 255))...), rowReason(dimension(strings.Repeat("😀", 247))...)}, // case 34
		{"DimensionTooLong", rowReason(dimension(strings.Repeat("😀", 248))...), rowReason(dimension(strings.Repeat("é", 255))...)},
		{"DimensionTooLong", recordReason(AttrDimension, strings.Repeat("😀", 255), AttrRecordKey, buyer+"#"+strings.Repeat("😀", 255)+"#2026-03-10T14"), recordReason()},
		{"TimestampInFuture", rowReason(at("2026-03-10T15:25:01")...), rowReason(at("2026-03-10T15:25:00")...)},
		{"InvalidLicenseArn", rowReason(AttrLicense, "aws:license-manager:us-east-1:111122223333:l-a"), rowReason(AttrLicense, "arn:aws:license-manager:us-east-1:111122223333:l-a")},
		{"InvalidLicenseArn", recordReason(AttrLicense, without{}), recordReason(AttrLicense, licenseB)},
		{"MissingCustomerAWSAccountId", rowReason(AttrAccount, without{}), rowReason()},
		{"MissingCustomerAWSAccountId", rowReason(account("")...), rowReason(account("000000000000")...)},
		{"InvalidCustomerAWSAccountId", rowReason(account("11112222333")...), rowReason(account("011112222333")...)},
		{"InvalidCustomerAWSAccountId", rowReason(account("1111222233334")...), rowReason()},
		{"InvalidCustomerAWSAccountId", rowReason(account("11112222333a")...), rowReason()},
		{"MissingLegacyIdentifier", rowReason(AttrLicense, "prod-abc"), rowReason(AttrLicense, "prod-abc", AttrCustomerIdentifier, "c")},
		{"MissingLegacyIdentifier", recordReason(AttrLicense, "prod-abc"), recordReason(AttrLicense, "prod-abc", AttrCustomerIdentifier, "c")},
		{"ConflictingIdentifier", rowReason(AttrCustomerIdentifier, "c"), rowReason(AttrCustomerIdentifier, "")},
		{"ConflictingIdentifier", recordReason(AttrCustomerIdentifier, number(7)), recordReason(AttrCustomerIdentifier, nil)},
		{"ConflictingIdentifier", foldReason(rowItem().with(AttrLicense, "prod-abc", AttrCustomerIdentifier, "c"), rowItem().with(AttrLicense, "prod-abc", AttrCustomerIdentifier, "d")),
			foldReason(rowItem().with(AttrLicense, "prod-abc", AttrCustomerIdentifier, "c"), rowItem().with(AttrLicense, "prod-abc", AttrCustomerIdentifier, "c"))},
		{"MalformedAllocations", rowReason(AttrAllocations, "x"), rowReason(allocations()...)},
		{"MalformedAllocations", rowReason(allocations("x")...), rowReason(allocations(allocation(3))...)},
		{"MalformedAllocations", rowReason(allocations(allocation("3"))...), rowReason(allocations(allocation(number(3) + ".0"))...)},
		{"MalformedAllocations", rowReason(allocations(map[string]any{})...), rowReason(allocations(map[string]any{attrAllocated: number(3), "Colour": "red"})...)},
		{"NegativeOrNonIntegerAllocation", rowReason(allocations(allocation(4), allocation(-1))...), rowReason(allocations(allocation(3), allocation(0))...)},
		{"NegativeOrNonIntegerAllocation", rowReason(allocations(allocation(number(2) + ".5"))...), rowReason(allocations(allocation(3))...)},
		{"TooManyTags", rowReason(allocations(allocation(3, "a", "1", "b", "1", "c", "1", "d", "1", "e", "1", "f", "1"))...),
			rowReason(allocations(allocation(3, "a", "1", "b", "1", "c", "1", "d", "1", "e", "1"))...)},
		{"MissingTagKeyOrValue", rowReason(allocations(allocation(3, "team", ""))...), rowReason(allocations(allocation(3, "team", " "))...)},
		{"MissingTagKeyOrValue", rowReason(allocations(allocation(3, "", "a"))...), rowReason(allocations(allocation(3, "a", "a"))...)},
		{"InvalidTag", rowReason(allocations(allocation(3, "team", `a\b`))...), rowReason(allocations(allocation(3, "team", "a/b"))...)},
		{"InvalidTag", rowReason(allocations(allocation(3, strings.Repeat("k", 101), "a"))...), rowReason(allocations(allocation(3, strings.Repeat("k", 100), "a"))...)},
		{"TooManyAllocations", rowReason(AttrQuantity, number(2501), AttrAllocations, tagSets(0, 2501)), rowReason(AttrQuantity, number(2500), AttrAllocations, tagSets(0, 2500))},
		{"TooManyAllocations", foldReason(rowItem().with(AttrQuantity, number(2500), AttrAllocations, tagSets(0, 2500)), rowItem().with(AttrQuantity, number(1), AttrAllocations, tagSets(2500, 1))),
			foldReason(rowItem().with(AttrQuantity, number(2499), AttrAllocations, tagSets(0, 2499)), rowItem().with(AttrQuantity, number(1), AttrAllocations, tagSets(2499, 1)))},
		{"MixedAllocatedAndUnallocated", foldReason(rowItem().with(AttrAllocations, []any{allocation(3, "team", "a")}), rowItem()),
			foldReason(rowItem().with(AttrAllocations, []any{allocation(3, "team", "a")}), rowItem().with(AttrQuantity, number(0)))},
		{"AllocationSumMismatch", rowReason(allocations(allocation(1, "team", "a"), allocation(1))...), rowReason(allocations(allocation(1, "team", "a"), allocation(2))...)},
		{"AllocationSumMismatch", recordReason(AttrAllocations, []any{allocation(4)}), recordReason(AttrAllocations, []any{allocation(3)})},
		{"RecordTooLarge", foldReason(wideRows(2500)...), foldReason(wideRows(1800)...)},                                                                                         // case 32
		{"RecordTooLarge", recordReason(AttrQuantity, number(520), AttrAllocations, widestSets(520)), recordReason(AttrQuantity, number(500), AttrAllocations, widestSets(500))}, // case 33
	}

}

// Only the submitter sees two records at once.
var reasonsOfTheSubmitter = []string{"DuplicateIdentity", "MixedIdentitySchemes"}

func TestEveryReason(t *testing.T) {
	t.Parallel()
	for _, tt := range reasons() {
		if got := tt.bad(); got != tt.want {
			t.Errorf("reason %q, want %q", got, tt.want)
		}
		if got := tt.good(); got != "" {
			t.Errorf("the neighbour of %q is refused too: %q", tt.want, got)
		}
	}
}

// constants reads the string constants of a type from the source, so that a new one cannot go untested.
func constants(t *testing.T, typed string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "status.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == typed {
			s, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, s)
		}
		return true
	})
	slices.Sort(values)
	return values
}

func TestNoReasonGoesUntested(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	for _, r := range reasons() {
		tested[string(r.want)] = true
	}
	for _, r := range reasonsOfTheSubmitter {
		tested[r] = true
	}
	if diff := cmp.Diff(constants(t, "Reason"), slices.Sorted(maps.Keys(tested))); diff != "" {
		t.Errorf("reasons (-declared +tested):\n%s", diff)
	}
}

func TestStatusesAsStored(t *testing.T) {
	t.Parallel()
	want := []string{
		"Aggregated", "AggregationExpired", "CustomerNotSubscribed", "DryRunSubmitted", "DuplicateRecord", "LateUsage", "RejectedClientSide",
		"SubmissionExpired", "Success",
	}
	if diff := cmp.Diff(want, constants(t, "Status")); diff != "" {
		t.Error(diff)
	}
}
