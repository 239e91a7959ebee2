package metering

import (
	"strings"
	"unicode/utf8"
)

// ValidLicense reports whether a text has the form of a license ARN (AWS Marketplace Metering API model, LicenseArn):
//
//	arn:aws[a-zA-Z-]*:[a-zA-Z0-9][a-zA-Z0-9_/.-]{0,62}:[…]{0,63}:[…]{0,63}:[a-zA-Z0-9][a-zA-Z0-9:_/+=,@.-]{0,1023}
//
// Every row is judged by it, and a regular expression took a tenth of a whole visit's time.
func ValidLicense(arn string) bool {
	rest, ok := strings.CutPrefix(arn, "arn:aws")
	partition, rest, more := strings.Cut(rest, ":")
	if !ok || !more || !consists(partition, "-", false) {
		return false
	}
	for i := range 3 {
		var field string
		if field, rest, more = strings.Cut(rest, ":"); !more || len(field) > 63 || !consists(field, "_/.-", true) {
			return false
		}
		if i == 0 && (field == "" || !consists(field[:1], "", true)) {
			return false
		}
	}
	return rest != "" && len(rest) <= 1024 && consists(rest[:1], "", true) && consists(rest, ":_/+=,@.-", true)
}

// consists reports whether s holds nothing but ASCII letters, the characters of others and, with digits, digits.
func consists(s, others string, digits bool) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || digits && '0' <= c && c <= '9' || strings.IndexByte(others, c) >= 0) {
			return false
		}
	}
	return true
}

// LegacyLicense reports whether a partition key belongs to a product that still meters by CustomerIdentifier: it is no
// ARN, nor the bare form of one that some events carry.
func LegacyLicense(license string) bool {
	return license != "" && !strings.HasPrefix(license, "arn:") && !strings.HasPrefix(license, "aws:")
}

// identityReason checks which of the API's two identity schemes an item uses, and that it uses one.
func identityReason(license, identifier string, raw any) Reason {
	if LegacyLicense(license) {
		switch {
		case !utf8.ValidString(license):
			return InvalidLicenseArn
		case identifier == "" || len(identifier) > 255 || !utf8.ValidString(identifier):
			return MissingLegacyIdentifier
		}
		return ""
	}
	if !ValidLicense(license) {
		return InvalidLicenseArn
	}
	if identifier != "" || raw != nil && raw != "" {
		return ConflictingIdentifier
	}
	return ""
}
