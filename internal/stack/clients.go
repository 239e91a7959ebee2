package stack

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/schemas"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"
)

// clients are those of one Region.
type clients struct {
	region         string
	cloudformation *cloudformation.Client
	cloudwatch     *cloudwatch.Client
	dynamodb       *dynamodb.Client
	events         *eventbridge.Client
	lambda         *lambda.Client
	logs           *cloudwatchlogs.Client
	scheduler      *scheduler.Client
	sqs            *sqs.Client
}

func newClients(cfg aws.Config) clients {
	return clients{
		region: cfg.Region, cloudformation: cloudformation.NewFromConfig(cfg), cloudwatch: CloudWatch(cfg), dynamodb: dynamodb.NewFromConfig(cfg),
		events: eventbridge.NewFromConfig(cfg), lambda: lambda.NewFromConfig(cfg), logs: cloudwatchlogs.NewFromConfig(cfg), scheduler: scheduler.NewFromConfig(cfg),
		sqs: sqs.NewFromConfig(cfg),
	}
}

// CloudWatch is a client of CloudWatch that speaks AWS JSON 1.0, one of the three protocols of the service. The SDK takes CBOR by itself, which no
// stand-in of the tests understands.
func CloudWatch(cfg aws.Config) *cloudwatch.Client {
	return cloudwatch.NewFromConfig(cfg, func(o *cloudwatch.Options) { o.Protocol = awsjson.New10(schemas.GraniteServiceVersion20100801) })
}
