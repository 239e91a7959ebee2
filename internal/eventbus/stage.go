package eventbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/lifecycle"
)

// The settings of the subscription function that say what it takes.
const (
	modeVariable     = "METERING_MODE"
	stageVariable    = "TEST_STAGE"
	tableVariable    = "SUBSCRIBERS_TABLE"
	accountsVariable = "TEST_ACCOUNTS"

	dryRun  = "dry-run"
	nothing = "none"
)

// StageName reports whether a text can be the name of a stage that takes test events.
func StageName(text string) bool {
	return text != nothing && lifecycle.ValidStage(text)
}

// Stage is what a deployed subscription function says of itself.
type Stage struct {
	Function     string
	Mode         string   // METERING_MODE
	TestStage    string   // the stage whose test events it takes; empty where it takes none
	TestAccounts []string // the buyers' accounts that such an event may be about
	Table        string   // SUBSCRIBERS_TABLE
}

// ReadStage reads the settings of a subscription function, by its name or ARN (AWS Lambda API reference, GetFunctionConfiguration).
// Errors are *awsapi.Error.
func ReadStage(ctx context.Context, client *lambda.Client, function string) (Stage, error) {
	const operation = "read the settings of the subscription function"
	out, err := client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &function})
	if err != nil {
		err = awsapi.Wrap(operation, function, err)
		var missing *types.ResourceNotFoundException
		var known *awsapi.Error
		if errors.As(err, &missing) && errors.As(err, &known) {
			known.Hint = "deploy the stage's events stack in dry-run; if it stands already, name its Region with --region or its function with --function: aws lambda list-functions --query 'Functions[].FunctionName'"
		}
		return Stage{}, err
	}
	s := Stage{Function: function}
	if out.Environment == nil {
		return s, nil
	}
	if e := out.Environment.Error; e != nil { // its key could not be used
		return s, &awsapi.Error{
			Class: awsapi.Denied, Operation: operation, Resource: function, Err: fmt.Errorf("%s (%s)", aws.ToString(e.Message), aws.ToString(e.ErrorCode)),
			Hint: "allow the caller kms:Decrypt on the key of the function's environment",
		}
	}
	variables := out.Environment.Variables
	s.Mode, s.Table = variables[modeVariable], variables[tableVariable]
	if stage := variables[stageVariable]; stage != nothing {
		s.TestStage = stage
	}
	for account := range strings.SplitSeq(variables[accountsVariable], ",") {
		if account = strings.TrimSpace(account); account != "" && account != nothing {
			s.TestAccounts = append(s.TestAccounts, account)
		}
	}
	return s, nil
}

// Refusal is why an event is not sent to a stage, and what to do about it.
type Refusal struct{ Why, Hint string }

func (r *Refusal) Error() string { return r.Why }

// Allows reports whether the function takes invented events of a stage about a buyer's account. The error is a *Refusal. The function
// itself refuses what is refused here; asking first tells the person who sends.
func (s Stage) Allows(stage, account string) error {
	const apart = "deploy an events stack of its own in dry-run for stage "
	switch {
	case s.Mode != dryRun:
		return &Refusal{
			fmt.Sprintf("the function %s has %s %q: invented events go to a stage in %s alone", s.Function, modeVariable, s.Mode, dryRun),
			apart + stage + "; without --function its " + lifecycle.TestFunction(stage) + " is asked",
		}
	case s.TestStage == "":
		return &Refusal{
			fmt.Sprintf("the function %s takes no test events: its %s is not set", s.Function, stageVariable),
			fmt.Sprintf("set %s to %s in its stack, or name another function with --function", stageVariable, stage),
		}
	case s.TestStage != stage:
		return &Refusal{
			fmt.Sprintf("the function %s takes test events of stage %s, not of %s", s.Function, s.TestStage, stage),
			fmt.Sprintf("--stage %s, or name another function with --function", s.TestStage),
		}
	case !lifecycle.TestTable(s.Table, stage):
		return &Refusal{
			fmt.Sprintf("the function %s keeps its subscribers in %s, which live products may read", s.Function, cmp.Or(s.Table, "no table")),
			fmt.Sprintf("give the stage a subscribers table of its own, whose name ends in -test-%s", stage),
		}
	case account == "":
		return &Refusal{"the event names no buyer's account", "put detail.acceptor.accountId into it"}
	case !slices.Contains(s.TestAccounts, account):
		hint := fmt.Sprintf("add it to %s in the function's stack", accountsVariable)
		if len(s.TestAccounts) > 0 {
			hint = fmt.Sprintf("--account %s, or %s", s.TestAccounts[0], hint)
		}
		return &Refusal{fmt.Sprintf("account %s is not among the %s of the function %s", account, accountsVariable, s.Function), hint}
	}
	return nil
}
