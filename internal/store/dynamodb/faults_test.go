package dynamodb_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

func wantClass(t *testing.T, what string, want awsapi.Class, err error, says ...string) {
	t.Helper()
	if got := awsapi.ClassOf(err); got != want {
		t.Errorf("%s: class %q of %v, want %q", what, got, err, want)
	}
	for _, s := range says {
		if err != nil && !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %v, which does not say %q", what, err, s)
		}
	}
}

// Case 48: of a set of labels some are throttled. They fail alone, and alone are written again.
func TestThrottledLabels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	var rows []metering.Row
	var labels []metering.Label
	for i := range 100 {
		rows = append(rows, row(i, 5))
		labels = append(labels, label(row(i, 5)))
	}
	w.put(t, rows...)
	throttle := func(c standin.Call) standin.Action {
		if strings.HasSuffix(keyOf(t, c), "7") {
			return standin.Exception(400, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException", "The level of configured throughput was exceeded.")
		}
		return standin.Action{}
	}
	w.proxy.Intercept(throttle)
	var again []metering.Label
	for i, l := range w.LabelRows(t.Context(), labels) {
		if throttled := i%10 == 7; throttled {
			wantClass(t, labels[i].SortKey, awsapi.Throttled, l.Err)
			again = append(again, labels[i])
		} else if l.Err != nil || !l.Done {
			t.Errorf("label %d: %+v", i, l)
		}
	}
	w.proxy.Intercept(nil)
	w.proxy.Forget()
	for i, l := range w.LabelRows(t.Context(), again) {
		if l.Err != nil || !l.Done {
			t.Errorf("label %d again: %+v", i, l)
		}
	}
	waiting, err := read(w.PendingRows(t.Context(), group("").Hour, ""))
	check(t, err)
	if len(again) != 10 || w.proxy.Count("UpdateItem", "") != 10 || len(waiting) != 0 {
		t.Errorf("%d labels again in %d updates, %d rows still wait", len(again), w.proxy.Count("UpdateItem", ""), len(waiting))
	}
}

// The SDK's own tries, as awsapi sets them up, get over another's transaction on the item and a broken connection. The label that was
// written and not answered shows itself. It takes its settings from the environment, and so nothing runs beside it.
func TestTriesOfTheSDK(t *testing.T) {
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", w.proxy.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
	cfg, err := awsapi.Config(t.Context(), "us-east-1")
	check(t, err)
	rows := dynamodb.NewRows(sdk.NewFromConfig(cfg), w.usage, dynamodb.Options{})
	w.put(t, row(0, 5))
	tries := 0
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		if c.Operation != "UpdateItem" {
			return standin.Action{}
		}
		switch tries++; tries {
		case 1:
			return standin.Exception(400, "com.amazonaws.dynamodb.v20120810#TransactionConflictException", "Transaction is ongoing for the item")
		case 2:
			return standin.Action{Drop: true}
		}
		return standin.Action{}
	})
	l := label(row(0, 5))
	out, err := rows.LabelRow(t.Context(), l)
	check(t, err)
	if tries != 3 || out.Done || out.Old == nil || !l.Shows(*out.Old) {
		t.Errorf("%d tries: %+v, want 3 and the label shown", tries, out)
	}
}

