package deploy_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/standin"
)

// TestDeployed deploys both templates into moto with the AWS CLI, by the commands of deploy/README.md, looks at what stands there, changes it and lets it work. docs/stand-ins.md
// says under "CloudFormation" what moto makes of the templates, and which test looks at what it does not make.
func TestDeployed(t *testing.T) {
	t.Parallel()
	s := newStands(t, newRelease(t, newCloud(t)))
	quirks := motoQuirks(t)
	t.Run("is what the templates say", func(t *testing.T) {
		for _, at := range s.all() {
			for _, problem := range at.problems(at.stack, quirks) {
				t.Error(problem)
			}
		}
	})
	t.Run("but for what docs/stand-ins.md names", func(t *testing.T) { quirksAreTrue(t, s, quirks) })
	t.Run("and another template is noticed", func(t *testing.T) { othersAreNoticed(t, s, quirks) })
	t.Run("changes", func(t *testing.T) { change(t, s, quirks) })
	t.Run("works", func(t *testing.T) {
		for name, scenario := range map[string]func(*testing.T, stands){
			"from usage to billed revenue": fullPipeline, "from records to billed revenue": directSubmit, "a stage of its own": stageEvents,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				scenario(t, s)
			})
		}
	})
	t.Run("a switch of the mode", func(t *testing.T) { switchMode(t, s, quirks) })
}

// motoQuirk is a type that moto does not make, or a property that it does not keep.
type motoQuirk struct {
	what    string
	covered string // the test that looks at it instead
}

// motoQuirks reads the two tables of docs/stand-ins.md.
func motoQuirks(t *testing.T) (quirks []motoQuirk) {
	t.Helper()
	page := fileText(t, "../docs/stand-ins.md")
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if what := strings.Trim(cells[0], "`"); strings.HasPrefix(what, "AWS::") {
			quirks = append(quirks, motoQuirk{what, strings.Trim(cells[len(cells)-1], "`")})
		}
	}
	return quirks
}

// quirksAreTrue holds the tables against moto: what is named there is so wherever it occurs, and a test looks at it.
func quirksAreTrue(t *testing.T, s stands, quirks []motoQuirk) {
	seen, wrong := map[string]int{}, map[string]int{}
	for _, at := range s.all() {
		for _, f := range at.findings(at.stack) {
			seen[f.what]++
			if f.problem != "" {
				wrong[f.what]++
			}
		}
	}
	for _, q := range quirks {
		if seen[q.what] == 0 || wrong[q.what] != seen[q.what] {
			t.Errorf("docs/stand-ins.md names %s, which moto gets wrong in %d of %d cases", q.what, wrong[q.what], seen[q.what])
		}
		if !testExists(t, q.covered) {
			t.Errorf("docs/stand-ins.md says that %s looks at %s, and there is no such test", q.covered, q.what)
		}
	}
}

