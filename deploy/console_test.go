package deploy_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/internal/template"
)

// noDefault stands for a parameter that has to be given.
const noDefault = "(none)"

// defaultsOf are the parameters of a template with their defaults: what a seller gets who gives nothing but the product's code.
func defaultsOf(file string) map[string]string {
	defaults := map[string]string{
		"MeteringMode": "live", "StageName": "prod",
		"AlertsTopicArn": "", "CreateDashboard": "true", "LogRetentionInDays": "90", "LogsKmsKeyArn": "", "PermissionsBoundaryArn": "",
	}
	if file == eventsTemplate {
		maps.Copy(defaults, map[string]string{"StageName": "test", "TestAccounts": "none"})
		return defaults
	}
	maps.Copy(defaults, map[string]string{
		"ProductCode": noDefault, "DeploymentMode": "full",
		"Submission": "enabled", "MeteringLockHours": "1", "MaxRecordsPerRun": "50000", "MeteringCallsPerSecond": "10",
		"UsageTableTtlDays": "365", "AggregatedUsageTableTtlDays": "0",
		"SubscribersTableName": "awsmp-subscribers", "SubscribersTableRegion": "us-east-1",
		"AllowedRegistrationFields": registration.DefaultFields, "PromotedProfileFields": "none",
		"SellerName": "none", "ProductName": "none", "SupportContact": "none", "ContinueUrl": "none", "AllowedOrigin": "none",
		"WebAclArn": "", "CreateApiGatewayLogRole": "true",
		"DiscovererReservedConcurrency": "30", "SubmitterReservedConcurrency": "1", "ExpiryReservedConcurrency": "1", "AggregatorMaximumConcurrency": "20",
	})
	return defaults
}

// checkParameters: each parameter is the one that was settled, with its default, and a seller finds it in the console, by name, in one place and with a word of what it does.
func checkParameters(file string) func(*template.Template) []string {
	return func(tmpl *template.Template) (wrong []string) {
		note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
		want, groups := defaultsOf(file), map[string]int{}
		for _, group := range tmpl.Groups {
			if group.Label == "" {
				note("a group of the console has no label: %q", group.Parameters)
			}
			for _, name := range group.Parameters {
				groups[name]++
			}
		}
		for _, name := range slices.Sorted(maps.Keys(tmpl.Parameters)) {
			p := tmpl.Parameters[name]
			value := noDefault
			if p.HasDefault {
				value = p.Default
			}
			if settled, known := want[name]; !known || value != settled {
				note("%s has the default %q, want %q (known: %t)", name, value, settled, known)
			}
			if groups[name] != 1 {
				note("%s is in %d groups of the console, want 1", name, groups[name])
			}
			if tmpl.Labels[name] == "" {
				note("%s has no label", name)
			}
			if p.Description == "" {
				note("%s has no description", name)
			}
			if p.AllowedPattern != "" && p.ConstraintDescription == "" { // the console would show the pattern
				note("%s has a pattern and no ConstraintDescription", name)
			}
			if p.AllowedPattern == "" && p.AllowedValues == nil && p.MinValue == nil && p.MaxLength == nil {
				note("%s takes any value", name)
			}
			delete(want, name)
		}
		for name := range want {
			note("there is no %s", name)
		}
		for _, name := range slices.Concat(slices.Collect(maps.Keys(groups)), slices.Collect(maps.Keys(tmpl.Labels))) {
			if _, known := tmpl.Parameters[name]; !known {
				note("the console names %s, which is no parameter", name)
			}
		}
		return wrong
	}
}

