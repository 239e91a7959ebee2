package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// A node that is named by its address is asked over HTTP, and answers in the words of a desk.
func TestRefusedUsageOfANodeByItsAddress(t *testing.T) {
	t.Parallel()
	f := pipeline.Refusal{Account: exampleAccount, Dimension: "api_calls", Hour: "2026-03-10T14", Units: 7, Status: metering.CustomerNotSubscribed, LostAt: time.Date(2026, 3, 11, 14, 0, 0, 0, time.UTC)}
	var asked []dev.Retry
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/refused" {
			_ = json.NewEncoder(w).Encode(dev.Refusals{Reopenable: pipeline.Reopenable{Records: 1, Units: 7, FirstLostAt: f.LostAt}, List: []pipeline.LicenseRefusal{{License: r.URL.Query().Get("license"), Refusal: f, Left: "22h40m0s"}}})
			return
		}
		var body dev.Retry
		_ = json.NewDecoder(r.Body).Decode(&body)
		asked = append(asked, body)
		_ = json.NewEncoder(w).Encode(dev.Retried{Retried: pipeline.Retried{DryRun: body.DryRun, Reopened: []pipeline.Refusal{f}, Units: 7}, NextSubmission: time.Date(2026, 3, 10, 15, 23, 0, 0, time.UTC)})
	}))
	t.Cleanup(node.Close)
	for _, tt := range []struct {
		args, out string
		code      int
	}{
		{"list --license " + exampleLicense, "1 refused record, 7 units, can be sent once more.\n" +
			"  HOUR           ACCOUNT       DIMENSION  UNITS  REFUSED FOR            CAN BE BILLED UNTIL   LEFT      LICENSE\n" +
			"  2026-03-10T14  111122223333  api_calls  7      CustomerNotSubscribed  2026-03-11T14:00:00Z  22h40m0s  " + exampleLicense + "\n" +
			"When the cause is put right, a license's usage is sent once more by\n  awsmp refused retry --license " + exampleLicense + " --node " + node.URL + "\n", exitOK},
		{"retry --hour 2026-03-10T14 --license " + exampleLicense + " --yes", "1 record, 7 units: sent once more with the submission at 03-10 15:23:00.\n" +
			"  HOUR           ACCOUNT       DIMENSION  UNITS  REFUSED FOR            CAN BE BILLED UNTIL\n" +
			"  2026-03-10T14  111122223333  api_calls  7      CustomerNotSubscribed  2026-03-11T14:00:00Z\n", exitOK},
		{"retry --license " + exampleLicense, "Dry run: 1 record, 7 units, would be sent once more. Nothing is changed.\n" +
			"  HOUR           ACCOUNT       DIMENSION  UNITS  REFUSED FOR            CAN BE BILLED UNTIL\n" +
			"  2026-03-10T14  111122223333  api_calls  7      CustomerNotSubscribed  2026-03-11T14:00:00Z\n", exitUsage},
	} {
		var out, errs bytes.Buffer
		code := run(context.Background(), append(append([]string{"refused"}, strings.Fields(tt.args)...), "--node", node.URL), strings.NewReader(""), &out, &errs)
		if code != tt.code {
			t.Errorf("%s ends with %d: %s", tt.args, code, errs.String())
		}
		if diff := cmp.Diff(tt.out, out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, diff)
		}
	}
	want := []dev.Retry{{License: exampleLicense, Hour: "2026-03-10T14"}, {License: exampleLicense, DryRun: true}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// A node looks up no ends of licenses, and what is said then leads to the same node.
func TestNodeKnowsWholeLicensesAlone(t *testing.T) {
	t.Parallel()
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(dev.Problem{Error: "no usage of this license is known here", Hint: "awsmp refused list shows all"})
	}))
	t.Cleanup(node.Close)
	want := "awsmp: no usage of this license is known here: name the whole licenseArn, its end is not looked up by a node's address\nTry: awsmp refused list --node " + node.URL + "\n"
	for _, args := range [][]string{{"refused", "list", "--license", "l-1a2b…f801"}, {"refused", "retry", "--license", "f801", "--yes"}} {
		var out, errs bytes.Buffer
		if code := run(context.Background(), append(args, "--node", node.URL), strings.NewReader(""), &out, &errs); code != exitError || errs.String() != want {
			t.Errorf("%v ends with %d: %s", args, code, errs.String())
		}
	}
}
