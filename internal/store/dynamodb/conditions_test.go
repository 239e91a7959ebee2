package dynamodb_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

// meddle changes the row directly before the first UpdateItem that the store sends, and so between its read and its write.
func (w *world) meddle(t *testing.T, update string, values map[string]types.AttributeValue) {
	t.Helper()
	first := true
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		if c.Operation == "UpdateItem" && first {
			first = false
			in := &sdk.UpdateItemInput{TableName: &w.usage, Key: rowKey(keyOf(t, c)), UpdateExpression: &update, ExpressionAttributeValues: values}
			if _, err := w.direct.UpdateItem(t.Context(), in); err != nil {
				t.Errorf("change the row meanwhile: %v", err)
			}
		}
		return standin.Action{}
	})
}

func rowKey(sortKey string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		metering.AttrLicense: &types.AttributeValueMemberS{Value: license}, metering.AttrRowKey: &types.AttributeValueMemberS{Value: sortKey},
	}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// F26: what was judged has changed between the read and the write. Nothing is overwritten blindly.
func TestChangedBetweenReadAndWrite(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		stored := row(0, 5)

		w.put(t, stored)
		w.meddle(t, "SET quantity = :q", map[string]types.AttributeValue{":q": &types.AttributeValueMemberN{Value: "8"}})
		out, err := w.LabelRow(t.Context(), judged(stored))
		check(t, err)
		grown := stored
		grown.Quantity = metering.Units(8)
		same(t, "judged, and grown meanwhile", metering.Outcome[metering.Row]{Old: &grown}, out)
		same(t, "row", &grown, w.row(t, 0))

		w.put(t, stored)
		w.meddle(t, "SET quantity = :q", map[string]types.AttributeValue{":q": &types.AttributeValueMemberN{Value: "8"}})
		out, err = w.LabelRow(t.Context(), label(stored))
		check(t, err)
		same(t, "F7: by quantity, and grown meanwhile", metering.Outcome[metering.Row]{Old: &grown}, out)

		w.put(t, stored)
		w.meddle(t, "REMOVE meteringPending SET meteringStatus = :s", map[string]types.AttributeValue{":s": text("Aggregated")})
		out, err = w.LabelRow(t.Context(), judged(stored))
		check(t, err)
		if out.Done || out.Old == nil || out.Old.Status != metering.Aggregated {
			t.Errorf("finished meanwhile: %+v", out)
		}

		w.put(t, stored)
		w.meddle(t, "SET recalled = :r", map[string]types.AttributeValue{":r": &types.AttributeValueMemberL{Value: []types.AttributeValue{text("once")}}})
		out, err = w.LabelRow(t.Context(), judged(stored))
		check(t, err)
		if out.Done || out.Old == nil || out.Old.Pending == "" || out.Old.Status != "" {
			t.Errorf("rejected and recalled meanwhile: %+v", out)
		}

		w.put(t, stored)
		w.meddle(t, "SET note = :n", map[string]types.AttributeValue{":n": text("not judged")})
		out, err = w.LabelRow(t.Context(), judged(stored))
		check(t, err)
		if got := w.row(t, 0); !out.Done || got.Other["note"] != "not judged" || got.Status != metering.RejectedClientSide {
			t.Errorf("something else changed meanwhile: %+v, row %+v", out, got)
		}
	})
}

// A condition that failed for what it does not mean is judged once more: a late quantity of the wrong type is not ours to remove.
func TestOddAttributeInTheWay(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		stored := row(0, 5)
		stored.Other = metering.Item{metering.AttrLateQuantity: "some"}
		w.put(t, stored)
		out, err := w.LabelRow(t.Context(), label(stored))
		check(t, err)
		if got := w.row(t, 0); !out.Done || got.Status != metering.Aggregated || got.Other[metering.AttrLateQuantity] != "some" {
			t.Errorf("%+v, row %+v", out, got)
		}
	})
}

