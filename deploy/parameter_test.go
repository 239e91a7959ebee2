package deploy_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/template"
)

// edgeSetting is a parameter that becomes a variable of functions, with values on both sides of the edge.
type edgeSetting struct {
	parameter, variable string
	good                []string // the template takes them and the functions start
	wrong               []string // the template refuses them, as the functions would
	narrow              []string // the template refuses them although the functions would start: they do not fit names, or are for one machine
	with                map[string]string
}

func repeated(n int, text string) string { return strings.TrimSuffix(strings.Repeat(text+",", n), ",") }

// fieldNames are n of them, each with 64 characters, and a * behind it.
func fieldNames(n int, star string) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("f%02d%s%s", i, strings.Repeat("x", 61), star))
	}
	return strings.Join(list, ",")
}

var dryRunStage = map[string]string{"MeteringMode": "dry-run"}

// edgeSettings are those of a template.
func edgeSettings(file string) []edgeSetting {
	if file == eventsTemplate {
		return []edgeSetting{
			{parameter: "MeteringMode", variable: "METERING_MODE", good: []string{"live", "dry-run"}, wrong: []string{"", "Live", "dryrun", "live "}},
			{
				parameter: "StageName", variable: "TEST_STAGE", with: dryRunStage,
				good: []string{"q", "qa", "eu-2", "nonesuch", strings.Repeat("q", 31)}, wrong: []string{"", "QA", "2nd", "q_a", "q a", "qa.*", strings.Repeat("q", 32)},
			},
			{
				parameter: "TestAccounts", variable: "TEST_ACCOUNTS", with: dryRunStage,
				good: []string{"none", "111122223333", repeated(50, "111122223333")}, wrong: []string{"", "*", "1111", "111122223333,", "111122223333, 444455556666", "none,111122223333"},
			},
		}
	}
	page := []string{"none", "https://a", "https://www.example.com:8443/x%20y/?a=b&c=d#e", "https://Example.com?a", "https://example.com/" + strings.Repeat("x", 200)}
	noPage := []string{
		"", "help", "http://www.example.com", "https://", "https:///help", "https://me@example.com/", "https://example.com/%zz", "https://example.com/a b",
		"https://example.com:port/", "javascript:alert(1)", "//www.example.com", "None",
	}
	phrase := edgeSetting{
		good:  []string{"none", "x", "Example & Söhne, Inc.", strings.Repeat("語", 100)},
		wrong: []string{"", "two\nlines", "tab\there", "escape\x1b[0m", "next\u0085line", strings.Repeat("x", 101)},
	}
	return []edgeSetting{
		{parameter: "ProductCode", variable: "PRODUCT_CODE", good: []string{"a", "PROD-1", strings.Repeat("x", 36)}, wrong: []string{"", "two words", "a,b"}, narrow: []string{strings.Repeat("x", 37), "a_b"}},
		{parameter: "MeteringMode", variable: "METERING_MODE", good: []string{"live", "dry-run"}, wrong: []string{"", "Live", "dryrun", "live "}},
		{parameter: "Submission", variable: "SUBMISSION", good: []string{"enabled", "paused"}, wrong: []string{"", "disabled", "true"}},
		{parameter: "MeteringLockHours", variable: "METERING_LOCK_HOURS", good: []string{"1", "20"}, wrong: []string{"", "0", "21", "-1", "1.5", "one", "1h"}},
		{parameter: "MaxRecordsPerRun", variable: "MAX_RECORDS_PER_RUN", good: []string{"1", "999999", "1000000"}, wrong: []string{"", "0", "1000001", "5e4", "1.5"}},
		{parameter: "MeteringCallsPerSecond", variable: "METERING_CALLS_PER_SECOND", good: []string{"0.1", "2.5", "10", "1000"}, wrong: []string{"", "0", "-1", "1000.5", "ten", "NaN", "Inf"}, narrow: []string{"0.05"}},
		{parameter: "UsageTableTtlDays", variable: "USAGE_TTL_DAYS", good: []string{"0", "2", "3650"}, wrong: []string{"", "1", "-1", "3651", "365d", "2.5"}},
		{
			parameter: "AggregatedUsageTableTtlDays", variable: "AGGREGATED_USAGE_TTL_DAYS", with: map[string]string{"UsageTableTtlDays": "2"},
			good: []string{"0", "4", "367", "3652"}, wrong: []string{"", "1", "2", "3", "-1", "3653"},
		},
		{parameter: "SubscribersTableName", variable: "SUBSCRIBERS_TABLE", good: []string{"abc", "a.B_c-d", strings.Repeat("x", 255)}, wrong: []string{"", "ab", "a b c", "arn:aws:dynamodb:us-east-1:111122223333:table/x", strings.Repeat("x", 256)}},
		{parameter: "SubscribersTableRegion", variable: "SUBSCRIBERS_TABLE_REGION", good: []string{"us-gov-west-1", "ap-southeast-4"}, wrong: []string{"", "everywhere", "us-east-1a", "US-EAST-1"}},
		{
			parameter: "AllowedRegistrationFields", variable: "REGISTRATION_FIELDS", with: map[string]string{"PromotedProfileFields": "none"},
			good:  []string{"none", "a", "contactName*,plan_b", "none*,other", fieldNames(20, "*")},
			wrong: []string{"", "contact name", "*", "1st", "a,,b", "a,", "a**", fieldNames(21, ""), strings.Repeat("x", 65)},
		},
		{
			parameter: "PromotedProfileFields", variable: "PROMOTED_FIELDS", with: map[string]string{"AllowedRegistrationFields": fieldNames(20, "")},
			good: []string{"none", fieldNames(1, ""), fieldNames(20, "")}, wrong: []string{"", fieldNames(1, "*"), fieldNames(1, "") + ",", fieldNames(21, "")},
		},
		{parameter: "SellerName", variable: "SELLER_NAME", good: phrase.good, wrong: phrase.wrong},
		{parameter: "ProductName", variable: "PRODUCT_NAME", good: phrase.good, wrong: phrase.wrong},
		{
			parameter: "SupportContact", variable: "SUPPORT_CONTACT", good: append([]string{"help@example.com", "a.b+c@mail.example.co.uk"}, page...),
			wrong:  append([]string{"help@example", "a b@example.com", "a@example.com,b@example.com", "a@b@example.com", "@example.com", strings.Repeat("x", 251) + "@a.b"}, noPage...),
			narrow: []string{"o'neil@example.com"},
		},
		{parameter: "ContinueUrl", variable: "CONTINUE_URL", good: page, wrong: append([]string{"help@example.com"}, noPage...), narrow: []string{"http://localhost:8080/"}},
		{
			parameter: "AllowedOrigin", variable: "ALLOWED_ORIGIN", good: []string{"none", "https://www.example.com", "https://www.example.com:8443"},
			wrong: []string{"", "*", "null", "https://www.example.com/", "https://Example.com", "https://example.com?a", "https://me@example.com", "http://www.example.com", "www.example.com"},
		},
	}
}

