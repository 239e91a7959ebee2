package simulator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/awsmp/metering/simulator"
)

// Every rule on the shape of a request, each with the nearest request that passes.
func TestShape(t *testing.T) {
	t.Parallel()
	dimension := func(s string) fields { return batch(usage(fields{"Dimension": s})) }
	quantity := func(q any) fields { return batch(usage(fields{"Quantity": q})) }
	tests := []struct {
		name string
		body any
		want string
	}{
		{"no records", batch(), ""},
		{"25 records", batch(repeat(25, func(i int) fields { return usage(fields{"Dimension": fmt.Sprint("d", i)}) })...), strings.TrimSuffix(strings.Repeat("Success,", 25), ",")},
		{"26 records", batch(repeat(26, func(i int) fields { return usage(fields{"Dimension": fmt.Sprint("d", i)}) })...), "ValidationException"},
		{"no list", fields{}, "ValidationException"},
		{"null list", fields{"UsageRecords": nil}, "ValidationException"},
		{"list is a string", fields{"UsageRecords": "x"}, "SerializationException"},
		{"record is a number", fields{"UsageRecords": []any{7}}, "SerializationException"},
		{"record is null", fields{"UsageRecords": []any{nil}}, "SerializationException"},
		{"body is a list", "[]", "SerializationException"},
		{"body is broken", `{"UsageRecords": [`, "SerializationException"},
		{"body is empty", "", "SerializationException"},
		{"body has bytes that are no text", "{\"UsageRecords\": [], \"x\": \"\xff\"}", "SerializationException"},
		{"unknown members of every kind", `{"a": {"b": [1, {"c": null}, "\"", true, false, -1.5e3]}, "UsageRecords": [ ] , "z": {}}`, ""},
		{"escapes", `{"UsageRecords":[{"Dimension":"api\u0023\n\"\\","CustomerAWSAccountId":"111122223333","LicenseArn":"` + licenseA + `","Timestamp":1773151200}]}`, "Success"},

		{"no timestamp", batch(usage(fields{"Timestamp": nil})), "ValidationException"},
		{"null timestamp", `{"UsageRecords":[{"Timestamp":null,"Dimension":"d","CustomerAWSAccountId":"1","LicenseArn":"` + licenseA + `"}]}`, "ValidationException"},
		{"timestamp with a fraction", batch(usage(fields{"Timestamp": 1773151200.25})), "Success"},
		{"timestamp as text", batch(usage(fields{"Timestamp": "2026-03-10T14:00:00Z"})), "SerializationException"},
		{"timestamp in milliseconds", batch(usage(fields{"Timestamp": 1773151200000})), "SerializationException"},
		{"members in the wrong case", batch(usage(fields{"Timestamp": nil, "timestamp": 1773151200})), "ValidationException"},

		{"no dimension", batch(usage(fields{"Dimension": nil})), "ValidationException"},
		{"empty dimension", dimension(""), "ValidationException"},
		{"dimension with # and a new line", dimension("a#b\nc"), "Success"},
		{"dimension of 255 wide characters", dimension(strings.Repeat("é", 255)), "Success"},
		{"dimension of 256 characters", dimension(strings.Repeat("d", 256)), "ValidationException"},
		{"dimension is a number", batch(usage(fields{"Dimension": 7})), "SerializationException"},

		{"no quantity is zero", quantity(nil), "Success"},
		{"zero", quantity(0), "Success"},
		{"largest quantity", quantity(2147483647), "Success"},
		{"quantity over 31 bits", quantity(2147483648), "ValidationException"},
		{"quantity over 64 bits", `{"UsageRecords":[{"Quantity":99999999999999999999}]}`, "ValidationException"},
		{"negative quantity", quantity(-1), "ValidationException"},
		{"3.5", quantity(3.5), "SerializationException"},
		{"quantity as text", quantity("3"), "SerializationException"},
		{"quantity true", quantity(true), "SerializationException"},

		{"account with a letter", batch(usage(fields{"CustomerAWSAccountId": "11112222333a"})), "ValidationException"},
		{"empty account", batch(usage(fields{"CustomerAWSAccountId": ""})), "ValidationException"},
		{"identifier of 256 characters", legacyBatch(legacy(fields{"CustomerIdentifier": strings.Repeat("c", 256)})), "ValidationException"},
		{"license without arn:", batch(usage(fields{"LicenseArn": "aws:license-manager:us-east-1:111122223333:l-aaaa"})), "ValidationException"},
		{"empty license", batch(usage(fields{"LicenseArn": ""})), "ValidationException"},
		{"product code with a space", fields{"ProductCode": "sim product", "UsageRecords": []fields{}}, "ValidationException"},
		{"empty product code", fields{"ProductCode": "", "UsageRecords": []fields{usage()}}, "Success"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sim, _ := service(t, simulator.Options{})
			got := meter(t, sim, tt.body)
			wantOutcome(t, got, tt.want)
			if got.Exception != "" && len(sim.Ledger()) != 0 {
				t.Errorf("a refused call stored %v", sim.Ledger())
			}
		})
	}
}

