package lifecycle_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/lifecycle"
)

var update = flag.Bool("update", false, "write the golden files anew")

func example() lifecycle.TestEvent {
	return lifecycle.TestEvent{
		License: "aws:license-manager:us-east-1:111122223333:l-0123456789abcdef0123456789abcdef", Account: "111122223333", Agreement: "agmt-example1234567",
		ProductCode: "examplecode", At: clock(12, 0, 0), Start: clock(11, 0, 0), End: clock(11, 0, 0).AddDate(1, 0, 0), ID: "01234567-89ab-4cde-8f01-23456789abcd",
	}
}

// TestGoldenEvents: each kind in each of its roles has the envelope and the members of the Marketplace's own events.
func TestGoldenEvents(t *testing.T) {
	t.Parallel()
	for _, kind := range lifecycle.Kinds() {
		for _, role := range []lifecycle.Role{lifecycle.Manufacturer, lifecycle.Proposer} {
			e := example()
			e.Kind, e.Role = kind, role
			got, err := e.JSON()
			if strings.HasPrefix(string(kind), "license-") && role == lifecycle.Proposer {
				if err == nil {
					t.Errorf("%s is told to the %s", kind, role)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", string(kind)+"-"+string(role)+".json")
			if *update {
				if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		}
	}
}

// TestTestEventDefaults: the role, status, source and id of an event that leaves them out.
func TestTestEventDefaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind                   lifecycle.Kind
		stage, source, subject string
	}{
		{lifecycle.LicenseUpdated, "", "aws.agreement-marketplace", "License Updated - Manufacturer"},
		{lifecycle.AgreementEnded, "dev", "awsmp.test.dev", "Purchase Agreement Ended - Proposer"},
	} {
		e := example()
		e.Kind, e.Stage, e.ID = tt.kind, tt.stage, ""
		body, err := e.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			ID, Source string
			Type       string `json:"detail-type"`
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
		if got.Source != tt.source || got.Type != tt.subject || !uuid.MatchString(got.ID) {
			t.Errorf("%+v", got)
		}
	}
}

// TestTestEventCheck: what is wrong is said in words.
func TestTestEventCheck(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(e *lifecycle.TestEvent){
		`unknown kind of event "license-created"; it is one of license-updated, license-deprovisioned, agreement-created, agreement-amended, agreement-ended`: func(e *lifecycle.TestEvent) { e.Kind = "license-created" },
		`unknown role "buyer"; it is manufacturer or proposer`: func(e *lifecycle.TestEvent) { e.Role = "buyer" },
		"license-updated is told to the manufacturer alone":    func(e *lifecycle.TestEvent) { e.Role = lifecycle.Proposer },
		"license-updated needs a license":                      func(e *lifecycle.TestEvent) { e.License = "" },
		"license-updated needs a product code":                 func(e *lifecycle.TestEvent) { e.ProductCode = "" },
		"the buyer's account must be 12 digits":                func(e *lifecycle.TestEvent) { e.Account = "1234" },
		"the agreement's id is missing":                        func(e *lifecycle.TestEvent) { e.Agreement = "" },
		"the event's time is missing":                          func(e *lifecycle.TestEvent) { e.At = time.Time{} },
		`an agreement does not end as "ENDED"; it is one of CANCELLED, EXPIRED, TERMINATED, RENEWED, REPLACED`: func(e *lifecycle.TestEvent) {
			e.Kind, e.Status = lifecycle.AgreementEnded, "ENDED"
		},
	} {
		e := example()
		e.Kind = lifecycle.LicenseUpdated
		change(&e)
		if _, err := e.JSON(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
