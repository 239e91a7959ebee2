package telemetry_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/telemetry"
)

// twelve are the numbers that could be an account, and those that end the id of a request.
var twelve = regexp.MustCompile(`\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|[0-9]+`)

// FuzzMask: whatever stands around them in a line of the log, no license and no account is left in it, and masking twice is masking once.
func FuzzMask(f *testing.F) {
	f.Add("run failed: ", `: {"licenseArn":"l","customerAWSAccountId":"111122223333"}`)
	f.Add("value '", "' at 'usageRecords.1.member.customerIdentifier' failed")
	f.Add("111122223333#api#2026-03-10T14 token=", " RequestID: 01234567-89ab-cdef-0123-456789012345")
	f.Add("https://sqs.eu-west-1.amazonaws.com/", "/awsmp-work … …3333 x…")
	f.Add("customerIdentifier=\"\\\"", "#a#2026-03-10T14")
	f.Fuzz(func(t *testing.T, before, after string) {
		masked := telemetry.Mask(before + " " + license + " " + account + " " + after)
		if strings.Contains(masked, license) || strings.Contains(masked, account) {
			t.Errorf("%q", masked)
		}
		for _, n := range twelve.FindAllString(masked, -1) {
			if len(n) == 12 {
				t.Errorf("the number %s is left in %q", n, masked)
			}
		}
		if again := telemetry.Mask(masked); again != masked {
			t.Errorf("once  %q\ntwice %q", masked, again)
		}
		if utf8.ValidString(before) && utf8.ValidString(after) && !utf8.ValidString(masked) {
			t.Errorf("%q is no UTF-8 any more", masked)
		}
	})
}

// FuzzEMF: whatever the cause of a metric is, as an exception that the Marketplace has named, the line is one that CloudWatch takes.
func FuzzEMF(f *testing.F) {
	f.Add("DuplicateRecord", "example", "live", int64(1), int64(3))
	f.Add(" \n", "é\u2028", "\xff", int64(-1), int64(0))
	f.Add(strings.Repeat("x", 2000), "", "dry-run", int64(1)<<62, int64(1)<<62)
	f.Fuzz(func(t *testing.T, cause, product, mode string, items, units int64) {
		for _, metric := range []metering.Metric{metering.MetricException, metering.MetricRowRejected} {
			var out bytes.Buffer
			e := telemetry.NewEMF(&out, telemetry.EMFOptions{ProductCode: product, MeteringMode: mode, Now: at})
			e.Emit(metering.Measure{Metric: metric, Items: items, Units: units, Cause: cause})
			var root map[string]any
			var head struct {
				AWS struct {
					CloudWatchMetrics []struct {
						Dimensions [][]string
						Metrics    []struct{ Name string }
					}
				} `json:"_aws"`
			}
			if err := json.Unmarshal(out.Bytes(), &root); err != nil || json.Unmarshal(out.Bytes(), &head) != nil || bytes.Count(out.Bytes(), []byte("\n")) != 1 || e.TakeErr() != nil {
				t.Fatalf("%v of %s", err, &out)
			}
			directive := head.AWS.CloudWatchMetrics[0]
			for _, name := range slices.Concat(directive.Dimensions...) {
				v, ok := root[name].(string)
				if visible := func(r rune) bool { return r < ' ' || r > '~' }; !ok || strings.TrimSpace(v) == "" || len(v) > 1024 || strings.ContainsFunc(v, visible) {
					t.Errorf("dimension %s is %q", name, root[name])
				}
			}
			for _, m := range directive.Metrics {
				if _, ok := root[m.Name].(float64); !ok {
					t.Errorf("metric %s is %v", m.Name, root[m.Name])
				}
			}
		}
	})
}
