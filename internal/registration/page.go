package registration

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"sync"

	"github.com/awsmp/metering/internal/metering"
)

//go:embed page.html
var pageText string

//go:embed page.css
var styleText string

// pages is parsed at the first request. That it can be is a test's to show.
var pages = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageText)) })

// styleHash is how the Content-Security-Policy knows the page's one style (Content Security Policy Level 3, hash-source).
var styleHash = sync.OnceValue(func() string {
	sum := sha256.Sum256([]byte(styleText))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
})

// view is what the page's template sees. All of it is text that the template escapes, but for the style.
type view struct {
	words
	Style    template.CSS
	Seller   string // as the page calls them
	Product  string
	Initial  string
	Tone     string // of the heading: good, wait or bad; empty: none
	Step     int    // 1: details, 2: done; 0: neither
	Problems []problem
	Fields   []input
	Token    string
	TokenKey string
	Button   string // of the form; empty: there is none
	Account  string
	Continue string
	Support  link
	Return   bool // show the way back to AWS Marketplace

	Reference string
}

type link struct{ Address, Text string }

// input is a field on the page.
type input struct {
	Field
	Label, Hint, Value, Problem string
	Kind                        kind
	Autocomplete                string
	Described                   string // ids of what says more of it
}

// page is the page of an end. Where something is left to do here it holds a form, with what was typed, that sends to its own address.
func (h *Handler) page(v visit, end ending) []byte {
	p := view{
		words: h.words(end, len(h.Fields) > 0 && v.submitted()),
		Style: template.CSS(styleText), Seller: h.Seller.Name, Product: h.Seller.Product, Initial: initial(h.Seller.Name),
		Problems: end.problems, Support: supportLink(h.Seller.Support),
	}
	switch end.state {
	case details, invalidFields:
		p.Step, p.Button = 1, buttonContinue
		p.Fields = h.inputs(v, end)
	case tryAgain:
		p.Tone, p.Button = "wait", buttonAgain
		if v.submitted() {
			p.Step, p.Fields = 1, h.inputs(v, end)
		}
	case registered:
		p.Tone, p.Step, p.Continue, p.Account = "good", 2, h.Seller.Continue, spaced(end.customer.Account)
	case early:
		p.Tone, p.Return = "wait", true
	case welcome, missingToken, invalidToken, expiredToken:
		p.Return = true
	case malformed, tooLarge: // what was typed cannot be shown again, and a browser does not keep it: the page was an answer to a form
		p.Tone, p.Return = "bad", true
	default:
		p.Tone = "bad"
	}
	if p.Button != "" {
		p.Token, p.TokenKey = v.token, tokenField
	}
	if end.state.showsReference() {
		p.Reference = end.reference
	}
	var page bytes.Buffer
	if err := pages().Execute(&page, p); err != nil { // unreachable: the template is a constant, and its data are of one type
		panic(err)
	}
	return page.Bytes()
}

func (h *Handler) inputs(v visit, end ending) []input {
	inputs := make([]input, len(h.Fields))
	for i, f := range h.Fields {
		in := input{Field: f, Label: f.label(), Hint: f.hint(), Value: visible(v.values[f.Name]), Kind: f.kind(), Autocomplete: f.autocomplete()}
		var described []string
		if in.Hint != "" {
			described = append(described, "hint-"+f.Name)
		}
		for _, p := range end.problems {
			if p.Field == f.Name {
				in.Problem = p.Text
				described = append(described, "problem-"+f.Name)
			}
		}
		in.Described = strings.Join(described, " ")
		inputs[i] = in
	}
	return inputs
}

func supportLink(contact string) link {
	if isMail(contact) {
		return link{"mailto:" + contact, contact}
	}
	if u, err := url.Parse(contact); err == nil && isPage(contact) {
		return link{contact, u.Host}
	}
	return link{}
}

// initial stands for the seller beside their name.
func initial(name string) string {
	for _, r := range strings.TrimSpace(name) {
		return strings.ToUpper(string(r))
	}
	return ""
}

// spaced is an account in groups, as people compare them.
func spaced(account string) string {
	if !metering.ValidAccount(account) {
		return account
	}
	return fmt.Sprintf("%s %s %s", account[:4], account[4:8], account[8:])
}
