package ledger

import "slices"

// Document is a ledger as JSON. Field names are stable; amounts are whole numbers; places that are empty are there, with 0.
type Document struct {
	Balanced   bool                    `json:"balanced"`   // every written unit is in exactly one place
	Licenses   []string                `json:"licenses"`   // covered, where hours are named those with usage in them, in order, at most 100,000
	FoundBy    string                  `json:"foundBy"`    // how they were found
	Groups     int                     `json:"groups"`     // of license, account, dimension and hour
	Written    Amount                  `json:"written"`    // items: rows, or records that have none
	Places     map[Place]DocumentPlace `json:"places"`     // billed refused rejected late expired inDoubt dryRun inFlight
	Unknown    int                     `json:"unknown"`    // items whose quantity is no number: counted, units unknown
	Withdrawn  Amount                  `json:"withdrawn"`  // committed, and no longer in the rows
	Stale      int                     `json:"stale"`      // billed rows with another label: the next visit heals them
	Open       []DocumentGroup         `json:"open"`       // groups with anything other than billed, at most 10,000
	Imbalances []DocumentGroup         `json:"imbalances"` // groups whose books do not balance, at most 10,000
	CrossCheck *DocumentCheck          `json:"crossCheck,omitempty"`

	// How many are not in these lists; missing where all are. The sums are of everything.
	LicensesMore   int `json:"licensesMore,omitempty"`
	OpenMore       int `json:"openMore,omitempty"`
	ImbalancesMore int `json:"imbalancesMore,omitempty"`

	Copy *CopyNote `json:"copy,omitempty"` // missing where the tables themselves were read
}

// DocumentPlace is what one place holds, and why.
type DocumentPlace struct {
	Amount
	Causes []DocumentCause `json:"causes,omitempty"` // none for billed
}

// DocumentCause is a part of a place with one cause.
type DocumentCause struct {
	Code string `json:"code"` // stable
	What string `json:"what"`
	Do   string `json:"do"`
	Over bool   `json:"over,omitempty"` // their hours can no longer be billed
	Amount
}

// DocumentGroup is a group that is not billed in full.
type DocumentGroup struct {
	License   string                  `json:"licenseArn"`
	Account   string                  `json:"customerAWSAccountId"`
	Dimension string                  `json:"dimension"`
	Hour      string                  `json:"hourBucket"` // YYYY-MM-DDTHH in UTC, empty for a row whose key names none
	Written   Amount                  `json:"written"`
	Places    map[Place]DocumentPlace `json:"places"` // those that hold something
	Unknown   int                     `json:"unknown"`
	Withdrawn Amount                  `json:"withdrawn"`
	Stale     int                     `json:"stale"`
	Findings  []string                `json:"findings,omitempty"` // what stands in the way of a balance
}

// DocumentCheck is the comparison with the Marketplace's own ledger.
type DocumentCheck struct {
	Equal       bool                 `json:"equal"` // no difference without a name
	Ours        int64                `json:"ours"`  // units billed
	Theirs      int64                `json:"theirs"`
	Records     int                  `json:"records"` // of theirs
	Differences []DocumentDifference `json:"differences"`
	Explained   []DocumentDifference `json:"explained"`
}

// DocumentDifference is a disagreement about one hour of one customer.
type DocumentDifference struct {
	Customer  string `json:"customer"` // license ARN or customerIdentifier
	Account   string `json:"customerAWSAccountId,omitempty"`
	Dimension string `json:"dimension"`
	Hour      string `json:"hourBucket"`
	Ours      int64  `json:"ours"`
	Theirs    int64  `json:"theirs"`
	Note      string `json:"note"`
}

// Document is the ledger for encoding/json.
func (s Sheet) Document() Document {
	r := s.Report
	d := Document{
		Balanced: r.Balanced(), Licenses: slices.Concat([]string{}, r.Licenses), FoundBy: r.FoundBy, Groups: r.Groups,
		Written: r.Total.Written, Places: documentPlaces(r.Total, true),
		Unknown: r.Total.Unknown, Withdrawn: r.Total.Withdraw, Stale: r.Total.Stale,
		Open: documentGroups(r.Open), Imbalances: documentGroups(r.Imbalances),
		LicensesMore: r.LicensesMore, OpenMore: r.OpenMore, ImbalancesMore: r.ImbalancesMore, Copy: s.Copy,
	}
	if c := s.Check; c != nil {
		d.CrossCheck = &DocumentCheck{
			Equal: c.Equal(), Ours: c.Ours, Theirs: c.Theirs, Records: s.Sold,
			Differences: documentDifferences(c.Differences), Explained: documentDifferences(c.Explained),
		}
	}
	return d
}

func documentPlaces(b Balance, all bool) map[Place]DocumentPlace {
	places := make(map[Place]DocumentPlace)
	for _, p := range Places() {
		place := DocumentPlace{Amount: b.Place(p)}
		if !all && place.Amount == (Amount{}) {
			continue
		}
		for _, c := range causesOf(b, p) {
			place.Causes = append(place.Causes, DocumentCause{Code: c.Code, What: c.What, Do: c.Do, Over: c.over, Amount: c.Amount})
		}
		places[p] = place
	}
	return places
}

func documentGroups(list []Balance) []DocumentGroup {
	out := make([]DocumentGroup, len(list))
	for i, b := range list {
		out[i] = DocumentGroup{
			License: b.Group.License, Account: b.Group.Account, Dimension: b.Group.Dimension,
			Written: b.Written, Places: documentPlaces(b, false),
			Unknown: b.Unknown, Withdrawn: b.Withdraw, Stale: b.Stale, Findings: b.Findings,
		}
		if b.Group.Hour != 0 {
			out[i].Hour = b.Group.Hour.String()
		}
	}
	return out
}

func documentDifferences(list []Difference) []DocumentDifference {
	out := make([]DocumentDifference, len(list))
	for i, d := range list {
		out[i] = DocumentDifference{
			Customer: d.Customer, Account: d.Account, Dimension: d.Dimension, Hour: d.Hour.String(),
			Ours: d.Ours, Theirs: d.Theirs, Note: d.Note,
		}
	}
	return out
}
