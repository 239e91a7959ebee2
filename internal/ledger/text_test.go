package ledger_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

var update = flag.Bool("update", false, "write what is shown into testdata")

const textLicense = "arn:aws:license-manager::111122223333:license:l-1a2b3c4d5e6f708192a3b4c5d6e7f801"

// everyPlace is a store with usage in every place, and with everything else that a ledger can say.
func everyPlace(t *testing.T) *memory.Store {
	t.Helper()
	ctx, store := context.Background(), memory.New(memory.Options{})
	hour, err := metering.ParseHour("2026-03-10T14")
	if err != nil {
		t.Fatal(err)
	}
	group := func(dimension string) metering.Group {
		return metering.Group{License: textLicense, Account: "111122223333", Dimension: dimension, Hour: hour}
	}
	record := func(dimension, manifest string, quantity int64, change func(*metering.Record)) {
		g := group(dimension)
		r := metering.Record{License: g.License, SortKey: g.RecordKey(), Account: g.Account, Dimension: g.Dimension, HourBucket: "2026-03-10T14",
			Quantity: metering.Units(quantity), Manifest: manifest}
		change(&r)
		if err := store.PutRecord(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	row := func(dimension string, quantity metering.Quantity, change func(*metering.Row)) {
		g := group(dimension)
		second := hour.Second(0)
		r := metering.Row{License: g.License, SortKey: g.RowKey(second), Account: g.Account, Dimension: g.Dimension, Timestamp: second.String(), Quantity: quantity}
		change(&r)
		if err := store.PutRow(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	status := func(s metering.Status, reason string) func(*metering.Record) {
		return func(r *metering.Record) { r.Status, r.StatusReason = s, reason }
	}
	label := func(s metering.Status, reason string) func(*metering.Row) {
		return func(r *metering.Row) { r.Status, r.StatusReason = s, reason }
	}
	record("billed", "v1 1 1234567 0:1234567", 1234567, status(metering.Success, ""))
	row("billed", metering.Units(1234567), label(metering.Aggregated, ""))
	record("duplicate", "", 20, status(metering.DuplicateRecord, ""))
	record("doubt", "v1 1 30 0:30", 30, func(r *metering.Record) {
		r.Status, r.StatusReason, r.SentQuantity = metering.SubmissionExpired, metering.VerdictUnknown, metering.Units(30)
	})
	row("doubt", metering.Units(30), label(metering.Aggregated, ""))
	record("dry", "v1 1 40 0:40", 40, status(metering.DryRunSubmitted, ""))
	row("dry", metering.Units(40), label(metering.LateUsage, "stale"))
	record("grown", "v1 1 50 0:50", 50, status(metering.Success, ""))
	row("grown", metering.Units(57), label(metering.LateUsage, "Grew from 50 to 57 after its hour was committed"))
	record("shrunk", "v1 1 60 0:60", 60, status(metering.Success, ""))
	row("shrunk", metering.Units(58), label(metering.Aggregated, ""))
	row("rejected", metering.Quantity{}, func(r *metering.Row) {
		label(metering.RejectedClientSide, string(metering.NonNumericQuantity))(r)
		r.Other = metering.Item{"quantity": "many"}
	})
	row("expired", metering.Units(70), label(metering.AggregationExpired, metering.ExpiredReason))
	row("waiting", metering.Units(80), func(r *metering.Row) { r.Pending = "2026-03-10T14" })
	row("odd\n", metering.Units(90), label("", ""))
	return store
}

func sheetOf(t *testing.T, scope ledger.Scope, sold []ledger.Sold) ledger.Sheet {
	t.Helper()
	report, err := ledger.Compute(t.Context(), everyPlace(t), scope)
	if err != nil {
		t.Fatal(err)
	}
	check := report.Against(sold)
	return ledger.Sheet{Report: report, Check: &check, Sold: len(sold)}
}

func soldIn(dimension string, quantity int64) ledger.Sold {
	hour, _ := metering.ParseHour("2026-03-10T14")
	return ledger.Sold{Identity: metering.Identity{Customer: textLicense, Account: "111122223333", Dimension: dimension, Hour: hour}, Quantity: quantity}
}

func TestTextGolden(t *testing.T) {
	t.Parallel()
	agreeing := []ledger.Sold{soldIn("billed", 1234567), soldIn("grown", 50), soldIn("shrunk", 60)}
	differing := append(agreeing[1:], soldIn("stranger", 5), soldIn("duplicate", 3), soldIn("doubt", 30))
	for name, sold := range map[string][]ledger.Sold{"agreeing": agreeing, "differing": differing} {
		sheet := sheetOf(t, ledger.Scope{}, sold)
		var table strings.Builder
		if err := sheet.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		golden(t, "text_"+name+".txt", table.String())
		document, err := json.MarshalIndent(sheet.Document(), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "text_"+name+".json", string(document)+"\n")
		if sheet.Sound() {
			t.Errorf("%s: sound, although a row is in no place", name)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s:\n%s", name, diff)
	}
}

// What the table adds up is what the document says, place by place.
func TestDocumentAddsUp(t *testing.T) {
	t.Parallel()
	d := sheetOf(t, ledger.Scope{}, nil).Document()
	var places, open int64
	for _, p := range ledger.Places() {
		place, ok := d.Places[p]
		if !ok {
			t.Errorf("no place %s", p)
		}
		places += place.Units
		var causes int64
		for _, c := range place.Causes {
			causes += c.Units
		}
		if p != ledger.Billed && causes != place.Units {
			t.Errorf("%s: causes of %d units, the place has %d", p, causes, place.Units)
		}
	}
	for _, g := range d.Open {
		for _, p := range g.Places {
			open += p.Units
		}
	}
	if want := d.Written.Units - 90; places != want { // 90 are in no place
		t.Errorf("%d units in places, want %d", places, want)
	}
	if want := places - 1234567; open != want { // all but one group is open
		t.Errorf("%d units in open groups, want %d", open, want)
	}
}

func TestTextListsAreBounded(t *testing.T) {
	t.Parallel()
	store := memory.New(memory.Options{})
	for i := range 45 {
		g := metering.Group{License: textLicense, Account: "111122223333", Dimension: fmt.Sprint("d", i)}
		if err := store.PutRow(t.Context(), metering.Row{License: g.License, SortKey: g.RowKey(7200), Account: g.Account, Dimension: g.Dimension, Quantity: metering.Units(1)}); err != nil {
			t.Fatal(err)
		}
	}
	report, err := ledger.Compute(t.Context(), store, ledger.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	check := report.Against(make([]ledger.Sold, 45))
	sheet := ledger.Sheet{Report: report, Check: &check}
	var table strings.Builder
	if err := sheet.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(table.String(), "and 5 groups more"); got != 2 {
		t.Errorf("%d lists are cut, want 2:\n%s", got, table.String())
	}
	if got := len(sheet.Document().Open); got != 45 {
		t.Errorf("the document lists %d", got)
	}
}

// Every reason and status that the tables can hold has its own words, and every text says what to do.
func TestExplainKnowsEveryReason(t *testing.T) {
	t.Parallel()
	reasons := typedConstants(t, "Reason")
	if len(reasons) < 20 {
		t.Fatalf("found only the reasons %v", reasons)
	}
	places := make(map[string]ledger.Place)
	for _, r := range reasons {
		places[r] = ledger.Rejected
	}
	places[string(metering.DuplicateRecord)], places[string(metering.CustomerNotSubscribed)] = ledger.Refused, ledger.Refused
	places[string(metering.AggregationExpired)], places[string(metering.SubmissionExpired)] = ledger.Expired, ledger.Expired
	places[metering.VerdictUnknown], places[string(metering.DryRunSubmitted)] = ledger.InDoubt, ledger.DryRun
	for _, exception := range []string{"InvalidUsageDimensionException", "TimestampOutOfBoundsException", "InvalidTagException", "InvalidUsageAllocationsException",
		"InvalidLicenseException", "InvalidCustomerIdentifierException", "ValidationException", "SerializationException", "RequestEntityTooLargeException"} {
		places[exception] = ledger.Rejected
	}
	unknown := ledger.Explain(ledger.Rejected, "SomethingNewException")
	said := make(map[string]string)
	for reason, place := range places {
		e := ledger.Explain(place, reason)
		if e.Code != reason || e.What == "" || e.Do == "" || e.What == unknown.What {
			t.Errorf("%s: %+v", reason, e)
		}
		if other, twice := said[e.What]; twice {
			t.Errorf("%s and %s are both %q", reason, other, e.What)
		}
		said[e.What] = reason
	}
	if unknown.Code != "SomethingNewException" || unknown.What == "" {
		t.Errorf("%+v", unknown)
	}
	if e := ledger.Explain(ledger.Late, metering.LateReason); e.Code != ledger.CodeArrivedLate {
		t.Errorf("%+v", e)
	}
	row := metering.Row{Quantity: metering.Units(7), Pending: "x"}
	if l, _ := metering.Covered(row, 5, ""); ledger.Explain(ledger.Late, l.Reason).Code != ledger.CodeGrewLate {
		t.Errorf("%q is not known as growth", l.Reason)
	}
}

// typedConstants are the values of a string type's constants in package metering, read from its source.
func typedConstants(t *testing.T, name string) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../metering/status.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == name {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	return values
}

func TestThousandsAndShort(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1: "-1", -999: "-999", -1000: "-1,000", -123456: "-123,456"} {
		if got := ledger.Thousands(n); got != want {
			t.Errorf("%d is shown as %s, want %s", n, got, want)
		}
	}
	for license, want := range map[string]string{
		textLicense: "l-1a2b…f801", "legacy-product": "legacy-product", "arn:": "-", "": "-", "a\tb": `"a\tb"`, "ein sehr langer Name mit ü": "ein se…it ü",
	} {
		if got := ledger.Short(license); got != want {
			t.Errorf("%q is shown as %s, want %s", license, got, want)
		}
	}
}
