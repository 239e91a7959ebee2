package registration_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/internal/telemetry"
)

func TestParseFields(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("field%d", i)
		}
		return strings.Join(names, ",")
	}
	tests := []struct {
		text  string
		want  []registration.Field
		fails string
	}{
		{registration.DefaultFields, []registration.Field{{Name: "contactName", Required: true}, {Name: "contactEmail", Required: true}, {Name: "companyName"}, {Name: "useCase"}}, ""},
		{" a* , b_2 ", []registration.Field{{Name: "a", Required: true}, {Name: "b_2"}}, ""},
		{"", nil, ""},
		{"none", nil, ""},
		{"a,,b", nil, `"": use up to 64`},
		{"a,a*", nil, "twice"},
		{"2a", nil, "2a"},
		{"a**", nil, `"a*"`},
		{"a-b", nil, "a-b"},
		{"x-amzn-marketplace-token", nil, "letter first"},
		{"a<b", nil, "a<b"},
		{"é", nil, "é"},
		{strings.Repeat("a", 65), nil, "up to 64"},
		{many(21), nil, "there are 21"},
	}
	for _, test := range tests {
		t.Run(test.text[:min(len(test.text), 30)], func(t *testing.T) {
			t.Parallel()
			got, err := registration.ParseFields(test.text)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("error %v, want one that says %q", err, test.fails)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("error %v, %s", err, diff)
			}
		})
	}
	if got, err := registration.ParseFields(many(20)); len(got) != 20 || err != nil {
		t.Errorf("%d fields, error %v", len(got), err)
	}
}

func TestParsePromoted(t *testing.T) {
	t.Parallel()
	fields, err := registration.ParseFields(registration.DefaultFields + ",notes")
	if err != nil {
		t.Fatal(err)
	}
	for text, fails := range map[string]string{
		"": "", "none": "", "contactEmail": "", "contactEmail, companyName": "", "contactPhone": "none of the registration fields",
		"contactEmail,contactEmail": "twice", "useCase": "too long for an index", "notes": "too long for an index", "contactEmail*": "none of",
	} {
		if _, err := registration.ParsePromoted(text, fields); (err == nil) != (fails == "") || err != nil && !strings.Contains(err.Error(), fails) {
			t.Errorf("%q: error %v, want %q", text, err, fails)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := registration.Settings{ProductCode: product, Region: "us-east-1"}
	tests := []struct {
		name   string
		change func(*registration.Settings)
		fails  string
	}{
		{"the least", func(*registration.Settings) {}, ""},
		{"all", func(s *registration.Settings) {
			s.Fields, s.Promoted = []registration.Field{{Name: "a"}}, []string{"a"}
			s.Seller = registration.Seller{Name: "A & <b>", Product: "ß", Support: "https://example.com/help?a=b", Continue: "https://example.com:8443/"}
			s.AllowedOrigin = "https://www.example.com:8443"
		}, ""},
		{"support by mail", func(s *registration.Settings) { s.Seller.Support = "help@example.com" }, ""},
		{"origin of this machine", func(s *registration.Settings) { s.AllowedOrigin = "http://localhost:3000" }, ""},
		{"no product", func(s *registration.Settings) { s.ProductCode = "" }, "product code"},
		{"no Region", func(s *registration.Settings) { s.Region = "" }, "Region"},
		{"bad field", func(s *registration.Settings) { s.Fields = []registration.Field{{Name: "a b"}} }, `"a b"`},
		{"promoted alone", func(s *registration.Settings) { s.Promoted = []string{"a"} }, `"a"`},
		{"long name", func(s *registration.Settings) { s.Seller.Name = strings.Repeat("ä", 101) }, "seller's name"},
		{"two lines", func(s *registration.Settings) { s.Seller.Product = "a\nb" }, "product's name"},
		{"support by script", func(s *registration.Settings) { s.Seller.Support = "javascript:alert(1)" }, "support contact"},
		{"support without TLS", func(s *registration.Settings) { s.Seller.Support = "http://example.com" }, "support contact"},
		{"continue by script", func(s *registration.Settings) { s.Seller.Continue = "javascript:alert(1)" }, "https://"},
		{"continue on this machine", func(s *registration.Settings) { s.Seller.Continue = "http://localhost:3000/start" }, ""},
		{"continue on this machine by number", func(s *registration.Settings) { s.Seller.Continue = "http://127.0.0.1:3000" }, ""},
		{"continue without TLS", func(s *registration.Settings) { s.Seller.Continue = "http://example.com" }, `the continue URL "http://example.com"`},
		{"continue at a name like this machine's", func(s *registration.Settings) { s.Seller.Continue = "http://localhost.example.com" }, "continue URL"},
		{"continue as somebody", func(s *registration.Settings) { s.Seller.Continue = "http://localhost:80@example.com" }, "continue URL"},
		{"support on this machine", func(s *registration.Settings) { s.Seller.Support = "http://localhost:3000" }, "support contact"},
		{"continue nowhere", func(s *registration.Settings) { s.Seller.Continue = "https://" }, "https://"},
		{"every origin", func(s *registration.Settings) { s.AllowedOrigin = "*" }, "allowed origin"},
		{"null origin", func(s *registration.Settings) { s.AllowedOrigin = "null" }, "allowed origin"},
		{"origin with a path", func(s *registration.Settings) { s.AllowedOrigin = "https://example.com/" }, "allowed origin"},
		{"origin without TLS", func(s *registration.Settings) { s.AllowedOrigin = "http://example.com" }, "allowed origin"},
		{"origin as nobody sends it", func(s *registration.Settings) { s.AllowedOrigin = "https://Example.com" }, "allowed origin"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := good
			test.change(&s)
			if err := s.Check(); (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("error %v, want %q", err, test.fails)
			}
		})
	}
}

// How fields are asked for, by their names.
func TestInputs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"contactName":       {`type="text"`, `autocomplete="name"`, ">Your name <"},
		"contactEmail":      {`type="email"`, `autocomplete="email"`, `inputmode="email"`},
		"contactPhone":      {`type="tel"`, `autocomplete="tel"`, `inputmode="tel"`},
		"companyWebsite":    {`type="url"`, `autocomplete="url"`, `inputmode="url"`},
		"useCase":           {"<textarea", `aria-describedby="hint-useCase"`, `id="hint-useCase"`},
		"billingEmail":      {`type="email"`, `autocomplete="off"`, ">Billing email <"},
		"purchaseOrderID":   {`type="text"`, ">Purchase order ID <"},
		"purchase_order_no": {">Purchase order no <"},
		"VATNumber":         {">VAT number <"},
		"launchNotes":       {"<textarea", ">Launch notes <"},
		"line2Address":      {">Line2 address <"},
		"x":                 {">X <"},
	} {
		o := open(t, func(o *office) { o.Fields = []registration.Field{{Name: name, Required: true}} })
		page := o.post(alone(o.licensed(t))).Body.String()
		for _, part := range append(want, `id="field-`+name+`" name="`+name+`"`, " required") {
			if !strings.Contains(page, part) {
				t.Errorf("%s: the page does not have %q:\n%s", name, part, page)
			}
		}
		wellMade(t, page)
	}
}

