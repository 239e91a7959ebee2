package demo

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/usagefile"
)

// The columns of a demo file beyond those of a row.
const (
	columnWrittenAt = "writtenAt" // when the row reaches the table; its timestamp where it is empty
	columnEvent     = "event"     // empty or "usage" for a row, or one of the events
	columnUntil     = "until"     // when an event is over
)

// Columns are the columns of a demo file beyond those of a row.
func Columns() []string { return []string{columnWrittenAt, columnEvent, columnUntil} }

// Event is what a line plays other than usage.
type Event string

// The events.
const (
	Throttle           Event = "throttle"            // from, until: the Marketplace throttles every call
	Outage             Event = "outage"              // from, until: it answers every call with an internal error
	LostReplies        Event = "lost-replies"        // from, until: it takes calls, and its answers get lost
	Unprocessed        Event = "unprocessed"         // from, until: it leaves every record unprocessed
	Deprovision        Event = "deprovision"         // license, account, from: usage is taken for one hour more
	Subscribe          Event = "subscribe"           // license, account, from: the license is active from then on, not before
	Suspend            Event = "suspend"             // account, from, until: the buyer's account is suspended
	UndefinedDimension Event = "undefined-dimension" // dimension: the product has none of this name (until then)
)

// Events lists every event.
func Events() []Event {
	return []Event{Throttle, Outage, LostReplies, Unprocessed, Deprovision, Subscribe, Suspend, UndefinedDimension}
}

// Script is a file, ready to be played.
type Script struct {
	Refused []*usagefile.Refusal // lines that are not played
	Rows    int                  // lines of usage that are
	actions []action             // in the order in which they happen
}

// action is a row that reaches the table, or something that happens to the world.
type action struct {
	at    time.Time
	line  int
	row   *metering.Row
	event *event
}

type event struct {
	Event
	license, account, dimension string
	from, until                 time.Time // until is zero where the event has no end
	ends                        bool      // the action is the end of the event, not its beginning
}

// Load makes a script of the lines of a file. Lines that cannot be played are refused one by one; progress, where set, is
// told the number of lines now and then. The error is a *usagefile.FileError.
func Load(lines iter.Seq2[usagefile.Line, error], progress func(lines int)) (*Script, error) {
	s := &Script{}
	n := 0
	for line, err := range lines {
		if n++; progress != nil && n%100_000 == 0 {
			progress(n)
		}
		if err == nil {
			err = s.add(line)
		}
		var refusal *usagefile.Refusal
		switch {
		case err == nil:
		case errors.As(err, &refusal):
			s.Refused = append(s.Refused, refusal)
		default:
			return nil, err
		}
	}
	slices.SortStableFunc(s.actions, func(a, b action) int { return a.at.Compare(b.at) })
	return s, nil
}

func (s *Script) add(l usagefile.Line) error {
	name := l.Extra[columnEvent]
	if name != "" && name != "usage" {
		return s.addEvent(l, Event(name))
	}
	row, err := l.Row()
	if err != nil {
		return err
	}
	if l.Extra[columnUntil] != "" {
		return l.Refuse("a row of usage has no until", "leave it empty, or name an event")
	}
	at, err := when(l, columnWrittenAt, row.Timestamp)
	if err != nil {
		return err
	}
	s.Rows++
	s.actions = append(s.actions, action{at: at, line: l.Number, row: &row})
	return nil
}

func (s *Script) addEvent(l usagefile.Line, name Event) error {
	if !slices.Contains(Events(), name) {
		return l.Refuse(fmt.Sprintf("the event %.40q is not known", name), "use usage or one of: "+eventNames())
	}
	text := func(attribute string) string { s, _ := l.Item[attribute].(string); return s }
	e := event{Event: name, license: text(metering.AttrLicense), account: text(metering.AttrAccount), dimension: text(metering.AttrDimension)}
	var err error
	if e.from, err = when(l, columnWrittenAt, text(metering.AttrTimestamp)); err != nil {
		return err
	}
	if l.Extra[columnUntil] != "" {
		if e.until, err = when(l, columnUntil, ""); err != nil {
			return err
		}
	}
	if missing := e.missing(); missing != "" {
		return l.Refuse(fmt.Sprintf("the event %s has no %s", name, missing), "fill that cell")
	}
	if !e.until.IsZero() && !e.until.After(e.from) {
		return l.Refuse("its until is not after its writtenAt", "an event ends after it begins")
	}
	s.actions = append(s.actions, action{at: e.from, line: l.Number, event: &e})
	if !e.until.IsZero() {
		end := e
		end.ends = true
		s.actions = append(s.actions, action{at: e.until, line: l.Number, event: &end})
	}
	return nil
}

// missing names what the event needs and does not have.
func (e event) missing() string {
	switch e.Event {
	case Throttle, Outage, LostReplies, Unprocessed:
		if e.until.IsZero() {
			return columnUntil
		}
	case Deprovision, Subscribe:
		if !strings.HasPrefix(e.license, "arn:") {
			return metering.AttrLicense + " (an ARN)"
		}
		if e.account == "" {
			return metering.AttrAccount
		}
	case Suspend:
		if e.account == "" {
			return metering.AttrAccount
		}
	case UndefinedDimension:
		if e.dimension == "" {
			return metering.AttrDimension
		}
		return "" // from the start, where no time is given
	}
	if e.from.IsZero() {
		return columnWrittenAt
	}
	return ""
}

// when reads a column as an instant, or another value where the column is empty; zero where both are.
func when(l usagefile.Line, column, otherwise string) (time.Time, error) {
	value := l.Extra[column]
	if value == "" {
		if value, column = otherwise, metering.AttrTimestamp; value == "" {
			return time.Time{}, nil
		}
	}
	second, err := l.Second(column, value)
	if err != nil {
		return time.Time{}, err
	}
	return second.Time(), nil
}

func eventNames() string {
	names := make([]string, len(Events()))
	for i, e := range Events() {
		names[i] = string(e)
	}
	return strings.Join(names, ", ")
}

// span is when the first and the last thing happens.
func (s *Script) span() (first, last time.Time, ok bool) {
	for _, a := range s.actions {
		if !a.at.IsZero() {
			return a.at, s.actions[len(s.actions)-1].at, true
		}
	}
	return time.Time{}, time.Time{}, false
}
