package registration_test

import (
	"context"
	"errors"
	"html"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/simulator"
)

var audit = cmpopts.IgnoreFields(metering.Profile{}, "CreatedAt", "UpdatedAt")

func (o *office) profile(t *testing.T, license string) *metering.Profile {
	t.Helper()
	p, err := o.store.Profile(t.Context(), license, account)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (o *office) subscriber(t *testing.T, license string) *metering.Subscriber {
	t.Helper()
	s, err := o.store.Subscriber(t.Context(), license, account)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What a filled form leaves behind: the profile with all that was told, the subscriber with none of it.
func TestWhatIsWritten(t *testing.T) {
	t.Parallel()
	told := map[string]string{
		"contactName": "Zoë Quartermain", "contactEmail": "zoe.quartermain@buyer.example", "companyName": "Quartermain & Søn", "useCase": "Count sheep.\nAt night.",
	}
	tests := []struct {
		name       string
		token      simulator.Token
		key        string
		identifier string
		subscribed bool
	}{
		{"by license", simulator.Token{LicenseARN: license}, license, "", true},
		{"by identifier", simulator.Token{CustomerIdentifier: "cust-1"}, product, "cust-1", true},
		{"no license yet", simulator.Token{}, product, "", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := open(t, func(o *office) { o.Promoted = []string{"contactEmail"} })
			form := filled(o.token(t, test.token))
			form.Set("contactName", "  Zoë Quartermain\t") // space around is nobody's name
			form.Set("admin", "true")                      // nobody asked for it
			for range 2 {                                  // again is an update
				if w := o.post(form); w.Code/100 != 2 {
					t.Fatalf("status %d: %s", w.Code, w.Body)
				}
			}
			want := &metering.Profile{
				License: test.key, Account: account, ProductCode: product, CustomerIdentifier: test.identifier,
				Fields: told, Promoted: map[string]string{"contactEmail": told["contactEmail"]},
			}
			if diff := cmp.Diff(want, o.profile(t, test.key), audit); diff != "" {
				t.Error(diff)
			}
			switch s := o.subscriber(t, test.key); {
			case (s != nil) != test.subscribed:
				t.Errorf("subscriber %+v", s)
			case s != nil && (s.ProductCode != product || !slices.Equal(s.Regions, []string{"eu-west-1"}) || len(s.Other) > 0 || s.Status != ""):
				t.Errorf("subscriber %+v", s)
			}
			metric := metering.MetricRegistered
			if !test.subscribed {
				metric = metering.MetricRegistrationEarly
			}
			if n := o.metrics.Of(metric).Items; n != 2 {
				t.Errorf("%s was counted %d times", metric, n)
			}
		})
	}
}

// Nobody is written down before they have told what they have to, for another product, or by a token that is no good.
func TestNothingIsWritten(t *testing.T) {
	t.Parallel()
	for _, s := range pageStates() {
		if s.form == nil || strings.HasPrefix(s.name, "done") || s.name == "early" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			o, _ := show(t, s)
			for _, key := range []string{license, product} {
				if p, s := o.profile(t, key), o.subscriber(t, key); p != nil || s != nil {
					t.Errorf("profile %v, subscriber %v", p, s)
				}
			}
		})
	}
}

