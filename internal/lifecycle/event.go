package lifecycle

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Kind is what an event tells, whatever role of the seller it is told to.
type Kind string

// The kinds that are known by name. Agreement Created is one of those that metering has no use for: it names no license.
const (
	LicenseUpdated       Kind = "license-updated"
	LicenseDeprovisioned Kind = "license-deprovisioned"
	AgreementCreated     Kind = "agreement-created"
	AgreementAmended     Kind = "agreement-amended"
	AgreementEnded       Kind = "agreement-ended"
)

// Kinds are the kinds that are known by name.
func Kinds() []Kind {
	return []Kind{LicenseUpdated, LicenseDeprovisioned, AgreementCreated, AgreementAmended, AgreementEnded}
}

// OfLicense reports whether events of the kind tell of a license, and not of an agreement.
func (k Kind) OfLicense() bool { return k == LicenseUpdated || k == LicenseDeprovisioned }

// title is the detail-type without the role.
func (k Kind) title() string {
	switch k {
	case LicenseUpdated:
		return "License Updated"
	case LicenseDeprovisioned:
		return "License Deprovisioned"
	case AgreementCreated:
		return "Purchase Agreement Created"
	case AgreementAmended:
		return "Purchase Agreement Amended"
	case AgreementEnded:
		return "Purchase Agreement Ended"
	}
	return ""
}

// Role is what the seller is to the agreement. A direct sale tells of its agreement to the proposer alone, one through a channel
// partner to the manufacturer too; license events go to the manufacturer (AWS Marketplace seller guide, Amazon EventBridge events).
type Role string

// The roles.
const (
	Manufacturer Role = "manufacturer"
	Proposer     Role = "proposer"
)

// suffix is what a detail-type ends with.
func (r Role) suffix() string {
	switch r {
	case Manufacturer:
		return " - Manufacturer"
	case Proposer:
		return " - Proposer"
	}
	return ""
}

// Source is that of the Marketplace's own events of agreements and licenses.
const Source = "aws.agreement-marketplace"

const testSources = "awsmp.test."

