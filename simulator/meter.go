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
	taken := make([]submitted, 0, len(req.records))
	for _, r := range req.records {
		if unprocessed(r.Record) {
			answer.UnprocessedRecords = append(answer.UnprocessedRecords, echo(r))
		} else {
			taken = append(taken, r)
		}
	}
	billed := make([]Billed, 0, len(taken))
	for _, r := range taken { // in list order: a key that stands twice is decided by the first of them
		result, b := s.accept(r, now)
		answer.Results = append(answer.Results, result)
		if b != nil {
			billed = append(billed, *b)
		}
	}
	if err := s.recordUsage(req.productCode, billed); err != nil {
		return batchAnswer{}, err
	}
	for _, r := range answer.Results {
		s.log.stats.Statuses[r.Status]++
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

// recordUsage puts what a call added to the ledger into the journal, or takes it out of the ledger again. mu is held from before
// it was added, so nobody has seen it.
func (s *Simulator) recordUsage(productCode string, billed []Billed) error {
	if len(billed) == 0 {
		return nil
	}
	err := s.record(change{Usage: &acceptedUsage{ProductCode: productCode, Records: billed}})
	if err == nil {
		return nil
	}
	for _, b := range billed {
		delete(s.ledger, s.billingKey(b.record(productCode)))
	}
	return refuse(internalServiceError, "%v", err)
}

// accept adds a record to the ledger and returns its entry, or says why not. The first write of a key wins.
func (s *Simulator) accept(r submitted, now time.Time) (wireResult, *Billed) {
	result := wireResult{Status: s.standing(r.Record, now).status, UsageRecord: echo(r)}
	if result.Status != statusSuccess {
		return result, nil
	}
	key := s.billingKey(r.Record)
	if first, ok := s.ledger[key]; ok {
		result.MeteringRecordID = first.MeteringRecordID
		if first.Quantity != r.Quantity || s.options.AllocationsDistinguish && !sameAllocations(first.Allocations, r.Allocations) {
			result.Status = statusDuplicate
		}
		return result, nil
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
		At:                 now.Round(0), // as it reads back: without the monotonic clock
		Timestamp:          r.Timestamp,
	}
	s.ledger[key] = b
	result.MeteringRecordID = b.MeteringRecordID
	return result, &b
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
