package verify_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/internal/verify"
	"github.com/awsmp/metering/simulator"
)

func TestMain(m *testing.M) {
	code := m.Run()
	standin.Stop()
	os.Exit(code)
}

const (
	realLicense = "arn:aws:license-manager::444455556666:license:l-0123456789abcdef0123456789abcdef"
	realAccount = "444455556666"
	seats       = "seats"
)

// afternoon is 15:22 on a day that no month's turn is near to.
var afternoon = time.Date(2026, 3, 10, 15, 22, 0, 0, time.UTC)

// world is a whole pipeline on a virtual clock, whose schedules go off while a run sleeps.
type world struct {
	*node.Node
	t      *testing.T
	clock  *node.VirtualClock
	store  *memory.Store
	sim    *simulator.Simulator
	config node.Config
	told   []string
	sleeps func(n int) // called at each sleep
	slept  int
}

func newWorld(t *testing.T, now time.Time, change func(*node.Config)) *world {
	t.Helper()
	return newWorldWith(t, now, nil, change)
}

func newWorldWith(t *testing.T, now time.Time, sold func(*simulator.Options), change func(*node.Config)) *world {
	t.Helper()
	w := &world{t: t, clock: node.NewVirtualClock(now), store: memory.New(memory.Options{})}
	options := simulator.Options{Now: w.clock.Now, Sleep: w.clock.Sleep, ProductCode: "example", Dimensions: []string{seats}}
	if sold != nil {
		sold(&options)
	}
	var err error
	if w.sim, err = simulator.New(options); err != nil {
		t.Fatal(err)
	}
	if err := w.sim.PutLicense(simulator.License{ARN: realLicense, AccountID: realAccount}); err != nil {
		t.Fatal(err)
	}
	w.config = node.Config{Store: w.store, Metrics: &telemetry.Counters{}, Clock: w.clock, Marketplace: marketplace.NewSender(marketplace.New(marketplace.Options{
		Region: "us-east-1", Endpoint: "http://simulator.invalid", HTTPClient: w.sim.Client(), ProductCode: "example",
	}), marketplace.Settings{Now: w.clock.Now, Sleep: w.clock.Sleep})}
	if change != nil {
		change(&w.config)
	}
	if w.Node, err = node.New(w.config); err != nil {
		t.Fatal(err)
	}
	return w
}

// sleep lets time pass, and runs what is due on the way.
func (w *world) sleep(ctx context.Context, d time.Duration) error {
	if w.slept++; w.sleeps != nil {
		w.sleeps(w.slept)
	}
	end := w.clock.Now().Add(d)
	for {
		next := w.Next(w.clock.Now())
		if next.After(end) {
			w.clock.MoveTo(end)
			return ctx.Err()
		}
		w.clock.MoveTo(next)
		_ = w.RunDue(w.t.Context(), next) // a stage's failure shows in what the run finds
	}
}

func (w *world) settings() verify.Settings {
	return verify.Settings{
		Target: verify.Target{Name: "awsmp-example-metering", Rows: w.store, Records: w.store, Rules: w.config.Rules, DryRun: w.config.DryRun, Paused: w.config.Paused},
		ID:     verify.NewID(w.clock.Now(), 0x9f3a), Now: w.clock.Now, Sleep: w.sleep, Tell: func(line string) { w.told = append(w.told, line) },
	}
}

// list are the cases of the world's stack.
func (w *world) list() []verify.Case { return verify.List(w.settings()) }

func dryRun(c *node.Config) { c.DryRun = true }

// do runs the cases, and fails the test where that itself fails.
func (w *world) do(s verify.Settings) verify.Report {
	w.t.Helper()
	report, err := verify.Do(w.t.Context(), s)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

// empty fails the test where a table holds anything.
func (w *world) empty() {
	w.t.Helper()
	for license, err := range w.store.Licenses(w.t.Context()) {
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Errorf("usage of %s is left", license)
	}
	if list := w.store.Buckets(); len(list) > 0 {
		w.t.Errorf("the indexes still hold %v", list)
	}
}

// names are the cases that came out so.
func names(r verify.Report, result verify.Result) (list []string) {
	for _, c := range r.Cases {
		if c.Result == result {
			list = append(list, c.Name)
		}
	}
	return list
}

// reasons are all that package metering declares.
func reasons(t *testing.T) (list []metering.Reason) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../metering/status.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Reason" {
				text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, metering.Reason(text))
			}
		}
		return true
	})
	if len(list) < 20 {
		t.Fatalf("only the reasons %v were found", list)
	}
	return list
}
