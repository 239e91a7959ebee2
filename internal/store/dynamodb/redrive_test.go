package dynamodb_test

import (
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

// ended is a row that has ended with a status.
func ended(offset int, quantity int64, status metering.Status) metering.Row {
	r := row(offset, quantity)
	r.Pending, r.Status, r.StatusReason = "", status, "because"
	return r
}

// F26: whatever a recall or a drop rests on, if it changes between the read and the write, nothing is written.
func TestReDriveWhileTheRowChanges(t *testing.T) {
	t.Parallel()
	stored := ended(0, 5, metering.RejectedClientSide)
	trace := &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{}}}
	judged := []meanwhile{
		{metering.AttrAccount, text(stored.Account), text("999988887777")},
		{metering.AttrDimension, text(stored.Dimension), text("storage")},
		{metering.AttrTimestamp, text(stored.Timestamp), text("2026-03-10T14:59:59")},
		{metering.AttrCustomerIdentifier, nil, text("cust-1")},
		{metering.AttrQuantity, number("5"), number("8")},
		{metering.AttrAllocations, nil, allocated("5")},
		{metering.AttrAllocations, allocated("5"), nil},
		{metering.AttrPending, nil, text("2026-03-10T14")},
		{metering.AttrStatus, text("RejectedClientSide"), text("Aggregated")},
		{metering.AttrStatusReason, text("because"), text("why")},
		{metering.AttrStatusReason, text("because"), nil},
		{metering.AttrDropped, nil, &types.AttributeValueMemberBOOL{Value: true}},
	}
	recall := func(w *world, r metering.Row) (metering.Outcome[metering.Row], error) {
		x, o := metering.RecallOf(r, metering.Rules{}, now())
		if o != "" {
			t.Errorf("recall: %s", o)
		}
		return w.RecallRow(t.Context(), x)
	}
	drop := func(w *world, r metering.Row) (metering.Outcome[metering.Row], error) {
		x, o := metering.DropOf(r, nil, now())
		if o != "" {
			t.Errorf("drop: %s", o)
		}
		return w.DropRow(t.Context(), x)
	}
	for name, tt := range map[string]struct {
		write  func(*world, metering.Row) (metering.Outcome[metering.Row], error)
		judged []meanwhile
	}{
		"drop": {drop, judged},
		"recall": {recall, append(judged[:len(judged):len(judged)],
			meanwhile{metering.AttrRecalled, nil, trace}, meanwhile{metering.AttrRecalled, nil, text("never")}, meanwhile{metering.AttrRecalled, trace, nil})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, url string) {
				w := newWorld(t, url, dynamodb.Options{})
				for _, m := range tt.judged {
					if !m.possible(t) && m.attribute != metering.AttrRecalled { // a trace is known by its length
						continue
					}
					w.proxy.Intercept(nil)
					_, err := w.direct.PutItem(t.Context(), &sdk.PutItemInput{TableName: &w.usage, Item: m.item(itemOf(stored))})
					check(t, err)
					read := *w.row(t, 0)
					w.between(t, 1, w.usage, m.attribute, m.after)
					out, err := tt.write(w, read)
					check(t, err)
					stands := w.row(t, 0)
					same(t, m.attribute+": outcome", metering.Outcome[metering.Row]{Old: stands}, out)
					if stands.UpdatedAt != "" {
						t.Errorf("%s: it was written: %+v", m.attribute, stands)
					}
				}
			})
		})
	}
}

// itemOf is a plain row as the table holds it.
func itemOf(r metering.Row) map[string]types.AttributeValue {
	item := map[string]types.AttributeValue{
		metering.AttrLicense: text(r.License), metering.AttrRowKey: text(r.SortKey), metering.AttrAccount: text(r.Account),
		metering.AttrDimension: text(r.Dimension), metering.AttrTimestamp: text(r.Timestamp), metering.AttrQuantity: number("5"),
		metering.AttrStatus: text(string(r.Status)), metering.AttrStatusReason: text(r.StatusReason),
	}
	return item
}

// The answers to a recall and to a drop are lost. Asked for again they show themselves.
func TestReDriveWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		recalled, dropped := ended(0, 5, metering.RejectedClientSide), ended(1, 5, metering.RejectedClientSide)
		w.put(t, recalled, dropped)
		x, _ := metering.RecallOf(recalled, metering.Rules{}, now())
		y, _ := metering.DropOf(dropped, nil, now())
		w.proxy.Intercept(func(c standin.Call) standin.Action { return standin.Action{Drop: c.Operation == "UpdateItem"} })
		_, lostRecall := w.RecallRow(t.Context(), x)
		_, lostDrop := w.DropRow(t.Context(), y)
		if lostRecall == nil || lostDrop == nil {
			t.Errorf("%v, %v", lostRecall, lostDrop)
		}
		w.proxy.Intercept(nil)
		out, err := w.RecallRow(t.Context(), x)
		if check(t, err); out.Done || out.Old == nil || !x.Shows(*out.Old) {
			t.Errorf("the recall again: %+v", out)
		}
		out, err = w.DropRow(t.Context(), y)
		if check(t, err); out.Done || out.Old == nil || !y.Shows(*out.Old) {
			t.Errorf("the drop again: %+v", out)
		}
	})
}

