package functions_test

import (
	"crypto/md5"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
)

const (
	waitingRow = `{"licenseArn":{"S":"` + license + `"},"customerAWSAccountId":{"S":"` + buyer + `"},"dimension":{"S":"api_calls"},"quantity":{"N":"7"},` +
		`"customerAWSAccountId_dimension_timestamp":{"S":"` + buyer + `#api_calls#HOUR:00:05"},"timestamp":{"S":"HOUR:00:05"},"meteringPending":{"S":"HOUR"}}`
	closingLicense = `{"licenseArn":{"S":"` + license + `"},"customerAWSAccountId":{"S":"` + buyer + `"},` +
		`"deprovisioningPendingFlag":{"S":"1"},"deprovisioningExpiry":{"S":"2026-03-10T16:00:00Z"}}`
)

// Groups go to the queue that they belong into, and labels to the third.
func TestTheDiscovererSendsToTheRightQueue(t *testing.T) {
	t.Parallel()
	tests := []struct{ input, hour, want string }{
		{`{"mode":"meter","hourOffset":1}`, "2026-03-10T14", "work hourBucket"},
		{`{"mode":"flush-deprovisioning"}`, "2026-03-10T13", "deprovision-work hourBucket"},
		{`{"mode":"ageout","shard":4}`, "2026-03-09T14", "cleanup AggregationExpired"}, // 25 hours back
	}
	for _, test := range tests {
		t.Run(test.input, func(t *testing.T) {
			t.Parallel()
			o := open(t, functions.Discoverer, nil)
			var sent []string
			o.service.answer = func(operation, request string) string {
				switch {
				case operation == "SendMessageBatch":
					answer, queue, body := taken(t, request)
					for _, word := range []string{"hourBucket", "AggregationExpired"} {
						if strings.Contains(body, word) {
							sent = append(sent, strings.TrimPrefix(queue, "awsmp-example-")+" "+word)
						}
					}
					return answer
				case operation == "Query" && strings.Contains(request, `"awsmp-subscribers"`):
					return `{"Items":[` + closingLicense + `],"Count":1}`
				case operation == "Query" && strings.Contains(request, test.hour): // the index, or the group's rows
					return `{"Items":[` + strings.ReplaceAll(waitingRow, "HOUR", test.hour) + `],"Count":1}`
				}
				return ""
			}
			if _, err := o.Invoke(t.Context(), []byte(test.input)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{test.want}, sent); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// taken answers SendMessageBatch: every entry is taken.
func taken(t *testing.T, request string) (answer, queue, body string) {
	t.Helper()
	var in struct {
		QueueURL string `json:"QueueUrl"`
		Entries  []struct{ ID, MessageBody string }
	}
	if err := json.Unmarshal([]byte(request), &in); err != nil {
		t.Error(err)
	}
	var done []string
	for _, e := range in.Entries {
		done = append(done, fmt.Sprintf(`{"Id":%q,"MessageId":"m","MD5OfMessageBody":"%x"}`, e.ID, md5.Sum([]byte(e.MessageBody))))
		body += e.MessageBody
	}
	return `{"Successful":[` + strings.Join(done, ",") + `]}`, in.QueueURL[strings.LastIndex(in.QueueURL, "/")+1:], body
}

// The settings reach the submitter: its cap, how long billed records are kept, and the product code that legacy records go with.
func TestTheSubmitterGoesByItsSettings(t *testing.T) {
	t.Parallel()
	o := open(t, functions.Submitter, map[string]string{"MAX_RECORDS_PER_RUN": "2", "AGGREGATED_USAGE_TTL_DAYS": "400"})
	var records []string
	for _, dimension := range []string{"d1", "d2", "d3"} {
		records = append(records, fmt.Sprintf(`{"licenseArn":{"S":"example"},"account_dimension_hour":{"S":"%[1]s#%[2]s#2026-03-10T14"},"customerAWSAccountId":{"S":"%[1]s"},`+
			`"dimension":{"S":"%[2]s"},"hourBucket":{"S":"2026-03-10T14"},"quantity":{"N":"7"},"customerIdentifier":{"S":"cust-1"},"meteringPending":{"S":"2026-03-10T14"}}`, buyer, dimension))
	}
	var calls, finishes []string
	o.service.answer = func(operation, request string) string {
		switch {
		case operation == "Query" && strings.Contains(request, "awsmp-example-aggregated-usage") && strings.Contains(request, "2026-03-10T14"):
			return `{"Items":[` + strings.Join(records, ",") + `],"Count":3}`
		case operation == "GetItem" && strings.Contains(request, "#d"):
			at := strings.Index(request, "#d")
			return `{"Item":` + records[request[at+2]-'1'] + `}`
		case operation == "BatchMeterUsage":
			calls = append(calls, request)
			return billedAll(t, request)
		case operation == "UpdateItem" && strings.Contains(request, "Success"):
			finishes = append(finishes, request)
		}
		return ""
	}
	answer, err := o.Invoke(t.Context(), []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) != 1 || strings.Count(calls[0], "cust-1") != 2 || !strings.Contains(calls[0], `"ProductCode":"example"`) {
		t.Errorf("calls %v, want one of two records with the product code; answer %s", calls, answer)
	}
	const kept = `{"N":"1807716000"}` // 400 days after now
	if len(finishes) != 2 || slices.ContainsFunc(finishes, func(f string) bool { return !strings.Contains(f, kept) }) {
		t.Errorf("finished with %v, want a ttl of %s", finishes, kept)
	}
}

// billedAll answers BatchMeterUsage: every record is billed.
func billedAll(t *testing.T, request string) string {
	t.Helper()
	var in struct{ UsageRecords []json.RawMessage }
	if err := json.Unmarshal([]byte(request), &in); err != nil {
		t.Error(err)
	}
	var results []string
	for i, r := range in.UsageRecords {
		results = append(results, fmt.Sprintf(`{"MeteringRecordId":"id-%d","Status":"Success","UsageRecord":%s}`, i, r))
	}
	return `{"Results":[` + strings.Join(results, ",") + `]}`
}
