package simulator

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

const batchMeterUsage = "BatchMeterUsage"

type wireTag struct{ Key, Value string }

type wireAllocation struct {
	AllocatedUsageQuantity int64
	Tags                   []wireTag `json:",omitempty"`
}

type wireRecord struct {
	CustomerAWSAccountID string `json:"CustomerAWSAccountId,omitempty"`
	CustomerIdentifier   string `json:",omitempty"`
	Dimension            string
	LicenseArn           string `json:",omitempty"`
	Quantity             *int64 `json:",omitempty"`
	Timestamp            json.Number
	UsageAllocations     []wireAllocation `json:",omitempty"`
}

type wireResult struct {
	MeteringRecordID string `json:"MeteringRecordId,omitempty"`
	Status           string
	UsageRecord      wireRecord
}

type batchAnswer struct {
	Results            []wireResult
	UnprocessedRecords []wireRecord
}

// meter answers one BatchMeterUsage call. Called with mu held.
func (s *Simulator) meter(req batchRequest, unprocessed func(Record) bool, now time.Time) (batchAnswer, error) {
	if err := s.checkCall(req, now); err != nil {
		return batchAnswer{}, err
	}
	answer := batchAnswer{Results: make([]wireResult, 0, len(req.records)), UnprocessedRecords: []wireRecord{}}
	for _, r := range req.records { // in list order: a key that stands twice is decided by the first of them
		if unprocessed(r.Record) {
			answer.UnprocessedRecords = append(answer.UnprocessedRecords, echo(r))
			continue
		}
		id, status := s.accept(r.Record, now)
		answer.Results = append(answer.Results, wireResult{MeteringRecordID: id, Status: status, UsageRecord: echo(r)})
		s.log.stats.Statuses[status]++
	}
	s.log.stats.Records += len(req.records)
	s.log.stats.Unprocessed += len(answer.UnprocessedRecords)
	if s.options.ShuffleResults {
		for i := len(answer.Results) - 1; i > 0; i-- {
			j := int(s.options.Rand() * float64(i+1))
			answer.Results[i], answer.Results[j] = answer.Results[j], answer.Results[i]
		}
	}
	return answer, nil
}

// accept stores a record, or says why not. The first write of a key wins.
func (s *Simulator) accept(r Record, now time.Time) (id, status string) {
	if v := s.standing(r, now); v.status != statusSuccess {
		return "", v.status
	}
	key := s.billingKey(r)
	if first, ok := s.ledger[key]; ok {
		if first.Quantity != r.Quantity || s.options.AllocationsDistinguish && !sameAllocations(first.Allocations, r.Allocations) {
			return first.MeteringRecordID, statusDuplicate
		}
		return first.MeteringRecordID, statusSuccess
	}
	b := Billed{
		LicenseARN:         r.LicenseARN,
		CustomerIdentifier: r.CustomerIdentifier,
		AccountID:          r.AccountID,
		Dimension:          r.Dimension,
		Hour:               r.Timestamp.Truncate(time.Hour),
		Quantity:           r.Quantity,
		Allocations:        r.Allocations,
		MeteringRecordID:   recordID(key),
		At:                 now,
		Timestamp:          r.Timestamp,
	}
	s.ledger[key] = b
	return b.MeteringRecordID, statusSuccess
}

// recordID derives the id from the key, in the form of a UUID, so that two runs of one test print the same.
func recordID(key billingKey) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %d", key.license, key.product, key.customer, key.dimension, key.hour))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func sameAllocations(a, b []Allocation) bool {
	sets := func(all []Allocation) []string {
		texts := make([]string, len(all))
		for i, x := range all {
			texts[i] = fmt.Sprint(x.Quantity, tagSet(x.Tags))
		}
		slices.Sort(texts)
		return texts
	}
	return slices.Equal(sets(a), sets(b))
}

func echo(r submitted) wireRecord {
	w := wireRecord{
		CustomerAWSAccountID: r.AccountID,
		CustomerIdentifier:   r.CustomerIdentifier,
		Dimension:            r.Dimension,
		LicenseArn:           r.LicenseARN,
		Timestamp:            json.Number(r.timestamp),
	}
	if r.hasQuantity {
		w.Quantity = &r.Quantity
	}
	for _, a := range r.Allocations {
		allocation := wireAllocation{AllocatedUsageQuantity: a.Quantity}
		for _, t := range a.Tags {
			allocation.Tags = append(allocation.Tags, wireTag(t))
		}
		w.UsageAllocations = append(w.UsageAllocations, allocation)
	}
	return w
}