// readersOf are the functions of a stack that read a variable.
func readersOf(s *template.Stack, variable string) map[string]functions.Function {
	found := map[string]functions.Function{}
	for _, r := range s.OfType(lambdaType) {
		f, err := functions.Named(r.Text("Handler"))
		if err == nil && slices.ContainsFunc(f.Variables, func(v functions.Variable) bool { return v.Name == variable }) {
			found[r.ID] = f
		}
	}
	return found
}

// TestWhatTheTemplateTakesTheCodeTakes: in every mode, whatever value a parameter is given the functions start with it, and what they would not start with
// is refused before anything is deployed.
func TestWhatTheTemplateTakesTheCodeTakes(t *testing.T) {
	t.Parallel()
	for _, file := range []string{eventsTemplate, meteringTemplate} {
		tmpl := deployment{file: file}.template(t)
		for _, of := range edgeSettings(file) {
			of.taken(t, tmpl.Parameters[of.parameter])
		}
	}
	for _, d := range deployments() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			stacks := map[string]*template.Stack{}
			for _, of := range edgeSettings(d.file) {
				if mode := of.with["MeteringMode"]; mode != "" && mode != d.parameters["MeteringMode"] {
					continue
				}
				beside := fmt.Sprint(of.with)
				if stacks[beside] == nil {
					stacks[beside] = d.with(t, of.with)
				}
				of.starts(t, stacks[beside])
			}
		})
	}
}

