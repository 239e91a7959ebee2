package endtoend_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
)

// malformedMessages fail alone and end as dead letters; the good ones beside them are done (case 45).
func malformedMessages(t *testing.T, s suite) {
	w := newWorld(t, s)
	g := w.group(w.license(), "seats")
	w.put(rows(g, 3)...)
	broken := map[string][]string{
		workQueue:    {`{"licenseArn":`, `{"licenseArn":"","hourBucket":"yesterday"}`},
		cleanupQueue: {`[]`, `{"licenseArn":"l","meteringStatus":"Aggregated","rows":[]}`},
	}
	send(t, w, workQueue, broken[workQueue][0], metering.Encode(metering.NewWorkMessage(g, false)), broken[workQueue][1])
	send(t, w, cleanupQueue, broken[cleanupQueue]...)
	work, labels := w.connect(functions.Aggregator, workQueue), w.connect(functions.Cleanup, cleanupQueue)

	for kind, want := range broken {
		eventually(t, "the malformed messages of "+kind+" are dead letters", func() string {
			n := w.held(w.urls[kind] + "-dlq")
			return problemf(n == 2 && w.held(w.urls[kind]) == 0, "%d dead letters, %d messages left", n, w.held(w.urls[kind]))
		})
		if diff := cmp.Diff(want, w.dead(kind), sorted()); diff != "" {
			t.Errorf("dead letters of %s (-want +got):\n%s", kind, diff)
		}
	}
	for what, got := range map[string]lambdahost.Tally{"work": work.Tally(), "cleanup": labels.Tally()} {
		if got.Failures != 0 || got.Deleted != 1 || got.Returned != 2*maxReceive {
			t.Errorf("%s: %+v, want the good message done, the others returned %d times each and no invocation failed", what, got, maxReceive)
		}
	}
	w.labelled(g, 3, metering.Aggregated)
	logged(t, w.function(functions.Aggregator), "read message: unexpected end of JSON input", "read work message: read hour", "will be delivered again")
	logged(t, w.function(functions.Cleanup), "read message: json: cannot unmarshal array", "names no license, status or rows")
	w.submit()
	w.books(billed(3, 6))
}

// unknownInputs are errors that name what is wanted, and nothing is asked of any service.
func unknownInputs(t *testing.T, s suite) {
	w := newWorld(t, s)
	for _, c := range []struct{ handler, input, want string }{
		{functions.Discoverer, `{"mode":"metre"}`, `got mode \"metre\"`},
		{functions.Discoverer, `{"mode":"metre","hourOffset":1}`, `got mode \"metre\", hourOffset 1`},
		{functions.Discoverer, `{"mode":"meter"}`, `hourOffset none`},
		{functions.Discoverer, `{"mode":"meter","hourOffset":0}`, `want mode meter with hourOffset 1..23`},
		{functions.Discoverer, `{"mode":"meter","hourOffset":24}`, `hourOffset 24`},
		{functions.Discoverer, `{"mode":"ageout","shard":7}`, `ageout with shard 0..6`},
		{functions.Discoverer, `{"mode":"meter","houroffset":1,"hour":2}`, `unknown field`},
		{functions.Discoverer, `{}`, `flush-deprovisioning; got mode \"\"`},
		{functions.Aggregator, `{"mode":"meter","hourOffset":1}`, `read SQS event: it holds no records`},
		{functions.Cleanup, `{"Records":[{"eventSource":"aws:sns"}]}`, `is no message of a queue`},
		{functions.Submitter, `{"mode":`, `read constant input`},
		{functions.Subscription, `{"source":"aws.agreement-marketplace"}`, `read SQS event: it holds no records`},
		{functions.DeprovisionCleanup, ``, `read constant input`},
		{functions.Registration, `{"Records":[{"body":"Erika Mustermann"}]}`, `it is no request of a REST API`},
	} {
		_, err := w.function(c.handler).Invoke(t.Context(), []byte(c.input))
		if !lambdahost.Failed(err, lambdahost.Errored) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: %v, want an error with %q", c.handler, c.input, err, c.want)
		}
	}
	for handler, f := range w.functions {
		if calls := f.aws.Calls(); len(calls) > 0 {
			t.Errorf("%s called %+v", handler, calls)
		}
		logged(t, f, "run failed")
	}
	w.private = []string{"Mustermann"}
	live := w.named("subscription of a live stage", functions.Subscription, "TEST_STAGE=beta")
	if _, err := live.Invoke(t.Context(), []byte(`{}`)); !lambdahost.Failed(err, lambdahost.Died) {
		t.Errorf("test events in a live stage: %v, want a process that ends before its first invocation", err)
	}
	logged(t, live, `TEST_STAGE is \"beta\", want a stage's name`, "only none where METERING_MODE is live")
	f := lambdahost.Start(t, lambdahost.Options{Binary: s.bootstrap, Handler: "discover"})
	if _, err := f.Invoke(t.Context(), []byte(`{}`)); !lambdahost.Failed(err, lambdahost.Died) {
		t.Errorf("a handler that there is not: %v, want a process that ends before its first invocation", err)
	}
	if want := `there is no handler \"discover\"; the handlers are discoverer, aggregator`; !strings.Contains(f.Logs(), want) {
		t.Errorf("log %q, want %q in it", f.Logs(), want)
	}
}

