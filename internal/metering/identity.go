package metering

import (
	"regexp"
	"strings"
)

// licensePattern is the form of a license ARN (AWS Marketplace Metering API model, LicenseArn); its region and account
// fields may be empty. The last field's length, at most 1,024, is checked apart: Go's expressions do not count so far.
var licensePattern = regexp.MustCompile(`^arn:aws[a-zA-Z-]*:[A-Za-z0-9][A-Za-z0-9_/.-]{0,62}:[A-Za-z0-9_/.-]{0,63}:[A-Za-z0-9_/.-]{0,63}:([A-Za-z0-9][A-Za-z0-9:_/+=,@.-]*)$`)

func validLicense(arn string) bool {
	m := licensePattern.FindStringSubmatch(arn)
	return m != nil && len(m[1]) <= 1024
}

// LegacyLicense reports whether a partition key belongs to a product that still meters by CustomerIdentifier: it is no
// ARN, nor the bare form of one that some events carry.
func LegacyLicense(license string) bool {
	return license != "" && !strings.HasPrefix(license, "arn:") && !strings.HasPrefix(license, "aws:")
}

// identityReason checks which of the API's two identity schemes an item uses, and that it uses one.
func identityReason(license, identifier string, raw any) Reason {
	if LegacyLicense(license) {
		if identifier == "" || len(identifier) > 255 {
			return MissingLegacyIdentifier
		}
		return ""
	}
	if !validLicense(license) {
		return InvalidLicenseArn
	}
	if identifier != "" || raw != nil && raw != "" {
		return ConflictingIdentifier
	}
	return ""
}
