package functions_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
)

// F46: a function needs its own variables and no others. (The seed's functions all asked for SUBSCRIBERS_TABLE.)
func TestF46AFunctionReadsItsOwnVariablesOnly(t *testing.T) {
	t.Parallel()
	common := []string{"AWS_REGION", "LOG_LEVEL", "METERING_MODE", "PRODUCT_CODE"}
	own := map[string][]string{
		functions.Discoverer: {
			"USAGE_TABLE", "AGGREGATED_USAGE_TABLE", "SUBSCRIBERS_TABLE", "SUBSCRIBERS_TABLE_REGION", "WORK_QUEUE_URL",
			"DEPROVISION_WORK_QUEUE_URL", "CLEANUP_QUEUE_URL", "METERING_LOCK_HOURS",
		},
		functions.Aggregator: {"USAGE_TABLE", "AGGREGATED_USAGE_TABLE", "CLEANUP_QUEUE_URL"},
		functions.Cleanup:    {"USAGE_TABLE"},
		functions.Submitter: {
			"AGGREGATED_USAGE_TABLE", "SUBSCRIBERS_TABLE", "SUBSCRIBERS_TABLE_REGION", "MAX_RECORDS_PER_RUN", "METERING_CALLS_PER_SECOND",
			"SUBMISSION", "USAGE_TTL_DAYS", "AGGREGATED_USAGE_TTL_DAYS",
		},
		functions.SubmissionExpiry: {"AGGREGATED_USAGE_TABLE"},
	}
	for _, f := range functions.All() {
		read := map[string]bool{}
		get := changed(nil)
		if _, err := f.Read(func(name string) string { read[name] = true; return get(name) }); err != nil {
			t.Errorf("%s: %v", f.Handler, err)
		}
		want := slices.Sorted(slices.Values(append(own[f.Handler], common...)))
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(read))); diff != "" {
			t.Errorf("%s: %s", f.Handler, diff)
		}
	}
}

// Each variable that a function reads is asked for by name when it is not set, but for the log's level.
func TestEveryVariableMustBeSet(t *testing.T) {
	t.Parallel()
	for _, f := range functions.All() {
		for _, v := range f.Variables {
			_, err := f.Read(changed(map[string]string{v.Name: ""}))
			if v.Name == "LOG_LEVEL" {
				if err != nil {
					t.Errorf("%s without %s: %v", f.Handler, v.Name, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), v.Name+" is not set, want "+v.Want) || strings.Count(err.Error(), "want") != 1 {
				t.Errorf("%s without %s: error %v", f.Handler, v.Name, err)
			}
		}
	}
}

func TestOneErrorListsEverything(t *testing.T) {
	t.Parallel()
	f, err := functions.Named(functions.Submitter)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Read(changed(map[string]string{
		"METERING_MODE": "Live", "SUBMISSION": "", "METERING_CALLS_PER_SECOND": "0", "AGGREGATED_USAGE_TTL_DAYS": "366", "METERING_LOCK_HOURS": "nonsense",
	}))
	const want = `read settings of submitter: METERING_MODE is "Live", want live or dry-run; ` +
		`METERING_CALLS_PER_SECOND is "0", want a number above 0, up to 1000; SUBMISSION is not set, want enabled or paused; ` +
		`AGGREGATED_USAGE_TTL_DAYS is "366", want 0, or from USAGE_TTL_DAYS + 2 to 3652; only 0 where that is 0. ` +
		`Try: aws lambda get-function-configuration --function-name NAME --query Environment (the stack's parameters set them)`
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v\nwant\n%s", err, want)
	}
}

