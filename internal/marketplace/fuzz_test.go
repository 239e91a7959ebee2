package marketplace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// answering is a service that answers every call alike.
type answering struct {
	status int
	kind   string // of an exception
	body   []byte
}

func (a answering) Do(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/x-amz-json-1.1"}}
	if a.kind != "" {
		header.Set("X-Amzn-Errortype", a.kind)
	}
	return &http.Response{StatusCode: a.status, Header: header, Request: r, ContentLength: int64(len(a.body)), Body: io.NopCloser(bytes.NewReader(a.body))}, nil
}

func (a answering) client() *marketplace.Client {
	return marketplace.New(marketplace.Options{Region: "us-east-1", Endpoint: simulator.Endpoint, HTTPClient: a, ProductCode: product})
}

// seedAnswers are answers to a call of two records: of d0 with 1 and of d1 with 2.
func seedAnswers(f *testing.F, add func(status int, kind string, body []byte)) {
	echo := func(dimension, quantity string) string {
		return `{"LicenseArn":"` + licenseA + `","CustomerAWSAccountId":"` + buyer + `","Dimension":"` + dimension + `","Timestamp":1773151200,"Quantity":` + quantity + `}`
	}
	result := func(status, record string) string {
		return `{"Status":"` + status + `","MeteringRecordId":"id-1","UsageRecord":` + record + `}`
	}
	for _, results := range []string{
		result("Success", echo("d0", "1")) + "," + result("Success", echo("d1", "2")), result("Success", echo("d0", "1")) + "," + result("DuplicateRecord", echo("d0", "1")),
		result("Success", echo("d0", "2")), result("success", echo("d0", "1")), result("CustomerNotSubscribed", "null"), result("Success", strings.Replace(echo("d0", "1"), "1773151200", "1.7731512009E9", 1)),
		`{"Status":null},null,{}`, "",
	} {
		add(200, "", []byte(`{"Results":[`+results+`],"UnprocessedRecords":[`+echo("d1", "2")+`]}`))
	}
	add(200, "", []byte(`{"Results":null,"UnprocessedRecords":[`+echo("d1", "2")+`,`+echo("d1", "2")+`]}`))
	add(200, "", []byte(`{"results":{}}`))
	add(200, "", []byte(`<html>502`))
	for _, kind := range []string{"InvalidTagException", "ThrottlingException", "InternalServiceErrorException", "AccessDeniedException", "com.amazon#ValidationException:http://", ""} {
		add(400, kind, []byte(`{"__type":"TimestampOutOfBoundsException","message":"`+kind+`"}`))
	}
	add(500, "", []byte(`{"__type":"InvalidLicenseException"}`))
	add(413, "", nil)
}

// FuzzAnswer: of whatever the service answers, a record gets at most one verdict; Success only if the answer has a result with its whole
// identity, second and quantity that says so. A call that fails is a record's fault only by one of the names that the API has for that.
func FuzzAnswer(f *testing.F) {
	seedAnswers(f, func(status int, kind string, body []byte) { f.Add(status, kind, body) })
	f.Fuzz(func(t *testing.T, status int, exception string, body []byte) {
		if status < 200 || status > 599 {
			t.Skip()
		}
		sent := records(2)
		call := metering.Call{}
		for _, r := range sent {
			call.Records = append(call.Records, r.Usage())
		}
		answer, err := answering{status, exception, body}.client().Call(t.Context(), call)
		switch kind, name := marketplace.Classify(err); {
		case err != nil && kind == marketplace.Answered, err == nil && status >= 300:
			t.Fatalf("status %d, kind %d of %v", status, kind, err)
		case kind == marketplace.RecordFault && !slices.Contains(recordFaults(), name):
			t.Errorf("%q is a record's fault: %v", name, err)
		case err != nil:
			return
		}
		verdicts, left, unmatched := metering.Match(sent, answer)
		if len(verdicts)+unmatched != len(answer.Results) || len(left) > len(answer.Unprocessed) {
			t.Errorf("%d verdicts and %d unmatched of %d results", len(verdicts), unmatched, len(answer.Results))
		}
		seen := map[string]bool{}
		for _, r := range left {
			seen[r.SortKey] = true
		}
		for _, v := range verdicts {
			if seen[v.Record.SortKey] {
				t.Errorf("%s has a second verdict: %s", v.Record.SortKey, v.Status)
			}
			seen[v.Record.SortKey] = true
			if !says(body, v.Sent, string(v.Status)) {
				t.Errorf("%s is %s by\n%s", v.Record.SortKey, v.Status, body)
			}
		}
	})
}

