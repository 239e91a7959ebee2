package store

import (
	"errors"

	"github.com/awsmp/metering/internal/metering"
)

// NoRoom is the reason of a row that is too full for its own.
const NoRoom = "The row has no room for its reason"

// Labelling is one form of a label. Bare leaves the row's audit times as they are.
type Labelling struct {
	metering.Label
	Bare bool
}

// Apply is the row after the label.
func (l Labelling) Apply(r metering.Row) metering.Row {
	labelled := l.Label.Apply(r)
	if l.Bare {
		labelled.CreatedAt, labelled.UpdatedAt = r.CreatedAt, r.UpdatedAt
	}
	return labelled
}

// Fit writes a label in the longest form that the row has room for, since a row that cannot be labelled would wait for ever: whole,
// then without audit times and with NoRoom for a longer reason, then with no reason at all. The last form adds at most 4 bytes, or 9
// with a late quantity of two digits, and none where the status is Aggregated: what goes, the marker, makes room. The row that lacks
// even those stays as it is, with metering.ErrTooLarge.
func Fit(l metering.Label, write func(Labelling) error) error {
	err := write(Labelling{Label: l})
	for _, most := range []string{NoRoom, ""} {
		if !errors.Is(err, metering.ErrTooLarge) {
			return err
		}
		if len(l.Reason) > len(most) {
			l.Reason = most
		}
		err = write(Labelling{Label: l, Bare: true})
	}
	return err
}
