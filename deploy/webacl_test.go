package deploy_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/template"
)

const (
	webACLType     = "AWS::WAFv2::WebACL"
	webACLLinkType = "AWS::WAFv2::WebACLAssociation"
)

// aclMetric is what AWS WAF takes as the name of a metric, but for two names of its own (AWS WAF API reference, VisibilityConfig).
var aclMetric = regexp.MustCompile(`^[\w#:./-]{1,255}$`)

// baselineRules are those of the web ACL that a stack makes: a pace for each address, and AWS's common rules, of which three only count, since they would keep out
// buyers who write much or of web addresses (AWS WAF developer guide, "Core rule set (CRS) managed rule group").
func baselineRules() []any {
	count := func(rule string) map[string]any {
		return map[string]any{"Name": rule, "ActionToUse": map[string]any{"Count": map[string]any{}}}
	}
	return []any{
		map[string]any{
			"Name": "rate", "Priority": 0, "Action": map[string]any{"Block": map[string]any{}},
			"Statement": map[string]any{"RateBasedStatement": map[string]any{"AggregateKeyType": "IP", "Limit": 100, "EvaluationWindowSec": 300}},
		},
		map[string]any{
			"Name": "common", "Priority": 1, "OverrideAction": map[string]any{"None": map[string]any{}},
			"Statement": map[string]any{"ManagedRuleGroupStatement": map[string]any{
				"VendorName": "AWS", "Name": "AWSManagedRulesCommonRuleSet",
				"RuleActionOverrides": []any{count("SizeRestrictions_BODY"), count("GenericRFI_BODY"), count("EC2MetaDataSSRF_BODY")},
			}},
		},
	}
}

// checkWebACL: the page stands behind the web ACL that WebAclArn asks for: the stack's own, the seller's, or none.
func checkWebACL(s *template.Stack) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	wish, metered := s.Parameters["WebAclArn"]
	acls, links := s.OfType(webACLType), s.OfType(webACLLinkType)
	count := func(what string, got int, want bool) {
		if got > 1 || (got == 1) != want {
			note("there are %d %s, wanted: %t", got, what, want)
		}
	}
	count("web ACLs", len(acls), metered && wish == "")
	count("associations", len(links), metered && wish != "none")
	for _, link := range links {
		stages := s.OfType(apiStageType)
		if len(stages) != 1 {
			note("there are %d stages", len(stages))
			continue
		}
		// AWS WAF developer guide, AssociateWebACL: the form of a stage's ARN, which has no account.
		want := "arn:aws:apigateway:us-east-1::/restapis/" + stages[0].Text("RestApiId") + "/stages/" + stages[0].Text("StageName")
		if got := link.Text("ResourceArn"); got != want {
			note("the association is of %s, want %s", got, want)
		}
		if wish == "" {
			wish = fmt.Sprintf("arn:aws:wafv2:us-east-1:111122223333:regional/webacl/awsmp-%s-registration/invented-%s", s.Parameters["ProductCode"], acls[0].ID)
		}
		if got := link.Text("WebACLArn"); got != wish {
			note("the association is with %s, want %s", got, wish)
		}
	}
	for _, acl := range acls {
		if diff := cmp.Diff([]any{"REGIONAL", map[string]any{"Allow": map[string]any{}}}, []any{acl.Get("Scope"), acl.Get("DefaultAction")}); diff != "" {
			note("%s (-want +got): %s", acl.ID, diff)
		}
		seen := map[string]bool{}
		visible := func(config any) {
			r := template.Resource{Properties: map[string]any{"config": config}}
			name := r.Text("config", "MetricName")
			if !aclMetric.MatchString(name) || name == "All" || name == "Default_Action" || seen[name] || r.Text("config", "CloudWatchMetricsEnabled") != "true" {
				note("%s has no metric of its own, or %q is not allowed as its name", acl.ID, name)
			}
			seen[name] = true
		}
		visible(acl.Get("VisibilityConfig"))
		var rules []any
		list, _ := acl.Get("Rules").([]any)
		for _, rule := range list {
			left := map[string]any{}
			for name, value := range rule.(map[string]any) {
				if name != "VisibilityConfig" {
					left[name] = value
				}
			}
			visible(rule.(map[string]any)["VisibilityConfig"])
			rules = append(rules, left)
		}
		if diff := cmp.Diff(baselineRules(), rules); diff != "" {
			note("the rules of %s (-want +got): %s", acl.ID, diff)
		}
	}
	return wrong
}

