package dynamodb_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

func number(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }

// allocated is a list of one allocation.
func allocated(quantity string) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: []types.AttributeValue{
		&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"AllocatedUsageQuantity": number(quantity)}},
	}}
}

// between changes an attribute of an item, or removes it where value is nil, directly before the nth UpdateItem of the store.
func (w *world) between(t *testing.T, nth int, table, attribute string, value types.AttributeValue) {
	t.Helper()
	updates := 0
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		if c.Operation != "UpdateItem" {
			return standin.Action{}
		}
		if updates++; updates != nth {
			return standin.Action{}
		}
		var body struct {
			Key map[string]struct{ S string }
		}
		check(t, json.Unmarshal(c.Body, &body))
		in := &sdk.UpdateItemInput{
			TableName: &table, Key: map[string]types.AttributeValue{}, UpdateExpression: aws.String("REMOVE #a"),
			ExpressionAttributeNames: map[string]string{"#a": attribute},
		}
		for name, v := range body.Key {
			in.Key[name] = text(v.S)
		}
		if value != nil {
			in.UpdateExpression, in.ExpressionAttributeValues = aws.String("SET #a = :v"), map[string]types.AttributeValue{":v": value}
		}
		if _, err := w.direct.UpdateItem(t.Context(), in); err != nil {
			t.Errorf("change %s meanwhile: %v", attribute, err)
		}
		return standin.Action{}
	})
}

// meanwhile is one attribute that becomes another while its item is judged: before may be nil, after too.
type meanwhile struct {
	attribute     string
	before, after types.AttributeValue
}

// item is with the attribute as it was before.
func (m meanwhile) item(item map[string]types.AttributeValue) map[string]types.AttributeValue {
	item = maps.Clone(item)
	delete(item, m.attribute)
	if m.before != nil {
		item[m.attribute] = m.before
	}
	return item
}

// possible says whether the stand-in can compare what is there before with what was read: dynalite takes no two lists for equal.
func (m meanwhile) possible(t *testing.T) bool {
	_, list := m.before.(*types.AttributeValueMemberL)
	return !list || !strings.Contains(t.Name(), "dynalite")
}

// F26: whatever a verdict on a row rests on, if it changes between the read and the write, no label is written.
func TestLabelWhileItsRowChanges(t *testing.T) {
	t.Parallel()
	stored := row(0, 5)
	judged := []meanwhile{
		{metering.AttrAccount, text(stored.Account), text("999988887777")},
		{metering.AttrDimension, text(stored.Dimension), text("storage")},
		{metering.AttrTimestamp, text(stored.Timestamp), text("2026-03-10T14:59:59")},
		{metering.AttrCustomerIdentifier, nil, text("cust-1")},
		{metering.AttrCustomerIdentifier, text("cust-1"), nil},
		{metering.AttrQuantity, number("5"), number("8")},
		{metering.AttrQuantity, text("five"), number("5")},
		{metering.AttrAllocations, nil, allocated("5")},
		{metering.AttrAllocations, allocated("4"), allocated("5")},
		{metering.AttrPending, text(stored.Pending), nil},
	}
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		for _, m := range judged {
			if !m.possible(t) {
				continue
			}
			item := m.item(map[string]types.AttributeValue{
				metering.AttrLicense: text(license), metering.AttrRowKey: text(stored.SortKey), metering.AttrAccount: text(buyer),
				metering.AttrDimension: text(stored.Dimension), metering.AttrTimestamp: text(stored.Timestamp),
				metering.AttrQuantity: number("5"), metering.AttrPending: text(stored.Pending),
			})
			w.proxy.Intercept(nil)
			_, err := w.direct.PutItem(t.Context(), &sdk.PutItemInput{TableName: &w.usage, Item: item})
			check(t, err)
			l := label(stored)
			l.Fingerprint, l.Status, l.Reason = w.row(t, 0).Fingerprint(), metering.RejectedClientSide, "because"
			w.between(t, 1, w.usage, m.attribute, m.after)
			out, err := w.LabelRow(t.Context(), l)
			check(t, err)
			stands := w.row(t, 0)
			same(t, m.attribute+": outcome", metering.Outcome[metering.Row]{Old: stands}, out)
			if stands.Status != "" || stands.StatusReason != "" {
				t.Errorf("%s: a label was written: %+v", m.attribute, stands)
			}
		}
	})
}

