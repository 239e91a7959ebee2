package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/telemetry"
)

var _ pipeline.Metrics = (*telemetry.EMF)(nil)

func at() time.Time { return time.Date(2026, 3, 10, 15, 20, 0, 123e6, time.UTC) }

func TestEMF(t *testing.T) {
	t.Parallel()
	live := telemetry.EMFOptions{ProductCode: "prod-1", MeteringMode: "live", Now: at}
	for name, tt := range map[string]struct {
		options telemetry.EMFOptions
		measure metering.Measure
		want    string
	}{
		"no cause: by product alone, the mode is a property": {
			live, metering.Measure{Metric: metering.MetricBilled, Items: 1, Units: 7},
			`{"UsageBilled":1,"UsageBilledUnits":7,"ProductCode":"prod-1","MeteringMode":"live","_aws":{"Timestamp":1773156000123,
			"CloudWatchMetrics":[{"Namespace":"AwsMarketplace/Metering","Dimensions":[["ProductCode"]],
			"Metrics":[{"Name":"UsageBilled","Unit":"Count"},{"Name":"UsageBilledUnits","Unit":"Count"}]}]}}`,
		},
		"a reason": {
			live, metering.Measure{Metric: metering.MetricRowRejected, Items: 3, Units: 12, Cause: "NegativeQuantity"},
			`{"UsageRecordRejected":3,"UsageRecordRejectedUnits":12,"ProductCode":"prod-1","MeteringMode":"live","Reason":"NegativeQuantity","_aws":{"Timestamp":1773156000123,
			"CloudWatchMetrics":[{"Namespace":"AwsMarketplace/Metering","Dimensions":[["ProductCode"],["ProductCode","MeteringMode","Reason"]],
			"Metrics":[{"Name":"UsageRecordRejected","Unit":"Count"},{"Name":"UsageRecordRejectedUnits","Unit":"Count"}]}]}}`,
		},
		"an exception of the Marketplace": {
			telemetry.EMFOptions{ProductCode: "prod-1", MeteringMode: "dry-run", Now: at},
			metering.Measure{Metric: metering.MetricException, Items: 1, Units: 2, Cause: "InvalidUsageDimensionException"},
			`{"BatchMeterUsageException":1,"BatchMeterUsageExceptionUnits":2,"ProductCode":"prod-1","MeteringMode":"dry-run","Exception":"InvalidUsageDimensionException","_aws":{"Timestamp":1773156000123,
			"CloudWatchMetrics":[{"Namespace":"AwsMarketplace/Metering","Dimensions":[["ProductCode"],["ProductCode","MeteringMode","Exception"]],
			"Metrics":[{"Name":"BatchMeterUsageException","Unit":"Count"},{"Name":"BatchMeterUsageExceptionUnits","Unit":"Count"}]}]}}`,
		},
		"no units": {
			live, metering.Measure{Metric: metering.MetricPendingRepaired, Items: 1},
			`{"UsagePendingRepaired":1,"ProductCode":"prod-1","MeteringMode":"live","_aws":{"Timestamp":1773156000123,
			"CloudWatchMetrics":[{"Namespace":"AwsMarketplace/Metering","Dimensions":[["ProductCode"]],
			"Metrics":[{"Name":"UsagePendingRepaired","Unit":"Count"}]}]}}`,
		},
		"nothing seen is a datapoint too (case 50)": {
			live, metering.Measure{Metric: metering.MetricBilled},
			`{"UsageBilled":0,"ProductCode":"prod-1","MeteringMode":"live","_aws":{"Timestamp":1773156000123,
			"CloudWatchMetrics":[{"Namespace":"AwsMarketplace/Metering","Dimensions":[["ProductCode"]],
			"Metrics":[{"Name":"UsageBilled","Unit":"Count"}]}]}}`,
		},
		"neither product nor mode": {
			telemetry.EMFOptions{Now: at}, metering.Measure{Metric: "AgreementUnknown", Items: 1},
			`{"AgreementUnknown":1,"_aws":{"Timestamp":1773156000123,
			"CloudWatchMetrics":[{"Namespace":"AwsMarketplace/Metering","Dimensions":[[]],
			"Metrics":[{"Name":"AgreementUnknown","Unit":"Count"}]}]}}`,
		},
		"the events stack has its mode in place of a product": {
			telemetry.EMFOptions{MeteringMode: "dry-run", Now: at}, metering.Measure{Metric: metering.MetricEventFailed, Items: 1, Cause: "License Deprovisioned"},
			`{"SubscriptionEventFailed":1,"MeteringMode":"dry-run","Reason":"License Deprovisioned","_aws":{"Timestamp":1773156000123,
			"CloudWatchMetrics":[{"Namespace":"AwsMarketplace/Metering","Dimensions":[["MeteringMode"],["MeteringMode","Reason"]],
			"Metrics":[{"Name":"SubscriptionEventFailed","Unit":"Count"}]}]}}`,
		},
		"neither product nor mode, with a reason": {
			telemetry.EMFOptions{Now: at}, metering.Measure{Metric: "EventIgnored", Items: 1, Cause: "Renewed"},
			`{"EventIgnored":1,"Reason":"Renewed","_aws":{"Timestamp":1773156000123,
			"CloudWatchMetrics":[{"Namespace":"AwsMarketplace/Metering","Dimensions":[[],["Reason"]],
			"Metrics":[{"Name":"EventIgnored","Unit":"Count"}]}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			telemetry.NewEMF(&out, tt.options).Emit(tt.measure)
			got := checkEMF(t, out.String())
			var want map[string]any
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
		})
	}
}

// What the service would not take as a dimension must not cost the metric.
func TestEMFDimensionValues(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ cause, want string }{
		"not ASCII":       {"Größe\tfalsch\n", "Gr??e?falsch?"},
		"too long":        {strings.Repeat("x", 5000), strings.Repeat("x", 1024)},
		"JSON characters": {`a"b\c<d>`, `a"b\c<d>`},
		"blank":           {"  ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			e := telemetry.NewEMF(&out, telemetry.EMFOptions{ProductCode: "prod-1", MeteringMode: "live", Now: at})
			e.Emit(metering.Measure{Metric: metering.MetricRowRejected, Items: 1, Cause: tt.cause})
			if got, _ := checkEMF(t, out.String())["Reason"].(string); got != tt.want {
				t.Errorf("reason %q, want %q", got, tt.want)
			}
		})
	}
}

// Lines of several goroutines reach the writer whole, each by one Write.
func TestEMFConcurrent(t *testing.T) {
	t.Parallel()
	var w writes
	e := telemetry.NewEMF(&w, telemetry.EMFOptions{ProductCode: "prod-1", MeteringMode: "live", Now: at})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				e.Emit(metering.Measure{Metric: metering.MetricRowLate, Items: 1, Units: int64(i + 1), Cause: fmt.Sprint("cause ", i)})
			}
		})
	}
	all.Wait()
	if len(w) != 800 {
		t.Fatalf("%d writes, want 800", len(w))
	}
	items, units := 0.0, 0.0
	for _, line := range w {
		root := checkEMF(t, line)
		items += root["UsageLate"].(float64)
		units += root["UsageLateUnits"].(float64)
	}
	if items != 800 || units != 3600 {
		t.Errorf("%v items and %v units, want 800 and 3600", items, units)
	}
}

type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

func TestEMFErr(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	e := telemetry.NewEMF(w, telemetry.EMFOptions{ProductCode: "prod-1"})
	if err := e.TakeErr(); err != nil {
		t.Errorf("before anything was written: %v", err)
	}
	e.Emit(metering.Measure{Metric: metering.MetricRowLate, Items: 1})
	e.Emit(metering.Measure{Metric: metering.MetricBilled, Items: 1})
	if err := e.TakeErr(); !errors.Is(err, io.ErrClosedPipe) || !strings.Contains(err.Error(), "UsageLate") {
		t.Errorf("error %v, want the first failed write", err)
	}
	if err := e.TakeErr(); err != nil {
		t.Errorf("a failure that was told is told again: %v", err) // it would fail every later invocation of the process
	}
}

// The checks of EMF documents can fail.
func TestEMFChecks(t *testing.T) {
	t.Parallel()
	good := `{"X":1,"P":"p","_aws":{"Timestamp":1773156000123,"CloudWatchMetrics":[{"Namespace":"n","Dimensions":[["P"]],"Metrics":[{"Name":"X","Unit":"Count"}]}]}}`
	if faults := emfFaults(good); len(faults) != 0 {
		t.Errorf("a good document: %v", faults)
	}
	for name, edit := range map[string][2]string{
		"no metadata":              {`"_aws"`, `"_AWS"`},
		"seconds":                  {`1773156000123`, `1773156000`},
		"half a millisecond":       {`1773156000123`, `1773156000123.5`},
		"no dimension sets":        {`[["P"]]`, `[]`},
		"a set of null":            {`[["P"]]`, `[null]`},
		"a dimension that is none": {`"P":"p",`, ``},
		"a numeric dimension":      {`"P":"p"`, `"P":1`},
		"an empty dimension":       {`"P":"p"`, `"P":""`},
		"a control character":      {`"P":"p"`, `"P":"p\n"`},
		"a metric that is none":    {`"X":1`, `"Y":1`},
		"a metric in words":        {`"X":1`, `"X":"1"`},
		"another unit":             {`"Count"`, `"Pieces"`},
		"no namespace":             {`"Namespace":"n"`, `"Namespace":""`},
		"an unknown member":        {`"Namespace":"n"`, `"Namespace":"n","Region":"r"`},
		"something behind it":      {`]}}`, `]}} {}`},
	} {
		bad := strings.Replace(good, edit[0], edit[1], 1)
		if faults := emfFaults(bad); bad == good || len(faults) == 0 {
			t.Errorf("%s: no fault found in %s", name, bad)
		}
	}
}

// checkEMF holds what was written against the format, and returns its one document.
func checkEMF(t *testing.T, out string) map[string]any {
	t.Helper()
	line, ended := strings.CutSuffix(out, "\n")
	if !ended || strings.Contains(line, "\n") {
		t.Fatalf("want one whole line, got %q", out)
	}
	for _, fault := range emfFaults(line) {
		t.Errorf("%s in %s", fault, line)
	}
	var root map[string]any
	if err := json.Unmarshal([]byte(line), &root); err != nil {
		t.Fatal(err)
	}
	return root
}

// emfFaults says where a document breaks the rules and the JSON schema of the Amazon CloudWatch user guide, "Specification:
// Embedded metric format", or those for dimensions in the CloudWatch API reference, "Dimension".
func emfFaults(line string) (faults []string) {
	fault := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	var root map[string]any
	if err := json.Unmarshal([]byte(line), &root); err != nil {
		return []string{"no JSON object: " + err.Error()}
	}
	fault(len(line) <= 256<<10, "%d bytes", len(line)) // the older of the two limits that the guide has named
	head, _ := root["_aws"].(map[string]any)
	stamp, _ := head["Timestamp"].(float64)
	fault(stamp == float64(int64(stamp)) && stamp > 1e12 && stamp < 1e13, "timestamp %v is no whole milliseconds", head["Timestamp"])
	directives, _ := head["CloudWatchMetrics"].([]any)
	fault(len(directives) > 0, "no directive")
	for _, d := range directives {
		directive, _ := d.(map[string]any)
		fault(slices.Equal(slices.Sorted(maps.Keys(directive)), []string{"Dimensions", "Metrics", "Namespace"}), "members %v", directive)
		namespace, _ := directive["Namespace"].(string)
		fault(namespace != "" && len(namespace) <= 1024, "namespace %q", namespace)
		sets, _ := directive["Dimensions"].([]any)
		fault(len(sets) > 0, "no dimension set")
		for _, s := range sets {
			set, ok := s.([]any)
			fault(ok && len(set) <= 30, "dimension set %v", s)
			for _, d := range set {
				name, _ := d.(string)
				value, _ := root[name].(string)
				fault(len(name) <= 250 && printable(name) && name[0] != ':', "dimension %q", name)
				fault(len(value) <= 1024 && printable(value), "dimension %s is %v", name, root[name])
			}
		}
		metrics, _ := directive["Metrics"].([]any)
		fault(len(metrics) > 0 && len(metrics) <= 100, "%d metrics", len(metrics))
		for _, m := range metrics {
			metric, _ := m.(map[string]any)
			name, _ := metric["Name"].(string)
			_, number := root[name].(float64)
			fault(name != "" && len(name) <= 1024 && number, "metric %q is %v", name, root[name])
			unit, _ := metric["Unit"].(string)
			fault(unit == "Count", "unit %q, and everything here is counted", unit)
			fault(len(metric) == 2, "metric %v", metric)
		}
	}
	return faults
}

func printable(s string) bool { return regexp.MustCompile(`^[ -~]*[!-~][ -~]*$`).MatchString(s) }

func BenchmarkEMF(b *testing.B) {
	e := telemetry.NewEMF(io.Discard, telemetry.EMFOptions{ProductCode: "prod-1", MeteringMode: "live"})
	for b.Loop() {
		e.Emit(metering.Measure{Metric: metering.MetricBilled, Items: 1, Units: 7})
	}
}
