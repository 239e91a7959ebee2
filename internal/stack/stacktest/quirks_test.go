package stacktest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cloudwatchtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/awsmp/metering/internal/stack"
	"github.com/awsmp/metering/internal/stack/stacktest"
	"github.com/awsmp/metering/internal/standin"
)

func TestMain(m *testing.M) {
	code := m.Run()
	standin.Stop()
	os.Exit(code)
}

// quirk is a question to AWS and to moto, with the answers that they give. docs/stand-ins.md holds the same rows; a changed answer changes both.
type quirk struct {
	question, aws, moto string
	source              string // where AWS says so
	instead             string // what stands in its place
	answer              func(ctx context.Context, cfg aws.Config, name string) (string, error)
}

// TestQuirks asks moto what the deployments of this package make up for.
func TestQuirks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/stand-ins.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range quirks() {
		t.Run(q.question, func(t *testing.T) {
			t.Parallel()
			got, err := q.answer(t.Context(), standin.Config(standin.Moto(t)), fmt.Sprintf("stacktest-quirk-%d", i))
			if err != nil {
				t.Fatal(err)
			}
			if got != q.moto {
				t.Errorf("moto: %s, want %s", got, q.moto)
			}
			row := fmt.Sprintf("| %s | %s | %s | %s | %s |\n", q.question, q.aws, q.moto, q.source, q.instead)
			if !strings.Contains(string(page), row) {
				t.Errorf("docs/stand-ins.md lacks the row\n%s", row)
			}
		})
	}
}

// said is what a call was answered with: accepted, a status, or that the SDK cannot read it.
func said(err error) (string, error) {
	var response *smithyhttp.ResponseError
	var unread *smithy.DeserializationError
	switch {
	case err == nil:
		return "accepted", nil
	case errors.As(err, &response) && response.HTTPStatusCode() < 300 && errors.As(err, &unread):
		return "the SDK cannot read it", nil
	case errors.As(err, &response):
		return fmt.Sprintf("status %d", response.HTTPStatusCode()), nil
	}
	return "", err
}

const oneFunction = `Parameters: {N: {Type: String, Default: '1'}, Never: {Type: String, Default: a}}
Resources:
  F: {Type: AWS::Lambda::Function, Properties: {FunctionName: %s, Handler: a, Runtime: provided.al2023, Role: !GetAtt R.Arn, ReservedConcurrentExecutions: !Ref N, Code: {ZipFile: none}}}
  R: {Type: AWS::IAM::Role, Properties: {AssumeRolePolicyDocument: {Version: '2012-10-17', Statement: []}}}
`

func create(ctx context.Context, cfg aws.Config, name string) (*cloudformation.Client, error) {
	client := cloudformation.NewFromConfig(cfg)
	_, err := client.CreateStack(ctx, &cloudformation.CreateStackInput{StackName: &name, TemplateBody: aws.String(fmt.Sprintf(oneFunction, name))})
	return client, err
}

func previous(key string) []cloudformationtypes.Parameter {
	return []cloudformationtypes.Parameter{{ParameterKey: &key, UsePreviousValue: aws.Bool(true)}}
}

