// Command toy is a function that does as its event says.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

func main() {
	switch os.Getenv("TOY_INIT") {
	case "exit":
		fmt.Fprintln(os.Stderr, "toy: a setting is missing")
		os.Exit(3)
	case "report":
		r, err := http.Post("http://"+os.Getenv("AWS_LAMBDA_RUNTIME_API")+"/2018-06-01/runtime/init/error", "application/json",
			strings.NewReader(`{"errorType":"Toy.Broken","errorMessage":"told to report"}`))
		if err != nil || r.StatusCode != http.StatusAccepted {
			os.Exit(4)
		}
		os.Exit(1)
	case "hang":
		time.Sleep(time.Hour)
	}
	switch handler := os.Getenv("_HANDLER"); handler {
	case "act":
		lambda.Start(act)
	case "batch":
		lambda.Start(batch)
	default:
		fmt.Fprintf(os.Stderr, "toy: unknown handler %q\n", handler)
		os.Exit(2)
	}
}

type request struct {
	Do string `json:"do"`
}

type report struct {
	PID        int
	RequestID  string
	ARN        string
	LeftMS     int64
	Env        map[string]string
	Region     string
	Invocation int
}

var invocations int

func act(ctx context.Context, r request) (any, error) {
	invocations++
	switch r.Do {
	case "fail":
		return nil, errors.New("told to fail")
	case "panic":
		panic("told to panic")
	case "exit":
		os.Exit(7)
	case "hang":
		fmt.Println("hanging")
		time.Sleep(time.Hour)
	case "spin":
		var used syscall.Rusage // the time of the core, of which a loaded machine gives little
		for used.Utime.Nano()+used.Stime.Nano() < int64(50*time.Millisecond) {
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
				return report{}, err
			}
		}
	}
	deadline, _ := ctx.Deadline()
	lc, _ := lambdacontext.FromContext(ctx)
	fmt.Println("acted")
	return report{
		PID: os.Getpid(), RequestID: lc.AwsRequestID, ARN: lc.InvokedFunctionArn, LeftMS: time.Until(deadline).Milliseconds(),
		Env:    map[string]string{"own": os.Getenv("TOY_OWN"), "home": os.Getenv("HOME"), "name": lambdacontext.FunctionName},
		Region: os.Getenv("AWS_REGION"), Invocation: invocations,
	}, nil
}

// batch answers with the response that stands in the first body, where $id is the first message's, or fails.
func batch(_ context.Context, e events.SQSEvent) (any, error) {
	first := e.Records[0]
	fmt.Printf("batch of %d, first %q received %s\n", len(e.Records), first.Body, first.Attributes["ApproximateReceiveCount"])
	switch first.Body {
	case "error":
		return nil, errors.New("told to fail")
	case "exit":
		os.Exit(7)
	case "not JSON":
		return strings.NewReader("done"), nil
	case "nothing":
		return strings.NewReader(""), nil
	}
	return json.RawMessage(os.Expand(first.Body, func(name string) string {
		if name == "id" {
			return first.MessageId
		}
		return ""
	})), nil
}
