package metering

import (
	"unicode/utf8"
)

// Limits of one BatchMeterUsage call (AWS Marketplace Metering API reference and seller guide: at most 25 records, less
// than 1 MB). Whether the service means 1,000,000 or 1,048,576 bytes is not said; the smaller is safe in both.
const (
	MaxCallRecords = 25
	maxCallBytes   = 1_000_000

	// callEnvelope bounds what stands around the records: names, brackets and a product code of 255 characters.
	callEnvelope = 512
)

// UsageRecord is a record in the terms of the API.
type UsageRecord struct {
	License     string // LicenseArn, with Account; empty in the legacy scheme
	Account     string
	Identifier  string // CustomerIdentifier of the legacy scheme
	Dimension   string
	Second      Second // Timestamp
	Quantity    int64
	Allocations []Allocation
}

// Legacy reports whether the record meters by CustomerIdentifier and ProductCode.
func (u UsageRecord) Legacy() bool { return u.Identifier != "" }

// Usage is what is sent for a record. A record that was sent before is sent again exactly so: the quantity and the second of
// the first call, since that call may have been billed.
func (r Record) Usage() UsageRecord {
	u := UsageRecord{Dimension: r.Dimension, Quantity: r.Quantity.N}
	u.Allocations, _ = allocationsOf(r.Allocations, r.Other)
	if LegacyLicense(r.License) {
		u.Identifier = r.CustomerIdentifier
	} else {
		u.License, u.Account = r.License, r.Account
	}
	if g, reason := r.Group(); reason == "" {
		u.Second = g.Hour.Second(0)
	}
	if r.SentQuantity.Whole && r.SentQuantity != r.Quantity {
		// What was sent can only be asked for again with the allocations left out: they no longer add up.
		u.Quantity, u.Allocations = r.SentQuantity.N, nil
	}
	if s, err := ParseSecond(r.SentSecond); err == nil {
		u.Second = s
	}
	return u
}

// Identity is what the API tells records apart by. A second record with the same identity is never sent.
type Identity struct {
	Customer, Account, Dimension string // Customer is the license or the legacy identifier
	Hour                         Hour
}

// Identity is the record's identity towards the API.
func (u UsageRecord) Identity() Identity {
	id := Identity{Customer: u.License, Account: u.Account, Dimension: u.Dimension, Hour: u.Second.Hour()}
	if u.Legacy() {
		id.Customer = u.Identifier
	}
	return id
}

// Call is one BatchMeterUsage request: records of one identity scheme.
type Call struct {
	Legacy  bool
	Records []UsageRecord
}

// Answer is what the service answered to a call.
type Answer struct {
	Results     []Result
	Unprocessed []UsageRecord
}

// Result is the service's verdict on one record, with the record as it echoes it.
type Result struct {
	Usage    UsageRecord
	Status   Status
	RecordID string // present on refusals too: it proves nothing
}

// echo is what a result is recognised by: content, never position.
type echo struct {
	Identity
	Second   Second
	Quantity int64
}

func echoOf(u UsageRecord) echo { return echo{u.Identity(), u.Second, u.Quantity} }

// Verdict is the service's word on one of our records.
type Verdict struct {
	Record   Record
	Sent     UsageRecord
	Status   Status
	Reason   string
	RecordID string
}

// Match finds the records that an answer speaks of. Records that it reports as unprocessed, or does not mention, are
// left; unmatched counts the results that speak of none of them or carry no known status.
func Match(sent []Record, a Answer) (verdicts []Verdict, left []Record, unmatched int) {
	open := make(map[echo]Record, len(sent))
	for _, r := range sent {
		open[echoOf(r.Usage())] = r
	}
	for _, res := range a.Results {
		e := echoOf(res.Usage)
		r, ours := open[e]
		if !ours || res.Status != Success && res.Status != DuplicateRecord && res.Status != CustomerNotSubscribed {
			unmatched++
			continue
		}
		delete(open, e)
		verdicts = append(verdicts, Verdict{Record: r, Sent: r.Usage(), Status: res.Status, RecordID: res.RecordID})
	}
	for _, u := range a.Unprocessed {
		e := echoOf(u)
		if r, ours := open[e]; ours {
			left = append(left, r)
			delete(open, e)
		}
	}
	return verdicts, left, unmatched
}

// Packer fills calls by count and by serialized size, in the order in which records come.
type Packer struct {
	records []Record
	size    int
}

// Add puts a record into the call being filled. A call that has no room for it is returned, full, and the next begun.
func (p *Packer) Add(r Record) (full []Record) {
	size := r.Usage().wireSize() + 1
	if len(p.records) == MaxCallRecords || len(p.records) > 0 && callEnvelope+p.size+size >= maxCallBytes {
		full = p.Flush()
	}
	p.records, p.size = append(p.records, r), p.size+size
	return full
}

// Flush returns the call being filled and begins a new one.
func (p *Packer) Flush() []Record {
	full := p.records
	p.records, p.size = nil, 0
	return full
}

// wireSize bounds the record's JSON from above, names included: what the seller guide tells to measure.
func (u UsageRecord) wireSize() int {
	const names = len(`{"Timestamp":1234567890,"Dimension":,"Quantity":1234567890,"CustomerAWSAccountId":,"CustomerIdentifier":,"LicenseArn":,"UsageAllocations":[]}`)
	size := names + jsonSize(u.Dimension) + jsonSize(u.Account) + jsonSize(u.Identifier) + jsonSize(u.License)
	for _, a := range u.Allocations {
		size += len(`{"AllocatedUsageQuantity":1234567890,"Tags":[]},`)
		for _, t := range a.Tags {
			size += len(`{"Key":,"Value":},`) + jsonSize(t.Key) + jsonSize(t.Value)
		}
	}
	return size
}

// WireSize bounds from above the bytes that a record takes in a call.
func (r Record) WireSize() int { return r.Usage().wireSize() }

// jsonSize bounds the length of a JSON string in quotes, whatever an encoder chooses to escape.
func jsonSize(s string) int {
	size := 2
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '"' || r == '\\':
			size += 2
		case r < 0x20 || r == 0x7f || r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029' || r == utf8.RuneError:
			size += 6
		default:
			size += n
		}
		i += n
	}
	return size
}
