package lifecycle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
)

const idOne = "l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// TestLicenseSpellings: AWS spells one license in several ways. Each comes to the license that usage is metered under, or to none.
func TestLicenseSpellings(t *testing.T) {
	t.Parallel()
	const (
		bare     = "aws:license-manager::111122223333:license:" + idOne
		example  = "aws:license-manager:us-east-1:111122223333:" + idOne // the form of AWS's example events
		regional = "arn:aws:license-manager:us-east-1:111122223333:license:" + idOne
		china    = "arn:aws-cn:license-manager::111122223333:license:" + idOne
	)
	known := func(list ...[2]string) (events []string) {
		for _, k := range list {
			events = append(events, event(lifecycle.LicenseUpdated, clock(9, 0, 0), ofLicense(k[0]), func(e *lifecycle.TestEvent) { e.Account = k[1] }))
		}
		return events
	}
	one, two := [2]string{licenseOne, buyer}, [2]string{licenseTwo, buyer}
	for name, tt := range map[string]struct {
		known   []string
		license string // the license member, as JSON
		account string
		want    string // license and account; empty: unresolved
	}{
		"its ARN":                                              {nil, `{"arn":"` + licenseOne + `"}`, buyer, licenseOne + " " + buyer},
		"an ARN of another form is as good":                    {nil, `{"arn":"` + regional + `"}`, buyer, regional + " " + buyer},
		"even where another form is known":                     {known(one), `{"arn":"` + regional + `"}`, buyer, regional + " " + buyer},
		"without arn:":                                         {nil, `{"arn":"` + bare + `"}`, buyer, licenseOne + " " + buyer},
		"the form of AWS's examples":                           {nil, `{"arn":"` + example + `"}`, buyer, licenseOne + " " + buyer},
		"in China":                                             {nil, `{"arn":"` + strings.TrimPrefix(china, "arn:") + `"}`, buyer, china + " " + buyer},
		"with spaces around it":                                {nil, `{"arn":" ` + bare + ` "}`, buyer, licenseOne + " " + buyer},
		"bare, known under another form":                       {known([2]string{regional, buyer}), `{"arn":"` + example + `"}`, buyer, regional + " " + buyer},
		"bare, another license known":                          {known(two), `{"arn":"` + example + `"}`, buyer, licenseOne + " " + buyer},
		"bare, known of another buyer":                         {known([2]string{regional, otherBuyer}), `{"arn":"` + bare + `"}`, buyer, licenseOne + " " + buyer},
		"under id, in full":                                    {nil, `{"id":"` + licenseOne + `"}`, buyer, licenseOne + " " + buyer},
		"arn goes before id":                                   {nil, `{"arn":"` + licenseOne + `","id":"` + licenseTwo + `"}`, buyer, licenseOne + " " + buyer},
		"an id alone":                                          {known(one, two), `{"id":"` + idOne + `"}`, buyer, licenseOne + " " + buyer},
		"an id alone, not known":                               {known(two), `{"id":"` + idOne + `"}`, buyer, ""},
		"an id alone, known twice":                             {known(one, [2]string{regional, buyer}), `{"id":"` + idOne + `"}`, buyer, ""},
		"none, one known":                                      {known(one), `null`, buyer, licenseOne + " " + buyer},
		"none, one known of another buyer":                     {known([2]string{licenseOne, otherBuyer}), `{}`, buyer, ""},
		"none, two known":                                      {known(one, two), `{}`, buyer, ""},
		"none, nothing known":                                  {nil, `{}`, buyer, ""},
		"of another type":                                      {known(one), `["` + licenseTwo + `"]`, buyer, licenseOne + " " + buyer},
		"unreadable, one known":                                {known(one), `{"arn":"license 17"}`, buyer, ""},
		"an ARN without an id, one known":                      {known(one), `{"arn":"arn:aws:license-manager"}`, buyer, ""},
		"its ARN without an account, known":                    {known(one, two), `{"arn":"` + licenseOne + `"}`, "", licenseOne + " " + buyer},
		"its ARN without an account, known under another form": {known([2]string{regional, buyer}), `{"arn":"` + licenseOne + `"}`, "", ""},
		"bare, without the account that is part of it":         {nil, `{"arn":"aws:license-manager:::license:` + idOne + `"}`, buyer, ""},
		"its ARN without an account, not known":                {known(two), `{"arn":"` + licenseOne + `"}`, "", ""},
		"its ARN without an account, two buyers":               {known(one, [2]string{licenseOne, otherBuyer}), `{"arn":"` + licenseOne + `"}`, "", ""},
		"neither, one known":                                   {known(one), `{}`, "", licenseOne + " " + buyer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apply(tt.known...)
			body := fmt.Sprintf(`{"detail-type":"License Deprovisioned - Manufacturer","source":"aws.agreement-marketplace","time":"2026-03-10T11:30:00Z",
				"detail":{"agreement":{"id":"agmt-1"},"license":%s,"acceptor":{"accountId":%q}}}`, tt.license, tt.account)
			a, err := w.handler.Apply(w.ctx, []byte(body))
			if tt.want == "" {
				if !errors.Is(err, lifecycle.ErrUnresolved) {
					t.Errorf("applied: %+v, %v", a, err)
				}
				return
			}
			if err != nil || len(a.Licenses) != 1 || a.Licenses[0].License+" "+a.Licenses[0].Account != tt.want {
				t.Fatalf("%+v, %v", a, err)
			}
			if c := a.Licenses[0]; c.Status != metering.LifecycleDeprovisioning || !c.Expiry.Equal(clock(12, 30, 0)) || !c.Changed {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestIgnoredEvents: events of other kinds are counted and done, whatever their shape, and so are those of other sources.
func TestIgnoredEvents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ body, kind string }{
		"Created names no license": {event(lifecycle.AgreementCreated, clock(11, 0, 0)), "agreement-created"},
		"cancellations are of another shape": {`{"detail-type":"Agreement Cancellation Request Approved - Proposer","source":"aws.agreement-marketplace","time":"2026-03-10T11:00:00Z","resources":[],
			"detail":{"agreement":{"id":"agmt-1","acceptorId":"111122223333"},"agreementCancellationRequest":{"statusCode":"APPROVED","statusMessage":"said Ada"}}}`, "Agreement Cancellation Request Approved"},
		"advisories": {`{"detail-type":"Purchase Agreement Advisory Issued - Manufacturer","source":"aws.agreement-marketplace","detail":{"advisory":{}}}`, "Purchase Agreement Advisory Issued"},
		"a kind to come": {
			`{"detail-type":"` + strings.Repeat("é", 200) + `","source":"aws.agreement-marketplace","detail":[1,2]}`, strings.Repeat("é", 80),
		},
		"another source": {`{"detail-type":"License Updated - Manufacturer","source":"aws.license-manager","time":"2026-03-10T11:00:00Z","detail":{"license":{"arn":"` + licenseOne + `"},"acceptor":{"accountId":"111122223333"}}}`, "license-updated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.send(tt.body)
			if failed := w.receive(1); len(failed) > 0 {
				t.Fatal(failed)
			}
			if n := w.metrics.By(metering.MetricEventIgnored, tt.kind).Items; n != 1 {
				t.Errorf("counted %d times as %q; metrics %v", n, tt.kind, w.metrics.Metrics())
			}
			a := w.apply(tt.body)
			if a.Ignored == "" || a.Kind != tt.kind || len(a.Licenses) > 0 {
				t.Errorf("%+v", a)
			}
			if s := w.subscriber(licenseOne); s.License != "" {
				t.Errorf("there is a subscriber: %+v", s)
			}
		})
	}
}

// TestBothSuffixes: the same event is told to the manufacturer and to the proposer.
func TestBothSuffixes(t *testing.T) {
	t.Parallel()
	up := event(lifecycle.LicenseUpdated, clock(10, 0, 0))
	ended := event(lifecycle.AgreementEnded, clock(11, 0, 0), func(e *lifecycle.TestEvent) { e.Role = lifecycle.Proposer })
	swap := func(body string) string {
		return strings.NewReplacer(" - Manufacturer", " - Proposer", " - Proposer", " - Manufacturer").Replace(body)
	}
	w := newWorld(t)
	for _, up := range []string{up, swap(up)} {
		if a := w.apply(up); a.Kind != "license-updated" || len(a.Licenses) != 1 {
			t.Errorf("%+v", a)
		}
	}
	for i, ended := range []string{ended, swap(ended)} {
		if a := w.apply(ended); a.Kind != "agreement-ended" || len(a.Licenses) != 1 || a.Licenses[0].Changed != (i == 0) {
			t.Errorf("%+v", a)
		}
	}
}

// TestTestEvents: an invented event is taken only of the one stage, and only about accounts that were named for it.
func TestTestEvents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stage    string
		accounts []string
		of       string
		taken    bool
	}{
		"of the stage, of an account named": {"dev", []string{"999988887777", buyer}, "dev", true},
		"where no stage is named":           {"", []string{buyer}, "dev", false},
		"of no stage, where none is named":  {"", []string{buyer}, ".", false},
		"of another stage":                  {"dev", []string{buyer}, "dev2", false},
		"of another account":                {"dev", []string{otherBuyer}, "dev", false},
		"where no account is named":         {"dev", nil, "dev", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.handler.TestStage, w.handler.TestAccounts = tt.stage, tt.accounts
			source := lifecycle.TestSource(strings.TrimPrefix(tt.of, "."))
			w.send(strings.Replace(event(lifecycle.LicenseUpdated, clock(11, 0, 0)), lifecycle.Source, source, 1))
			if failed := w.receive(1); len(failed) > 0 {
				t.Fatalf("failed: %v", failed)
			}
			refused := w.metrics.By(metering.MetricTestEventRefused, "license-updated").Items == 1
			if made := w.subscriber(licenseOne).License != ""; made != tt.taken || refused == tt.taken {
				t.Errorf("taken %t, refused %t", made, refused)
			}
		})
	}
}

