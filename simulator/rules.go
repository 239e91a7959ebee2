package simulator

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// checkCall applies every rule that refuses a call as a whole. The service stores nothing of a refused call, so this
// runs to the end before anything is written.
func (s *Simulator) checkCall(req batchRequest, now time.Time) error {
	if err := s.checkIdentity(req); err != nil {
		return err
	}
	for _, r := range req.records {
		if !s.dimensionDefined(r.Dimension) {
			return refuse(invalidDimension, "dimension %q is not defined for the product (names are case-sensitive)", r.Dimension)
		}
	}
	for _, r := range req.records {
		if err := s.checkAllocations(r.Record); err != nil {
			return err
		}
	}
	for _, r := range req.records {
		if err := s.checkTime(r.Timestamp, now); err != nil {
			return err
		}
	}
	product := ""
	for _, r := range req.records {
		if v := s.standing(r.Record, now); v.refused != nil {
			return v.refused
		}
		if r.LicenseARN == "" {
			continue
		}
		p := s.productOf(r.LicenseARN)
		if product != "" && p != product {
			return refuse(invalidLicense, "the call has licenses of the products %s and %s: meter one product a call", product, p)
		}
		product = p
	}
	return nil
}

func (s *Simulator) productOf(arn string) string {
	if l, ok := s.licenses[arn]; ok {
		return l.ProductCode
	}
	return s.options.ProductCode
}

// checkIdentity holds a call to one of the two identity schemes: LicenseArn with CustomerAWSAccountId and no ProductCode, or
// ProductCode with either CustomerIdentifier or CustomerAWSAccountId.
func (s *Simulator) checkIdentity(req batchRequest) error {
	licensed := 0
	for i, r := range req.records {
		hasIdentifier, hasAccount := r.CustomerIdentifier != "", r.AccountID != ""
		switch {
		case hasIdentifier && hasAccount:
			return validation("UsageRecords[%d] has both CustomerIdentifier and CustomerAWSAccountId: send one of them", i)
		case !hasIdentifier && !hasAccount:
			return validation("UsageRecords[%d] has neither CustomerAWSAccountId nor CustomerIdentifier", i)
		case r.LicenseARN != "" && hasIdentifier:
			return validation("UsageRecords[%d] has a LicenseArn with a CustomerIdentifier: send CustomerAWSAccountId", i)
		case r.LicenseARN != "":
			licensed++
		}
	}
	switch {
	case licensed != 0 && licensed != len(req.records):
		return validation("some records have a LicenseArn and some have not: send them in separate calls")
	case licensed != 0 && req.productCode != "":
		return validation("the call has a ProductCode and records with a LicenseArn: leave ProductCode out")
	case licensed == 0 && req.productCode == "" && len(req.records) != 0:
		return validation("the records have neither a LicenseArn each nor a ProductCode for all")
	case req.productCode != "" && req.productCode != s.options.ProductCode:
		return refuse(invalidProductCode, "product code %q is not the published one", req.productCode)
	}
	return nil
}

func (s *Simulator) checkAllocations(r Record) error {
	if len(r.Allocations) == 0 {
		return nil
	}
	sum := int64(0)
	keys := map[string]bool{}
	sets := make(map[string]bool, len(r.Allocations))
	for _, a := range r.Allocations {
		sum += a.Quantity
		if err := s.checkTags(a.Tags); err != nil {
			return err
		}
		for _, t := range a.Tags {
			keys[t.Key] = true
		}
		set := tagSet(a.Tags)
		if sets[set] {
			return refuse(invalidAllocations, "two allocations of dimension %q have the same tags: add them up", r.Dimension)
		}
		sets[set] = true
	}
	if sum != r.Quantity {
		return refuse(invalidAllocations, "the allocations of dimension %q add up to %d, its quantity is %d", r.Dimension, sum, r.Quantity)
	}
	if s.options.RecordTagKeyLimit && len(keys) > maxTags {
		return refuse(invalidTag, "the record of dimension %q has %d tag keys: at most 5 are allowed", r.Dimension, len(keys))
	}
	return nil
}

func (s *Simulator) checkTags(tags []Tag) error {
	if len(tags) > maxTags {
		return refuse(invalidTag, "an allocation has %d tags: at most 5 are allowed", len(tags))
	}
	allowed := patternTag
	if s.options.ProseTagCharacters {
		allowed = proseTag
	}
	for i, t := range tags {
		switch {
		case utf8.RuneCountInString(t.Key) > 100:
			return refuse(invalidTag, "tag key %q has more than 100 characters", t.Key)
		case utf8.RuneCountInString(t.Value) > 256:
			return refuse(invalidTag, "tag value %q has more than 256 characters", t.Value)
		case !all(t.Key, allowed) || !all(t.Value, allowed):
			return refuse(invalidTag, "tag %q=%q has a character that is not allowed", t.Key, t.Value)
		case slices.ContainsFunc(tags[:i], func(o Tag) bool { return o.Key == t.Key }):
			return refuse(invalidTag, "tag key %q stands twice in one allocation", t.Key)
		}
	}
	return nil
}

// tagSet is one text for tags in any order. No tag may hold a control character, so it joins without collisions.
func tagSet(tags []Tag) string {
	if len(tags) == 0 {
		return ""
	}
	pairs := make([]string, len(tags))
	for i, t := range tags {
		pairs[i] = t.Key + "\x00" + t.Value
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "\x01")
}

// checkTime applies the window, the month end and the clock. All of it is UTC.
func (s *Simulator) checkTime(ts, now time.Time) error {
	if ts.After(now.Add(s.options.FutureTolerance)) {
		return refuse(timestampOutOfBounds, "timestamp %s is in the future: the service's clock shows %s", stamp(ts), stamp(now))
	}
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	lastMonth := ts.Before(month)
	if lastMonth && (!now.Before(month.Add(MonthEndGrace)) || ts.Before(month.AddDate(0, -1, 0))) {
		return refuse(timestampOutOfBounds, "timestamp %s is of a month that is closed: the month before closes at 06:00 UTC on the 1st, the service's clock shows %s", stamp(ts), stamp(now))
	}
	inWindow := now.Sub(ts) < s.options.Window
	if s.options.HourGranularWindow {
		inWindow = !ts.Before(now.Truncate(time.Hour).Add(-s.options.Window))
	}
	if inWindow {
		return nil
	}
	if s.options.GraceExtendsWindow && lastMonth && !ts.Before(month.Add(-s.options.Window)) {
		return nil
	}
	return refuse(timestampOutOfBounds, "timestamp %s is %s or more before the service's clock, %s", stamp(ts), s.options.Window, stamp(now))
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