func TestTheWebACLStandsBeforeThePage(t *testing.T) {
	t.Parallel()
	acl := func(old, changed, says string) fault {
		return fault{"direct-submit live", "RegistrationWebAcl", old, changed, says}
	}
	upholds(t, checkWebACL,
		acl("Limit: 100", "Limit: 1000", "Limit"),
		acl("EvaluationWindowSec: 300", "EvaluationWindowSec: 60", "EvaluationWindowSec"),
		acl("AggregateKeyType: IP", "AggregateKeyType: FORWARDED_IP", "AggregateKeyType"),
		acl("Action: {Block: {}}", "Action: {Count: {}}", "Block"),
		acl("OverrideAction: {None: {}}", "OverrideAction: {Count: {}}", "OverrideAction"),
		acl("                - {Name: SizeRestrictions_BODY, ActionToUse: {Count: {}}}\n", "", "SizeRestrictions_BODY"),
		acl("DefaultAction: {Allow: {}}", "DefaultAction: {Block: {}}", "RegistrationWebAcl (-want"),
		acl("-registration-rate", " registration rate", "is not allowed as its name"),
		acl("-registration-rate", "-registration", "no metric of its own"),
		acl("CloudWatchMetricsEnabled: true", "CloudWatchMetricsEnabled: false", "no metric of its own"),
		fault{in: "full live", at: "RegistrationWebAclAssociation", says: "there are 0 associations, wanted: true"},
		fault{"full live", "RegistrationWebAclAssociation", "/stages/${RegistrationStage}", "/stages/other", "the association is of"},
		fault{"full live", "RegistrationWebAclAssociation", "!If [BaselineWebAcl, !GetAtt RegistrationWebAcl.Arn, !Ref WebAclArn]", "!Ref WebAclArn", "the association is with"},
		fault{"events live", "EventsQueuePolicy", "Type: AWS::SQS::QueuePolicy", "Type: " + webACLType, "there are 1 web ACLs, wanted: false"},
	)
}

// TestTheWebACLIsTheOneAskedFor: none, or the seller's own in the place of the stack's.
func TestTheWebACLIsTheOneAskedFor(t *testing.T) {
	t.Parallel()
	for _, wish := range []string{"none", "arn:aws:wafv2:us-east-1:111122223333:regional/webacl/own/0a1b2c3d"} {
		given := map[string]string{"WebAclArn": wish}
		for _, d := range deployments() {
			if d.file == meteringTemplate {
				for _, problem := range checkWebACL(d.with(t, given)) {
					t.Errorf("%s: %s: %s", d.name, wish, problem)
				}
			}
		}
		broken := fault{in: "full live", at: "RegistrationWebAclAssociation", old: "!If [BaselineWebAcl, !GetAtt RegistrationWebAcl.Arn, !Ref WebAclArn]", new: "other"}
		if says := "the association is with other"; wish != "none" {
			complains(t, checkWebACL(broken.stack(t, given)), says)
		}
		broken = fault{in: "full live", at: "BaselineWebAcl", old: "''", new: "'" + wish + "'"}
		complains(t, checkWebACL(brokenAt(t, broken, given, usualPlace())), "there are 1 web ACLs, wanted: false")
		broken = fault{in: "full live", at: "HasWebAcl", old: "!Not [!Equals [!Ref WebAclArn, none]]", new: "!Equals [!Ref WebAclArn, none]"}
		complains(t, checkWebACL(brokenAt(t, broken, given, usualPlace())), "associations, wanted: ")
	}
}
