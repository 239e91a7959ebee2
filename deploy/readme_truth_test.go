package deploy_test

import (
	"strings"
	"testing"
)

// readmeChecks are all that hold deploy/README.md to the truth but for the AWS CLI's.
func readmeChecks(t *testing.T, g guide) map[string]func(page string) []string {
	return map[string]func(page string) []string{
		"tables": g.tables, "deployments": g.deployments, "names": g.names, "files": g.files, "permissions": g.permissions, "figures": g.figures, "imports": g.imports,
		"shell": func(page string) []string { return shellProblems(t, page) },
		"awsmp": func(page string) []string { return awsmpProblems(page, g.reference, g.makefile) },
	}
}

func TestReadmeIsTrue(t *testing.T) {
	t.Parallel()
	page := readmePage(t)
	for name, check := range readmeChecks(t, newGuide(t)) {
		for _, problem := range check(page) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// TestReadmeCannotLie breaks the page in each way that a check is there for.
func TestReadmeCannotLie(t *testing.T) {
	t.Parallel()
	page, checks := readmePage(t), readmeChecks(t, newGuide(t))
	for _, f := range []struct{ check, old, new, says string }{
		{"tables", "| `MeteringLockHours` | `1` |", "| `MeteringLockHours` | `2` |", "the table should be"},
		{"tables", "| metering | `RegistrationUrl` |", "| metering | `RegistrationURL` |", "the table should be"},
		{"deployments", "TestAccounts=$BUYER", "TestAccount=$BUYER", "TestAccount"},
		{"deployments", "StageName=qa", "StageName=QA", "StageName"},
		{"deployments", "SubscribersTableName=awsmp-subscribers AlertsTopicArn", "AlertsTopicArn", "SUBSCRIBERS_TABLE"},
		{"deployments", "AggregatorMaximumConcurrency=2\n", "AggregatorMaximumConcurrency=none\n", "AggregatorMaximumConcurrency"},
		{"deployments", "--region us-east-1 --stack-name awsmp-events-stack", "--region eu-west-1 --stack-name awsmp-events-stack", "us-east-1 and nowhere else"},
		{"deployments", "--output-template-file dist/metering-stack.yaml", "--output-template-file dist/metering.yaml", "nothing has made dist/metering-stack.yaml"},
		{"deployments", "--capabilities CAPABILITY_IAM --no-execute-changeset", "--no-execute-changeset", "the template has roles"},
		{"deployments", "--s3-bucket $BUCKET --output", "--s3-bucket $BUCKET-2 --output", "is not that of Region"},
		{"names", "Each stack keeps to its own `MeteringCallsPerSecond`", "Each stack keeps to its own `CallsPerSecond`", "nothing is called CallsPerSecond"},
		{"names", "`Submission=enabled` sends", "`Submission=on` sends", "no template takes Submission=on"},
		{"names", "metering UsageTableName)", "metering UsageTable)", "no stack has an output UsageTable"},
		{"names", "for q in EventsDeadLettersUrl", "for q in EventsDeadLetterUrl", "no stack has an output EventsDeadLetterUrl"},
		{"files", "(permissions-boundary.json)", "(boundary.json)", "a link leads to boundary.json"},
		{"files", "runbook.md#no-alarm-but-is-all-well", "runbook.md#is-all-well", "there is no such heading"},
		{"files", "(#9-remove)", "(#9-removal)", "there is no such heading"},
		{"files", "--template-file deploy/events-stack.yaml", "--template-file deploy/events.yaml", "there is no file deploy/events.yaml"},
		{"files", "file://dist/parameters.json", "file://dist/others.json", "there is no file dist/others.json"},
		{"permissions", "`scheduler:*`", "", "the permissions do not speak of scheduler"},
		{"permissions", ", `scheduler.amazonaws.com`", "", "the permissions do not speak of scheduler.amazonaws.com"},
		{"permissions", "`sns:*`", "", "the permissions do not speak of sns"},
		{"permissions", "`iam:CreateRole`", "`iam:*Role`", "would include iam:PassRole"},
		{"figures", "reserves 32 Lambda", "reserves 30 Lambda", "reserves 32 Lambda"},
		{"figures", "| large | 6 | 40,500 |", "| large | 6 | 45,000 |", "a run sends 40500"},
		{"figures", "| large | 6 | 40,500 |", "| large | 7 | 47,250 |", "the example shares 11"},
		{"imports", "sed \"s/TableName", "sed \"s/QueueName", "is called map"},
		{"shell", "--query Count --output json)\n", "--query Count --output text\n", "a shell cannot read"},
		{"shell", "{\"Version\": \"2012-10-17\", \"Statement\": [", "{\"Version\": \"2012-10-17\" \"Statement\": [", "no JSON"},
		{"shell", "\\\"quantity\\\": {", "\\\"quantity\\\" {", "no JSON"},
		{"awsmp", "send license-updated --stage qa", "send license-begins --stage qa", "has no license-begins"},
		{"awsmp", "send license-updated --stage qa", "send license-updated --scene qa", "has no --scene"},
		{"awsmp", "bin/awsmp events send", "bin/awsmp event send", "awsmp has no command \"event\""},
		{"awsmp", "make build package", "make build packages", "make has no target packages"},
	} {
		if !strings.Contains(page, f.old) {
			t.Errorf("the page does not hold %q", f.old)
			continue
		}
		complains(t, checks[f.check](strings.Replace(page, f.old, f.new, 1)), f.says)
	}
}
