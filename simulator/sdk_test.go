package simulator_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/marketplacemetering"
	"github.com/aws/aws-sdk-go-v2/service/marketplacemetering/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/simulator"
)

// sdk is the Go SDK's client on a real socket, signing and all, without retries.
func sdk(t *testing.T, sim *simulator.Simulator) *marketplacemetering.Client {
	t.Helper()
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	return marketplacemetering.New(marketplacemetering.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(server.URL),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer:      aws.NopRetryer{},
	})
}

func sdkRecord(change func(*types.UsageRecord)) []types.UsageRecord {
	r := types.UsageRecord{
		CustomerAWSAccountId: aws.String(buyer),
		LicenseArn:           aws.String(licenseA),
		Dimension:            aws.String("api_calls"),
		Quantity:             aws.Int32(10),
		Timestamp:            aws.Time(time.Date(2026, 3, 10, 14, 0, 0, 0, time.UTC)),
	}
	if change != nil {
		change(&r)
	}
	return []types.UsageRecord{r}
}

func TestGoSDKBatchMeterUsage(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{})
	client := sdk(t, sim)
	sim.Inject(simulator.Fault{Kind: simulator.Unprocessed, Match: func(r simulator.Record) bool { return r.Dimension == "left" }})

	records := sdkRecord(func(r *types.UsageRecord) {
		r.Timestamp = aws.Time(r.Timestamp.Add(250 * time.Millisecond))
		r.UsageAllocations = []types.UsageAllocation{
			{AllocatedUsageQuantity: aws.Int32(4), Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("a b")}}},
			{AllocatedUsageQuantity: aws.Int32(6)},
		}
	})
	records = append(records, sdkRecord(func(r *types.UsageRecord) { r.Quantity = aws.Int32(11) })...)
	records = append(records, sdkRecord(func(r *types.UsageRecord) { r.Dimension = aws.String("left"); r.Quantity = nil })...)
	out, err := client.BatchMeterUsage(t.Context(), &marketplacemetering.BatchMeterUsageInput{UsageRecords: records})
	if err != nil {
		t.Fatal(err)
	}
	opts := cmp.Comparer(func(a, b types.UsageRecord) bool { return cmp.Equal(plain(a), plain(b)) })
	if diff := cmp.Diff(records[:2], []types.UsageRecord{*out.Results[0].UsageRecord, *out.Results[1].UsageRecord}, opts); diff != "" {
		t.Errorf("echoed results (-want +got):\n%s", diff)
	}
	if out.Results[0].Status != types.UsageRecordResultStatusSuccess || out.Results[1].Status != types.UsageRecordResultStatusDuplicateRecord ||
		aws.ToString(out.Results[0].MeteringRecordId) == "" {
		t.Errorf("results %+v", out.Results)
	}
	if diff := cmp.Diff(records[2:], out.UnprocessedRecords, opts); diff != "" {
		t.Errorf("unprocessed (-want +got):\n%s", diff)
	}

	identified, err := client.BatchMeterUsage(t.Context(), &marketplacemetering.BatchMeterUsageInput{
		ProductCode: aws.String(product),
		UsageRecords: sdkRecord(func(r *types.UsageRecord) {
			r.CustomerAWSAccountId, r.LicenseArn, r.CustomerIdentifier = nil, nil, aws.String("cust-1")
		}),
	})
	if err != nil || identified.Results[0].Status != types.UsageRecordResultStatusSuccess {
		t.Errorf("legacy call: %+v, %v", identified, err)
	}
}

// plain is a record without pointers, for comparing.
func plain(r types.UsageRecord) map[string]any {
	m := map[string]any{
		"account":   aws.ToString(r.CustomerAWSAccountId),
		"license":   aws.ToString(r.LicenseArn),
		"dimension": aws.ToString(r.Dimension),
		"quantity":  r.Quantity,
		"time":      r.Timestamp.UTC(),
	}
	for _, a := range r.UsageAllocations {
		m["allocations"] = append([]any{m["allocations"]}, *a.AllocatedUsageQuantity)
		for _, tag := range a.Tags {
			m["tags"] = append([]any{m["tags"]}, *tag.Key, *tag.Value)
		}
	}
	return m
}

func TestGoSDKResolveCustomer(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{})
	token := issue(t, sim, simulator.Token{AccountID: buyer, LicenseARN: licenseA, CustomerIdentifier: "cust-1"})
	out, err := sdk(t, sim).ResolveCustomer(t.Context(), &marketplacemetering.ResolveCustomerInput{RegistrationToken: aws.String(token)})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{aws.ToString(out.CustomerAWSAccountId), aws.ToString(out.LicenseArn), aws.ToString(out.CustomerIdentifier), aws.ToString(out.ProductCode)}
	if diff := cmp.Diff([]string{buyer, licenseA, "cust-1", product}, got); diff != "" {
		t.Errorf("resolved (-want +got):\n%s", diff)
	}
}

