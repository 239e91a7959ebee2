package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/eventbus"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/lifecycle"
)

// sentEvent is an event that a bus has taken.
type sentEvent struct {
	Type string `json:"detailType"`
	ID   string `json:"id"` // which the bus gave it
}

// toStage sends the events to a dry-run stage, if it takes all of them.
func (f *sendFlags) toStage(ctx context.Context, out io.Writer, text []byte) error {
	events, err := f.forStage(text)
	if err != nil {
		return err
	}
	config, err := awsapi.Config(ctx, f.region)
	if err != nil {
		return onAWS(err)
	}
	stage, err := eventbus.ReadStage(ctx, lambda.NewFromConfig(config), f.function)
	if err != nil {
		return onAWS(err)
	}
	for _, e := range events {
		if err := stage.Allows(f.event.Stage, e.Account()); err != nil {
			return onAWS(fmt.Errorf("nothing was sent: %w", err))
		}
	}
	bus := eventbridge.NewFromConfig(config)
	sent := []sentEvent{}
	for _, e := range events {
		id, err := eventbus.Put(ctx, bus, f.bus, e)
		if err != nil {
			if len(events) > 1 {
				err = fmt.Errorf("%d of %d events were sent: %w", len(sent), len(events), err)
			}
			return onAWS(err)
		}
		sent = append(sent, sentEvent{e.Type, id})
	}
	if f.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Stage    string      `json:"stage"`
			Region   string      `json:"region"`
			Bus      string      `json:"bus"`
			Function string      `json:"function"`
			Events   []sentEvent `json:"events"`
		}{f.event.Stage, f.region, f.bus, f.function, sent})
	}
	for _, e := range sent {
		fmt.Fprintf(out, "%s: event %s\n", e.Type, e.ID)
	}
	_, err = fmt.Fprintf(out, "Sent %s to stage %s, on the bus %s in %s. What became of it:\n  aws logs tail /aws/lambda/%s --region %s --since 5m\n",
		ledger.Counted(int64(len(sent)), "event"), f.event.Stage, f.bus, f.region, functionName(f.function), f.region)
	return err
}

// functionName is the name of a function, as its log group has it. Lambda takes an ARN and a part of one in its place, each with an alias
// or a version behind it too (AWS Lambda API reference, GetFunctionConfiguration).
func functionName(function string) string {
	if _, name, found := strings.Cut(function, ":function:"); found {
		function = name
	}
	name, _, _ := strings.Cut(function, ":")
	return name
}

// forStage reads the events, and refuses those that are not of the stage: with the Marketplace's own source they would be taken for real by
// every stage of the account.
func (f *sendFlags) forStage(text []byte) ([]eventbus.Event, error) {
	list := []json.RawMessage{text}
	if text = bytes.TrimSpace(text); bytes.HasPrefix(text, []byte("[")) {
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, err
		}
	}
	again := fmt.Sprintf("awsmp events send license-updated --stage %s --print shows one", f.event.Stage)
	events := make([]eventbus.Event, len(list))
	for i, one := range list {
		e, err := eventbus.Read(one)
		if err == nil && e.Source != lifecycle.TestSource(f.event.Stage) {
			err = fmt.Errorf("its source is %q, and must be %q for a stage", e.Source, lifecycle.TestSource(f.event.Stage))
		}
		if err != nil {
			return nil, &failure{exitError, fmt.Errorf("nothing was sent: event %d: %w", i+1, err), again}
		}
		events[i] = e
	}
	return events, nil
}

// onAWS is a failure with the hint of what it failed with.
func onAWS(err error) error {
	var refusal *eventbus.Refusal
	var called *awsapi.Error
	switch {
	case errors.As(err, &refusal):
		return &failure{exitError, err, refusal.Hint}
	case errors.As(err, &called): // it says its hint itself
		return &failure{code: exitError, err: err}
	}
	return err
}
