package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/template"
)

const (
	iamRoleType   = "AWS::IAM::Role"
	iamPolicyType = "AWS::IAM::ManagedPolicy"
	logGroupType  = "AWS::Logs::LogGroup"
	accountType   = "AWS::ApiGateway::Account"
)

// recordedCalls are what the functions called in the end-to-end tests: by handler and IAM action, the kinds of resources.
func recordedCalls(t *testing.T) map[string]map[string][]string {
	t.Helper()
	text := fileText(t, "../internal/functions/calls.json")
	var calls map[string]map[string][]string
	if err := json.Unmarshal([]byte(text), &calls); err != nil {
		t.Fatal(err)
	}
	return calls
}

// calledThrough is the variable that tells a function the name, or address, of a kind of resource. A role is held to what its function was told.
func calledThrough() map[string]string {
	return map[string]string{
		"table usage": "USAGE_TABLE", "table aggregated-usage": "AGGREGATED_USAGE_TABLE",
		"table subscribers": "SUBSCRIBERS_TABLE", "table customer-profile": "CUSTOMER_PROFILE_TABLE",
		"queue work": "WORK_QUEUE_URL", "queue deprovision-work": "DEPROVISION_WORK_QUEUE_URL", "queue cleanup": "CLEANUP_QUEUE_URL",
	}
}

// calledARN is the ARN of what a function calls, of a kind as calls.json names it.
func calledARN(f template.Resource, kind string, at template.Place) (string, error) {
	if kind == "service" {
		return "*", nil // AWS Marketplace Metering has no resource types (Service Authorization Reference)
	}
	sort, name, _ := strings.Cut(kind, " ")
	name, index, _ := strings.Cut(name, "/")
	told := sort
	if sort == "index" {
		told, index = "table", "/index/"+index
	}
	variable := calledThrough()[told+" "+name]
	value := f.Text("Environment", "Variables", variable)
	if variable == "" || value == "" {
		return "", fmt.Errorf("%s calls %q and is not told where that is", f.ID, kind)
	}
	if sort == "queue" {
		host, path, _ := strings.Cut(strings.TrimPrefix(value, "https://sqs."), "/")
		region, _, _ := strings.Cut(host, ".")
		return fmt.Sprintf("arn:%s:sqs:%s:%s", at.Partition, region, strings.ReplaceAll(path, "/", ":")), nil
	}
	region := at.Region
	if elsewhere := f.Text("Environment", "Variables", "SUBSCRIBERS_TABLE_REGION"); name == "subscribers" && elsewhere != "" {
		region = elsewhere
	}
	return fmt.Sprintf("arn:%s:dynamodb:%s:%s:table/%s%s", at.Partition, region, at.Account, value, index), nil
}

// neededBy are the grants that a function needs: its calls, and what AWS does under its role for its queues and its log (AWS Lambda developer guide,
// "Using Lambda with Amazon SQS" and "Lambda execution role").
func neededBy(s *template.Stack, f template.Resource, calls map[string]map[string][]string, at template.Place) (lines, wrong []string) {
	for action, kinds := range calls[f.Text("Handler")] {
		for _, kind := range kinds {
			arn, err := calledARN(f, kind, at)
			if err != nil {
				wrong = append(wrong, err.Error())
			}
			lines = append(lines, action+" "+arn)
		}
	}
	for _, mapping := range s.OfType(mappingType) {
		if mapping.Text("FunctionName") == f.Text("FunctionName") {
			for _, action := range []string{"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"} {
				lines = append(lines, action+" "+mapping.Text("EventSourceArn"))
			}
		}
	}
	for _, action := range []string{"logs:CreateLogStream", "logs:PutLogEvents"} {
		lines = append(lines, fmt.Sprintf("%s arn:%s:logs:%s:%s:log-group:%s:*", action, at.Partition, at.Region, at.Account, f.Text("LoggingConfig", "LogGroup")))
	}
	slices.Sort(lines)
	return lines, wrong
}

// trustIn is the only trust that a role may have: one service, in the name of this account where the service tells.
func trustIn(service string, condition map[string]any) map[string]any {
	statement := map[string]any{"Effect": "Allow", "Principal": map[string]any{"Service": service}, "Action": "sts:AssumeRole"}
	if condition != nil {
		statement["Condition"] = condition
	}
	return map[string]any{"Version": "2012-10-17", "Statement": []any{statement}}
}

