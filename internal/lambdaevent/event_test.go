package lambdaevent_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/lambdaevent"
	"github.com/awsmp/metering/internal/pipeline"
)

func TestConstant(t *testing.T) {
	t.Parallel()
	tests := []struct {
		payload string
		want    pipeline.Slice
		fails   string // part of the error; empty: none
	}{
		{payload: `{"mode":"meter","hourOffset":23}`, want: pipeline.MeterSlice(23)},
		{payload: ` {"mode":"ageout","shard":0} `, want: pipeline.AgeoutSlice(0)},
		{payload: `{"mode":"flush-deprovisioning"}`, want: pipeline.FlushSlice()},
		{payload: `{"mode":"meter","hourOfset":1}`, fails: "hourOfset"},
		{payload: `{"mode":"meter","hourOffset":1.5}`, fails: "hourOffset"},
		{payload: `{"mode":"meter","hourOffset":"1"}`, fails: "hourOffset"},
		{payload: `{"source":"aws.events","detail-type":"Scheduled Event","detail":{}}`, fails: "source"},
		{payload: `{"mode":"meter"} {"mode":"meter"}`, fails: "more than one"},
		{payload: `{"mode":`, fails: "unexpected EOF"},
		{payload: ``, fails: "EOF"},
		{payload: `"meter"`, fails: "string"},
	}
	for _, test := range tests {
		t.Run(test.payload, func(t *testing.T) {
			t.Parallel()
			got, err := lambdaevent.Constant[pipeline.Slice]([]byte(test.payload))
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Fatalf("error %v, want one that says %q", err, test.fails)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("error %v, %s", err, diff)
			}
		})
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	sample, err := os.ReadFile("testdata/sqs-event.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := lambdaevent.Batch(sample)
	sent := time.Date(2026, 3, 10, 15, 5, 0, 0, time.UTC)
	want := []pipeline.Message{
		{ID: "059f36b4-87a3-44ab-83d2-661975830a7d", Body: "{\"licenseArn\":\"l\"}", SentAt: sent, Receives: 1},
		{ID: "2e1424d4-f796-459a-8184-9c92662be6da", Body: "no JSON at all", SentAt: sent, Receives: 3}, // the stage's to judge
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, %s", err, diff)
	}
}

// A message whose time of sending is not known counts as new: it must not be given up before its time.
func TestBatchWithoutTheTimeOfSending(t *testing.T) {
	t.Parallel()
	for attributes, want := range map[string]time.Time{
		`{"SentTimestamp":"1773155100123"}`:  time.Date(2026, 3, 10, 15, 5, 0, 123e6, time.UTC),
		`{}`:                                 {},
		`null`:                               {},
		`{"SentTimestamp":""}`:               {},
		`{"SentTimestamp":"0"}`:              {},
		`{"SentTimestamp":"-1773155100123"}`: {},
		`{"SentTimestamp":"2026-03-10T15:05:00Z"}`:  {},
		`{"SentTimestamp":"99999999999999999999"}`:  {},
		`{"ApproximateFirstReceiveTimestamp":"17"}`: {},
	} {
		got, err := lambdaevent.Batch([]byte(`{"Records":[{"messageId":"m","eventSource":"aws:sqs","body":"b","attributes":` + attributes + `}]}`))
		if diff := cmp.Diff([]pipeline.Message{{ID: "m", Body: "b", SentAt: want}}, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, %s", attributes, err, diff)
		}
	}
}

// A count of deliveries that is not known is zero, which counts as few.
func TestBatchCountsDeliveries(t *testing.T) {
	t.Parallel()
	for attributes, want := range map[string]int{
		`{"ApproximateReceiveCount":"1"}`: 1, `{"ApproximateReceiveCount":"12"}`: 12,
		`{}`: 0, `null`: 0, `{"ApproximateReceiveCount":""}`: 0, `{"ApproximateReceiveCount":"-3"}`: 0, `{"ApproximateReceiveCount":"often"}`: 0,
		`{"ApproximateReceiveCount":"99999999999999999999"}`: 0,
	} {
		got, err := lambdaevent.Batch([]byte(`{"Records":[{"messageId":"m","eventSource":"aws:sqs","body":"b","attributes":` + attributes + `}]}`))
		if diff := cmp.Diff([]pipeline.Message{{ID: "m", Body: "b", Receives: want}}, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, %s", attributes, err, diff)
		}
	}
}

func TestBatchOfAnotherKind(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"constant input":    `{"mode":"meter","hourOffset":1}`,
		"no records":        `{"Records":[]}`,
		"another source":    `{"Records":[{"messageId":"m","eventSource":"aws:kinesis","body":"b"}]}`,
		"SNS":               `{"Records":[{"EventSource":"aws:sns","Sns":{"Message":"b"}}]}`,
		"no message id":     `{"Records":[{"messageId":"","eventSource":"aws:sqs","body":"b"}]}`,
		"records no list":   `{"Records":"aws:sqs"}`,
		"no JSON":           `Records`,
		"one bad among two": `{"Records":[{"messageId":"m","eventSource":"aws:sqs","body":"b"},{"eventSource":"aws:sqs"}]}`,
	}
	for name, payload := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := lambdaevent.Batch([]byte(payload)); err == nil || got != nil {
				t.Errorf("messages %v, error %v: an answer to this would count as success", got, err)
			}
		})
	}
}

// Case 45: the answer names the failed messages and no others.
func TestFailed(t *testing.T) {
	t.Parallel()
	for want, failed := range map[string][]string{
		`{"batchItemFailures":[]}`:                                                  nil,
		`{"batchItemFailures":[{"itemIdentifier":"m4"}]}`:                           {"m4"},
		`{"batchItemFailures":[{"itemIdentifier":"m1"},{"itemIdentifier":"m\"2"}]}`: {"m1", `m"2`},
	} {
		got, err := json.Marshal(lambdaevent.Failed(failed))
		if string(got) != want || err != nil {
			t.Errorf("%v: %s, error %v, want %s", failed, got, err, want)
		}
	}
}