// taken tries the values on the parameter.
func (of edgeSetting) taken(t *testing.T, p template.Parameter) {
	t.Helper()
	alone := &template.Template{Order: []string{of.parameter}, Parameters: map[string]template.Parameter{of.parameter: p}}
	for i, value := range slices.Concat(of.good, of.wrong, of.narrow) {
		if _, err := alone.Resolve(map[string]string{of.parameter: value}, template.Place{}); (err == nil) != (i < len(of.good)) {
			t.Errorf("%s=%q: the template takes it: %t (%v)", of.parameter, value, err == nil, err)
		}
	}
}

// starts tries the values on the functions of a stack, in the place of the value that they were given there.
func (of edgeSetting) starts(t *testing.T, s *template.Stack) {
	t.Helper()
	for i, value := range slices.Concat(of.good, of.narrow, of.wrong) {
		changes := map[string]string{of.variable: value}
		switch {
		case of.parameter == "StageName": // it names the table too
			changes["SUBSCRIBERS_TABLE"] = "awsmp-subscribers-test-" + value
		case value == "live": // what goes with a dry-run alone
			maps.Copy(changes, map[string]string{"SUBSCRIBERS_TABLE": "awsmp-subscribers", "TEST_STAGE": "none", "TEST_ACCOUNTS": "none"})
		}
		for id, f := range readersOf(s, of.variable) {
			if _, err := f.Read(getenvOf(environmentOf(s.Resources[id], "us-east-1"), changes)); (err == nil) != (i < len(of.good)+len(of.narrow)) {
				t.Errorf("%s=%q: %s starts: %t (%v)", of.variable, value, id, err == nil, err)
			}
		}
	}
}

// TestFunctionsStartAtTheEdge: the first and the last of the good values go all the way from the parameters to the functions, all at once and in every mode.
func TestFunctionsStartAtTheEdge(t *testing.T) {
	t.Parallel()
	for _, d := range deployments() {
		for _, edge := range []func(good []string) string{
			func(good []string) string { return good[0] }, func(good []string) string { return good[len(good)-1] },
		} {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				parameters := map[string]string{}
				for _, of := range edgeSettings(d.file) {
					if mode := of.with["MeteringMode"]; of.parameter != "MeteringMode" && (mode == "" || mode == d.parameters["MeteringMode"]) {
						parameters[of.parameter] = edge(of.good)
					}
				}
				if parameters["PromotedProfileFields"] == fieldNames(20, "") { // with all else at its longest too it is more than Lambda takes, which then says so
					parameters["AllowedRegistrationFields"], parameters["PromotedProfileFields"] = fieldNames(15, "*"), fieldNames(15, "")
				}
				s := d.with(t, parameters)
				for parameter, value := range parameters {
					if s.Parameters[parameter] != value {
						t.Errorf("%s is %q, want %q", parameter, s.Parameters[parameter], value)
					}
				}
				for _, problem := range checkEnvironments(s) {
					t.Error(problem)
				}
			})
		}
	}
}

// TestAStageIsNotCalledNone: the function would read it as no stage, take no test events and say nothing.
func TestAStageIsNotCalledNone(t *testing.T) {
	t.Parallel()
	d := deploymentNamed(t, "events test stage")
	if _, err := d.template(t).Resolve(d.all(map[string]string{"StageName": "none"}), template.Place{}); err == nil || !strings.Contains(err.Error(), "rule StageHasAName") {
		t.Errorf("error %v", err)
	}
}

