package functions_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/metering"
)

// F46: a function builds the clients that it uses, the one of the subscribers' Region and the one of the Metering Service only
// where it needs them, and calls nothing before its first invocation.
func TestF46AFunctionBuildsTheClientsThatItUses(t *testing.T) {
	t.Parallel()
	const here, there, queues, meter = "dynamodb/eu-west-1", "dynamodb/us-east-1", "sqs/eu-west-1", "metering/eu-west-1"
	tests := []struct {
		handler string
		changes map[string]string
		want    string
	}{
		{functions.Discoverer, nil, here + " " + there + " " + queues},
		{functions.Discoverer, map[string]string{"SUBSCRIBERS_TABLE_REGION": "eu-west-1"}, here + " " + queues},
		{functions.Aggregator, nil, here + " " + queues},
		{functions.Cleanup, nil, here},
		{functions.Submitter, nil, here + " " + there + " " + meter},
		{functions.Submitter, map[string]string{"METERING_MODE": "dry-run"}, here + " " + there},
		{functions.SubmissionExpiry, nil, here},
		{functions.Registration, nil, here + " " + there + " " + meter},
		{functions.Subscription, nil, here},
		{functions.DeprovisionCleanup, nil, here},
	}
	for _, test := range tests {
		t.Run(test.handler, func(t *testing.T) {
			t.Parallel()
			o := open(t, test.handler, test.changes)
			line := o.log.String()
			if !strings.Contains(line, "\""+test.want+"\"") && !strings.Contains(line, "clients="+test.want+"\n") {
				t.Errorf("log %s want clients %s", line, test.want)
			}
			if len(o.service.seen()) != 0 {
				t.Errorf("called %v before anybody called it", o.service.seen())
			}
		})
	}
}

func TestTheFirstLineSaysWhatRuns(t *testing.T) {
	t.Parallel()
	if line := open(t, functions.DeprovisionCleanup, nil).log.String(); strings.Contains(line, "mode") || strings.Contains(line, "product") {
		t.Errorf("log %s speaks of what the events stack does not know", line)
	}
	o := open(t, functions.Cleanup, map[string]string{"METERING_MODE": "dry-run"})
	line := o.log.String()
	for _, want := range []string{"function starts", "handler=cleanup", "version=v1.2.3", "mode=dry-run", "product=example"} {
		if !strings.Contains(line, want) {
			t.Errorf("log %s lacks %s", line, want)
		}
	}
	if strings.Count(line, "\n") != 1 {
		t.Errorf("log %s is not one line", line)
	}
}

// What each schedule's input makes a function call, and in which Region. The tables are empty.
func TestScheduledRuns(t *testing.T) {
	t.Parallel()
	const (
		usage = "eu-west-1 dynamodb Query"
		subs  = "us-east-1 dynamodb Query"
	)
	tests := []struct {
		handler, input string
		changes        map[string]string
		want           []string // distinct calls
		answer         string
	}{
		{functions.Discoverer, `{"mode":"meter","hourOffset":1}`, nil, []string{usage}, `{"entries":0,"enqueued":0,"repaired":0,"labels":0,"licenses":0}`},
		{functions.Discoverer, `{"mode":"ageout","shard":6}`, nil, []string{usage}, `{"entries":0,"enqueued":0,"repaired":0,"labels":0,"licenses":0}`},
		{functions.Discoverer, `{"mode":"flush-deprovisioning"}`, nil, []string{subs}, `{"entries":0,"enqueued":0,"repaired":0,"labels":0,"licenses":0}`},
		{functions.Discoverer, `{"mode":"meter","hourOffset":3}`, map[string]string{"METERING_LOCK_HOURS": "4"}, nil, `{"entries":0,"enqueued":0,"repaired":0,"labels":0,"licenses":0}`},
		{functions.Submitter, `{}`, nil, []string{usage, subs}, ""},
		{functions.Submitter, `{"run":"submit"}`, map[string]string{"METERING_MODE": "dry-run"}, []string{usage, subs}, ""},
		{functions.Submitter, `null`, map[string]string{"SUBMISSION": "paused"}, nil, ""},
		{functions.SubmissionExpiry, `{}`, nil, []string{usage}, `{"expired":0,"inDoubt":0,"rejected":0}`},
		{functions.DeprovisionCleanup, `{}`, nil, []string{usage}, `{"ended":0}`}, // the events stack is where its table is
	}
	for _, test := range tests {
		t.Run(test.handler+" "+test.input, func(t *testing.T) {
			t.Parallel()
			o := open(t, test.handler, test.changes)
			answer, err := o.Invoke(t.Context(), []byte(test.input))
			if err != nil {
				t.Fatal(err)
			}
			calls := slices.Compact(slices.Sorted(slices.Values(o.service.seen())))
			if diff := cmp.Diff(test.want, calls); diff != "" {
				t.Error(diff)
			}
			if test.answer != "" && string(answer) != test.answer || !json.Valid(answer) {
				t.Errorf("answer %s, want %s", answer, test.answer)
			}
			if counted := strings.Contains(o.metrics.String(), `"SubmissionPaused":1`); counted != (test.changes["SUBMISSION"] == "paused") {
				t.Errorf("counted as paused: %t", counted)
			}
			// Case 50: a run that found nothing still says so.
			if last := lastLine(o.log.String()); !strings.Contains(last, "run ended") || !strings.Contains(last, "took=") {
				t.Errorf("log ends with %s", last)
			}
		})
	}
}

