package dynamodb_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

// beforeTransaction lets something happen directly before the store's nth transaction.
func (w *world) beforeTransaction(nth int, happens func()) {
	transactions := 0
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		if c.Operation == "TransactWriteItems" {
			if transactions++; transactions == nth {
				happens()
			}
		}
		return standin.Action{}
	})
}

// F26: whatever a carry rests on, if it changes between the read and the transaction, neither row is written.
func TestCarryWhileItsRowsChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Moto(t), dynamodb.Options{})
	stored := ended(0, 5, metering.LateUsage)
	trace := &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{}}}
	for _, m := range []meanwhile{
		{metering.AttrAccount, text(stored.Account), text("999988887777")},
		{metering.AttrDimension, text(stored.Dimension), text("storage")},
		{metering.AttrTimestamp, text(stored.Timestamp), text("2026-03-10T14:59:59")},
		{metering.AttrCustomerIdentifier, nil, text("cust-1")},
		{metering.AttrQuantity, number("5"), number("8")},
		{metering.AttrAllocations, nil, allocated("5")},
		{metering.AttrAllocations, allocated("5"), allocated("4")},
		{metering.AttrPending, nil, text("2026-03-10T14")},
		{metering.AttrStatus, text("LateUsage"), text("Aggregated")},
		{metering.AttrCarriedTo, nil, trace},
		{metering.AttrCarriedTo, trace, nil},
	} {
		w.proxy.Intercept(nil)
		_, err := w.direct.PutItem(t.Context(), &sdk.PutItemInput{TableName: &w.usage, Item: m.item(itemOf(stored))})
		check(t, err)
		x := w.carrying(t, *w.row(t, 0), 0)
		w.beforeTransaction(1, func() {
			item := m.item(itemOf(stored))
			delete(item, m.attribute)
			if m.after != nil {
				item[m.attribute] = m.after
			}
			_, err := w.direct.PutItem(t.Context(), &sdk.PutItemInput{TableName: &w.usage, Item: item})
			if err != nil {
				t.Error(err)
			}
		})
		out, err := w.CarryRow(t.Context(), x)
		check(t, err)
		stands := w.row(t, 0)
		same(t, m.attribute+": outcome", metering.Outcome[metering.Row]{Old: stands}, out)
		target, err := w.Row(t.Context(), license, x.TargetKey())
		check(t, err)
		if stands.UpdatedAt != "" || target != nil {
			t.Errorf("%s: it was carried: %+v, %+v", m.attribute, stands, target)
		}
	}
	// What the record says of the row is judged too.
	for name, change := range map[string]func(*metering.Record, metering.Carry){
		"another manifest": func(r *metering.Record, _ metering.Carry) { r.Manifest = "v1 1 3 3598:3" },
		"another's carry": func(r *metering.Record, x metering.Carry) {
			x.Token = "another"
			*r = x.Note(*r)
		},
	} {
		w.proxy.Intercept(nil)
		w.put(t, stored)
		past := dynamodb.NewRecords(w.direct, w.aggregated, dynamodb.Options{})
		check(t, past.PutRecord(t.Context(), hourRecord()))
		x := w.carrying(t, stored, 0)
		w.beforeTransaction(1, func() {
			r := hourRecord()
			change(&r, x)
			check(t, past.PutRecord(t.Context(), r))
		})
		out, err := w.CarryRow(t.Context(), x)
		check(t, err)
		same(t, name+": outcome", metering.Outcome[metering.Row]{}, out)
		same(t, name+": source", &stored, w.row(t, 0))
		check(t, past.PutRecord(t.Context(), hourRecord()))
	}
	// What nobody judges may change: the carry is made of the row as it is then.
	w.proxy.Intercept(nil)
	w.put(t, stored)
	x := w.carrying(t, stored, 0)
	noted := stored
	noted.Other = metering.Item{"note": "mine"}
	w.beforeTransaction(1, func() { check(t, dynamodb.NewRows(w.direct, w.usage, dynamodb.Options{}).PutRow(t.Context(), noted)) })
	out, err := w.CarryRow(t.Context(), x)
	check(t, err)
	if !out.Done {
		t.Errorf("a note: %+v", out)
	}
	w.stands(t, "a note", noted, x, true)
}