func quirks() []quirk {
	return []quirk{
		{"reserved concurrency that is a parameter", "a number", "the SDK cannot read it", "API reference, GetFunctionConcurrency", "set once more by PutFunctionConcurrency",
			func(ctx context.Context, cfg aws.Config, name string) (string, error) {
				if _, err := create(ctx, cfg, name); err != nil {
					return "", err
				}
				_, err := lambda.NewFromConfig(cfg).GetFunctionConcurrency(ctx, &lambda.GetFunctionConcurrencyInput{FunctionName: &name})
				return said(err)
			}},
		{"concurrency of the account", "AccountLimit", "status 404", "API reference, GetAccountSettings", "an answer of the package's own",
			func(ctx context.Context, cfg aws.Config, _ string) (string, error) {
				_, err := lambda.NewFromConfig(cfg).GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
				return said(err)
			}},
		{"CloudWatch in CBOR", "answered", "status 404", "Smithy RPC v2 CBOR", "JSON, for AWS too",
			func(ctx context.Context, cfg aws.Config, _ string) (string, error) {
				_, err := cloudwatch.NewFromConfig(cfg).DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{})
				return said(err)
			}},
		{"metrics in a compressed request", "accepted", "status 500", "AWS SDKs and tools reference guide, request compression", "requests are not compressed",
			func(ctx context.Context, cfg aws.Config, name string) (string, error) {
				cfg.RequestMinCompressSizeBytes, cfg.RetryMaxAttempts = 1, 1
				_, err := stack.CloudWatch(cfg).PutMetricData(ctx, &cloudwatch.PutMetricDataInput{Namespace: &name, MetricData: []cloudwatchtypes.MetricDatum{{MetricName: &name, Value: aws.Float64(1)}}})
				return said(err)
			}},
		{"actions of an alarm switched on", "accepted", "status 500", "API reference, EnableAlarmActions", "the command is compared",
			func(ctx context.Context, cfg aws.Config, name string) (string, error) {
				cfg.RetryMaxAttempts = 1
				_, err := stack.CloudWatch(cfg).EnableAlarmActions(ctx, &cloudwatch.EnableAlarmActionsInput{AlarmNames: []string{name}})
				return said(err)
			}},
		{"previous value of a parameter that was never given", "its default", "status 500", "API reference, Parameter", "all parameters are given",
			func(ctx context.Context, cfg aws.Config, name string) (string, error) {
				cfg.RetryMaxAttempts = 1
				client, err := create(ctx, cfg, name)
				if err != nil {
					return "", err
				}
				_, err = client.UpdateStack(ctx, &cloudformation.UpdateStackInput{StackName: &name, UsePreviousTemplate: aws.Bool(true), Parameters: previous("Never")})
				return said(err)
			}},
		{"change set with the previous template", "made", "status 500", "API reference, CreateChangeSet", "the command is compared",
			func(ctx context.Context, cfg aws.Config, name string) (string, error) {
				cfg.RetryMaxAttempts = 1
				client, err := create(ctx, cfg, name)
				if err != nil {
					return "", err
				}
				_, err = client.CreateChangeSet(ctx, &cloudformation.CreateChangeSetInput{StackName: &name, ChangeSetName: aws.String("mend"), UsePreviousTemplate: aws.Bool(true), Parameters: previous("N")})
				return said(err)
			}},
		{"template of more than 51,200 bytes in the call", "ValidationError", "accepted", "CloudFormation quotas", "AWS takes ours from a bucket only",
			func(ctx context.Context, cfg aws.Config, name string) (string, error) {
				_, err := cloudformation.NewFromConfig(cfg).CreateStack(ctx, &cloudformation.CreateStackInput{StackName: &name, TemplateBody: aws.String(fmt.Sprintf(oneFunction, name) + strings.Repeat("#\n", 30_000))})
				return said(err)
			}},
	}
}

// Deployments in one moto do not see each other, and messages wait until the test takes them.
func TestDeploymentsAreApart(t *testing.T) {
	t.Parallel()
	one, other := stacktest.Deploy(t, stacktest.Options{ProductCode: "acme", NoEvents: true}), stacktest.Deploy(t, stacktest.Options{NoEvents: true, NoMetering: true})
	if one.Account == other.Account || one.Endpoint == other.Endpoint {
		t.Errorf("%+v and %+v are one account", one, other)
	}
	queue := aws.String("awsmp-acme-work")
	cfg, _ := one.Config(t.Context(), "")
	client := sqs.NewFromConfig(cfg)
	out, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: queue})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: out.QueueUrl, MessageBody: aws.String("a message")}); err != nil {
		t.Fatal(err)
	}
	got, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: out.QueueUrl, MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{"ApproximateReceiveCount"}})
	if err != nil || len(got.Messages) != 1 || got.Messages[0].Attributes["ApproximateReceiveCount"] != "1" {
		t.Errorf("received %+v, %v", got, err)
	}
	cfg, _ = other.Config(t.Context(), "")
	if _, err := sqs.NewFromConfig(cfg).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: queue}); err == nil {
		t.Error("the other account has the queue too")
	}
}
