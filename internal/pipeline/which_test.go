package pipeline_test

import (
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

func TestWhich(t *testing.T) {
	t.Parallel()
	g := groupOf(licenseOne, apiCalls, hour)
	earlier, storage, other, elsewhere := g, g, g, g
	earlier.Hour--
	storage.Dimension, other.Account, elsewhere.License = "storage", "444455556666", licenseTwo
	groups := []metering.Group{g, earlier, storage, other, elsewhere}
	h := hour
	for _, tt := range []struct {
		name    string
		which   pipeline.Which
		want    [5]bool // of the groups, in their order
		keyless bool    // includes what is of this license, account and dimension, and whose key names no group
		one     bool
	}{
		{"all", pipeline.Which{}, [5]bool{true, true, true, true, true}, true, false},
		{"a license", pipeline.Which{License: licenseOne}, [5]bool{true, true, true, true, false}, true, false},
		{"an account", pipeline.Which{Account: buyer}, [5]bool{true, true, true, false, true}, true, false},
		{"a dimension", pipeline.Which{License: licenseOne, Dimension: apiCalls}, [5]bool{true, true, false, true, false}, true, false},
		{"an hour", pipeline.Which{License: licenseOne, Account: buyer, Hour: &h}, [5]bool{true, false, true, false, false}, false, false},
		{"one", pipeline.Which{License: licenseOne, Account: buyer, Dimension: apiCalls, Hour: &h}, [5]bool{true}, false, true},
		{"another", pipeline.Which{License: licenseOne, Account: buyer, Dimension: "x"}, [5]bool{}, false, false},
	} {
		for i, g := range groups {
			row, record := metering.NewRow(g, g.Hour.Second(7), 1), metering.NewRecord(g, 1)
			row.Account, record.Account = "x", "x" // the key says what it is
			if got := [3]bool{tt.which.Group(g), tt.which.Row(row), tt.which.Record(record)}; got != [3]bool{tt.want[i], tt.want[i], tt.want[i]} {
				t.Errorf("%s: group, row and record %d are included %v, want %v", tt.name, i, got, tt.want[i])
			}
		}
		row, record := metering.NewRow(g, g.Hour.Second(7), 1), metering.NewRecord(g, 1)
		row.SortKey, record.SortKey = "no key", buyer+"#"+apiCalls+"#today"
		if got := [2]bool{tt.which.Row(row), tt.which.Record(record)}; got != [2]bool{tt.keyless, tt.keyless} {
			t.Errorf("%s: without a group's key they are included %v, want %v", tt.name, got, tt.keyless)
		}
		if found, one := tt.which.One(); one != tt.one || one && found != g {
			t.Errorf("%s: one group %v, %v", tt.name, found, one)
		}
	}
}
