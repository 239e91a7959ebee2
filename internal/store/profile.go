package store

import (
	"fmt"

	"github.com/awsmp/metering/internal/metering"
)

// CheckProfile refuses a change that no table can hold: one without a key, and one of which a promoted copy would overwrite an
// attribute of the profile itself (F49). It names no value.
func CheckProfile(c metering.ProfileChange) error {
	if c.License == "" || c.Account == "" {
		return fmt.Errorf("save profile: %w", errNoAccount)
	}
	for name := range c.Copies() {
		if metering.ReservedProfileField(name) {
			return fmt.Errorf("save profile: the field %s cannot be promoted, an attribute of the profile has that name", name)
		}
	}
	return nil
}

// ProfileItem is a profile as an item of the customer-profile table.
func ProfileItem(p metering.Profile) metering.Item {
	fields := make(map[string]any, len(p.Fields))
	for name, v := range p.Fields {
		fields[name] = v
	}
	item := metering.Item{metering.AttrLicense: p.License, metering.AttrAccount: p.Account, metering.AttrRegistrationData: fields}
	for name, v := range p.Promoted {
		item[name] = v
	}
	for name, v := range map[string]string{
		metering.AttrProductCode: p.ProductCode, metering.AttrCustomerIdentifier: p.CustomerIdentifier,
		metering.AttrCreatedAt: p.CreatedAt, metering.AttrUpdatedAt: p.UpdatedAt,
	} {
		if v != "" {
			item[name] = v
		}
	}
	return item
}

// ProfileOf reads an item of the customer-profile table. Every text that is not the profile's own attribute is a promoted copy; what is
// no text is left out.
func ProfileOf(item metering.Item) metering.Profile {
	text := func(name string) string {
		s, _ := item[name].(string)
		return s
	}
	p := metering.Profile{
		License: text(metering.AttrLicense), Account: text(metering.AttrAccount), ProductCode: text(metering.AttrProductCode),
		CustomerIdentifier: text(metering.AttrCustomerIdentifier), Fields: map[string]string{}, Promoted: map[string]string{},
		CreatedAt: text(metering.AttrCreatedAt), UpdatedAt: text(metering.AttrUpdatedAt),
	}
	data, _ := item[metering.AttrRegistrationData].(map[string]any)
	for name, v := range data {
		if s, ok := v.(string); ok {
			p.Fields[name] = s
		}
	}
	for name := range item {
		if s := text(name); s != "" && !metering.ReservedProfileField(name) {
			p.Promoted[name] = s
		}
	}
	return p
}