// Without fields the first click is the only one.
func TestWithoutFields(t *testing.T) {
	t.Parallel()
	o := open(t, asksNothing)
	w := o.post(alone(o.licensed(t)))
	if w.Code != 200 || !strings.Contains(w.Body.String(), "You’re all set") || o.subscriber(t, license) == nil || o.profile(t, license) == nil {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	w = o.post(alone(o.token(t, simulator.Token{})))
	if w.Code != 202 || strings.Contains(w.Body.String(), "details are saved") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// Case 52: License Updated and the registration, in both orders, give one subscriber.
func TestCase52UpdatedBeforeAndAfterRegistration(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 15, 0, 0, 0, time.UTC)
	updated := metering.LicenseEvent{License: license, Account: account, Agreement: "agmt-1", ProductCode: product, At: now}.UpdatedAt(now)
	var subscribers []*metering.Subscriber
	for _, first := range []string{"event", "registration"} {
		o := open(t, func(o *office) { o.Now = func() time.Time { return now } })
		register := func() { o.post(filled(o.licensed(t))) }
		event := func() {
			if _, _, err := o.store.ChangeSubscriber(t.Context(), updated); err != nil {
				t.Fatal(err)
			}
		}
		steps := []func(){event, register}
		if first == "registration" {
			slices.Reverse(steps)
		}
		for range 2 {
			for _, step := range steps {
				step()
			}
		}
		subscribers = append(subscribers, o.subscriber(t, license))
	}
	if diff := cmp.Diff(subscribers[0], subscribers[1]); diff != "" {
		t.Error(diff)
	}
	if s := subscribers[0]; s.Status != metering.LifecycleActive || s.AgreementStatus != metering.LifecycleActive || s.ProductCode != product ||
		!slices.Equal(s.Regions, []string{"eu-west-1"}) {
		t.Errorf("%+v", s)
	}
}

// A registration in the last hour of a license, or after it, leaves the statuses to the events.
func TestRegistrationKeepsStatuses(t *testing.T) {
	t.Parallel()
	o := open(t)
	now := time.Now().UTC()
	before, _, err := o.store.ChangeSubscriber(t.Context(), metering.LicenseEvent{License: license, Account: account, At: now}.DeprovisionedAt(now))
	if err != nil {
		t.Fatal(err)
	}
	o.post(filled(o.licensed(t)))
	after := o.subscriber(t, license)
	if after.Status != metering.LifecycleDeprovisioning || !after.Expiry.Equal(before.Expiry) || len(after.Regions) != 1 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// failing is a store of which the first writes fail.
type failing struct {
	*memory.Store
	profile, subscriber []error // of the next writes; a nil and what comes after succeeds
	written             []string
}

func next(errs *[]error) (err error) {
	if len(*errs) > 0 {
		err, *errs = (*errs)[0], (*errs)[1:]
	}
	return err
}

func (f *failing) SaveProfile(ctx context.Context, c metering.ProfileChange) error {
	f.written = append(f.written, "profile")
	if err := next(&f.profile); err != nil {
		return err
	}
	return f.Store.SaveProfile(ctx, c)
}

func (f *failing) ChangeSubscriber(ctx context.Context, c metering.SubscriberChange) (metering.Subscriber, bool, error) {
	f.written = append(f.written, "subscriber")
	if err := next(&f.subscriber); err != nil {
		return metering.Subscriber{}, false, err
	}
	return f.Store.ChangeSubscriber(ctx, c)
}

// Writes are repeated while that may help, the profile's first; and what ends a registration is said with what to do.
func TestTroubleWithTheStore(t *testing.T) {
	t.Parallel()
	of := func(class awsapi.Class) error {
		return &awsapi.Error{Class: class, Operation: "write", Resource: "awsmp-x-customer-profile", Err: errors.New("no")}
	}
	busy, denied := of(awsapi.Throttled), of(awsapi.Denied)
	tests := []struct {
		name                string
		profile, subscriber []error
		status              int
		cause               string
		written             []string
	}{
		{"passing", []error{busy, busy}, []error{of(awsapi.Unavailable), errors.New("odd")}, 200, "", []string{"profile", "profile", "profile", "subscriber", "subscriber", "subscriber"}},
		{"profile busy", []error{busy, busy, busy}, nil, 503, "ProfileThrottled", []string{"profile", "profile", "profile"}},
		{"subscriber busy", nil, []error{busy, busy, busy}, 503, "SubscriberThrottled", []string{"profile", "subscriber", "subscriber", "subscriber"}},
		{"profile denied", []error{denied}, nil, 500, "ProfileDenied", []string{"profile"}},
		{"no subscribers table", nil, []error{of(awsapi.Missing)}, 500, "SubscriberMissing", []string{"profile", "subscriber"}},
		{"time is up", []error{of(awsapi.Ended)}, nil, 503, "ProfileEnded", []string{"profile"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &failing{Store: memory.New(memory.Options{}), profile: test.profile, subscriber: test.subscriber}
				o := open(t, func(o *office) { o.Profiles, o.Subscribers, o.store = f, f, f.Store })
				start := time.Now()
				form := filled(o.licensed(t))
				w := o.post(form)
				if w.Code != test.status || !slices.Equal(f.written, test.written) || time.Since(start) > 2*time.Second {
					t.Fatalf("status %d after writes of %v in %v", w.Code, f.written, time.Since(start))
				}
				if n := o.metrics.By(metering.MetricRegistrationFailed, test.cause).Items; (n == 1) != (test.cause != "") {
					t.Errorf("failures of cause %q: %d", test.cause, n)
				}
				if (w.Header().Get("Retry-After") == "5") != (test.status == 503) {
					t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
				}
				if test.status == 503 { // pressed again, with what the page holds
					if w = o.post(formOf(t, w)); w.Code != 200 || o.profile(t, license).Fields["useCase"] != "Count sheep.\nAt night." {
						t.Errorf("again: status %d, profile %v", w.Code, o.profile(t, license))
					}
				}
			})
		})
	}
}

