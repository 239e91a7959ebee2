package pipeline

import "github.com/awsmp/metering/internal/metering"

// Which selects usage, rows as well as records. What is empty leaves the choice open.
type Which struct {
	License   string
	Account   string
	Dimension string
	Hour      *metering.Hour
}

// Group reports whether a group is selected.
func (w Which) Group(g metering.Group) bool {
	return w.names(g) && (w.Hour == nil || *w.Hour == g.Hour)
}

// Record reports whether a record is selected. One whose key names no group is what its attributes say, and of no hour.
func (w Which) Record(r metering.Record) bool {
	g, reason := r.Group()
	if reason != "" {
		return w.Hour == nil && w.names(metering.Group{License: r.License, Account: r.Account, Dimension: r.Dimension})
	}
	return w.Group(g)
}

// Row reports whether a row is selected, likewise.
func (w Which) Row(r metering.Row) bool {
	key, reason := metering.ParseRowKey(r.SortKey)
	if reason != "" {
		return w.Hour == nil && w.names(metering.Group{License: r.License, Account: r.Account, Dimension: r.Dimension})
	}
	return w.Group(key.Group(r.License))
}

// One is the one group that is selected, if it is one.
func (w Which) One() (metering.Group, bool) {
	if w.License == "" || w.Account == "" || w.Dimension == "" || w.Hour == nil {
		return metering.Group{}, false
	}
	return metering.Group{License: w.License, Account: w.Account, Dimension: w.Dimension, Hour: *w.Hour}, true
}

func (w Which) names(g metering.Group) bool {
	return (w.License == "" || w.License == g.License) && (w.Account == "" || w.Account == g.Account) &&
		(w.Dimension == "" || w.Dimension == g.Dimension)
}
