package registration_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/simulator"
)

// What cannot be read is refused in words, counted, and asks nothing of the Marketplace.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	const jsonType = "application/json"
	token := tokenKey + "=t&"
	quoted := `{"` + tokenKey + `":"t",`
	tests := []struct {
		name, contentType, body string
		status                  int
		cause, says             string
	}{
		{"no content type", "", token, 415, "UnsupportedMediaType", "neither a form nor JSON"},
		{"multipart", "multipart/form-data; boundary=x", "--x--", 415, "UnsupportedMediaType", ""},
		{"XML", "text/xml", "<a/>", 415, "UnsupportedMediaType", ""},
		{"no media type", ";;;", token, 415, "UnsupportedMediaType", ""},
		{"too large", formType, token + "useCase=" + strings.Repeat("a", 512<<10), 413, "TooLarge", "512 KB"},
		{"bad escape", formType, token + "contactName=%zz", 400, "BadRequest", "not encoded"},
		{"semicolon", formType, token + "a;b", 400, "BadRequest", "not encoded"},
		{"not UTF-8", formType, token + "contactName=%ff", 400, "BadRequest", "not UTF-8"},
		{"token not UTF-8", formType, tokenKey + "=%ff", 400, "BadRequest", "not UTF-8"},
		{"control in token", formType, tokenKey + "=a%0ab", 400, "BadRequest", tokenKey},
		{"token twice", formType, token + token, 400, "BadRequest", "twice"},
		{"field twice", formType, token + "contactName=a&contactName=a", 400, "BadRequest", "contactName is there twice"},
		{"no token", formType, "contactName=a", 400, "MissingToken", "Start from AWS Marketplace"},
		{"empty token", formType, tokenKey + "=", 400, "MissingToken", "Start from AWS Marketplace"},
		{"empty form", formType, "", 400, "MissingToken", "Start from AWS Marketplace"},

		{"JSON cut off", jsonType, quoted, 400, "BadRequest", "not one JSON object"},
		{"empty JSON", jsonType, "", 400, "BadRequest", "not one JSON object"},
		{"JSON list", jsonType, `["t"]`, 400, "BadRequest", "not one JSON object"},
		{"two JSON objects", jsonType, quoted + `"a":1}{}`, 400, "BadRequest", "not one JSON object"},
		{"JSON not UTF-8", jsonType, quoted + "\"contactName\":\"\xff\"}", 400, "BadRequest", "not UTF-8"},
		{"JSON number", jsonType, quoted + `"contactName":7}`, 400, "BadRequest", "contactName is no text"},
		{"JSON token no text", jsonType, `{"` + tokenKey + `":["t"]}`, 400, "BadRequest", "is no text"},
		{"JSON field twice", jsonType, quoted + `"contactName":"a","contactName":"b"}`, 400, "BadRequest", "twice"},
		{"JSON control", jsonType, quoted + `"contactName":"a\u0007","contactEmail":"a@b.example"}`, 422, "InvalidFields", `{"contactName":"“Your name” held`},
		{"JSON without token", jsonType, `{}`, 400, "MissingToken", `"error":"MissingToken"`},
		{"JSON null token", jsonType, `{"` + tokenKey + `":null}`, 400, "MissingToken", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			w := o.send(test.contentType, "", test.body)
			said := w.Body.String()
			if w.Code != test.status || !strings.Contains(said, test.says) {
				t.Errorf("status %d: %s", w.Code, said)
			}
			if n := o.metrics.By(metering.MetricRegistrationRefused, test.cause).Items; n != 1 {
				t.Errorf("%d refusals of cause %s", n, test.cause)
			}
			if calls := o.sim.Calls(); len(calls) != 0 {
				t.Errorf("the Marketplace was asked: %v", calls)
			}
			if strings.Contains(o.log.String(), "%zz") {
				t.Errorf("the body is in the log:\n%s", o.log)
			}
		})
	}
}