// ValidStage reports whether a text can be the name of a stage that takes test events. The names of the stage's resources end in it: the longest
// is awsmp-deprovision-cleanup-test- and the stage, and a Lambda function's has 64 characters at most (AWS Lambda API reference, CreateFunction).
func ValidStage(text string) bool {
	return regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`).MatchString(text)
}

// TestSource is the source of a stage's test events.
func TestSource(stage string) string { return testSources + stage }

// testNames stands before the stage at the end of the names of what a stage that takes test events has to itself.
const testNames = "-test-"

// TestFunction is the name of the subscription function of a stage that takes test events.
func TestFunction(stage string) string { return "awsmp-subscription" + testNames + stage }

// TestTable reports whether a subscribers table is for test events of the stage. A stage has a table of its own, and no live product reads one:
// what an invented event says of a license must not move what is billed.
func TestTable(table, stage string) bool { return strings.HasSuffix(table, testNames+stage) }

// AnyTestTable reports whether a subscribers table may be for test events of some stage.
func AnyTestTable(table string) bool { return strings.Contains(table, testNames) }

// ErrNoEvent says that some bytes are no event, or one of a kind that matters without a usable time, or with a buyer's account that is none.
var ErrNoEvent = errors.New("this is no event")

// event is what is taken out of an EventBridge event. All else that it holds, such as titles and names, is left behind.
type event struct {
	id        string
	source    string
	kind      Kind   // empty where it is none that is known
	title     string // the detail-type without the role
	at        time.Time
	account   string   // of the buyer; empty where it names none
	license   spelling // as it spells it
	agreement string
	product   string // its code
	start     time.Time
	end       time.Time
}

// maxAhead is how far ahead of the clock an event's time may lie. One from further ahead would outlast every later event.
const maxAhead = 24 * time.Hour

// parseEvent reads an event. Members may be absent, unknown or of any type: the shapes of one source differ.
func parseEvent(body []byte, now time.Time) (event, error) {
	var envelope map[string]any
	if err := json.Unmarshal(body, &envelope); err != nil {
		return event{}, fmt.Errorf("%w: it is not a JSON object", ErrNoEvent) // the decoder's words may quote it
	}
	accountPath := []string{"detail", "acceptor", "accountId"}
	at := func(path ...string) string { return textAt(envelope, path) }
	e := event{
		id: at("id"), source: at("source"), title: at("detail-type"),
		account: textAt(envelope, accountPath), agreement: at("detail", "agreement", "id"), product: at("detail", "product", "code"),
		start: timeOf(at("detail", "agreement", "startTime")), end: timeOf(at("detail", "agreement", "endTime")),
		at: timeOf(at("time")),
	}
	if e.source == "" || e.title == "" {
		return event{}, fmt.Errorf("%w: it has no source or no detail-type", ErrNoEvent)
	}
	e.license = spelled(cmp.Or(at("detail", "license", "arn"), at("detail", "license", "id")))
	for _, r := range []Role{Manufacturer, Proposer} {
		e.title = strings.TrimSuffix(e.title, r.suffix())
	}
	for _, k := range Kinds() {
		if e.title == k.title() {
			e.kind = k
		}
	}
	switch {
	case !e.matters():
	case e.at.IsZero():
		return event{}, fmt.Errorf("%w: it has no time by which it can be ordered", ErrNoEvent)
	case e.at.Sub(now) > maxAhead:
		return event{}, fmt.Errorf("%w: its time, %s, lies ahead of the clock by more than a day", ErrNoEvent, e.at.Format(time.RFC3339))
	case !metering.ValidAccount(e.account) && !absent(valueAt(envelope, accountPath)): // whoever else holds the license is not meant
		return event{}, fmt.Errorf("%w: its acceptor's accountId is not 12 digits", ErrNoEvent)
	}
	if !metering.ValidAccount(e.account) {
		e.account = ""
	}
	return e, nil
}

// matters reports whether the event changes any subscriber.
func (e event) matters() bool {
	return e.ofLicense() || e.kind == AgreementAmended || e.kind == AgreementEnded
}

func (e event) ofLicense() bool { return e.kind.OfLicense() }

// name is how the event is spoken of: by its kind, or else its own words as far as they are short.
func (e event) name() string {
	if e.kind != "" {
		return string(e.kind)
	}
	const longest = 80
	if r := []rune(e.title); len(r) > longest {
		return string(r[:longest])
	}
	return e.title
}

// textAt is the text at a path of members; empty where there is none.
func textAt(v any, path []string) string {
	s, _ := valueAt(v, path).(string)
	return strings.TrimSpace(s)
}

// valueAt is what stands at a path of members; nil where nothing does.
func valueAt(v any, path []string) any {
	for _, name := range path {
		members, _ := v.(map[string]any)
		v = members[name]
	}
	return v
}

// absent reports whether a value says as little as none: null, or a text without a letter.
func absent(v any) bool {
	s, isText := v.(string)
	return v == nil || isText && strings.TrimSpace(s) == ""
}

// timeOf reads a time; zero where there is none that can be written again.
func timeOf(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if t = t.UTC(); err != nil || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// spelling is a license as an event spells it. AWS spells licenses in several ways, its own examples too.
type spelling struct {
	arn   string // its ARN, or the one that a bare form stands for; empty where only an id is known
	exact bool   // the ARN stood there as it is
	id    string // l-…
	odd   bool   // something stands there that is none of the forms below
}

// spelled reads a license's spelling:
//
//	arn:aws:license-manager::111122223333:license:l-…     taken as it is
//	aws:license-manager::111122223333:license:l-…         the same without arn:
//	aws:license-manager:us-east-1:111122223333:l-…        the form of AWS's examples: what is submitted must be the first
//	l-…                                                   its id alone
func spelled(s string) spelling {
	if metering.ValidLicense(s) {
		return spelling{arn: s, exact: true, id: licenseID(s)}
	}
	id := licenseID(s)
	if id == "" {
		return spelling{odd: s != ""}
	}
	if f := strings.Split(s, ":"); len(f) >= 5 && strings.HasPrefix(f[0], "aws") && f[1] == "license-manager" {
		if arn := "arn:" + f[0] + ":license-manager::" + f[3] + ":license:" + id; metering.ValidAccount(f[3]) && metering.ValidLicense(arn) {
			return spelling{arn: arn, id: id}
		}
	}
	return spelling{id: id}
}

// licenseID is the id that a license's spelling ends with; empty where it ends with none.
func licenseID(s string) string {
	id := s[strings.LastIndexAny(s, ":/")+1:]
	if rest, ok := strings.CutPrefix(id, "l-"); !ok || rest == "" {
		return ""
	}
	return id
}