// checkRoles: whatever acts has a role of its own, which its service alone may take, and which allows what it needs and nothing else.
func checkRoles(calls map[string]map[string][]string, at template.Place) func(*template.Stack) []string {
	return func(s *template.Stack) (wrong []string) {
		note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
		usedBy := map[string][]template.Resource{}
		for _, id := range slices.Sorted(maps.Keys(s.Resources)) {
			r := s.Resources[id]
			var roles []string
			for _, used := range r.Uses {
				if s.Resources[used].Type == iamRoleType {
					roles = append(roles, used)
					usedBy[used] = append(usedBy[used], r)
				}
			}
			if slices.Contains([]string{lambdaType, scheduleType, accountType}, r.Type) && len(roles) != 1 {
				note("%s has the roles %q, want one of the stack", id, roles)
			}
			if strings.HasPrefix(r.Type, "AWS::IAM::") && r.Type != iamRoleType && r.Type != iamPolicyType {
				note("%s is a %s, and roles have their policies within them", id, r.Type)
			}
		}
		for _, role := range s.OfType(iamRoleType) {
			if len(usedBy[role.ID]) != 1 {
				note("%s is the role of %d, want 1", role.ID, len(usedBy[role.ID]))
				continue
			}
			wrong = append(wrong, roleProblems(s, role, usedBy[role.ID][0], calls, at)...)
		}
		return wrong
	}
}

// roleProblems are what is wrong with the role of a resource.
func roleProblems(s *template.Stack, role, user template.Resource, calls map[string]map[string][]string, at template.Place) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, role.ID+": "+fmt.Sprintf(format, args...)) }
	// No RoleName: IAM knows no Regions, and the stacks of two Regions would want the same one.
	known := []string{"AssumeRolePolicyDocument", "Description", "PermissionsBoundary"}
	var trust map[string]any
	var needs []string
	switch user.Type {
	case lambdaType:
		known, trust = append(known, "Policies"), trustIn("lambda.amazonaws.com", nil)
		var unknown []string
		needs, unknown = neededBy(s, user, calls, at)
		wrong = append(wrong, unknown...)
	case scheduleType:
		known = append(known, "Policies")
		trust = trustIn("scheduler.amazonaws.com", map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": at.Account}})
		needs = []string{"lambda:InvokeFunction " + user.Text("Target", "Arn")}
	case accountType:
		known, trust = append(known, "ManagedPolicyArns"), trustIn("apigateway.amazonaws.com", nil)
		if got, want := fmt.Sprint(role.Get("ManagedPolicyArns")), "["+apiLogPolicy(at)+"]"; got != want {
			note("has the managed policies %s, want %s", got, want)
		}
	default:
		note("is the role of %s, a %s", user.ID, user.Type)
	}
	for name := range role.Properties {
		if !slices.Contains(known, name) {
			note("has %s", name)
		}
	}
	if diff := cmp.Diff(any(trust), role.Get("AssumeRolePolicyDocument")); diff != "" {
		note("others may take it (-want +got): %s", diff)
	}
	var boundary any
	if arn := s.Parameters["PermissionsBoundaryArn"]; arn != "" {
		boundary = arn
	}
	if got := role.Get("PermissionsBoundary"); got != boundary {
		note("the permissions boundary is %v, want %v", got, boundary)
	}
	if slices.Contains(known, "Policies") {
		if policies, _ := role.Get("Policies").([]any); len(policies) != 1 {
			note("has %d policies, want 1", len(policies))
		}
		got, others := grantsIn(role.Get("Policies", "0", "PolicyDocument"))
		for _, other := range others {
			note("%s", other)
		}
		for _, difference := range grantsApart(needs, got) {
			note("%s", difference)
		}
	}
	return wrong
}

