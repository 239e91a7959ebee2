package simulator

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Simulator is a Marketplace Metering Service in memory. It is an http.Handler and safe for concurrent use.
type Simulator struct {
	options Options
	control http.Handler

	mu        sync.Mutex // guards everything below; never held while waiting
	offset    time.Duration
	licenses  map[string]License
	customers map[string]Customer // by identifier and by account, prefixed: see customerKey
	suspended map[string]bool
	dimension map[string]bool // what was said of a dimension by name; others follow allDimensions
	tokens    map[string]issuedToken
	issued    int
	ledger    map[billingKey]Billed
	faults    []*injected
	faultID   int
	limiter   *rate.Limiter // nil: unlimited
	log       callLog
}

type issuedToken struct {
	Token
	expires time.Time
}

// billingKey is what the service counts once. The license scheme and the legacy scheme are two spaces: the same usage sent
// once in each is billed twice (API reference, BatchMeterUsage).
type billingKey struct {
	license   string // empty: legacy
	product   string // empty: license scheme
	customer  string // account with a license; identifier or account in the legacy scheme, see customerKey
	dimension string
	hour      int64 // Unix seconds of its start
}

// New checks the options and returns a simulator with an empty ledger.
func New(options Options) (*Simulator, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("check the simulator's options: %w", err)
	}
	s := &Simulator{options: options}
	s.control = s.controlRoutes()
	s.Reset()
	return s, nil
}

// Reset brings the simulator back to how New returned it: ledger, licenses, customers, suspensions, tokens, faults,
// statistics and the offset of its own clock are gone, the dimensions are those of Options.
func (s *Simulator) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset = 0
	s.licenses = map[string]License{}
	s.customers = map[string]Customer{}
	s.suspended = map[string]bool{}
	s.tokens = map[string]issuedToken{}
	s.ledger = map[billingKey]Billed{}
	s.faults = nil
	s.log = newCallLog(s.options.CallLog)
	s.dimension = map[string]bool{}
	for _, name := range s.options.Dimensions {
		s.dimension[name] = true
	}
	s.limiter = nil
	if r := s.options.CallsPerSecond; r > 0 {
		s.limiter = rate.NewLimiter(rate.Limit(r), max(1, int(r)))
	}
}

// PutLicense adds a license or replaces the one with its ARN.
func (s *Simulator) PutLicense(l License) error {
	if err := l.check(); err != nil {
		return err
	}
	if l.ProductCode == "" {
		l.ProductCode = s.options.ProductCode
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.licenses[l.ARN] = l
	return nil
}

// PutCustomer adds a legacy customer or replaces the one with its identifier or account.
func (s *Simulator) PutCustomer(c Customer) error {
	if err := c.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range []string{customerKey(c.Identifier, ""), customerKey("", c.AccountID)} {
		if old, ok := s.customers[key]; ok { // both names of the one that is replaced
			delete(s.customers, customerKey(old.Identifier, ""))
			delete(s.customers, customerKey("", old.AccountID))
		}
	}
	if c.Identifier != "" {
		s.customers[customerKey(c.Identifier, "")] = c
	}
	if c.AccountID != "" {
		s.customers[customerKey("", c.AccountID)] = c
	}
	return nil
}

// SuspendAccount suspends a buyer's account, or lifts the suspension. Its records are answered with CustomerNotSubscribed meanwhile.
func (s *Simulator) SuspendAccount(account string, suspended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspended[account] = suspended
}

// DefineDimension defines a dimension of the product, case-sensitive.
func (s *Simulator) DefineDimension(name string) { s.setDimension(name, true) }

// UndefineDimension makes a dimension unknown to the product, also if every dimension was defined.
func (s *Simulator) UndefineDimension(name string) { s.setDimension(name, false) }

func (s *Simulator) setDimension(name string, defined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dimension[name] = defined
}

func (s *Simulator) dimensionDefined(name string) bool {
	if defined, ok := s.dimension[name]; ok {
		return defined
	}
	return s.options.Dimensions == nil
}

// IssueToken issues a registration token and returns its value, which is opaque and holds characters that must be form-encoded.
func (s *Simulator) IssueToken(t Token) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.ProductCode == "" {
		t.ProductCode = s.options.ProductCode
	}
	if t.TTL == 0 {
		t.TTL = s.options.TokenTTL
	}
	if t.Value == "" {
		s.issued++
		sum := sha256.Sum256(fmt.Appendf(nil, "registration token %d", s.issued))
		t.Value = "sim+token/" + base64.StdEncoding.EncodeToString(sum[:])
	}
	s.tokens[t.Value] = issuedToken{Token: t, expires: s.now().Add(t.TTL)}
	return t.Value
}

// Ledger is everything that was billed, sorted by license, customer, account, dimension and hour.
func (s *Simulator) Ledger() []Billed {
	s.mu.Lock()
	all := make([]Billed, 0, len(s.ledger))
	for _, b := range s.ledger {
		all = append(all, b)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b Billed) int {
		return cmp.Or(
			strings.Compare(a.LicenseARN, b.LicenseARN),
			strings.Compare(a.CustomerIdentifier, b.CustomerIdentifier),
			strings.Compare(a.AccountID, b.AccountID),
			strings.Compare(a.Dimension, b.Dimension),
			a.Hour.Compare(b.Hour),
		)
	})
	return all
}

// Billed looks up one hour's entry. licenseOrIdentifier is a license ARN, or the identifier of a legacy customer, or empty for a
// legacy customer that is metered by account. The account is needed with a license and for the last kind. hour is any time in
// the hour. Legacy entries are those of Options.ProductCode.
func (s *Simulator) Billed(licenseOrIdentifier, account, dimension string, hour time.Time) (Billed, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := billingKey{dimension: dimension, hour: hour.UTC().Truncate(time.Hour).Unix()}
	if strings.HasPrefix(licenseOrIdentifier, "arn:") {
		key.license, key.customer = licenseOrIdentifier, account
	} else {
		if licenseOrIdentifier != "" {
			account = ""
		}
		key.product, key.customer = s.options.ProductCode, s.legacyCustomer(licenseOrIdentifier, account)
	}
	b, ok := s.ledger[key]
	return b, ok
}

// customerKey keeps identifiers and account ids apart: an identifier may be all digits.
func customerKey(identifier, account string) string {
	if identifier != "" {
		return "identifier " + identifier
	}
	return "account " + account
}

// legacyCustomer is the customer whom an identifier or an account means, so that both names of one customer are one.
func (s *Simulator) legacyCustomer(identifier, account string) string {
	key := customerKey(identifier, account)
	if c, ok := s.customers[key]; ok {
		return customerKey(c.Identifier, c.AccountID)
	}
	return key
}
