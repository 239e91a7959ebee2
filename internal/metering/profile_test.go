package metering_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
)

// TestProfileChange: what a registration does to a profile.
func TestProfileChange(t *testing.T) {
	t.Parallel()
	const created, now = "2026-03-01T00:00:00Z", "2026-03-10T15:00:00Z"
	at, _ := time.Parse(time.RFC3339, now)
	old := func() *metering.Profile {
		return &metering.Profile{
			License: aLicense, Account: aBuyer, ProductCode: "prod-1", CustomerIdentifier: "legacy-1",
			Fields:   map[string]string{"contactName": "Ada", "companyName": "Engines"},
			Promoted: map[string]string{"companyName": "Engines"}, CreatedAt: created, UpdatedAt: created,
		}
	}
	change := func(fields map[string]string, promoted ...string) metering.ProfileChange {
		return metering.ProfileChange{License: aLicense, Account: aBuyer, ProductCode: "prod-1", Fields: fields, Promoted: promoted, At: at}
	}
	for name, tt := range map[string]struct {
		old    *metering.Profile
		change metering.ProfileChange
		want   func(p *metering.Profile)
	}{
		"the first": {
			nil, change(map[string]string{"contactName": "Grace"}, "contactName"), func(p *metering.Profile) {
				p.CustomerIdentifier, p.CreatedAt = "", now
				p.Fields, p.Promoted = map[string]string{"contactName": "Grace"}, map[string]string{"contactName": "Grace"}
			},
		},
		"the first without a field": {nil, change(nil, "contactName"), func(p *metering.Profile) {
			p.CustomerIdentifier, p.CreatedAt = "", now
			p.Fields, p.Promoted = map[string]string{}, map[string]string{}
		}},
		"F49: an omitted promoted field keeps both its value and its copy": {
			old(), change(map[string]string{"contactName": "Grace"}, "companyName"), func(p *metering.Profile) { p.Fields["contactName"] = "Grace" },
		},
		"F49: a copy changes with its field": {
			old(), change(map[string]string{"companyName": "Looms"}, "companyName"), func(p *metering.Profile) {
				p.Fields["companyName"], p.Promoted["companyName"] = "Looms", "Looms"
			},
		},
		"a field promoted later gets its copy with its next value": {
			old(), change(map[string]string{"contactName": "Grace"}, "companyName", "contactName"), func(p *metering.Profile) {
				p.Fields["contactName"], p.Promoted["contactName"] = "Grace", "Grace"
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := old()
			want.UpdatedAt = now
			tt.want(want)
			var before *metering.Profile
			if tt.old != nil {
				c := *tt.old
				c.Fields, c.Promoted = maps.Clone(c.Fields), maps.Clone(c.Promoted)
				before = &c
			}
			if diff := cmp.Diff(*want, tt.change.Apply(tt.old)); diff != "" {
				t.Errorf("profile (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tt.old); diff != "" {
				t.Errorf("the change reached into what it was given:\n%s", diff)
			}
		})
	}
}

// TestReservedProfileFields: F49, a promoted field named like an attribute of the profile's own made every update fail.
func TestReservedProfileFields(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"licenseArn": true, "customerAWSAccountId": true, "productCode": true, "customerIdentifier": true, "registrationData": true,
		"createdAt": true, "updatedAt": true, "ttl": true, "contactName": false, "companyName": false, "": false,
	} {
		if got := metering.ReservedProfileField(name); got != want {
			t.Errorf("%q reserved: %t", name, got)
		}
	}
}
