// Package stack is a deployed metering stack as the place of an operator's desk: its tables, its queues and functions and what watches them, and those
// of the events stack beside it. It works under the operator's own credentials; docs/operations.md lists what they have to allow.
package stack

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

// Options are the settings of Open. The zero value works.
type Options struct {
	// Config is the configuration of the clients of a Region, of the environment's where the name is empty; nil means awsapi.Config.
	Config func(ctx context.Context, region string) (aws.Config, error)
	// Announce is told the price of each scan before it begins; an error ends it there. Nil tells nobody.
	Announce func(dynamodb.ScanPrice) error
	// ScanUnits is how many read units a second a scan takes; 0 means dynamodb.DefaultScanUnits.
	ScanUnits int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Stack is a metering stack that was found. It is safe for concurrent use.
type Stack struct {
	Name, Region string
	ProductCode  string
	Direct       bool           // of direct-submit: there are no queues, and no usage table but one that a switch of the mode left behind
	DryRun       bool           // it calls no Marketplace
	Paused       bool           // it sends nothing
	Rules        metering.Rules // its lock
	Parameters   map[string]string
	Outputs      map[string]string
	Resources    map[string]string // physical IDs by logical ID

	Rows        *dynamodb.Rows // nil where there is no usage table
	Records     *dynamodb.Records
	Subscribers *dynamodb.Subscribers
	Ledger      *dynamodb.Ledger // Rows and Records, with what scans them

	id     string  // ARN of the stack
	status string  // as CloudFormation names it
	here   clients // of the stack's Region
	events clients // of the events stack's
	now    func() time.Time
	alone  bool // there is no events stack to look at
}

var _ desk.Plant = (*Stack)(nil)

// Open finds a metering stack by its name, in a Region or in that of the environment, and reads what it was deployed with. What is not there, is no metering
// stack or is not made yet is an *awsapi.Error that says so, with what helps.
func Open(ctx context.Context, name, region string, o Options) (*Stack, error) {
	if o.Config == nil {
		o.Config = awsapi.Config
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	cfg, err := o.Config(ctx, region)
	if err != nil {
		return nil, err
	}
	s := &Stack{Name: name, Region: cfg.Region, here: newClients(cfg), now: o.Now}
	described, err := s.describe(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.read(ctx, described); err != nil {
		return nil, err
	}
	if s.Resources, err = resources(ctx, s.here.cloudformation, name); err != nil {
		return nil, awsapi.Wrap("list the stack's resources", name, err)
	}
	away, err := o.Config(ctx, s.eventsRegion())
	if err != nil {
		return nil, err
	}
	s.events = newClients(away)
	if err := s.openTables(ctx, o); err != nil {
		return nil, err
	}
	return s, nil
}

// openTables builds the adapters of the tables. In direct-submit there is a usage table only where the stack was of the other mode before.
func (s *Stack) openTables(ctx context.Context, o Options) error {
	usage, hasRows := s.physical("UsageTable", s.named("usage", always)), true
	if s.Direct {
		_, err := s.here.dynamodb.DescribeTable(ctx, &dynamosdk.DescribeTableInput{TableName: &usage})
		if err != nil && !gone(err) {
			return awsapi.Wrap("look for a usage table", usage, err)
		}
		hasRows = err == nil
	}
	s.Records = dynamodb.NewRecords(s.here.dynamodb, s.physical("AggregatedUsageTable", s.named("aggregated-usage", always)), dynamodb.Options{})
	s.Subscribers = dynamodb.NewSubscribers(s.events.dynamodb, s.subscribersTable())
	if hasRows {
		s.Rows = dynamodb.NewRows(s.here.dynamodb, usage, dynamodb.Options{})
	}
	s.Ledger = &dynamodb.Ledger{Rows: s.Rows, Records: s.Records, Announce: o.Announce, ScanUnits: o.ScanUnits}
	return nil
}

// Desk is the desk at the stack.
func (s *Stack) Desk() *desk.Desk {
	return &desk.Desk{
		Name: "stack " + s.Name + " in " + s.Region, Flags: " --stack " + s.Name + " --region " + s.Region,
		Tables: s.deskTables(), Plant: s, ProductCode: s.ProductCode, Rules: s.Rules, DryRun: s.DryRun, Paused: s.Paused, Direct: s.Direct, Now: s.now,
	}
}

// physical is the physical ID of a resource, or the name that the template gives it where the stack does not list it.
func (s *Stack) physical(logical, name string) string {
	if id := s.Resources[logical]; id != "" {
		return id
	}
	return name
}

// parameter is a parameter of the stack, or what stands for it in a stack of a template that has none.
func (s *Stack) parameter(name, otherwise string) string {
	if value, there := s.Parameters[name]; there {
		return value
	}
	return otherwise
}

// subscribersTable and eventsRegion are where the subscribers are.
func (s *Stack) subscribersTable() string {
	return s.parameter("SubscribersTableName", "awsmp-subscribers")
}
func (s *Stack) eventsRegion() string { return s.parameter("SubscribersTableRegion", "us-east-1") }

// account and partition are those of the stack, out of its ARN.
func (s *Stack) account() string   { return arnPart(s.id, 4) }
func (s *Stack) partition() string { return arnPart(s.id, 1) }

// arnPart is a part of an ARN: arn:partition:service:region:account:…
func arnPart(arn string, i int) string {
	if parts := strings.SplitN(arn, ":", 6); i < len(parts) {
		return parts[i]
	}
	return ""
}

// resources are the physical IDs of a stack's resources by logical ID.
func resources(ctx context.Context, client *cloudformation.Client, name string) (map[string]string, error) {
	found := make(map[string]string)
	pages := cloudformation.NewListStackResourcesPaginator(client, &cloudformation.ListStackResourcesInput{StackName: &name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.StackResourceSummaries {
			if logical := aws.ToString(r.LogicalResourceId); logical != "" { // moto lists what it did not make without a name
				found[logical] = aws.ToString(r.PhysicalResourceId)
			}
		}
	}
	return found, nil
}
