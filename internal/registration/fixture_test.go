package registration_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/simulator"
)

var (
	_ registration.Customers   = (*marketplace.Client)(nil)
	_ registration.Profiles    = (*memory.Store)(nil)
	_ registration.Subscribers = (*memory.Store)(nil)
	_ registration.Subscribers = lifecycle.Subscribers(nil)
)

const (
	product  = "sim-product"
	license  = "arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef"
	account  = "444455556666"
	tokenKey = "x-amzn-marketplace-token"
	formType = "application/x-www-form-urlencoded"
)

// office is a registration with everything behind it: the simulated Marketplace through the AWS SDK, and a store in memory.
type office struct {
	*registration.Handler
	sim     *simulator.Simulator
	store   *memory.Store
	metrics *telemetry.Counters
	log     *lines
}

func open(t *testing.T, change ...func(*office)) *office {
	t.Helper()
	sim, err := simulator.New(simulator.Options{ProductCode: product})
	if err != nil {
		t.Fatal(err)
	}
	fields, err := registration.ParseFields(registration.DefaultFields)
	if err != nil {
		t.Fatal(err)
	}
	o := &office{sim: sim, store: memory.New(memory.Options{}), metrics: new(telemetry.Counters), log: new(lines)}
	o.Handler = &registration.Handler{
		Settings: registration.Settings{
			ProductCode: product, Region: "eu-west-1", Fields: fields,
			Seller: registration.Seller{Name: "Example Software", Product: "Example Insights", Support: "help@example.com"},
		},
		Customers: marketplace.New(marketplace.Options{Region: "us-east-1", Endpoint: simulator.Endpoint, HTTPClient: sim.Client()}),
		Profiles:  o.store, Subscribers: o.store, Metrics: o.metrics, Now: time.Now, Log: slog.New(slog.NewTextHandler(o.log, nil)),
	}
	for _, c := range change {
		c(o)
	}
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	return o
}

func continues(o *office)   { o.Seller.Continue = "https://app.example.com/start" }
func asksNothing(o *office) { o.Fields = nil }

