package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/template"
)

const boundaryFile = "permissions-boundary.json"

// apiLogPolicy is the managed policy of AWS for the logs of API Gateway.
func apiLogPolicy(at template.Place) string {
	return "arn:" + at.Partition + ":iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs"
}

// apiLogActions are what that policy allows on everything, in its version 1 (AWS Managed Policy reference guide, AmazonAPIGatewayPushToCloudWatchLogs).
func apiLogActions() []string {
	return []string{
		"logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogGroups", "logs:DescribeLogStreams", "logs:FilterLogEvents", "logs:GetLogEvents", "logs:PutLogEvents",
	}
}

// grantsOfRoles are what the roles of all kinds of stacks allow, a line "action resource" each.
func grantsOfRoles(t *testing.T) []string {
	t.Helper()
	all := map[string]bool{}
	for _, d := range deployments() {
		s := d.whole(t)
		for _, role := range s.OfType(iamRoleType) {
			policies, _ := role.Get("Policies").([]any)
			for _, p := range policies {
				lines, _ := grantsIn(p.(map[string]any)["PolicyDocument"])
				for _, line := range lines {
					all[line] = true
				}
			}
			for range oneOrMore(role.Get("ManagedPolicyArns")) { // TestRolesAllowWhatIsCalledAndNothingElse knows which one it is
				for _, action := range apiLogActions() {
					all[action+" *"] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// boundaryStatement is one of the example boundary.
type boundaryStatement struct {
	Sid, Effect      string
	Action, Resource any
}

// readBoundary reads a boundary. What it may hold is what can be judged here.
func readBoundary(text []byte) ([]boundaryStatement, error) {
	var policy struct {
		Version   string
		Statement []boundaryStatement
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&policy); err != nil {
		return nil, err
	}
	if policy.Version != "2012-10-17" {
		return nil, fmt.Errorf("version %q", policy.Version)
	}
	for _, s := range policy.Statement {
		if s.Effect != "Allow" || !regexp.MustCompile(`^[A-Za-z0-9]+$`).MatchString(s.Sid) {
			return nil, fmt.Errorf("statement %q is no plain Allow", s.Sid)
		}
		for _, action := range oneOrMore(s.Action) {
			if strings.ContainsAny(action, "*?") {
				return nil, fmt.Errorf("statement %s allows %s, which nobody can read", s.Sid, action)
			}
		}
	}
	return policy.Statement, nil
}

// covers reports whether a text is within a pattern of IAM: * is any text, slashes too, and ? any character (IAM user guide, "IAM JSON policy elements: Resource").
func covers(pattern, text string) bool {
	if pattern == "" {
		return text == ""
	}
	if pattern[0] == '*' {
		return covers(pattern[1:], text) || text != "" && covers(pattern, text[1:])
	}
	return text != "" && (pattern[0] == '?' || pattern[0] == text[0]) && covers(pattern[1:], text[1:])
}

// beyond are the grants that a boundary does not let through.
func beyond(boundary []boundaryStatement, grants []string) (left []string) {
	for _, grant := range grants {
		action, resource, _ := strings.Cut(grant, " ")
		if !slices.ContainsFunc(boundary, func(s boundaryStatement) bool {
			return slices.Contains(oneOrMore(s.Action), action) &&
				slices.ContainsFunc(oneOrMore(s.Resource), func(pattern string) bool { return covers(pattern, resource) })
		}) {
			left = append(left, grant)
		}
	}
	return left
}

// checkBoundary: all that the roles allow is within the boundary, and without any one action or pattern of it something would not be.
func checkBoundary(boundary []boundaryStatement, grants []string) (wrong []string) {
	for _, grant := range beyond(boundary, grants) {
		wrong = append(wrong, "the boundary does not let through "+grant)
	}
	drop := func(list []string, i int) (rest []any) {
		for j, item := range list {
			if j != i {
				rest = append(rest, item)
			}
		}
		return rest
	}
	less := slices.Clone(boundary)
	for i, s := range boundary {
		try := func(without boundaryStatement, what string) {
			less[i] = without
			if len(beyond(less, grants)) == len(beyond(boundary, grants)) {
				wrong = append(wrong, fmt.Sprintf("the boundary allows %s in %s, which no role needs", what, s.Sid))
			}
			less[i] = s
		}
		actions, resources := oneOrMore(s.Action), oneOrMore(s.Resource)
		for j, action := range actions {
			try(boundaryStatement{s.Sid, s.Effect, drop(actions, j), s.Resource}, action)
			if slices.Contains(resources, "*") && !slices.Contains(grants, action+" *") {
				wrong = append(wrong, fmt.Sprintf("the boundary allows %s on everything, and the roles do not", action))
			}
		}
		for j, resource := range resources {
			try(boundaryStatement{s.Sid, s.Effect, s.Action, drop(resources, j)}, resource)
		}
	}
	return wrong
}

// TestTheBoundaryIsWhatTheRolesNeed. Where a boundary lacks lambda:InvokeFunction the schedule of deprovision-cleanup fails, and nothing tells but its alarm (F48).
func TestTheBoundaryIsWhatTheRolesNeed(t *testing.T) {
	t.Parallel()
	text := fileText(t, boundaryFile)
	grants := grantsOfRoles(t)
	boundary, err := readBoundary([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range checkBoundary(boundary, grants) {
		t.Error(problem)
	}
	for _, f := range []struct{ old, new, says string }{
		{`"lambda:InvokeFunction"`, `[]`, "does not let through lambda:InvokeFunction arn:aws:lambda:us-east-1:111122223333:function:awsmp-deprovision-cleanup-test-qa"},
		{`"lambda:InvokeFunction"`, `["lambda:InvokeFunction", "events:PutEvents"]`, "events:PutEvents in ScheduleOfDeprovisionCleanup, which no role needs"},
		{`table/awsmp-*"`, `table/awsmp-*-usage"`, "does not let through dynamodb:GetItem arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-subscribers"},
		{`table/awsmp-*"`, `table/awsmp-?"`, "does not let through dynamodb:"},
		{`"arn:aws:sqs:*:*:awsmp-*"`, `["arn:aws:sqs:*:*:awsmp-*", "arn:aws:sqs:*:*:other"]`, "arn:aws:sqs:*:*:other in Queues, which no role needs"},
		{`"arn:aws:sqs:*:*:awsmp-*"`, `"*"`, "sqs:SendMessage on everything"},
		{`"logs:FilterLogEvents",`, ``, "does not let through logs:FilterLogEvents *"},
		{`"logs:FilterLogEvents",`, `"logs:FilterLogEvents", "logs:DeleteLogGroup",`, "logs:DeleteLogGroup in LogsOfFunctionsAndOfEveryAPI"},
	} {
		changed := strings.Replace(text, f.old, f.new, 1)
		if changed == text {
			t.Errorf("the boundary has no %s", f.old)
		}
		broken, err := readBoundary([]byte(changed))
		if err != nil {
			t.Fatal(err)
		}
		complains(t, checkBoundary(broken, grants), f.says)
	}
	for _, unread := range []string{
		strings.Replace(text, "dynamodb:Query", "dynamodb:*", 1), strings.Replace(text, `"Allow"`, `"Deny"`, 1), strings.Replace(text, `"Action"`, `"NotAction"`, 1),
	} {
		if _, err := readBoundary([]byte(unread)); err == nil || unread == text {
			t.Errorf("it is read: %s", unread)
		}
	}
	if len(strings.Join(strings.Fields(text), "")) > 6144 {
		t.Error("a managed policy has at most 6,144 characters (IAM quotas)")
	}
}
