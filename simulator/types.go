package simulator

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Tag is one key and value of an allocation.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Allocation is the part of a record's quantity that belongs to one set of tags.
type Allocation struct {
	Quantity int64 `json:"quantity"`
	Tags     []Tag `json:"tags,omitempty"`
}

// Record is one usage record of a call, as Fault.Match sees it.
type Record struct {
	LicenseARN         string
	CustomerIdentifier string
	AccountID          string
	ProductCode        string // of the call; empty for records with a license
	Dimension          string
	Timestamp          time.Time
	Quantity           int64
	Allocations        []Allocation
}

// Billed is one entry of the ledger: a record that was answered with Success the first time.
type Billed struct {
	LicenseARN         string       `json:"licenseArn,omitempty"`
	CustomerIdentifier string       `json:"customerIdentifier,omitempty"`
	AccountID          string       `json:"accountId,omitempty"`
	Dimension          string       `json:"dimension"`
	Hour               time.Time    `json:"hour"` // start of the UTC hour of Timestamp
	Quantity           int64        `json:"quantity"`
	Allocations        []Allocation `json:"allocations,omitempty"`
	MeteringRecordID   string       `json:"meteringRecordId"`
	At                 time.Time    `json:"at"`        // when it was accepted
	Timestamp          time.Time    `json:"timestamp"` // as submitted
}

// License is what a buyer's account holds of a product. A zero time means that it has not happened (ActivatedAt: since ever).
type License struct {
	ARN             string    `json:"licenseArn"`
	AccountID       string    `json:"accountId"`
	ProductCode     string    `json:"productCode,omitempty"` // empty: Options.ProductCode
	ActivatedAt     time.Time `json:"activatedAt,omitzero"`
	DeprovisionedAt time.Time `json:"deprovisionedAt,omitzero"`
	EndedAt         time.Time `json:"endedAt,omitzero"`
}

// Customer is a buyer of the legacy kind, metered by identifier or account id together with the product code.
type Customer struct {
	Identifier string `json:"customerIdentifier,omitempty"`
	AccountID  string `json:"accountId,omitempty"`
	Active     bool   `json:"active"` // false: every record is answered with CustomerNotSubscribed
}

// Token is a registration token and what ResolveCustomer answers for it.
type Token struct {
	Value              string        `json:"token,omitempty"` // empty: one is invented
	CustomerIdentifier string        `json:"customerIdentifier,omitempty"`
	AccountID          string        `json:"accountId,omitempty"`
	LicenseARN         string        `json:"licenseArn,omitempty"`
	ProductCode        string        `json:"productCode,omitempty"` // empty: Options.ProductCode
	TTL                time.Duration `json:"-"`                     // 0: Options.TokenTTL; negative: expired from the start
}

func (l License) check() error {
	if !wellFormedARN(l.ARN) {
		return fmt.Errorf("license ARN %q: use the form arn:aws:license-manager::111122223333:license:l-…", l.ARN)
	}
	if !buyersAccount(l.AccountID) {
		return fmt.Errorf("license %s, account %q: use the buyer's 12 digits", l.ARN, l.AccountID)
	}
	if !wellFormedProductCode(l.ProductCode) {
		return fmt.Errorf("license %s, product code %q: use at most 255 letters, digits and -/=:_.@", l.ARN, l.ProductCode)
	}
	for _, t := range []time.Time{l.ActivatedAt, l.DeprovisionedAt, l.EndedAt} {
		if year := t.UTC().Year(); year < 0 || year > 9999 {
			return fmt.Errorf("license %s, a time in the year %d: neither JSON nor the journal can hold it, use one of the years 0 to 9999 in UTC", l.ARN, year)
		}
	}
	return nil
}

func (t Token) check() error {
	if t.AccountID != "" && !buyersAccount(t.AccountID) {
		return fmt.Errorf("token of the account %q: use the buyer's 12 digits", t.AccountID)
	}
	for name, text := range map[string]string{"value": t.Value, "customer identifier": t.CustomerIdentifier, "license ARN": t.LicenseARN, "product code": t.ProductCode} {
		if !utf8.ValidString(text) {
			return fmt.Errorf("token with the %s %q: it is no UTF-8 text, and the journal could not hold it", name, text)
		}
	}
	return nil
}

func (c Customer) check() error {
	if c.Identifier == "" && c.AccountID == "" {
		return errors.New("customer has neither an identifier nor an account id: give one of them, or both")
	}
	if !utf8.ValidString(c.Identifier) {
		return fmt.Errorf("customer %q is no UTF-8 text: no call can name it", c.Identifier)
	}
	if c.AccountID != "" && !buyersAccount(c.AccountID) {
		return fmt.Errorf("customer %q, account %q: use the buyer's 12 digits", c.Identifier, c.AccountID)
	}
	return nil
}