// expiredCredentials stop everything, are said as such with what helps, and nothing is acknowledged or rejected meanwhile.
func expiredCredentials(t *testing.T, s suite) {
	w := newWorld(t, s)
	expired := func(standin.Call) standin.Action {
		return standin.Exception(400, "ExpiredTokenException", "The security token included in the request is expired")
	}
	const said = "The security token included in the request is expired (ExpiredTokenException). Try: aws sts get-caller-identity"
	g := w.group(w.license(), "seats")
	w.put(rows(g, 3)...)

	d := w.function(functions.Discoverer)
	d.aws.Intercept(expired)
	var none struct{}
	if err := w.run(functions.Discoverer, `{"mode":"meter","hourOffset":1}`, &none); !lambdahost.Failed(err, lambdahost.Errored) || !strings.Contains(err.Error(), said) {
		t.Errorf("discoverer: %v, want %q", err, said)
	}
	if n := len(d.aws.Calls()); n != 1 {
		t.Errorf("the discoverer asked %d times, want 1: no retry helps", n)
	}
	d.aws.Intercept(nil)
	w.meter()

	a := w.function(functions.Aggregator)
	a.aws.Intercept(expired)
	mapping := w.connect(functions.Aggregator, workQueue)
	eventually(t, "the aggregator hands its message back", func() string {
		return problemf(mapping.Tally().Returned > 0, "%+v", mapping.Tally())
	})
	if got := mapping.Tally(); got.Deleted != 0 || got.Failures != 0 {
		t.Errorf("%+v, want nothing deleted", got)
	}
	logged(t, a, said)
	a.aws.Intercept(nil)
	w.connect(functions.Cleanup, cleanupQueue)
	w.drained()

	f := w.function(functions.Submitter)
	f.meter.Intercept(expired)
	if err := w.run(functions.Submitter, `{}`, &none); !lambdahost.Failed(err, lambdahost.Errored) || !strings.Contains(err.Error(), "ExpiredTokenException") {
		t.Errorf("submitter: %v, want ExpiredTokenException", err)
	}
	if record := w.record(g); record.Pending == "" || record.Status != "" {
		t.Errorf("after the refusal: %+v, want it waiting", record)
	}
	f.meter.Intercept(nil)
	w.billedByTheNextRun(g)
	w.books(billed(3, 6))
}