// A body that breaks off, or is not the base64 that its event says, is the sender's fault.
func TestABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	o := open(t)
	r := httptest.NewRequest(http.MethodPost, "/", io.NopCloser(iotest.ErrReader(errors.New("malformed"))))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	o.ServeHTTP(w, r)
	if w.Code != 400 || !strings.Contains(w.Body.String(), `"error":"BadRequest"`) || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestACompressedBody(t *testing.T) {
	t.Parallel()
	o := open(t)
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(filled(o.licensed(t)).Encode()))
	r.Header.Set("Content-Type", formType)
	r.Header.Set("Content-Encoding", "gzip")
	w := httptest.NewRecorder()
	o.ServeHTTP(w, r)
	if w.Code != 415 {
		t.Errorf("status %d", w.Code)
	}
}

// What comes along with a paste, from a spreadsheet or a document, costs nobody what they typed.
func TestPastedText(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, field, pasted, want string }{
		{"a cell", "companyName", "Quartermain\tSøn", "Quartermain Søn"},
		{"a column", "companyName", "Quartermain\r\nSøn\n", "Quartermain Søn"},
		{"an old line end", "contactName", "Zoë\rQuartermain", "Zoë Quartermain"},
		{"a soft line break in a line", "contactName", "Zoë\vQuartermain", "Zoë Quartermain"},
		{"a page break in a line", "contactName", "Zoë\fQuartermain", "Zoë Quartermain"},
		{"a next-line control", "contactName", "Zoë\u0085Quartermain", "Zoë Quartermain"},
		{"a no-break space", "contactName", "Zoë\u00a0Quartermain", "Zoë Quartermain"},
		{"Unicode's line end", "contactName", "Zoë\u2028Quartermain", "Zoë Quartermain"},
		{"around a mail address", "contactEmail", "\tzoe@buyer.example\u00a0\r\n", "zoe@buyer.example"},
		{"a soft line break", "useCase", "Count sheep.\vAt night.", "Count sheep.\nAt night."},
		{"a page break", "useCase", "Count sheep.\fAt night.", "Count sheep.\nAt night."},
		{"Unicode's paragraph end", "useCase", "Count sheep.\u2029At night.", "Count sheep.\nAt night."},
		{"a table", "useCase", "sheep\t7\r\ngoats\t3", "sheep\t7\ngoats\t3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			form := filled(o.licensed(t))
			form.Set(test.field, test.pasted)
			if w := o.post(form); w.Code != 200 {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			if got := o.profile(t, license).Fields[test.field]; got != test.want {
				t.Errorf("kept %q, want %q", got, test.want)
			}
		})
	}
}

// A character that nobody sees is a problem of its field: the form comes back with what was typed, without that character, and can be sent as it is.
func TestInvisibleCharacters(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, field, typed, shown string }{
		{"zero byte", "contactName", "Zoë\x00 Q", "Zoë Q"},
		{"bell in a mail address", "contactEmail", "zoe\a@buyer.example", "zoe@buyer.example"},
		{"escape sequence", "useCase", "\x1b[31mCount\r\nsheep", "[31mCount\nsheep"},
		{"delete", "companyName", "Søn\x7f", "Søn"},
		{"C1 control", "companyName", "Quarter\u0086main", "Quartermain"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			form := filled(o.licensed(t))
			form.Set(test.field, test.typed)
			w := o.post(form)
			if page := w.Body.String(); w.Code != 422 || strings.Count(page, "held an invisible character") != 2 || !strings.Contains(page, `<a href="#field-`+test.field+`">`) {
				t.Fatalf("status %d: %s", w.Code, page)
			}
			again := formOf(t, w)
			form.Set(test.field, test.shown)
			form.Set("useCase", strings.ReplaceAll(form.Get("useCase"), "\r\n", "\n"))
			if diff := cmp.Diff(form, again); diff != "" {
				t.Errorf("the form that came back (-want +got):\n%s", diff)
			}
			if w = o.post(again); w.Code != 200 || o.profile(t, license).Fields[test.field] != test.shown {
				t.Errorf("again: status %d, profile %v", w.Code, o.profile(t, license))
			}
		})
	}
}

