package simulator

import "time"

const (
	statusSuccess       = "Success"
	statusNotSubscribed = "CustomerNotSubscribed"
	statusDuplicate     = "DuplicateRecord"
)

// verdict is what the subscription says about a record: fine, a status for the record alone, or an exception for the call.
type verdict struct {
	status  string
	refused error
	lapsed  bool // the subscription was there and is closed, inactive or suspended now
}

func (s *Simulator) standing(r Record, now time.Time) verdict {
	v := s.subscription(r, now)
	if !v.lapsed || s.options.ResendNeedsSubscription {
		return v
	}
	// The documentation calls a resend idempotent without a word on subscriptions that closed meanwhile.
	if _, billed := s.ledger[s.billingKey(r)]; billed {
		return verdict{status: statusSuccess}
	}
	return v
}

func (s *Simulator) subscription(r Record, now time.Time) verdict {
	if r.LicenseARN == "" {
		return s.legacySubscription(r)
	}
	l, known := s.licenses[r.LicenseARN]
	switch {
	case !known && s.options.OpenDoors:
		return s.account(r.AccountID)
	case !known:
		return s.unknown(refuse(invalidLicense, "license %s does not exist", r.LicenseARN))
	case l.AccountID != r.AccountID:
		return s.unknown(refuse(invalidLicense, "license %s does not belong to account %s", r.LicenseARN, r.AccountID))
	case r.Timestamp.Before(l.ActivatedAt):
		return verdict{refused: refuse(string(s.options.BeforeActivation),
			"timestamp %s is before the activation of license %s at %s", stamp(r.Timestamp), l.ARN, stamp(l.ActivatedAt))}
	case now.Before(l.ActivatedAt): // inside the tolerance for clocks that are ahead, and not active yet
		return verdict{status: statusNotSubscribed}
	}
	if end := s.closes(l); !end.IsZero() && (!now.Before(end) || !r.Timestamp.Before(end)) {
		v := by(s.options.AfterWindow, refuse(invalidLicense, "license %s has been closed since %s", l.ARN, stamp(end)))
		v.lapsed = true
		return v
	}
	return s.account(r.AccountID)
}

func (s *Simulator) legacySubscription(r Record) verdict {
	c, known := s.customers[customerKey(r.CustomerIdentifier, r.AccountID)]
	switch {
	case !known && s.options.OpenDoors:
		return s.account(r.AccountID)
	case !known && r.CustomerIdentifier != "":
		return s.unknown(refuse(invalidCustomerIdentifier, "customer %q does not exist", r.CustomerIdentifier))
	case !known:
		return s.unknown(refuse(invalidCustomerIdentifier, "account %s is no customer of the product", r.AccountID))
	case !c.Active:
		return verdict{status: statusNotSubscribed, lapsed: true}
	}
	return s.account(c.AccountID)
}

func (s *Simulator) account(id string) verdict {
	if s.suspended[id] {
		return verdict{status: statusNotSubscribed, lapsed: true}
	}
	return verdict{status: statusSuccess}
}

func (s *Simulator) unknown(exception error) verdict { return by(s.options.UnknownCustomer, exception) }

func by(r Refusal, exception error) verdict {
	if r == ByException {
		return verdict{refused: exception}
	}
	return verdict{status: statusNotSubscribed}
}

// closes is when a license's closing window ends; zero if it has not been opened.
func (s *Simulator) closes(l License) time.Time {
	opened := l.DeprovisionedAt
	if s.options.ClosingAnchor == AnchorEnded && !l.EndedAt.IsZero() {
		opened = l.EndedAt
	}
	if opened.IsZero() {
		return time.Time{}
	}
	return opened.Add(ClosingWindow)
}

func (s *Simulator) billingKey(r Record) billingKey {
	key := billingKey{dimension: r.Dimension, hour: r.Timestamp.Truncate(time.Hour).Unix()}
	if r.LicenseARN != "" {
		key.license, key.customer = r.LicenseARN, r.AccountID
	} else {
		key.product, key.customer = r.ProductCode, s.legacyCustomer(r.CustomerIdentifier, r.AccountID)
	}
	return key
}
