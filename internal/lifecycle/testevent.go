package lifecycle

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// TestEvent is an invented event in the shape of the Marketplace's own (AWS Marketplace seller guide, Amazon EventBridge events). Its
// source is that of a stage's test events, or the Marketplace's own where no stage is named: that is for a simulated Marketplace alone.
type TestEvent struct {
	Kind        Kind
	Role        Role   // empty: manufacturer of license events, proposer of agreement events
	License     string // of license events, spelled as the event is to spell it
	Account     string // of the buyer, 12 digits
	Agreement   string
	ProductCode string
	Status      string // of the agreement; empty: ACTIVE, or CANCELLED where it has ended
	Stage       string
	Start, End  time.Time // of the agreement
	At          time.Time
	ID          string // empty: a random one
}

// EndStatuses are what can end an agreement.
func EndStatuses() []string {
	return []string{"CANCELLED", "EXPIRED", "TERMINATED", "RENEWED", "REPLACED"}
}

// What nobody looks at, in the form that the Marketplace gives it.
const (
	inventedSeller  = "444455556666"
	inventedOffer   = "offer-example1234567"
	inventedProduct = "prod-example1234567"
)

// Check says what is wrong with the event.
func (t TestEvent) Check() error {
	license := t.Kind.OfLicense()
	switch {
	case t.Kind.title() == "":
		return fmt.Errorf("unknown kind of event %q; it is one of %s", t.Kind, oneOf(Kinds()))
	case t.Role != "" && t.Role.suffix() == "":
		return fmt.Errorf("unknown role %q; it is %s or %s", t.Role, Manufacturer, Proposer)
	case license && t.Role == Proposer:
		return fmt.Errorf("%s is told to the %s alone", t.Kind, Manufacturer)
	case license && t.License == "":
		return fmt.Errorf("%s needs a license", t.Kind)
	case !metering.ValidAccount(t.Account):
		return errors.New("the buyer's account must be 12 digits")
	case t.Agreement == "":
		return errors.New("the agreement's id is missing")
	case license && t.ProductCode == "":
		return fmt.Errorf("%s needs a product code", t.Kind)
	case t.Kind == AgreementEnded && t.Status != "" && !slices.Contains(EndStatuses(), t.Status):
		return fmt.Errorf("an agreement does not end as %q; it is one of %s", t.Status, oneOf(EndStatuses()))
	case t.At.IsZero():
		return errors.New("the event's time is missing")
	}
	return nil
}

func oneOf[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, t := range list {
		texts[i] = string(t)
	}
	return strings.Join(texts, ", ")
}

// envelope is that of every event (Amazon EventBridge user guide, event structure).
type envelope struct {
	Version    string    `json:"version"`
	ID         string    `json:"id"`
	DetailType string    `json:"detail-type"`
	Source     string    `json:"source"`
	Account    string    `json:"account"`
	Time       time.Time `json:"time"`
	Region     string    `json:"region"`
	Resources  []string  `json:"resources"`
	Detail     detail    `json:"detail"`
}

type detail struct {
	RequestID           string           `json:"requestId"`
	Catalog             string           `json:"catalog"`
	Agreement           agreementDetail  `json:"agreement"`
	RenewalSummary      *renewalDetail   `json:"renewalSummary,omitempty"`
	Product             *productDetail   `json:"product,omitempty"`
	License             *licenseDetail   `json:"license,omitempty"`
	ResaleAuthorization *json.RawMessage `json:"resaleAuthorization,omitempty"`
	Acceptor            partyDetail      `json:"acceptor"`
	Proposer            partyDetail      `json:"proposer"`
	Offer               offerDetail      `json:"offer"`
}

type agreementDetail struct {
	ID                 string    `json:"id"`
	Intent             string    `json:"intent,omitempty"`
	Status             string    `json:"status,omitempty"`
	AcceptanceTime     time.Time `json:"acceptanceTime,omitzero"`
	StartTime          time.Time `json:"startTime,omitzero"`
	EndTime            time.Time `json:"endTime,omitzero"`
	AutoRenewalEnabled *bool     `json:"autoRenewalEnabled,omitempty"`
}

type renewalDetail struct {
	LockoutStartTime *time.Time `json:"lockoutStartTime"`
	DisabledBy       *string    `json:"disabledBy"`
}

type productDetail struct {
	Code  string `json:"code,omitempty"`
	ID    string `json:"id"`
	Title string `json:"title,omitempty"`
}

type licenseDetail struct {
	ARN string `json:"arn"`
}

type partyDetail struct {
	AccountID string `json:"accountId"`
}

type offerDetail struct {
	ID string `json:"id"`
}

// JSON is the event as EventBridge delivers it. Times are whole seconds.
func (t TestEvent) JSON() ([]byte, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	id := cmp.Or(t.ID, randomID())
	e := envelope{
		Version: "0", ID: id, Source: Source, Account: inventedSeller, Time: t.At.UTC().Truncate(time.Second), Region: "us-east-1",
		Resources: []string{"arn:aws:aws-marketplace::aws:agreement:" + t.Agreement},
		Detail: detail{
			RequestID: id, Catalog: "AWSMarketplace", Agreement: agreementDetail{ID: t.Agreement},
			Acceptor: partyDetail{t.Account}, Proposer: partyDetail{inventedSeller}, Offer: offerDetail{inventedOffer},
		},
	}
	if t.Stage != "" {
		e.Source = TestSource(t.Stage)
	}
	role := cmp.Or(t.Role, Proposer)
	if t.Kind.OfLicense() {
		role = Manufacturer
		e.Detail.License = &licenseDetail{t.License}
		e.Detail.Product = &productDetail{Code: t.ProductCode, ID: inventedProduct}
	} else {
		t.agreement(&e.Detail, role)
	}
	e.DetailType = t.Kind.title() + role.suffix()
	return json.MarshalIndent(e, "", "  ")
}

// agreement fills in what events of an agreement tell beside its id: of one that has ended only its status, and never a license.
func (t TestEvent) agreement(d *detail, role Role) {
	null := json.RawMessage("null") // as in a direct sale
	if role == Manufacturer {
		null = json.RawMessage(`{"id":"resaleauthz-example123"}`)
	}
	d.ResaleAuthorization = &null
	if t.Kind == AgreementEnded {
		d.Agreement.Status = cmp.Or(t.Status, "CANCELLED")
		return
	}
	d.Agreement.Intent, d.Agreement.Status = "NEW", cmp.Or(t.Status, "ACTIVE")
	d.Agreement.StartTime, d.Agreement.EndTime = t.Start.UTC().Truncate(time.Second), t.End.UTC().Truncate(time.Second)
	d.Agreement.AcceptanceTime = d.Agreement.StartTime
	if t.Kind != AgreementAmended {
		return
	}
	d.Agreement.Intent = "AMEND"
	if role == Proposer {
		renews := true
		d.Agreement.AutoRenewalEnabled, d.RenewalSummary = &renews, &renewalDetail{}
		d.Product = &productDetail{ID: inventedProduct, Title: "Example product"}
	}
}

// randomID is an id in the form of EventBridge's: a random UUID.
func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
