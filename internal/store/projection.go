package store

import "github.com/awsmp/metering/internal/metering"

// RecordProjection names the attributes that the pending index of the aggregated-usage table carries besides the keys:
// all that a record is judged, sent and finished by. The manifest and the audit times stay out of it.
func RecordProjection() []string {
	return []string{
		metering.AttrAccount, metering.AttrDimension, metering.AttrHour,
		metering.AttrQuantity, metering.AttrAllocations, metering.AttrCustomerIdentifier,
		metering.AttrSentQuantity, metering.AttrSentSecond,
		metering.AttrStatus, metering.AttrBilledQuantity,
	}
}

// ProjectRecord is the record as its entry in the pending index shows it. A projected attribute of the wrong type is
// still there, so that the submitter sees the fault.
func ProjectRecord(r metering.Record) metering.Record {
	r.Manifest, r.StatusReason, r.MeteringRecordID = "", "", ""
	r.CreatedAt, r.UpdatedAt, r.TTL = "", "", metering.Quantity{}
	if r.Other == nil {
		return r
	}
	other := r.Other
	r.Other = nil
	for _, name := range RecordProjection() {
		if v, ok := other[name]; ok {
			if r.Other == nil {
				r.Other = metering.Item{}
			}
			r.Other[name] = v
		}
	}
	return r
}