// A message names the record and the member, so that a seller finds it.
func TestMessagesNameThePlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		body any
		want string
	}{
		{"[]", "the request must be a JSON object"},
		{fields{"UsageRecords": 7}, "UsageRecords must be a list"},
		{fields{"UsageRecords": []any{usage(), 7}}, "UsageRecords[1] must be an object"},
		{fields{"ProductCode": 7}, "ProductCode must be a string"},
		{batch(usage(), usage(fields{"Quantity": 3.5})), "UsageRecords[1].Quantity 3.5 is not an integer"},
		{batch(usage(fields{"Quantity": -1})), "UsageRecords[0].Quantity -1: it must be 0 to 2147483647"},
		{batch(usage(fields{"Timestamp": nil})), "UsageRecords[0].Timestamp is missing"},
		{batch(usage(allocations([]int{4, 6}, nil, tags("a", "1", "b", "")))), "UsageRecords[0].UsageAllocations[1].Tags[1]: a tag needs a Key and a Value of at least one character"},
		{batch(usage(fields{"UsageAllocations": []fields{{"AllocatedUsageQuantity": "1"}}})), "UsageRecords[0].UsageAllocations[0].AllocatedUsageQuantity must be a number"},
		{batch(usage(allocations([]int{10}, []fields{{"Key": 7, "Value": "a"}}))), "UsageRecords[0].UsageAllocations[0].Tags[0].Key must be a string"},
	} {
		sim, _ := service(t, simulator.Options{})
		if got := meter(t, sim, tt.body); got.Message != tt.want {
			t.Errorf("message %q, want %q", got.Message, tt.want)
		}
	}
}

func allocations(quantities []int, tags ...[]fields) fields {
	return fields{"UsageAllocations": repeat(len(quantities), func(i int) fields {
		a := fields{"AllocatedUsageQuantity": quantities[i]}
		if i < len(tags) && tags[i] != nil {
			a["Tags"] = tags[i]
		}
		return a
	})}
}

func tags(pairs ...string) []fields {
	return repeat(len(pairs)/2, func(i int) fields { return fields{"Key": pairs[2*i], "Value": pairs[2*i+1]} })
}

