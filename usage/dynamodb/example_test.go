package dynamodb_test

import (
	"context"
	"log"
	"time"

	"github.com/awsmp/metering/usage"
	"github.com/awsmp/metering/usage/dynamodb"
)

// A program of the seller writes what its customers have used, into the stack of product code acme123.
func Example() {
	ctx := context.Background()
	table, err := dynamodb.Open(ctx, "acme123", "us-east-1", dynamodb.Options{WritesPerSecond: 100})
	if err != nil {
		log.Fatal(err) // it says what to do
	}
	writer, err := usage.NewWriter(table, usage.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = writer.Add(ctx, usage.Event{
		License: "arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef", Account: "444455556666",
		Dimension: "api_calls", Time: time.Now(), Quantity: 2,
	})
	if err != nil {
		log.Print(err)
	}
	if err := writer.Close(ctx); err != nil { // it tells every row that was not simply written
		log.Print(err)
	}
}