// A row comes to the target's second between the read and the transaction: the source says that it is as it was, so that another second
// can be tried.
func TestCarryWhoseTargetIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Moto(t), dynamodb.Options{})
	stored := ended(0, 5, metering.LateUsage)
	w.put(t, stored)
	x := w.carrying(t, stored, 0)
	g := group("api_calls")
	g.Hour++
	other := metering.NewRow(g, x.Target, 9)
	w.beforeTransaction(1, func() { check(t, dynamodb.NewRows(w.direct, w.usage, dynamodb.Options{}).PutRow(t.Context(), other)) })
	out, err := w.CarryRow(t.Context(), x)
	check(t, err)
	same(t, "outcome", metering.Outcome[metering.Row]{Old: &stored}, out)
	if out.Old == nil || !x.Holds(*out.Old) {
		t.Error("it does not say that the source is as it was")
	}
	same(t, "source", &stored, w.row(t, 0))
	target, err := w.Row(t.Context(), license, x.TargetKey())
	check(t, err)
	same(t, "target", &other, target)
}

// Case 37: the answer to a carry is lost, or the carry itself is. What the source shows decides, and what was made is not made again.
func TestCarryWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Moto(t), dynamodb.Options{})
	only := func(a standin.Action) {
		w.proxy.Intercept(func(c standin.Call) standin.Action {
			if c.Operation == "TransactWriteItems" {
				return a
			}
			return standin.Action{}
		})
	}
	made, lost := ended(0, 5, metering.LateUsage), ended(1, 5, metering.LateUsage)
	w.put(t, made, lost)
	x := w.carrying(t, made, 0)

	only(standin.Action{Drop: true})
	out, err := w.CarryRow(t.Context(), x)
	check(t, err)
	if !out.Done {
		t.Errorf("the answer was lost: %+v", out)
	}
	w.stands(t, "the answer was lost", made, x, true)

	y := w.carrying(t, lost, 1)
	only(standin.Action{Cut: true})
	out, err = w.CarryRow(t.Context(), y)
	wantClass(t, "the carry was lost", awsapi.Unavailable, err)
	if out.Done {
		t.Error("a carry that was lost is done")
	}
	w.stands(t, "the carry was lost", lost, y, false)

	// Nothing is heard at all: the source cannot be asked either.
	written := false
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		written = written || c.Operation == "TransactWriteItems"
		return standin.Action{Drop: c.Operation == "TransactWriteItems", Cut: c.Operation == "GetItem" && written}
	})
	out, err = w.CarryRow(t.Context(), y)
	wantClass(t, "nothing is heard", awsapi.Unavailable, err)
	if out.Done {
		t.Error("a carry that is not known of is done")
	}
	w.proxy.Intercept(nil)
	for range 2 {
		out, err = w.CarryRow(t.Context(), y)
		if check(t, err); !out.Done {
			t.Errorf("again: %+v", out)
		}
	}
	w.stands(t, "again", lost, y, true)
}

// A carry bears a token, by which the service knows a second try of the SDK; another carry bears another.
func TestCarryHasAToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Moto(t), dynamodb.Options{})
	first, second := ended(0, 5, metering.LateUsage), ended(1, 5, metering.LateUsage)
	w.put(t, first, second)
	for i, r := range []metering.Row{first, second} {
		_, err := w.CarryRow(t.Context(), w.carrying(t, r, i))
		check(t, err)
	}
	var tokens []string
	for _, c := range w.proxy.Calls() {
		if c.Operation != "TransactWriteItems" {
			continue
		}
		var body struct{ ClientRequestToken string }
		check(t, json.Unmarshal(c.Body, &body))
		tokens = append(tokens, body.ClientRequestToken)
	}
	if len(tokens) != 2 || len(tokens[0]) != 36 || tokens[0] == tokens[1] {
		t.Errorf("tokens %q", tokens)
	}
}

