package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/simulator"
)

// Violation is a moment at which something did not hold.
type Violation struct {
	At    time.Time `json:"at"`
	Rule  string    `json:"rule"` // which one, in a word or two
	What  string    `json:"what"`
	Group string    `json:"group,omitempty"` // the sort key of its record
}

func (v *Violation) Error() string { return v.Rule + ": " + v.What }

// The rules that are checked.
const (
	RuleBalance   = "every unit in one place"
	RuleBilled    = "our books equal the Marketplace's"
	RuleQuantity  = "no stage changes a quantity"
	RuleGhost     = "no stage makes a row"
	RuleTerminal  = "no terminal status overwritten"
	RuleManifest  = "a record is what its rows said"
	RuleDeadline  = "nothing pending past its deadline"
	RuleQuota     = "no call above the quota"
	RuleBillable  = "no unbillable record in a call"
	RuleDuplicate = "one quantity an hour"
	RuleMetric    = "every loss has its metric"
	RuleStale     = "every label healed"
	RuleRejected  = "what is valid does not stay rejected"
	RuleEvents    = "a subscriber is what the latest event said"
	RuleWriter    = "a writer's flush counts once"
	RuleProgress  = "the day comes to its end"
	RuleCrash     = "no stage panics"
	RuleLate      = "late is what came late"
	RuleChance    = "what could be billed does not expire"
)

// checker holds a world against the law: after every effect what it touched, and at intervals all of it. It knows what the sellers
// wrote because it saw them write.
type checker struct {
	now    func() time.Time
	store  *memory.Store
	sim    *simulator.Simulator
	rules  metering.Rules
	broken func(Violation)

	dirty   []metering.Group
	rows    map[string]*written // by license and sort key
	records map[string]time.Time
	tokens  map[string]bool                // of flushes that stand in their rows
	events  map[string]lifecycle.TestEvent // the latest of each license
	commits map[metering.Group]time.Time
	sold    map[metering.Group]string // by account, dimension and hour: the license under which they are billed
	lacks   map[metering.Group]bool   // groups of which a row was deleted
	looked  time.Time                 // at everything
	moved   bool                      // something, since the last audit
	quiet   bool                      // nothing was in flight then, and nothing has moved
	starts  [quota]time.Time
	calls   int
}

// written is what a seller's row has held.
type written struct {
	now  metering.Quantity
	held []int64   // every whole quantity so far
	at   time.Time // since when it waits where it does: of the last write, or of its bucket's correction
}

// quota is how many calls a second may see.
const quota = simulator.DefaultCallsPerSecond

func newChecker(c checker) *checker {
	c.rows, c.records = make(map[string]*written), make(map[string]time.Time)
	c.tokens, c.events = make(map[string]bool), make(map[string]lifecycle.TestEvent)
	c.moved = true // so that the books are read once on a day on which nobody writes
	c.commits, c.sold, c.lacks = make(map[metering.Group]time.Time), make(map[metering.Group]string), make(map[metering.Group]bool)
	return &c
}

func (c *checker) fail(rule string, g metering.Group, format string, args ...any) {
	v := Violation{At: c.now(), Rule: rule, What: fmt.Sprintf(format, args...)}
	if g != (metering.Group{}) {
		v.Group = g.RecordKey()
	}
	c.broken(v)
}

func rowID(license, sortKey string) string { return license + "\x00" + sortKey }

func splitRowID(id string) (license, sortKey string) {
	license, sortKey, _ = strings.Cut(id, "\x00")
	return license, sortKey
}

// wrote notes what a seller's row holds from now on.
func (c *checker) wrote(license, sortKey string, q metering.Quantity) {
	id := rowID(license, sortKey)
	w := c.rows[id]
	if w == nil {
		w = &written{}
		c.rows[id] = w
	}
	w.now, w.at = q, c.now()
	if n, known := q.Count(); known {
		w.held = append(w.held, n)
	}
	c.touchRow(license, sortKey)
}

// refiled notes that a row waits under another hour from now on: whoever looks there had no way to see it before.
func (c *checker) refiled(license, sortKey string) {
	if w := c.rows[rowID(license, sortKey)]; w != nil {
		w.at = c.now()
	}
}

func (c *checker) wroteRecord(license, sortKey string) {
	c.records[rowID(license, sortKey)] = c.now()
	c.touchRecord(license, sortKey)
}

func (c *checker) touch(g metering.Group) {
	if !slices.Contains(c.dirty, g) {
		c.dirty = append(c.dirty, g)
	}
}