// recordFaults are the exceptions that one record can bring on its call.
func recordFaults() []string {
	return []string{
		metering.ExceptionDimension, metering.ExceptionTimestamp, metering.ExceptionTag, metering.ExceptionAllocations, metering.ExceptionLicense, metering.ExceptionIdentifier,
		metering.ExceptionValidation, "ValidationError", metering.ExceptionSerialization, metering.ExceptionTooLarge,
	}
}

// says reports whether an answer holds a result of a status with all that a record was sent with, as another reader of JSON sees it.
func says(body []byte, sent metering.UsageRecord, status string) bool {
	var answer struct {
		Results []struct {
			Status      string
			UsageRecord struct {
				LicenseArn           string
				CustomerAWSAccountID string `json:"CustomerAWSAccountId"`
				Dimension            string
				Timestamp            float64
				Quantity             int64
			}
		}
	}
	if json.NewDecoder(bytes.NewReader(body)).Decode(&answer) != nil {
		return true // what this reader cannot read it cannot judge
	}
	for _, r := range answer.Results {
		u := r.UsageRecord
		if r.Status == status && u.LicenseArn == sent.License && u.CustomerAWSAccountID == sent.Account && u.Dimension == sent.Dimension && u.Quantity == sent.Quantity &&
			metering.Second(u.Timestamp) == sent.Second {
			return true
		}
	}
	return false
}

// FuzzResolve: of whatever the service answers to a token, a customer comes or an error that says what it means, and no error says a word
// of the token.
func FuzzResolve(f *testing.F) {
	const token = "an+opaque/token=="
	seedAnswers(f, func(status int, kind string, body []byte) { f.Add(status, kind, body) })
	f.Add(200, "", []byte(`{"CustomerAWSAccountId":"111122223333","LicenseArn":"`+licenseA+`","ProductCode":"sim-product","CustomerIdentifier":null}`))
	f.Add(400, "ExpiredTokenException", []byte(`{"message":"token `+token+` expired"}`))
	f.Add(400, "InvalidTokenException", []byte(`{"message":"\"`+token+`\""}`))
	f.Add(400, "ExpiredTokenException", []byte(`{"Message":"The security token included in the request is expired: `+token+`"}`))
	f.Add(400, token, []byte(`{"__type":"`+token+`","message":"`+token+token+`"}`))
	f.Fuzz(func(t *testing.T, status int, exception string, body []byte) {
		if status < 200 || status > 599 {
			t.Skip()
		}
		synctest.Test(t, func(t *testing.T) { // it asks again, after pauses
			_, err := answering{status, exception, body}.client().Resolve(t.Context(), token)
			var known *awsapi.Error
			switch {
			case err == nil && status >= 300:
				t.Errorf("status %d resolves", status)
			case err != nil && strings.Contains(err.Error(), token):
				t.Errorf("the token is told: %v", err)
			case err == nil, errors.Is(err, metering.ErrTokenInvalid), errors.Is(err, metering.ErrTokenExpired):
			case !errors.As(err, &known) || known.Class == "":
				t.Errorf("%#v", err)
			}
		})
	})
}

// fickle is a service that decides by its script, a byte for each call and one for each record of it, and forgets nothing that it billed.
type fickle struct {
	script []byte
	at     int
	billed map[metering.Identity]int64
}

func (s *fickle) next() byte {
	if s.at == len(s.script) {
		return 0
	}
	s.at++
	return s.script[s.at-1]
}