// A name that was copied once too often.
func TestTwoVariablesOfOneThing(t *testing.T) {
	t.Parallel()
	f, err := functions.Named(functions.Discoverer)
	if err != nil {
		t.Fatal(err)
	}
	get := changed(nil)
	_, err = f.Read(changed(map[string]string{"AGGREGATED_USAGE_TABLE": get("USAGE_TABLE"), "CLEANUP_QUEUE_URL": get("WORK_QUEUE_URL")}))
	for _, says := range []string{"AGGREGATED_USAGE_TABLE is \"" + get("USAGE_TABLE") + "\", which USAGE_TABLE is too", "CLEANUP_QUEUE_URL is \"" + get("WORK_QUEUE_URL") + "\", which WORK_QUEUE_URL is too"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, which does not say %q", err, says)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		good, wrong []string
	}{
		{"AWS_REGION", []string{"us-east-1", "us-gov-west-1", "ap-southeast-4"}, []string{"us-east-1a", "US-EAST-1", "localhost", "useast1"}},
		{"LOG_LEVEL", []string{"DEBUG", "info", "WARN", "ERROR"}, []string{"loud", "3"}},
		{"PRODUCT_CODE", []string{"d5l0mabcdefghijklmnopqrst", "a"}, []string{"two words", strings.Repeat("x", 256)}},
		{"METERING_MODE", []string{"live", "dry-run"}, []string{"Live", "dryrun", "live "}},
		{"USAGE_TABLE", []string{"awsmp-x-usage", "a.b"}, []string{"ab", "a b c", "arn:aws:dynamodb:us-east-1:111122223333:table/x", strings.Repeat("x", 256)}},
		{"SUBSCRIBERS_TABLE_REGION", []string{"eu-west-1"}, []string{"everywhere"}},
		{"WORK_QUEUE_URL", []string{"https://sqs.us-east-1.amazonaws.com/111122223333/q", "http://127.0.0.1:4566/111122223333/q"},
			[]string{"awsmp-x-work", "arn:aws:sqs:us-east-1:111122223333:q", "https://sqs.us-east-1.amazonaws.com", "https://h/a b"}},
		{"METERING_LOCK_HOURS", []string{"1", "20"}, []string{"0", "21", "-1", "1.5", "one", "1h"}},
		{"MAX_RECORDS_PER_RUN", []string{"1", "50000", "1000000"}, []string{"0", "1000001", "5e4", "99999999999999999999"}},
		{"METERING_CALLS_PER_SECOND", []string{"10", "0.5", "1000"}, []string{"0", "-1", "NaN", "Inf", "ten", "1001"}},
		{"SUBMISSION", []string{"enabled", "paused"}, []string{"disabled", "true"}},
		{"USAGE_TTL_DAYS", []string{"0", "2", "3650"}, []string{"1", "-1", "3651", "365d"}},
		{"AGGREGATED_USAGE_TTL_DAYS", []string{"0", "367", "3652"}, []string{"1", "365", "366", "3653", "-1"}},
	}
	for _, test := range tests {
		f := reader(t, test.name)
		for _, v := range test.good {
			if _, err := f.Read(changed(map[string]string{test.name: v})); err != nil {
				t.Errorf("%s=%s: %v", test.name, v, err)
			}
		}
		for _, v := range test.wrong {
			_, err := f.Read(changed(map[string]string{test.name: v}))
			if err == nil || !strings.Contains(err.Error(), test.name+" is ") || strings.Count(err.Error(), "want") != 1 {
				t.Errorf("%s=%s: error %v", test.name, v, err)
			}
		}
	}
}

// reader is a function that reads a variable.
func reader(t *testing.T, name string) functions.Function {
	t.Helper()
	for _, f := range functions.All() {
		if slices.ContainsFunc(f.Variables, func(v functions.Variable) bool { return v.Name == name }) {
			return f
		}
	}
	t.Fatalf("no function reads %s", name)
	return functions.Function{}
}

// A billed record is never deleted before the rows that it was summed from: what is left would look unbilled.
func TestRecordsOutliveRows(t *testing.T) {
	t.Parallel()
	f := reader(t, "AGGREGATED_USAGE_TTL_DAYS")
	for _, test := range []struct {
		rows, records string
		ok            bool
	}{
		{"0", "0", true}, {"0", "3652", false}, {"365", "0", true}, {"365", "366", false}, {"365", "367", true}, {"2", "4", true}, {"2", "3", false},
	} {
		_, err := f.Read(changed(map[string]string{"USAGE_TTL_DAYS": test.rows, "AGGREGATED_USAGE_TTL_DAYS": test.records}))
		if (err == nil) != test.ok {
			t.Errorf("rows %s days, records %s days: error %v", test.rows, test.records, err)
		}
	}
	_, err := f.Read(changed(map[string]string{"USAGE_TTL_DAYS": "never", "AGGREGATED_USAGE_TTL_DAYS": "367"}))
	if err == nil || strings.Contains(err.Error(), "AGGREGATED_USAGE_TTL_DAYS is") {
		t.Errorf("error %v: the records' days may be right", err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	f, err := functions.Named(functions.Submitter)
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Read(changed(map[string]string{"METERING_MODE": "dry-run", "SUBMISSION": "paused", "AGGREGATED_USAGE_TTL_DAYS": "400", "LOG_LEVEL": ""}))
	want := functions.Settings{
		Region: "eu-west-1", ProductCode: "example", DryRun: true, AggregatedTable: "awsmp-example-aggregated-usage",
		SubscribersTable: "awsmp-subscribers", SubscribersRegion: "us-east-1",
		MaxRecords: 50000, CallsPerSecond: 10, Paused: true, UsageDays: 365, AggregatedDays: 400,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, %s", err, diff)
	}
}

func TestAnUnknownHandlerIsAnErrorThatListsTheKnownOnes(t *testing.T) {
	t.Parallel()
	for _, handler := range []string{"", "bootstrap", "Discoverer", "submission_expiry"} {
		_, err := functions.Named(handler)
		if err == nil || !strings.Contains(err.Error(), "discoverer, aggregator, cleanup, submitter, submission-expiry") {
			t.Errorf("%q: error %v", handler, err)
		}
	}
}
