package preflight

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/awsmp/metering/internal/awsapi"
)

// The names of the events stacks and their tables.
const (
	eventsName    = "awsmp-events-stack"
	stagePrefix   = "awsmp-events-test-"
	eventsTable   = "awsmp-subscribers"
	stageTable    = "awsmp-subscribers-test-"
	describeStack = "cloudformation:DescribeStacks"
	describeTable = "dynamodb:DescribeTable"
)

// stackOf is a stack by its name; nil where there is none.
func stackOf(ctx context.Context, cfg aws.Config, name string) (*types.Stack, error) {
	out, err := cloudformation.NewFromConfig(cfg).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	var refused smithy.APIError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode() == "ValidationError" && strings.Contains(refused.ErrorMessage(), "does not exist"):
		return nil, nil
	case err != nil:
		return nil, err
	case len(out.Stacks) == 0:
		return nil, nil
	}
	return &out.Stacks[0], nil
}

// stands reports whether a stack is one that works.
func stands(s types.Stack) bool {
	return slices.Contains([]types.StackStatus{
		types.StackStatusCreateComplete, types.StackStatusUpdateComplete, types.StackStatusUpdateRollbackComplete, types.StackStatusImportComplete,
		types.StackStatusUpdateInProgress, types.StackStatusUpdateCompleteCleanupInProgress,
	}, s.StackStatus)
}

// parameterOf is a stack's parameter.
func parameterOf(s types.Stack, name string) string {
	for _, p := range s.Parameters {
		if aws.ToString(p.ParameterKey) == name {
			return aws.ToString(p.ParameterValue)
		}
	}
	return ""
}

// eventsStack looks for the stack that takes the events of AWS Marketplace, or for a dry run those of a test stage.
func (l *look) eventsStack(ctx context.Context) {
	if l.DryRun {
		l.testStage(ctx)
		return
	}
	const name = "events stack"
	deploy := "aws cloudformation deploy --region " + l.EventsRegion + " --stack-name " + eventsName + " --template-file dist/events-stack.yaml --capabilities CAPABILITY_IAM"
	s, err := stackOf(ctx, l.events, eventsName)
	switch {
	case err != nil:
		l.failed(name, describeStack, err)
	case s == nil:
		l.add(name, Problem, deploy, "there is no %s in %s: who subscribes and leaves is not heard of, and AWS does not tell it again", eventsName, l.EventsRegion)
		l.table(ctx, l.events, eventsTable)
	case !stands(*s):
		l.add(name, Problem, "aws cloudformation describe-stack-events --region "+l.EventsRegion+" --stack-name "+eventsName, "%s is %s", eventsName, s.StackStatus)
	case parameterOf(*s, "MeteringMode") == "dry-run":
		l.add(name, Problem, deploy+" --parameter-overrides MeteringMode=live", "%s is a dry run, which takes no real events", eventsName)
	default:
		l.add(name, OK, "", "%s in %s is live", eventsName, l.EventsRegion)
	}
}

// testStage looks for a test stage of the events stack, whose table a dry run reads.
func (l *look) testStage(ctx context.Context) {
	const name = "events stack"
	pages := cloudformation.NewListStacksPaginator(cloudformation.NewFromConfig(l.events), &cloudformation.ListStacksInput{})
	var stages []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			l.failed(name, "cloudformation:ListStacks", err)
			return
		}
		for _, s := range page.StackSummaries {
			stage, is := strings.CutPrefix(aws.ToString(s.StackName), stagePrefix)
			if is && stands(types.Stack{StackStatus: s.StackStatus}) {
				stages = append(stages, stage)
			}
		}
	}
	slices.Sort(stages)
	if len(stages) == 0 {
		l.add(name, Warning, "aws cloudformation deploy --region "+l.EventsRegion+" --stack-name "+stagePrefix+"qa --template-file dist/events-stack.yaml --capabilities CAPABILITY_IAM --parameter-overrides MeteringMode=dry-run StageName=qa",
			"there is no test stage in %s: a dry run would read the live subscribers table", l.EventsRegion)
		return
	}
	l.parameter("MeteringMode=dry-run", "SubscribersTableName="+stageTable+stages[0])
	l.add(name, OK, "--parameter-overrides MeteringMode=dry-run SubscribersTableName="+stageTable+stages[0], "test stage %s is there", strings.Join(stages, ", "))
}

func (l *look) stackName() string { return "awsmp-" + l.ProductCode + "-metering" }

// metering is the metering stack of the product; nil where there is none.
func (l *look) metering(ctx context.Context) (*types.Stack, error) {
	if !wholeCode.MatchString(l.ProductCode) {
		return nil, nil
	}
	return stackOf(ctx, l.here, l.stackName())
}

// names looks at whether the stack's names are free: a stack that is there is updated, and tables of an earlier one are in the way.
func (l *look) names(ctx context.Context) {
	const name = "names"
	if !wholeCode.MatchString(l.ProductCode) {
		return
	}
	stack, s := l.stackName(), l.own
	at := " --region " + l.here.Region + " --stack-name " + stack
	switch {
	case l.ownErr != nil:
		l.failed(name, describeStack, l.ownErr)
		return
	case s == nil:
	case stands(*s):
		l.add(name, OK, "aws cloudformation get-template"+at+" --query TemplateBody --output text", "%s is there (%s): a deployment updates it, and keeps the parameters that it does not name", stack, s.StackStatus)
		return
	case s.StackStatus == types.StackStatusRollbackComplete || s.StackStatus == types.StackStatusReviewInProgress:
		l.add(name, Problem, "aws cloudformation delete-stack"+at, "%s is %s: nothing is in it, and it takes no update", stack, s.StackStatus)
		return
	default:
		l.add(name, Problem, "aws cloudformation describe-stack-events"+at, "%s is %s", stack, s.StackStatus)
		return
	}
	free := true
	for _, thing := range []string{"usage", "aggregated-usage", "customer-profile"} {
		free = l.table(ctx, l.here, "awsmp-"+l.ProductCode+"-"+thing) && free
	}
	if free {
		l.add(name, OK, "", "no stack and no table is called as those of %s", stack)
	}
}

// table looks at whether a table's name is free. One that an earlier stack has left is imported, or the deployment fails.
func (l *look) table(ctx context.Context, cfg aws.Config, table string) bool {
	const name = "names"
	_, err := dynamodb.NewFromConfig(cfg).DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	switch {
	case err == nil:
		l.add(name, Problem, "bring it back by a change set: aws cloudformation create-change-set … --import-existing-resources (deploy/README.md, 8)",
			"table %s is there, of a stack that is gone: a deployment that makes it anew fails", table)
	case awsapi.ClassOf(awsapi.Wrap("", "", err)) == awsapi.Missing:
		return true
	default:
		l.failed(name, describeTable, err)
	}
	return false
}
