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

// Simulator is a local Marketplace Metering Service. It is an http.Handler and safe for concurrent use.
type Simulator struct {
	options Options
	control http.Handler

	mu        sync.Mutex // guards everything below; never held while waiting, but for one write to the journal
	journal   *journal   // nil: in memory only
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

// billingKey is what the service counts once. The license scheme and the legacy scheme are two spaces: the same usage sent
// once in each is billed twice (API reference, BatchMeterUsage).
type billingKey struct {
	license   string // empty: legacy
	product   string // empty: license scheme
	customer  string // account with a license; identifier or account in the legacy scheme, see customerKey
	dimension string
	hour      int64 // Unix seconds of its start
}

// New checks the options and returns a simulator: with an empty ledger, or with what the journal of Options.Journal holds. A
// journal that cannot be used (it is damaged, of another version, in use, not readable and writable) is an error that says
// what to do; nothing of the file is changed then.
func New(options Options) (*Simulator, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("check the simulator's options: %w", err)
	}
	s := &Simulator{options: options}
	s.control = s.controlRoutes()
	s.reset()
	if options.Journal == "" {
		return s, nil
	}
	if s.journal, err = openJournal(options.Journal, s.apply); err != nil {
		return nil, err
	}
	return s, nil
}

// Close gives the journal free for another process. Afterwards every change is refused, and what is there can still be read.
// Without a journal there is nothing to close.
func (s *Simulator) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journal == nil {
		return nil
	}
	return s.journal.close()
}

// The methods below that change something return an error when the journal cannot be written; nothing is changed then. Without
// Options.Journal only a malformed argument is an error.

// Reset brings the simulator back to its beginning: ledger, licenses, customers, suspensions, tokens, faults, statistics and
// the offset of its own clock are gone, the dimensions are those of Options. The journal remembers it, and grows by a line.
func (s *Simulator) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep(change{Reset: &struct{}{}})
}

func (s *Simulator) reset() {
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
	for _, t := range []*time.Time{&l.ActivatedAt, &l.DeprovisionedAt, &l.EndedAt} {
		*t = t.UTC() // an offset with seconds in it, as of 1890, has no place in JSON
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep(change{License: &l})
}

// PutCustomer adds a legacy customer or replaces the one with its identifier or account.
func (s *Simulator) PutCustomer(c Customer) error {
	if err := c.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep(change{Customer: &c})
}

func (s *Simulator) replaceCustomer(c Customer) {
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
}

// SuspendAccount suspends a buyer's account, or lifts the suspension. Its records are answered with CustomerNotSubscribed meanwhile.
func (s *Simulator) SuspendAccount(account string, suspended bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep(change{Suspension: &suspension{AccountID: account, Suspended: suspended}})
}

// DefineDimension defines a dimension of the product, case-sensitive.
func (s *Simulator) DefineDimension(name string) error { return s.setDimension(name, true) }

// UndefineDimension makes a dimension unknown to the product, also if every dimension was defined.
func (s *Simulator) UndefineDimension(name string) error { return s.setDimension(name, false) }

func (s *Simulator) setDimension(name string, defined bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep(change{Dimension: &definition{Name: name, Defined: defined}})
}

func (s *Simulator) dimensionDefined(name string) bool {
	if defined, ok := s.dimension[name]; ok {
		return defined
	}
	return s.options.Dimensions == nil
}

// IssueToken issues a registration token and returns its value, which is opaque and holds characters that must be form-encoded.
func (s *Simulator) IssueToken(t Token) (string, error) {
	if err := t.check(); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.ProductCode == "" {
		t.ProductCode = s.options.ProductCode
	}
	if t.TTL == 0 {
		t.TTL = s.options.TokenTTL
	}
	issued := s.issued
	if t.Value == "" {
		issued++
		sum := sha256.Sum256(fmt.Appendf(nil, "registration token %d", issued))
		t.Value = "sim+token/" + base64.StdEncoding.EncodeToString(sum[:])
	}
	if err := s.keep(change{Token: &issuedToken{Token: t, Expires: s.now().Add(t.TTL).Round(0), Issued: issued}}); err != nil {
		return "", err
	}
	return t.Value, nil
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
			strings.Compare(a.MeteringRecordID, b.MeteringRecordID), // an account billed before and after it got an identifier
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
