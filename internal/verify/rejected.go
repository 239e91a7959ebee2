package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/awsmp/metering/internal/metering"
)

// Never are the reasons that no item brings about which can be written to the tables, and why.
func Never() map[metering.Reason]string {
	return map[metering.Reason]string{
		metering.TimestampInFuture: "a row of a second to come waits until its hour is over; only the last ten minutes of a license see one sooner",
	}
}

// fault makes one thing wrong with an item.
type fault struct {
	reason metering.Reason
	name   string                                // of its case where there are two with the reason
	alter  metering.Item                         // attributes that are replaced; nil removes one
	group  func(g *metering.Group)               // changes the whole group, the good row beside it included
	rows   func(g metering.Group) []metering.Row // makes the rows by itself
}

func number(text string) json.Number { return json.Number(text) }

// allocated is an allocation as a seller writes it.
func allocated(quantity any, tags ...string) map[string]any {
	a := map[string]any{"AllocatedUsageQuantity": quantity}
	var list []any
	for i := 0; i < len(tags); i += 2 {
		list = append(list, map[string]any{"Key": tags[i], "Value": tags[i+1]})
	}
	if list != nil {
		a["Tags"] = list
	}
	return a
}

// sixTags are one more than the API takes.
func sixTags() (tags []string) {
	for i := range 6 {
		tags = append(tags, fmt.Sprintf("key%d", i), "value")
	}
	return tags
}

// manyAllocations are more than the API takes.
func manyAllocations() []any {
	list := make([]any, 2501)
	for i := range list {
		list[i] = allocated(number("1"))
	}
	return list
}

// faults are what can be wrong with a row or a record of quantity 5.
func faults() []fault {
	one := func(allocation map[string]any) metering.Item {
		return metering.Item{metering.AttrAllocations: []any{allocation}}
	}
	return []fault{
		{reason: metering.SortKeyMismatch, alter: metering.Item{metering.AttrDimension: "another"}},
		{reason: metering.MissingQuantity, alter: metering.Item{metering.AttrQuantity: nil}},
		{reason: metering.NonNumericQuantity, alter: metering.Item{metering.AttrQuantity: "5"}},
		{reason: metering.NonIntegerQuantity, alter: metering.Item{metering.AttrQuantity: number("2.5")}},
		{reason: metering.NegativeQuantity, alter: metering.Item{metering.AttrQuantity: number("-1")}},
		{reason: metering.QuantityOutOfRange, alter: metering.Item{metering.AttrQuantity: number("2147483648")}},
		{reason: metering.MissingDimension, alter: metering.Item{metering.AttrDimension: nil}},
		{reason: metering.DimensionTooLong, group: func(g *metering.Group) { g.Dimension += strings.Repeat("-", 256-len(g.Dimension)) }},
		{reason: metering.InvalidLicenseArn, group: func(g *metering.Group) { g.License = licenseBroken }},
		{reason: metering.MissingCustomerAWSAccountID, alter: metering.Item{metering.AttrAccount: nil}},
		{reason: metering.InvalidCustomerAWSAccountID, group: func(g *metering.Group) { g.Account = account[1:] }},
		{reason: metering.MissingLegacyIdentifier, group: func(g *metering.Group) { g.License = legacyOne }},
		{reason: metering.ConflictingIdentifier, alter: metering.Item{metering.AttrCustomerIdentifier: identifier}},
		{reason: metering.MalformedAllocations, alter: metering.Item{metering.AttrAllocations: "team"}},
		{reason: metering.NegativeOrNonIntegerAllocation, alter: one(allocated(number("2.5"), "team", "red"))},
		{reason: metering.TooManyTags, alter: one(allocated(number("5"), sixTags()...))},
		{reason: metering.MissingTagKeyOrValue, alter: one(allocated(number("5"), "team", ""))},
		{reason: metering.InvalidTag, alter: one(allocated(number("5"), "team", "red|blue"))},
		{reason: metering.TooManyAllocations, alter: metering.Item{metering.AttrQuantity: number("2501"), metering.AttrAllocations: manyAllocations()}},
		{reason: metering.AllocationSumMismatch, alter: one(allocated(number("4"), "team", "red"))},
	}
}