func TestRolesAllowWhatIsCalledAndNothingElse(t *testing.T) {
	t.Parallel()
	const boundary = "!If [HasBoundary, !Ref PermissionsBoundaryArn, !Ref AWS::NoValue]"
	upholds(t, checkRoles(recordedCalls(t), usualPlace()),
		fault{"full live", "CleanupRole", "[dynamodb:GetItem, dynamodb:UpdateItem]", "dynamodb:UpdateItem", "CleanupRole: does not allow dynamodb:GetItem "},
		fault{"full live", "CleanupRole", "[dynamodb:GetItem, dynamodb:UpdateItem]", "[dynamodb:GetItem, dynamodb:UpdateItem, dynamodb:Scan]", "CleanupRole: allows, for no need, dynamodb:Scan "},
		fault{"full live", "CleanupRole", "[dynamodb:GetItem, dynamodb:UpdateItem]", "dynamodb:*", "CleanupRole: allows, for no need, dynamodb:* "},
		fault{"full live", "CleanupRole", "Action: [dynamodb:GetItem, dynamodb:UpdateItem]", "NotAction: dynamodb:DeleteTable", "Action and Resource alone"},
		fault{"full live", "CleanupRole", "Resource: !GetAtt UsageTable.Arn", "Resource: '*'", "CleanupRole: allows, for no need, dynamodb:GetItem *"},
		fault{"full live", "CleanupRole", "!GetAtt UsageTable.Arn", "!GetAtt AggregatedUsageTable.Arn", "table/awsmp-exampleproduct-aggregated-usage"},
		fault{"full live", "CleanupRole", "!GetAtt UsageTable.Arn", "[!GetAtt UsageTable.Arn, !GetAtt UsageTable.Arn]", "allowed twice"},
		fault{"full live", "CleanupRole", "- Effect: Allow\n                Action: [dynamodb", "- Effect: Deny\n                Action: [dynamodb", "not of Effect: Allow"},
		fault{"full live", "CleanupRole", "Version: '2012-10-17'\n            Statement", "Version: '2008-10-17'\n            Statement", "no policy of version"},
		fault{"full live", "CleanupRole", "!GetAtt CleanupQueue.Arn", "!GetAtt WorkQueue.Arn", "CleanupRole: allows, for no need, sqs:ReceiveMessage arn:aws:sqs:us-east-1:111122223333:awsmp-exampleproduct-work"},
		fault{"full live", "CleanupRole", "!GetAtt CleanupLogs.Arn", "!GetAtt AggregatorLogs.Arn", "CleanupRole: does not allow logs:PutLogEvents arn:aws:logs:us-east-1:111122223333:log-group:/aws/lambda/awsmp-exampleproduct-cleanup:*"},
		fault{"full live", "DiscovererRole", "${UsageTable.Arn}/index/metering_pending", "${UsageTable.Arn}/index/*", "DiscovererRole: allows, for no need, dynamodb:Query "},
		fault{"direct-submit live", "SubmitterRole", "aws-marketplace:BatchMeterUsage", "aws-marketplace:*", "SubmitterRole: allows, for no need, aws-marketplace:* *"},
		fault{"full dry-run", "SubmitterRole", "table/${SubscribersTableName}/", "table/awsmp-subscribers/", "SubmitterRole: does not allow dynamodb:Query arn:aws:dynamodb:us-east-1:111122223333:table/awsmp-subscribers-test-qa/index/"},
		fault{"direct-submit live", "RegistrationRole", "Action: dynamodb:UpdateItem", "Action: [dynamodb:UpdateItem, dynamodb:GetItem]", "RegistrationRole: allows, for no need, dynamodb:GetItem "},
		fault{"events live", "ScheduleRole", "!GetAtt DeprovisionCleanupFunction.Arn", "!GetAtt SubscriptionFunction.Arn", "ScheduleRole: does not allow lambda:InvokeFunction "},
		fault{"events live", "ScheduleRole", "            Condition: {StringEquals: {aws:SourceAccount: !Ref AWS::AccountId}}\n", "", "ScheduleRole: others may take it"},
		fault{"events test stage", "SubscriptionRole", "lambda.amazonaws.com", "'*'", "SubscriptionRole: others may take it"},
		fault{"full live", "ApiGatewayLogRole", "service-role/AmazonAPIGatewayPushToCloudWatchLogs", "CloudWatchLogsFullAccess", "managed policies"},
		fault{"full live", "CleanupRole", "Description:", "RoleName: cleanup\n      Description:", "has RoleName"},
		fault{"full live", "CleanupRole", "Policies:", "ManagedPolicyArns: [arn:aws:iam::aws:policy/AdministratorAccess]\n      Policies:", "has ManagedPolicyArns"},
		fault{"full live", "CleanupFunction", "!GetAtt CleanupRole.Arn", "!GetAtt AggregatorRole.Arn", "AggregatorRole is the role of 2"},
		fault{"full live", "CleanupFunction", "!GetAtt CleanupRole.Arn", "arn:aws:iam::111122223333:role/admin", "CleanupFunction has the roles []"},
		fault{"full live", "CleanupRole", boundary, "arn:aws:iam::111122223333:policy/other", "CleanupRole: the permissions boundary is"},
		fault{"full live", "CleanupRole", boundary, "!Ref PermissionsBoundaryArn", "CleanupRole: the permissions boundary is"},
	)
}

