package metering

import (
	"strings"
	"testing"
)

func TestLicenseForms(t *testing.T) {
	t.Parallel()
	legacy := strings.Repeat("x", 255)
	for _, tt := range []struct {
		license, identifier string
		legacy              bool
		reason              Reason
	}{
		{licenseA, "", false, ""},
		{"arn:aws-cn:license-manager:cn-northwest-1:111122223333:license:l-a", "", false, ""},
		{"arn:aws:license-manager:::l", "", false, ""},
		{licenseA, "customer", false, ConflictingIdentifier},
		{"aws:license-manager:us-east-1:111122223333:l-a", "", false, InvalidLicenseArn}, // the bare form of some events
		{"aws:license-manager:us-east-1:111122223333:l-a", "customer", false, InvalidLicenseArn},
		{"arn:", "", false, InvalidLicenseArn},
		{"arn:gcp:license-manager::111122223333:license:l-a", "", false, InvalidLicenseArn},
		{licenseA + "\n", "", false, InvalidLicenseArn},
		{licenseA + " ", "", false, InvalidLicenseArn},
		{"arn:aws:license-manager::111122223333:" + strings.Repeat("a", 1024), "", false, ""},
		{"arn:aws:license-manager::111122223333:" + strings.Repeat("a", 1025), "", false, InvalidLicenseArn},
		{"", "", false, InvalidLicenseArn},
		{"prod-abc:customer", "customer", true, ""},
		{"prod-abc:customer", legacy, true, ""},
		{"prod-abc:customer", legacy + "x", true, MissingLegacyIdentifier},
		{"prod-abc:customer", "", true, MissingLegacyIdentifier},
		{"prod-abc:customer", "cust\xff", true, MissingLegacyIdentifier},
		{"prod-\xff", "customer", true, InvalidLicenseArn},
		{" " + licenseA, "customer", true, ""},
	} {
		if got := LegacyLicense(tt.license); got != tt.legacy {
			t.Errorf("LegacyLicense(%.60q) = %v", tt.license, got)
		}
		if got := identityReason(tt.license, tt.identifier, nil); got != tt.reason {
			t.Errorf("%.60q with %.20q: reason %q, want %q", tt.license, tt.identifier, got, tt.reason)
		}
	}
}

func TestIdentifierOfAnotherType(t *testing.T) {
	t.Parallel()
	for _, raw := range []any{number(7), true, []any{"a"}, map[string]any{"a": "b"}} {
		if got := identityReason(licenseA, "", raw); got != ConflictingIdentifier {
			t.Errorf("%#v beside an ARN: %q", raw, got)
		}
		if got := identityReason("prod-abc", "", raw); got != MissingLegacyIdentifier {
			t.Errorf("%#v in the legacy scheme: %q", raw, got)
		}
	}
	for _, raw := range []any{nil, ""} { // as good as none
		if got := identityReason(licenseA, "", raw); got != "" {
			t.Errorf("%#v beside an ARN: %q", raw, got)
		}
	}
}