// othersAreNoticed compares what stands with templates that would deploy something else.
func othersAreNoticed(t *testing.T, s stands, quirks []motoQuirk) {
	type edit struct {
		old, new string
		want     []string // what differs then
	}
	for _, c := range []struct {
		at    *standing
		edits []edit
	}{
		{s.full, []edit{
			{"AttributeName: licenseArn, KeyType: RANGE}", "AttributeName: dimension, KeyType: RANGE}",
				[]string{"AWS::DynamoDB::Table.GlobalSecondaryIndexes of AggregatedUsageTable", "AWS::DynamoDB::Table.GlobalSecondaryIndexes of UsageTable"}},
			{"VisibilityTimeout: 360\n      MessageRetentionPeriod: 345600 # 4 days\n      SqsManagedSseEnabled: true\n      RedrivePolicy: {deadLetterTargetArn: !GetAtt CleanupDeadLetters",
				"VisibilityTimeout: 361\n      MessageRetentionPeriod: 345600 # 4 days\n      SqsManagedSseEnabled: true\n      RedrivePolicy: {deadLetterTargetArn: !GetAtt WorkDeadLetters",
				[]string{"AWS::SQS::Queue.RedrivePolicy of CleanupQueue", "AWS::SQS::Queue.VisibilityTimeout of CleanupQueue"}},
			{"METERING_LOCK_HOURS: !Ref MeteringLockHours", "METERING_LOCK_HOURS: 2", []string{"AWS::Lambda::Function.Environment of DiscovererFunction"}},
			{"Handler: cleanup", "Handler: cleaner", []string{"AWS::Lambda::Function.Handler of CleanupFunction"}},
			{`"mode":"ageout","shard":6`, `"mode":"ageout","shard":7`, []string{"AWS::Events::Rule.Targets of MeterRule6"}},
			{"cron(3/5", "cron(4/5", []string{"AWS::Events::Rule.ScheduleExpression of SubmitRule"}},
			{"MaximumConcurrency: !Ref AggregatorMaximumConcurrency", "MaximumConcurrency: 21", []string{"AWS::Lambda::EventSourceMapping.ScalingConfig of WorkMapping"}},
			{"SourceArn: !GetAtt FlushRule.Arn", "SourceArn: arn:another", []string{"AWS::Lambda::Permission.SourceArn of FlushRulePermission"}},
		}},
		{s.direct, []edit{
			{"PermissionsBoundary: !If [HasBoundary, !Ref PermissionsBoundaryArn", "PermissionsBoundary: !If [HasBoundary, arn:another",
				[]string{"AWS::IAM::Role.PermissionsBoundary of RegistrationRole", "AWS::IAM::Role.PermissionsBoundary of SubmissionExpiryRole", "AWS::IAM::Role.PermissionsBoundary of SubmitterRole"}},
			{"aws-marketplace:ResolveCustomer", "aws-marketplace:MeterUsage", []string{"AWS::IAM::Role.Policies of RegistrationRole"}},
			{"[dynamodb:GetItem, dynamodb:PutItem]\n            Resource: !GetAtt AggregatedUsageTable.Arn\n\n", "[dynamodb:GetItem]\n            Resource: !GetAtt AggregatedUsageTable.Arn\n\n",
				[]string{"AWS::IAM::ManagedPolicy.PolicyDocument of RecordWriterPolicy"}},
			{"PathPart: register", "PathPart: registration", []string{"AWS::ApiGateway::Resource.PathPart of RegistrationPath"}},
		}},
		{s.live, []edit{
			{"source: [aws.agreement-marketplace]", "source: [aws.marketplace]", []string{"AWS::Events::Rule.EventPattern of MarketplaceEvents"}},
			{"RetentionInDays: !Ref LogRetentionInDays", "RetentionInDays: 7",
				[]string{"AWS::Logs::LogGroup.RetentionInDays of DeprovisionCleanupLogs", "AWS::Logs::LogGroup.RetentionInDays of SubscriptionLogs"}},
			{`"title": "Events without effect"`, `"title": "Events"`, []string{"AWS::CloudWatch::Dashboard.DashboardBody of Dashboard"}},
		}},
	} {
		var pairs, want, got []string
		text := fileText(t, filepath.Join(c.at.folder, "deploy", c.at.file))
		for _, e := range c.edits {
			if !strings.Contains(text, e.old) {
				t.Errorf("%s does not hold %q", c.at.file, e.old)
			}
			pairs, want = append(pairs, e.old, e.new), append(want, e.want...)
		}
		for _, problem := range c.at.problems(c.at.resolved(t, strings.NewReplacer(pairs...)), quirks) {
			_, rest, _ := strings.Cut(problem, ": ")
			what, _, _ := strings.Cut(rest, " (-")
			got = append(got, what)
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what differs in %s with another template (-want +got):\n%s", c.at.name, diff)
		}
	}
}

// change changes the full stack by the command that makes a stack live. What it names is changed, and all else stays.
func change(t *testing.T, s stands, quirks []motoQuirk) {
	words := s.full.words(t, fullProduct, "cloudformation deploy", "--stack-name awsmp-$PRODUCT-metering ", "MeteringMode=live", "SellerName=")
	s.full.deploy(t, words)
	for _, problem := range s.full.problems(s.full.stack, quirks) {
		t.Error(problem)
	}
	if got := s.full.stack.Resources["RegistrationFunction"].Text("Environment", "Variables", "SELLER_NAME"); !slices.Contains(words, "SellerName="+got) {
		t.Errorf("the command %q makes the seller's name %q", words, got)
	}
}

// switchMode makes the full stack one of direct-submit. moto does not look at a condition again for what it has made: it makes what is new, removes
// nothing, and leaves the dashboard as it is. What both modes have works on, and the usage table holds what it held; that AWS keeps it is in the template.
func switchMode(t *testing.T, s stands, quirks []motoQuirk) {
	client := dynamosdk.NewFromConfig(standin.Config(s.full.endpoint))
	table := s.full.outputs["UsageTableName"]
	held := func() int32 {
		out, err := client.Scan(t.Context(), &dynamosdk.ScanInput{TableName: &table})
		if err != nil {
			t.Fatal(err)
		}
		return out.Count
	}
	before := held()
	s.full.deploy(t, s.full.words(t, fullProduct, "cloudformation deploy", "DeploymentMode=direct-submit"))
	var wrong []string
	for _, f := range s.full.findings(s.full.stack) {
		if f.problem != "" && !slices.ContainsFunc(quirks, func(q motoQuirk) bool { return q.what == f.what }) {
			wrong = append(wrong, f.what)
		}
	}
	if want := []string{"AWS::CloudWatch::Dashboard.DashboardBody"}; !slices.Equal(wrong, want) {
		t.Errorf("after the switch %q differ from the template, want %q", wrong, want)
	}
	if after := held(); before == 0 || after != before {
		t.Errorf("the usage table holds %d rows after the switch, and %d before", after, before)
	}
}
