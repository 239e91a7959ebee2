package deploy_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	store "github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/template"
	"github.com/awsmp/metering/usage"
	usagedynamodb "github.com/awsmp/metering/usage/dynamodb"
)

// writerCalls are the IAM actions that what writes usage needs, a line "action table" each. In direct-submit a seller writes records as docs/writer-contract.md
// says, and looks at them; in the full pipeline TestWriterCallsWhatItsPolicyAllows records them.
func writerCalls(s *template.Stack) []string {
	tables := usagedynamodb.TablesOf(s.Parameters["ProductCode"])
	switch s.Parameters["DeploymentMode"] {
	case "full":
		return []string{"dynamodb:GetItem " + tables.AggregatedUsage, "dynamodb:GetItem " + tables.Usage, "dynamodb:UpdateItem " + tables.Usage}
	case "direct-submit":
		return []string{"dynamodb:GetItem " + tables.AggregatedUsage, "dynamodb:PutItem " + tables.AggregatedUsage}
	}
	return nil // the events stack has nothing that a seller writes
}

// TestWriterCallsWhatItsPolicyAllows writes usage as a seller's program does: the answer to one batch is lost, and another one comes when the hour has its
// record already.
func TestWriterCallsWhatItsPolicyAllows(t *testing.T) {
	t.Parallel()
	moto, code := standin.Moto(t), standin.Name(t, "writer")
	tables, direct := usagedynamodb.TablesOf(code), sdk.NewFromConfig(standin.Config(moto))
	if err := store.Create(t.Context(), direct, store.UsageTable(tables.Usage), store.AggregatedUsageTable(tables.AggregatedUsage)); err != nil {
		t.Fatal(err)
	}
	proxy := standin.NewProxy(t, moto)
	lost := false
	proxy.Intercept(func(c standin.Call) standin.Action {
		drop := c.Operation == "UpdateItem" && !lost
		lost = lost || drop
		return standin.Action{Drop: drop}
	})
	now := time.Date(2026, 3, 10, 14, 30, 0, 0, time.UTC)
	group := metering.Group{
		License: "arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef", Account: "444455556666", Dimension: "api_calls", Hour: metering.HourOf(now),
	}
	event := usage.Event{License: group.License, Account: group.Account, Dimension: group.Dimension, Time: now, Quantity: 2}
	write := func(id string, want error) {
		t.Helper()
		writer, err := usage.NewWriter(usagedynamodb.New(sdk.NewFromConfig(standin.Config(proxy.URL)), tables, usagedynamodb.Options{}), usage.Options{Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		answers, err := writer.WriteBatch(t.Context(), id, []usage.Event{event})
		if err != nil || len(answers) != 1 || !errors.Is(answers[0], want) {
			t.Fatalf("%v, %v; want %v", answers, err, want)
		}
	}
	write("first", nil)
	if out, err := store.NewRecords(direct, tables.AggregatedUsage, store.Options{}).CreateRecord(t.Context(), metering.NewRecord(group, 2)); err != nil || !out.Done {
		t.Fatalf("%+v, %v", out, err)
	}
	write("second", usage.ErrHourCommitted)
	called := map[string]bool{}
	for _, c := range proxy.Calls() {
		called[c.Service+":"+c.Operation+" "+c.Resource] = true
	}
	want := writerCalls(&template.Stack{Parameters: map[string]string{"ProductCode": code, "DeploymentMode": "full"}})
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(called))); diff != "" {
		t.Errorf("package usage calls something else than its policy allows (-allowed +called): %s", diff)
	}
}

// checkWriterPolicies: a stack has one policy for what writes into it, which allows that and nothing else, and names it as an output.
func checkWriterPolicies(s *template.Stack) (wrong []string) {
	var needs []string
	for _, call := range writerCalls(s) {
		needs = append(needs, strings.Replace(call, " ", " arn:aws:dynamodb:us-east-1:111122223333:table/", 1))
	}
	policies := s.OfType(iamPolicyType)
	if needs == nil && len(policies) == 0 {
		return nil
	}
	if needs == nil || len(policies) != 1 {
		return []string{fmt.Sprintf("there are %d managed policies for %q", len(policies), needs)}
	}
	policy := policies[0]
	for name := range policy.Properties {
		if name != "Description" && name != "PolicyDocument" { // not attached to anything, and not named: IAM knows no Regions
			wrong = append(wrong, policy.ID+" has "+name)
		}
	}
	allowed, others := grantsIn(policy.Get("PolicyDocument"))
	for _, problem := range slices.Concat(others, grantsApart(needs, allowed)) {
		wrong = append(wrong, policy.ID+": "+problem)
	}
	if arn := s.Outputs["UsageWriterPolicyArn"].Value; !strings.HasPrefix(arn, "arn:aws:iam::111122223333:policy/stack-"+policy.ID+"-") {
		wrong = append(wrong, fmt.Sprintf("UsageWriterPolicyArn is %q, which is not %s", arn, policy.ID))
	}
	return wrong
}

func TestWhatWritesUsageMayWriteUsage(t *testing.T) {
	t.Parallel()
	upholds(t, checkWriterPolicies,
		fault{"full live", "UsageWriterPolicy", "[dynamodb:GetItem, dynamodb:UpdateItem]", "[dynamodb:GetItem, dynamodb:PutItem]", "UsageWriterPolicy: does not allow dynamodb:UpdateItem"},
		fault{"full live", "UsageWriterPolicy", "Action: dynamodb:GetItem", "Action: [dynamodb:GetItem, dynamodb:DeleteItem]", "UsageWriterPolicy: allows, for no need, dynamodb:DeleteItem"},
		fault{"full live", "UsageWriterPolicy", "Description:", "Roles: [other]\n      Description:", "UsageWriterPolicy has Roles"},
		fault{"full live", "RecordWriterPolicy", "Condition: DirectSubmit", "Condition: FullPipeline", "there are 2 managed policies"},
		fault{"direct-submit live", "RecordWriterPolicy", "dynamodb:PutItem", "dynamodb:UpdateItem", "RecordWriterPolicy: does not allow dynamodb:PutItem"},
		fault{"direct-submit live", "UsageWriterPolicyArn", "!Ref RecordWriterPolicy", "none", "UsageWriterPolicyArn is"},
	)
}