// Case 37: the answer to a flush is lost, and the flush is sent again: it counts once.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		drop := func(standin.Call) standin.Action { return standin.Action{Drop: true} }
		w.proxy.Intercept(drop)
		lost := w.FlushRows(t.Context(), []metering.Flush{flush(0, 5, "one")})[0]
		wantClass(t, "the flush", awsapi.Unavailable, lost.Err)
		_, err := w.CreateRecord(t.Context(), record(5))
		wantClass(t, "the record", awsapi.Unavailable, err)
		w.proxy.Intercept(nil)
		again := w.FlushRows(t.Context(), []metering.Flush{flush(0, 5, "one")})[0]
		if again.Err != nil || !again.Done || again.Row.Quantity != metering.Units(5) {
			t.Errorf("the flush again: %+v", again)
		}
		same(t, "row", again.Row, w.row(t, 0))
		out, err := w.CreateRecord(t.Context(), record(5))
		check(t, err)
		ours := record(5)
		same(t, "our own record", metering.Outcome[metering.Record]{Old: &ours}, out)

		stands := w.row(t, 0)
		w.proxy.Intercept(drop)
		_, err = w.LabelRow(t.Context(), label(*stands))
		wantClass(t, "the label", awsapi.Unavailable, err)
		w.proxy.Intercept(nil)
		labelled, err := w.LabelRow(t.Context(), label(*stands))
		check(t, err)
		if labelled.Done || labelled.Old == nil || !label(*stands).Shows(*labelled.Old) {
			t.Errorf("the label again: %+v, want it refused and shown", labelled)
		}
	})
}

// A read that fails on the way says so, after what it has found; it may be begun anew.
func TestPageFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{PageLimit: 5})
	var rows []metering.Row
	for i := range 12 {
		rows = append(rows, row(i, 1))
	}
	w.put(t, rows...)
	queries := 0
	w.proxy.Intercept(func(standin.Call) standin.Action {
		if queries++; queries == 2 {
			return standin.Exception(500, "com.amazon.coral.service#InternalServerError", "The request processing has failed.")
		}
		return standin.Action{}
	})
	seq := w.GroupRows(t.Context(), group("api_calls"))
	got, err := read(seq)
	wantClass(t, "the second page", awsapi.Unavailable, err, "read a group's rows", "InternalServerError")
	same(t, "rows before it", rows[:5], got)
	got, err = read(seq)
	check(t, err)
	same(t, "all rows", rows, got)
}

// Case 41: a page may be empty and not the last; a last key that comes back ends the read with an error.
func TestOddPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	w.put(t, row(0, 5))
	key := `{"licenseArn":{"S":"` + license + `"},"customerAWSAccountId_dimension_timestamp":{"S":"` + group("api_calls").RowPrefix() + `"}}`
	queries := 0
	w.proxy.Intercept(func(standin.Call) standin.Action {
		if queries++; queries == 1 {
			return standin.Action{Status: 200, Body: `{"Items":[],"Count":0,"LastEvaluatedKey":` + key + `}`}
		}
		return standin.Action{}
	})
	got, err := read(w.GroupRows(t.Context(), group("api_calls")))
	check(t, err)
	same(t, "after an empty page", []metering.Row{row(0, 5)}, got)
	if queries != 2 {
		t.Errorf("%d queries, want 2", queries)
	}
	w.proxy.Intercept(func(standin.Call) standin.Action {
		return standin.Action{Status: 200, Body: `{"Items":[],"Count":0,"LastEvaluatedKey":` + key + `}`}
	})
	if _, err = read(w.GroupRows(t.Context(), group("api_calls"))); !errors.Is(err, store.ErrStuck) {
		t.Errorf("a key that comes back: %v", err)
	}
}

// What the service refuses for the caller's sake is one clear error, with what to do; nothing is done.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const namespace = "com.amazon.coral.service#"
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	w.put(t, row(0, 5))
	for _, tt := range []struct {
		name, code, message string
		class               awsapi.Class
		says                string
	}{
		{"expired", "ExpiredTokenException", "The security token included in the request is expired", awsapi.Credentials, "aws sts get-caller-identity"},
		{"no such key", "UnrecognizedClientException", "The security token included in the request is invalid.", awsapi.Credentials, "aws sts get-caller-identity"},
		{"wrong Region", "InvalidSignatureException", "Credential should be scoped to a valid region, not 'us-east-1'. ", awsapi.Invalid, "AWS_REGION"},
		{"denied", "AccessDeniedException", "User: arn:aws:sts::111122223333:assumed-role/r/f is not authorized to perform: dynamodb:UpdateItem", awsapi.Denied, "allow the caller's role the IAM action dynamodb:UpdateItem on " + w.usage},
	} {
		w.proxy.Intercept(func(standin.Call) standin.Action { return standin.Exception(400, namespace+tt.code, tt.message) })
		_, err := w.LabelRow(t.Context(), label(row(0, 5)))
		wantClass(t, tt.name, tt.class, err, tt.says, tt.code, w.usage)
		if awsapi.ClassOf(err).Retry() {
			t.Errorf("%s: it is to be tried again", tt.name)
		}
	}
	w.proxy.Intercept(nil)
	stands := row(0, 5)
	same(t, "row", &stands, w.row(t, 0))
}