// F26: whatever is sent of a record, or its verdict rests on, if it changes between the read and the write, it is neither marked as sent
// nor finished.
func TestRecordChangesMeanwhile(t *testing.T) {
	t.Parallel()
	stored := record(5)
	judged := []meanwhile{
		{metering.AttrAccount, text(stored.Account), text("999988887777")},
		{metering.AttrDimension, text(stored.Dimension), text("storage")},
		{metering.AttrHour, text(stored.HourBucket), text("2026-03-10T13")},
		{metering.AttrCustomerIdentifier, nil, text("cust-1")},
		{metering.AttrCustomerIdentifier, text("cust-1"), nil},
		{metering.AttrPending, text(stored.Pending), nil},
		{metering.AttrPending, text(stored.Pending), text("2026-03-10T13")},
		{metering.AttrQuantity, number("5"), number("8")},
		{metering.AttrQuantity, text("five"), number("5")},
		{metering.AttrAllocations, nil, allocated("5")},
		{metering.AttrAllocations, allocated("4"), allocated("5")},
		{metering.AttrSentQuantity, nil, number("5")},
		{metering.AttrSentQuantity, number("4"), number("5")},
		{metering.AttrSentSecond, nil, text("2026-03-10T14:00:00")},
		{metering.AttrSentSecond, text("2026-03-10T14:00:00"), nil},
	}
	billed := meanwhile{metering.AttrStatus, text(string(metering.DuplicateRecord)), text(string(metering.Success))}
	mark := func(w *world, r metering.Record) (metering.Outcome[metering.Record], error) {
		return w.MarkSent(t.Context(), metering.Send{License: license, SortKey: r.SortKey, Fingerprint: r.Fingerprint(), Quantity: 6, Second: group("").Hour.Second(7), At: now()})
	}
	end := func(w *world, r metering.Record) (metering.Outcome[metering.Record], error) {
		return w.FinishRecord(t.Context(), metering.Finish{
			License: license, SortKey: r.SortKey, Pending: true, Unbilled: true, Fingerprint: r.Fingerprint(),
			Status: metering.SubmissionExpired, Reason: "because", At: now(),
		})
	}
	for name, tt := range map[string]struct {
		write  func(*world, metering.Record) (metering.Outcome[metering.Record], error)
		judged []meanwhile
	}{
		"mark": {mark, judged}, "finish": {end, append(judged[:len(judged):len(judged)], billed)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, url string) {
				w := newWorld(t, url, dynamodb.Options{})
				past := dynamodb.NewRecords(w.direct, w.aggregated, dynamodb.Options{})
				for _, m := range tt.judged {
					if !m.possible(t) {
						continue
					}
					item := m.item(map[string]types.AttributeValue{
						metering.AttrLicense: text(license), metering.AttrRecordKey: text(stored.SortKey), metering.AttrAccount: text(buyer),
						metering.AttrDimension: text(stored.Dimension), metering.AttrHour: text(stored.HourBucket),
						metering.AttrQuantity: number("5"), metering.AttrPending: text(stored.Pending),
					})
					_, err := w.direct.PutItem(t.Context(), &sdk.PutItemInput{TableName: &w.aggregated, Item: item})
					check(t, err)
					read, err := past.Record(t.Context(), group("api_calls"))
					check(t, err)
					w.between(t, 1, w.aggregated, m.attribute, m.after)
					out, err := tt.write(w, *read)
					check(t, err)
					stands, err := past.Record(t.Context(), group("api_calls"))
					check(t, err)
					same(t, m.attribute+": outcome", metering.Outcome[metering.Record]{Old: stands}, out)
					if stands.SentQuantity == metering.Units(6) || stands.Status == metering.SubmissionExpired {
						t.Errorf("%s: it was written: %+v", m.attribute, stands)
					}
				}
			})
		})
	}
}

// A flush into an uncommon row is judged and written as that row was read: what another writer does meanwhile is neither undone
// nor passed over.
func TestFlushWhileItsRowChanges(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		for name, tt := range map[string]struct {
			meanwhile
			done     bool
			quantity int64
			tokens   []string
		}{
			"another writer's quantity":      {meanwhile{metering.AttrQuantity, number("5"), number("8")}, true, 10, []string{"one"}},
			"the same flush":                 {meanwhile{metering.AttrFlushes, text("none"), &types.AttributeValueMemberSS{Value: []string{"one"}}}, true, 5, []string{"one"}},
			"another writer's flush":         {meanwhile{metering.AttrFlushes, text("none"), &types.AttributeValueMemberSS{Value: []string{"two"}}}, true, 7, []string{"one", "two"}},
			"allocations of another type":    {meanwhile{metering.AttrAllocations, nil, text("none")}, false, 5, nil},
			"an identifier that is not ours": {meanwhile{metering.AttrCustomerIdentifier, nil, text("cust-1")}, false, 5, nil},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, url, dynamodb.Options{})
				item := tt.item(map[string]types.AttributeValue{
					metering.AttrLicense: text(license), metering.AttrRowKey: text(row(0, 0).SortKey), metering.AttrQuantity: number("5"),
					metering.AttrFlushes: text("none"), // no expression can judge it
				})
				_, err := w.direct.PutItem(t.Context(), &sdk.PutItemInput{TableName: &w.usage, Item: item})
				check(t, err)
				w.between(t, 2, w.usage, tt.attribute, tt.after) // the first finds that the row is uncommon
				got := w.FlushRows(t.Context(), []metering.Flush{flush(0, 2, "one")})[0]
				check(t, got.Err)
				stands := w.row(t, 0)
				same(t, "row", stands, got.Row)
				if got.Done != tt.done || stands.Quantity != metering.Units(tt.quantity) {
					t.Errorf("done %v, quantity %v, want %v and %d", got.Done, stands.Quantity, tt.done, tt.quantity)
				}
				same(t, "tokens", setOf(tt.tokens), setOf(stands.Flushes))
			})
		}
	})
}
