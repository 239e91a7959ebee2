package registration_test

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"github.com/awsmp/metering/internal/lambdaevent"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// goodToken is the token of the buyer of all fuzz tests. It holds what must be encoded in a form, and no word that a page has.
const goodToken = "good+token/=="

// hidden is where a page keeps the token for the next step, and the one place where it may stand.
var hidden = regexp.MustCompile(`<input type="hidden" name="` + tokenKey + `" value="[^"]*" autocomplete="off">`)

// answered checks what holds of every answer, whatever was posted: no fault of ours, the headers, and an answer in the form asked for.
func answered(t *testing.T, o *office, status int, header http.Header, body string) {
	t.Helper()
	if status < 200 || status >= 500 || header.Get("Cache-Control") != "no-store" || header.Get("X-Content-Type-Options") != "nosniff" || o.metrics.Of(metering.MetricRegistrationFailed).Items != 0 {
		t.Fatalf("status %d, headers %v", status, header)
	}
	switch header.Get("Content-Type") {
	case "application/json":
		if !json.Valid([]byte(body)) {
			t.Errorf("%s", body)
		}
	case "text/html; charset=utf-8":
		wellMade(t, body)
	case "":
		if body != "" {
			t.Errorf("%q without a type", body)
		}
	default:
		t.Errorf("type %q", header.Get("Content-Type"))
	}
}

// FuzzPost: whatever is posted, in whatever type, is answered; who is told that they are registered is, and nobody else.
func FuzzPost(f *testing.F) {
	f.Add(formType, "", filled(goodToken).Encode())
	f.Add(formType, "text/html", tokenKey+"="+goodToken)
	f.Add(formType, "application/json", tokenKey+"=good%2Btoken%2F%3D%3D&contactName=%ff&a;b")
	f.Add("application/json", "", `{"`+tokenKey+`":"`+goodToken+`","contactName":"\ud800","contactEmail":"a@b.c","x":[[[{}]]]}`)
	f.Add("application/json;charset=utf-16", "*/*", "\xfe\xff\x00{")
	f.Add("multipart/form-data; boundary=x", ",;q=,", "--x--")
	f.Add(formType+"; charset", "application/json;q=1e400", "&&==&"+tokenKey)
	f.Fuzz(func(t *testing.T, contentType, accept, body string) {
		o := open(t)
		o.token(t, simulator.Token{Value: goodToken, LicenseARN: license})
		w := o.send(contentType, accept, body)
		answered(t, o, w.Code, w.Header(), w.Body.String())
		registered := strings.Contains(w.Body.String(), "You’re all set") || strings.Contains(w.Body.String(), `"status":"registered"`)
		if s, p := o.subscriber(t, license), o.profile(t, license); (s != nil) != registered || (p != nil) != registered || registered && w.Code != 200 {
			t.Errorf("status %d, subscriber %v, profile %v", w.Code, s, p)
		}
	})
}

// FuzzFields: what a buyer types is kept as it is or refused, comes back to them escaped and to nobody else; the token stands nowhere but in
// the form's hidden field.
func FuzzFields(f *testing.F) {
	f.Add(true, "", "Zoë Quartermain", "zoe@buyer.example", "Quartermain & Søn", "Count sheep.\r\nAt night.", false, false)
	f.Add(true, "", `<script>alert('1')</script>`, `"><img src=x>`, "a\u2028b\x00", "</textarea><b>", false, true)
	f.Add(true, "", "<b>", "no mail", "a&b'c", "</textarea><b>", false, false)
	f.Add(true, "", "n", "a@b.c", "a\x00b", "c\x07\td", false, false)
	f.Add(true, "", "\xff", "a@b.c", strings.Repeat("é", 257), "", true, false)
	f.Add(false, `"><b>token`, "x", "a@b.c", "", "", false, false)
	f.Add(false, "nobody’s token", "", "", "", strings.Repeat("x", 1001), true, true)
	f.Fuzz(func(t *testing.T, good bool, token, name, mail, company, useCase string, inJSON, wantsJSON bool) {
		o := open(t)
		o.token(t, simulator.Token{Value: goodToken, LicenseARN: license})
		if good {
			token = goodToken
		}
		// No word of ours has these letters in it, so whoever finds them has found what was typed.
		typed := map[string]string{"contactName": "zq" + name + "qz", "contactEmail": mail, "companyName": "zq" + company + "qz", "useCase": "zq" + useCase + "qz"}
		contentType, accept, form := formType, "text/html", url.Values{tokenKey: {token}}
		for field, v := range typed {
			form.Set(field, v)
		}
		body := form.Encode()
		if inJSON {
			all := map[string]string{tokenKey: token}
			for field, v := range typed {
				typed[field] = strings.ToValidUTF8(v, "�")
				all[field] = typed[field]
			}
			text, err := json.Marshal(all)
			if err != nil {
				t.Fatal(err)
			}
			contentType, body = "application/json", string(text)
		}
		if wantsJSON {
			accept = "application/json"
		}
		w := o.send(contentType, accept, body)
		answered(t, o, w.Code, w.Header(), w.Body.String())
		page := w.Body.String()
		secret := len(token) > 8 && !strings.Contains(name+mail+company+useCase, token)
		if visible := html.UnescapeString(hidden.ReplaceAllString(page, "")); secret && (strings.Contains(visible, token) || strings.Contains(o.log.String(), token)) {
			t.Errorf("the token %q is told by\n%s\n%s", token, visible, o.log)
		}
		if strings.Contains(o.log.String(), "zq") {
			t.Errorf("the log tells what was typed:\n%s", o.log)
		}
		if inJSON || wantsJSON {
			if strings.Contains(page, "zq") {
				t.Errorf("the answer repeats what was typed: %s", page)
			}
		} else {
			for _, v := range typed {
				if len(v) > 4 && strings.ContainsAny(v, `<>"'&`) && strings.Contains(page, v) {
					t.Errorf("%q is on the page as it was typed", v)
				}
			}
		}
		p, s := o.profile(t, license), o.subscriber(t, license)
		if (w.Code == 200) != (p != nil) || (p != nil) != (s != nil) || p != nil && !good {
			t.Fatalf("status %d, profile %+v, subscriber %+v", w.Code, p, s)
		}
		if p != nil {
			kept(t, typed, p.Fields)
		}
	})
}

