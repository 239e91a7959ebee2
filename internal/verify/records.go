package verify

import (
	"github.com/awsmp/metering/internal/metering"
)

// recordCases are those of records that a seller writes directly.
func (p *plan) recordCases() []*Case {
	return []*Case{p.directRecord(), p.recordAgain(), p.expiredRecord(), p.silentRecord(), p.duplicateIdentity(), p.mixedIdentity()}
}

func (p *plan) directRecord() *Case {
	record := metering.NewRecord(p.sentGroup("direct-record"), 11)
	c := &Case{Name: "direct-record", What: "an hourly record that you write yourself is sent"}
	return p.ofRecords(c, true, step{
		records: []metering.Record{record}, wants: []want{{at: recordPlace(record), ends: p.verdict(), units: 11}}, wait: submitted,
	})
}

// recordAgain is a record that is put again with another quantity when it has ended. What AWS Marketplace says to that of a billed one
// shows the case billed-unit.
func (p *plan) recordAgain() *Case {
	g := p.sentGroup("duplicate")
	first, second := metering.NewRecord(g, 4), metering.NewRecord(g, 6)
	c := &Case{Name: "duplicate", What: "a record that is put again with another quantity is sent again, and AWS Marketplace decides"}
	if p.DryRun {
		c.What = "a record that is put again with another quantity is taken up again; a dry run has nobody who refuses it"
	}
	return p.ofRecords(c, true,
		step{records: []metering.Record{first}, wants: []want{{at: recordPlace(first), ends: p.verdict(), units: 4}}, wait: submitted},
		step{records: []metering.Record{second}, wants: []want{{at: recordPlace(second), ends: p.verdict(), units: 6}}, wait: submitted},
	)
}

func (p *plan) expiredRecord() *Case {
	record := metering.NewRecord(p.groupOf(licenseOne, "submission-expiry", p.past()), 8)
	c := &Case{Name: "submission-expiry", What: "a record that can no longer be billed is ended and named"}
	return p.ofRecords(c, false, step{
		records: []metering.Record{record}, wait: lapsed,
		wants: []want{{at: recordPlace(record), ends: []end{{metering.SubmissionExpired, ""}}, units: 8}},
	})
}

// silentRecord is one that was sent and never answered.
func (p *plan) silentRecord() *Case {
	g := p.groupOf(licenseOne, "silent", p.past())
	record := metering.NewRecord(g, 4)
	record.SentQuantity, record.SentSecond = metering.Units(4), g.Hour.Second(0).String()
	c := &Case{Name: "silent", What: "a record that was sent and never answered ends in doubt: it may be billed"}
	return p.ofRecords(c, false, step{
		records: []metering.Record{record}, wait: lapsed,
		wants: []want{{at: recordPlace(record), ends: []end{{metering.SubmissionExpired, metering.VerdictUnknown}}, units: 4}},
	})
}

// legacy is a record of a product that meters by identifier.
func (p *plan) legacy(license, name string, quantity int64) metering.Record {
	r := metering.NewRecord(p.groupOf(license, name, p.sent), quantity)
	r.CustomerIdentifier = identifier
	return r
}

func (p *plan) duplicateIdentity() *Case {
	name := fault{reason: metering.DuplicateIdentity}.caseName("direct")
	first, second := p.legacy(legacyOne, name, 3), p.legacy(legacyTwo, name, 4)
	c := &Case{Name: name, What: "of two records with one identity the first is sent"}
	return p.ofRecords(c, true, step{records: []metering.Record{first, second}, wait: submitted, wants: []want{
		{at: recordPlace(first), ends: p.verdict(), units: 3},
		{at: recordPlace(second), ends: []end{{metering.RejectedClientSide, string(metering.DuplicateIdentity)}}},
	}})
}

func (p *plan) mixedIdentity() *Case {
	name := fault{reason: metering.MixedIdentitySchemes}.caseName("direct")
	byLicense, byIdentifier := metering.NewRecord(p.sentGroup(name), 3), p.legacy(legacyOne, name, 3)
	c := &Case{Name: name, What: "of one sale under a license and an identifier, that of the license is sent: both would be billed"}
	return p.ofRecords(c, true, step{records: []metering.Record{byLicense, byIdentifier}, wait: submitted, wants: []want{
		{at: recordPlace(byLicense), ends: p.verdict(), units: 3},
		{at: recordPlace(byIdentifier), ends: []end{{metering.RejectedClientSide, string(metering.MixedIdentitySchemes)}}},
	}})
}

// rejectedRecords are malformed records: each is rejected alone.
func (p *plan) rejectedRecords() (list []*Case) {
	unreadable := []fault{
		{reason: metering.MalformedSortKey, alter: metering.Item{metering.AttrRecordKey: "no-key"}},
		{reason: metering.MalformedTimestamp, alter: metering.Item{metering.AttrRecordKey: "-"}},
	}
	for _, f := range append(faults(), unreadable...) {
		name := f.caseName("direct")
		g := p.sentGroup(name)
		if f.group != nil {
			f.group(&g)
		}
		record := metering.NewRecord(g, 5)
		switch f.reason {
		case metering.MalformedSortKey:
			record.SortKey = g.Dimension
		case metering.MalformedTimestamp:
			record.SortKey = g.Account + "#" + g.Dimension + "#yesterday"
		default:
			record = metering.RecordFromItem(replaced(record.Item(), f.alter))
		}
		c := &Case{Name: name, What: "such a record is rejected, and stops no other"}
		list = append(list, p.ofRecords(c, true, step{
			records: []metering.Record{record}, wait: submitted,
			wants: []want{{at: recordPlace(record), ends: []end{{metering.RejectedClientSide, string(f.reason)}}}},
		}))
	}
	return list
}