// TestEveryRoleHasTheBoundary that is given, the one for API Gateway's logs and the schedule's too (F48).
func TestEveryRoleHasTheBoundary(t *testing.T) {
	t.Parallel()
	calls, given := recordedCalls(t), map[string]string{"PermissionsBoundaryArn": "arn:aws:iam::111122223333:policy/boundary"}
	for _, d := range deployments() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := d.with(t, given)
			for _, problem := range checkRoles(calls, usualPlace())(s) {
				t.Error(problem)
			}
			for _, role := range s.OfType(iamRoleType) {
				line := "      PermissionsBoundary: !If [HasBoundary, !Ref PermissionsBoundaryArn, !Ref AWS::NoValue]\n"
				without := fault{d.name, role.ID, line, "      Path: /\n", ""}.stack(t, given)
				complains(t, checkRoles(calls, usualPlace())(without), role.ID+": the permissions boundary is <nil>")
			}
		})
	}
}

// TestRolesFollowTheStack to another Region, account and partition. The subscribers table stays where the events stack is.
func TestRolesFollowTheStack(t *testing.T) {
	t.Parallel()
	calls, abroad := recordedCalls(t), template.Place{Region: "eu-central-1", Account: "444455556666", Partition: "aws-example", StackName: "abroad"}
	for _, d := range deployments() {
		at := abroad
		if d.file == eventsTemplate {
			at.Region = "us-east-1"
		}
		s, err := read(t, d.file).Resolve(d.all(nil), at)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range checkRoles(calls, at)(s) {
			t.Errorf("%s: %s", d.name, problem)
		}
	}
	s, err := read(t, meteringTemplate).Resolve(deploymentNamed(t, "full live").all(nil), abroad)
	if err != nil {
		t.Fatal(err)
	}
	for role, want := range map[string]string{
		"DiscovererRole":   "dynamodb:Query arn:aws-example:dynamodb:us-east-1:444455556666:table/awsmp-subscribers/index/deprovisioning-pending-index",
		"SubmitterRole":    "dynamodb:Query arn:aws-example:dynamodb:us-east-1:444455556666:table/awsmp-subscribers/index/deprovisioning-pending-index",
		"RegistrationRole": "dynamodb:UpdateItem arn:aws-example:dynamodb:us-east-1:444455556666:table/awsmp-subscribers",
	} {
		if lines, _ := grantsIn(s.Resources[role].Get("Policies", "0", "PolicyDocument")); !slices.Contains(lines, want) {
			t.Errorf("%s does not allow %s: %q", role, want, lines)
		}
	}
	for _, f := range []fault{
		{"full live", "SubmitterRole", "dynamodb:${SubscribersTableRegion}:", "dynamodb:${AWS::Region}:", "SubmitterRole: allows, for no need, dynamodb:Query arn:aws-example:dynamodb:eu-central-1:"},
		{"full live", "SubmitterRole", "${AWS::AccountId}", "111122223333", "SubmitterRole: allows, for no need, dynamodb:Query arn:aws-example:dynamodb:us-east-1:111122223333:"},
		{"full live", "SubmitterRole", "arn:${AWS::Partition}:", "arn:aws:", "SubmitterRole: allows, for no need, dynamodb:Query arn:aws:"},
		{"full live", "ApiGatewayLogRole", "arn:${AWS::Partition}:", "arn:aws:", "ApiGatewayLogRole: has the managed policies"},
	} {
		complains(t, checkRoles(calls, abroad)(brokenAt(t, f, nil, abroad)), f.says)
	}
}

// starsWithoutReason are the lines of a template's text that allow something on everything and do not say why right above the statement.
func starsWithoutReason(text string) (wrong []string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != "Resource: '*'" {
			continue
		}
		if i < 3 || !strings.Contains(lines[i-3], "# AWS Marketplace knows no resources for this action.") || !strings.Contains(lines[i-1], "Action: aws-marketplace:") {
			wrong = append(wrong, fmt.Sprintf("line %d: %s", i+1, strings.TrimSpace(line)))
		}
	}
	return wrong
}

func TestWhatIsAllowedOnEverythingSaysWhy(t *testing.T) {
	t.Parallel()
	for _, file := range []string{eventsTemplate, meteringTemplate} {
		text := fileText(t, file)
		for _, problem := range starsWithoutReason(text) {
			t.Errorf("%s: %s", file, problem)
		}
		if file == meteringTemplate {
			silent := strings.ReplaceAll(text, "# AWS Marketplace knows no resources for this action.", "# It is so.")
			if problems := starsWithoutReason(silent); len(problems) != 2 {
				t.Errorf("%q without the reasons, want one each for BatchMeterUsage and ResolveCustomer", problems)
			}
		}
	}
}
