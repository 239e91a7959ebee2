package stack_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/stack"
	"github.com/awsmp/metering/internal/stack/stacktest"
)

const topic = "arn:aws:sns:us-east-1:111122223333:awsmp-alerts"

// world is a deployment, and clients that change what stands there behind the stack's back.
type world struct {
	stacktest.Deployed
	*stack.Stack
	config     aws.Config // of the metering stack's Region
	sqs        *sqs.Client
	lambda     *lambda.Client
	events     *eventbridge.Client
	logs       *cloudwatchlogs.Client
	cloudwatch *cloudwatch.Client
	scheduler  *scheduler.Client
}

// TestStack asks one deployment everything, since it takes seconds to make. What is wrong with it, and put right, comes last.
func TestStack(t *testing.T) {
	t.Parallel()
	w := deploy(t, stacktest.Options{ProductCode: "acme", Parameters: map[string]string{"MeteringLockHours": "3"}})
	for _, tt := range []struct {
		name string
		ask  func(*testing.T, *world)
	}{{"open", opens}, {"look", looks}, {"queues", allQueues}, {"permissions", permissions}, {"troubles", fixed}} {
		t.Run(tt.name, func(t *testing.T) { tt.ask(t, w) })
	}
}

// deploy deploys stacks in which nothing is wrong: their alarms tell somebody.
func deploy(t *testing.T, o stacktest.Options) *world {
	t.Helper()
	told := map[string]string{"AlertsTopicArn": topic}
	for name, value := range o.Parameters {
		told[name] = value
	}
	o.Parameters, o.Events = told, map[string]string{"AlertsTopicArn": topic}
	w := &world{Deployed: stacktest.Deploy(t, o)}
	w.config, _ = w.Config(t.Context(), "")
	w.sqs, w.lambda, w.events, w.logs = sqs.NewFromConfig(w.config), lambda.NewFromConfig(w.config), eventbridge.NewFromConfig(w.config), cloudwatchlogs.NewFromConfig(w.config)
	w.cloudwatch, w.scheduler = stack.CloudWatch(w.config), scheduler.NewFromConfig(w.config)
	w.Stack = w.open(t, stack.Options{})
	return w
}

// open opens the metering stack anew.
func (w *world) open(t *testing.T, o stack.Options) *stack.Stack {
	t.Helper()
	if o.Config == nil {
		o.Config = w.Config
	}
	s, err := stack.Open(t.Context(), w.StackName, w.Deployed.Region, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// queue is the name of a queue, or of what a queue has beside it, as AWS has it.
func (w *world) queue(name string) string {
	switch name {
	case "events-rule":
		return "awsmp-marketplace-events"
	case "events-logs":
		return "awsmp-subscription"
	}
	if strings.HasPrefix(name, "events") {
		return "awsmp-" + name
	}
	return w.own(name)
}

// own is the name of a thing of the metering stack.
func (w *world) own(thing string) string { return "awsmp-" + w.Deployed.ProductCode + "-" + thing }

func (w *world) url(t *testing.T, name string) *string {
	t.Helper()
	out, err := w.sqs.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(w.queue(name))})
	if err != nil {
		t.Fatal(err)
	}
	return out.QueueUrl
}

// troubles are the findings of the stack as it is now.
func (w *world) troubles(t *testing.T) []desk.Finding {
	t.Helper()
	found, err := w.open(t, stack.Options{}).Troubles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// paste runs a command as an operator does who pastes it into a shell.
func (w *world) paste(t *testing.T, command string) {
	t.Helper()
	if _, err := exec.LookPath("aws"); err != nil {
		const hint = "the AWS CLI is not installed. Try: pip install awscli"
		if os.Getenv("CI") != "" {
			t.Fatal(hint)
		}
		t.Skip(hint)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-euc", command)
	shell.Env = append(w.Env(), "PATH="+os.Getenv("PATH"))
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// must fails where a call did.
func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(out T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}
