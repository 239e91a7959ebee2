package simulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// The buyer of a first click who is not named otherwise.
const (
	firstClickAccount = "111122223333"
	firstClickLicense = "arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef"
)

// offerFreeTrial is the one offer type that the seller guide names; it is sent on trials only (SaaS free trials).
const offerFreeTrial = "free-trial"

// firstClick is AWS Marketplace's side of a buyer's first click: a fresh token, and the form that takes it to the seller.
type firstClick struct {
	To        string // the seller's registration page
	Token     Token
	OfferType string
	Expired   bool
	Expires   time.Time
}

// readFirstClick reads the query. What it does not name is as in the examples of the documentation; a license is not supplied for a
// buyer with an identifier, who is of the legacy kind, and an empty one stands for a buyer whose license is not there yet.
func readFirstClick(q url.Values) (firstClick, error) {
	known := []string{"to", "accountId", "licenseArn", "productCode", "customerIdentifier", "offerType", "expired"}
	for name, values := range q {
		if !slices.Contains(known, name) {
			return firstClick{}, fmt.Errorf("there is no %q in a first click: use %s", name, strings.Join(known, ", "))
		}
		if len(values) > 1 {
			return firstClick{}, fmt.Errorf("%s is given twice", name)
		}
	}
	f := firstClick{To: q.Get("to"), OfferType: q.Get("offerType"), Expired: q.Get("expired") == "true", Token: Token{
		AccountID:          q.Get("accountId"),
		LicenseARN:         q.Get("licenseArn"),
		ProductCode:        q.Get("productCode"),
		CustomerIdentifier: q.Get("customerIdentifier"),
	}}
	if !q.Has("accountId") {
		f.Token.AccountID = firstClickAccount
	}
	if !q.Has("licenseArn") && f.Token.CustomerIdentifier == "" {
		f.Token.LicenseARN = firstClickLicense
	}
	if f.Expired {
		f.Token.TTL = -time.Second
	}
	return f, f.check(q)
}

func (f firstClick) check(q url.Values) error {
	to, err := url.Parse(f.To)
	switch {
	case f.To == "":
		return errors.New("to is missing: it must be the address of your registration page")
	case err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" || to.User != nil:
		return fmt.Errorf("to is %q: it must be the http or https address of your registration page", f.To)
	case !buyersAccount(f.Token.AccountID) && (f.Token.AccountID != "" || f.Token.CustomerIdentifier == ""):
		return fmt.Errorf("accountId is %q: use the buyer's 12 digits", f.Token.AccountID)
	case f.Token.LicenseARN != "" && !wellFormedARN(f.Token.LicenseARN):
		return fmt.Errorf("licenseArn is %q: use the form %s, or leave it empty for a buyer without a license yet", f.Token.LicenseARN, firstClickLicense)
	case !wellFormedProductCode(f.Token.ProductCode):
		return fmt.Errorf("productCode is %q: use at most 255 letters, digits and -/=:_.@", f.Token.ProductCode)
	case f.OfferType != "" && f.OfferType != offerFreeTrial:
		return fmt.Errorf("offerType is %q: use %s, or leave it out", f.OfferType, offerFreeTrial)
	case q.Has("expired") && q.Get("expired") != "true" && q.Get("expired") != "false":
		return fmt.Errorf("expired is %q: use true or false", q.Get("expired"))
	}
	return nil
}

// controlFirstClick issues a token at each visit, so a reload stands for one more click on the button in AWS Marketplace.
func (s *Simulator) controlFirstClick(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead { // served with GET, and no click
		return
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		controlDone(w, nil, err, example(r))
		return
	}
	f, err := readFirstClick(q)
	if err != nil {
		controlDone(w, nil, err, example(r))
		return
	}
	if f.Token.Value, err = s.IssueToken(f.Token); err != nil {
		controlDone(w, nil, err, example(r))
		return
	}
	if f.Token.ProductCode == "" {
		f.Token.ProductCode = s.options.ProductCode
	}
	s.mu.Lock()
	f.Expires = s.tokens[f.Token.Value].Expires.UTC()
	s.mu.Unlock()
	var page bytes.Buffer
	if err := firstClickPage().Execute(&page, f); err != nil {
		panic(fmt.Sprintf("write the page of a first click: %v", err)) // the template has only members of firstClick
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	sum := sha256.Sum256([]byte(firstClickStyle))
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; base-uri 'none'; frame-ancestors 'none'")
	_, _ = io.Copy(w, &page) // a caller that went away does not hear it
}

const firstClickStyle = `
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
body { max-width: 40rem; margin: 3rem auto; padding: 0 1rem; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.25 }
dt { font-weight: 600 }
dd { margin: 0 0 .75rem }
button { font: inherit; font-weight: 600; padding: .75rem 1.25rem; cursor: pointer }
`

var firstClickPage = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("first click").Parse(firstClickText))
})

const firstClickText = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Set up your account – simulated AWS Marketplace</title>
<style>` + firstClickStyle + `</style>
</head>
<body>
<main>
<h1>A buyer’s first click</h1>
<p>This stands for AWS Marketplace, right after a buyer subscribed. The button takes the buyer to the seller’s registration page, as
the one in AWS Marketplace does: it posts a registration token there.</p>
<dl>
<dt>Product code</dt><dd>{{.Token.ProductCode}}</dd>
{{with .Token.AccountID}}<dt>AWS account</dt><dd>{{.}}</dd>
{{end}}{{with .Token.CustomerIdentifier}}<dt>Customer identifier</dt><dd>{{.}}</dd>
{{end}}<dt>License</dt><dd>{{or .Token.LicenseARN "none yet"}}</dd>
{{with .OfferType}}<dt>Offer</dt><dd>{{.}}</dd>
{{end}}<dt>Token</dt><dd>{{if .Expired}}expired at{{else}}valid until{{end}} {{.Expires.Format "2006-01-02 15:04:05"}} UTC</dd>
<dt>Registration page</dt><dd>{{.To}}</dd>
</dl>
<form method="post" action="{{.To}}">
<input type="hidden" name="x-amzn-marketplace-token" value="{{.Token.Value}}">
{{with .OfferType}}<input type="hidden" name="x-amzn-marketplace-offer-type" value="{{.}}">
{{end}}<button>Set up your account</button>
</form>
</main>
</body>
</html>
`
