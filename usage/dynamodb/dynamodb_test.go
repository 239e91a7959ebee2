package dynamodb_test

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	store "github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/usage"
	"github.com/awsmp/metering/usage/dynamodb"
)

func TestMain(m *testing.M) {
	code := m.Run()
	standin.Stop()
	os.Exit(code)
}

const license = "arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef"

func now() time.Time { return time.Date(2026, 3, 10, 14, 30, 0, 0, time.UTC) }

func group() metering.Group {
	return metering.Group{License: license, Account: "444455556666", Dimension: "api_calls", Hour: metering.HourOf(now())}
}

func client(url string) *sdk.Client {
	return sdk.NewFromConfig(standin.Config(url), func(o *sdk.Options) {
		o.Retryer, o.HTTPClient = aws.NopRetryer{}, awsapi.KeepBodies(o.HTTPClient)
	})
}

// stack makes the tables of a product of the test's own.
func stack(t *testing.T, url string) dynamodb.Tables {
	t.Helper()
	tables := dynamodb.TablesOf(standin.Name(t, "product"))
	if err := store.Create(t.Context(), client(url), store.UsageTable(tables.Usage), store.AggregatedUsageTable(tables.AggregatedUsage)); err != nil {
		t.Fatal(err)
	}
	return tables
}

func open(t *testing.T, url string, tables dynamodb.Tables) *usage.Writer {
	t.Helper()
	w, err := usage.NewWriter(dynamodb.New(client(url), tables, dynamodb.Options{WritesPerSecond: 10_000, Parallel: 4}), usage.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func event(second int, quantity int64) usage.Event {
	return usage.Event{License: license, Account: "444455556666", Dimension: "api_calls", Time: now().Truncate(time.Hour).Add(time.Duration(second) * time.Second), Quantity: quantity}
}

func total(t *testing.T, url string, tables dynamodb.Tables) (sum int64, rows int) {
	t.Helper()
	for r, err := range store.NewRows(client(url), tables.Usage, store.Options{}).GroupRows(t.Context(), group()) {
		if err != nil {
			t.Fatal(err)
		}
		if reason := r.Validate(now()); reason != "" {
			t.Errorf("row %s is rejected: %s", r.SortKey, reason)
		}
		sum, rows = sum+r.Quantity.N, rows+1
	}
	return sum, rows
}

// Several programs write the same minutes: each row holds what all of them have added.
func TestSeveralPrograms(t *testing.T) {
	t.Parallel()
	url := standin.Dynalite(t)
	tables := stack(t, url)
	var all sync.WaitGroup
	for range 4 {
		w := open(t, url, tables)
		all.Go(func() {
			for i := range 300 {
				if err := w.Add(t.Context(), event(i, 2)); err != nil {
					t.Error(err)
				}
			}
			if err := w.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if sum, rows := total(t, url, tables); sum != 4*300*2 || rows != 5 {
		t.Errorf("%d units in %d rows, want 2400 in 5", sum, rows)
	}
}

// Answers are lost, and what has none is sent again: each event counts once.
func TestAnswersLost(t *testing.T) {
	t.Parallel()
	url := standin.Dynalite(t)
	tables := stack(t, url)
	proxy := standin.NewProxy(t, url)
	flushes := 0
	proxy.Intercept(func(c standin.Call) standin.Action {
		if c.Operation == "UpdateItem" {
			flushes++
		}
		return standin.Action{Drop: c.Operation == "UpdateItem" && (flushes == 2 || flushes == 7)}
	})
	var events []usage.Event
	for i := range 10 {
		events = append(events, event(60*i, 3))
	}
	w := open(t, proxy.URL, tables)
	answers, err := w.WriteBatch(t.Context(), "import-1", events)
	if err := errors.Join(append(answers, err)...); err != nil {
		t.Fatal(err)
	}
	if flushes != 12 {
		t.Errorf("%d flushes, want 12: ten, and two again", flushes)
	}
	if sum, rows := total(t, url, tables); sum != 30 || rows != 10 {
		t.Errorf("%d units in %d rows, want 30 in 10", sum, rows)
	}
}

// An hour that has its record takes nothing any more.
func TestHourCommitted(t *testing.T) {
	t.Parallel()
	url := standin.Dynalite(t)
	tables := stack(t, url)
	out, err := store.NewRecords(client(url), tables.AggregatedUsage, store.Options{}).CreateRecord(t.Context(), metering.NewRecord(group(), 7))
	if err != nil || !out.Done {
		t.Fatalf("%+v, %v", out, err)
	}
	answers, err := open(t, url, tables).WriteBatch(t.Context(), "import-1", []usage.Event{event(0, 1)})
	if err != nil || len(answers) != 1 || !errors.Is(answers[0], usage.ErrHourCommitted) {
		t.Errorf("%v, %v; want %v", answers, err, usage.ErrHourCommitted)
	}
	if sum, rows := total(t, url, tables); sum != 0 || rows != 0 {
		t.Errorf("%d units in %d rows were written", sum, rows)
	}
}

// A table that is not there is named, with what to do.
func TestNoTable(t *testing.T) {
	t.Parallel()
	table := dynamodb.New(client(standin.Dynalite(t)), dynamodb.TablesOf("none"), dynamodb.Options{})
	_, recordErr := table.Record(t.Context(), group())
	_, rowErr := table.Row(t.Context(), license, "a#b#c")
	flushErr := table.FlushRows(t.Context(), []metering.Flush{metering.NewFlush(group(), metering.Second(now().Unix()), 1, "one")})[0].Err
	for name, err := range map[string]error{"aggregated-usage": recordErr, "usage": rowErr, "usage ": flushErr} {
		if want := "aws dynamodb describe-table --table-name awsmp-none-" + strings.TrimSpace(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, which does not say %q", err, want)
		}
	}
}

func TestOpen(t *testing.T) {
	if _, err := dynamodb.Open(t.Context(), "", "us-east-1", dynamodb.Options{}); err == nil || !strings.Contains(err.Error(), "product code") {
		t.Errorf("no product code: %v", err)
	}
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	if _, err := dynamodb.Open(t.Context(), "acme123", "", dynamodb.Options{}); err == nil || !strings.Contains(err.Error(), "export AWS_REGION") {
		t.Errorf("no Region: %v", err)
	}
	if _, err := dynamodb.Open(t.Context(), "acme123", "us-east-1", dynamodb.Options{}); err != nil {
		t.Error(err)
	}
}