func lastLine(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return lines[len(lines)-1]
}

// A mode or number out of range, and whatever a template may get wrong in a constant input, is an error and no quiet no-op.
func TestAWrongInputIsAnError(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		functions.Discoverer: {
			`{}`, `null`, `{"mode":"metre","hourOffset":1}`, `{"mode":"meter"}`, `{"mode":"meter","hourOffset":0}`, `{"mode":"meter","hourOffset":24}`,
			`{"mode":"meter","hourOffset":"1"}`, `{"mode":"meter","hourOffset":1,"shard":1}`, `{"mode":"ageout"}`, `{"mode":"ageout","shard":7}`,
			`{"mode":"ageout","shard":-1}`, `{"mode":"ageout","shard":0,"hourOffset":1}`, `{"mode":"flush-deprovisioning","shard":0}`,
			`{"mode":"meter","offset":1}`, `{"Records":[]}`, `meter`, ``,
		},
		functions.Submitter:          {``, `{`, `{} {}`},
		functions.SubmissionExpiry:   {``, `submit`},
		functions.DeprovisionCleanup: {``, `{} {}`},
		functions.Subscription:       {`{}`, `{"source":"aws.agreement-marketplace","detail-type":"License Updated - Manufacturer","detail":{}}`},
		functions.Registration:       {`{}`, ``, `{"Records":[]}`, `{"version":"2.0","rawPath":"/"}`},
		functions.Aggregator:         {`{}`, `{"mode":"meter","hourOffset":1}`, `{"Records":[]}`, ``},
		functions.Cleanup:            {`{}`, `{"Records":[{"messageId":"m","eventSource":"aws:sns","body":""}]}`},
	}
	for handler, inputs := range tests {
		o := open(t, handler, nil)
		for _, in := range inputs {
			answer, err := o.Invoke(t.Context(), []byte(in))
			if err == nil || answer != nil {
				t.Errorf("%s %s: answer %s, error %v", handler, in, answer, err)
			} else if handler == functions.Discoverer && !strings.Contains(err.Error(), "hourOffset") {
				t.Errorf("%s: %v, which does not say what is wanted", in, err)
			}
		}
		if calls := o.service.seen(); len(calls) != 0 {
			t.Errorf("%s called %v", handler, calls)
		}
		if last := lastLine(o.log.String()); !strings.Contains(last, "run failed") || !strings.Contains(last, "level=ERROR") {
			t.Errorf("%s: log ends with %s", handler, last)
		}
	}
}

const (
	license = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	buyer   = "111122223333"
)