// Case 30: which of several exceptions a fault of the allocations gets, and that nothing of the call is stored.
func TestCase30Allocations(t *testing.T) {
	t.Parallel()
	sixTags := tags("a", "1", "b", "1", "c", "1", "d", "1", "e", "1", "f", "1")
	many := func(n int) fields {
		return fields{"Quantity": n, "UsageAllocations": repeat(n, func(i int) fields {
			return fields{"AllocatedUsageQuantity": 1, "Tags": tags("team", fmt.Sprint(i))}
		})}
	}
	tests := []struct {
		name    string
		options simulator.Options
		change  fields
		want    string
	}{
		{"sum 10 of 10", simulator.Options{}, allocations([]int{4, 6}, tags("team", "a"), tags("team", "b")), "Success"},
		{"sum 9 of 10", simulator.Options{}, allocations([]int{4, 5}, tags("team", "a"), tags("team", "b")), "InvalidUsageAllocationsException"},
		{"one without tags", simulator.Options{}, allocations([]int{4, 6}, tags("team", "a")), "Success"},
		{"two without tags", simulator.Options{}, allocations([]int{4, 6}), "InvalidUsageAllocationsException"},
		{"the same tags in another order", simulator.Options{}, allocations([]int{4, 6}, tags("a", "1", "b", "2"), tags("b", "2", "a", "1")), "InvalidUsageAllocationsException"},
		{"six tags", simulator.Options{}, allocations([]int{10}, sixTags), "InvalidTagException"},
		{"five tags", simulator.Options{}, allocations([]int{10}, sixTags[:5]), "Success"},
		{"six keys over the record", simulator.Options{}, allocations([]int{4, 6}, sixTags[:5], sixTags[5:]), "Success"},
		{"six keys over the record, switch", simulator.Options{RecordTagKeyLimit: true}, allocations([]int{4, 6}, sixTags[:5], sixTags[5:]), "InvalidTagException"},
		{"2,500 allocations", simulator.Options{}, many(2500), "Success"},
		{"2,501 allocations", simulator.Options{}, many(2501), "ValidationException"},
		{"no allocation", simulator.Options{}, fields{"UsageAllocations": []fields{}}, "ValidationException"},
		{"empty tag value", simulator.Options{}, allocations([]int{10}, tags("team", "")), "ValidationException"},
		{"empty tag key", simulator.Options{}, allocations([]int{10}, tags("", "a")), "ValidationException"},
		{"Tags: []", simulator.Options{}, allocations([]int{10}, []fields{}), "ValidationException"},
		{"allocation without a quantity", simulator.Options{}, fields{"UsageAllocations": []fields{{"Tags": tags("team", "a")}}}, "ValidationException"},
		{"negative allocation", simulator.Options{}, allocations([]int{11, -1}, tags("team", "a")), "ValidationException"},
		{"tag key of 100", simulator.Options{}, allocations([]int{10}, tags(strings.Repeat("k", 100), "a")), "Success"},
		{"tag key of 101", simulator.Options{}, allocations([]int{10}, tags(strings.Repeat("k", 101), "a")), "InvalidTagException"},
		{"tag value of 256", simulator.Options{}, allocations([]int{10}, tags("team", strings.Repeat("v", 256))), "Success"},
		{"tag value of 257", simulator.Options{}, allocations([]int{10}, tags("team", strings.Repeat("v", 257))), "InvalidTagException"},
		{"tag key twice", simulator.Options{}, allocations([]int{10}, tags("team", "a", "team", "b")), "InvalidTagException"},
		{"letters beyond ASCII", simulator.Options{}, allocations([]int{10}, tags("team", "é")), "InvalidTagException"},
		{"the pattern to the letter", simulator.Options{}, allocations([]int{10}, tags("team", "(a;b)")), "Success"},
		{"the set in prose, switch", simulator.Options{ProseTagCharacters: true}, allocations([]int{10}, tags("team", "(a;b)")), "InvalidTagException"},
		{"back-slash", simulator.Options{}, allocations([]int{10}, tags("team", `a\b`)), "InvalidTagException"},
		{"back-slash, switch", simulator.Options{ProseTagCharacters: true}, allocations([]int{10}, tags("team", `a\b`)), "Success"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sim, _ := service(t, tt.options)
			bystander := usage(fields{"Dimension": "bystander"})
			got := meter(t, sim, batch(bystander, usage(tt.change)))
			if tt.want == "Success" {
				wantOutcome(t, got, "Success,Success")
				return
			}
			wantOutcome(t, got, tt.want)
			if got.HTTP != 400 || len(sim.Ledger()) != 0 {
				t.Errorf("HTTP %d and %d entries stored, want 400 and none", got.HTTP, len(sim.Ledger()))
			}
		})
	}
}

