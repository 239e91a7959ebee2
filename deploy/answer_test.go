package deploy_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/internal/template"
)

// pageHeaders are those that the registration puts on every page, without those that a gateway's answer cannot have (a length) or has no use for.
func pageHeaders() http.Header {
	w := httptest.NewRecorder()
	(&registration.Handler{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/register", nil))
	h := w.Header()
	h.Del("Content-Length")
	h.Del("Vary") // the answer is the same for whoever asks
	return h
}

// emptyElement is an element that HTML knows without an end (HTML Standard, "Void elements").
var emptyElement = regexp.MustCompile(`<(meta|br|hr)\b[^>]*>`)

// pageProblems are what is wrong with a page that a buyer sees where something has failed.
func pageProblems(page string) (wrong []string) {
	decoder := xml.NewDecoder(strings.NewReader(emptyElement.ReplaceAllString(page, "$0</$1>")))
	text := map[string]string{}
	var open []string
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return []string{"the page is not well-formed: " + err.Error()}
		}
		switch token := token.(type) {
		case xml.StartElement:
			open = append(open, token.Name.Local)
			if slices.Contains([]string{"script", "style", "form", "img", "iframe", "link", "object"}, token.Name.Local) {
				wrong = append(wrong, "the page has a "+token.Name.Local)
			}
			for _, a := range token.Attr {
				if token.Name.Local == "html" && a.Name.Local == "lang" {
					text["lang"] = a.Value
				}
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "style" || a.Name.Local == "href" || a.Name.Local == "http-equiv" {
					wrong = append(wrong, "the page has "+a.Name.Local)
				}
			}
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				text[open[len(open)-1]] += string(token)
			}
		}
	}
	for _, part := range []string{"lang", "title", "h1", "p"} {
		if strings.TrimSpace(text[part]) == "" {
			wrong = append(wrong, "the page has no "+part)
		}
	}
	if !strings.HasPrefix(page, "<!doctype html>") || !strings.Contains(text["p"], "Set up your account") {
		wrong = append(wrong, "the page does not say where to go on: "+page)
	}
	if strings.ContainsAny(page, "$#\n") { // API Gateway would put variables in
		wrong = append(wrong, "the page holds what API Gateway reads as a variable, or lines")
	}
	return wrong
}

// checkAnswers: what API Gateway and the web ACL answer by themselves a buyer can read, and it is as safe as the function's own pages.
func checkAnswers(headers http.Header) func(*template.Stack) []string {
	return func(s *template.Stack) (wrong []string) {
		note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
		var types []string
		for _, r := range s.OfType(apiAnswerType) {
			types = append(types, r.Text("ResponseType"))
			given, _ := r.Get("ResponseParameters").(map[string]any)
			got := http.Header{}
			for name, value := range given {
				header, isHeader := strings.CutPrefix(name, "gatewayresponse.header.")
				literal, _ := value.(string)
				if !isHeader || len(literal) < 3 || literal[0] != '\'' || strings.Count(literal, "'") != 2 || !strings.HasSuffix(literal, "'") {
					note("%s: %s is %v, which is no header with a text in quotes", r.ID, name, value)
					continue
				}
				got.Set(header, strings.Trim(literal, "'"))
			}
			want := headers.Clone()
			// A policy that allows nothing needs quotes within it, which a value in quotes cannot have. sandbox has none: no script, no form.
			want.Set("Content-Security-Policy", "sandbox")
			if diff := cmp.Diff(want, got); diff != "" {
				note("%s: headers (-the page's +here): %s", r.ID, diff)
			}
			// API Gateway chooses by what the browser accepts, and takes the one for JSON where it finds none.
			pages, _ := r.Get("ResponseTemplates").(map[string]any)
			if len(pages) != 2 || pages["text/html"] == nil || pages["text/html"] != pages["application/json"] {
				note("%s: answers for %q, want the same page for text/html and application/json", r.ID, slices.Sorted(maps.Keys(pages)))
			}
			page, _ := pages["text/html"].(string)
			for _, problem := range pageProblems(page) {
				note("%s: %s", r.ID, problem)
			}
		}
		var want []string
		if _, metered := s.Parameters["ProductCode"]; metered {
			want = []string{"DEFAULT_4XX", "DEFAULT_5XX", "THROTTLED"}
		}
		if slices.Sort(types); !slices.Equal(types, want) {
			note("answers of API Gateway's own are %q, want %q", types, want)
		}
		return wrong
	}
}

func TestBuyersCanReadWhatAPIGatewayAnswers(t *testing.T) {
	t.Parallel()
	answer := func(old, changed, says string) fault {
		return fault{"full live", "ThrottledAnswer", old, changed, says}
	}
	upholds(t, checkAnswers(pageHeaders()),
		answer("THROTTLED", "UNAUTHORIZED", "answers of API Gateway's own are"),
		answer("'nosniff'", "'sniff'", "ThrottledAnswer: headers"),
		answer("        gatewayresponse.header.Strict-Transport-Security: \"'max-age=63072000'\"\n", "", "ThrottledAnswer: headers"),
		answer("\"'no-store'\"", "no-store", "no header with a text in quotes"),
		answer("'sandbox'", "default-src 'none'", "no header with a text in quotes"),
		answer("text/html; charset=utf-8", "application/json", "ThrottledAnswer: headers"),
		answer("application/json: !FindInMap [Answers, Trouble, Html]", "application/json: '{}'", "want the same page"),
		fault{in: "full live", at: "ServerErrorAnswer", old: "!FindInMap [Answers, Trouble, Html]\n        application/json: !FindInMap [Answers, Trouble, Html]",
			new: "<p>x\n        application/json: <p>x", says: "not well-formed"},
	)
	whole := deploymentNamed(t, "full live").whole(t).Resources["ThrottledAnswer"].Text("ResponseTemplates", "text/html")
	for _, f := range []struct{ old, new, says string }{
		{` lang="en"`, ``, "no lang"},
		{`<title>Please try again</title>`, ``, "no title"},
		{`</h1>`, `</h2>`, "not well-formed"},
		{`</body>`, `<script>alert(1)</script></body>`, "has a script"},
		{`<body>`, `<body onload="alert(1)">`, "has onload"},
		{`Set up your account`, `your account`, "where to go on"},
		{`Please`, `$context.error.message`, "variable"},
	} {
		changed := strings.Replace(whole, f.old, f.new, 1)
		if changed == whole {
			t.Errorf("the page has no %s", f.old)
		}
		complains(t, pageProblems(changed), f.says)
	}
}
