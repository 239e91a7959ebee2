package simulator_test

import (
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/simulator"
)

// firstClick visits the page of a first click.
func firstClick(t *testing.T, sim *simulator.Simulator, path string) (int, string) {
	t.Helper()
	res, err := sim.Client().Get(simulator.Endpoint + "/_simulator/" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(page)
}

// form is the page's form as a browser would send it.
func form(t *testing.T, page string) (action string, values url.Values) {
	t.Helper()
	found := regexp.MustCompile(`<form method="post" action="([^"]*)">`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no form in\n%s", page)
	}
	values = url.Values{}
	for _, input := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(page, -1) {
		values.Add(html.UnescapeString(input[1]), html.UnescapeString(input[2]))
	}
	return html.UnescapeString(found[1]), values
}

func TestFirstClick(t *testing.T) {
	t.Parallel()
	const license = "arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef"
	for name, tt := range map[string]struct {
		query    url.Values
		resolved map[string]any // nil: the token has expired
		shown    []string
		offer    []string
	}{
		"nothing but where to": {
			resolved: map[string]any{"CustomerAWSAccountId": buyer, "LicenseArn": license, "ProductCode": product},
			shown:    []string{"<dd>" + buyer + "</dd>", "<dd>" + license + "</dd>", "<dd>" + product + "</dd>", "valid until 2026-03-10 19:20:00 UTC"},
		},
		"named": {
			query:    url.Values{"accountId": {other}, "licenseArn": {licenseB}, "productCode": {"second"}},
			resolved: map[string]any{"CustomerAWSAccountId": other, "LicenseArn": licenseB, "ProductCode": "second"},
			shown:    []string{"<dd>" + other + "</dd>", "<dd>second</dd>"},
		},
		"no license yet": {
			query:    url.Values{"licenseArn": {""}},
			resolved: map[string]any{"CustomerAWSAccountId": buyer, "ProductCode": product},
			shown:    []string{"<dd>none yet</dd>"},
		},
		"legacy": {
			query:    url.Values{"customerIdentifier": {"cust-1 <&>"}, "accountId": {""}},
			resolved: map[string]any{"CustomerIdentifier": "cust-1 <&>", "ProductCode": product},
			shown:    []string{"<dd>cust-1 &lt;&amp;&gt;</dd>"},
		},
		"legacy with an account": {
			query:    url.Values{"customerIdentifier": {"cust-1"}},
			resolved: map[string]any{"CustomerIdentifier": "cust-1", "CustomerAWSAccountId": buyer, "ProductCode": product},
		},
		"free trial": {
			query:    url.Values{"offerType": {"free-trial"}, "expired": {"false"}},
			resolved: map[string]any{"CustomerAWSAccountId": buyer, "LicenseArn": license, "ProductCode": product},
			offer:    []string{"free-trial"},
		},
		"expired": {query: url.Values{"expired": {"true"}}, shown: []string{"expired at 2026-03-10 15:19:59 UTC"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, clock := service(t, simulator.Options{})
			to := "https://seller.example/stage/register?lang=en&x=%2B"
			query := url.Values{"to": {to}}
			for name, values := range tt.query {
				query[name] = values
			}
			status, page := firstClick(t, sim, "first-click?"+query.Encode())
			if status != http.StatusOK {
				t.Fatalf("HTTP %d\n%s", status, page)
			}
			for _, want := range tt.shown {
				if !strings.Contains(page, want) {
					t.Errorf("the page does not show %q:\n%s", want, page)
				}
			}
			action, values := form(t, page)
			if action != to {
				t.Errorf("the form goes to %s, want %s", action, to)
			}
			token := values.Get("x-amzn-marketplace-token")
			if !strings.ContainsAny(token, "+/=") {
				t.Errorf("token %q has nothing that needs form encoding", token)
			}
			want := url.Values{"x-amzn-marketplace-token": {token}}
			if tt.offer != nil {
				want["x-amzn-marketplace-offer-type"] = tt.offer
			}
			if diff := cmp.Diff(want, values); diff != "" {
				t.Errorf("form (-want +got):\n%s", diff)
			}
			got := call(t, sim, "ResolveCustomer", fields{"RegistrationToken": token})
			if tt.resolved == nil {
				wantOutcome(t, got, "ExpiredTokenException")
				return
			}
			if diff := cmp.Diff(tt.resolved, got.raw); diff != "" {
				t.Errorf("resolved (-want +got):\n%s", diff)
			}
			_, again := firstClick(t, sim, "first-click?"+query.Encode())
			if _, second := form(t, again); second.Get("x-amzn-marketplace-token") == token {
				t.Error("a second click has the first one's token")
			}
			clock.now = clock.now.Add(4 * time.Hour)
			wantOutcome(t, call(t, sim, "ResolveCustomer", fields{"RegistrationToken": token}), "ExpiredTokenException")
		})
	}
}

func TestFirstClickErrors(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"":                                       "to is missing",
		"?to=":                                   "to is missing",
		"?to=/register":                          "http or https address",
		"?to=javascript:alert(1)":                "http or https address",
		"?to=data:text/html,x":                   "http or https address",
		"?to=file:///etc/passwd":                 "http or https address",
		"?to=http:register":                      "http or https address",
		"?to=http://":                            "http or https address",
		"?to=http://name:word@h/":                "http or https address",
		"?to=http://h%7f/":                       "http or https address",
		"?to=http://h/&to=http://i/":             "to is given twice",
		"?to=http://h/&licence=x":                `there is no "licence"`,
		"?to=http://h/&licenseArn=l-1":           "licenseArn is",
		"?to=http://h/&accountId=x":              "accountId is",
		"?to=http://h/&accountId=":               "accountId is",
		"?to=http://h/&accountId=12":             "use the buyer's 12 digits",
		"?to=http://h/&productCode=%20":          "productCode is",
		"?to=http://h/&offerType=x":              "offerType is",
		"?to=http://h/&expired=yes":              "expired is",
		"?to=http://h/%zz":                       "invalid URL escape",
		"?to=http://h/&customerIdentifier=c;d=e": "semicolon",
	} {
		sim, _ := service(t, simulator.Options{})
		status, answer := control(t, sim, "GET", "first-click"+query, "")
		said := answer.(map[string]any)
		if message := said["error"].(string); status != http.StatusBadRequest || !strings.Contains(message, want) {
			t.Errorf("%s: HTTP %d %q, want 400 and %q", query, status, message, want)
		}
		if hint := said["hint"].(string); !strings.Contains(hint, "/_simulator/first-click?to=http://127.0.0.1:8787/register") {
			t.Errorf("%s: hint %q", query, hint)
		}
	}
}

// A visit that shows no page issues no token, and a page that would show one is neither kept nor framed nor run.
func TestFirstClickOnTheWire(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{})
	get := func(method string) *http.Response {
		w := httptest.NewRecorder()
		sim.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/_simulator/first-click?to=http://127.0.0.1:1/register", nil))
		return w.Result()
	}
	head, page := get(http.MethodHead), get(http.MethodGet)
	if head.StatusCode != http.StatusOK || page.StatusCode != http.StatusOK {
		t.Errorf("HTTP %d and %d", head.StatusCode, page.StatusCode)
	}
	body, err := io.ReadAll(page.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, values := form(t, string(body))
	fresh, _ := service(t, simulator.Options{})
	if first := issue(t, fresh, simulator.Token{AccountID: buyer}); values.Get("x-amzn-marketplace-token") != first {
		t.Error("the page's token is not the first: HEAD issued one")
	}
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none';",
	} {
		if got := page.Header.Get(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if post := get(http.MethodPost); post.StatusCode != http.StatusNotFound {
		t.Errorf("POST: HTTP %d, want 404", post.StatusCode)
	}
}
