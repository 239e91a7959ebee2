package lambdaevent_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/lambdaevent"
	"github.com/awsmp/metering/internal/pipeline"
)

// FuzzBatch: an event is read message by message, each with an id to name it by, or not at all.
func FuzzBatch(f *testing.F) {
	documented, err := os.ReadFile("testdata/sqs-event.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(documented)
	f.Add([]byte(`{"Records":[{"messageId":"a","body":"{}","eventSource":"aws:sqs","attributes":{"SentTimestamp":"1773151200000","ApproximateReceiveCount":"3"}},{"messageId":"b","eventSource":"aws:sqs"}]}`))
	f.Add([]byte(`{"Records":[{"messageId":"a","eventSource":"aws:sqs","attributes":{"SentTimestamp":"9223372036854775807","ApproximateReceiveCount":"-1"}}]}`))
	f.Add([]byte(`{"records":[{"MessageID":"a","EVENTSOURCE":"aws:sqs","body":null}],"Records":[]}`))
	f.Add([]byte(`{"Records":[{"messageId":"","eventSource":"aws:sqs"}]}`))
	f.Add([]byte(`{"Records":[{"messageId":"a","EventSource":"aws:sns"}]}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		messages, err := lambdaevent.Batch(payload)
		if err != nil {
			if len(messages) > 0 {
				t.Errorf("%d messages beside %v", len(messages), err)
			}
			return
		}
		event, ids := events.SQSEvent{}, []string{}
		for _, m := range messages {
			if m.ID == "" || m.Receives < 0 || m.SentAt.Before(time.Unix(0, 0)) && !m.SentAt.IsZero() {
				t.Errorf("message %+v", m)
			}
			attributes := map[string]string{"ApproximateReceiveCount": strconv.Itoa(m.Receives)}
			if !m.SentAt.IsZero() {
				attributes["SentTimestamp"] = strconv.FormatInt(m.SentAt.UnixMilli(), 10)
			}
			event.Records = append(event.Records, events.SQSMessage{MessageId: m.ID, Body: m.Body, EventSource: "aws:sqs", Attributes: attributes})
			ids = append(ids, m.ID)
		}
		text, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		again, err := lambdaevent.Batch(text)
		if diff := cmp.Diff(messages, again); err != nil || diff != "" || len(messages) == 0 {
			t.Errorf("read again: %v\n%s", err, diff)
		}
		var answer struct {
			BatchItemFailures []struct {
				ItemIdentifier string `json:"itemIdentifier"`
			} `json:"batchItemFailures"`
		}
		failed, err := json.Marshal(lambdaevent.Failed(ids))
		if err != nil || json.Unmarshal(failed, &answer) != nil || len(answer.BatchItemFailures) != len(ids) {
			t.Fatalf("%s, %v", failed, err)
		}
		for i, f := range answer.BatchItemFailures {
			if f.ItemIdentifier != ids[i] {
				t.Errorf("failure %q is answered as %q", ids[i], f.ItemIdentifier)
			}
		}
	})
}

// FuzzConstant: an input is one JSON value with known members, and means the same when it is written again; or it is refused.
func FuzzConstant(f *testing.F) {
	for _, payload := range []string{
		`{"mode":"meter","hourOffset":23}`, ` {"mode":"ageout","shard":0} `, `{"mode":"flush-deprovisioning"}`, `{"mode":"meter","hourOffset":1e2}`, `{"Mode":"meter","mode":"ageout"}`,
		`{"mode":"meter"} {"mode":"meter"}`, `null`, `{"mode":null,"shard":null}`, `{"mode":`, `{"mode":"meter"}]`,
	} {
		f.Add([]byte(payload))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		got, err := lambdaevent.Constant[pipeline.Slice](payload)
		if err != nil {
			return
		}
		text, err := json.Marshal(got)
		if err != nil || !json.Valid(payload) {
			t.Fatalf("%q is read as %+v: %v", payload, got, err)
		}
		again, err := lambdaevent.Constant[pipeline.Slice](text)
		if diff := cmp.Diff(got, again); err != nil || diff != "" {
			t.Errorf("read again: %v\n%s", err, diff)
		}
	})
}

// FuzzRequest: a handler finds in its request what the caller sent, to the byte, and the caller gets what the handler answers.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "/prod/register", "Content-Type", "text/html", "a", "b c", []byte("a=b"), false)
	f.Add("PUT", "//x/%2F%zz", "host", "example.com", "", "%", []byte{0xff, 0}, true)
	f.Add("GET", "/?x#y", "X-Amzn-Requestid", "mine", "é", "+", []byte{}, true)
	f.Fuzz(func(t *testing.T, method, path, name, value, key, argument string, body []byte, encoded bool) {
		for _, s := range []string{method, path, name, value, key, argument} {
			if !utf8.ValidString(s) {
				t.Skip() // as no JSON
			}
		}
		if !encoded && !utf8.Valid(body) {
			t.Skip()
		}
		e := events.APIGatewayProxyRequest{
			HTTPMethod: method, Path: path, MultiValueHeaders: map[string][]string{name: {value, "second"}}, MultiValueQueryStringParameters: map[string][]string{key: {argument}},
			Body: string(body), IsBase64Encoded: encoded, RequestContext: events.APIGatewayProxyRequestContext{RequestID: "theirs"},
		}
		if encoded {
			e.Body = base64.StdEncoding.EncodeToString(body)
		}
		payload, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		called := 0
		answer, err := lambdaevent.Serve(t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			called++
			got, err := io.ReadAll(r.Body)
			if err != nil || !bytes.Equal(got, body) || r.Method != method {
				t.Errorf("%s with %q, %v", r.Method, got, err)
			}
			if r.URL.Path != path && r.URL.EscapedPath() != path {
				t.Errorf("path %q, escaped %q, sent %q", r.URL.Path, r.URL.EscapedPath(), path)
			}
			if list := r.URL.Query()[key]; len(list) != 1 || list[0] != argument {
				t.Errorf("query %q", list)
			}
			if r.Header.Get(lambdaevent.HeaderRequestID) != "theirs" || r.Header.Get("Host") != "" {
				t.Errorf("headers %v", r.Header)
			}
			if list := r.Header.Values(name); !strings.EqualFold(name, "host") && !strings.EqualFold(name, lambdaevent.HeaderRequestID) && (len(list) != 2 || list[0] != value) {
				t.Errorf("header %q is %q", name, list)
			}
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write(body)
		}), payload)
		if err != nil {
			if called != 0 || path != "" && strings.Contains(err.Error(), path) && len(path) > 8 {
				t.Errorf("%d calls and %v", called, err)
			}
			return
		}
		got := []byte(answer.Body)
		if answer.IsBase64Encoded {
			if got, err = base64.StdEncoding.DecodeString(answer.Body); err != nil {
				t.Error(err)
			}
		}
		if called != 1 || answer.StatusCode != http.StatusAccepted || method != http.MethodHead && !bytes.Equal(got, body) {
			t.Errorf("%d calls, status %d, answer %q of %q", called, answer.StatusCode, got, body)
		}
	})
}