// F27: the row is deleted between the read and the write, or right before a write that needs no read. None comes back.
func TestDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		stored := row(0, 5)
		for name, l := range map[string]metering.Label{"judged": judged(stored), "by quantity": label(stored)} {
			w.put(t, stored)
			w.proxy.Intercept(func(c standin.Call) standin.Action {
				if c.Operation == "UpdateItem" {
					if _, err := w.direct.DeleteItem(t.Context(), &sdk.DeleteItemInput{TableName: &w.usage, Key: rowKey(stored.SortKey)}); err != nil {
						t.Errorf("delete: %v", err)
					}
				}
				return standin.Action{}
			})
			out, err := w.LabelRow(t.Context(), l)
			check(t, err)
			same(t, name, metering.Outcome[metering.Row]{}, out)
			if got := w.row(t, 0); got != nil {
				t.Errorf("%s: a ghost: %+v", name, got)
			}
		}
	})
}

// A row that somebody writes without pause is given up, and left as it is.
func TestRestlessRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	stored := row(0, 5)
	w.put(t, stored)
	refused := 0
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		if c.Operation != "UpdateItem" {
			return standin.Action{}
		}
		refused++
		return standin.Exception(400, "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException", "The conditional request failed")
	})
	_, err := w.LabelRow(t.Context(), judged(stored))
	if awsapi.ClassOf(err) != awsapi.Unavailable || refused > 20 {
		t.Errorf("%v after %d tries", err, refused)
	}
	w.proxy.Intercept(nil)
	same(t, "row", &stored, w.row(t, 0))
}

// Attributes of types that JSON does not know stay as they are through every write, and are judged as they were read.
func TestTypesOfTheSellers(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		item := map[string]types.AttributeValue{
			metering.AttrLicense: text(license), metering.AttrRowKey: text(row(0, 0).SortKey), metering.AttrPending: text(row(0, 0).Pending),
			metering.AttrAccount:            &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}},
			metering.AttrDimension:          &types.AttributeValueMemberB{Value: []byte("api_calls")},
			metering.AttrQuantity:           &types.AttributeValueMemberNS{Value: []string{"10", "9"}},
			metering.AttrAllocations:        &types.AttributeValueMemberSS{Value: []string{"b", "a"}},
			metering.AttrCustomerIdentifier: &types.AttributeValueMemberNULL{Value: true},
			"regions":                       &types.AttributeValueMemberSS{Value: []string{"us-east-1", "eu-west-1"}},
			"digest":                        &types.AttributeValueMemberB{Value: []byte{0, 255}},
			"price":                         &types.AttributeValueMemberN{Value: "12345678901234567890.123"},
			"nested": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"l": &types.AttributeValueMemberL{Value: []types.AttributeValue{
				&types.AttributeValueMemberNS{Value: []string{"1.5"}}, &types.AttributeValueMemberBOOL{Value: false},
			}}}},
		}
		if _, err := w.direct.PutItem(t.Context(), &sdk.PutItemInput{TableName: &w.usage, Item: item}); err != nil {
			t.Fatal(err)
		}
		got := w.row(t, 0)
		if got.Account != "" || got.Dimension != "" || got.Quantity.Whole || got.CustomerIdentifier != "" {
			t.Errorf("read as if they were text and numbers: %+v", got)
		}
		if reason := got.Validate(now()); reason == "" {
			t.Error("the row is valid")
		}
		listed, err := read(w.PendingRows(t.Context(), group("").Hour, ""))
		check(t, err)
		if len(listed) != 1 || listed[0].Account != "" || listed[0].Dimension != "" {
			t.Errorf("index: %+v", listed)
		}

		b := metering.Rebucket{License: license, SortKey: got.SortKey, From: got.Pending, To: "2026-03-10T13", At: now()}
		moved, err := w.RebucketRow(t.Context(), b)
		check(t, err)
		out, err := w.LabelRow(t.Context(), judged(*got))
		check(t, err)
		if !moved.Done || !out.Done {
			t.Fatalf("RebucketRow %+v, LabelRow %+v", moved, out)
		}
		after, err := w.direct.GetItem(t.Context(), &sdk.GetItemInput{TableName: &w.usage, Key: rowKey(got.SortKey), ConsistentRead: aws.Bool(true)})
		check(t, err)
		for name, v := range item {
			if name == metering.AttrPending {
				continue
			}
			same(t, name, plain(v), plain(after.Item[name]))
		}

		// What is read and put again stays what it was, too.
		again := w.row(t, 0)
		check(t, w.PutRow(t.Context(), *again))
		same(t, "put again", again, w.row(t, 0))
	})
}

