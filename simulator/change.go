package simulator

import (
	"errors"
	"time"
)

// change is one thing that alters what the simulator holds, and one line of the journal. Exactly one member is set. It states
// what was decided, not what was asked: replaying it needs no rule, no clock and no option.
type change struct {
	Usage      *acceptedUsage `json:"usage,omitempty"`
	License    *License       `json:"license,omitempty"`
	Customer   *Customer      `json:"customer,omitempty"`
	Suspension *suspension    `json:"suspension,omitempty"`
	Dimension  *definition    `json:"dimension,omitempty"`
	Token      *issuedToken   `json:"token,omitempty"`
	Reset      *struct{}      `json:"reset,omitempty"`
}

// acceptedUsage is what one call added to the ledger. A call is one line, so that no crash keeps half of it.
type acceptedUsage struct {
	ProductCode string   `json:"productCode,omitempty"` // of a call in the legacy scheme
	Records     []Billed `json:"records"`
}

type suspension struct {
	AccountID string `json:"accountId"`
	Suspended bool   `json:"suspended"`
}

type definition struct {
	Name    string `json:"name"`
	Defined bool   `json:"defined"`
}

type issuedToken struct {
	Token
	Expires time.Time `json:"expires"`
	Issued  int       `json:"issued"` // tokens whose value was invented so far, this one included
}

// record puts a change into the journal, if there is one. Called with mu held.
func (s *Simulator) record(c change) error {
	if s.journal == nil {
		return nil
	}
	return s.journal.append(c)
}

// keep records a change and then makes it. Called with mu held.
func (s *Simulator) keep(c change) error {
	if err := s.record(c); err != nil {
		return err
	}
	return s.apply(c)
}

// apply makes a change, now or in a replay. Called with mu held, or by New.
func (s *Simulator) apply(c change) error {
	switch {
	case c.Usage != nil:
		for _, b := range c.Usage.Records {
			s.ledger[s.billingKey(b.record(c.Usage.ProductCode))] = b
		}
	case c.License != nil:
		s.licenses[c.License.ARN] = *c.License
	case c.Customer != nil:
		s.replaceCustomer(*c.Customer)
	case c.Suspension != nil:
		s.suspended[c.Suspension.AccountID] = c.Suspension.Suspended
	case c.Dimension != nil:
		s.dimension[c.Dimension.Name] = c.Dimension.Defined
	case c.Token != nil:
		s.tokens[c.Token.Value] = *c.Token
		s.issued = c.Token.Issued
	case c.Reset != nil:
		s.reset()
	default:
		return errors.New("it holds no change")
	}
	return nil
}

// record is a ledger entry as it was submitted. A legacy entry's key follows from the customers known at its place in the
// journal, as it did when it was accepted.
func (b Billed) record(productCode string) Record {
	return Record{
		LicenseARN:         b.LicenseARN,
		CustomerIdentifier: b.CustomerIdentifier,
		AccountID:          b.AccountID,
		ProductCode:        productCode,
		Dimension:          b.Dimension,
		Timestamp:          b.Timestamp,
		Quantity:           b.Quantity,
		Allocations:        b.Allocations,
	}
}
