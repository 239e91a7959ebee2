package usagefile

import (
	"fmt"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Row makes a usage row of a line. The sort key and the bucket are derived from identity and timestamp unless the line gives
// them, and then stand as given, right or wrong.
func (l Line) Row() (metering.Row, error) {
	row := metering.RowFromItem(l.Item)
	for _, required := range []struct{ name, value string }{
		{metering.AttrLicense, row.License}, {metering.AttrAccount, row.Account},
		{metering.AttrDimension, row.Dimension}, {metering.AttrTimestamp, row.Timestamp},
	} {
		if required.value == "" {
			return metering.Row{}, &Refusal{MissingField, l.Number, "it has no " + required.name, "every row of usage needs one"}
		}
	}
	second, err := l.Second(metering.AttrTimestamp, row.Timestamp)
	if err != nil {
		return metering.Row{}, err
	}
	if row.SortKey == "" {
		g := metering.Group{Account: row.Account, Dimension: row.Dimension}
		row.SortKey = g.RowKey(second)
	}
	if row.Pending == "" {
		row.Pending = second.Hour().String()
	}
	return row, nil
}

// Refuse is a refusal of the line.
func (l Line) Refuse(reason, hint string) *Refusal {
	return &Refusal{Line: l.Number, Reason: reason, Hint: hint}
}

// Second reads a time that the line gives in the column named: YYYY-MM-DDTHH:MM:SS in UTC. The error is a *Refusal that says
// how to write it.
func (l Line) Second(column, value string) (metering.Second, error) {
	second, err := metering.ParseSecond(value)
	if err == nil {
		return second, nil
	}
	hint := "write it as YYYY-MM-DDTHH:MM:SS in UTC, whole seconds, no zone, as in 2026-03-31T14:00:00"
	reason := "is no time"
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"} {
		t, err := time.Parse(layout, value)
		if err != nil {
			continue
		}
		hint = "write it in UTC without a zone, in whole seconds: " + metering.Second(t.Unix()).String()
		switch {
		case strings.HasSuffix(layout, "Z07:00") || layout == time.RFC3339Nano:
			reason = "has a zone"
		case t.Nanosecond() != 0:
			reason = "has a fraction of a second"
		default:
			reason = "is not in the one form that is read"
		}
		break
	}
	return 0, &Refusal{Code(metering.MalformedTimestamp), l.Number, fmt.Sprintf("its %s %.60q %s", column, value, reason), hint}
}
