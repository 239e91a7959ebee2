package dynamodb_test

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

func reopening(t *testing.T, r metering.Record) metering.Reopen {
	t.Helper()
	x, obstacle := metering.ReopenOf(r, metering.Rules{}, now())
	if obstacle != "" {
		t.Fatal(obstacle)
	}
	return x
}

// F26: whatever a reopening rests on, if it changes between the read and the write, nothing is written.
func TestReopenWhileItsRecordChanges(t *testing.T) {
	t.Parallel()
	entry := func(n int) types.AttributeValue {
		list := &types.AttributeValueMemberL{}
		for range n {
			list.Value = append(list.Value, &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"at": text("2026-03-10T15:00:00Z")}})
		}
		return list
	}
	judged := []struct {
		attribute     string
		before, after types.AttributeValue
	}{
		{metering.AttrStatus, text("CustomerNotSubscribed"), text("Success")},
		{metering.AttrStatus, text("CustomerNotSubscribed"), nil},
		{metering.AttrStatusReason, nil, text("why")},
		{metering.AttrBilledQuantity, nil, number("2")},
		{metering.AttrPending, nil, text("2026-03-10T14")},
		{metering.AttrQuantity, number("5"), number("8")},
		{metering.AttrSentQuantity, number("5"), nil},
		{metering.AttrSentSecond, text("2026-03-10T14:00:00"), text("2026-03-10T14:00:07")},
		{metering.AttrReopened, nil, entry(1)},
		{metering.AttrReopened, nil, text("never")},
		{metering.AttrReopened, nil, text("")},
		{metering.AttrReopened, entry(0), entry(1)},
		{metering.AttrReopened, entry(0), text("")},
		{metering.AttrReopened, entry(1), text("x")},
		{metering.AttrReopened, entry(1), entry(2)},
		{metering.AttrReopened, entry(1), nil},
	}
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		for _, m := range judged {
			item := map[string]types.AttributeValue{
				metering.AttrLicense: text(license), metering.AttrRecordKey: text(group("api_calls").RecordKey()), metering.AttrAccount: text(buyer),
				metering.AttrDimension: text("api_calls"), metering.AttrHour: text("2026-03-10T14"), metering.AttrQuantity: number("5"),
				metering.AttrSentQuantity: number("5"), metering.AttrSentSecond: text("2026-03-10T14:00:00"),
				metering.AttrStatus: text("CustomerNotSubscribed"), metering.AttrRecordID: text("id-1"),
			}
			if m.before != nil {
				item[m.attribute] = m.before
			}
			w.proxy.Intercept(nil)
			_, err := w.direct.PutItem(t.Context(), &sdk.PutItemInput{TableName: &w.aggregated, Item: item})
			check(t, err)
			stored, err := w.Record(t.Context(), group("api_calls"))
			check(t, err)
			w.between(t, 1, w.aggregated, m.attribute, m.after)
			out, err := w.ReopenRecord(t.Context(), reopening(t, *stored))
			check(t, err)
			stands, err := w.Record(t.Context(), group("api_calls"))
			check(t, err)
			same(t, m.attribute+": outcome", metering.Outcome[metering.Record]{Old: stands}, out)
			if stands.MeteringRecordID != "id-1" || stands.UpdatedAt != "" {
				t.Errorf("%s: it was reopened: %+v", m.attribute, stands)
			}
		}
	})
}

// A seller's tool that writes an empty list in the place of no trace keeps nobody from reopening the record.
func TestReopenWithAnEmptyTrace(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		r := record(5)
		r.Pending, r.Status = "", metering.CustomerNotSubscribed
		r.Other = metering.Item{metering.AttrReopened: []any{}}
		check(t, w.PutRecord(t.Context(), r))
		out, err := w.ReopenRecord(t.Context(), reopening(t, r))
		if check(t, err); !out.Done {
			t.Errorf("%+v", out)
		}
		stored, err := w.Record(t.Context(), group("api_calls"))
		check(t, err)
		if trace, _ := stored.Other[metering.AttrReopened].([]any); len(trace) != 1 || stored.Pending == "" {
			t.Errorf("%+v", stored)
		}
	})
}

// The answer to a reopening is lost. Asked for again it shows itself.
func TestReopenWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		r := record(5)
		r.Pending, r.Status = "", metering.CustomerNotSubscribed
		check(t, w.PutRecord(t.Context(), r))
		x := reopening(t, r)
		w.proxy.Intercept(func(c standin.Call) standin.Action {
			if c.Operation == "UpdateItem" {
				return standin.Action{Drop: true}
			}
			return standin.Action{}
		})
		if out, err := w.ReopenRecord(t.Context(), x); err == nil || out.Done {
			t.Errorf("%+v, %v", out, err)
		}
		w.proxy.Intercept(nil)
		out, err := w.ReopenRecord(t.Context(), x)
		if check(t, err); out.Done || out.Old == nil || !x.Shows(*out.Old) {
			t.Errorf("again: %+v", out)
		}
	})
}
