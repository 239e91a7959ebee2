package functions_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/registration"
)

// F46: a function needs its own variables and no others. (The seed's functions all asked for SUBSCRIBERS_TABLE.)
func TestF46AFunctionReadsItsOwnVariablesOnly(t *testing.T) {
	t.Parallel()
	metering := []string{"AWS_REGION", "LOG_LEVEL", "METERING_MODE", "PRODUCT_CODE"}
	own := map[string][]string{
		functions.Discoverer: append([]string{
			"USAGE_TABLE", "AGGREGATED_USAGE_TABLE", "SUBSCRIBERS_TABLE", "SUBSCRIBERS_TABLE_REGION", "WORK_QUEUE_URL",
			"DEPROVISION_WORK_QUEUE_URL", "CLEANUP_QUEUE_URL", "METERING_LOCK_HOURS",
		}, metering...),
		functions.Aggregator: append([]string{"USAGE_TABLE", "AGGREGATED_USAGE_TABLE", "CLEANUP_QUEUE_URL"}, metering...),
		functions.Cleanup:    append([]string{"USAGE_TABLE"}, metering...),
		functions.Submitter: append([]string{
			"AGGREGATED_USAGE_TABLE", "SUBSCRIBERS_TABLE", "SUBSCRIBERS_TABLE_REGION", "MAX_RECORDS_PER_RUN", "METERING_CALLS_PER_SECOND",
			"SUBMISSION", "USAGE_TTL_DAYS", "AGGREGATED_USAGE_TTL_DAYS",
		}, metering...),
		functions.SubmissionExpiry: append([]string{"AGGREGATED_USAGE_TABLE"}, metering...),
		functions.Registration: append([]string{
			"CUSTOMER_PROFILE_TABLE", "SUBSCRIBERS_TABLE", "SUBSCRIBERS_TABLE_REGION", "REGISTRATION_FIELDS", "PROMOTED_FIELDS",
			"SELLER_NAME", "PRODUCT_NAME", "SUPPORT_CONTACT", "CONTINUE_URL", "ALLOWED_ORIGIN",
		}, metering...),
		functions.Subscription:       {"AWS_REGION", "LOG_LEVEL", "METERING_MODE", "SUBSCRIBERS_TABLE", "TEST_STAGE", "TEST_ACCOUNTS"},
		functions.DeprovisionCleanup: {"AWS_REGION", "LOG_LEVEL", "SUBSCRIBERS_TABLE"},
	}
	for _, f := range functions.All() {
		read := map[string]bool{}
		get := changed(nil)
		if _, err := f.Read(func(name string) string { read[name] = true; return get(name) }); err != nil {
			t.Errorf("%s: %v", f.Handler, err)
		}
		want := slices.Sorted(slices.Values(own[f.Handler]))
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
		beside      map[string]string // other variables
	}{
		{name: "AWS_REGION", good: []string{"us-east-1", "us-gov-west-1", "ap-southeast-4"}, wrong: []string{"us-east-1a", "US-EAST-1", "localhost", "useast1"}},
		{name: "LOG_LEVEL", good: []string{"DEBUG", "info", "WARN", "ERROR"}, wrong: []string{"loud", "3"}},
		{name: "PRODUCT_CODE", good: []string{"d5l0mabcdefghijklmnopqrst", "a"}, wrong: []string{"two words", strings.Repeat("x", 256)}},
		{name: "METERING_MODE", good: []string{"live", "dry-run"}, wrong: []string{"Live", "dryrun", "live "}},
		{
			name: "USAGE_TABLE", good: []string{"awsmp-x-usage", "a.b"},
			wrong: []string{"ab", "a b c", "arn:aws:dynamodb:us-east-1:111122223333:table/x", strings.Repeat("x", 256)},
		},
		{name: "SUBSCRIBERS_TABLE_REGION", good: []string{"eu-west-1"}, wrong: []string{"everywhere"}},
		{
			name: "WORK_QUEUE_URL", good: []string{"https://sqs.us-east-1.amazonaws.com/111122223333/q", "http://127.0.0.1:4566/111122223333/q"},
			wrong: []string{"awsmp-x-work", "arn:aws:sqs:us-east-1:111122223333:q", "https://sqs.us-east-1.amazonaws.com", "https://h/a b"},
		},
		{name: "METERING_LOCK_HOURS", good: []string{"1", "20"}, wrong: []string{"0", "21", "-1", "1.5", "one", "1h"}},
		{name: "MAX_RECORDS_PER_RUN", good: []string{"1", "50000", "1000000"}, wrong: []string{"0", "1000001", "5e4", "99999999999999999999"}},
		{name: "METERING_CALLS_PER_SECOND", good: []string{"10", "0.5", "1000"}, wrong: []string{"0", "-1", "NaN", "Inf", "ten", "1001"}},
		{name: "SUBMISSION", good: []string{"enabled", "paused"}, wrong: []string{"disabled", "true"}},
		{name: "USAGE_TTL_DAYS", good: []string{"0", "2", "3650"}, wrong: []string{"1", "-1", "3651", "365d"}},
		{name: "AGGREGATED_USAGE_TTL_DAYS", good: []string{"0", "367", "3652"}, wrong: []string{"1", "365", "366", "3653", "-1"}},
		{
			name: "TEST_STAGE", good: []string{"none", "beta", "b", "eu-2", strings.Repeat("b", 31)},
			wrong:  []string{"Beta", "2nd", "be ta", "beta.*", strings.Repeat("b", 32)},
			beside: map[string]string{"METERING_MODE": "dry-run"},
		},
		{
			name: "TEST_ACCOUNTS", good: []string{"none", "111122223333", "111122223333,444455556666"},
			wrong:  []string{"1111", "111122223333,", "111122223333, 444455556666", "111122223333,none", "*"},
			beside: map[string]string{"METERING_MODE": "dry-run"},
		},
		{name: "REGISTRATION_FIELDS", good: []string{"none", "contactName", "contactName*,plan_b"}, wrong: []string{"contact name", "*", "1st", "a,,b", "a,a"}, beside: map[string]string{"PROMOTED_FIELDS": "none"}},
		{name: "PROMOTED_FIELDS", good: []string{"none", "companyName", "companyName,contactName"}, wrong: []string{"useCase", "companyName*", "licenseArn", "companyName,"}},
		{name: "SELLER_NAME", good: []string{"none", "x", "Example & Söhne, Inc.", strings.Repeat("ä", 100)}, wrong: []string{"two\nlines", strings.Repeat("x", 101)}},
		{name: "PRODUCT_NAME", good: []string{"none", "Example <beta>"}, wrong: []string{"tab\there", "\xff"}},
		{name: "SUPPORT_CONTACT", good: []string{"none", "help@example.com", "https://www.example.com/help?a=b#c"}, wrong: []string{"help", "http://www.example.com", "javascript:alert(1)", "https://", "a b@example.com"}},
		{name: "CONTINUE_URL", good: []string{"none", "https://www.example.com/"}, wrong: []string{"help@example.com", "http://www.example.com", "javascript:alert(1)", "https://a b", "//www.example.com"}},
		{name: "ALLOWED_ORIGIN", good: []string{"none", "https://www.example.com", "https://www.example.com:8443"}, wrong: []string{"*", "null", "https://www.example.com/", "http://www.example.com", "www.example.com"}},
	}
	for _, test := range tests {
		f := reader(t, test.name)
		with := func(value string) func(string) string {
			changes := map[string]string{test.name: value}
			maps.Copy(changes, test.beside)
			if test.name == "TEST_STAGE" && !strings.ContainsAny(value, " *") && value != "none" {
				changes["SUBSCRIBERS_TABLE"] = "awsmp-subscribers-test-" + value
			}
			return changed(changes)
		}
		for _, v := range test.good {
			if _, err := f.Read(with(v)); err != nil {
				t.Errorf("%s=%s: %v", test.name, v, err)
			}
		}
		for _, v := range test.wrong {
			_, err := f.Read(with(v))
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

// An invented event goes into a table that no live product reads: it would begin a real license's last hour there.
func TestTestEventsHaveATableOfTheirOwn(t *testing.T) {
	t.Parallel()
	const stageTable, table = "awsmp-subscribers-test-beta", "awsmp-subscribers"
	for _, test := range []struct {
		handler, mode, stage, table, wrong string
	}{
		{functions.Subscription, "dry-run", "beta", stageTable, ""},
		{functions.Subscription, "dry-run", "beta", table, `TEST_STAGE is "beta", want a stage's name`},
		{functions.Subscription, "dry-run", "eta", stageTable, `TEST_STAGE is "eta", want a stage's name`},
		{functions.Subscription, "dry-run", "none", table, ""},
		{functions.Subscription, "live", "none", stageTable, `SUBSCRIBERS_TABLE is "awsmp-subscribers-test-beta", want`},
		{functions.Discoverer, "live", "", stageTable, `SUBSCRIBERS_TABLE is "awsmp-subscribers-test-beta", want`},
		{functions.Submitter, "live", "", stageTable, `SUBSCRIBERS_TABLE is "awsmp-subscribers-test-beta", want`},
		{functions.Registration, "live", "", stageTable, `SUBSCRIBERS_TABLE is "awsmp-subscribers-test-beta", want`},
		{functions.Discoverer, "dry-run", "", stageTable, ""},
		{functions.Discoverer, "live", "", table, ""},
	} {
		f, err := functions.Named(test.handler)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Read(changed(map[string]string{"METERING_MODE": test.mode, "TEST_STAGE": test.stage, "SUBSCRIBERS_TABLE": test.table}))
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%+v: error %v", test, err)
		}
	}
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
		Region: "eu-west-1", ProductCode: "example", Mode: "dry-run", AggregatedTable: "awsmp-example-aggregated-usage",
		SubscribersTable: "awsmp-subscribers", SubscribersRegion: "us-east-1",
		MaxRecords: 50000, CallsPerSecond: 10, Paused: true, UsageDays: 365, AggregatedDays: 400,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, %s", err, diff)
	}
}

// Invented events must never move what is billed: a live stage that is to take any does not start.
func TestALiveStageTakesNoTestEvents(t *testing.T) {
	t.Parallel()
	f, err := functions.Named(functions.Subscription)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		mode, stage, accounts string
		wrong                 []string
	}{
		{"live", "none", "none", nil},
		{"dry-run", "beta", "111122223333", nil},
		{"dry-run", "none", "none", nil},
		{"dry-run", "beta", "none", nil}, // nobody yet
		{"live", "beta", "none", []string{`TEST_STAGE is "beta"`}},
		{"live", "none", "111122223333", []string{`TEST_ACCOUNTS is "111122223333"`}},
		{"live", "beta", "111122223333", []string{`TEST_STAGE is "beta"`, `TEST_ACCOUNTS is "111122223333"`}},
	} {
		table := "awsmp-subscribers"
		if test.mode == "dry-run" {
			table += "-test-beta"
		}
		s, err := f.Read(changed(map[string]string{"METERING_MODE": test.mode, "TEST_STAGE": test.stage, "TEST_ACCOUNTS": test.accounts, "SUBSCRIBERS_TABLE": table}))
		if (err == nil) != (len(test.wrong) == 0) {
			t.Errorf("%+v: error %v", test, err)
		}
		for _, wrong := range test.wrong {
			if err != nil && (!strings.Contains(err.Error(), wrong) || strings.Count(err.Error(), "only none where METERING_MODE is live") != len(test.wrong)) {
				t.Errorf("%+v: error %v", test, err)
			}
		}
		if test.mode == "live" && (s.TestStage != "" || s.TestAccounts != nil) {
			t.Errorf("%+v: stage %q, accounts %v", test, s.TestStage, s.TestAccounts)
		}
	}
}

