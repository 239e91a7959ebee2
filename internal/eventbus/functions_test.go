package eventbus_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/eventbus"
	"github.com/awsmp/metering/internal/eventbus/eventbustest"
	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/standin"
)

// What is read from outside is what the function itself reads: names, values and the form of a stage's name.
func TestTheFunctionReadsTheSame(t *testing.T) {
	t.Parallel()
	all := functions.All()
	f := all[slices.IndexFunc(all, func(f functions.Function) bool { return f.Handler == functions.Subscription })]
	variables := map[string]string{
		"AWS_REGION": "us-east-1", "LOG_LEVEL": "info", "SUBSCRIBERS_TABLE": "awsmp-subscribers-test-qa",
		"METERING_MODE": "dry-run", "TEST_STAGE": "qa", "TEST_ACCOUNTS": "111122223333,444455556666",
	}
	read := func() (functions.Settings, error) { return f.Read(func(name string) string { return variables[name] }) }
	inside, err := read()
	fatal(t, err)
	const name = "awsmp-subscription-inside-and-outside"
	eventbustest.Deploy(t, name, variables)
	outside, err := eventbus.ReadStage(t.Context(), lambda.NewFromConfig(standin.Config(standin.Moto(t))), name)
	fatal(t, err)
	want := eventbus.Stage{Function: name, Mode: inside.Mode, TestStage: inside.TestStage, TestAccounts: inside.TestAccounts, Table: inside.SubscribersTable}
	if diff := cmp.Diff(want, outside); diff != "" || want.TestStage == "" {
		t.Error(diff)
	}
	for _, stage := range []string{"a", "load-2", "none", "QA", "2a", "-", "a_b", "a.b", "abcdefghijklmnopqrstuvwxyz01234", "abcdefghijklmnopqrstuvwxyz012345"} {
		variables["TEST_STAGE"], variables["SUBSCRIBERS_TABLE"] = stage, "awsmp-subscribers-test-"+stage
		s, err := read()
		if takes := err == nil && s.TestStage != ""; takes != eventbus.StageName(stage) {
			t.Errorf("%q: the function takes it: %v", stage, takes)
		}
	}
}
