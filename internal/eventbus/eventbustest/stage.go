// Package eventbustest makes what a stage on AWS has for its events, in a stand-in: a subscription function with settings, and a queue behind a
// rule of the account's event bus.
package eventbustest

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	bustypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/awsmp/metering/internal/standin"
)

const role = "awsmp-subscription"

// Deploy makes a function of this name with these variables on moto.
func Deploy(t testing.TB, name string, variables map[string]string) {
	t.Helper()
	makeRole(t)
	client := lambda.NewFromConfig(standin.Config(standin.Moto(t)))
	_, err := client.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: &name, Runtime: types.RuntimeProvidedal2023, Handler: aws.String("subscription"),
		Role: aws.String("arn:aws:iam::123456789012:role/" + role), Code: &types.FunctionCode{ZipFile: artifact(t)},
		Environment: &types.Environment{Variables: variables},
	})
	fatal(t, err)
}

func artifact(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	_, err := z.Create("bootstrap")
	fatal(t, err)
	fatal(t, z.Close())
	return b.Bytes()
}

// makeRole makes the role that a function has. IAM is spoken without an SDK: nothing else here needs one.
func makeRole(t testing.TB) {
	t.Helper()
	form := url.Values{"Action": {"CreateRole"}, "Version": {"2010-05-08"}, "RoleName": {role}, "AssumeRolePolicyDocument": {"{}"}}
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, standin.Moto(t), strings.NewReader(form.Encode()))
	fatal(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20260310/%s/iam/aws4_request, SignedHeaders=host, Signature=0", standin.Region))
	response, err := standin.Config("").HTTPClient.Do(r)
	fatal(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusConflict { // made already
		t.Fatal(response.Status)
	}
}

// Queue is where the events of a source arrive.
type Queue struct {
	client *sqs.Client
	url    *string
}

// Listen makes a queue behind a rule of the default bus on moto, for the events of one source. The name is the queue's and the rule's.
func Listen(t testing.TB, name, source string) Queue {
	t.Helper()
	config := standin.Config(standin.Moto(t))
	q := Queue{client: sqs.NewFromConfig(config)}
	made, err := q.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
	fatal(t, err)
	q.url = made.QueueUrl
	attributes, err := q.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: q.url, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameQueueArn},
	})
	fatal(t, err)
	bus := eventbridge.NewFromConfig(config)
	_, err = bus.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: &name, EventPattern: aws.String(fmt.Sprintf(`{"source": [%q]}`, source))})
	fatal(t, err)
	_, err = bus.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: &name, Targets: []bustypes.Target{
		{Id: aws.String("queue"), Arn: aws.String(attributes.Attributes["QueueArn"])},
	}})
	fatal(t, err)
	return q
}

// Receive takes the events that have arrived, ten at most. moto delivers an event before it answers who put it.
func (q Queue) Receive(t testing.TB) (events []string) {
	t.Helper()
	received, err := q.client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: q.url, MaxNumberOfMessages: 10})
	fatal(t, err)
	for _, m := range received.Messages {
		events = append(events, aws.ToString(m.Body))
	}
	return events
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
