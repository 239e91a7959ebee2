package metering

import (
	"encoding/json"
	"slices"
	"strings"
)

// Limits of usage allocations (AWS Marketplace Metering API reference: UsageRecord, UsageAllocation, Tag).
const (
	maxAllocations = 2500
	maxTags        = 5
	maxTagKey      = 100
	maxTagValue    = 256
)

const (
	attrAllocated = "AllocatedUsageQuantity"
	attrTags      = "Tags"
	attrKey       = "Key"
	attrValue     = "Value"
)

// Allocation is the part of a quantity that belongs to one combination of tags; no tags is the untagged part.
type Allocation struct {
	Quantity int64
	Tags     []Tag
}

// Tag is one key and value of Vendor Metered Tagging.
type Tag struct{ Key, Value string }

// parseAllocations reads the stored list. The reason is one of MalformedAllocations, NegativeOrNonIntegerAllocation
// and MissingTagKeyOrValue; fields that the API does not know are passed over.
func parseAllocations(v any) ([]Allocation, Reason) {
	list, ok := v.([]any)
	if !ok {
		return nil, MalformedAllocations
	}
	out := make([]Allocation, 0, len(list))
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			return nil, MalformedAllocations
		}
		q, ok := quantityOf(m[attrAllocated])
		if !ok {
			if _, isNumber := m[attrAllocated].(json.Number); isNumber {
				return nil, NegativeOrNonIntegerAllocation
			}
			return nil, MalformedAllocations
		}
		tags, reason := parseTags(m)
		if reason != "" {
			return nil, reason
		}
		out = append(out, Allocation{Quantity: q.N, Tags: tags})
	}
	return out, ""
}

func parseTags(m map[string]any) ([]Tag, Reason) {
	v, present := m[attrTags]
	if !present {
		return nil, ""
	}
	list, ok := v.([]any)
	if !ok {
		return nil, MalformedAllocations
	}
	tags := make([]Tag, 0, len(list))
	for _, e := range list {
		t, ok := e.(map[string]any)
		if !ok {
			return nil, MalformedAllocations
		}
		key, value := t[attrKey], t[attrValue]
		if key == nil || value == nil {
			return nil, MissingTagKeyOrValue
		}
		k, isText := key.(string)
		v, both := value.(string)
		if !isText || !both {
			return nil, MalformedAllocations
		}
		tags = append(tags, Tag{Key: k, Value: v})
	}
	return tags, ""
}

// exactAllocations is parseAllocations for lists that the typed form loses nothing of.
func exactAllocations(v any) ([]Allocation, bool) {
	if v == nil {
		return nil, false
	}
	list, reason := parseAllocations(v)
	return list, reason == "" && SameValue(allocationsValue(list), v)
}

func allocationsValue(list []Allocation) []any {
	out := make([]any, len(list))
	for i, a := range list {
		m := map[string]any{attrAllocated: number(a.Quantity)}
		if a.Tags != nil {
			tags := make([]any, len(a.Tags))
			for j, t := range a.Tags {
				tags[j] = map[string]any{attrKey: t.Key, attrValue: t.Value}
			}
			m[attrTags] = tags
		}
		out[i] = m
	}
	return out
}

// checkAllocations holds a row's or record's allocations against the limits and against its quantity.
func checkAllocations(list []Allocation, quantity int64) Reason {
	var sum int64
	for _, a := range list {
		if a.Quantity < 0 {
			return NegativeOrNonIntegerAllocation
		}
		if len(a.Tags) > maxTags {
			return TooManyTags
		}
		for _, t := range a.Tags {
			if t.Key == "" || t.Value == "" {
				return MissingTagKeyOrValue
			}
			if !validTag(t.Key, maxTagKey) || !validTag(t.Value, maxTagValue) {
				return InvalidTag
			}
		}
		sum += a.Quantity
	}
	if len(list) > 0 && sum != quantity {
		return AllocationSumMismatch
	}
	if len(list) > maxAllocations {
		return TooManyAllocations
	}
	return ""
}

// validTag keeps to the characters that both the seller guide's prose and the API's pattern admit.
func validTag(s string, most int) bool {
	if len(s) > most {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("+ -=._:/@", c) >= 0) {
			return false
		}
	}
	return true
}

// merger adds up allocations with the same combination of tags, whatever the order in which they are named: the API
// takes each combination once.
type merger struct{ sets map[string]*Allocation }

func (m *merger) add(list []Allocation) {
	if m.sets == nil {
		m.sets = make(map[string]*Allocation)
	}
	for _, a := range list {
		tags, key := canonicalTags(a.Tags)
		if set, ok := m.sets[key]; ok {
			set.Quantity += a.Quantity
			continue
		}
		m.sets[key] = &Allocation{Quantity: a.Quantity, Tags: tags}
	}
}

// list returns the merged allocations in the order of their tags, so that equal groups make equal records.
func (m *merger) list() []Allocation {
	if len(m.sets) == 0 {
		return nil
	}
	keys := make([]string, 0, len(m.sets))
	for k := range m.sets {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make([]Allocation, len(keys))
	for i, k := range keys {
		out[i] = *m.sets[k]
	}
	return out
}

func canonicalTags(tags []Tag) ([]Tag, string) {
	if len(tags) == 0 {
		return nil, ""
	}
	sorted := slices.SortedFunc(slices.Values(tags), func(a, b Tag) int {
		if c := strings.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return strings.Compare(a.Value, b.Value)
	})
	var key strings.Builder
	for _, t := range sorted {
		key.WriteString(t.Key + "\x00" + t.Value + "\x00") // no tag may hold a NUL
	}
	return sorted, key.String()
}