var sent = regexp.MustCompile(`<input[^>]* name="([^"]*)"[^>]* value="([^"]*)"|<textarea[^>]* name="([^"]*)"[^>]*>\n([^<]*)</textarea>`)

// formOf is what a browser would send of a page.
func formOf(t *testing.T, w *httptest.ResponseRecorder) url.Values {
	t.Helper()
	form := url.Values{}
	for _, m := range sent.FindAllStringSubmatch(w.Body.String(), -1) {
		form.Set(m[1]+m[3], html.UnescapeString(m[2]+m[4]))
	}
	return form
}

// The Marketplace's trouble: what passes is asked again by itself, and then by the buyer.
func TestTroubleWithTheMarketplace(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind   simulator.FaultKind
		times  int
		status int
		cause  string
	}{
		{simulator.Throttle, 2, 200, ""},
		{simulator.Throttle, 3, 503, "ResolveThrottled"},
		{simulator.InternalError, 3, 503, "ResolveUnavailable"},
		{simulator.Unreachable, 3, 503, "ResolveUnavailable"},
		{simulator.LoseReply, 1, 200, ""},
		{simulator.Disabled, 1, 500, "ResolveDenied"},
	}
	for _, test := range tests {
		t.Run(string(test.kind)+" "+test.cause, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := open(t)
				form := filled(o.licensed(t))
				o.sim.Inject(simulator.Fault{Kind: test.kind, Times: test.times})
				w := o.post(form)
				if n := o.metrics.By(metering.MetricRegistrationFailed, test.cause).Items; w.Code != test.status || (n == 1) != (test.cause != "") {
					t.Errorf("status %d, %d failures of cause %q\n%s", w.Code, n, test.cause, o.log)
				}
				if w = o.post(form); w.Code != 200 { // it has passed
					t.Errorf("again: status %d", w.Code)
				}
			})
		})
	}
}

// The first click met trouble, before there was any form: the button brings the token alone, and then the form is there.
func TestTroubleAtTheFirstClick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := open(t)
		form := alone(o.licensed(t))
		o.sim.Inject(simulator.Fault{Kind: simulator.Throttle, Times: 3})
		w := o.post(form)
		again := formOf(t, w)
		if diff := cmp.Diff(form, again); w.Code != 503 || diff != "" {
			t.Fatalf("status %d, %s", w.Code, diff)
		}
		if w = o.post(again); w.Code != 200 || !strings.Contains(w.Body.String(), "Thank you for subscribing") {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	})
}

// An answer of ResolveCustomer without an account is no customer.
func TestNoAccount(t *testing.T) {
	t.Parallel()
	o := open(t, func(o *office) { o.Customers = customer{ProductCode: product, License: license} })
	if w := o.post(filled("token")); w.Code != 500 || o.metrics.By(metering.MetricRegistrationFailed, "ResolveIncomplete").Items != 1 {
		t.Errorf("status %d", w.Code)
	}
}

type customer metering.Customer

func (c customer) Resolve(context.Context, string) (metering.Customer, error) {
	return metering.Customer(c), nil
}
