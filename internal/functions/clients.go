package functions

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/marketplacemetering"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/awsmp/metering/internal/marketplace"
)

// clients are the clients of AWS services that a function has built: each when a stage first asks for it, so that none pays for
// one that it does not use (F46).
type clients struct {
	config aws.Config

	tables map[string]*dynamodb.Client // by Region
	queues *sqs.Client
	meter  *marketplace.Client
}

// table is the DynamoDB client of a Region.
func (c *clients) table(region string) *dynamodb.Client {
	if c.tables == nil {
		c.tables = make(map[string]*dynamodb.Client)
	}
	if c.tables[region] == nil {
		c.tables[region] = dynamodb.NewFromConfig(c.config, func(o *dynamodb.Options) { o.Region = region })
	}
	return c.tables[region]
}

func (c *clients) queue() *sqs.Client {
	if c.queues == nil {
		c.queues = sqs.NewFromConfig(c.config)
	}
	return c.queues
}

// metering is the client of the Metering Service. It has an HTTP client of its own, with a timeout of 15 s, and never repeats a
// call: the Sender does, at its pace.
func (c *clients) metering(productCode string) *marketplace.Client {
	if c.meter == nil {
		// Only the SDK itself knows which endpoint the environment names for this service.
		endpoint := marketplacemetering.NewFromConfig(c.config).Options().BaseEndpoint
		c.meter = marketplace.New(marketplace.Options{
			Region: c.config.Region, Endpoint: aws.ToString(endpoint), Credentials: c.config.Credentials, ProductCode: productCode,
		})
	}
	return c.meter
}

// built names them, for the log.
func (c *clients) built() []string {
	var names []string
	for region := range c.tables {
		names = append(names, "dynamodb/"+region)
	}
	slices.Sort(names)
	if c.queues != nil {
		names = append(names, "sqs/"+c.config.Region)
	}
	if c.meter != nil {
		names = append(names, "metering/"+c.config.Region)
	}
	return names
}
