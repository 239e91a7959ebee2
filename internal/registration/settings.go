package registration

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Settings are what the seller decides.
type Settings struct {
	ProductCode   string   // a token of another product registers nobody
	Region        string   // noted in the subscriber; the profile stays in it
	Fields        []Field  // what a buyer is asked for; none: they are registered at once
	Promoted      []string // fields that the profile holds as attributes of their own too
	Seller        Seller
	AllowedOrigin string // https://www.example.com: the one page elsewhere that may ask by script; empty: none
}

// Seller is what a buyer sees of the seller. All of it may be empty.
type Seller struct {
	Name     string
	Product  string
	Support  string // a mail address or an https address
	Continue string // address of the product, where a registered buyer goes on: https, or this machine's own
}

// maxPhrase bounds the names that stand on the page, in characters.
const maxPhrase = 100

// Check is everything that is wrong with the settings, each with what to do.
func (s Settings) Check() error {
	errs := []error{checkFields(s.Fields), checkPromoted(s.Promoted, s.Fields)}
	fail := func(format string, values ...any) { errs = append(errs, fmt.Errorf(format, values...)) }
	if s.ProductCode == "" {
		fail("the product code is missing: take it from the product's page in the AWS Marketplace Management Portal")
	}
	if s.Region == "" {
		fail("the Region is missing: give the one that this registration runs in, such as us-east-1")
	}
	for what, phrase := range map[string]string{"seller's name": s.Seller.Name, "product's name": s.Seller.Product} {
		if utf8.RuneCountInString(phrase) > maxPhrase || !utf8.ValidString(phrase) || strings.ContainsFunc(phrase, unicode.IsControl) {
			fail("the %s %q: use up to %d characters in one line", what, phrase, maxPhrase)
		}
	}
	if c := s.Seller.Support; c != "" && !isMail(c) && !isPage(c) {
		fail("the support contact %q: give a mail address or an address https://…", c)
	}
	if c := s.Seller.Continue; c != "" && !isPage(c) && !isLocalPage(c) {
		fail("the continue URL %q: give an address https://…, or http://… on localhost or 127.0.0.1", c)
	}
	if o := s.AllowedOrigin; o != "" && !isOrigin(o) {
		fail("the allowed origin %q: give a scheme and a host alone, such as https://www.example.com", o)
	}
	return errors.Join(errs...)
}

func isPage(text string) bool {
	return isAddress(text, func(u *url.URL) bool { return u.Scheme == "https" })
}

func isLocalPage(text string) bool { return isAddress(text, isLocal) }

func isAddress(text string, wanted func(*url.URL) bool) bool {
	u, err := url.Parse(text)
	return err == nil && wanted(u) && u.Host != "" && u.User == nil && !strings.ContainsFunc(text, unicode.IsSpace)
}

// isLocal reports whether an address is this machine's own: without TLS those alone are safe from everybody in between.
func isLocal(u *url.URL) bool {
	return u.Scheme == "http" && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1")
}

// isOrigin takes an origin as browsers send it.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && u.Scheme+"://"+strings.ToLower(u.Host) == text && (u.Scheme == "https" || isLocal(u))
}
