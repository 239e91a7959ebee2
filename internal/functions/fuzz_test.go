package functions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/lambdaevent"
	"github.com/awsmp/metering/internal/telemetry"
)

// directly is a client that asks a service without a connection.
type directly struct{ service http.Handler }

func (d directly) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.service.ServeHTTP(w, r)
	return w.Result(), nil
}

// direct is a function over a service that is asked without a connection.
func direct(f *testing.F, handler string) opened {
	f.Helper()
	o := opened{service: &service{}, metrics: &bytes.Buffer{}, log: &bytes.Buffer{}}
	var err error
	o.Handler, err = functions.Open(f.Context(), functions.Process{
		Handler: handler, Getenv: changed(nil), Metrics: o.metrics, Log: o.log, Now: func() time.Time { return now },
		Config: func(_ context.Context, region string) (aws.Config, error) {
			return aws.Config{
				Region: region, HTTPClient: directly{o.service}, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
				Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "session"),
			}, nil
		},
	})
	if err != nil {
		f.Fatal(err)
	}
	return o
}

// FuzzInvoke: whatever a function is called with, it answers in JSON or fails in one line that names no buyer. Of a batch it answers only
// if it is one, and then names as failed messages of the batch alone; all that are no message of its kind are among them.
func FuzzInvoke(f *testing.F) {
	all := functions.All()
	work := `{"licenseArn":"arn:aws:license-manager::111122223333:license:l-1","customerAWSAccountId":"111122223333","dimension":"d","hourBucket":"2026-03-10T14"}`
	batch := func(bodies ...string) []byte {
		var records []map[string]string
		for i, body := range bodies {
			records = append(records, map[string]string{"messageId": fmt.Sprint("m", i), "body": body, "eventSource": "aws:sqs"})
		}
		payload, err := json.Marshal(map[string]any{"Records": records})
		if err != nil {
			f.Fatal(err)
		}
		return payload
	}
	for i, function := range all {
		for j, payload := range [][]byte{
			batch(work, "x", `{}`), batch(`{"licenseArn":"l","covered":true,"meteringStatus":"Aggregated","rows":[{"k":"111122223333#d#2026-03-10T14:00:00","q":1}]}`, work),
			batch(`{"source":"aws.agreement-marketplace","detail-type":"License Updated - Manufacturer","time":"2026-03-10T15:00:00Z","detail":{"license":{"arn":"arn:aws:license-manager::111122223333:license:l-1"},"acceptor":{"accountId":"111122223333"}}}`),
			[]byte(`{"mode":"meter","hourOffset":23}`), []byte(`{"mode":"ageout","shard":7}`), []byte(`{"mode":"flush-deprovisioning","hourOffset":1}`), []byte(`{}`), []byte(`{"Records":[]}`),
			[]byte(`{"httpMethod":"POST","path":"/","headers":{"content-type":"application/x-www-form-urlencoded"},"body":"x-amzn-marketplace-token=opaque%2Btoken%2Fwith%3Deverything%25&contactName=Erika+Mustermann&contactEmail=erika@example.org"}`),
		} {
			if j < 3 && function.Event == functions.Queue || j > 2 && j < 6 && function.Event == functions.Schedule || j > 6 && function.Event == functions.Request || (i+j)%9 == 0 { // each what is meant for it, and some of the rest
				f.Add(uint8(i), payload)
			}
		}
	}
	var ready []opened // each function serves many invocations, as in Lambda
	for _, function := range all {
		ready = append(ready, direct(f, function.Handler))
	}
	f.Fuzz(func(t *testing.T, i uint8, payload []byte) {
		function, o := all[int(i)%len(all)], ready[int(i)%len(all)]
		o.log.Reset()
		o.metrics.Reset()
		answer, err := o.Invoke(t.Context(), payload)
		if err != nil {
			if text := err.Error(); strings.Contains(text, "\n") || len(text) > 1200 || telemetry.Mask(text) != text || answer != nil {
				t.Errorf("%s fails with %q", function.Handler, text)
			}
		} else if !json.Valid(answer) {
			t.Errorf("%s answers %s", function.Handler, answer)
		}
		if strings.Contains(o.log.String(), "opaque+token") || function.Event == functions.Request && strings.Contains(o.log.String(), "Mustermann") {
			t.Errorf("the log tells of a buyer:\n%s", o.log)
		}
		if function.Event == functions.Queue {
			wantFailures(t, payload, answer, err)
		}
	})
}

func wantFailures(t *testing.T, payload, answer []byte, err error) {
	t.Helper()
	messages, unread := lambdaevent.Batch(payload)
	if (unread == nil) != (err == nil) {
		t.Fatalf("the batch is read with %v, the function ends with %v", unread, err)
	}
	if err != nil {
		return
	}
	var failures struct {
		BatchItemFailures []struct {
			ItemIdentifier string `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
	}
	if err := json.Unmarshal(answer, &failures); err != nil || failures.BatchItemFailures == nil {
		t.Fatalf("%v of %s", err, answer)
	}
	var failed []string
	for _, one := range failures.BatchItemFailures {
		failed = append(failed, one.ItemIdentifier)
	}
	known := map[string]bool{}
	for _, m := range messages {
		known[m.ID] = true
		if !json.Valid([]byte(m.Body)) && !slices.Contains(failed, m.ID) {
			t.Errorf("%q is no message, and is done", m.Body)
		}
	}
	for _, id := range failed {
		if !known[id] {
			t.Errorf("%q has failed, and was not in the batch", id)
		}
	}
}