func (o *office) token(t *testing.T, token simulator.Token) string {
	t.Helper()
	if token.AccountID == "" {
		token.AccountID = account
	}
	value, err := o.sim.IssueToken(token)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// licensed is a good token.
func (o *office) licensed(t *testing.T) string {
	return o.token(t, simulator.Token{LicenseARN: license})
}

// send posts a body.
func (o *office) send(contentType, accept, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/prod/register", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	o.ServeHTTP(w, r)
	return w
}

// post posts a form as a browser does.
func (o *office) post(form url.Values) *httptest.ResponseRecorder {
	return o.send(formType, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", form.Encode())
}

// filled is the default form, filled in.
func filled(token string) url.Values {
	return url.Values{
		tokenKey: {token}, "contactName": {"Zoë Quartermain"}, "contactEmail": {"zoe.quartermain@buyer.example"},
		"companyName": {"Quartermain & Søn"}, "useCase": {"Count sheep.\r\nAt night."},
	}
}

func alone(token string) url.Values { return url.Values{tokenKey: {token}} }

// pageState is a page that a buyer can come to, by posting a form to an office.
type pageState struct {
	name    string
	change  func(*office)
	form    func(t *testing.T, o *office) url.Values // nil: it is asked for with GET
	status  int
	title   string
	heading string
	says    []string
}

// pageStates are all pages.
func pageStates() []pageState {
	token := func(token simulator.Token) func(*testing.T, *office) url.Values {
		return func(t *testing.T, o *office) url.Values { return filled(o.token(t, token)) }
	}
	none := func(*office) {}
	return []pageState{
		{
			"form", none, func(t *testing.T, o *office) url.Values { return alone(o.licensed(t)) }, 200,
			"Set up your account – Example Insights – Example Software", "Set up your account",
			[]string{"Thank you for subscribing to Example Insights", "Your name <span class=\"need\">(required)</span>", "(optional)", `aria-current="step"`},
		},
		{
			"form with errors", none, func(t *testing.T, o *office) url.Values {
				form := filled(o.licensed(t))
				form.Set("contactName", " ")
				form.Set("contactEmail", "zoe at buyer")
				form.Set("companyName", strings.Repeat("ø", 257))
				return form
			}, 422,
			"Error: Set up your account – Example Insights – Example Software", "Set up your account",
			[]string{
				`<a href="#field-contactName">Enter your name.</a>`, `<a href="#field-contactEmail">`, "it has 257 characters, and there is room for 256",
				`value="zoe at buyer"`, `aria-describedby="problem-contactEmail" aria-invalid="true"`, "Count sheep.\nAt night.</textarea>", "3 answers need another look",
			},
		},
		{
			"done", none, token(simulator.Token{LicenseARN: license}), 200, "You’re all set – Example Insights – Example Software", "You’re all set",
			[]string{"now linked to Example Insights", "4444 5555 6666", "You can close this page", "(completed)"},
		},
		{
			"done and continue", continues, token(simulator.Token{LicenseARN: license}), 200, "You’re all set – Example Insights – Example Software",
			"You’re all set", []string{`<a class="button" href="https://app.example.com/start">Continue to Example Insights</a>`},
		},
		{
			"early", none, token(simulator.Token{}), 202, "Almost there – Example Insights – Example Software", "Almost there",
			[]string{"Your details are kept with Example Software.", "you will be asked for them once more", "Come back a little later", "Go to Manage subscriptions</a>"},
		},
		{
			"invalid token", none, func(*testing.T, *office) url.Values { return alone("nobody’s") }, 400,
			"Please come in through AWS Marketplace again – Example Insights – Example Software", "Please come in through AWS Marketplace again",
			[]string{"does not recognise the registration token", "“Set up your account” again"},
		},
		{
			"expired token", none, token(simulator.Token{LicenseARN: license, TTL: time.Nanosecond}), 400,
			"This page has expired – Example Insights – Example Software", "This page has expired",
			[]string{"Nothing is lost", "“Set up your account” again", "need to be entered once more"},
		},
		{
			"other product", none, token(simulator.Token{LicenseARN: license, ProductCode: "another"}), 400,
			"This subscription is for another product – Example Insights – Example Software", "This subscription is for another product",
			[]string{"mailto:help@example.com", "Reference"},
		},
		{
			"try again", func(o *office) { o.Customers = busy{} }, token(simulator.Token{LicenseARN: license}), 503,
			"Please try once more – Example Insights – Example Software", "Please try once more",
			[]string{`value="Zoë Quartermain"`, "Try again</button>", "Nothing is lost", "Reference"},
		},
		{
			"contact the seller", func(o *office) { o.Customers = forbidden{} }, token(simulator.Token{LicenseARN: license}), 500,
			"We could not set up your account – Example Insights – Example Software", "We could not set up your account",
			[]string{"not your doing", "mailto:help@example.com", "Reference"},
		},
		{
			"too much text", none, func(t *testing.T, o *office) url.Values {
				form := filled(o.licensed(t))
				form.Set("useCase", strings.Repeat("語", 60_000))
				return form
			}, 413, "That was too much text – Example Insights – Example Software", "That was too much text",
			[]string{"More than 512 KB arrived", "“Set up your account” again", "Go to Manage subscriptions</a>"},
		},
		{
			"unreadable", none, func(t *testing.T, o *office) url.Values {
				form := filled(o.licensed(t))
				form.Set("companyName", "S\xf8n")
				return form
			}, 400, "We could not read that – Example Insights – Example Software", "We could not read that",
			[]string{"not UTF-8", "“Set up your account” again", "Go to Manage subscriptions</a>"},
		},
		{
			"no token", none, nil, 200, "Start from AWS Marketplace – Example Insights – Example Software", "Start from AWS Marketplace",
			[]string{"Manage subscriptions", "Set up your account"},
		},
	}
}

// busy and forbidden are a Marketplace that says no for a while, and for good.
type (
	busy      struct{}
	forbidden struct{}
)

func (busy) Resolve(context.Context, string) (metering.Customer, error) {
	return metering.Customer{}, &awsapi.Error{Class: awsapi.Throttled, Operation: "resolve", Err: errors.New("too fast")}
}

func (forbidden) Resolve(context.Context, string) (metering.Customer, error) {
	return metering.Customer{}, &awsapi.Error{Class: awsapi.Denied, Operation: "resolve", Err: errors.New("no")}
}

// lines are what a log writes.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