// The most that the fields hold fits, however it is encoded, with a long token; and what is a good deal longer comes back to be shortened.
func TestTheMostThatFieldsHoldFits(t *testing.T) {
	t.Parallel()
	const most = "😀" // 4 bytes; %F0%9F%98%80 in a form, and \ud83d\ude00 as a program may write it
	fields := make([]registration.Field, 20)
	for i := range fields {
		fields[i].Name = fmt.Sprintf("%s%02dComments", strings.Repeat("n", 54), i)
	}
	for _, media := range []string{formType, "application/json"} {
		for length, status := range map[int]int{1000: 200, 1500: 422} {
			t.Run(fmt.Sprintf("%s %d", media, length), func(t *testing.T) {
				t.Parallel()
				o := open(t, func(o *office) { o.Fields = fields })
				token := o.token(t, simulator.Token{LicenseARN: license, Value: strings.Repeat("+/=%", 2000)})
				form := alone(token)
				var members []string
				for _, f := range fields {
					form.Set(f.Name, strings.Repeat(most, length))
					members = append(members, fmt.Sprintf(`%q:"%s"`, f.Name, strings.Repeat(`\ud83d\ude00`, length)))
				}
				body := form.Encode()
				if media != formType {
					body = fmt.Sprintf(`{%q:%q,%s}`, tokenKey, token, strings.Join(members, ","))
				}
				if w := o.send(media, "", body); w.Code != status {
					t.Fatalf("%d bytes: status %d", len(body), w.Code)
				}
				if status != 200 {
					return
				}
				for name, got := range o.profile(t, license).Fields {
					if got != form.Get(name) {
						t.Errorf("%s was kept as %d bytes", name, len(got))
					}
				}
			})
		}
	}
}

// A browser that goes back from the answer to a posted form, which no cache keeps, has no page there: nobody is sent that way.
func TestNobodyIsSentBackInTheirBrowser(t *testing.T) {
	t.Parallel()
	for _, s := range pageStates() {
		_, w := show(t, s)
		if page := strings.ToLower(w.Body.String()); strings.Contains(page, "go back") || strings.Contains(page, "in your browser") {
			t.Errorf("%s: %s", s.name, page)
		}
	}
}

// A token is decoded from the form exactly once, and comes back from the page as it came.
func TestTokensAreOpaque(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"a+b", "a/b==", "a%2Bb", "%25", "a&b=c", `a"b'c<d>`, "ä✓", "a;b", strings.Repeat("+/=%", 500)} {
		t.Run(token[:min(len(token), 12)], func(t *testing.T) {
			t.Parallel()
			o := open(t)
			o.token(t, simulator.Token{Value: token, LicenseARN: license})
			w := o.post(alone(token))
			form := formOf(t, w)
			if diff := cmp.Diff([]string{token}, form[tokenKey]); diff != "" || w.Code != 200 {
				t.Fatalf("status %d, %s", w.Code, diff)
			}
			form.Set("contactName", "Zoë")
			form.Set("contactEmail", "zoe@buyer.example")
			if w := o.post(form); w.Code != 200 || o.subscriber(t, license) == nil {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		})
	}
}

// What AWS sends beside the token, and what anybody else does, is neither needed nor kept.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	o := open(t)
	form := filled(o.licensed(t))
	for _, name := range []string{"x-amzn-marketplace-agreement-id", "x-amzn-marketplace-product-id", "x-amzn-marketplace-offer-type", "isAdmin", "licenseArn", "productCode"} {
		form[name] = []string{"one", "two\x00"}
	}
	if w := o.post(form); w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if p := o.profile(t, license); len(p.Fields) != 4 || len(p.Promoted) != 0 || p.ProductCode != product {
		t.Errorf("%+v", p)
	}
}

