package storetest

import (
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/awsmp/metering/internal/metering"
)

func profileContract() map[string]func(t *testing.T, s Lifecycle) {
	return map[string]func(t *testing.T, s Lifecycle){
		"saved and added to":             savedProfile,
		"no fields":                      profileWithoutFields,
		"F49: copies follow their field": promotedCopies,
		"two at once":                    profilesAtOnce,
		"any text":                       anyText,
		"what cannot be saved":           refusedProfiles,
	}
}

func profile(fields map[string]string, promoted ...string) metering.ProfileChange {
	return metering.ProfileChange{License: licenseA, Account: buyer, ProductCode: "prod-a", Fields: fields, Promoted: promoted, At: now()}
}

func readProfile(t *testing.T, s Lifecycle, license string) *metering.Profile {
	t.Helper()
	p, err := s.Profile(t.Context(), license, buyer)
	return must(t, p, err)
}

// saved makes changes, and holds what stands there after each against the rule.
func saved(t *testing.T, s Lifecycle, changes ...metering.ProfileChange) metering.Profile {
	t.Helper()
	var want *metering.Profile
	for _, c := range changes {
		p := c.Apply(want)
		want = &p
		must(t, 0, s.SaveProfile(t.Context(), c))
		same(t, "profile", want, readProfile(t, s, c.License))
	}
	return *want
}

func savedProfile(t *testing.T, s Lifecycle) {
	same(t, "none", (*metering.Profile)(nil), readProfile(t, s, licenseA))
	first := profile(map[string]string{"contactName": "Ada Example", "companyName": "Example Corp"})
	second := profile(map[string]string{"companyName": "Example AG", "useCase": "billing"})
	second.At, second.CustomerIdentifier = now().AddDate(0, 0, 1), "cust-1"
	third := profile(map[string]string{"useCase": "more"})
	third.At, third.ProductCode = now().AddDate(0, 0, 2), "prod-b"
	got := saved(t, s, first, second, third, third)
	same(t, "fields", map[string]string{"contactName": "Ada Example", "companyName": "Example AG", "useCase": "more"}, got.Fields)
	same(t, "created", "2026-03-10T15:20:00Z", got.CreatedAt)
	same(t, "identifier", "cust-1", got.CustomerIdentifier)

	early := first // a buyer without a license yet: another profile
	early.License = "prod-a"
	saved(t, s, early)
	same(t, "the first", &got, readProfile(t, s, licenseA))
}

func profileWithoutFields(t *testing.T, s Lifecycle) {
	with := profile(map[string]string{"contactName": "Ada Example"})
	saved(t, s, profile(nil), profile(nil), with, profile(nil))
}

func promotedCopies(t *testing.T, s Lifecycle) {
	got := saved(t, s,
		profile(map[string]string{"companyName": "Example Corp", "useCase": "billing"}, "companyName", "contactEmail"),
		profile(map[string]string{"companyName": "Example AG"}, "companyName", "contactEmail"),
		profile(map[string]string{"contactEmail": "ada@example.com"}, "companyName", "contactEmail"))
	same(t, "copies", map[string]string{"companyName": "Example AG", "contactEmail": "ada@example.com"}, got.Promoted)
}

// Of two who register at once, neither undoes the other's fields.
func profilesAtOnce(t *testing.T, s Lifecycle) {
	want := make(map[string]string)
	var all sync.WaitGroup
	for _, name := range []string{"one", "two", "three", "four", "five", "six"} {
		fields := map[string]string{name: "value of " + name}
		maps.Copy(want, fields)
		all.Go(func() {
			if err := s.SaveProfile(t.Context(), profile(fields, name)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got := readProfile(t, s, licenseA)
	same(t, "fields", want, got.Fields)
	same(t, "copies", want, got.Promoted)
}

func anyText(t *testing.T, s Lifecycle) {
	fields := map[string]string{
		"name": `Zoë "O'Hara" <b>&amp;`, "size": "1,000", "where": "東京 😀", "comment": "two\nlines\tand :v0 #name {\"S\":\"x\"}",
		"licenseArn": "not the key", "registrationData": "nested", "long": strings.Repeat("ü", 1000),
	}
	saved(t, s, profile(fields, "name", "where"), profile(fields, "name", "where"))
}

func refusedProfiles(t *testing.T, s Lifecycle) {
	const secret = "Ada Example"
	fields := map[string]string{"contactName": secret, metering.AttrCreatedAt: secret}
	keyless := profile(fields)
	keyless.Account = ""
	for name, c := range map[string]metering.ProfileChange{"no account": keyless, "F49: a copy over createdAt": profile(fields, metering.AttrCreatedAt)} {
		err := s.SaveProfile(t.Context(), c)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	same(t, "profile", (*metering.Profile)(nil), readProfile(t, s, licenseA))
	saved(t, s, profile(fields, "contactName")) // not promoted, the name does no harm
}