// missingTable and a wrong Region, in which no table of that name is: one error that names the table and what to look at.
func missingTable(t *testing.T, s suite) {
	w := newWorld(t, s)
	g := w.group(w.license(), "seats")
	w.put(rows(g, 3)...)
	const missing = "awsmp-no-such-table"
	w.kinds[missing], w.kinds[missing+"/metering_pending"] = usageTable, usageIndex

	var none struct{}
	d := w.function(functions.Discoverer, "USAGE_TABLE="+missing)
	err := w.run(functions.Discoverer, `{"mode":"meter","hourOffset":1}`, &none)
	said := "ResourceNotFoundException). Try: check AWS_REGION and the name of " + missing
	if !lambdahost.Failed(err, lambdahost.Errored) || !strings.Contains(err.Error(), said) {
		t.Errorf("discoverer: %v, want %q", err, said)
	}
	if n := len(d.aws.Calls()); n != 1 {
		t.Errorf("the discoverer asked %d times, want 1: no retry helps", n)
	}

	a := w.function(functions.Aggregator, "AWS_REGION=eu-west-1")
	send(t, w, workQueue, metering.Encode(metering.NewWorkMessage(g, false)))
	mapping := w.connect(functions.Aggregator, workQueue)
	eventually(t, "the message is a dead letter", func() string {
		return problemf(w.held(w.urls[workQueue]+"-dlq") == 1, "%+v", mapping.Tally())
	})
	if got := mapping.Tally(); got.Deleted != 0 || got.Failures != 0 {
		t.Errorf("%+v, want nothing deleted", got)
	}
	logged(t, a, "read record ("+w.aggregated+")", "Try: check AWS_REGION and the name of "+w.aggregated)
	w.books(waiting(3, 6))
}

// batchTakenInPart: the queue takes ten of twelve groups. The run fails and says how many, and the next one sends all that waits.
func batchTakenInPart(t *testing.T, s suite) {
	w := newWorld(t, s)
	license := w.license()
	var want int64
	for i := range 12 {
		w.put(rows(w.group(license, fmt.Sprintf("seats-%02d", i)), 1)...)
		want++
	}
	d := w.function(functions.Discoverer)
	d.aws.Intercept(func(c standin.Call) standin.Action {
		if c.Operation != "SendMessageBatch" || c.Entries == 10 {
			return standin.Action{}
		}
		return refuseEntries(t, c)
	})
	_, err := w.tryMeter()
	if said := "the queue refused 2 of 12"; !lambdahost.Failed(err, lambdahost.Errored) || !strings.Contains(err.Error(), said) {
		t.Errorf("%v, want a run that fails with %q", err, said)
	}
	if n := d.aws.Count("SendMessageBatch", ""); n != 3 {
		t.Errorf("%d sends, want the ten, the two, and the two once more", n)
	}
	if n := w.held(w.urls[workQueue]); n != 10 {
		t.Errorf("%d messages are in the queue, want 10", n)
	}
	logged(t, d, "enqueued=10", "the queue refused a message", "code=InternalError")

	d.aws.Intercept(nil)
	if found := w.meter(); found.Enqueued != 12 {
		t.Errorf("%+v, want all twelve groups: they still wait", found)
	}
	w.connectAll()
	w.drained()
	w.submit()
	w.books(billed(12, want))
}

// refuseEntries answers a SendMessageBatch as SQS does where it fails every entry: status 200, and no word of success (case 44).
func refuseEntries(t *testing.T, c standin.Call) standin.Action {
	var in struct{ Entries []map[string]any }
	if err := json.Unmarshal(c.Body, &in); err != nil {
		t.Errorf("read SendMessageBatch: %v", err)
	}
	out := struct{ Failed []map[string]any }{}
	for _, e := range in.Entries {
		out.Failed = append(out.Failed, map[string]any{"Id": e["Id"], "Code": "InternalError", "Message": "try again", "SenderFault": false})
	}
	body, err := json.Marshal(out)
	if err != nil {
		t.Errorf("write answer: %v", err)
	}
	return standin.Action{Status: 200, Body: string(body), Header: map[string][]string{"Content-Type": {"application/x-amz-json-1.0"}}}
}