func (s *fickle) answer(_ int, c metering.Call) (a metering.Answer, err error) {
	a.Results = []metering.Result{}
	switch b := s.next(); b % 16 {
	case 1:
		return a, exception(recordFaults()[int(b/16)%len(recordFaults())])
	case 2:
		return a, exception("ThrottlingException")
	case 3:
		return a, exception("InternalServiceErrorException")
	case 4: // it bills, and its answer is lost
		for _, u := range c.Records {
			s.bill(u)
		}
		return a, io.ErrUnexpectedEOF
	}
	for _, u := range c.Records {
		r := metering.Result{Usage: u, RecordID: "id"}
		switch s.next() % 8 {
		case 0, 1, 2:
			r.Status = s.bill(u)
		case 3:
			r.Status = metering.CustomerNotSubscribed
		case 4:
			a.Unprocessed = append(a.Unprocessed, u)
			continue
		case 5: // not a word of it
			continue
		case 6: // of another record
			r.Status, r.Usage.Quantity = metering.Success, u.Quantity+1
		case 7: // twice, and of two minds
			a.Results = append(a.Results, metering.Result{Usage: u, Status: s.bill(u), RecordID: "id"})
			r.Status = metering.CustomerNotSubscribed
		}
		a.Results = append(a.Results, r)
	}
	return a, nil
}

// bill is the service's first-write-wins.
func (s *fickle) bill(u metering.UsageRecord) metering.Status {
	if first, ok := s.billed[u.Identity()]; ok && first != u.Quantity {
		return metering.DuplicateRecord
	}
	s.billed[u.Identity()] = u.Quantity
	return metering.Success
}

// FuzzSend: whatever the service does in whatever order, a record is called billed exactly with what the service has billed of it, gets at
// most one verdict, and without one waits on; run after run, nothing is billed twice.
func FuzzSend(f *testing.F) {
	f.Add([]byte{}, uint8(3))
	f.Add([]byte{2, 2, 0, 0, 4, 5, 3, 0}, uint8(30))
	f.Add([]byte{1, 1, 0, 1, 17, 33, 65, 81, 0, 0}, uint8(8))
	f.Add([]byte{4, 0, 6, 7, 3, 0, 4, 4, 0}, uint8(5))
	f.Add([]byte{3}, uint8(26))
	f.Fuzz(func(t *testing.T, script []byte, n uint8) {
		synctest.Test(t, func(t *testing.T) {
			begin(t)
			service := &fickle{script: script, billed: map[metering.Identity]int64{}}
			d := deskOf(append(records(int(n)%40), legacy("cust-1", "legacy", 9))...)
			for range 3 {
				// One call at a time, so that the script is read in one order alone.
				s := marketplace.NewSender(&api{answer: service.answer}, marketplace.Settings{InFlight: 1, Limit: time.Minute, ThrottlePatience: 3 * time.Second})
				pending := d.pending()
				slices.SortFunc(pending, func(a, b metering.Record) int { return strings.Compare(a.SortKey, b.SortKey) })
				before := len(d.verdicts)
				report, err := s.Send(t.Context(), []lane{laneOf(pending...)}, d)
				if settled := len(d.verdicts) - before; report.Settled != settled || settled > len(pending) || report.Left+report.Unprocessed+report.InDoubt+settled > len(pending) {
					t.Errorf("%d records, %d verdicts: %+v, %v", len(pending), settled, report, err)
				}
			}
			once := map[string]int{}
			for _, v := range d.verdicts {
				once[v.Record.SortKey]++
				held, was := service.billed[v.Sent.Identity()]
				if v.Status == metering.Success && (!was || held != v.Sent.Quantity) || v.Status == metering.RejectedClientSide && !slices.Contains(recordFaults(), v.Reason) {
					t.Errorf("%s is %s with %d: %s; billed is %d, %v", v.Record.SortKey, v.Status, v.Sent.Quantity, v.Reason, held, was)
				}
			}
			for key, n := range once {
				if n > 1 {
					t.Errorf("%s has %d verdicts", key, n)
				}
			}
			for r := range maps.Values(d.held) {
				if (r.Pending == "") != (once[r.SortKey] == 1) || r.Status == metering.Success && r.BilledQuantity.Whole {
					t.Errorf("%+v after %d verdicts", r, once[r.SortKey])
				}
			}
		})
	})
}

