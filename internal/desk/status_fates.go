package desk

import (
	"cmp"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// fates fills in what became of the units of the day and the month.
func (l *look) fates() {
	s := &l.status
	s.Today, s.Month = newFates(l.dayBegan()), newFates(l.monthBegan())
	switch {
	case l.ledger != nil:
		l.ledger.fill(s)
	case l.desk.Plant != nil:
		l.fillCounted()
	}
	slices.SortFunc(s.Hours, func(a, b HourFates) int { return cmp.Compare(a.Hour, b.Hour) })
}

func newFates(since time.Time) Fates {
	f := Fates{Since: since, Places: make(map[ledger.Place]ledger.Amount)}
	for _, p := range ledger.Places() {
		f.Places[p] = ledger.Amount{}
	}
	return f
}

func (f *Fates) put(p ledger.Place, items int, units int64) {
	a := f.Places[p]
	f.Places[p] = ledger.Amount{Items: a.Items + items, Units: a.Units + units}
}

// countedPlace is where the units are that a metric speaks of; false where another metric speaks of the same ones.
func countedPlace(m metering.Metric) (ledger.Place, bool) {
	switch m {
	case metering.MetricBilled:
		return ledger.Billed, true
	case metering.MetricNotSubscribed, metering.MetricDuplicate:
		return ledger.Refused, true
	case metering.MetricRowRejected, metering.MetricException:
		return ledger.Rejected, true
	case metering.MetricRowLate:
		return ledger.Late, true
	case metering.MetricRowExpired, metering.MetricSubmissionExpired:
		return ledger.Expired, true
	case metering.MetricDryRun:
		return ledger.DryRun, true
	}
	return "", false
}

// fillCounted goes by the metrics, and by what waits now.
func (l *look) fillCounted() {
	s := &l.status
	s.Today.By, s.Month.By = ByCount, ByCount
	hours := l.pictured()
	count := func(c Count, place ledger.Place) {
		if !c.Hour.Start().Before(s.Month.Since) {
			s.Month.put(place, int(c.Items), c.Units)
		}
		if !c.Hour.Start().Before(s.Today.Since) {
			s.Today.put(place, int(c.Items), c.Units)
		}
		if h := hours[c.Hour]; h != nil && c.Units != 0 {
			h.Units[place] += c.Units
		}
	}
	for _, c := range l.counts {
		if place, ok := countedPlace(c.Metric); ok {
			count(c, place)
		}
	}
	for _, c := range l.doubts { // they are counted among what has expired, and may be billed
		count(c, ledger.InDoubt)
		c.Items, c.Units = -c.Items, -c.Units
		count(c, ledger.Expired)
	}
	for _, w := range s.Waiting {
		h, err := metering.ParseHour(w.Bucket)
		if err != nil {
			continue
		}
		if !h.Start().Before(s.Month.Since) {
			s.Month.put(ledger.InFlight, w.Rows+w.Records, w.Units)
		}
		if !h.Start().Before(s.Today.Since) {
			s.Today.put(ledger.InFlight, w.Rows+w.Records, w.Units)
		}
		if of := hours[h]; of != nil {
			of.Unknown = of.Unknown || w.NoUnits && w.Rows > 0
			if w.Units > 0 {
				of.Units[ledger.InFlight] += w.Units
			}
		}
	}
	s.Hours = flat(hours)
}

// picturedHours is how many hours the picture shows before the one in progress.
const picturedHours = 24

// pictured are the hours of the picture, empty.
func (l *look) pictured() map[metering.Hour]*HourFates {
	hours := make(map[metering.Hour]*HourFates, picturedHours+1)
	for h := metering.HourOf(l.now) - picturedHours; h <= metering.HourOf(l.now); h++ {
		hours[h] = &HourFates{Hour: h.String(), Units: make(map[ledger.Place]int64)}
	}
	return hours
}

func flat(hours map[metering.Hour]*HourFates) []HourFates {
	list := make([]HourFates, 0, len(hours))
	for _, h := range hours {
		list = append(list, *h)
	}
	return list
}
