package registration_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// show is a state's page.
func show(t *testing.T, s pageState) (*office, *httptest.ResponseRecorder) {
	t.Helper()
	o := open(t, s.change)
	if s.form != nil {
		return o, o.post(s.form(t, o))
	}
	w := httptest.NewRecorder()
	o.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/register", nil))
	return o, w
}

func TestPages(t *testing.T) {
	t.Parallel()
	for _, s := range pageStates() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			_, w := show(t, s)
			page := w.Body.String()
			if w.Code != s.status || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("status %d, %s", w.Code, w.Header().Get("Content-Type"))
			}
			for _, want := range append(s.says, "<title>"+s.title+"</title>", "<h1>"+s.heading+"</h1>", `<html lang="en">`) {
				if !strings.Contains(page, want) {
					t.Errorf("the page does not say %q:\n%s", want, page)
				}
			}
			wellMade(t, page)
			styled(t, w)
		})
	}
}

var (
	ids      = regexp.MustCompile(` id="([^"]*)"`)
	pointers = regexp.MustCompile(` (?:for|aria-labelledby|aria-describedby)="([^"]*)"| href="#([^"]*)"`)
	controls = regexp.MustCompile(`<(?:input|textarea) id="([^"]*)"`)
	outside  = regexp.MustCompile(` (?:src|action|href|srcset|style|on[a-z]+)="([^"]*)"`)
)

// wellMade checks what no browser is needed for: every name that is pointed to is there and there once, every control has a label, there is one
// heading of the first level, no script, no address that a page is fetched from, and no place that a form is sent to.
func wellMade(t *testing.T, page string) {
	t.Helper()
	var names []string
	for _, m := range ids.FindAllStringSubmatch(page, -1) {
		if slices.Contains(names, m[1]) {
			t.Errorf("the id %q is there twice", m[1])
		}
		names = append(names, m[1])
	}
	for _, m := range pointers.FindAllStringSubmatch(page, -1) {
		for name := range strings.FieldsSeq(m[1] + m[2]) {
			if !slices.Contains(names, name) {
				t.Errorf("nothing has the id %q", name)
			}
		}
	}
	for _, m := range controls.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `<label for="`+m[1]+`"`) {
			t.Errorf("%q has no label", m[1])
		}
	}
	if n := strings.Count(page, "<h1>"); n != 1 {
		t.Errorf("%d headings of the first level", n)
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "<no value>") || strings.Contains(page, "ZgotmplZ") {
		t.Error("there is something in the page that does not belong there")
	}
	for _, m := range outside.FindAllStringSubmatch(page, -1) {
		switch {
		case strings.HasPrefix(m[0], " href=") && (m[1] == "data:," || strings.HasPrefix(m[1], "#") || strings.HasPrefix(m[1], "mailto:") ||
			strings.HasPrefix(m[1], "https://console.aws.amazon.com/") || strings.HasPrefix(m[1], "https://app.example.com/")):
		default:
			t.Errorf("the page has%s", m[0])
		}
	}
}

// styled checks that a browser which holds to the Content-Security-Policy applies the style.
func styled(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	_, rest, _ := strings.Cut(w.Body.String(), "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	if hash := base64.StdEncoding.EncodeToString(sum[:]); style == "" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "'sha256-"+hash+"'") {
		t.Errorf("style of %d bytes with hash %s, policy %s", len(style), hash, w.Header().Get("Content-Security-Policy"))
	}
}
