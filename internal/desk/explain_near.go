package desk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// AmbiguousError is the error of the end of a license that several have.
type AmbiguousError struct {
	Text     string
	Licenses []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q could be any of %s", e.Text, ledger.Counted(int64(len(e.Licenses)), "license"))
}

// License is the license that a person has named: whole, or where the tables are on this machine by its end, or as ledger.Short shows it. Where it is
// not known it is what was named.
func (d *Desk) License(ctx context.Context, text string) (string, error) {
	if _, machine := d.Tables.(machineTables); !machine {
		return text, nil
	}
	end := text
	if i := strings.LastIndex(text, "…"); i >= 0 {
		end = text[i+len("…"):]
	}
	var found []string
	for license, err := range d.Tables.Licenses(ctx) {
		switch {
		case err != nil:
			return "", fmt.Errorf("look for the license: %w", err)
		case license == text:
			return text, nil
		case ledger.Short(license) == text || len(end) >= 4 && end == text && strings.HasSuffix(license, end):
			found = append(found, license)
		}
	}
	switch len(found) {
	case 0:
		return text, nil
	case 1:
		return found[0], nil
	}
	slices.Sort(found)
	return "", &AmbiguousError{text, found}
}

const (
	// maxNear bounds the groups that are offered for one that is not there, and maxNearItems what is read to find them.
	maxNear      = 8
	maxNearItems = 20_000
)

// Near are groups with usage of a license that are like one that has none: of its hour or of its dimension, the closest first.
func (d *Desk) Near(ctx context.Context, g metering.Group) ([]metering.Group, error) {
	groups := make(map[metering.Group]bool)
	items := 0
	for r, err := range d.Tables.LicenseRecords(ctx, g.License) {
		if err != nil {
			return nil, fmt.Errorf("look for usage of the license: %w", err)
		}
		if of, reason := r.Group(); reason == "" {
			groups[of] = true
		}
		if items++; items == maxNearItems {
			break
		}
	}
	if !d.Direct {
		for r, err := range d.Tables.LicenseRows(ctx, g.License) {
			if err != nil {
				return nil, fmt.Errorf("look for usage of the license: %w", err)
			}
			if of, named := groupOf(r); named {
				groups[of] = true
			}
			if items++; items >= 2*maxNearItems {
				break
			}
		}
	}
	list := make([]metering.Group, 0, len(groups))
	for of := range groups {
		list = append(list, of)
	}
	far := func(of metering.Group) (n int) {
		if !strings.EqualFold(of.Dimension, g.Dimension) {
			n += 2
		}
		if of.Hour != g.Hour {
			n++
		}
		return n
	}
	away := func(of metering.Group) int64 { return max(int64(of.Hour-g.Hour), int64(g.Hour-of.Hour)) }
	slices.SortFunc(list, func(a, b metering.Group) int {
		return cmp.Or(cmp.Compare(far(a), far(b)), cmp.Compare(away(a), away(b)), cmp.Compare(a.RecordKey(), b.RecordKey()))
	})
	return list[:min(len(list), maxNear)], nil
}

// LocalLicenses are up to 10,000 licenses with usage, where the tables are on this machine; elsewhere none is looked for.
func (d *Desk) LocalLicenses(ctx context.Context) (licenses []string, err error) {
	if _, machine := d.Tables.(machineTables); !machine {
		return nil, nil
	}
	const most = 10_000
	for license, err := range d.Tables.Licenses(ctx) {
		if err != nil {
			return nil, fmt.Errorf("look for licenses: %w", err)
		}
		if licenses = append(licenses, license); len(licenses) == most {
			break
		}
	}
	return licenses, nil
}
