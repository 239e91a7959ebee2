package local_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/awsmp/metering/usage"
	"github.com/awsmp/metering/usage/local"
)

// A program on the machine where awsmp dev runs writes what its customers have used.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "awsmp-data-") // the folder of awsmp dev, as in awsmp dev --data DIR
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	table, err := local.Open(ctx, dir)
	if err != nil {
		fmt.Println(err) // it says what to do
		return
	}
	defer table.Close()
	writer, err := usage.NewWriter(table, usage.Options{Now: table.Now})
	if err != nil {
		fmt.Println(err)
		return
	}
	event := usage.Event{
		License: "arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef", Account: "444455556666",
		Dimension: "api_calls", Time: table.Now().Truncate(time.Minute), Quantity: 2,
	}
	for range 3 { // they become one row of 6
		if err := writer.Add(ctx, event); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("closed:", writer.Close(ctx))
	// Output: closed: <nil>
}