// FuzzSold: a record that our rules take is taken by the service as it stands, billed with what it holds and in its hour, and its verdict
// finds back to it. The one rule of the service that ours leave to it: a tag key stands once in an allocation, and each set of tags once.
func FuzzSold(f *testing.F) {
	for _, attribute := range [][2]string{
		{"note", "7"}, {metering.AttrQuantity, "2147483647"}, {metering.AttrQuantity, "3.0"}, {metering.AttrAllocations, `[{"AllocatedUsageQuantity":3,"Tags":[{"Key":"a b","Value":"+-=._:/@"}]}]`},
		{metering.AttrAllocations, `[{"AllocatedUsageQuantity":1},{"AllocatedUsageQuantity":2,"Tags":[{"Key":"a","Value":"b"},{"Key":"b","Value":"b"}]}]`},
		{metering.AttrAllocations, `[]`}, {metering.AttrSentSecond, `"2026-03-10T14:59:59"`}, {metering.AttrSentQuantity, "2"}, {metering.AttrCustomerIdentifier, `"c"`},
	} {
		for _, dimension := range []string{"api_calls", "a#\u2028<&>\"\\\x00\n", strings.Repeat("😀", 255)} {
			f.Add(licenseA, dimension, attribute[0], attribute[1])
		}
	}
	f.Add("prod-abc", "d", metering.AttrCustomerIdentifier, `"cust-1"`)
	f.Add("arn:aws-cn:a:::b", "d", metering.AttrAllocations, `[{"AllocatedUsageQuantity":3,"Tags":[{"Key":"a","Value":"b"},{"Key":"a","Value":"c"}]}]`)
	f.Fuzz(func(t *testing.T, license, dimension, name, text string) {
		var value any
		d := json.NewDecoder(strings.NewReader(text))
		if d.UseNumber(); d.Decode(&value) != nil {
			return
		}
		dimension, license = strings.ToValidUTF8(dimension, "?"), strings.ToValidUTF8(license, "?")
		item := recordOf(metering.Group{License: license, Account: buyer, Dimension: dimension}, 3).Item()
		item[name] = value
		r := metering.RecordFromItem(item)
		if r.Validate() != "" {
			return // never sent
		}
		sim, err := simulator.New(simulator.Options{ProductCode: product, OpenDoors: true, Now: func() time.Time { return time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC) }})
		if err != nil {
			t.Fatal(err)
		}
		client := marketplace.New(marketplace.Options{Region: "us-east-1", Endpoint: simulator.Endpoint, HTTPClient: sim.Client(), ProductCode: product})
		u := r.Usage()
		answer, err := client.Call(context.WithoutCancel(t.Context()), metering.Call{Legacy: u.Legacy(), Records: []metering.UsageRecord{u}})
		if _, name := marketplace.Classify(err); err != nil && repeatsTags(u) && (name == metering.ExceptionTag || name == metering.ExceptionAllocations) {
			return
		}
		verdicts, left, unmatched := metering.Match([]metering.Record{r}, answer)
		if err != nil || len(verdicts) != 1 || verdicts[0].Status != metering.Success || len(left) > 0 || unmatched > 0 {
			t.Fatalf("%+v: %v, %+v", u, err, answer)
		}
		ledger := sim.Ledger()
		g, _ := r.Group()
		if len(ledger) != 1 || ledger[0].Quantity != u.Quantity || ledger[0].Dimension != dimension || !ledger[0].Hour.Equal(g.Hour.Start()) || len(ledger[0].Allocations) != len(u.Allocations) {
			t.Errorf("%+v is billed as %+v", u, ledger)
		}
	})
}

// repeatsTags reports whether a key stands twice in an allocation, or two allocations have the same tags.
func repeatsTags(u metering.UsageRecord) bool {
	for _, a := range u.Allocations {
		keys := map[string]bool{}
		for _, tag := range a.Tags {
			if keys[tag.Key] {
				return true
			}
			keys[tag.Key] = true
		}
	}
	return len(metering.MergeAllocations(u.Allocations)) < len(u.Allocations)
}
