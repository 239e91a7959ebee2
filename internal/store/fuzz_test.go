package store_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// FuzzProfile: of whatever stands in the profile table comes a profile that reads back as it is written; and to save fields changes those
// and no others.
func FuzzProfile(f *testing.F) {
	for _, name := range []string{metering.AttrRegistrationData, metering.AttrProductCode, metering.AttrCustomerIdentifier, metering.AttrCreatedAt, "companyName", "ttl", ""} {
		for _, value := range []string{`{"contactName":"Zoë","n":7,"e":""}`, `"text"`, `7`, `null`, `["a"]`} {
			f.Add(name, value, "companyName", "Quartermain & Søn")
		}
	}
	f.Fuzz(func(t *testing.T, name, text, field, value string) {
		var v any
		d := json.NewDecoder(strings.NewReader(text))
		if d.UseNumber(); d.Decode(&v) != nil {
			t.Skip()
		}
		item := metering.Item{
			metering.AttrLicense: "l", metering.AttrAccount: "a", metering.AttrProductCode: "p", metering.AttrRegistrationData: map[string]any{"contactName": "Zoë"}, "contactName": "Zoë",
		}
		item[name] = v
		p := store.ProfileOf(item)
		if diff := cmp.Diff(p, store.ProfileOf(store.ProfileItem(p))); diff != "" {
			t.Errorf("written and read:\n%s", diff)
		}
		change := metering.ProfileChange{License: "l", Account: "a", ProductCode: "p", Fields: map[string]string{field: value}, Promoted: []string{field}}
		if value == "" || field == "" || store.CheckProfile(change) != nil {
			return
		}
		after := store.ProfileOf(store.ProfileItem(change.Apply(&p)))
		if after.Fields[field] != value || after.Promoted[field] != value {
			t.Errorf("%s is %q, and promoted %q; told was %q", field, after.Fields[field], after.Promoted[field], value)
		}
		for other, was := range p.Fields {
			if other != field && after.Fields[other] != was {
				t.Errorf("%s was %q and is %q", other, was, after.Fields[other])
			}
		}
		for other, was := range p.Promoted {
			if other != field && after.Promoted[other] != was {
				t.Errorf("promoted %s was %q and is %q", other, was, after.Promoted[other])
			}
		}
	})
}