func (c *checker) touchRow(license, sortKey string) {
	if key, reason := metering.ParseRowKey(sortKey); reason == "" {
		c.touch(key.Group(license))
	}
	c.moved, c.quiet = true, false
}

func (c *checker) touchRecord(license, sortKey string) {
	if g, reason := metering.ParseRecordKey(license, sortKey); reason == "" {
		c.touch(g)
	}
	c.moved, c.quiet = true, false
}

// row watches a stage's write to a row.
func (c *checker) row(ctx context.Context, license, sortKey string, write func() (metering.Outcome[metering.Row], error)) (metering.Outcome[metering.Row], error) {
	ctx = context.WithoutCancel(ctx)
	before, _ := c.store.Row(ctx, license, sortKey)
	out, err := write()
	after, _ := c.store.Row(ctx, license, sortKey)
	c.touchRow(license, sortKey)
	key, reason := metering.ParseRowKey(sortKey)
	var g metering.Group
	if reason == "" {
		g = key.Group(license)
	}
	switch {
	case after == nil:
	case before == nil:
		c.fail(RuleGhost, g, "row %s was gone, and is there again as %q", sortKey, after.Status)
	case before.Quantity != after.Quantity:
		c.fail(RuleQuantity, g, "row %s held %s, and a label made it %s", sortKey, count(before.Quantity), count(after.Quantity))
	case before.Pending == "" && before.Status != "" && before.Status != after.Status && !c.heals(ctx, g, key.Second, *before, *after):
		c.fail(RuleTerminal, g, "row %s was %s and became %s", sortKey, before.Status, after.Status)
	case before.Status != after.Status:
		c.ended(g, *after)
	}
	return out, err
}

// heals reports whether a label replaces another because the manifest says so: the one that the rule of coverage gives.
func (c *checker) heals(ctx context.Context, g metering.Group, s metering.Second, before, after metering.Row) bool {
	r, err := c.store.Record(ctx, g)
	if err != nil || r == nil {
		return false
	}
	m, err := r.Covers()
	if err != nil {
		return false
	}
	committed, covered := m.Quantity(s)
	if !covered {
		return false
	}
	l, _ := metering.Covered(before, committed, after.StatusReason)
	return l.Status == after.Status
}

// record watches a stage's write to a record.
func (c *checker) record(ctx context.Context, license, sortKey string, write func() (metering.Outcome[metering.Record], error)) (metering.Outcome[metering.Record], error) {
	ctx = context.WithoutCancel(ctx)
	g, _ := metering.ParseRecordKey(license, sortKey)
	before, _ := c.store.Record(ctx, g)
	out, err := write()
	after, _ := c.store.Record(ctx, g)
	c.touchRecord(license, sortKey)
	if after != nil && after.Status == metering.Success {
		c.soldOnce(g)
	}
	switch {
	case after == nil:
	case before == nil:
		c.commits[g] = c.now()
		c.committed(g, *after)
	case before.Quantity != after.Quantity || before.Manifest != after.Manifest:
		c.fail(RuleQuantity, g, "record %s held %s, and a stage made it %s", sortKey, count(before.Quantity), count(after.Quantity))
	case before.Pending != "" || before.Status == after.Status || after.Status == metering.Success:
	case after.Pending != "" && (before.Status == metering.CustomerNotSubscribed || before.Status == metering.RejectedClientSide || before.Status == metering.DryRunSubmitted):
		c.records[rowID(license, sortKey)] = c.now() // reopened, or promoted
	default:
		c.fail(RuleTerminal, g, "record %s was %s and became %s", sortKey, before.Status, after.Status)
	}
	return out, err
}

// committed holds a new record against what its rows have held.
func (c *checker) committed(g metering.Group, r metering.Record) {
	m, err := r.Covers()
	if err != nil {
		c.fail(RuleManifest, g, "the manifest of %s cannot be read: %v", r.SortKey, err)
		return
	}
	if r.Quantity != metering.Units(m.Sum()) {
		c.fail(RuleManifest, g, "record %s holds %s, and its manifest adds up to %d", r.SortKey, count(r.Quantity), m.Sum())
	}
	if !c.rules.Billable(g.Hour, c.now().Add(-maxSkew)) {
		c.fail(RuleBillable, g, "record %s was committed when its hour was over", r.SortKey)
	}
	for second, q := range m.All(g.Hour) {
		if w := c.rows[rowID(g.License, g.RowKey(second))]; w == nil || !slices.Contains(w.held, q) {
			c.fail(RuleManifest, g, "record %s was summed from %d at %v, which its row never held", r.SortKey, q, second)
		}
	}
}

