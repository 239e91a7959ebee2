package registration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/simulator"
)

func TestF49CORSForTheAllowedOriginAlone(t *testing.T) {
	t.Parallel()
	const allowed = "https://www.example.com"
	tests := []struct {
		name, setting, origin string
		want                  string
	}{
		{"its page", allowed, allowed, allowed},
		{"another's page", allowed, "https://evil.example", ""},
		{"a name that begins like it", allowed, allowed + ".evil.example", ""},
		{"null", allowed, "null", ""},
		{"none is allowed", "", allowed, ""},
		{"neither", "", "", ""},
	}
	for _, test := range tests {
		for _, method := range []string{"OPTIONS", "POST", "PUT"} {
			t.Run(test.name+" "+method, func(t *testing.T) {
				t.Parallel()
				o := open(t, func(o *office) { o.AllowedOrigin = test.setting })
				r := httptest.NewRequest(method, "/", strings.NewReader(`{"`+tokenKey+`":"x"}`))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Access-Control-Request-Method", "POST")
				if test.origin != "" {
					r.Header.Set("Origin", test.origin)
				}
				w := httptest.NewRecorder()
				o.ServeHTTP(w, r)
				header := w.Header()
				if got := header.Get("Access-Control-Allow-Origin"); got != test.want || !strings.Contains(header.Get("Vary"), "Origin") ||
					header.Get("Access-Control-Allow-Credentials") != "" {
					t.Errorf("status %d, headers %v", w.Code, header)
				}
				preflight := method == "OPTIONS" && test.want != ""
				if got := header.Get("Access-Control-Allow-Methods"); (got == "POST") != preflight || (header.Get("Access-Control-Allow-Headers") == "Content-Type") != preflight {
					t.Errorf("status %d, headers %v", w.Code, header)
				}
			})
		}
	}
}

func TestF49ABuyerSeesAPage(t *testing.T) {
	t.Parallel()
	for _, s := range pageStates() {
		_, w := show(t, s)
		if body := w.Body.String(); !strings.HasPrefix(body, "<!doctype html>") || strings.Contains(body, `{"`) {
			t.Errorf("%s: %s", s.name, body)
		}
	}
}

// Nobody's details are thrown away for want of a license; the seller sees it in a metric, and the license gets them when it is there.
func TestF49NoLicenseKeepsTheDetails(t *testing.T) {
	t.Parallel()
	o := open(t)
	w := o.post(filled(o.token(t, simulator.Token{})))
	if w.Code != http.StatusAccepted || o.metrics.Of(metering.MetricRegistrationEarly).Items != 1 || o.metrics.Of(metering.MetricRegistered).Items != 0 {
		t.Errorf("status %d, metrics %v", w.Code, o.metrics.Metrics())
	}
	if p := o.profile(t, product); p == nil || p.Fields["contactName"] != "Zoë Quartermain" {
		t.Errorf("profile %+v", p)
	}
	if w = o.post(filled(o.licensed(t))); w.Code != http.StatusOK || o.profile(t, license) == nil || o.subscriber(t, license) == nil {
		t.Errorf("status %d", w.Code)
	}
}

// A field that is left out the second time keeps its value and its promoted copy, both.
func TestF49AnOmittedPromotedField(t *testing.T) {
	t.Parallel()
	o := open(t, func(o *office) { o.Promoted = []string{"companyName", "contactEmail"} })
	form := filled(o.licensed(t))
	o.post(form)
	form.Del("companyName")
	form.Set("contactEmail", "max@buyer.example")
	o.post(form)
	p := o.profile(t, license)
	for name, want := range map[string]string{"companyName": "Quartermain & Søn", "contactEmail": "max@buyer.example"} {
		if p.Fields[name] != want || p.Promoted[name] != want {
			t.Errorf("%s: %q, its copy %q, want %q", name, p.Fields[name], p.Promoted[name], want)
		}
	}
}

func TestF49APromotedFieldNamedLikeAnAttribute(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"licenseArn", "customerAWSAccountId", "productCode", "customerIdentifier", "registrationData", "createdAt", "updatedAt", "ttl"} {
		fields := []registration.Field{{Name: name}}
		if _, err := registration.ParsePromoted(name, fields); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
		s := registration.Settings{ProductCode: product, Region: "eu-west-1", Fields: fields}
		if err := s.Check(); err != nil { // within registrationData it is one of many
			t.Errorf("%s: error %v", name, err)
		}
		s.Promoted = []string{name}
		if err := s.Check(); err == nil {
			t.Errorf("%s can be promoted", name)
		}
	}
}