// rowFaults are what can be wrong with rows alone.
func rowFaults() []fault {
	return []fault{
		{reason: metering.MalformedTimestamp, alter: metering.Item{metering.AttrTimestamp: "yesterday"}},
		{reason: metering.QuantityOutOfRange, name: "sum", rows: func(g metering.Group) []metering.Row { return rowsOf(g, metering.MaxQuantity, 1) }},
		{reason: metering.ConflictingIdentifier, name: "identifiers", rows: twoIdentifiers},
		{reason: metering.MixedAllocatedAndUnallocated, alter: metering.Item{metering.AttrAllocations: []any{allocated(number("5"), "team", "red")}}},
		{reason: metering.RecordTooLarge, rows: largeRows},
	}
}

// twoIdentifiers are rows of one hour that name two customers.
func twoIdentifiers(g metering.Group) []metering.Row {
	g.License = legacyOne
	rows := rowsOf(g, 1, 5)
	rows[0].CustomerIdentifier, rows[1].CustomerIdentifier = identifier, identifier+"-other"
	return rows
}

// largeRows are two rows that each fit into their item, and whose record does not.
func largeRows(g metering.Group) []metering.Row {
	const sets = 120 // of five tags as long as they may be: 220 KB
	rows := rowsOf(g, sets, sets)
	for i := range rows {
		for n := range sets {
			tags := make([]metering.Tag, 5)
			for j := range tags {
				tags[j] = metering.Tag{Key: fmt.Sprintf("%d%s", j, strings.Repeat("k", 99)), Value: fmt.Sprintf("%d-%03d-%s", i, n, strings.Repeat("v", 250))}
			}
			rows[i].Allocations = append(rows[i].Allocations, metering.Allocation{Quantity: 1, Tags: tags})
		}
	}
	return rows
}

// replaced is an item with attributes replaced.
func replaced(item, attributes metering.Item) metering.Item {
	item = maps.Clone(item)
	for name, v := range attributes {
		if v == nil {
			delete(item, name)
			continue
		}
		item[name] = v
	}
	return item
}

func (f fault) caseName(family string) string {
	name := family + "-" + string(f.reason)
	if f.name != "" {
		name += "-" + f.name
	}
	return name
}

// rejectedRows are groups of a good row and one at fault: both are rejected, and no record comes of them.
func (p *plan) rejectedRows() (list []*Case) {
	for _, f := range append(faults(), rowFaults()...) {
		name := f.caseName("rejected")
		g := p.group(name)
		if f.group != nil {
			f.group(&g)
		}
		var rows []metering.Row
		if f.rows != nil {
			rows = f.rows(g)
			g.License = rows[0].License
		} else {
			rows = rowsOf(g, 1, 5)
			rows[1] = metering.RowFromItem(replaced(rows[1].Item(), f.alter))
		}
		wants := []want{{at: groupRecord(g), none: true}}
		for _, r := range rows {
			wants = append(wants, want{at: rowPlace(r), ends: []end{{metering.RejectedClientSide, string(f.reason)}}})
		}
		c := &Case{Name: name, What: "one such row rejects its hour, and no part of it is sent"}
		list = append(list, p.ofRows(c, false, step{rows: rows, wants: wants, wait: p.metered(p.hour)}))
	}
	return append(list, p.unreadableKey())
}

// unreadableKey is a row whose key names no group: it alone is rejected.
func (p *plan) unreadableKey() *Case {
	name := fault{reason: metering.MalformedSortKey}.caseName("rejected")
	g := p.group(name)
	rows := rowsOf(g, 1, 5)
	rows[1].SortKey = g.Dimension
	wants := append(aggregated(rows[:1]), want{at: rowPlace(rows[1]), ends: []end{{metering.RejectedClientSide, string(metering.MalformedSortKey)}}})
	c := &Case{Name: name, What: "a row whose key is none is rejected alone"}
	return p.ofRows(c, false, step{rows: rows, wants: wants, wait: p.metered(p.hour)})
}