// TestNamesOfAStageAreLegal: with the longest name that a stage can have, those of its functions are still names to Lambda.
func TestNamesOfAStageAreLegal(t *testing.T) {
	t.Parallel()
	const most = 64
	stage := "q"
	for lifecycle.ValidStage(stage+"-") && len(stage) <= most {
		stage += "-"
	}
	for _, name := range []string{lifecycle.TestFunction(stage), "awsmp-deprovision-cleanup-test-" + stage} {
		if len(name) > most {
			t.Errorf("%s has %d characters, want %d at most", name, len(name), most)
		}
	}
	for _, none := range []string{"", "QA", "2", "-qa", "q_a", "q.a", "qa\n", stage + "a"} {
		if lifecycle.ValidStage(none) {
			t.Errorf("%q is taken for the name of a stage", none)
		}
	}
	if got, want := lifecycle.TestFunction("qa"), "awsmp-subscription-test-qa"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTestEventsOfAnAgreement: one about an agreement touches the licenses of its own account alone, though others hold the same agreement.
func TestTestEventsOfAnAgreement(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.handler.TestStage, w.handler.TestAccounts = "dev", []string{otherBuyer}
	other := func(e *lifecycle.TestEvent) { e.Account = otherBuyer }
	w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0)), event(lifecycle.LicenseUpdated, clock(10, 0, 0), ofLicense(licenseTwo), other))
	want := w.subscriber(licenseOne)
	a := w.apply(event(lifecycle.AgreementEnded, clock(11, 0, 0), ofStage("dev"), other))
	if len(a.Licenses) != 1 || a.Licenses[0].License != licenseTwo || a.Licenses[0].AgreementStatus != metering.LifecycleInactive {
		t.Errorf("%+v", a)
	}
	w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0))) // nor does a license hear of it from another account's
	if diff := cmp.Diff(want, w.subscriber(licenseOne)); diff != "" {
		t.Error(diff)
	}
}