// refersTo are the parameters in an expression.
func refersTo(tmpl *template.Template, x any) map[string]bool {
	found := map[string]bool{}
	var walk func(any)
	walk = func(x any) {
		switch x := x.(type) {
		case map[string]any:
			if name, ok := x["Ref"].(string); ok && tmpl.Parameters[name].Type != "" {
				found[name] = true
			}
			for _, of := range x {
				walk(of)
			}
		case []any:
			for _, of := range x {
				walk(of)
			}
		}
	}
	walk(x)
	return found
}

// TestNoSettingIsForgotten: every parameter that a function hears of is tried above, by the variable that it becomes.
func TestNoSettingIsForgotten(t *testing.T) {
	t.Parallel()
	for _, file := range []string{eventsTemplate, meteringTemplate} {
		tmpl := deployment{file: file}.template(t)
		tried, there := map[string]bool{}, map[string]bool{}
		for _, of := range edgeSettings(file) {
			tried[of.variable+" is "+of.parameter] = true
		}
		for _, raw := range tmpl.Resources {
			properties, _ := raw.Properties.(map[string]any)
			variables, _ := template.Resource{Properties: properties}.Get("Environment", "Variables").(map[string]any)
			for variable, x := range variables {
				for parameter := range refersTo(tmpl, x) {
					there[variable+" is "+parameter] = true
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(there)) {
			if !tried[key] {
				t.Errorf("%s: nothing tries that %s", file, key)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(tried)) {
			if !there[key] {
				t.Errorf("%s: it is not so that %s", file, key)
			}
		}
	}
}

// TestPatternsOfNumbersAreTheCodes: CloudFormation's numbers have fractions, so whole ones are texts with a pattern, which is tried with every number.
func TestPatternsOfNumbersAreTheCodes(t *testing.T) {
	t.Parallel()
	s := deploymentNamed(t, "full live").with(t, map[string]string{"UsageTableTtlDays": "2", "AggregatedUsageTableTtlDays": "4"})
	tmpl := deployment{file: meteringTemplate}.template(t)
	for parameter, variable := range map[string]string{
		"MeteringLockHours": "METERING_LOCK_HOURS", "UsageTableTtlDays": "USAGE_TTL_DAYS", "AggregatedUsageTableTtlDays": "AGGREGATED_USAGE_TTL_DAYS",
	} {
		pattern := regexp.MustCompile(`^(?:` + tmpl.Parameters[parameter].AllowedPattern + `)$`)
		for id, f := range readersOf(s, variable) {
			values := environmentOf(s.Resources[id], "us-east-1")
			for n := -1; n < 4000; n++ {
				if rest := n % 100; n > 30 && rest > 1 && rest < 99 && n/10 != 365 {
					continue // a pattern errs at the ends of tens, hundreds and ranges
				}
				changes := map[string]string{variable: strconv.Itoa(n)}
				if variable == "USAGE_TTL_DAYS" { // alone: how both go together is below
					changes["AGGREGATED_USAGE_TTL_DAYS"] = "0"
				}
				_, err := f.Read(getenvOf(values, changes))
				if taken := pattern.MatchString(strconv.Itoa(n)); taken != (err == nil) {
					t.Errorf("%s=%d: the template takes it: %t; %s: %v", parameter, n, taken, id, err)
				}
			}
		}
	}
}

// TestWhatATemplateCannotSay lists what no pattern and no rule can express: one parameter's text has to fit another's. It is deployed, and then the
// functions that read it do nothing but say at their start what is wrong, and their errors alarm rings. docs/functions.md has these conditions.
func TestWhatATemplateCannotSay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why        string
		parameters map[string]string
		refuses    []string
		says       string
	}{
		{"rules have no arithmetic", map[string]string{"UsageTableTtlDays": "365", "AggregatedUsageTableTtlDays": "366"}, []string{functions.Submitter}, "AGGREGATED_USAGE_TTL_DAYS is"},
		{
			"rules see whole texts, not parts of them", map[string]string{"SubscribersTableName": "awsmp-subscribers-test-qa"},
			[]string{functions.Discoverer, functions.Registration, functions.Submitter}, "SUBSCRIBERS_TABLE is",
		},
		{"a pattern cannot tell that a name is there twice", map[string]string{"AllowedRegistrationFields": "a,b,a"}, []string{functions.Registration}, "REGISTRATION_FIELDS is"},
		{"a pattern cannot tell what is in another list", map[string]string{"PromotedProfileFields": "phone"}, []string{functions.Registration}, "PROMOTED_FIELDS is"},
		{"a pattern cannot tell what is not in a list of names", map[string]string{"AllowedRegistrationFields": "licenseArn", "PromotedProfileFields": "licenseArn"}, []string{functions.Registration}, "PROMOTED_FIELDS is"},
		{"nor which names are those of text areas", map[string]string{"PromotedProfileFields": "useCase"}, []string{functions.Registration}, "PROMOTED_FIELDS is"},
	} {
		s := deploymentNamed(t, "full live").with(t, test.parameters)
		var refuse []string
		for _, r := range s.OfType(lambdaType) {
			f, err := functions.Named(r.Text("Handler"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Read(getenvOf(environmentOf(r, "us-east-1"), nil)); err != nil {
				refuse = append(refuse, f.Handler)
				if !strings.Contains(err.Error(), test.says) {
					t.Errorf("%v: %v", test.parameters, err)
				}
			}
		}
		if slices.Sort(refuse); !slices.Equal(refuse, test.refuses) {
			t.Errorf("%s: with %v %q do not start, want %q", test.why, test.parameters, refuse, test.refuses)
		}
	}
	// What a rule can say, it does.
	for _, test := range []struct {
		in, rule   string
		parameters map[string]string
	}{
		{"full live", "RecordsOutliveRows", map[string]string{"UsageTableTtlDays": "0", "AggregatedUsageTableTtlDays": "367"}},
		{"events live", "NoTestEventsWhereBuyersAreReal", map[string]string{"TestAccounts": "111122223333"}},
	} {
		d := deploymentNamed(t, test.in)
		if _, err := d.template(t).Resolve(d.all(test.parameters), template.Place{}); err == nil || !strings.Contains(err.Error(), "rule "+test.rule) {
			t.Errorf("%v: error %v", test.parameters, err)
		}
	}
}

// TestWhatAWSWouldRefuseTheTemplateRefuses: parameters that no function hears of, before anything is deployed.
func TestWhatAWSWouldRefuseTheTemplateRefuses(t *testing.T) {
	t.Parallel()
	for parameter, values := range map[string]struct{ good, wrong []string }{
		"DeploymentMode":                {[]string{"full", "direct-submit"}, []string{"", "both", "Full"}},
		"StageName":                     {[]string{"prod", "v1"}, []string{"", "Prod", "v1/", strings.Repeat("x", 32)}},
		"AggregatorMaximumConcurrency":  {[]string{"2", "1000"}, []string{"", "0", "1", "1001", "none"}},
		"DiscovererReservedConcurrency": {[]string{"none", "30", "1"}, []string{"", "0", "-1", "1.5"}}, // 0 would never run
		"SubmitterReservedConcurrency":  {[]string{"none", "1"}, []string{"", "0", "2"}},
		"ExpiryReservedConcurrency":     {[]string{"none", "1"}, []string{"", "0", "2"}},
	} {
		edgeSetting{parameter: parameter, good: values.good, wrong: values.wrong}.taken(t, deployment{file: meteringTemplate}.template(t).Parameters[parameter])
	}
	// In an account with a small quota nothing is reserved at all.
	s := deploymentNamed(t, "full live").with(t, map[string]string{
		"DiscovererReservedConcurrency": "none", "SubmitterReservedConcurrency": "none", "ExpiryReservedConcurrency": "none",
	})
	for _, r := range s.OfType(lambdaType) {
		if reserved := r.Get("ReservedConcurrentExecutions"); reserved != nil {
			t.Errorf("%s has %v reserved", r.ID, reserved)
		}
	}
}