// hourRecord is the record that makes rows of 14:00 late.
func hourRecord() metering.Record {
	r := record(3)
	r.Manifest = "v1 1 3 3599:3"
	return r
}

// carrying is the carry of a late row of 14:00 into 15:00. The record of 14:00 is put where there is none.
func (w *world) carrying(t *testing.T, r metering.Row, offset int) metering.Carry {
	t.Helper()
	past := dynamodb.NewRecords(w.direct, w.aggregated, dynamodb.Options{})
	_, err := past.CreateRecord(t.Context(), hourRecord())
	check(t, err)
	record, err := past.Record(t.Context(), group("api_calls"))
	check(t, err)
	x, obstacle := metering.CarryOf(r, record, metering.Rules{}, metering.HourOf(now()).Second(offset), now())
	if obstacle != "" {
		t.Fatal(obstacle)
	}
	x.Token = "token of " + r.SortKey
	return x
}

// stands checks that a carry was made once, or that both its rows are as they were and the record does not tell of it.
func (w *world) stands(t *testing.T, what string, r metering.Row, x metering.Carry, done bool) {
	t.Helper()
	source, target := &r, (*metering.Row)(nil)
	if done {
		after, row := x.Apply(r), x.Row()
		source, target = &after, &row
	}
	past := dynamodb.NewRows(w.direct, w.usage, dynamodb.Options{})
	got, err := past.Row(t.Context(), license, r.SortKey)
	check(t, err)
	same(t, what+": source", source, got)
	got, err = past.Row(t.Context(), license, x.TargetKey())
	check(t, err)
	same(t, what+": target", target, got)
	record, err := dynamodb.NewRecords(w.direct, w.aggregated, dynamodb.Options{}).Record(t.Context(), group("api_calls"))
	check(t, err)
	if list, _ := record.Carried(); x.Shows(*record) != done || len(list) > x.Listed+1 {
		t.Errorf("%s: record %+v", what, record)
	}
}

// cancelled is the answer to a transaction that was not made, with the reasons of its items: the source, the record and the target.
func cancelled(source, record, target string) standin.Action {
	reason := func(code string) string { return `{"Code":"` + code + `","Message":"` + code + `"}` }
	a := standin.Exception(400, "com.amazonaws.dynamodb.v20120810#TransactionCanceledException", "")
	a.Body = `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","message":"Transaction cancelled, please refer cancellation reasons for specific reasons","CancellationReasons":[` +
		reason(source) + "," + reason(record) + "," + reason(target) + `]}`
	return a
}

// A transaction that met another one is tried again, with pauses that grow; one that never gets through says that it will pass.
func TestCarryAmongOtherTransactions(t *testing.T) {
	t.Parallel()
	var slept pauses
	w := newWorld(t, standin.Moto(t), dynamodb.Options{Sleep: slept.sleep})
	r := ended(0, 5, metering.LateUsage)
	w.put(t, r)
	x := w.carrying(t, r, 0)
	tries := 0
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		if c.Operation != "TransactWriteItems" {
			return standin.Action{}
		}
		switch tries++; tries {
		case 1:
			return cancelled("TransactionConflict", "None", "None")
		case 2:
			return cancelled("None", "TransactionConflict", "None")
		}
		return standin.Action{}
	})
	out, err := w.CarryRow(t.Context(), x)
	check(t, err)
	if !out.Done || tries != 3 || len(slept) != 2 || slept[1] > 100*time.Millisecond {
		t.Errorf("%+v after %d tries and pauses %v", out, tries, slept)
	}
	w.stands(t, "the third", r, x, true)

	second := ended(1, 5, metering.LateUsage)
	w.put(t, second)
	y := w.carrying(t, second, 1)
	for name, tt := range map[string]struct {
		answer standin.Action
		class  awsapi.Class
		tries  int
	}{
		"another transaction for ever": {cancelled("TransactionConflict", "None", "None"), awsapi.Unavailable, 10},
		"throttled":                    {cancelled("None", "None", "ThrottlingError"), awsapi.Throttled, 1},
		"throttled by capacity":        {cancelled("None", "ProvisionedThroughputExceeded", "None"), awsapi.Throttled, 1},
		"not valid":                    {cancelled("None", "ValidationError", "None"), awsapi.Invalid, 1},
		"unknown":                      {cancelled("None", "SomethingNew", "None"), awsapi.Invalid, 1},
	} {
		w.proxy.Intercept(func(c standin.Call) standin.Action {
			if c.Operation == "TransactWriteItems" {
				return tt.answer
			}
			return standin.Action{}
		})
		w.proxy.Forget()
		out, err := w.CarryRow(t.Context(), y)
		wantClass(t, name, tt.class, err)
		if out.Done || w.proxy.Count("TransactWriteItems", "") != tt.tries {
			t.Errorf("%s: %+v in %d tries, want %d", name, out, w.proxy.Count("TransactWriteItems", ""), tt.tries)
		}
		w.stands(t, name, second, y, false)
	}
}