// kept checks the fields of a profile against what was typed into them.
func kept(t *testing.T, typed, fields map[string]string) {
	t.Helper()
	for field, v := range typed {
		got, limit := fields[field], 256
		if field == "useCase" {
			limit = 1000
		}
		steering := func(r rune) bool { return unicode.IsControl(r) && (field != "useCase" || r != '\n' && r != '\t') }
		if utf8.RuneCountInString(got) > limit || !utf8.ValidString(got) || strings.ContainsFunc(got, steering) {
			t.Errorf("%s is kept as %q", field, got)
		}
		plain := func(r rune) bool { return r == ' ' || !unicode.IsSpace(r) && !unicode.IsControl(r) }
		if !strings.ContainsFunc(v, func(r rune) bool { return !plain(r) }) && got != strings.TrimSpace(v) {
			t.Errorf("%s %q is kept as %q", field, v, got)
		}
	}
}

// FuzzGateway: an event of API Gateway is answered like the request that it tells of, or is no such event; that is said without a word of
// what it holds.
func FuzzGateway(f *testing.F) {
	add := func(e events.APIGatewayProxyRequest) {
		payload, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload)
	}
	form := filled(goodToken).Encode()
	headers := map[string]string{"content-type": formType, "accept": "text/html"}
	add(events.APIGatewayProxyRequest{HTTPMethod: "POST", Path: "/", Headers: headers, Body: form})
	add(events.APIGatewayProxyRequest{HTTPMethod: "POST", Path: "//x/%2f", Headers: headers, Body: base64.StdEncoding.EncodeToString([]byte(form)), IsBase64Encoded: true})
	add(events.APIGatewayProxyRequest{HTTPMethod: "POST", Path: "/", Headers: headers, Body: "x" + form, IsBase64Encoded: true})
	add(events.APIGatewayProxyRequest{HTTPMethod: "OPTIONS", Path: "/prod/register", MultiValueHeaders: map[string][]string{"Origin": {"https://a", "b"}, "\r\n": {"\x00"}}})
	f.Add([]byte(`{"httpMethod":"GET","path":"/","queryStringParameters":{"a":"%zz"},"multiValueQueryStringParameters":{"b":["1",""]},"requestContext":{"requestId":"\u0000"}}`))
	f.Add([]byte(`{"version":"2.0","rawPath":"/","body":"` + tokenKey + `=good"}`))
	f.Add([]byte(`{"httpMethod":"PO ST","path":"/","body":{"` + goodToken + `":1},"headers":["good+token"]}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		o := open(t)
		o.token(t, simulator.Token{Value: goodToken, LicenseARN: license})
		a, err := lambdaevent.Serve(t.Context(), o, payload)
		if err != nil {
			if strings.Contains(err.Error(), "good") || len(err.Error()) > 256 {
				t.Errorf("the error tells too much: %v", err)
			}
			return
		}
		body := []byte(a.Body)
		if a.IsBase64Encoded {
			if body, err = base64.StdEncoding.DecodeString(a.Body); err != nil {
				t.Error(err)
			}
		}
		if _, err := json.Marshal(a); err != nil {
			t.Error(err)
		}
		answered(t, o, a.StatusCode, http.Header(a.MultiValueHeaders), string(body))
		if visible := html.UnescapeString(hidden.ReplaceAllString(string(body), "")); strings.Contains(visible, goodToken) && strings.Count(string(payload), "good") < 2 || strings.Contains(o.log.String(), goodToken) {
			t.Errorf("the token is told by\n%s\n%s", visible, o.log)
		}
	})
}
