package metering

import "strings"

// Attribute names, exactly as the tables hold them.
const (
	AttrLicense            = "licenseArn"
	AttrRowKey             = "customerAWSAccountId_dimension_timestamp"
	AttrRecordKey          = "account_dimension_hour"
	AttrAccount            = "customerAWSAccountId"
	AttrDimension          = "dimension"
	AttrTimestamp          = "timestamp"
	AttrHour               = "hourBucket"
	AttrQuantity           = "quantity"
	AttrPending            = "meteringPending"
	AttrAllocations        = "usageAllocations"
	AttrCustomerIdentifier = "customerIdentifier"
	AttrStatus             = "meteringStatus"
	AttrStatusReason       = "meteringStatusReason"
	AttrLateQuantity       = "lateQuantity"
	AttrDropped            = "dropped"
	AttrFlushes            = "flushes"
	AttrManifest           = "manifest"
	AttrSentQuantity       = "sentQuantity"
	AttrSentSecond         = "sentSecond"
	AttrRecordID           = "meteringRecordId"
	AttrBilledQuantity     = "billedQuantity"
	AttrCreatedAt          = "createdAt"
	AttrUpdatedAt          = "updatedAt"
	AttrTTL                = "ttl"
)

// PendingIndex is the name of the sparse index of both usage tables.
const PendingIndex = "metering_pending"

// maxSortKey is the longest sort key that DynamoDB stores, in bytes (DynamoDB developer guide, quotas).
const maxSortKey = 1024

// Group is all rows of one license, account, dimension and hour: what becomes one record.
type Group struct {
	License, Account, Dimension string
	Hour                        Hour
}

// RecordKey is the sort key of the group's record: account#dimension#YYYY-MM-DDTHH.
func (g Group) RecordKey() string { return joinKey(g.Account, g.Dimension, g.Hour.String()) }

// RowPrefix is what the sort key of every row of the group begins with. Rows of another group can begin with it
// too, because a dimension may hold '#': compare the parsed key (Contains).
func (g Group) RowPrefix() string { return g.RecordKey() + ":" }

// RowKey is the sort key of the group's row at s.
func (g Group) RowKey(s Second) string { return joinKey(g.Account, g.Dimension, s.String()) }

// Contains reports whether a row's sort key names this group, and the row's second.
func (g Group) Contains(sortKey string) (Second, bool) {
	k, reason := ParseRowKey(sortKey)
	return k.Second, reason == "" && k.Account == g.Account && k.Dimension == g.Dimension && k.Second.Hour() == g.Hour
}

// RowKey is a parsed sort key of the usage table.
type RowKey struct {
	Account, Dimension string
	Second             Second
}

// Group is the group that the key names; a row's group is what its sort key says.
func (k RowKey) Group(license string) Group {
	return Group{License: license, Account: k.Account, Dimension: k.Dimension, Hour: k.Second.Hour()}
}

// ParseRowKey reads account#dimension#YYYY-MM-DDTHH:MM:SS. A dimension may hold '#': the account is what
// stands before the first one, the time what stands after the last. The reason is MalformedSortKey or
// MalformedTimestamp, or empty.
func ParseRowKey(sortKey string) (RowKey, Reason) {
	account, dimension, tail, ok := splitKey(sortKey)
	if !ok {
		return RowKey{}, MalformedSortKey
	}
	s, err := ParseSecond(tail)
	if err != nil {
		return RowKey{}, MalformedTimestamp
	}
	return RowKey{Account: account, Dimension: dimension, Second: s}, ""
}

// ParseRecordKey reads account#dimension#YYYY-MM-DDTHH of a license's record.
func ParseRecordKey(license, sortKey string) (Group, Reason) {
	account, dimension, tail, ok := splitKey(sortKey)
	if !ok {
		return Group{}, MalformedSortKey
	}
	h, err := ParseHour(tail)
	if err != nil {
		return Group{}, MalformedTimestamp
	}
	return Group{License: license, Account: account, Dimension: dimension, Hour: h}, ""
}

func joinKey(account, dimension, tail string) string {
	return account + "#" + dimension + "#" + tail
}

func splitKey(key string) (account, dimension, tail string, ok bool) {
	first, last := strings.IndexByte(key, '#'), strings.LastIndexByte(key, '#')
	if first < 0 || first == last {
		return "", "", "", false
	}
	return key[:first], key[first+1 : last], key[last+1:], true
}