// TestNoEvent: bytes that are no event fail, so that they end where they are seen. What they hold is not repeated.
func TestNoEvent(t *testing.T) {
	t.Parallel()
	up := event(lifecycle.LicenseUpdated, clock(11, 0, 0))
	bodies := map[string]string{
		"nothing": "", "garbage": "\x00\xff garbage Ada", "a word": `"Ada"`, "a list": "[" + up + "]", "cut short": up[:len(up)/2], "two": up + up,
		"an empty object":   "{}",
		"no source":         strings.Replace(up, `"source"`, `"sauce"`, 1),
		"no type":           strings.Replace(up, `"detail-type": "License Updated - Manufacturer"`, `"detail-type": 17`, 1),
		"an odd account":    strings.Replace(up, `"`+buyer+`"`, `"11112222"`, 1),
		"account by number": strings.Replace(up, `"`+buyer+`"`, buyer, 1),
		"no time":           strings.Replace(up, `"time"`, `"lime"`, 1),
		"an odd time":       strings.Replace(up, "2026-03-10T11:00:00Z", "yesterday", 1),
		"no year":           strings.Replace(up, "2026-03-10T11:00:00Z", "0000-01-01T00:00:00Z", 1),
		"a year without it": strings.Replace(up, "2026-03-10T11:00:00Z", "9999-12-31T23:59:59-01:00", 1),
		"two days ahead":    strings.Replace(up, "2026-03-10T11:00:00Z", "2026-03-12T11:00:00Z", 1),
	}
	w := newWorld(t)
	for name, body := range bodies {
		_, err := w.handler.Apply(w.ctx, []byte(body))
		if !errors.Is(err, lifecycle.ErrNoEvent) || strings.Contains(err.Error(), "Ada") {
			t.Errorf("%s: %v", name, err)
		}
		w.send(body)
	}
	w.drain()
	if len(w.dead) != len(bodies) {
		t.Errorf("%d dead of %d", len(w.dead), len(bodies))
	}
	if s := w.subscriber(licenseOne); s.License != "" {
		t.Errorf("there is a subscriber: %+v", s)
	}
}