// plain is a value that can be compared: sets have no order.
func plain(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberSS:
		return map[string]any{"SS": setOf(v.Value)}
	case *types.AttributeValueMemberNS:
		return map[string]any{"NS": setOf(v.Value)}
	case *types.AttributeValueMemberBS:
		var list []string
		for _, b := range v.Value {
			list = append(list, string(b))
		}
		return map[string]any{"BS": setOf(list)}
	case *types.AttributeValueMemberS:
		return "S " + v.Value
	case *types.AttributeValueMemberN:
		return "N " + v.Value
	case *types.AttributeValueMemberB:
		return "B " + string(v.Value)
	case *types.AttributeValueMemberBOOL:
		return v.Value
	case *types.AttributeValueMemberNULL:
		return nil
	case *types.AttributeValueMemberL:
		var list []any
		for _, e := range v.Value {
			list = append(list, plain(e))
		}
		return list
	case *types.AttributeValueMemberM:
		m := map[string]any{}
		for name, e := range v.Value {
			m[name] = plain(e)
		}
		return m
	}
	return "nothing"
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool)
	for _, s := range list {
		set[s] = true
	}
	return set
}

// Rows that a flush cannot judge by expression are read and judged: tokens in a list, as another writer may keep them, an empty
// list of allocations, a row without quantity.
func TestFlushIntoUncommonRows(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		item := func(change func(item map[string]types.AttributeValue)) {
			t.Helper()
			r := row(0, 0)
			item := map[string]types.AttributeValue{
				metering.AttrLicense: text(license), metering.AttrRowKey: text(r.SortKey), metering.AttrQuantity: &types.AttributeValueMemberN{Value: "5"},
			}
			change(item)
			_, err := w.direct.PutItem(t.Context(), &sdk.PutItemInput{TableName: &w.usage, Item: item})
			check(t, err)
		}
		flushed := func(name string, f metering.Flush, done bool, quantity int64, tokens ...string) {
			t.Helper()
			got := w.FlushRows(t.Context(), []metering.Flush{f})[0]
			if got.Err != nil || got.Done != done || got.Row == nil || got.Row.Quantity != metering.Units(quantity) {
				t.Errorf("%s: %+v", name, got)
			}
			stands := w.row(t, 0)
			same(t, name+": row", stands, got.Row)
			same(t, name+": tokens", setOf(tokens), setOf(stands.Flushes))
		}
		list := &types.AttributeValueMemberL{Value: []types.AttributeValue{text("one"), text("one"), text("two")}}
		if !strings.Contains(t.Name(), "dynalite") { // which takes no two lists for equal
			item(func(m map[string]types.AttributeValue) { m[metering.AttrFlushes] = list })
			flushed("a list of tokens", flush(0, 2, "three"), true, 7, "one", "two", "three")
			flushed("the same again", flush(0, 2, "three"), true, 7, "one", "two", "three")
		}
		item(func(m map[string]types.AttributeValue) { m[metering.AttrFlushes] = list })
		flushed("a token that is in the list", flush(0, 2, "two"), true, 5, "one", "two")
		item(func(m map[string]types.AttributeValue) { m[metering.AttrFlushes] = text("none") })
		flushed("tokens of another type", flush(0, 2, "one"), true, 7, "one")
		item(func(m map[string]types.AttributeValue) { m[metering.AttrAllocations] = &types.AttributeValueMemberL{} })
		flushed("an empty list of allocations", flush(0, 2, "one"), true, 7, "one")
		item(func(m map[string]types.AttributeValue) { m[metering.AttrAllocations] = text("none") })
		flushed("allocations of another type", flush(0, 2, "one"), false, 5)
		item(func(m map[string]types.AttributeValue) { delete(m, metering.AttrQuantity) })
		flushed("no quantity", flush(0, 2, "one"), true, 2, "one")
		item(func(m map[string]types.AttributeValue) {
			m[metering.AttrAccount], m[metering.AttrPending] = &types.AttributeValueMemberBOOL{}, text("2026-03-10T11")
		})
		flushed("in another bucket", flush(0, 2, "one"), true, 7, "one")
		if r := w.row(t, 0); r.Account != buyer || r.Pending != row(0, 0).Pending {
			t.Errorf("row %+v", r)
		}
		item(func(m map[string]types.AttributeValue) { m[metering.AttrCustomerIdentifier] = text("") })
		flushed("an empty identifier", flush(0, 2, "one"), false, 5)

		tagged := flush(0, 2, "one")
		tagged.Allocations = make([]metering.Allocation, 2500)
		tagged.Allocations[0].Quantity = 2
		item(func(m map[string]types.AttributeValue) {
			m[metering.AttrQuantity] = &types.AttributeValueMemberN{Value: "0"}
		})
		flushed("as many allocations as there may be", tagged, true, 2, "one")
		tagged.Token, tagged.Allocations = "two", tagged.Allocations[:1]
		flushed("one more", tagged, false, 2, "one")
	})
}

