package simulator

import "time"

const resolveCustomer = "ResolveCustomer"

type resolveAnswer struct {
	CustomerAWSAccountID string `json:"CustomerAWSAccountId,omitempty"`
	CustomerIdentifier   string `json:",omitempty"`
	LicenseArn           string `json:",omitempty"`
	ProductCode          string `json:",omitempty"`
}

func decodeResolve(body []byte) (token string, err error) {
	c, err := parse(body)
	if err != nil {
		return "", err
	}
	err = c.object(func(name []byte) error {
		if string(name) != "RegistrationToken" {
			c.skip()
			return nil
		}
		if c.null() {
			return nil
		}
		var err error
		if token, err = c.string(); err != nil {
			return within("RegistrationToken", err)
		}
		return nil
	})
	if err == nil && token == "" {
		err = validation("RegistrationToken is missing or empty")
	}
	return token, err
}

// resolve answers one ResolveCustomer call: the same each time until the token expires. Called with mu held.
func (s *Simulator) resolve(token string, now time.Time) (resolveAnswer, error) {
	t, ok := s.tokens[token]
	if !ok {
		return resolveAnswer{}, refuse(invalidToken, "the registration token is unknown: it must be decoded from the form exactly once")
	}
	if !now.Before(t.Expires) {
		return resolveAnswer{}, refuse(expiredToken, "the registration token expired at %s: the buyer must come again from AWS Marketplace", stamp(t.Expires))
	}
	return resolveAnswer{
		CustomerAWSAccountID: t.AccountID,
		CustomerIdentifier:   t.CustomerIdentifier,
		LicenseArn:           t.LicenseARN,
		ProductCode:          t.ProductCode,
	}, nil
}
