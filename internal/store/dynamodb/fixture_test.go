package dynamodb_test

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

const (
	license = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	buyer   = "444455556666"
)

func now() time.Time { return time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC) }

func group(dimension string) metering.Group {
	return metering.Group{License: license, Account: buyer, Dimension: dimension, Hour: metering.HourOf(now()) - 1}
}

func row(offset int, quantity int64) metering.Row {
	g := group("api_calls")
	return metering.NewRow(g, g.Hour.Second(offset), quantity)
}

func record(quantity int64) metering.Record {
	r := metering.NewRecord(group("api_calls"), quantity)
	r.Manifest = "v1 1 0 0:0"
	return r
}

func label(r metering.Row) metering.Label {
	return metering.Label{
		License: r.License, SortKey: r.SortKey, Marker: true, Quantity: r.Quantity,
		Status: metering.Aggregated, Reason: metering.AggregatedReason(5, 1), At: now(),
	}
}

// judged is a label that asks for everything to be as it was read.
func judged(r metering.Row) metering.Label {
	l := label(r)
	l.Fingerprint, l.Status, l.Reason = r.Fingerprint(), metering.RejectedClientSide, "because"
	return l
}

func flush(offset int, quantity int64, token string) metering.Flush {
	g := group("api_calls")
	f := metering.NewFlush(g, g.Hour.Second(offset), quantity, token)
	f.At = now()
	return f
}

// world is a store behind a proxy that sees all its calls.
type world struct {
	*dynamodb.Ledger
	proxy  *standin.Proxy
	direct *sdk.Client // past the proxy

	client            *sdk.Client
	usage, aggregated string
	subscribers       *dynamodb.Subscribers
	subscribersTable  string
	profiles          *dynamodb.Profiles
	profileTable      string
}

func newWorld(t *testing.T, url string, o dynamodb.Options) *world {
	t.Helper()
	w := &world{
		proxy: standin.NewProxy(t, url), direct: client(url),
		usage: standin.Name(t, "usage"), aggregated: standin.Name(t, "aggregated"), subscribersTable: standin.Name(t, "subscribers"),
		profileTable: standin.Name(t, "profile"),
	}
	err := dynamodb.Create(t.Context(), w.direct, dynamodb.UsageTable(w.usage), dynamodb.AggregatedUsageTable(w.aggregated), dynamodb.SubscribersTable(w.subscribersTable),
		dynamodb.CustomerProfileTable(w.profileTable, "companyName"))
	if err != nil {
		t.Fatal(err)
	}
	w.client = client(w.proxy.URL)
	w.Ledger = &dynamodb.Ledger{Rows: dynamodb.NewRows(w.client, w.usage, o), Records: dynamodb.NewRecords(w.client, w.aggregated, o)}
	w.subscribers = dynamodb.NewSubscribers(w.client, w.subscribersTable)
	w.profiles = dynamodb.NewProfiles(w.client, w.profileTable)
	return w
}

func (w *world) put(t *testing.T, rows ...metering.Row) {
	t.Helper()
	check(t, w.PutRows(t.Context(), rows))
	w.proxy.Forget()
}

func (w *world) row(t *testing.T, offset int) *metering.Row {
	t.Helper()
	r, err := w.Row(t.Context(), license, row(offset, 0).SortKey)
	check(t, err)
	return r
}

// operations are what was asked since the proxy last forgot, in order.
func (w *world) operations() []string {
	var out []string
	for _, c := range w.proxy.Calls() {
		out = append(out, c.Operation)
	}
	return out
}

// keyOf is the sort key that a call on one row names.
func keyOf(t *testing.T, c standin.Call) string {
	t.Helper()
	var body struct {
		Key map[string]struct{ S string }
	}
	check(t, json.Unmarshal(c.Body, &body))
	return body.Key[metering.AttrRowKey].S
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	numbers := cmp.Comparer(func(a, b json.Number) bool { return metering.SameValue(a, b) })
	if diff := cmp.Diff(want, got, numbers, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// read takes a sequence to its end: the values, and the error that ended it.
func read[T any](seq iter.Seq2[T, error]) (values []T, failed error) {
	for v, err := range seq {
		if err != nil {
			return values, err
		}
		values = append(values, v)
	}
	return values, nil
}

// both runs a test against each stand-in: moto hands out the old item with a failed condition, dynalite does not.
func both(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	for name, service := range standins(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, service.url)
		})
	}
}

// pauses notes the pauses that were asked for, and takes none.
type pauses []time.Duration

func (p *pauses) sleep(_ context.Context, d time.Duration) error {
	*p = append(*p, d)
	return nil
}

func varied(list []time.Duration) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(list)))) > 1
}
