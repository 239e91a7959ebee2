package marketplace

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/marketplacemetering"
	"github.com/aws/aws-sdk-go-v2/service/marketplacemetering/types"
	"github.com/aws/smithy-go"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
)

// API is the one operation that records are sent with. A call ends by itself: the Sender never cuts one short, because it may
// already have been billed. Errors are told apart by Classify.
type API interface {
	Call(ctx context.Context, c metering.Call) (metering.Answer, error)
}

// callTimeout bounds a call from its first byte to the last of its answer.
const callTimeout = 15 * time.Second

// Options are the settings of a Client.
type Options struct {
	Region   string // the service's Region; each deduplicates for itself
	Endpoint string // base address, empty for AWS
	// Credentials sign the calls. Nil sends them unsigned, which only a simulator takes.
	Credentials aws.CredentialsProvider
	// HTTPClient sends the calls. Nil is the SDK's own with a timeout of 15 s. Another must have a timeout too.
	HTTPClient aws.HTTPClient
	// ProductCode goes with calls of the legacy scheme; with licenses it must not be named.
	ProductCode string
}

// Client calls BatchMeterUsage through the AWS SDK, each call once: the Sender alone repeats, so that repeats are paced too.
type Client struct {
	sdk     *marketplacemetering.Client
	options Options
}

// New returns a Client. Settings that the SDK refuses show as the error of the first call.
func New(o Options) *Client {
	options := marketplacemetering.Options{
		Region:      o.Region,
		Credentials: o.Credentials,
		HTTPClient:  o.HTTPClient,
		Retryer:     aws.NopRetryer{},
	}
	if o.Endpoint != "" {
		options.BaseEndpoint = aws.String(o.Endpoint)
	}
	if o.Credentials == nil {
		options.Credentials = aws.AnonymousCredentials{}
	}
	if o.HTTPClient == nil {
		options.HTTPClient = awshttp.NewBuildableClient().WithTimeout(callTimeout).WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost = defaultInFlight // a call that finds no idle connection pays for a handshake
		})
	}
	options.HTTPClient = awsapi.KeepBodies(options.HTTPClient)
	return &Client{sdk: marketplacemetering.New(options), options: o}
}

// Call sends one BatchMeterUsage request. Its errors are the SDK's, wrapped, with a hint where a person can act.
func (c *Client) Call(ctx context.Context, call metering.Call) (metering.Answer, error) {
	in := &marketplacemetering.BatchMeterUsageInput{UsageRecords: make([]types.UsageRecord, len(call.Records))}
	if call.Legacy {
		in.ProductCode = text(c.options.ProductCode)
	}
	for i, u := range call.Records {
		record, err := requestRecord(u, call.Legacy)
		if err != nil {
			return metering.Answer{}, fmt.Errorf("call BatchMeterUsage: %w", err)
		}
		in.UsageRecords[i] = record
	}
	out, err := c.sdk.BatchMeterUsage(ctx, in)
	if err != nil {
		return metering.Answer{}, fmt.Errorf("call BatchMeterUsage: %w%s", err, hint(err, c.options))
	}
	return answer(out), nil
}

func answer(out *marketplacemetering.BatchMeterUsageOutput) metering.Answer {
	var a metering.Answer
	for _, r := range out.Results {
		result := metering.Result{Status: metering.Status(r.Status), RecordID: aws.ToString(r.MeteringRecordId)}
		if r.UsageRecord != nil {
			result.Usage = echoedRecord(*r.UsageRecord)
		}
		a.Results = append(a.Results, result)
	}
	for _, r := range out.UnprocessedRecords {
		a.Unprocessed = append(a.Unprocessed, echoedRecord(r))
	}
	return a
}

// requestRecord writes a record in the members of its scheme and no others: a call that carries both is refused (case 59).
func requestRecord(u metering.UsageRecord, legacy bool) (types.UsageRecord, error) {
	quantity, err := int32Of(u.Quantity)
	if err != nil {
		return types.UsageRecord{}, err
	}
	r := types.UsageRecord{
		Dimension: aws.String(u.Dimension),
		Quantity:  &quantity,
		Timestamp: aws.Time(u.Second.Time()),
	}
	if legacy {
		r.CustomerIdentifier = text(u.Identifier)
	} else {
		r.LicenseArn, r.CustomerAWSAccountId = text(u.License), text(u.Account)
	}
	for _, a := range u.Allocations {
		q, err := int32Of(a.Quantity)
		if err != nil {
			return types.UsageRecord{}, err
		}
		var tags []types.Tag // left out where there are none: an empty list is refused
		for _, t := range a.Tags {
			tags = append(tags, types.Tag{Key: aws.String(t.Key), Value: aws.String(t.Value)})
		}
		r.UsageAllocations = append(r.UsageAllocations, types.UsageAllocation{AllocatedUsageQuantity: &q, Tags: tags})
	}
	return r, nil
}

// echoedRecord reads what the service gave back, member by member: whatever it leaves out makes no match.
func echoedRecord(r types.UsageRecord) metering.UsageRecord {
	u := metering.UsageRecord{
		License:    aws.ToString(r.LicenseArn),
		Account:    aws.ToString(r.CustomerAWSAccountId),
		Identifier: aws.ToString(r.CustomerIdentifier),
		Dimension:  aws.ToString(r.Dimension),
		Quantity:   int64(aws.ToInt32(r.Quantity)),
	}
	if r.Timestamp != nil {
		u.Second = metering.Second(r.Timestamp.Unix())
	}
	for _, a := range r.UsageAllocations {
		allocation := metering.Allocation{Quantity: int64(aws.ToInt32(a.AllocatedUsageQuantity))}
		for _, t := range a.Tags {
			allocation.Tags = append(allocation.Tags, metering.Tag{Key: aws.ToString(t.Key), Value: aws.ToString(t.Value)})
		}
		u.Allocations = append(u.Allocations, allocation)
	}
	return u
}

// int32Of refuses what the API's integers cannot hold, rather than send another number.
func int32Of(n int64) (int32, error) {
	if n < 0 || n > math.MaxInt32 {
		return 0, &smithy.SerializationError{Err: fmt.Errorf("quantity %d is outside 0 to %d", n, math.MaxInt32)}
	}
	return int32(n), nil
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