// Every exception of both operations arrives as the SDK's own type.
func TestGoSDKExceptions(t *testing.T) {
	t.Parallel()
	inject := func(k simulator.FaultKind) func(*simulator.Simulator) {
		return func(s *simulator.Simulator) { s.Inject(simulator.Fault{Kind: k}) }
	}
	with := func(change func(*types.UsageRecord)) *marketplacemetering.BatchMeterUsageInput {
		return &marketplacemetering.BatchMeterUsageInput{UsageRecords: sdkRecord(change)}
	}
	legacyCall := func(code, identifier string) *marketplacemetering.BatchMeterUsageInput {
		in := with(func(r *types.UsageRecord) {
			r.LicenseArn, r.CustomerAWSAccountId, r.CustomerIdentifier = nil, nil, aws.String(identifier)
		})
		in.ProductCode = aws.String(code)
		return in
	}
	tagged := func(sum int32, value string) *marketplacemetering.BatchMeterUsageInput {
		return with(func(r *types.UsageRecord) {
			r.UsageAllocations = []types.UsageAllocation{{AllocatedUsageQuantity: aws.Int32(sum), Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String(value)}}}}
		})
	}
	for _, tt := range []struct {
		name    string
		prepare func(*simulator.Simulator)
		input   *marketplacemetering.BatchMeterUsageInput
		typed   func(error) bool
	}{
		{"ThrottlingException", inject(simulator.Throttle), with(nil), is[*types.ThrottlingException]},
		{"InternalServiceErrorException", inject(simulator.InternalError), with(nil), is[*types.InternalServiceErrorException]},
		{"DisabledApiException", inject(simulator.Disabled), with(nil), is[*types.DisabledApiException]},
		{"InvalidProductCodeException", nil, legacyCall("other", "cust-1"), is[*types.InvalidProductCodeException]},
		{"InvalidCustomerIdentifierException", nil, legacyCall(product, "nobody"), is[*types.InvalidCustomerIdentifierException]},
		{"InvalidLicenseException", nil, with(func(r *types.UsageRecord) { r.LicenseArn = aws.String(licenseB) }), is[*types.InvalidLicenseException]},
		{"InvalidUsageDimensionException", func(s *simulator.Simulator) { s.UndefineDimension("api_calls") }, with(nil), is[*types.InvalidUsageDimensionException]},
		{"TimestampOutOfBoundsException", nil, with(func(r *types.UsageRecord) { r.Timestamp = aws.Time(r.Timestamp.AddDate(0, 0, -2)) }), is[*types.TimestampOutOfBoundsException]},
		{"InvalidTagException", nil, tagged(10, "é"), is[*types.InvalidTagException]},
		{"InvalidUsageAllocationsException", nil, tagged(9, "a"), is[*types.InvalidUsageAllocationsException]},
		{"ValidationException", nil, with(func(r *types.UsageRecord) { r.Quantity = aws.Int32(-1) }), is[*smithy.GenericAPIError]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sim, _ := service(t, simulator.Options{})
			if tt.prepare != nil {
				tt.prepare(sim)
			}
			_, err := sdk(t, sim).BatchMeterUsage(t.Context(), tt.input)
			wantAPIError(t, err, tt.name, tt.typed)
		})
	}
	for _, tt := range []struct {
		name    string
		prepare func(*simulator.Simulator) string
		typed   func(error) bool
	}{
		{"InvalidTokenException", func(*simulator.Simulator) string { return "nothing" }, is[*types.InvalidTokenException]},
		{"ExpiredTokenException", func(s *simulator.Simulator) string { return issue(t, s, simulator.Token{TTL: -1}) }, is[*types.ExpiredTokenException]},
		{"ThrottlingException", func(s *simulator.Simulator) string { inject(simulator.Throttle)(s); return "x" }, is[*types.ThrottlingException]},
		{"DisabledApiException", func(s *simulator.Simulator) string { inject(simulator.Disabled)(s); return "x" }, is[*types.DisabledApiException]},
		{"InternalServiceErrorException", func(s *simulator.Simulator) string { inject(simulator.InternalError)(s); return "x" }, is[*types.InternalServiceErrorException]},
	} {
		t.Run("ResolveCustomer "+tt.name, func(t *testing.T) {
			t.Parallel()
			sim, _ := service(t, simulator.Options{})
			token := tt.prepare(sim)
			_, err := sdk(t, sim).ResolveCustomer(t.Context(), &marketplacemetering.ResolveCustomerInput{RegistrationToken: &token})
			wantAPIError(t, err, tt.name, tt.typed)
		})
	}
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

func wantAPIError(t *testing.T, err error, code string, typed func(error) bool) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != code || api.ErrorMessage() == "" {
		t.Fatalf("error %v, want %s with a message", err, code)
	}
	if !typed(err) {
		t.Errorf("error %v is not of the SDK's type for %s", err, code)
	}
	if !strings.Contains(err.Error(), "RequestID: ") || strings.Contains(err.Error(), "RequestID: ,") {
		t.Errorf("error %q has no request id", err)
	}
}

// The in-process client under the SDK's own retries: the wire form decides what is retried.
func TestGoSDKRetries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind     simulator.FaultKind
		attempts int
		stored   int
	}{
		{simulator.Throttle, 3, 0},
		{simulator.InternalError, 3, 0},
		{simulator.LoseReply, 3, 1},
		{simulator.Disabled, 1, 0},
	} {
		sim, _ := service(t, simulator.Options{})
		client := marketplacemetering.New(marketplacemetering.Options{
			Region:       "us-east-1",
			BaseEndpoint: aws.String(simulator.Endpoint),
			HTTPClient:   sim.Client(),
			Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
			Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts = 3
				o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
			}),
		})
		sim.Inject(simulator.Fault{Kind: tt.kind})
		_, err := client.BatchMeterUsage(t.Context(), &marketplacemetering.BatchMeterUsageInput{UsageRecords: sdkRecord(nil)})
		if calls, stored := sim.Stats().Calls, len(sim.Ledger()); err == nil || calls != tt.attempts || stored != tt.stored {
			t.Errorf("%s: %d attempts and %d stored with error %v, want %d and %d", tt.kind, calls, stored, err, tt.attempts, tt.stored)
		}
		sim.ClearFaults()
		if _, err := client.BatchMeterUsage(t.Context(), &marketplacemetering.BatchMeterUsageInput{UsageRecords: sdkRecord(nil)}); err != nil {
			t.Errorf("%s: the call after it: %v", tt.kind, err)
		}
	}
}
