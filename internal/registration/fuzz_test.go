package registration_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// Whatever is posted, in whatever type: no panic, no fault of ours, the headers that every answer has, and an answer in the form asked for.
func FuzzPost(f *testing.F) {
	const token = "good+token/=="
	f.Add(formType, "", filled(token).Encode())
	f.Add(formType, "text/html", tokenKey+"="+token)
	f.Add(formType, "application/json", tokenKey+"=good%2Btoken%2F%3D%3D&contactName=%ff&a;b")
	f.Add("application/json", "", `{"`+tokenKey+`":"`+token+`","contactName":"\ud800","contactEmail":"a@b.c","x":[[[{}]]]}`)
	f.Add("application/json;charset=utf-16", "*/*", "\xfe\xff\x00{")
	f.Add("multipart/form-data; boundary=x", ",;q=,", "--x--")
	f.Add(formType+"; charset", "application/json;q=1e400", "&&==&"+tokenKey)
	f.Fuzz(func(t *testing.T, contentType, accept, body string) {
		o := open(t)
		o.token(t, simulator.Token{Value: token, LicenseARN: license})
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		o.ServeHTTP(w, r)
		if w.Code < 200 || w.Code >= 500 || w.Header().Get("Cache-Control") != "no-store" || o.metrics.Of(metering.MetricRegistrationFailed).Items != 0 {
			t.Fatalf("status %d, headers %v", w.Code, w.Header())
		}
		if w.Header().Get("Content-Type") == "application/json" {
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s", w.Body)
			}
			return
		}
		wellMade(t, w.Body.String())
		styled(t, w)
		if s := o.subscriber(t, license); (s != nil) != strings.Contains(w.Body.String(), "You’re all set") && w.Code != 202 {
			t.Errorf("status %d, subscriber %v", w.Code, s)
		}
	})
}