func work(t *testing.T, dimension string) string {
	t.Helper()
	h, err := metering.ParseHour("2026-03-10T14")
	if err != nil {
		t.Fatal(err)
	}
	return metering.Encode(metering.NewWorkMessage(metering.Group{License: license, Account: buyer, Dimension: dimension, Hour: h}, false))
}

// Case 45: of a batch, the answer names the messages that failed and no others; a malformed body fails only its own.
func TestCase45OnlyFailedMessagesAreNamed(t *testing.T) {
	t.Parallel()
	good := work(t, "api_calls")
	label := metering.Encode(metering.CleanupMessage{License: license, Status: metering.LateUsage, Rows: []metering.CleanupRow{{Key: buyer + "#api_calls#2026-03-10T14:00:00", Fingerprint: "f"}}})
	tests := []struct {
		handler  string
		messages [][2]string
		want     string
	}{
		{functions.Aggregator, [][2]string{{"m1", good}, {"m2", good}}, `{"batchItemFailures":[]}`},
		{
			functions.Aggregator, [][2]string{{"m1", good}, {"m2", "{"}, {"m3", good}, {"m4", `{"licenseArn":"l"}`}, {"m5", ``}},
			`{"batchItemFailures":[{"itemIdentifier":"m2"},{"itemIdentifier":"m4"},{"itemIdentifier":"m5"}]}`,
		},
		{functions.Cleanup, [][2]string{{"m1", label}, {"m2", good}, {"m3", label}}, `{"batchItemFailures":[{"itemIdentifier":"m2"}]}`},
	}
	for _, test := range tests {
		t.Run(test.handler, func(t *testing.T) {
			t.Parallel()
			o := open(t, test.handler, nil)
			answer, err := o.Invoke(t.Context(), batchOf(t, test.messages...))
			if string(answer) != test.want || err != nil {
				t.Errorf("answer %s, error %v, want %s", answer, err, test.want)
			}
			if last := lastLine(o.log.String()); !strings.Contains(last, "messages=") || !strings.Contains(last, "failed=") {
				t.Errorf("log ends with %s", last)
			}
		})
	}
}

// A table that cannot be read fails every message of the batch and acknowledges none; the log names what helps and no account.
func TestAServiceThatRefusesAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	o := open(t, functions.Aggregator, nil)
	o.service.fail = func(string) (int, string) {
		return http.StatusBadRequest, `{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"The security token included in the request is expired"}`
	}
	answer, err := o.Invoke(t.Context(), batchOf(t, [2]string{"m1", work(t, "a")}, [2]string{"m2", work(t, "b")}))
	const want = `{"batchItemFailures":[{"itemIdentifier":"m1"},{"itemIdentifier":"m2"}]}`
	if string(answer) != want || err != nil {
		t.Errorf("answer %s, error %v, want %s", answer, err, want)
	}
	if log := o.log.String(); !strings.Contains(log, "ExpiredTokenException") || !strings.Contains(log, "aws sts get-caller-identity") || strings.Contains(log, buyer) {
		t.Errorf("log %s", log)
	}
}

// A run that fails is an error with its cause, and its identifiers are masked: Lambda's runtime prints it once more.
func TestAFailedRunIsAnError(t *testing.T) {
	t.Parallel()
	for handler, in := range map[string]string{
		functions.Discoverer: `{"mode":"meter","hourOffset":2}`, functions.Submitter: `{}`, functions.SubmissionExpiry: `{}`,
		functions.DeprovisionCleanup: `{}`,
	} {
		o := open(t, handler, nil)
		o.service.fail = func(string) (int, string) {
			return http.StatusBadRequest, `{"__type":"com.amazonaws.dynamodb.v20120810#AccessDeniedException","message":"User: arn:aws:sts::111122223333:assumed-role/x is not authorized"}`
		}
		answer, err := o.Invoke(t.Context(), []byte(in))
		if err == nil || answer != nil || !strings.Contains(err.Error(), "AccessDeniedException") || strings.Contains(err.Error(), buyer) {
			t.Errorf("%s: answer %s, error %v", handler, answer, err)
		}
	}
}
