package registration_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/simulator"
)

// What a program gets, as it gets it.
func TestAnswersInJSON(t *testing.T) {
	t.Parallel()
	buyer := map[string]any{"customerAWSAccountId": account, "productCode": product}
	with := func(m map[string]any, more map[string]any) map[string]any {
		all := map[string]any{}
		for _, from := range []map[string]any{m, more} {
			for k, v := range from {
				all[k] = v
			}
		}
		return all
	}
	good := `"contactName":"Zoë","contactEmail":"zoe@buyer.example"`
	tests := []struct {
		name   string
		change func(*office)
		token  simulator.Token
		body   string // after the token
		status int
		want   map[string]any // without message and hint
	}{
		{"registered", continues, simulator.Token{LicenseARN: license}, good, 200,
			with(buyer, map[string]any{"status": "registered", "licenseArn": license, "continueUrl": "https://app.example.com/start"})},
		{"legacy", nil, simulator.Token{CustomerIdentifier: "cust-1"}, good + `,"companyName":null`, 200,
			with(buyer, map[string]any{"status": "registered", "customerIdentifier": "cust-1"})},
		{"no license yet", nil, simulator.Token{}, good, 202, with(buyer, map[string]any{"status": "waiting"})},
		{"no fields asked for", asksNothing, simulator.Token{LicenseARN: license}, `"contactName":7`, 200,
			with(buyer, map[string]any{"status": "registered", "licenseArn": license})},
		{"fields missing", nil, simulator.Token{LicenseARN: license}, `"contactEmail":"zoe"`, 422, map[string]any{
			"error": "InvalidFields", "fields": map[string]any{"contactName": "Enter your name.", "contactEmail": "Enter an email address such as name@example.com."},
		}},
		{"no text", nil, simulator.Token{LicenseARN: license}, `"contactName":7`, 400, map[string]any{"error": "BadRequest"}},
		{"expired", nil, simulator.Token{LicenseARN: license, TTL: time.Nanosecond}, good, 400, map[string]any{"error": "ExpiredToken"}},
		{"another product", nil, simulator.Token{LicenseARN: license, ProductCode: "other"}, good, 400, map[string]any{"error": "WrongProduct", "reference": true}},
		{"busy", func(o *office) { o.Customers = busy{} }, simulator.Token{}, good, 503, map[string]any{"error": "TryAgain", "reference": true}},
		{"misconfigured", func(o *office) { o.Customers = forbidden{} }, simulator.Token{}, good, 500, map[string]any{"error": "ContactSeller", "reference": true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := open(t, func(o *office) {
				if test.change != nil {
					test.change(o)
				}
			})
			token, err := json.Marshal(o.token(t, test.token))
			if err != nil {
				t.Fatal(err)
			}
			w := o.send("application/json; charset=utf-8", "", `{"`+tokenKey+`":`+string(token)+`,"x-amzn-marketplace-agreement-id":{"a":[1]},`+test.body+`}`)
			got := map[string]any{}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("error %v, %s: %s", err, w.Header().Get("Content-Type"), w.Body)
			}
			if message, _ := got["message"].(string); message == "" {
				t.Error("there is no message")
			}
			if hint, _ := got["hint"].(string); hint == "" && w.Code >= 400 {
				t.Error("there is no hint")
			}
			if reference, _ := got["reference"].(string); reference != "" {
				got["reference"] = true
				if !strings.Contains(o.log.String(), "reference="+reference) {
					t.Errorf("the reference %q is not in the log:\n%s", reference, o.log)
				}
			}
			delete(got, "message")
			delete(got, "hint")
			if diff := cmp.Diff(test.want, got); diff != "" || w.Code != test.status {
				t.Errorf("status %d, %s", w.Code, diff)
			}
		})
	}
}
