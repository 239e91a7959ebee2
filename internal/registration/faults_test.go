package registration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"

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

// Nobody's details are thrown away for want of a license: they wait under the product's code, and the seller sees it in a metric. When the buyer
// comes again and the license is there, they are asked once more, and it is that answer which the license gets; the one that waits stays.
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
	again := o.licensed(t)
	if w = o.post(alone(again)); w.Code != http.StatusOK || formOf(t, w).Get("contactName") != "" || o.profile(t, license) != nil {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	form := filled(again)
	form.Set("contactName", "Max Quartermain")
	if w = o.post(form); w.Code != http.StatusOK || o.subscriber(t, license) == nil || o.profile(t, license).Fields["contactName"] != "Max Quartermain" ||
		o.profile(t, product).Fields["contactName"] != "Zoë Quartermain" {
		t.Errorf("status %d, profiles %v and %v", w.Code, o.profile(t, license), o.profile(t, product))
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
	oneOf := func(part string) func(*office) { // as one that is not of AWS
		return func(o *office) {
			o.Profiles = &failing{profile: slices.Repeat([]error{fmt.Errorf("saving %q", part)}, 3)}
		}
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
		"too large":      {mend: func(f url.Values) { f.Set("useCase", strings.Repeat("Pomegranates", 60_000)) }},
		"resolve quotes": {change: func(o *office) { o.Customers = quotingCustomers{quoting(awsapi.Denied)} }},
		"profile quotes": {token: simulator.Token{LicenseARN: license}, change: func(o *office) { o.Profiles = &failing{profile: []error{quoting(awsapi.Invalid)}} }},
		"a long word":    {token: simulator.Token{LicenseARN: license}, change: oneOf("about pomegranates")},
		"a line":         {token: simulator.Token{LicenseARN: license}, change: oneOf("Ledgers of")},
		"a short word":   {token: simulator.Token{LicenseARN: license}, change: oneOf("zoë")},
		"too long":       {mend: func(f url.Values) { f.Set("useCase", strings.Repeat("Pomegranates", 6000)) }},
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
					// Times stand still: those of the day hold a part of the telephone number, now and then.
					noon := func() time.Time { return time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC) }
					o.Metrics = telemetry.NewEMF(&emf, telemetry.EMFOptions{ProductCode: product, Now: noon})
					o.Log = slog.New(slog.NewTextHandler(o.log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
						if len(groups) == 0 && a.Key == slog.TimeKey {
							return slog.Time(a.Key, noon())
						}
						return a
					}}))
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

// What a seller needs to mend a fault is in the log, also where a buyer writes the words that errors are made of.
func TestCausesAndHintsSurvive(t *testing.T) {
	t.Parallel()
	const (
		tried    = "save profile (awsmp-x-customer-profile): "
		refused  = "User is not authorized to perform this action (AccessDeniedException)"
		hint     = ". Try: allow the caller's role the IAM action dynamodb:UpdateItem on awsmp-x-customer-profile"
		withheld = "withheld, it holds what the buyer typed"
	)
	sdk := &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "UpdateItem", Err: &smithy.GenericAPIError{
		Code: "AccessDeniedException", Message: "User is not authorized to perform this action",
	}}
	denied := awsapi.Wrap("save profile", "awsmp-x-customer-profile", sdk)
	tests := []struct {
		name, field, typed string
		err                error
		want               string
	}{
		{"a sentence", "useCase", "Perform this action on the profile of a user who is not here.", denied, tried + refused + hint},
		{"a sentence and an error that is not of AWS", "useCase", "To save the profile is not my aim.", errors.New("save profile: the disk is full"), "save profile: the disk is full"},
		{"a word of the SDK's, which is not shown", "companyName", "Operation Error", denied, tried + refused + hint},
		{"a word of the hint's", "companyName", "Role IAM", denied, tried + refused + hint},
		{"a word of the cause's", "companyName", "Authorized Dealers", denied, tried + withheld + hint},
		{"a line of the cause's", "useCase", "sheep\r\nthis action", denied, tried + withheld + hint},
		{"a long word of the cause's", "useCase", "He, “Authorized”.", denied, tried + withheld + hint},
		{"wrapped", "companyName", "Authorized Dealers", fmt.Errorf("authorized: %w", denied), tried + withheld + hint},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := open(t, func(o *office) { o.Profiles = &failing{profile: slices.Repeat([]error{test.err}, 3)} })
				form := filled(o.licensed(t))
				form.Set(test.field, test.typed)
				if w, log := o.post(form), o.log.String(); w.Code < 500 || !strings.Contains(log, strings.TrimSuffix(fmt.Sprintf("error=%q", test.want), `"`)) {
					t.Errorf("status %d, want %q in\n%s", w.Code, test.want, log)
				}
			})
		})
	}
}

// Each post leaves one line, whatever comes of it; what is only looked at leaves none.
func TestEachPostLeavesOneLine(t *testing.T) {
	t.Parallel()
	for _, s := range pageStates() {
		o, _ := show(t, s)
		want := 1
		if s.form == nil {
			want = 0
		}
		log := o.log.String()
		if n := strings.Count(log, "\n"); n != want || want != strings.Count(log, "msg=registration outcome=") {
			t.Errorf("%s: %d lines, want %d:\n%s", s.name, n, want, log)
		}
		if s.name == "form" && (!strings.Contains(log, "level=INFO") || !strings.Contains(log, "outcome=Details fields=0") || len(o.metrics.Metrics()) != 0) {
			t.Errorf("the first click: metrics %v, log\n%s", o.metrics.Metrics(), log)
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
