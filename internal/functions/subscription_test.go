package functions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/lifecycle"
)

func testEvent(t *testing.T, kind lifecycle.Kind, change func(*lifecycle.TestEvent)) string {
	t.Helper()
	e := lifecycle.TestEvent{
		Kind: kind, License: license, Account: buyer, Agreement: "agmt-example", ProductCode: "example", At: now, ID: "event-1",
	}
	if change != nil {
		change(&e)
	}
	text, err := e.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Events are applied in the function's own Region, and its metrics name no product: the events stack serves them all.
func TestTheSubscriptionFunctionAppliesEvents(t *testing.T) {
	t.Parallel()
	o := open(t, functions.Subscription, nil)
	var written string
	o.service.answer = func(operation, request string) string {
		if operation == "UpdateItem" {
			written += request
		}
		return ""
	}
	answer, err := o.Invoke(t.Context(), batchOf(t,
		[2]string{"m1", testEvent(t, "license-updated", nil)},
		[2]string{"m2", "no event"},
		[2]string{"m3", testEvent(t, "agreement-created", nil)},
		[2]string{"m4", testEvent(t, "license-deprovisioned", func(e *lifecycle.TestEvent) { e.Stage = "beta" })},
	))
	const want = `{"batchItemFailures":[{"itemIdentifier":"m2"}]}`
	if string(answer) != want || err != nil {
		t.Errorf("answer %s, error %v, want %s", answer, err, want)
	}
	if !strings.Contains(written, "awsmp-subscribers") || !strings.Contains(written, "active") || strings.Contains(written, "deprovisioning") {
		t.Errorf("written: %s, want the one license active; a live stage takes no invented event", written)
	}
	for _, call := range o.service.seen() {
		if !strings.HasPrefix(call, "eu-west-1 dynamodb ") {
			t.Errorf("called %s, want the table of the function's own Region", call)
		}
	}
	metrics := o.metrics.String()
	for _, metric := range []string{`"SubscriptionEventIgnored":1`, `"TestEventRefused":1`} {
		if !strings.Contains(metrics, metric) {
			t.Errorf("metrics %s lack %s", metrics, metric)
		}
	}
	if strings.Contains(metrics, "ProductCode") {
		t.Errorf("metrics name a product: %s", metrics)
	}
	if log := o.log.String(); strings.Contains(log, license) || strings.Contains(log, buyer) || !strings.Contains(lastLine(log), "failed=1 messages=4") {
		t.Errorf("log %s", log)
	}
}

// In a dry-run stage the allow-listed accounts' events of that stage are applied, and no others.
func TestTheSubscriptionFunctionTakesItsStagesTestEvents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		stage, account string
		applied        bool
	}{
		{"beta", buyer, true}, {"beta", "444455556666", false}, {"gamma", buyer, false},
	} {
		o := open(t, functions.Subscription, map[string]string{
			"METERING_MODE": "dry-run", "TEST_STAGE": "beta", "TEST_ACCOUNTS": "999988887777," + buyer, "SUBSCRIBERS_TABLE": "awsmp-subscribers-test-beta",
		})
		event := testEvent(t, "license-updated", func(e *lifecycle.TestEvent) { e.Stage, e.Account = test.stage, test.account })
		answer, err := o.Invoke(t.Context(), batchOf(t, [2]string{"m1", event}))
		if string(answer) != `{"batchItemFailures":[]}` || err != nil {
			t.Errorf("%+v: answer %s, error %v", test, answer, err)
		}
		if applied := len(o.service.seen()) > 0; applied != test.applied {
			t.Errorf("%+v: called %v", test, o.service.seen())
		}
	}
}

// A message's age decides when an agreement that nobody knows is given up: SQS's own time of sending reaches the lifecycle.
func TestTheSubscriptionFunctionKnowsTheAgeOfAMessage(t *testing.T) {
	t.Parallel()
	ended := testEvent(t, "agreement-ended", nil)
	for _, test := range []struct {
		sent     time.Time // zero: not told
		receives int
		failed   bool
	}{
		{now.Add(-time.Minute), 3, true}, {now.Add(-46 * time.Minute), 3, false}, {now.Add(-46 * time.Minute), 1, true}, {time.Time{}, 3, true},
	} {
		o := open(t, functions.Subscription, nil)
		answer, err := o.Invoke(t.Context(), sentAt(t, "m1", ended, test.sent, test.receives))
		if failed := strings.Contains(string(answer), "m1"); failed != test.failed || err != nil {
			t.Errorf("sent at %v: answer %s, error %v", test.sent, answer, err)
		}
		if counted := strings.Contains(o.metrics.String(), `"AgreementUnknown":1`); counted == test.failed {
			t.Errorf("sent at %v: metrics %s", test.sent, o.metrics.String())
		}
	}
}
