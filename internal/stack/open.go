package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
)

const opening = "open stack"

// describe is the stack as CloudFormation has it.
func (s *Stack) describe(ctx context.Context) (types.Stack, error) {
	out, err := s.here.cloudformation.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &s.Name})
	var refused smithy.APIError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode() == "ValidationError" && strings.Contains(refused.ErrorMessage(), "does not exist"):
		return types.Stack{}, s.missing(ctx)
	case err != nil:
		return types.Stack{}, awsapi.Wrap(opening, s.Name, err)
	case len(out.Stacks) == 0:
		return types.Stack{}, s.missing(ctx)
	}
	return out.Stacks[0], nil
}

// refuse is why a stack does not open, with what helps.
func (s *Stack) refuse(class awsapi.Class, hint, format string, args ...any) error {
	return &awsapi.Error{Class: class, Operation: opening, Resource: s.Name, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// missing says which stacks there are instead, where the caller may list them.
func (s *Stack) missing(ctx context.Context) error {
	names, err := s.others(ctx)
	if err != nil || len(names) == 0 {
		return s.refuse(awsapi.Missing, s.listCommand(), "there is no such stack in %s, and --region names another Region", s.Region)
	}
	hint := "--stack " + names[0] + " --region " + s.Region
	if len(names) > 1 {
		return s.refuse(awsapi.Missing, s.listCommand(), "there is no such stack in %s; there are %s", s.Region, strings.Join(names, ", "))
	}
	return s.refuse(awsapi.Missing, hint, "there is no such stack in %s", s.Region)
}

func (s *Stack) listCommand() string {
	return "aws cloudformation list-stacks --region " + s.Region + ` --query "StackSummaries[?starts_with(StackName,'awsmp-') && StackStatus!='DELETE_COMPLETE'].StackName"`
}

// others are the stacks of the Region that are named like a metering stack, in order.
func (s *Stack) others(ctx context.Context) (names []string, err error) {
	pages := cloudformation.NewListStacksPaginator(s.here.cloudformation, &cloudformation.ListStacksInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, found := range page.StackSummaries {
			name := aws.ToString(found.StackName)
			if found.StackStatus != types.StackStatusDeleteComplete && strings.HasPrefix(name, "awsmp-") && strings.HasSuffix(name, "-metering") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// read takes over what the stack was deployed with, and refuses one that is no metering stack or does not stand.
func (s *Stack) read(ctx context.Context, described types.Stack) error {
	s.id, s.status = aws.ToString(described.StackId), string(described.StackStatus)
	s.Parameters, s.Outputs = make(map[string]string), make(map[string]string)
	for _, p := range described.Parameters {
		s.Parameters[aws.ToString(p.ParameterKey)] = aws.ToString(p.ParameterValue)
	}
	for _, o := range described.Outputs {
		s.Outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	if err := s.kind(ctx); err != nil {
		return err
	}
	if err := s.standing(); err != nil {
		return err
	}
	s.ProductCode = s.Parameters["ProductCode"]
	s.Direct = s.parameter("DeploymentMode", "full") == "direct-submit"
	s.DryRun = s.parameter("MeteringMode", "live") == "dry-run"
	s.Paused = s.parameter("Submission", "enabled") == "paused"
	hours, err := strconv.Atoi(s.parameter("MeteringLockHours", "1"))
	s.Rules = metering.Rules{LockHours: hours}
	if err := errors.Join(err, s.Rules.Check()); err != nil {
		return s.refuse(awsapi.Invalid, "", "%w", err)
	}
	return nil
}

// kind refuses what is no metering stack.
func (s *Stack) kind(ctx context.Context) error {
	_, product := s.Parameters["ProductCode"]
	_, mode := s.Parameters["DeploymentMode"]
	if product && mode {
		return nil
	}
	what := "this is no metering stack: it has no parameters ProductCode and DeploymentMode"
	if _, is := s.Parameters["TestAccounts"]; is {
		what = "this is the events stack, which serves all products of the account; usage is in the metering stacks"
	}
	hint := s.listCommand()
	if names, err := s.others(ctx); err == nil && len(names) > 0 {
		hint = "--stack " + names[0] + " --region " + s.Region
	}
	return s.refuse(awsapi.Invalid, hint, "%s", what)
}

// standing refuses a stack that is not made yet or is going. One that is being changed works meanwhile.
func (s *Stack) standing() error {
	why := ""
	hint := "aws cloudformation describe-stack-events --region " + s.Region + " --stack-name " + s.Name
	switch types.StackStatus(s.status) {
	case types.StackStatusCreateInProgress:
		why, hint = "it is being created", "aws cloudformation wait stack-create-complete --region "+s.Region+" --stack-name "+s.Name
	case types.StackStatusReviewInProgress:
		why = "it has a change set that was never executed"
	case types.StackStatusCreateFailed, types.StackStatusRollbackInProgress, types.StackStatusRollbackFailed, types.StackStatusRollbackComplete:
		why = "its creation failed and was rolled back"
	case types.StackStatusDeleteInProgress, types.StackStatusDeleteFailed, types.StackStatusDeleteComplete:
		why = "it is being deleted; its tables stay"
	default:
		return nil
	}
	return s.refuse(awsapi.Invalid, hint, "%s (%s)", why, s.status)
}