func TestLimitsOfFields(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, value string
		good        bool
	}{
		{"contactName", strings.Repeat("✓", 256), true},
		{"contactName", strings.Repeat("✓", 257), false},
		{"contactName", "", false},
		{"contactName", " \t ", false},
		{"contactName", "\u202eevil", true},                                                // odd, and a matter of how it is shown
		{"useCase", strings.Repeat("\r\n", 1) + strings.Repeat("ä\r\n", 499) + "ää", true}, // 1,000 with one character a line end
		{"useCase", strings.Repeat("ä", 1001), false},
		{"useCase", "", true},
		{"contactEmail", "zoe@buyer.example", true},
		{"contactEmail", "zoë@büyer.example", true},
		{"contactEmail", "zoe+tag@sub.buyer.example", true},
		{"contactEmail", "zoe@buyer", false},
		{"contactEmail", "zoe", false},
		{"contactEmail", "@buyer.example", false},
		{"contactEmail", "zoe@", false},
		{"contactEmail", "zoe@buyer..example", false},
		{"contactEmail", "zoe@buyer.example.", false},
		{"contactEmail", "zoe@x@buyer.example", false},
		{"contactEmail", "Zoë <zoe@buyer.example>", false},
		{"contactEmail", "zoe@buyer.example, max@buyer.example", false},
		{"contactEmail", strings.Repeat("a", 250) + "@b.example", false},
	}
	for _, test := range tests {
		t.Run(test.name+" "+test.value[:min(len(test.value), 40)], func(t *testing.T) {
			t.Parallel()
			o := open(t)
			form := filled(o.licensed(t))
			form.Set(test.name, test.value)
			if w := o.post(form); (w.Code == 200) != test.good || w.Code != 200 && w.Code != 422 {
				t.Errorf("status %d", w.Code)
			}
		})
	}
}

// Who is answered in JSON, and who gets a page.
func TestWhoIsAnsweredInJSON(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/html": false, "application/json": true, "text/html,application/json": false,
		"application/json, text/plain, */*": true, "application/json;q=0.5, text/html": false, "text/html;q=0.5, application/json;q=0.9": true,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": false, "application/*": true, "APPLICATION/JSON": true,
		"application/json;q=0": false, "application/json;q=x": false, "*/*;q=0.1, application/json;q=0.1": true, "text/plain": false,
	} {
		t.Run(accept, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			w := o.send(formType, accept, url.Values{}.Encode())
			if got := w.Header().Get("Content-Type") == "application/json"; got != want {
				t.Errorf("%s", w.Header().Get("Content-Type"))
			}
		})
	}
}

// A program's form without the fields that are needed is told so: a page would be no use to it.
func TestATokenAloneFromAProgram(t *testing.T) {
	t.Parallel()
	o := open(t)
	w := o.send(formType, "application/json", alone(o.licensed(t)).Encode())
	if w.Code != 422 || !strings.Contains(w.Body.String(), `"contactName":"Enter your name."`) {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestMethodsAndHeaders(t *testing.T) {
	t.Parallel()
	tests := []struct {
		method, accept string
		status         int
		media          string
	}{
		{"GET", "", 200, "text/html; charset=utf-8"},
		{"HEAD", "", 200, "text/html; charset=utf-8"},
		{"GET", "application/json", 400, "application/json"},
		{"OPTIONS", "", 204, ""},
		{"PUT", "", 405, "text/html; charset=utf-8"},
		{"DELETE", "application/json", 405, "application/json"},
		{"TRACE", "", 405, "text/html; charset=utf-8"},
		{"POST", "", 415, "text/html; charset=utf-8"},
	}
	for _, test := range tests {
		t.Run(test.method+" "+test.accept, func(t *testing.T) {
			t.Parallel()
			o := open(t)
			server := httptest.NewServer(o)
			defer server.Close()
			r, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+"/register?"+tokenKey+"=in-an-address", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Accept", test.accept)
			w, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Body.Close()
			body, err := io.ReadAll(w.Body)
			if err != nil || w.StatusCode != test.status || w.Header.Get("Content-Type") != test.media || strings.Contains(string(body), "in-an-address") {
				t.Errorf("error %v, status %d, %s: %s", err, w.StatusCode, w.Header.Get("Content-Type"), body)
			}
			if allow := w.Header.Get("Allow"); (allow == "GET, HEAD, POST, OPTIONS") != (test.status == 405 || test.status == 204) {
				t.Errorf("Allow %q", allow)
			}
			for name, want := range map[string]string{
				"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
				"Strict-Transport-Security": "max-age=63072000", "Referrer-Policy": "no-referrer",
			} {
				if got := w.Header.Get(name); got != want {
					t.Errorf("%s: %q", name, got)
				}
			}
			policy := w.Header.Get("Content-Security-Policy")
			for _, part := range []string{"default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'", "style-src 'sha256-"} {
				if !strings.Contains(policy, part) || strings.Contains(policy, "unsafe") {
					t.Errorf("the policy %q", policy)
				}
			}
		})
	}
}
