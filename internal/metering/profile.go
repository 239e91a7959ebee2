package metering

import (
	"maps"
	"time"
)

// AttrRegistrationData is the attribute of the customer-profile table that holds what a buyer told. Promoted fields stand beside it.
const AttrRegistrationData = "registrationData"

// Profile is what a buyer told at registration: personal data, which stays in its Region and in this table alone.
type Profile struct {
	License, Account   string
	ProductCode        string
	CustomerIdentifier string            // of products that still meter by it
	Fields             map[string]string // registrationData
	Promoted           map[string]string // copies of some fields as attributes of their own, for indexes
	CreatedAt          string
	UpdatedAt          string
}

// ProfileChange adds to a profile, which is made where there is none: the fields that it names get their values, with their promoted
// copies in the same write (F49), all others stay.
type ProfileChange struct {
	License, Account   string
	ProductCode        string
	CustomerIdentifier string
	Fields             map[string]string // non-empty values; may be empty
	Promoted           []string          // names of those fields that have a copy
	At                 time.Time
}

// Copies are the promoted copies of the fields that the change names.
func (c ProfileChange) Copies() map[string]string {
	copies := make(map[string]string, len(c.Promoted))
	for _, name := range c.Promoted {
		if v, ok := c.Fields[name]; ok {
			copies[name] = v
		}
	}
	return copies
}

// Apply is the profile after the change. Old is nil where there is none.
func (c ProfileChange) Apply(old *Profile) Profile {
	var p Profile
	if old != nil {
		p = *old
	}
	p.License, p.Account, p.ProductCode = c.License, c.Account, c.ProductCode
	if c.CustomerIdentifier != "" {
		p.CustomerIdentifier = c.CustomerIdentifier
	}
	p.Fields, p.Promoted = merged(p.Fields, c.Fields), merged(p.Promoted, c.Copies())
	p.CreatedAt, p.UpdatedAt = stamp(p.CreatedAt, c.At)
	return p
}

func merged(old, new map[string]string) map[string]string {
	all := make(map[string]string, len(old)+len(new))
	maps.Copy(all, old)
	maps.Copy(all, new)
	return all
}

// ReservedProfileField reports whether a name is an attribute of the profile itself: a promoted field of that name would overwrite it.
func ReservedProfileField(name string) bool {
	switch name {
	case AttrLicense, AttrAccount, AttrProductCode, AttrCustomerIdentifier, AttrRegistrationData, AttrCreatedAt, AttrUpdatedAt, AttrTTL:
		return true
	}
	return false
}
