package simulator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/marketplacemetering"
	"github.com/aws/aws-sdk-go-v2/service/marketplacemetering/types"

	"github.com/awsmp/metering/simulator"
)

var exampleNow = time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)

func exampleUsage(quantity int32) *marketplacemetering.BatchMeterUsageInput {
	return &marketplacemetering.BatchMeterUsageInput{UsageRecords: []types.UsageRecord{{
		CustomerAWSAccountId: aws.String("111122223333"),
		LicenseArn:           aws.String("arn:aws:license-manager::111122223333:license:l-1"),
		Dimension:            aws.String("api_calls"),
		Quantity:             aws.Int32(quantity),
		Timestamp:            aws.Time(exampleNow.Truncate(time.Hour)),
	}}}
}

// The AWS SDK for Go on a socket, as an application under test would use it.
func Example() {
	sim, err := simulator.New(simulator.Options{
		OpenDoors: true, // any well-formed license is active
		Now:       func() time.Time { return exampleNow },
	})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(sim)
	defer server.Close()

	client := marketplacemetering.New(marketplacemetering.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(server.URL),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	for _, quantity := range []int32{10, 10, 12} {
		out, err := client.BatchMeterUsage(context.Background(), exampleUsage(quantity))
		if err != nil {
			panic(err)
		}
		fmt.Println(quantity, out.Results[0].Status)
	}
	// Output:
	// 10 Success
	// 10 Success
	// 12 DuplicateRecord
}

// A reply is lost after the usage was stored: the caller cannot know, sends the same again and hears Success. Nothing is
// billed twice. Client needs no socket.
func ExampleSimulator_Inject() {
	sim, err := simulator.New(simulator.Options{OpenDoors: true, Now: func() time.Time { return exampleNow }})
	if err != nil {
		panic(err)
	}
	client := marketplacemetering.New(marketplacemetering.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(simulator.Endpoint),
		HTTPClient:   sim.Client(),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer:      aws.NopRetryer{},
	})
	sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})

	_, err = client.BatchMeterUsage(context.Background(), exampleUsage(10))
	fmt.Println("connection broken:", errors.Is(err, simulator.ErrConnection), "- hours billed:", len(sim.Ledger()))
	out, err := client.BatchMeterUsage(context.Background(), exampleUsage(10))
	if err != nil {
		panic(err)
	}
	fmt.Println(out.Results[0].Status, "- hours billed:", len(sim.Ledger()))
	// Output:
	// connection broken: true - hours billed: 1
	// Success - hours billed: 1
}

// Reading the ledger back, whole or one hour of it.
func ExampleSimulator_Ledger() {
	const license = "arn:aws:license-manager::111122223333:license:l-1"
	sim, err := simulator.New(simulator.Options{Now: func() time.Time { return exampleNow }})
	if err != nil {
		panic(err)
	}
	if err := sim.PutLicense(simulator.License{ARN: license, AccountID: "111122223333"}); err != nil {
		panic(err)
	}
	client := marketplacemetering.New(marketplacemetering.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(simulator.Endpoint),
		HTTPClient:   sim.Client(),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	if _, err := client.BatchMeterUsage(context.Background(), exampleUsage(10)); err != nil {
		panic(err)
	}

	for _, b := range sim.Ledger() {
		fmt.Println(b.AccountID, b.Dimension, b.Hour.Format("2006-01-02T15"), b.Quantity)
	}
	b, ok := sim.Billed(license, "111122223333", "api_calls", exampleNow)
	fmt.Println(b.Quantity, ok)
	fmt.Println(sim.Stats().Statuses)
	// Output:
	// 111122223333 api_calls 2026-03-10T15 10
	// 10 true
	// map[Success:1]
}
