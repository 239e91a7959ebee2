package modelcheck

import (
	"encoding/json"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/usage"
)

const (
	license   = "arn:aws:license-manager::111122223333:license:l-1"
	legacy    = "product-of-old" // no ARN
	account   = "444455556666"
	dimension = "requests"
)

// moments are those that matter to the hour of all scenarios: the edges of its end. What happens earlier in its day happens in the same
// way as in its last minute, but for zeros.
type moments struct{ early, open, over, late Moment }

func hourStart() time.Time { return time.Date(2026, 3, 10, 14, 0, 0, 0, time.UTC) }

func momentsOf(hour time.Time) moments {
	end := hour.Add(metering.DefaultWindow)
	return moments{
		early: Moment{At: hour.Add(66 * time.Minute), Means: "the hour is complete"},
		open:  Moment{At: end.Add(-time.Minute), Means: "it is the hour's last minute to be billed", Settles: true},
		over:  Moment{At: end.Add(time.Minute), Means: "the hour can no longer be billed"},
		late:  Moment{At: end.Add(11 * time.Minute), Means: "the hour has been over for ten minutes", Settles: true},
	}
}

func groupOf(license string) metering.Group {
	return metering.Group{License: license, Account: account, Dimension: dimension, Hour: metering.HourOf(hourStart())}
}

func second(s int) metering.Second { return groupOf(license).Hour.Second(s) }

func row(s int, q int64) metering.Row { return metering.NewRow(groupOf(license), second(s), q) }

// spoiled is a row whose quantity is 2.5.
func spoiled(s int) metering.Row {
	item := row(s, 0).Item()
	item[metering.AttrQuantity] = json.Number("2.5")
	return metering.RowFromItem(item)
}

func event(s int, q int64) usage.Event {
	return usage.Event{License: license, Account: account, Dimension: dimension, Time: second(s).Time(), Quantity: q}
}

// add is a flush of its own quantity.
func add(s int, q int64) metering.Flush {
	return metering.NewFlush(groupOf(license), second(s), q, "flush of "+string(rune('0'+q)))
}

func visits(license string, n int) (list []Message) {
	for range n {
		list = append(list, Message{WorkTopic, metering.Encode(metering.NewWorkMessage(groupOf(license), false))})
	}
	return list
}

// between bounds when a role begins, by numbers of the clock: outside, its first look at the clock would be its end.
func between(from, until int, r Role) Role {
	r.From, r.Until = from, until
	return r
}

// stages are the scheduled ones of a world whose hour ends at the last of its moments.
func stages(last int) []Role {
	return []Role{between(0, last-1, Submitter()), between(last, last, Expirer()), between(last, last, AgeOut())}
}

// world is a row of 5, two visits of its group under way, and an hour that ends.
func world(name, about string, cast ...Role) Scenario {
	m := momentsOf(hourStart())
	return Scenario{
		Name: name, About: about, Groups: []metering.Group{groupOf(license)}, Rows: []metering.Row{row(1, 5)},
		Messages: visits(license, 2), Clock: []Moment{m.open, m.late}, Cast: append(cast, stages(1)...),
	}
}

func with(s Scenario, change func(s *Scenario)) Scenario {
	change(&s)
	return s
}