// A table that is not there, or not in this Region.
func TestMissingTable(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		rows := dynamodb.NewRows(client(url), "awsmp-none-usage", dynamodb.Options{})
		_, read := read(rows.GroupRows(t.Context(), group("api_calls")))
		_, labelled := rows.LabelRow(t.Context(), label(row(0, 5)))
		flushed := rows.FlushRows(t.Context(), []metering.Flush{flush(0, 1, "one")})[0].Err
		for name, err := range map[string]error{"read": read, "label": labelled, "flush": flushed, "put": rows.PutRows(t.Context(), []metering.Row{row(0, 1)})} {
			wantClass(t, name, awsapi.Missing, err, "awsmp-none-usage", "aws dynamodb describe-table --table-name awsmp-none-usage", "AWS_REGION")
		}
	})
	t.Run("in another Region", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, standin.Moto(t), dynamodb.Options{})
		elsewhere := sdk.NewFromConfig(standin.Config(w.proxy.URL), func(o *sdk.Options) { o.Region = "eu-west-1" })
		_, err := dynamodb.NewSubscribers(elsewhere, w.subscribersTable).Deprovisioning(t.Context())
		wantClass(t, "Deprovisioning", awsapi.Missing, err, "AWS_REGION")
	})
}

// A call that is under way ends soon after its context does.
func TestContextEndsACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	never := make(chan struct{})
	w.proxy.Intercept(func(standin.Call) standin.Action {
		cancel()
		return standin.Action{Hold: never}
	})
	out := w.FlushRows(ctx, []metering.Flush{flush(0, 1, "one"), flush(1, 1, "one")})
	for _, f := range out {
		if !errors.Is(f.Err, context.Canceled) || awsapi.ClassOf(f.Err) != awsapi.Ended {
			t.Errorf("%+v", f)
		}
	}
}

// Case 49: two runs of one schedule do the same work at the same time. Both come to one end.
func TestTwoRunsAtOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		r := record(5)
		check(t, w.PutRecord(t.Context(), r))
		send := metering.Send{License: license, SortKey: r.SortKey, Fingerprint: r.Fingerprint(), Quantity: 5, Second: group("").Hour.Second(0), At: now()}
		finish := metering.Finish{License: license, SortKey: r.SortKey, Unbilled: true, Quantity: r.Quantity, Status: metering.Success, MeteringRecordID: "id-1", At: now()}
		var all sync.WaitGroup
		sent, ended := make([]metering.Outcome[metering.Record], 4), make([]metering.Outcome[metering.Record], 4)
		for i := range sent {
			all.Go(func() {
				var err error
				if sent[i], err = w.MarkSent(t.Context(), send); err != nil {
					t.Error(err)
				}
				if ended[i], err = w.FinishRecord(t.Context(), finish); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		done := 0
		for _, o := range ended {
			if o.Done {
				done++
			} else if o.Old == nil || !finish.Shows(*o.Old) {
				t.Errorf("a finish that lost: %+v", o)
			}
		}
		if done != 1 {
			t.Errorf("%d finishes won, want 1", done)
		}
		late := finish
		late.Status, late.Pending, late.Unbilled = metering.SubmissionExpired, true, false
		out, err := w.FinishRecord(t.Context(), late) // F26: the index still shows the record as waiting
		check(t, err)
		if out.Done || out.Old == nil || out.Old.Status != metering.Success {
			t.Errorf("expiry over Success: %+v", out)
		}
	})
}
