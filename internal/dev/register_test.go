package dev_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/simulator"
)

// withFields asks buyers for a name.
func withFields(t *testing.T) func(*dev.Options) {
	t.Helper()
	fields, err := registration.ParseFields("contactName*,companyName")
	if err != nil {
		t.Fatal(err)
	}
	return func(o *dev.Options) {
		o.Registration = registration.Settings{Fields: fields, Seller: registration.Seller{Name: "Example Software"}}
	}
}

// firstClick posts a form to the registration page as a browser does that comes from AWS Marketplace.
func (m *machine) firstClick(form url.Values) (int, string) {
	m.t.Helper()
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, m.server.URL+"/register", strings.NewReader(form.Encode()))
	if err != nil {
		m.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	r.Header.Set("Origin", "https://aws.amazon.com")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	return m.do(r)
}

func TestABuyersFirstClick(t *testing.T) {
	t.Parallel()
	var story teller
	m := start(t, t.TempDir(), withFields(t), story.listen)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		m.server.URL+"/_simulator/first-click?"+url.Values{"to": {m.server.URL + "/register"}, "accountId": {buyerOne}, "licenseArn": {licenseOne}}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, page := m.do(r)
	found := regexp.MustCompile(`name="x-amzn-marketplace-token" value="([^"]+)"`).FindStringSubmatch(page)
	if found == nil || !strings.Contains(page, `action="`+m.server.URL+`/register"`) {
		t.Fatal(page)
	}
	form := url.Values{"x-amzn-marketplace-token": {html.UnescapeString(found[1])}}
	if status, page := m.firstClick(form); status != http.StatusOK || !strings.Contains(page, "Example Software") || !strings.Contains(page, `name="contactName"`) {
		t.Fatalf("%d %s", status, page)
	}
	form.Set("contactName", "Ada Example")
	if status, page := m.firstClick(form); status != http.StatusOK || strings.Contains(page, `name="contactName"`) {
		t.Fatalf("%d %s", status, page)
	}
	s, err := m.folder.Store.Subscriber(t.Context(), licenseOne, buyerOne)
	if err != nil || s == nil || s.ProductCode != simulator.DefaultProductCode || !cmp.Equal(s.Regions, []string{"us-east-1"}) {
		t.Errorf("%+v: %v", s, err)
	}
	p, err := m.folder.Store.Profile(t.Context(), licenseOne, buyerOne)
	if err != nil || p == nil || p.Fields["contactName"] != "Ada Example" {
		t.Errorf("%+v: %v", p, err)
	}
	m.firstClick(url.Values{"x-amzn-marketplace-token": {"none"}, "contactName": {"Ada Example"}})
	want := []string{"register: buyer …3333 of license …aaaa registered", "register: buyer refused: InvalidToken"}
	if diff := cmp.Diff(want, story.told()); diff != "" {
		t.Errorf("the story (-want +got):\n%s", diff)
	}
}

// What lets AWS Marketplace's page in lets nobody in elsewhere, and nothing in but a first click.
func TestOnlyAFirstClickComesFromAnotherSite(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	for _, at := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/register", 400}, // no token
		{"POST", "/register/", 403}, {"POST", "//register", 403}, {"POST", "/v1/events", 403}, {"POST", "/v1/usage", 403}, {"POST", "/v1/clock", 403},
		{"POST", "/_simulator/reset", 403}, {"PUT", "/register", 403},
	} {
		for _, host := range []string{"", "localhost:8787", "register.example"} { // the last is a name that leads here
			if host == "register.example" {
				at.status = http.StatusForbidden
			}
			r, err := http.NewRequestWithContext(t.Context(), at.method, m.server.URL+at.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Origin", "https://aws.amazon.com")
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Host = host
			if status, text := m.do(r); status != at.status {
				t.Errorf("%s %s of %q: %d %s", at.method, at.path, host, status, text)
			}
		}
	}
}

func TestRegistrationIsCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	folder, err := dev.OpenFolder(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	_, err = dev.New(t.Context(), dev.Options{Store: folder.Store, Registration: registration.Settings{Seller: registration.Seller{Continue: "here"}}})
	if err == nil || !strings.Contains(err.Error(), "https://") {
		t.Error(err)
	}
}