// What has ended is found in a whole table by a scan in parts, of many pages each; its price is told first, and whoever hears it may say no.
func TestScanForWhatHasEnded(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{PageLimit: 3})
		var rows []metering.Row
		var want []string
		for i := range 40 {
			status := metering.RejectedClientSide
			if i%4 == 0 {
				status = metering.LateUsage
			}
			r := ended(i, 5, status)
			r.License = []string{license, license + "b", license + "c"}[i%3]
			rows = append(rows, r)
			if status == metering.LateUsage {
				want = append(want, r.License+" "+r.SortKey)
			}
		}
		w.put(t, rows...)
		refused := record(5)
		refused.Pending, refused.Status = "", metering.CustomerNotSubscribed
		check(t, w.PutRecord(t.Context(), refused))
		var prices []string
		w.Announce = func(p dynamodb.ScanPrice) error {
			prices = append(prices, p.Table)
			return nil
		}
		late, err := read(w.EndedRows(t.Context(), "", metering.LateUsage))
		check(t, err)
		var got []string
		for _, r := range late {
			got = append(got, r.License+" "+r.SortKey)
		}
		slices.Sort(want)
		slices.Sort(got)
		same(t, "late rows", want, got)
		if n := w.proxy.Count("Scan", w.usage); n < 14 {
			t.Errorf("%d pages of 40 rows at 3 a page", n)
		}
		records, err := read(w.EndedRecords(t.Context(), "", metering.CustomerNotSubscribed))
		check(t, err)
		same(t, "records", []metering.Record{refused}, records)
		same(t, "prices", []string{w.usage, w.aggregated}, prices)

		// Of one license it is a query, and costs nothing worth a word.
		w.proxy.Forget()
		one, err := read(w.EndedRows(t.Context(), license, metering.LateUsage))
		check(t, err)
		if len(one) != 4 || w.proxy.Count("Scan", "") != 0 || len(prices) != 2 {
			t.Errorf("%d rows, %d scans, %d prices", len(one), w.proxy.Count("Scan", ""), len(prices))
		}

		// Who says no begins no part, and who has seen enough stops all of them.
		w.proxy.Forget()
		no := errors.New("too dear")
		w.Announce = func(dynamodb.ScanPrice) error { return no }
		if _, err := read(w.EndedRows(t.Context(), "", metering.LateUsage)); !errors.Is(err, no) || w.proxy.Count("Scan", "") != 0 {
			t.Errorf("%v, %d scans, want %v and none", err, w.proxy.Count("Scan", ""), no)
		}
		w.Announce = nil
		for range w.EndedRows(t.Context(), "", metering.RejectedClientSide) {
			break
		}
	})
}

// A scan of which a part fails says so, once; one whose caller has left ends.
func TestScanForWhatHasEndedFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{PageLimit: 2})
	var rows []metering.Row
	for i := range 30 {
		rows = append(rows, ended(i, 5, metering.LateUsage))
		rows[i].License = license + string(rune('a'+i))
	}
	w.put(t, rows...)
	scans := 0
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		if scans++; scans == 7 {
			return standin.Exception(400, "com.amazonaws.dynamodb.v20120810#AccessDeniedException", "not you")
		}
		return standin.Action{}
	})
	found, failures := 0, 0
	for _, err := range w.EndedRows(t.Context(), "", metering.LateUsage) {
		if found++; err != nil {
			failures++
			wantClass(t, "the scan", awsapi.Denied, err)
		}
	}
	if failures != 1 || found > 29 {
		t.Errorf("%d failures, %d rows", failures, found-failures)
	}
	w.proxy.Intercept(nil)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var last error
	for _, err := range w.EndedRows(ctx, "", metering.LateUsage) {
		leave()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("the caller has left: %v", last)
	}
	if _, err := read(w.Rows.EndedRows(t.Context(), "", metering.LateUsage)); awsapi.ClassOf(err) != awsapi.Invalid {
		t.Errorf("rows of no license: %v", err)
	}
}

// An account costs a query of one item, however many items it has.
func TestQueriesForAccounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	var rows []metering.Row
	accounts := []string{"111122223333", "222233334444", "333344445555"}
	for i := range 90 {
		g := group("api_calls")
		g.Account = accounts[i%3]
		rows = append(rows, metering.NewRow(g, g.Hour.Second(i), 1))
	}
	w.put(t, rows...)
	got, err := w.Accounts(t.Context(), license)
	check(t, err)
	same(t, "accounts", accounts, got)
	if n := w.proxy.Count("Query", ""); n != len(accounts)+2 { // and one in each table that finds no more
		t.Errorf("%d queries", n)
	}
	for _, c := range w.proxy.Calls() {
		if c.Items > 1 {
			t.Errorf("a query of %d items", c.Items)
		}
	}
	// A place where sellers write records themselves has no usage table.
	direct := &dynamodb.Ledger{Records: w.Records}
	check(t, w.PutRecord(t.Context(), record(5)))
	got, err = direct.Accounts(t.Context(), license)
	check(t, err)
	same(t, "accounts of records", []string{buyer}, got)
	if found, err := read(direct.EndedRows(t.Context(), "", metering.LateUsage)); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}
