package simulator

import "strings"

// The patterns of the API model, written out: Go's regexp refuses the model's {0,1023} and costs microseconds a record.

func all(s string, ok func(c byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

func alnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func wellFormedProductCode(s string) bool { // ^[-a-zA-Z0-9/=:_.@]*$
	return len(s) <= 255 && all(s, func(c byte) bool { return alnum(c) || strings.IndexByte("-/=:_.@", c) >= 0 })
}

func wellFormedAccount(s string) bool { // ^[0-9]+$, 1..255
	return s != "" && len(s) <= 255 && all(s, func(c byte) bool { return c >= '0' && c <= '9' })
}

// buyersAccount is stricter than the API's pattern: an account that is put here is of twelve digits, as every account of AWS.
func buyersAccount(s string) bool { return len(s) == 12 && wellFormedAccount(s) }

// wellFormedARN is the LicenseArn pattern of the API:
// ^arn:aws[a-zA-Z-]*:[A-Za-z0-9][A-Za-z0-9_/.-]{0,62}:[A-Za-z0-9_/.-]{0,63}:[A-Za-z0-9_/.-]{0,63}:[A-Za-z0-9][A-Za-z0-9:_/+=,@.-]{0,1023}$
func wellFormedARN(s string) bool {
	parts := strings.SplitN(s, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || !strings.HasPrefix(parts[1], "aws") {
		return false
	}
	partition, service, region, account, resource := parts[1][3:], parts[2], parts[3], parts[4], parts[5]
	segment := func(c byte) bool { return alnum(c) || strings.IndexByte("_/.-", c) >= 0 }
	return all(partition, func(c byte) bool { return c == '-' || alnum(c) && (c < '0' || c > '9') }) &&
		service != "" && alnum(service[0]) && len(service) <= 63 && all(service, segment) &&
		len(region) <= 63 && all(region, segment) &&
		len(account) <= 63 && all(account, segment) &&
		resource != "" && alnum(resource[0]) && len(resource) <= 1024 &&
		all(resource, func(c byte) bool { return alnum(c) || strings.IndexByte(":_/+=,@.-", c) >= 0 })
}

// patternTag is the API model's ^[a-zA-Z0-9+ -=._:\/@]+$ to the letter: " -=" in it is the range from space to "=".
func patternTag(c byte) bool {
	return alnum(c) || c >= ' ' && c <= '=' || c == '_' || c == '@'
}

// proseTag is the set that the seller guide lists in words.
func proseTag(c byte) bool {
	return alnum(c) || strings.IndexByte(`+ -=._:\/@`, c) >= 0
}
