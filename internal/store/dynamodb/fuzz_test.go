package dynamodb_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

// answering is a service that answers a read once with a body of the test's, and any other with nothing. It keeps what is put.
type answering struct {
	status int
	body   []byte
	put    json.RawMessage
}

func (a *answering) Do(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	status, body := http.StatusOK, []byte("{}")
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".PutItem") {
		var in struct{ Item json.RawMessage }
		err = json.Unmarshal(sent, &in)
		a.put = in.Item
	} else if a.body != nil {
		status, body, a.body = a.status, a.body, nil
	}
	return &http.Response{
		StatusCode: status, Request: r, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "X-Amz-Crc32": {strconv.Itoa(int(crc32.ChecksumIEEE(body)))}},
	}, err
}

// FuzzAnswer: of whatever the service answers comes an item or an error that says whether to ask again. What was read and is put is
// stored as it was read: no attribute is lost, and none is another.
func FuzzAnswer(f *testing.F) {
	key := `"licenseArn":{"S":"` + license + `"},"customerAWSAccountId_dimension_timestamp":{"S":"444455556666#api_calls#2026-03-10T14:00:05"},"account_dimension_hour":{"S":"444455556666#api_calls#2026-03-10T14"}`
	row := key + `,"customerAWSAccountId":{"S":"444455556666"},"dimension":{"S":"api_calls"},"timestamp":{"S":"2026-03-10T14:00:05"},"quantity":{"N":"3"},"meteringPending":{"S":"2026-03-10T14"}`
	allocations := `{"L":[{"M":{"AllocatedUsageQuantity":{"N":"3.0"},"Tags":{"L":[{"M":{"Key":{"S":"team"},"Value":{"S":"blue"}}}]}}}]}`
	for _, item := range []string{
		row, row + `,"flushes":{"SS":["b","a"]},"usageAllocations":` + allocations, row + `,"flushes":{"SS":["a","a"]},"x":{"NS":["1","2.50"]},"y":{"BS":["AQ==",""]},"z":{"B":"AQ=="}`,
		key + `,"quantity":{"S":"3"},"dropped":{"BOOL":true},"meteringPending":{"NULL":true},"ttl":{"N":"1e3"},"flushes":{"L":[{"S":"a"}]}`, key + `,"quantity":{"N":"abc","S":"x"},"q":{"Q":1},"m":{"M":{}},"l":{"L":[]}`,
		`"licenseArn":{"S":"l"},"customerAWSAccountId":{"S":"a"},"deprovisioningPendingFlag":{"S":"1"},"deprovisioningExpiry":{"S":"2026-03-10T16:00:00+01:00"},"registeredRegions":{"SS":["b","a"]}`,
	} {
		f.Add(200, []byte(`{"Item":{`+item+`},"Items":[{`+item+`},{`+row+`}],"LastEvaluatedKey":{"licenseArn":{"S":"l"}}}`))
	}
	f.Add(200, []byte(`{"Items":null,"LastEvaluatedKey":{"licenseArn":{"N":"1"}}}`))
	f.Add(200, []byte(`{"Item":`))
	f.Add(400, []byte(`{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow down"}`))
	f.Add(500, []byte(`<html>`))
	f.Add(200, []byte(`{"Item":{`+key+`,"flushes":{"L":[]},"n":{"N":"0.10"},"b":{"B":null}}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 200 || status > 599 {
			t.Skip()
		}
		service := &answering{status: status}
		client := sdk.New(sdk.Options{
			Region: "eu-west-1", BaseEndpoint: aws.String("http://127.0.0.1:1"), HTTPClient: service, Retryer: aws.NopRetryer{},
			Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		})
		rows, records := dynamodb.NewRows(client, "usage", dynamodb.Options{}), dynamodb.NewRecords(client, "aggregated", dynamodb.Options{})
		said := func(err error) {
			t.Helper()
			var known *awsapi.Error
			if err != nil && (!errors.As(err, &known) || awsapi.ClassOf(err) == "" || status >= 500 && !awsapi.ClassOf(err).Retry()) {
				t.Errorf("class %q of %v", awsapi.ClassOf(err), err)
			}
		}

		service.body = body
		if r, err := rows.Row(t.Context(), license, "k"); err != nil || r == nil {
			said(err)
		} else if rows.PutRow(t.Context(), *r) == nil {
			sameKinds(t, body, service.put)
			service.body, service.status = []byte(`{"Item":`+string(service.put)+`}`), 200
			again, err := rows.Row(t.Context(), license, "k")
			r.Flushes = slices.Compact(slices.Sorted(slices.Values(r.Flushes))) // a set of the service's holds nothing twice
			if diff := cmp.Diff(r, again); err != nil || diff != "" || r.Fingerprint() != again.Fingerprint() {
				t.Errorf("put and read: %v\n%s\n%s", err, diff, service.put)
			}
		}
		service.body, service.status = body, status
		if r, err := records.Record(t.Context(), group("api_calls")); err != nil || r == nil {
			said(err)
		} else if records.PutRecord(t.Context(), *r) == nil {
			sameKinds(t, body, service.put)
			service.body, service.status = []byte(`{"Item":`+string(service.put)+`}`), 200
			again, err := records.Record(t.Context(), group("api_calls"))
			if diff := cmp.Diff(r, again); err != nil || diff != "" || r.Fingerprint() != again.Fingerprint() {
				t.Errorf("put and read: %v\n%s\n%s", err, diff, service.put)
			}
		}
		service.body, service.status = body, status
		for _, err := range rows.GroupRows(t.Context(), group("api_calls")) {
			said(err)
		}
		service.body = body
		for _, err := range rows.PendingRows(t.Context(), group("api_calls").Hour, "") {
			said(err)
		}
		service.body = body
		list, err := dynamodb.NewSubscribers(client, "subscribers").Deprovisioning(t.Context())
		said(err)
		for _, d := range list {
			if d.Expiry.IsZero() && !bytes.Contains(body, []byte("0001-01-01")) {
				t.Errorf("%+v", d)
			}
		}
		service.body = body
		if s, err := dynamodb.NewSubscribers(client, "subscribers").Subscriber(t.Context(), license, buyer); err != nil {
			said(err)
		} else if s != nil {
			if diff := cmp.Diff(*s, metering.SubscriberFromItem(s.Item())); diff != "" {
				t.Errorf("subscriber:\n%s", diff)
			}
		}
	})
}

// sameKinds checks that each attribute of the item that was answered is put as of the same type, and a text or number as it was.
func sameKinds(t *testing.T, answered, put []byte) {
	t.Helper()
	var was struct{ Item map[string]map[string]any }
	var is map[string]map[string]any
	d := json.NewDecoder(bytes.NewReader(answered))
	if d.UseNumber(); d.Decode(&was) != nil || json.Unmarshal(put, &is) != nil {
		return // another reader of JSON than the SDK's cannot judge
	}
	for name, value := range was.Item {
		for kind, v := range value {
			known := slices.Contains([]string{"S", "N", "BOOL", "L", "M", "SS", "NS", "B", "BS", "NULL"}, kind)
			if len(value) > 1 || !known || v == nil || name == metering.AttrFlushes { // a set in rows, and unknown elsewhere
				continue
			}
			got, ok := is[name][kind]
			text, isText := v.(string)
			gotText, _ := got.(string)
			if !ok || isText && kind == "S" && got != v || isText && kind == "N" && !metering.SameValue(json.Number(text), json.Number(gotText)) {
				t.Errorf("%s is read as %v and put as %v", name, value, is[name])
			}
		}
	}
}
