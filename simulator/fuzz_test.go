package simulator_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/simulator"
)

// asked is what came back, or that the connection broke.
type asked struct {
	Status int
	Type   string
	Body   string
	Broken bool
}

// ask sends a request without an SDK.
func ask(t *testing.T, sim *simulator.Simulator, method, path string, header map[string]string, body []byte) asked {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, simulator.Endpoint, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Method = method
	req.URL.Path, req.URL.RawQuery, _ = strings.Cut(path, "?")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := sim.Client().Transport.RoundTrip(req)
	if err != nil {
		return asked{Broken: true}
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return asked{Status: res.StatusCode, Type: res.Header.Get("Content-Type"), Body: string(text)}
}

// switched are options of which each bit is a switch.
func switched(bits uint16) simulator.Options {
	on := func(i int) bool { return bits>>i&1 != 0 }
	choose := func(i int, a, b simulator.Refusal) simulator.Refusal {
		if on(i) {
			return b
		}
		return a
	}
	o := simulator.Options{
		OpenDoors: on(0), HourGranularWindow: on(1), GraceExtendsWindow: on(2), UnknownCustomer: choose(3, simulator.ByException, simulator.ByStatus),
		AfterWindow: choose(4, simulator.ByStatus, simulator.ByException), ProseTagCharacters: on(5), RecordTagKeyLimit: on(6), AllocationsDistinguish: on(7),
		ResendNeedsSubscription: on(8), ShuffleResults: on(9),
	}
	if on(10) {
		o.Dimensions = []string{"api_calls"}
	}
	return o
}

// batchReply is an answer to BatchMeterUsage.
type batchReply struct {
	Type    string `json:"__type"`
	Results []struct {
		MeteringRecordID string `json:"MeteringRecordId"`
		Status           string
		UsageRecord      struct {
			CustomerAWSAccountID string `json:"CustomerAWSAccountId"`
			CustomerIdentifier   string
			Dimension            string
			LicenseArn           string
			Quantity             int64
			Timestamp            float64
		}
	}
	UnprocessedRecords []any
}

// FuzzCall: a call is refused as a whole and stores nothing, or answers each of its records and has stored those that it calls Success,
// with their quantity, and no others; sent again it is answered alike and stores nothing.
func FuzzCall(f *testing.F) {
	text := func(v any) []byte {
		encoded, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		return encoded
	}
	split := fields{"UsageAllocations": []fields{{"AllocatedUsageQuantity": 4, "Tags": tags("team", "a b")}, {"AllocatedUsageQuantity": 6}}}
	for i, body := range [][]byte{
		text(batch(usage(), usage(fields{"Dimension": "storage", "Quantity": 0}), usage())), text(batch(usage(), usage(fields{"Quantity": 11}))), text(legacyBatch(legacy(), legacy(fields{"Dimension": "b"}))),
		text(batch(usage(split), usage(split, fields{"Dimension": "b\u2028#<\x00"}))), text(batch(usage(fields{"CustomerAWSAccountId": other}), usage())), text(batch(usage(fields{"LicenseArn": licenseB}))),
		text(batch()), text(legacyBatch(usage())), text(batch(usage(fields{"Timestamp": 1773151200.9995, "Quantity": nil}))), text(batch(usage(fields{"Timestamp": 1772323200}), usage(fields{"Quantity": -1}))),
		text(batch(usage(fields{"UsageAllocations": []fields{{"AllocatedUsageQuantity": 9}}}))), text(fields{"UsageRecords": nil}), text(batch(legacy(fields{"CustomerAWSAccountId": other}))), []byte(`{"UsageRecords":[{"Timestamp":1.7731512e9,"x":[{"y":"\ud800"}],"Dimension":"\ud800"}],"z":null}`), []byte(`[]`), []byte(`{`),
		[]byte(`{"UsageRecords": [null, {"UsageAllocations": [{"AllocatedUsageQuantity": 1, "AllocatedUsageQuantity": null}]}]}`),
	} {
		f.Add("AWSMPMeteringService.BatchMeterUsage", "application/x-amz-json-1.1", uint16(i*97), body)
		f.Add("AWSMPMeteringService.BatchMeterUsage", "application/x-amz-json-1.1; charset=utf-8", uint16(1), body)
	}
	f.Add("AWSMPMeteringService.ResolveCustomer", "application/x-amz-json-1.1", uint16(0), []byte(`{"RegistrationToken":"known"}`))
	f.Add("AWSMPMeteringService.ResolveCustomer", "application/x-amz-json-1.1", uint16(0), []byte(`{"registrationToken":"known","RegistrationToken":7}`))
	f.Add("ResolveCustomer", "text/plain", uint16(0), []byte(`{"RegistrationToken":null}`))
	f.Add("AWSMPMeteringService.MeterUsage", "", uint16(0), []byte(`{}`))
	f.Fuzz(func(t *testing.T, target, contentType string, bits uint16, body []byte) {
		o := switched(bits)
		o.Rand = (&rand{1}).float
		sim, _ := service(t, o)
		issue(t, sim, simulator.Token{Value: "known", AccountID: buyer, LicenseARN: licenseA})
		header := map[string]string{"X-Amz-Target": target, "Content-Type": contentType}
		first := ask(t, sim, http.MethodPost, "/", header, body)
		stored := sim.Ledger()
		checkReply(t, first, stored, body, target)
		second := ask(t, sim, http.MethodPost, "/", header, body)
		if diff := gocmp.Diff(stored, sim.Ledger()); diff != "" {
			t.Errorf("sent again it stores:\n%s", diff)
		}
		if diff := gocmp.Diff(sorted(t, first), sorted(t, second)); diff != "" {
			t.Errorf("sent again it is answered:\n%s", diff)
		}
	})
}

// checkReply checks an answer against what an empty ledger has come to hold.
func checkReply(t *testing.T, a asked, stored []simulator.Billed, body []byte, target string) {
	t.Helper()
	var got batchReply
	if err := json.Unmarshal([]byte(a.Body), &got); err != nil || a.Broken || a.Status != 200 && a.Status != 400 || (a.Status == 400) != (got.Type != "") {
		t.Fatalf("%+v: %v", a, err)
	}
	held := map[string]simulator.Billed{}
	for _, b := range stored {
		held[b.MeteringRecordID] = b
	}
	if got.Type != "" && len(stored) > 0 {
		t.Errorf("%s, and %d records are stored", got.Type, len(stored))
	}
	var sent struct{ UsageRecords []any }
	if err := json.Unmarshal(body, &sent); err == nil && got.Type == "" && strings.HasSuffix(target, "BatchMeterUsage") && len(got.Results)+len(got.UnprocessedRecords) != len(sent.UsageRecords) {
		t.Errorf("%d records are sent, %d answered", len(sent.UsageRecords), len(got.Results)+len(got.UnprocessedRecords))
	}
	billed := map[string]bool{}
	for _, r := range got.Results {
		u, b := r.UsageRecord, held[r.MeteringRecordID]
		switch same := b.Quantity == u.Quantity && b.Dimension == u.Dimension && b.LicenseARN == u.LicenseArn && b.Hour.Equal(time.Unix(int64(u.Timestamp), 0).Truncate(time.Hour)); {
		case r.Status == "Success":
			if billed[r.MeteringRecordID] = true; b.MeteringRecordID == "" || !same {
				t.Errorf("%+v is answered Success, stored is %+v", r, b)
			}
		case r.Status == "DuplicateRecord" && b.MeteringRecordID != "", r.Status == "CustomerNotSubscribed" && r.MeteringRecordID == "":
		default:
			t.Errorf("%+v, stored %+v", r, b)
		}
	}
	if len(billed) != len(stored) {
		t.Errorf("%d records are called Success, %d are stored", len(billed), len(stored))
	}
	for _, b := range stored {
		sum := int64(0)
		for _, part := range b.Allocations {
			sum += part.Quantity
		}
		if b.Quantity < 0 || len(b.Allocations) > 0 && sum != b.Quantity || !b.Hour.Equal(b.Timestamp.Truncate(time.Hour)) {
			t.Errorf("stored %+v", b)
		}
	}
}

// sorted is an answer with its results in an order of their own.
func sorted(t *testing.T, a asked) asked {
	t.Helper()
	var whole map[string]any
	if err := json.Unmarshal([]byte(a.Body), &whole); err != nil {
		t.Fatal(err)
	}
	results, _ := whole["Results"].([]any)
	slices.SortFunc(results, func(x, y any) int { return cmp.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	a.Body = string(text)
	return a
}

// FuzzControl: whatever is asked of the control endpoints is answered in the form that it has, and with a hint where it is refused; what is
// refused changes nothing; and what was changed is the same after a restart.
func FuzzControl(f *testing.F) {
	for _, call := range [][3]string{
		{"PUT", "licenses", `{"licenseArn": "` + licenseB + `", "accountId": "` + buyer + `", "activatedAt": "2026-03-10T14:00:00Z", "deprovisionedAt": "0000-01-01T00:00:00+01:00"}`},
		{"PUT", "licenses", `{"licenseArn": "` + licenseA + `", "accountId": "` + other + `", "productCode": "p", "endedAt": "9999-12-31T23:59:59-01:00"}`},
		{"PUT", "licenses", `{"licenseArn": "` + licenseA + `", "accountId": "` + buyer + `", "deprovisionedAt": "2026-03-10T13:00:00.5+01:00"}`},
		{"PUT", "customers", `{"customerIdentifier": "cust-1", "active": false}`}, {"PUT", "customers", `{"accountId": "` + buyer + `", "active": true} ]`}, {"PUT", "suspensions", `{"accountId": "` + buyer + `", "suspended": true}`},
		{"POST", "tokens", `{"accountId": "` + buyer + `", "ttl": "-1s", "token": "\u0000\ud800"}`}, {"POST", "tokens", `{"ttl": "2562047h", "customerIdentifier": "x"}`}, {"POST", "tokens", `{"TTL": "1h", "Token": "a", "token": "b"}`},
		{"PUT", "dimensions", `{"name": "storage"}`}, {"DELETE", "dimensions", `{"name": "api_calls"}`}, {"POST", "faults", `{"kind": "loseReply", "probability": 0.5}`}, {"POST", "faults", `{"kind": "latency", "latency": "9999h", "times": -1}`},
		{"DELETE", "faults/1", ""}, {"DELETE", "faults", ""}, {"GET", "clock", ""}, {"PUT", "clock", `{"now": "9999-12-31T23:59:59Z"}`}, {"PUT", "clock", `{"now": "1700-01-01T00:00:00Z"}`}, {"POST", "clock", `{"advance": "2562047h"}`},
		{"POST", "reset", "{"}, {"GET", "ledger", ""}, {"GET", "stats", ""}, {"GET", "calls", ""}, {"GET", "", ""}, {"HEAD", "ledger", ""}, {"PATCH", "x/../y", ""},
		{"GET", "first-click?to=http://127.0.0.1/%3Cscript%3E%22&customerIdentifier=%ff&accountId=", ""}, {"GET", "first-click?to=javascript:alert(1)", ""}, {"GET", "first-click?to=https://a&expired=true&offerType=free-trial&productCode=%00", ""},
	} {
		f.Add(call[0], call[1], []byte(call[2]))
	}
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		path = "/_simulator/" + path
		still := func(context.Context, time.Duration) error { return nil }
		file := filepath.Join(t.TempDir(), "journal")
		memory, _ := service(t, simulator.Options{Sleep: still})
		kept, _ := service(t, simulator.Options{Sleep: still, Journal: file})
		wantOutcome(t, meter(t, memory, batch(usage())), "Success")
		wantOutcome(t, meter(t, kept, batch(usage())), "Success")
		before := contents(t, file)
		a, b := ask(t, memory, method, path, nil, body), ask(t, kept, method, path, nil, body)
		if diff := gocmp.Diff(a, b); diff != "" {
			t.Errorf("answers (-memory +journal):\n%s", diff)
		}
		wantControl(t, method, path, body, a)
		if a.Status >= 300 && !bytes.Equal(before, contents(t, file)) {
			t.Errorf("status %d, and something has changed: %s", a.Status, contents(t, file)[len(before):])
		}
		closed(t, kept)
		again := reopen(t, file, simulator.Options{})
		memory.ClearFaults()
		if diff := gocmp.Diff(memory.Ledger(), again.Ledger()); diff != "" {
			t.Errorf("ledger (-memory +journal):\n%s", diff)
		}
		later := fields{"Timestamp": 1773154800}
		for _, call := range []fields{batch(usage(later)), batch(usage(later, fields{"LicenseArn": licenseB})), legacyBatch(legacy(later, fields{"Dimension": "storage"}))} {
			if x, y := meter(t, memory, call), meter(t, again, call); x.outcome() != y.outcome() {
				t.Errorf("%v is %s in memory, and after a restart %s", call, x.outcome(), y.outcome())
			}
		}
		if a.Status == 200 && strings.HasSuffix(path, "/tokens") {
			var issued struct{ Token string }
			if json.Unmarshal([]byte(a.Body), &issued) == nil {
				token := fields{"RegistrationToken": issued.Token}
				if diff := gocmp.Diff(call(t, memory, "ResolveCustomer", token).raw, call(t, again, "ResolveCustomer", token).raw); diff != "" {
					t.Errorf("the token (-memory +journal):\n%s", diff)
				}
			}
		}
		wantClock(t, method, path, body)
	})
}

// wantControl checks the form of an answer.
func wantControl(t *testing.T, method, path string, body []byte, a asked) {
	t.Helper()
	if method == http.MethodHead || a.Status/100 == 3 { // a path is put right
		return
	}
	var refused struct{ Error, Hint string }
	switch {
	case a.Broken || a.Status >= 500 || a.Status < 200:
		t.Fatalf("%+v", a)
	case a.Status >= 400:
		if json.Unmarshal([]byte(a.Body), &refused) != nil || refused.Error == "" || refused.Hint == "" {
			t.Errorf("status %d says no more than %s", a.Status, a.Body)
		}
	case a.Type == "application/json":
		if !json.Valid([]byte(a.Body)) {
			t.Errorf("answer %q", a.Body)
		}
	case strings.HasPrefix(a.Type, "text/html"):
		if action, values := form(t, a.Body); !strings.HasPrefix(action, "http") || values.Get("x-amzn-marketplace-token") == "" || strings.Contains(a.Body, "<script") {
			t.Errorf("page %s", a.Body)
		}
	}
	name := strings.TrimPrefix(path, "/_simulator/")
	if takes := slices.Contains([]string{"licenses", "customers", "suspensions", "tokens", "dimensions", "clock"}, name) || name == "faults" && method == http.MethodPost; takes && method != http.MethodGet && a.Status == 200 && !json.Valid(body) {
		t.Errorf("%q is taken for JSON", body)
	}
}

// wantClock checks a simulator's own clock: it is where it was set, or it says that it is not.
func wantClock(t *testing.T, method, path string, body []byte) {
	t.Helper()
	if path != "/_simulator/clock" || method == http.MethodGet {
		return
	}
	sim, err := simulator.New(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wish struct {
		Now     time.Time
		Advance string
	}
	before := sim.Now()
	a := ask(t, sim, method, path, nil, body)
	wantControl(t, method, path, body, a)
	if a.Status != 200 || json.Unmarshal(body, &wish) != nil {
		return
	}
	want := wish.Now
	if method == http.MethodPost {
		by, err := time.ParseDuration(wish.Advance)
		if err != nil {
			return // it stands twice
		}
		want = before.Add(by)
	}
	if got := sim.Now(); got.Sub(want).Abs() > time.Minute {
		t.Errorf("the clock is set to %v and shows %v", want, got)
	}
}

// FuzzJournal: a file is a journal, and then goes on from where it ends; or it is none, and is left as it is.
func FuzzJournal(f *testing.F) {
	whole, err := os.ReadFile("testdata/journal-v1.ndjson")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(true, whole)
	f.Add(true, whole[:len(whole)-7])
	f.Add(true, []byte(`{"format":"awsmp simulator journal","version":2}`+"\n"))
	f.Add(true, []byte(`{"format":"awsmp`))
	f.Add(true, []byte("\x00\n"))
	f.Add(false, []byte(`{"usage":{"productCode":"sim-product","records":[{"customerIdentifier":"cust-1","dimension":"d","hour":"2026-03-10T14:00:00Z","quantity":-1,"meteringRecordId":"x","at":"0000-01-01T00:00:00Z","timestamp":"9999-12-31T23:59:59Z"}]}}`+"\n"+`{"customer":{"customerIdentifier":"cust-1","accountId":"1","active":true}}`))
	f.Add(false, []byte(`{"license":{"licenseArn":"x","accountId":"y"}}`+"\n"+`{"reset":{}}`+"\n"+`{"token":{"token":"t","expires":"2026-03-10T16:00:00+01:00","issued":-1}}`+"\n"+`{"dimension":{"name":"","defined":false}}`))
	f.Add(false, []byte(`{}`))
	f.Add(false, []byte(`{"reset":{},"suspension":{"accountId":"111122223333","suspended":true}}`))
	f.Fuzz(func(t *testing.T, asItIs bool, text []byte) {
		if !asItIs {
			text = journalOf(text)
		}
		file := filepath.Join(t.TempDir(), "journal")
		try(t, os.WriteFile(file, text, 0o600))
		options := simulator.Options{Journal: file, OpenDoors: true, Now: (&clock{now: at(t, "2026-03-10T15:20:00")}).Now}
		sim, err := simulator.New(options)
		if err != nil {
			if !bytes.Equal(text, contents(t, file)) || !strings.Contains(err.Error(), "\nTry: ") {
				t.Errorf("the file is changed, or the error says no more than %v", err)
			}
			return
		}
		if taken := contents(t, file); !bytes.HasPrefix(text, taken) && !bytes.HasPrefix(taken, text) || bytes.ContainsRune(text[min(len(taken), len(text)):], '\n') {
			t.Errorf("what is left of %q is %q", text, taken)
		}
		outcome := meter(t, sim, batch(usage())).outcome()
		want := sim.Ledger()
		closed(t, sim)
		again := reopen(t, file, options)
		wantLedger(t, again, want)
		if second := meter(t, again, batch(usage())).outcome(); second != outcome {
			t.Errorf("a call is %s, and after a restart %s", outcome, second)
		}
		wantLedger(t, again, want)
	})
}

// journalOf makes a journal of changes, one a line, with the checksums that they need.
func journalOf(changes []byte) []byte {
	text := []byte(`{"format":"awsmp simulator journal","version":1}` + "\n")
	sum := crc32.ChecksumIEEE(text)
	for line := range bytes.SplitSeq(changes, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		sum = crc32.Update(sum, crc32.IEEETable, line)
		text = append(append(text, line[:len(line)-1]...), fmt.Sprintf(`,"crc32":"%08x"}`+"\n", sum)...)
	}
	return text
}
