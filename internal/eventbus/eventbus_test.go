package eventbus_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/eventbus"
	"github.com/awsmp/metering/internal/eventbus/eventbustest"
	"github.com/awsmp/metering/internal/standin"
)

func TestMain(m *testing.M) {
	code := m.Run()
	standin.Stop()
	os.Exit(code)
}

const event = `{"version": "0", "id": "17793124-05d4-b198-2fde-7ededc63b103", "detail-type": "License Deprovisioned - Manufacturer",
"source": "awsmp.test.qa", "account": "999988887777", "time": "2026-03-10T15:20:00Z", "region": "us-east-1",
"resources": ["arn:aws:aws-marketplace::aws:agreement:agmt-1"],
"detail": {"agreement": {"id": "agmt-1"}, "acceptor": {"accountId": "111122223333"}, "license": {"arn": "arn:aws:license-manager::111122223333:license:l-1"}}}`

// What is put on the bus arrives at a queue behind a rule as it was sent.
func TestPutArrivesAsItWasSent(t *testing.T) {
	t.Parallel()
	queue := eventbustest.Listen(t, "awsmp-test-subscription-events", "awsmp.test.qa")
	bus := eventbridge.NewFromConfig(standin.Config(standin.Moto(t)))
	sent, err := eventbus.Read([]byte(event))
	fatal(t, err)
	id, err := eventbus.Put(t.Context(), bus, "default", sent)
	if err != nil || id == "" {
		t.Fatalf("id %q: %v", id, err)
	}
	received := queue.Receive(t)
	if len(received) != 1 {
		t.Fatalf("%d events", len(received))
	}
	body := []byte(received[0])
	got, err := eventbus.Read(body)
	fatal(t, err)
	got.Detail, sent.Detail = compact(t, got.Detail), compact(t, sent.Detail)
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Error(diff)
	}
	if a := got.Account(); a != "111122223333" {
		t.Errorf("account %q", a)
	}
}

func compact(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	fatal(t, json.Compact(&b, text))
	return b.Bytes()
}

func TestPutNeverSpeaksAsAWS(t *testing.T) {
	t.Parallel()
	proxy := standin.NewProxy(t, "http://127.0.0.1:1")
	e := eventbus.Event{Source: "aws.agreement-marketplace", Type: "License Updated - Manufacturer", Detail: []byte("{}")}
	_, err := eventbus.Put(t.Context(), eventbridge.NewFromConfig(standin.Config(proxy.URL)), "default", e)
	if awsapi.ClassOf(err) != awsapi.Invalid || len(proxy.Calls()) != 0 {
		t.Errorf("%v after %d calls", err, len(proxy.Calls()))
	}
}

func TestPutFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		action standin.Action
		class  awsapi.Class
		want   string
	}{
		"the entry is refused": {
			standin.Action{Status: 200, Body: `{"FailedEntryCount": 1, "Entries": [{"ErrorCode": "NotAuthorizedForSourceException", "ErrorMessage": "Not authorized for the source."}]}`},
			awsapi.Unknown, "put the event on the bus (default): Not authorized for the source. (NotAuthorizedForSourceException)",
		},
		"the entry is lost": {standin.Action{Status: 200, Body: `{"FailedEntryCount": 0, "Entries": []}`}, awsapi.Unknown, "the bus did not take it"},
		"not allowed": {
			standin.Exception(400, "AccessDeniedException", "User is not authorized to perform: events:PutEvents"), awsapi.Denied,
			"IAM action events:PutEvents on default",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := standin.NewProxy(t, "http://127.0.0.1:1")
			proxy.Intercept(func(standin.Call) standin.Action { return tt.action })
			e := eventbus.Event{Source: "awsmp.test.qa", Type: "License Updated - Manufacturer", Detail: []byte("{}")}
			_, err := eventbus.Put(t.Context(), eventbridge.NewFromConfig(standin.Config(proxy.URL)), "default", e)
			if awsapi.ClassOf(err) != tt.class || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("%v: %v", awsapi.ClassOf(err), err)
			}
		})
	}
}

func TestReadRefusesWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `[]`, `{}`, `{"source": "a", "detail-type": "b"}`, `{"source": "a", "detail-type": "b", "detail": "c"}`, `{"source": "a", "detail-type": "b", "detail": {}, "time": "noon"}`} {
		if _, err := eventbus.Read([]byte(text)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
	if a := (eventbus.Event{Detail: []byte(`{"acceptor": "111122223333"}`)}).Account(); a != "" {
		t.Errorf("account %q", a)
	}
}

func TestReadStage(t *testing.T) {
	t.Parallel()
	client := lambda.NewFromConfig(standin.Config(standin.Moto(t)))
	for name, tt := range map[string]struct {
		variables map[string]string
		want      eventbus.Stage
	}{
		"a dry-run stage": {
			map[string]string{"METERING_MODE": "dry-run", "TEST_STAGE": "qa", "TEST_ACCOUNTS": "111122223333, 444455556666", "SUBSCRIBERS_TABLE": "awsmp-subscribers-test-qa"},
			eventbus.Stage{Mode: "dry-run", TestStage: "qa", TestAccounts: []string{"111122223333", "444455556666"}, Table: "awsmp-subscribers-test-qa"},
		},
		"a live stage": {
			map[string]string{"METERING_MODE": "live", "TEST_STAGE": "none", "TEST_ACCOUNTS": "none"}, eventbus.Stage{Mode: "live"},
		},
		"nothing is set": {nil, eventbus.Stage{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.Function = "awsmp-subscription-" + strings.ReplaceAll(name, " ", "-")
			eventbustest.Deploy(t, tt.want.Function, tt.variables)
			got, err := eventbus.ReadStage(t.Context(), client, tt.want.Function)
			fatal(t, err)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("there is no such function", func(t *testing.T) {
		t.Parallel()
		_, err := eventbus.ReadStage(t.Context(), client, "awsmp-nowhere")
		if awsapi.ClassOf(err) != awsapi.Missing || !strings.Contains(fmt.Sprint(err), "--function") {
			t.Errorf("%v: %v", awsapi.ClassOf(err), err)
		}
	})
	t.Run("its key is not ours", func(t *testing.T) {
		t.Parallel()
		proxy := standin.NewProxy(t, "http://127.0.0.1:1")
		proxy.Intercept(func(standin.Call) standin.Action {
			return standin.Action{Status: 200, Body: `{"Environment": {"Error": {"ErrorCode": "AccessDeniedException", "Message": "Lambda was unable to decrypt"}}}`}
		})
		_, err := eventbus.ReadStage(t.Context(), lambda.NewFromConfig(standin.Config(proxy.URL)), "awsmp-subscription")
		if awsapi.ClassOf(err) != awsapi.Denied || !strings.Contains(fmt.Sprint(err), "kms:Decrypt") {
			t.Errorf("%v: %v", awsapi.ClassOf(err), err)
		}
	})
}

func TestStageName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"qa": true, "load-2": true, "": false, "none": false, "QA": false, "2": false, "a.b": false, strings.Repeat("a", 31): true, strings.Repeat("a", 32): false} {
		if eventbus.StageName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func TestAllows(t *testing.T) {
	t.Parallel()
	const buyer = "111122223333"
	qa := eventbus.Stage{Function: "f", Mode: "dry-run", TestStage: "qa", TestAccounts: []string{buyer}, Table: "awsmp-subscribers-test-qa"}
	for name, tt := range map[string]struct {
		change    func(*eventbus.Stage)
		account   string
		why, hint string
	}{
		"allowed":           {func(*eventbus.Stage) {}, buyer, "", ""},
		"live":              {func(s *eventbus.Stage) { s.Mode = "live" }, buyer, `METERING_MODE "live"`, "stage qa; without --function its awsmp-subscription-test-qa"},
		"no mode":           {func(s *eventbus.Stage) { s.Mode = "" }, buyer, `METERING_MODE ""`, "in dry-run for stage qa"},
		"no test events":    {func(s *eventbus.Stage) { s.TestStage = "" }, buyer, "takes no test events", "TEST_STAGE to qa"},
		"another stage":     {func(s *eventbus.Stage) { s.TestStage = "load" }, buyer, "of stage load, not of qa", "--stage load"},
		"another account":   {func(*eventbus.Stage) {}, "444455556666", "account 444455556666 is not among", "--account 111122223333"},
		"no account":        {func(*eventbus.Stage) {}, "", "no buyer's account", "acceptor.accountId"},
		"a table of others": {func(s *eventbus.Stage) { s.Table = "awsmp-subscribers" }, buyer, "awsmp-subscribers, which live products may read", "ends in -test-qa"},
		"no account listed": {func(s *eventbus.Stage) { s.TestAccounts = nil }, buyer, "is not among", "add it to TEST_ACCOUNTS"},
	} {
		s := qa
		tt.change(&s)
		err := s.Allows("qa", tt.account)
		var r *eventbus.Refusal
		switch {
		case tt.why == "":
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case !errors.As(err, &r) || !strings.Contains(r.Why, tt.why) || !strings.Contains(r.Hint, tt.hint):
			t.Errorf("%s: %+v", name, err)
		}
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