func TestSettingsOfTheRegistration(t *testing.T) {
	t.Parallel()
	f, err := functions.Named(functions.Registration)
	if err != nil {
		t.Fatal(err)
	}
	bare := map[string]string{"ALLOWED_ORIGIN": "https://www.example.com"}
	for _, name := range []string{"REGISTRATION_FIELDS", "PROMOTED_FIELDS", "SELLER_NAME", "PRODUCT_NAME", "SUPPORT_CONTACT", "CONTINUE_URL"} {
		bare[name] = "none"
	}
	for _, test := range []struct {
		changes  map[string]string
		fields   int
		promoted []string
		seller   registration.Seller
		origin   string
	}{
		{nil, 3, []string{"companyName"}, registration.Seller{
			Name: "Example Corp.", Product: "Example", Support: "help@example.com", Continue: "https://www.example.com/start",
		}, ""},
		{bare, 0, nil, registration.Seller{}, "https://www.example.com"},
	} {
		got, err := f.Read(changed(test.changes))
		if err != nil {
			t.Fatal(err)
		}
		r := got.Registration
		if len(r.Fields) != test.fields || !slices.Equal(r.Promoted, test.promoted) || r.Seller != test.seller || r.AllowedOrigin != test.origin {
			t.Errorf("%v: %+v", test.changes, r)
		}
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
