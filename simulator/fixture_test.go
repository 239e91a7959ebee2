package simulator_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/simulator"
)

const (
	licenseA = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	licenseB = "arn:aws:license-manager::111122223333:license:l-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	buyer    = "111122223333"
	other    = "444455556666"
	product  = "sim-product"
)

// at is a time of March 2026 and its neighbours, "2026-03-10T14:00:00".
func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// clock is a service clock that tests set.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// service is a simulator at 15:20 on 10 March with one license and one legacy customer.
func service(t *testing.T, options simulator.Options) (*simulator.Simulator, *clock) {
	t.Helper()
	c := &clock{now: at(t, "2026-03-10T15:20:00")}
	options.Now = c.Now
	sim, err := simulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.PutLicense(simulator.License{ARN: licenseA, AccountID: buyer}); err != nil {
		t.Fatal(err)
	}
	if err := sim.PutCustomer(simulator.Customer{Identifier: "cust-1", AccountID: other, Active: true}); err != nil {
		t.Fatal(err)
	}
	return sim, c
}

func issue(t *testing.T, sim *simulator.Simulator, token simulator.Token) string {
	t.Helper()
	value, err := sim.IssueToken(token)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// fields are the members of a JSON object.
type fields map[string]any

// usage is a well-formed record of license A, of 14:00 on 10 March, with changes: a nil member is left out.
func usage(changes ...fields) fields {
	record := fields{
		"CustomerAWSAccountId": buyer,
		"LicenseArn":           licenseA,
		"Dimension":            "api_calls",
		"Quantity":             10,
		"Timestamp":            1773151200,
	}
	for _, change := range changes {
		for name, value := range change {
			record[name] = value
			if value == nil {
				delete(record, name)
			}
		}
	}
	return record
}

// legacy is a well-formed record of the legacy customer.
func legacy(changes ...fields) fields {
	return usage(append([]fields{{"CustomerAWSAccountId": nil, "LicenseArn": nil, "CustomerIdentifier": "cust-1"}}, changes...)...)
}

func stampedAt(t *testing.T, text string) fields { return fields{"Timestamp": at(t, text).Unix()} }

func batch(records ...fields) fields {
	return fields{"UsageRecords": append([]fields{}, records...)} // an empty list, not null
}

func legacyBatch(records ...fields) fields {
	return fields{"ProductCode": product, "UsageRecords": records}
}

// reply is what came back: an exception's name, or statuses in the order of the results.
type reply struct {
	HTTP      int
	Exception string
	Message   string
	Statuses  []string
	IDs       []string
	Left      int // unprocessed records
	raw       map[string]any
}

// call sends a request without an SDK, so that nothing but the wire form decides.
func call(t *testing.T, sim *simulator.Simulator, operation string, body any) reply {
	t.Helper()
	text, isText := body.(string)
	if !isText {
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		text = string(encoded)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, simulator.Endpoint+"/", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "AWSMPMeteringService."+operation)
	res, err := sim.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return readReply(t, res)
}

func readReply(t *testing.T, res *http.Response) reply {
	t.Helper()
	var body bytes.Buffer
	if _, err := body.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
		Results []struct {
			MeteringRecordID string `json:"MeteringRecordId"`
			Status           string
		}
		UnprocessedRecords []any
	}
	r := reply{HTTP: res.StatusCode}
	for _, into := range []any{&answer, &r.raw} {
		if err := json.Unmarshal(body.Bytes(), into); err != nil {
			t.Fatalf("the answer is no JSON: %v\n%s", err, body.Bytes())
		}
	}
	r.Exception, r.Message, r.Left = answer.Type, answer.Message, len(answer.UnprocessedRecords)
	for _, result := range answer.Results {
		r.Statuses = append(r.Statuses, result.Status)
		r.IDs = append(r.IDs, result.MeteringRecordID)
	}
	return r
}

func meter(t *testing.T, sim *simulator.Simulator, body any) reply {
	t.Helper()
	return call(t, sim, "BatchMeterUsage", body)
}

// outcome is a reply in one word: the exception, or the statuses.
func (r reply) outcome() string {
	if r.Exception != "" {
		return r.Exception
	}
	words := r.Statuses
	if r.Left > 0 {
		words = append(words, fmt.Sprintf("%d unprocessed", r.Left))
	}
	return strings.Join(words, ",")
}

func wantOutcome(t *testing.T, got reply, want string) {
	t.Helper()
	if got.outcome() != want {
		t.Errorf("outcome %s (%s), want %s", got.outcome(), got.Message, want)
	}
}

func repeat[T any](n int, f func(i int) T) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = f(i)
	}
	return all
}