func TestRequestSize(t *testing.T) {
	t.Parallel()
	sized := func(n int) string { // a valid request of exactly n bytes
		body := `{"UsageRecords":[],"padding":""}`
		return body[:len(body)-2] + strings.Repeat("x", n-len(body)) + `"}`
	}
	for _, tt := range []struct {
		limit int64
		bytes int
		want  string
	}{
		{0, 999_999, ""},
		{0, 1_000_000, "ValidationException"},
		{1 << 20, 1_048_575, ""},
		{1 << 20, 1_048_576, "ValidationException"},
	} {
		sim, _ := service(t, simulator.Options{MaxRequestBytes: tt.limit})
		if got := meter(t, sim, sized(tt.bytes)); got.outcome() != tt.want {
			t.Errorf("%d bytes under a limit of %d: %s (%s), want %s", tt.bytes, tt.limit, got.outcome(), got.Message, tt.want)
		}
	}
}

// identified is a call and what becomes of it.
type identified struct {
	name string
	body fields
	want string
}

// Case 59: the two identity schemes never share a call.
func TestCase59IdentitySchemes(t *testing.T) {
	t.Parallel()
	checkIdentified(t, []identified{
		{"license and account", batch(usage()), "Success"},
		{"license with an identifier", batch(usage(fields{"CustomerAWSAccountId": nil, "CustomerIdentifier": "cust-1"})), "ValidationException"},
		{"license without an account", batch(usage(fields{"CustomerAWSAccountId": nil})), "ValidationException"},
		{"product code with a license", legacyBatch(usage()), "ValidationException"},
		{"schemes mixed in one call", batch(usage(), legacy()), "ValidationException"},
		{"schemes mixed under a product code", legacyBatch(legacy(), usage()), "ValidationException"},
		{"legacy without a product code", batch(legacy()), "ValidationException"},
		{"another product code", fields{"ProductCode": "other-product", "UsageRecords": []fields{legacy()}}, "InvalidProductCodeException"},
		{"licenses of two products", batch(usage(), usage(fields{"LicenseArn": licenseB})), "InvalidLicenseException"},
		{"license of another product alone", batch(usage(fields{"LicenseArn": licenseB})), "Success"},
	})
}

// Case 60: a simulator that was made when every record had a CustomerIdentifier broke on those without. A record of a legacy product
// has an account or an identifier, and exactly one of them.
func TestCase60OneIdentityMember(t *testing.T) {
	t.Parallel()
	checkIdentified(t, []identified{
		{"account only", legacyBatch(legacy(fields{"CustomerIdentifier": nil, "CustomerAWSAccountId": other})), "Success"},
		{"identifier only", legacyBatch(legacy()), "Success"},
		{"both", legacyBatch(legacy(fields{"CustomerAWSAccountId": other})), "ValidationException"},
		{"neither", legacyBatch(legacy(fields{"CustomerIdentifier": nil})), "ValidationException"},
		{"empty identifier", legacyBatch(legacy(fields{"CustomerIdentifier": ""})), "ValidationException"},
		{"empty account", legacyBatch(legacy(fields{"CustomerIdentifier": nil, "CustomerAWSAccountId": ""})), "ValidationException"},
	})
}

// checkIdentified makes each call of a simulator with licenses of two products and a legacy customer: HTTP 200 and one entry, or HTTP
// 400 and none.
func checkIdentified(t *testing.T, tests []identified) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sim, _ := service(t, simulator.Options{})
			if err := sim.PutLicense(simulator.License{ARN: licenseB, AccountID: buyer, ProductCode: "second-product"}); err != nil {
				t.Fatal(err)
			}
			status, entries := 400, 0
			if tt.want == "Success" {
				status, entries = 200, 1
			}
			got := meter(t, sim, tt.body)
			wantOutcome(t, got, tt.want)
			if got.HTTP != status || len(sim.Ledger()) != entries {
				t.Errorf("HTTP %d and %d entries, want %d and %d", got.HTTP, len(sim.Ledger()), status, entries)
			}
		})
	}
}

// The API reference warns that the two schemes do not know of each other.
func TestSchemesBillTwice(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{OpenDoors: true})
	wantOutcome(t, meter(t, sim, batch(usage())), "Success")
	wantOutcome(t, meter(t, sim, legacyBatch(usage(fields{"LicenseArn": nil}))), "Success")
	if n := len(sim.Ledger()); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
}