// What the seller sets and what the buyer types is text, wherever it stands.
func TestTextIsText(t *testing.T) {
	t.Parallel()
	const nasty = `"><script>alert(1)</script>'{{.}}`
	o := open(t, func(o *office) {
		o.Seller = registration.Seller{Name: nasty, Product: nasty, Support: "https://example.com/?a=b\"c<d", Continue: "https://example.com/?a=b\"c<d"}
	})
	form := filled(o.licensed(t))
	for name := range form {
		if name != tokenKey {
			form.Set(name, nasty)
		}
	}
	page := o.post(form).Body.String()
	if strings.Contains(page, "<script") || strings.Count(page, "&lt;script&gt;") < 5 || !strings.Contains(page, "Error: ") {
		t.Error(page)
	}
	if page = o.post(filled(o.licensed(t))).Body.String(); strings.Contains(page, "<script") || !strings.Contains(page, "https://example.com/?a=b%22c%3cd") {
		t.Error(page)
	}
}

// A seller who sets nothing still has pages that make sense.
func TestASellerWithoutNames(t *testing.T) {
	t.Parallel()
	for _, s := range pageStates() {
		o := open(t, s.change, func(o *office) { o.Seller = registration.Seller{} })
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		w := httptest.NewRecorder()
		if s.form != nil {
			w = o.post(s.form(t, o))
		} else {
			o.ServeHTTP(w, r)
		}
		page := w.Body.String()
		if w.Code != s.status || !strings.Contains(page, "contact details are on the product’s page") || strings.Contains(page, "Example") {
			t.Errorf("%s: status %d: %s", s.name, w.Code, page)
		}
		wellMade(t, page)
	}
}

// The reference that the buyer is shown is found in the log, in which accounts are masked: the last group of a UUID may be twelve digits.
func TestReferenceIsFoundInAMaskedLog(t *testing.T) {
	t.Parallel()
	const id = "c6af9ac6-7b61-11e6-9a41-938812345678"
	o := open(t, func(o *office) {
		o.Customers, o.Log = busy{}, telemetry.NewLog(o.log, slog.LevelInfo)
	})
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(filled("token").Encode()))
	r.Header.Set("Content-Type", formType)
	r.Header.Set("X-Amzn-RequestId", id)
	w := httptest.NewRecorder()
	o.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), "<dd>"+id+"</dd>") || !strings.Contains(o.log.String(), " reference="+id+" ") {
		t.Errorf("%s\n%s", w.Body, o.log)
	}
}

// The reference is API Gateway's id of the request; what is no such id is not repeated to anybody.
func TestReference(t *testing.T) {
	t.Parallel()
	for id, taken := range map[string]bool{"c6af9ac6-7b61-11e6-9a41-93e8deadbeef": true, "": false, "short": false, "<b>0123456789</b>": false, strings.Repeat("a", 65): false} {
		o := open(t, func(o *office) { o.Customers = busy{} })
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(filled("token").Encode()))
		r.Header.Set("Content-Type", formType)
		r.Header.Set("X-Amzn-RequestId", id)
		w := httptest.NewRecorder()
		o.ServeHTTP(w, r)
		if got := id != "" && strings.Contains(w.Body.String(), "<dd>"+id+"</dd>") && strings.Contains(o.log.String(), "reference="+id); got != taken {
			t.Errorf("%q: taken %v\n%s\n%s", id, got, w.Body, o.log)
		}
	}
}