// pageOfRowsFails: a sum over the first page alone would take the hour, and the rest could never be billed.
func pageOfRowsFails(t *testing.T, s suite) {
	w := newWorld(t, s)
	g := w.group(w.license(), "seats")
	list := rows(g, 4)
	for i := range list { // two fill a page of 1 MB
		list[i].Other = metering.Item{"note": strings.Repeat("x", 390<<10)}
	}
	w.put(list...)
	a := w.function(functions.Aggregator)
	a.aws.Intercept(func(c standin.Call) standin.Action {
		if c.Operation == "Query" && strings.Contains(string(c.Body), "ExclusiveStartKey") {
			return standin.Exception(500, "InternalServerError", "Internal server error")
		}
		return standin.Action{}
	})
	w.meter()
	mapping := w.connect(functions.Aggregator, workQueue)
	eventually(t, "the aggregator hands its message back", func() string {
		return problemf(mapping.Tally().Returned > 0, "%+v", mapping.Tally())
	})
	if n := a.aws.Count("Query", w.usage); n < 3 {
		t.Errorf("%d queries, want the second page to be asked for several times: the service may answer the next time", n)
	}
	if n := a.aws.Count("PutItem", "") + a.aws.Count("SendMessageBatch", ""); n != 0 {
		t.Errorf("%d writes after half a read, want none", n)
	}
	logged(t, a, "read rows", "Internal server error (InternalServerError)")
	w.books(waiting(4, 10))

	a.aws.Intercept(nil)
	w.connect(functions.Cleanup, cleanupQueue)
	w.drained()
	w.submit()
	w.books(billed(4, 10))
}

// pageOfTheIndexFails: what the first page shows is sent, the run fails, and the next one finds the rest.
func pageOfTheIndexFails(t *testing.T, s suite) {
	w := newWorld(t, s)
	license := w.license()
	first, second := w.group(license, "seats"), w.group(license, "storage")
	w.put(rows(first, 1)...)
	w.put(rows(second, 2)...)
	d := w.function(functions.Discoverer)
	pages := 0
	d.aws.Intercept(func(c standin.Call) standin.Action {
		switch {
		case w.kinds[c.Resource] != usageIndex:
			return standin.Action{}
		case strings.Contains(string(c.Body), "ExclusiveStartKey"):
			return standin.Exception(400, "ProvisionedThroughputExceededException", "The level of configured provisioned throughput for the index was exceeded")
		case !strings.Contains(string(c.Body), w.hour.String()):
			return standin.Action{}
		}
		pages++
		return indexPage(t, rows(first, 1)[0])
	})
	_, err := w.tryMeter()
	if said := "ProvisionedThroughputExceededException"; !lambdahost.Failed(err, lambdahost.Errored) || !strings.Contains(err.Error(), said) {
		t.Errorf("%v, want a run that fails with %s", err, said)
	}
	if pages != 1 {
		t.Errorf("the first page was read %d times, want once", pages)
	}
	if n := w.held(w.urls[workQueue]); n != 1 {
		t.Errorf("%d messages, want that of the first page", n)
	}
	d.aws.Intercept(nil)
	if found := w.meter(); found.Enqueued != 2 {
		t.Errorf("%+v, want both groups: they still wait", found)
	}
	w.connectAll()
	w.drained()
	w.submit()
	w.books(billed(3, 4))
}

// indexPage is a page of the pending index that holds one row and is not the last.
func indexPage(t *testing.T, r metering.Row) standin.Action {
	type value struct{ S string }
	key := map[string]value{
		metering.AttrLicense: {r.License}, metering.AttrRowKey: {r.SortKey}, metering.AttrPending: {r.Pending},
	}
	item := map[string]value{metering.AttrAccount: {r.Account}, metering.AttrDimension: {r.Dimension}}
	for name, v := range key {
		item[name] = v
	}
	body, err := json.Marshal(map[string]any{"Items": []any{item}, "Count": 1, "ScannedCount": 1, "LastEvaluatedKey": key})
	if err != nil {
		t.Errorf("write page: %v", err)
	}
	return standin.Action{Status: 200, Body: string(body), Header: map[string][]string{"Content-Type": {"application/x-amz-json-1.0"}}}
}

func send(t *testing.T, w *world, kind string, bodies ...string) {
	t.Helper()
	refused, err := w.queue(kind).Send(t.Context(), bodies)
	if err != nil || len(refused) > 0 {
		t.Fatalf("send: %v refused, %v", refused, err)
	}
}

// logged fails unless the function's log holds all of it. Text in quotes stands there escaped.
func logged(t *testing.T, f *function, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(f.Logs(), text) {
			t.Errorf("no %q in the log:\n%s", text, f.Logs())
		}
	}
}

func sorted() cmp.Option {
	return cmp.Transformer("sorted", func(list []string) []string { return slices.Sorted(slices.Values(list)) })
}