// F28 and case 32: the service refuses a record that ours took for small enough. One that is there already decides all the same.
func TestRefusedForItsSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Moto(t), dynamodb.Options{}) // which draws the line at 405,000 bytes
	large := record(5)
	large.Manifest = strings.Repeat("x", 407_000)
	out, err := w.CreateRecord(t.Context(), large)
	if !errors.Is(err, metering.ErrTooLarge) || awsapi.ClassOf(err) != awsapi.TooLarge || out.Done || len(w.proxy.Calls()) == 0 {
		t.Errorf("%+v, %v", out, err)
	}
	small := record(7)
	check(t, w.PutRecord(t.Context(), small))
	for _, size := range []int{407_000, 500_000} {
		large.Manifest = strings.Repeat("x", size)
		out, err = w.CreateRecord(t.Context(), large)
		check(t, err)
		same(t, "there already", metering.Outcome[metering.Record]{Old: &small}, out)
	}
}

// Case 34: a key that no table takes is refused in plain words, and nothing is sent.
func TestKeysTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	g := group(strings.Repeat("\U0001F600", 255))
	long := metering.NewRow(g, g.Hour.Second(0), 1)
	f := metering.NewFlush(g, g.Hour.Second(0), 1, "one")
	_, created := w.CreateRecord(t.Context(), metering.NewRecord(g, 1))
	for name, err := range map[string]error{
		"PutRow": w.PutRow(t.Context(), long), "PutRows": w.PutRows(t.Context(), []metering.Row{row(0, 1), long}),
		"FlushRows": w.FlushRows(t.Context(), []metering.Flush{f})[0].Err, "CreateRecord": created,
		"PutRecord": w.PutRecord(t.Context(), metering.NewRecord(g, 1)),
	} {
		if awsapi.ClassOf(err) != awsapi.Invalid || !strings.Contains(err.Error(), "more than the 1024 that a table takes. Try: a shorter dimension") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if calls := w.operations(); len(calls) != 0 {
		t.Errorf("it was sent: %v", calls)
	}
}

// F26: a refused record becomes Success between the read and the write of another Success, which asks for its fingerprint. The first stays.
func TestBilledMeanwhile(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		refused := record(5)
		refused.Pending, refused.Status = "", metering.DuplicateRecord
		check(t, w.PutRecord(t.Context(), refused))
		finish := func(id string) metering.Finish {
			return metering.Finish{
				License: license, SortKey: refused.SortKey, Unbilled: true, Fingerprint: refused.Fingerprint(),
				Status: metering.Success, MeteringRecordID: id, At: now(),
			}
		}
		past := dynamodb.NewRecords(w.direct, w.aggregated, dynamodb.Options{})
		first := true
		w.proxy.Intercept(func(c standin.Call) standin.Action {
			if c.Operation == "UpdateItem" && first {
				first = false
				if out, err := past.FinishRecord(t.Context(), finish("id-1")); err != nil || !out.Done {
					t.Errorf("the first: %+v, %v", out, err)
				}
			}
			return standin.Action{}
		})
		out, err := w.FinishRecord(t.Context(), finish("id-2"))
		check(t, err)
		if out.Done || out.Old == nil || out.Old.MeteringRecordID != "id-1" {
			t.Errorf("the second: %+v", out)
		}
	})
}