// maxSkew bounds how far a machine's clock may be off.
const maxSkew = 5 * time.Second

// call holds a call against the quota, and its records against the rules of time.
func (c *checker) call(call metering.Call) {
	now := c.now()
	if oldest := c.starts[c.calls%quota]; c.calls >= quota && now.Sub(oldest) < time.Second {
		c.fail(RuleQuota, metering.Group{}, "%d calls began within %v", quota+1, now.Sub(oldest))
	}
	c.starts[c.calls%quota] = now
	c.calls++
	for _, u := range call.Records {
		if h := u.Second.Hour(); !now.Before(c.rules.Deadline(h)) {
			c.fail(RuleBillable, metering.Group{Account: u.Account, Dimension: u.Dimension, Hour: h}, "%s of %v was sent at %v, after its deadline", u.Dimension, h, now.Format(time.RFC3339))
		}
		if u.Quantity < 0 || u.Quantity > 1<<31-1 || u.Dimension == "" {
			c.fail(RuleBillable, metering.Group{}, "a record of %d %q was sent", u.Quantity, u.Dimension)
		}
	}
}

// touched holds what the last effect touched against the law.
func (c *checker) touched() {
	for len(c.dirty) > 0 {
		g := c.dirty[0]
		c.dirty = c.dirty[1:]
		c.group(g)
	}
	c.dirty = c.dirty[:0]
}

// group checks one group at this very moment.
func (c *checker) group(g metering.Group) {
	ctx := context.Background()
	b, err := ledger.Read(ctx, c.store, g)
	if err != nil {
		c.fail(RuleBalance, g, "%v", err)
		return
	}
	if !b.Balanced() {
		c.fail(RuleBalance, g, "written %d, named %d: %v %v", b.Written.Units, b.Named(), b.Places, b.Findings)
	}
	for r, err := range c.store.GroupRows(ctx, g) {
		if err != nil {
			c.fail(RuleBalance, g, "%v", err)
			return
		}
		if w := c.rows[rowID(r.License, r.SortKey)]; w == nil || r.Quantity != w.now {
			c.fail(RuleQuantity, g, "row %s holds %s, which is not what its seller wrote", r.SortKey, count(r.Quantity))
		}
	}
	if r, err := c.store.Record(ctx, g); err == nil && r != nil {
		c.billed(g, *r, b)
	}
}

// billed compares a record with what the Marketplace billed for it.
func (c *checker) billed(g metering.Group, r metering.Record, b ledger.Balance) {
	id := r.Usage().Identity()
	sold, exists := c.sim.Billed(id.Customer, g.Account, g.Dimension, g.Hour.Start())
	switch {
	case r.Status == metering.Success && r.Pending == "":
		if units := b.Place(ledger.Billed).Units; !exists || sold.Quantity != units {
			c.fail(RuleBilled, g, "our books say %d billed, the Marketplace's %d (there: %v)", units, sold.Quantity, exists)
		}
	case r.Status == metering.DuplicateRecord:
		c.fail(RuleDuplicate, g, "a second quantity was sent for the same hour")
	case exists && !(r.SentQuantity.Whole && (r.Pending != "" || r.Status == metering.SubmissionExpired)):
		c.fail(RuleBilled, g, "billed %d by the Marketplace, and our record says %q %q", sold.Quantity, r.Status, r.StatusReason)
	}
}

// look reads all books, where anything has moved, and looks for what waits too long.
func (c *checker) look() {
	c.looked = c.now()
	if c.moved {
		c.audit()
	}
	if !c.quiet {
		c.overdue()
	}
}

// audit reads all books.
func (c *checker) audit() ledger.Report {
	c.moved = false
	report, err := ledger.Compute(context.Background(), c.store, ledger.Scope{})
	if err != nil {
		c.fail(RuleBalance, metering.Group{}, "%v", err)
	}
	for _, b := range report.Imbalances {
		c.fail(RuleBalance, b.Group, "written %d, named %d: %v %v", b.Written.Units, b.Named(), b.Places, b.Findings)
	}
	var sold []ledger.Sold
	for _, b := range c.sim.Ledger() {
		sold = append(sold, node.Sold(b))
	}
	for _, d := range report.Against(sold).Differences {
		c.fail(RuleBilled, metering.Group{Account: d.Account, Dimension: d.Dimension, Hour: d.Hour}, "%s: ours %d, theirs %d", d.Note, d.Ours, d.Theirs)
	}
	c.quiet = report.Total.Place(ledger.InFlight) == ledger.Amount{} // growth of a covered row is units and no item
	return report
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