// TestOddShapesAreRead: members of other types than expected, unknown ones and missing ones do not keep the rest from being read.
func TestOddShapesAreRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0)))
	a := w.apply(`{"detail-type":"Purchase Agreement Amended - Proposer","source":"aws.agreement-marketplace","time":"2026-03-10T11:00:00.250Z","resources":"none",
		"detail":{"agreement":{"id":"agmt-1","acceptorId":17,"startTime":null,"endTime":"2027-01-01T00:00:00+01:00","autoRenewalEnabled":"yes"},
		"acceptor":["111122223333"],"product":{"id":"prod-1","title":"Ada's"},"renewalSummary":[null]}}`)
	got := w.subscriber(licenseOne)
	if !a.Licenses[0].Changed || !got.AgreementStart.IsZero() || !got.AgreementEnd.Equal(time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)) || !got.AgreementAmended.Equal(clock(11, 0, 0)) {
		t.Errorf("%+v", got)
	}
	endless := strings.Replace(event(lifecycle.AgreementAmended, clock(11, 30, 0)), "2027-03-10T00:00:00Z", "9999-12-31T23:59:59-01:00", 1)
	w.apply(endless)
	if got := w.subscriber(licenseOne); !got.AgreementEnd.IsZero() || !got.AgreementAmended.Equal(clock(11, 30, 0)) {
		t.Errorf("a time that cannot be written again: %+v", got)
	}
}

// TestNothingPersonalIsKept: titles, names and messages that an event may hold are in no log, no metric and no subscriber; licenses and
// accounts stand masked in the log (F52).
func TestNothingPersonalIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	add := func(body string) string {
		return strings.Replace(body, `"proposer": {`, `"proposer": {"name": "Lovelace Ltd", "contact": "ada@lovelace.example",`, 1)
	}
	for _, kind := range lifecycle.Kinds() {
		w.send(add(event(kind, clock(11, 0, 0))))
	}
	w.send(add(event(lifecycle.LicenseUpdated, clock(11, 0, 0), ofStage("dev"))), add(event(lifecycle.AgreementEnded, clock(11, 0, 0), ofAgreement("agmt-elsewhere"))),
		strings.Replace(add(event(lifecycle.LicenseDeprovisioned, clock(11, 0, 0), ofAgreement("agmt-elsewhere"))), licenseOne, "Ada's license", 1))
	w.drain()
	w.finalize()
	item, err := json.Marshal(w.subscriber(licenseOne).Item())
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"ovelace", "Ada", "ada@", "xample"} {
		if strings.Contains(w.log.String(), word) || strings.Contains(string(item), word) {
			t.Errorf("%q is told by\n%s\nor kept in %s", word, w.log, item)
		}
	}
	for _, id := range []string{licenseOne, idOne, buyer, "agmt-"} {
		if strings.Contains(w.log.String(), id) {
			t.Errorf("%q stands in the log:\n%s", id, w.log)
		}
	}
	for _, line := range []string{`msg="event applied"`, `msg="event ignored"`, `msg="event not applied`, `msg="no license here`, `msg="last hour ended"`, "license=…aaaa account=…3333"} {
		if !strings.Contains(w.log.String(), line) {
			t.Errorf("no line with %s in\n%s", line, w.log)
		}
	}
}