// Nothing that a buyer typed, and no token, gets into a log, a metric or the subscribers table, however a registration ends: whole or in part.
func TestF52NothingPersonalInLogs(t *testing.T) {
	t.Parallel()
	told := url.Values{
		"contactName": {"Zoë Quartermain-Albright"}, "contactEmail": {"zoe.qalbright@vlmail.example"},
		"companyName": {"Vermilion Ladder GmbH"}, "useCase": {"Ledgers of\r\nPomegranates"}, "contactPhone": {"+49 5550 198 7766"},
	}
	const secret = "tokensecret+Begin/Middle+End=="
	quoting := func(class awsapi.Class) error { // an adapter that forgets itself
		return &awsapi.Error{Class: class, Operation: "save", Err: fmt.Errorf("value %s %s %s", told.Get("contactName"), told.Get("contactEmail"), secret)}
	}
	ways := map[string]struct {
		change func(*office)
		token  simulator.Token
		mend   func(url.Values)
	}{
		"registered":     {token: simulator.Token{LicenseARN: license}},
		"early":          {},
		"expired":        {token: simulator.Token{LicenseARN: license, TTL: time.Nanosecond}},
		"other product":  {token: simulator.Token{LicenseARN: license, ProductCode: "other"}},
		"invalid token":  {mend: func(f url.Values) { f.Set(tokenKey, secret+"x") }},
		"bad fields":     {mend: func(f url.Values) { f.Set("contactEmail", "zoe.qalbright") }},
		"control":        {mend: func(f url.Values) { f.Set("contactName", "Quartermain-Albright\x07") }},
		"twice":          {mend: func(f url.Values) { f.Add("contactName", "Quartermain-Albright") }},
		"too large":      {mend: func(f url.Values) { f.Set("useCase", strings.Repeat("Pomegranates", 6000)) }},
		"resolve quotes": {change: func(o *office) { o.Customers = quotingCustomers{quoting(awsapi.Denied)} }},
		"profile quotes": {token: simulator.Token{LicenseARN: license}, change: func(o *office) { o.Profiles = &failing{profile: []error{quoting(awsapi.Invalid)}} }},
		"subscriber fails": {token: simulator.Token{LicenseARN: license}, change: func(o *office) {
			o.Subscribers = &failing{Store: memory.New(memory.Options{}), subscriber: []error{quoting(awsapi.Missing)}}
		}},
	}
	for name, way := range ways {
		for _, accept := range []string{"text/html", "application/json"} {
			t.Run(name+" "+accept, func(t *testing.T) {
				t.Parallel()
				var emf bytes.Buffer
				o := open(t, func(o *office) {
					o.Fields = append(o.Fields, registration.Field{Name: "contactPhone"})
					o.Promoted = []string{"contactPhone"}
					o.Metrics = telemetry.NewEMF(&emf, telemetry.EMFOptions{ProductCode: product})
					o.Log = slog.New(slog.NewTextHandler(o.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
					if way.change != nil {
						way.change(o)
					}
				})
				token := way.token
				token.Value = secret
				form := url.Values{tokenKey: {o.token(t, token)}}
				for k, v := range told {
					form[k] = v
				}
				if way.mend != nil {
					way.mend(form)
				}
				o.send(formType, accept, form.Encode())
				subscribers := ""
				for _, key := range []string{license, product} {
					if s := o.subscriber(t, key); s != nil {
						text, err := json.Marshal(s.Item())
						if err != nil {
							t.Fatal(err)
						}
						subscribers += string(text)
					}
				}
				if o.log.String() == "" || emf.Len() == 0 || name == "registered" && subscribers == "" {
					t.Fatal("there is nothing to search")
				}
				where := strings.ToLower(o.log.String() + emf.String() + subscribers)
				for _, part := range parts(told, secret) {
					if strings.Contains(where, part) {
						t.Errorf("%q is in\n%s", part, where)
					}
				}
				for _, id := range []string{license, account} { // F52: not even most of an identifier
					if strings.Contains(o.log.String(), id[:len(id)-4]) {
						t.Errorf("%q is in the log:\n%s", id, o.log)
					}
				}
			})
		}
	}
}

type quotingCustomers struct{ err error }

func (q quotingCustomers) Resolve(context.Context, string) (metering.Customer, error) {
	return metering.Customer{}, q.err
}

// parts are the words of what was told and of the token.
func parts(told url.Values, token string) []string {
	all := []string{strings.ToLower(token)}
	for _, v := range told {
		for word := range strings.FieldsFuncSeq(strings.ToLower(v[0]), func(r rune) bool { return strings.ContainsRune(" -.@\r\n+", r) }) {
			if len(word) > 3 && word != "example" {
				all = append(all, word)
			}
		}
	}
	for word := range strings.FieldsFuncSeq(strings.ToLower(token), func(r rune) bool { return strings.ContainsRune("+/=", r) }) {
		all = append(all, word)
	}
	return all
}