func TestParametersAreTheSettledOnes(t *testing.T) {
	t.Parallel()
	for _, file := range []string{eventsTemplate, meteringTemplate} {
		for _, problem := range checkParameters(file)(read(t, file)) {
			t.Errorf("%s: %s", file, problem)
		}
	}
	const console = "AWS::CloudFormation::Interface"
	for _, f := range []fault{
		{"full live", "MeteringLockHours", "Default: '1'", "Default: '2'", `MeteringLockHours has the default "2"`},
		{"full live", "ProductCode", "AllowedPattern:", "Default: example\n    AllowedPattern:", `ProductCode has the default "example"`},
		{"full live", "WebAclArn", "    Default: ''\n", "", `WebAclArn has the default "(none)"`},
		{"full live", "Submission", "Type: String", "Type: String\n  More:\n    Type: String", "More has the default"},
		{"full live", "AllowedOrigin", "    ConstraintDescription: none, or an origin", "    #", "AllowedOrigin has a pattern and no ConstraintDescription"},
		{"full live", "StageName", "    AllowedPattern: '[a-z][a-z0-9-]{0,30}'\n", "", "StageName takes any value"},
		{"full live", "StageName", "    Description: Stage of the registration API", "    #", "StageName has no description"},
		{"full live", console, "[ProductCode, DeploymentMode, ", "[ProductCode, ", "DeploymentMode is in 0 groups"},
		{"full live", console, "[Submission, ", "[ProductCode, Submission, ", "ProductCode is in 2 groups"},
		{"full live", console, "      Submission: {default: Submission}\n", "", "Submission has no label"},
		{"full live", console, "      Submission: {default: Submission}\n", "      Submission: {default: Submission}\n      Other: {default: Other}\n", "names Other, which is no parameter"},
		{"events live", console, "{default: Permissions}", "{default: ''}", "has no label"},
	} {
		complains(t, checkParameters(deploymentNamed(t, f.in).file)(brokenText(t, f)), f.says)
	}
}

var (
	accountNumber = regexp.MustCompile(`(^|[^0-9A-Za-z-])[0-9]{12}($|[^0-9A-Za-z-])`)
	secretText    = regexp.MustCompile(`(AKIA|ASIA)[A-Z0-9]{16}|-----BEGIN|(^|[^A-Za-z0-9/+])[A-Za-z0-9/+]{40}($|[^A-Za-z0-9/+=])`)
	secretKey     = regexp.MustCompile(`(?i)password|secret|token|credential|api_?key`)
)

// checkNothingOfAnybody: a template holds no account's number, no secret, and nothing that would need one.
func checkNothingOfAnybody(tmpl *template.Template) (wrong []string) {
	var walk func(at string, x any)
	walk = func(at string, x any) {
		switch x := x.(type) {
		case map[string]any:
			for key, value := range x {
				if secretKey.MatchString(key) {
					wrong = append(wrong, at+" has "+key)
				}
				walk(at+"/"+key, value)
			}
		case []any:
			for _, value := range x {
				walk(at, value)
			}
		default:
			if text := fmt.Sprint(x); accountNumber.MatchString(text) || secretText.MatchString(text) {
				wrong = append(wrong, fmt.Sprintf("%s holds %q", at, text))
			}
		}
	}
	for id, raw := range tmpl.Resources {
		walk(id, map[string]any{"Properties": raw.Properties, "Metadata": raw.Metadata})
	}
	for name, p := range tmpl.Parameters {
		walk(name, map[string]any{"Default": p.Default, "Description": p.Description})
	}
	walk("Outputs", tmpl.Outputs)
	walk("Mappings", tmpl.Mappings)
	walk("Conditions", tmpl.Conditions)
	return wrong
}

func TestTemplatesHoldNothingOfAnybody(t *testing.T) {
	t.Parallel()
	for _, file := range []string{eventsTemplate, meteringTemplate} {
		for _, problem := range checkNothingOfAnybody(read(t, file)) {
			t.Errorf("%s: %s", file, problem)
		}
	}
	for _, f := range []fault{
		{"full live", "CleanupFunction", "PRODUCT_CODE: !Ref ProductCode", "PRODUCT_CODE: '444455556666'", "CleanupFunction/Properties/Environment/Variables/PRODUCT_CODE holds"},
		{"full live", "CleanupFunction", "PRODUCT_CODE: !Ref ProductCode", "PRODUCT_CODE: AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"},
		{"full live", "CleanupFunction", "PRODUCT_CODE: !Ref ProductCode", "PRODUCT_CODE: wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI"},
		{"full live", "CleanupFunction", "PRODUCT_CODE: !Ref ProductCode", "API_TOKEN: !Ref ProductCode", "has API_TOKEN"},
		{"events live", "EventsQueuePolicy", "Resource: !GetAtt EventsQueue.Arn", "Resource: arn:aws:sqs:us-east-1:444455556666:awsmp-events", "EventsQueuePolicy/Properties/PolicyDocument/Statement/Resource holds"},
		{"full live", "SubscribersTableName", "Default: awsmp-subscribers", "Default: arn:aws:dynamodb:us-east-1:444455556666:table/x", "SubscribersTableName/Default holds"},
	} {
		complains(t, checkNothingOfAnybody(brokenText(t, f)), f.says)
	}
}
