package verify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Result is how a case came out. Empty means that it has not yet.
type Result string

// The results.
const (
	Passed  Result = "ok"
	Failed  Result = "failed"
	Skipped Result = "skipped"
)

// Case is one thing that is tried: items that are written, step by step, and what should become of them.
type Case struct {
	Name     string
	What     string // what it shows, in words
	Expected string // of its last step
	Found    string
	Result   Result
	Why      string    // it is skipped
	Rows     int       // that it writes
	Records  int       // that it writes
	By       time.Time // when it has come out at the latest
	// Kept is the group of a buyer's own usage that the case has written, which stays whatever became of it; nil where there is none.
	Kept *metering.Group

	steps []step
	at    int
	begun bool // the step at at
	since time.Time
	wait  wait
	said  bool
}

// step is written at once, and then waited for.
type step struct {
	rows    []metering.Row
	records []metering.Record
	// do does something else; it may give the case its result.
	do    func(ctx context.Context, r *run, c *Case) error
	wants []want
	wait  func(now time.Time) wait
	hold  time.Duration // how long what is wanted has to last before it counts
}

// forecast fills in what a case writes and how long it may take, beginning at now.
func (c *Case) forecast(now, until time.Time) {
	for i := range c.steps {
		s := &c.steps[i]
		c.Rows, c.Records = c.Rows+len(s.rows), c.Records+len(s.records)
		if s.wait != nil {
			now = s.wait(now).latest
		}
	}
	if c.By = now; !until.IsZero() && until.Before(now) {
		c.By = until
	}
}

func (c *Case) step() *step { return &c.steps[c.at] }

// begin notes that the step was written.
func (c *Case) begin(now, until time.Time) {
	c.begun, c.since = true, now
	if s := c.step(); s.wait != nil {
		c.wait = s.wait(now)
	}
	if !until.IsZero() && (c.wait.latest.IsZero() || until.Before(c.wait.latest)) {
		c.wait.latest = until
	}
}

// judge compares what is seen with what is wanted, and moves the case on.
func (c *Case) judge(s *seen, now time.Time) {
	if c.Result != "" || !c.begun {
		return
	}
	found, right, over := s.compare(c.step().wants)
	switch {
	case right && now.Sub(c.since) >= c.step().hold:
		c.Found = found
		if c.at++; c.at == len(c.steps) {
			c.Result = Passed
		}
		c.begun = false
	case over && !right, !now.Before(c.wait.latest):
		c.Found, c.Result = found, Failed
		c.Expected = expected(c.step().wants)
		if !over {
			c.Found += fmt.Sprintf(" at %s", now.UTC().Format("15:04"))
		}
	}
}

// end is a way in which an item may have ended.
type end struct {
	status metering.Status
	reason string // what its reason begins with
}

func (e end) String() string { return ended(e.status, e.reason) }

// ended is a status with its reason, which for covered rows is a sentence that begins with the status.
func ended(status metering.Status, reason string) string {
	if rest, ok := strings.CutPrefix(reason, "Aggregated total quantity "); ok {
		reason = "(" + strings.TrimSuffix(rest, " raw usage records") + ")"
	}
	return strings.TrimSpace(string(status) + " " + reason)
}

// want is what should become of an item.
type want struct {
	at    place
	waits metering.Hour // not zero: it still waits, under that hour
	none  bool          // there is no such item
	ends  []end         // else it has ended in one of these ways; several are the refusals of an invented license
	units int64         // quantity of a record, or late quantity of a row, where not zero
	sets  int           // allocations of a record, where not zero
	zero  bool          // the quantity is 0
}

func (w want) noun() string {
	if w.at.record {
		return "record"
	}
	return "row"
}

func (w want) String() string {
	switch {
	case w.none:
		return "no " + w.noun()
	case w.waits != 0:
		return w.noun() + " waits under " + w.waits.String()
	}
	text := w.noun() + " refused by AWS Marketplace"
	if len(w.ends) == 1 {
		text = w.noun() + " " + w.ends[0].String()
	}
	if w.units != 0 || w.zero {
		text += fmt.Sprintf(" (%d)", w.units)
	}
	if w.sets != 0 {
		text += fmt.Sprintf(" in %d allocations", w.sets)
	}
	return text
}

// expected is what is wanted of all items, in words.
func expected(wants []want) string {
	var t texts
	for _, w := range wants {
		t.add(w.String())
	}
	return t.String()
}

// texts counts equal texts, in the order in which they come first.
type texts struct {
	order  []string
	counts map[string]int
}

func (t *texts) add(text string) {
	if t.counts == nil {
		t.counts = make(map[string]int)
	}
	if t.counts[text]++; t.counts[text] == 1 {
		t.order = append(t.order, text)
	}
}

func (t *texts) String() string {
	out := make([]string, len(t.order))
	for i, text := range t.order {
		out[i] = text
		if n := t.counts[text]; n > 1 {
			out[i] = fmt.Sprintf("%d × %s", n, text)
		}
	}
	return strings.Join(out, "; ")
}