// Scenarios are small enough for every run of the tests.
func Scenarios() []Scenario {
	m := momentsOf(hourStart())
	return []Scenario{
		world("everyone", "Every stage, over a group whose writer adds a row and then grows another, while its hour ends.",
			Aggregators(2), Cleaners(1), Adder(add(2, 4), add(1, 3))),
		with(world("library", "The writer library, whose answers must be true, beside two visits that read row by row.",
			Aggregators(2), Cleaners(1), Writer(event(2, 4), event(1, 3))), func(s *Scenario) {
			s.PageRows, s.Cast = 1, s.Cast[:4] // the hour ends; nobody ends what is left but the later visits
		}),
		with(world("clock", "Time passes between an effect and the look at the clock after it, also when the hour is over and nothing acts on it yet.",
			Aggregators(2), Cleaners(1), Adder(add(1, 3))), func(s *Scenario) {
			s.Clock, s.Clockwise = []Moment{m.open, m.over, m.late}, true
			s.Cast = append(s.Cast[:3], stages(2)...)
		}),
		with(world("fault", "One effect fails, or its answer is lost, or one process is killed, with its message or without.",
			Aggregators(1), Cleaners(1), Adder(add(1, 3))), func(s *Scenario) { s.Faults = 1 }),
		with(world("loss", "Two things go wrong over a group that is visited once.",
			Aggregators(1), Cleaners(1)), func(s *Scenario) { s.Faults, s.Messages = 2, visits(license, 1) }),
		with(world("twice", "Two messages are delivered twice, to two cleaners at once.",
			Aggregators(1), Cleaners(2), Adder(add(1, 3))), func(s *Scenario) { s.Doubles, s.Messages, s.Cast = 2, visits(license, 1), s.Cast[:4] }),
		with(world("lag", "The indexes lag behind their tables.",
			Aggregators(2), Cleaners(1), Adder(add(1, 3))), func(s *Scenario) { s.Lagging = true }),
		with(world("deleted", "One of two rows is deleted by its seller.",
			Aggregators(2), Cleaners(1), Deleter(row(1, 5))), func(s *Scenario) { s.Rows = append(s.Rows, row(2, 4)) }),
		world("replaced", "A row is put again with another quantity, without a condition.",
			Aggregators(2), Cleaners(1), Putter(row(1, 9))),
		with(world("rejected", "One row of two is invalid, and is mended.",
			Aggregators(2), Cleaners(1), Putter(row(2, 4))), func(s *Scenario) { s.Rows = append(s.Rows, spoiled(2)) }),
		with(world("zero", "A row of nothing waits until its hour's end, and usage may still come.",
			Aggregators(2), Cleaners(1), Adder(add(2, 4))), func(s *Scenario) {
			s.Rows, s.Clock = []metering.Row{row(1, 0)}, []Moment{m.early, m.open, m.late}
			s.Cast = append(s.Cast[:3], stages(2)...)
		}),
		with(world("legacy", "A row of a product that meters by customer identifier.", Aggregators(2), Cleaners(1)), func(s *Scenario) {
			r := metering.NewRow(groupOf(legacy), second(1), 5)
			r.CustomerIdentifier = LegacyIdentifier
			s.Groups, s.Rows, s.Messages = []metering.Group{groupOf(legacy)}, []metering.Row{r}, visits(legacy, 2)
		}),
	}
}

// Deep are the scenarios with more in them, for those who have minutes and gigabytes.
func Deep() []Scenario {
	m := momentsOf(hourStart())
	everyone := func(name, about string, change func(s *Scenario)) Scenario {
		return with(world(name, about, Aggregators(2), Cleaners(1), Adder(add(2, 4), add(1, 3))), change)
	}
	return []Scenario{
		everyone("pages", "Everyone, and rows are read one by one.", func(s *Scenario) { s.PageRows = 1 }),
		everyone("moments", "Everyone, and the hour is over for ten minutes before anything acts on it.", func(s *Scenario) {
			s.Clock, s.Clockwise = []Moment{m.open, m.over, m.late}, true
			s.Cast = append(s.Cast[:3], stages(2)...)
		}),
		everyone("everyone with a fault", "Everyone, and one thing goes wrong.", func(s *Scenario) { s.Faults = 1 }),
		everyone("lag with a fault", "One visit, indexes that lag, and one thing goes wrong.", func(s *Scenario) {
			s.Lagging, s.Faults, s.Messages = true, 1, visits(license, 1)
		}),
		with(world("library with a fault", "The writer library among all stages, and one thing goes wrong.",
			Aggregators(1), Cleaners(1), Writer(event(2, 4), event(1, 3))), func(s *Scenario) { s.Faults = 1 }),
		with(world("three faults", "Three things go wrong over a group that is visited twice.",
			Aggregators(1), Cleaners(1)), func(s *Scenario) { s.Faults = 3 }),
		with(world("two cleaners", "Messages are delivered twice, to two cleaners at once, beside every stage.",
			Aggregators(1), Cleaners(2), Adder(add(1, 3))), func(s *Scenario) { s.Doubles = 1 }),
		world("grown twice", "A row grows twice and another comes.",
			Aggregators(2), Cleaners(1), Adder(add(1, 3), add(2, 4), add(1, 2))),
	}
}
